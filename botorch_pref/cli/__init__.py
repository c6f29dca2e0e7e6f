r"""The command line, ``botorch-pref``.

What takes long to import is imported where it is used, so that help is immediate.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from botorch_pref import __version__
from botorch_pref.cli.errors import INTERRUPTED, UsageError

__all__ = ["main"]

STRATEGIES = {"pf-ts": "two independent Thompson draws of the utility, one an item"}
# Each is a module of botorch_pref.benchmarks with a command line of its own.
EXPERIMENTS = {"defaults": "closed_loop", "pf-ts": "pf_ts", "tempering": "tempering"}

_DESCRIPTION = "Bayesian optimisation from people's judgements, on BoTorch."
_EXAMPLES = """\
examples:
  botorch-pref run catalyst --strategy pf-ts --horizon 100 --seed 0
  botorch-pref run ackley --dim 2 --horizon 60
  botorch-pref speed
  botorch-pref run --help          the problems, the strategies, all options
"""
_RUN = """\
Simulate a strategy on a problem whose utility is known: a simulated judge answers each duel,
the better item winning with probability 1 / (1 + exp(-difference of utility)). Prints the
recommended item and the regret; saves the history (CSV) and a regret plot (PNG).
"""


class _Parser(argparse.ArgumentParser):
    """Errors in one line, and an epilog that is only written when it is read."""

    def __init__(self, *args: Any, late_epilog: Callable[[], str] | None = None, **kwargs: Any):
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(*args, **kwargs)
        self._late_epilog = late_epilog

    def format_help(self) -> str:
        if self._late_epilog is not None:
            self.epilog = self._late_epilog()
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def main(argv: Sequence[str] | None = None) -> int:
    r"""Run the command line.

    Args:
        argv: The arguments; those of the process if omitted.

    Returns:
        The exit status: 0, or 130 after Ctrl-C.

    Raises:
        SystemExit: With status 2, after one line on standard error, if something cannot
            be done as asked; with status 0 after help.
    """
    parser = _parser()
    args = parser.parse_args(argv)
    try:
        status: int = args.handler(args)
    except UsageError as error:
        message = " ".join(str(error).split())
        parser.exit(2, f"{parser.prog} {args.command}: error: {message}\n")
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    return status


def _parser() -> _Parser:
    parser = _Parser(prog="botorch-pref", description=_DESCRIPTION, epilog=_EXAMPLES)
    parser.add_argument("--version", action="version", version=f"botorch-pref {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_run(commands)
    speed = commands.add_parser(
        "speed",
        help="time this package's model beside BoTorch's PairwiseGP",
        description="Time PreferenceGP beside BoTorch's PairwiseGP in one run: same kernel, "
        "priors, link and start.",
    )
    speed.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="default: cpu")
    speed.add_argument("--threads", type=_count, default=1, metavar="N", help="default: 1")
    speed.add_argument("--quick", action="store_true", help="smaller problems, fewer repetitions")
    speed.set_defaults(handler=_speed)
    bench = commands.add_parser(
        "bench",
        help="repeat an experiment and print its table",
        description="Repeat an experiment and print its table. `defaults`: the closed loops that "
        "chose the default kernel and priors; `pf-ts`: the experiments of the PF-TS paper.",
    )
    bench.add_argument("experiment", choices=tuple(EXPERIMENTS))
    bench.add_argument(
        "arguments",
        nargs=argparse.REMAINDER,
        help="the experiment's own options, such as --help",
    )
    bench.set_defaults(handler=_bench)
    return parser


def _add_run(commands: Any) -> None:
    run = commands.add_parser(
        "run",
        help="simulate a strategy on a problem",
        description=_RUN,
        late_epilog=_problems_and_strategies,
    )
    run.add_argument("problem", help="one of the problems below")
    run.add_argument(
        "--strategy", default="pf-ts", metavar="NAME", help="one of those below; default: pf-ts"
    )
    run.add_argument(
        "--horizon", type=_count, default=100, metavar="N", help="number of duels; default: 100"
    )
    run.add_argument(
        "--seed", type=_seed, default=0, metavar="N", help="of judge and strategy; default: 0"
    )
    run.add_argument(
        "--preset",
        choices=("practical", "paper"),
        default="practical",
        help="practical: hyperparameters are learnt, no item meets itself; paper: as published, "
        "with everything fixed; default: practical",
    )
    run.add_argument("--dim", type=_count, metavar="D", help="dimension, where it can be chosen")
    run.add_argument(
        "--num-choices", type=_count, metavar="N", help="a grid in place of the box (ackley, rkhs)"
    )
    run.add_argument(
        "--dedupe", choices=("keep", "mean"), help="repeated measurements (catalyst); default: keep"
    )
    run.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder for history.csv and regret.png, which are replaced if they are there; "
        "default: botorch_pref_runs/PROBLEM-STRATEGY-seedN",
    )
    run.add_argument(
        "--threads",
        type=_count,
        default=1,
        metavar="N",
        help="threads of torch, more than one of which slow small problems down; default: 1",
    )
    run.add_argument("--quiet", action="store_true", help="no progress bar")
    run.set_defaults(handler=_run)


def _run(args: argparse.Namespace) -> int:
    if args.strategy not in STRATEGIES:
        names = ", ".join(STRATEGIES)
        raise UsageError(f"unknown strategy {args.strategy!r}; there are {names}.")
    from botorch_pref.cli.run import run

    return run(args)


def _problems_and_strategies() -> str:
    import textwrap

    from botorch_pref.problems import problem_names

    problems = textwrap.fill(
        ", ".join(problem_names()), 90, initial_indent="  ", subsequent_indent="  "
    )
    strategies = "\n".join(f"  {name}    {what}" for name, what in STRATEGIES.items())
    return f"problems:\n{problems}\n\nstrategies:\n{strategies}\n"


def _count(text: str) -> int:
    """A whole number, at least 1."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number, at least 1, not {text!r}")
    return int(text)


def _seed(text: str) -> int:
    """A whole number in ``[0, 2**63)``."""
    if not text.isascii() or not text.isdigit() or int(text) >= 2**63:
        raise argparse.ArgumentTypeError(f"must be a whole number, at least 0, not {text!r}")
    return int(text)


def _speed(args: argparse.Namespace) -> int:
    from botorch_pref.benchmarks.speed import speed_table, speed_text
    from botorch_pref.exceptions import UnsupportedError

    try:
        table = speed_table(device=args.device, quick=args.quick, threads=args.threads)
    except UnsupportedError as error:
        raise UsageError(str(error)) from error
    print(speed_text(table))
    return 0


def _bench(args: argparse.Namespace) -> int:
    module = import_module(f"botorch_pref.benchmarks.{EXPERIMENTS[args.experiment]}")
    status: int = module.main(args.arguments)
    return status
