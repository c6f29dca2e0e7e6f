r"""The command line, ``botorch-pref``.

What takes long to import is imported where it is used, so that help is immediate.
"""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from botorch_pref import __version__
from botorch_pref.cli.parser import INTERRUPTED, Parser, UsageError, count, seed
from botorch_pref.progress import notice, quiet

__all__ = ["main"]

_DESCRIPTION = "Bayesian optimisation from people's judgements, on BoTorch."
_EXAMPLES = """\
examples:
  botorch-pref run catalyst --horizon 100 --seed 0
  botorch-pref run ackley --dim 2 --horizon 60
  botorch-pref ask study.json --bounds "milk (ml):0:80,roast:{light|dark}"
  botorch-pref advise study.json --bounds "milk (ml):0:80,temperature (C):60:96"
  botorch-pref rank duels.csv
  botorch-pref run --help          the problems, the strategies, all options
"""
_RUN = """\
Simulate a strategy on a problem whose utility is known: a simulated judge answers its queries.
In a duel the better item wins with probability 1 / (1 + exp(-difference of utility)); a strategy
that measures is told the value of an item with normal noise, of standard deviation 1. Prints
the recommended item and the regret; saves the history (CSV) and a regret plot (PNG).
"""
_ASK = """\
Optimise with a person, who is shown two items side by side and says which is better: 1, 2, or =
for no preference; with --question, which of several is the best, in which order they are, or by
how much one is better. The study is saved after every answer: leave with q or Ctrl-C at any time,
and give the same command again, or the file alone, to go on. It ends with a recommendation, how
sure that is, and a plot beside the study. Answers may be piped in, one a line.
"""
_ASK_EXAMPLES = """\
examples:
  botorch-pref ask study.json --bounds "milk (ml):0:80,shots:1:4:int,roast:{light|dark}"
  botorch-pref ask study.json --choices recipes.csv --strategy eubo
  botorch-pref ask study.json
"""
_ADVISE = """\
Run COBOL (Xu et al. 2024b) with a person: it proposes items and asks, where an opinion helps,
whether one is acceptable; what is not rejected is to be measured, and the value typed in.
Values are maximised. The study is saved after every answer: leave with q or Ctrl-C at any
time, and give the same command again, or the file alone, to go on.
"""
_ADVISE_EXAMPLE = """\
example:
  botorch-pref advise study.json --bounds "milk (ml):0:80,temperature (C):60:96"
"""
_RANK = """\
Rank items by their duels, players or language models for example, of which nothing else is known.
Prints each item's utility and rank with 95 % intervals, and how reliable annotators are, and
saves a plot beside the file. Items whose order is not known have the same rank. Utilities are
above the mean of all, in logits: the better of two items one unit apart wins 73 % of their duels.
"""
_RANK_EXAMPLES = """\
the columns of the file, in any order beside others:
  winner,loser            or  winner,loser,annotator
  first,second,answer     or  first,second,answer,annotator
an answer is 1 (the first is better), 0 (the second) or 0.5 (neither); an annotator may be empty.

example:
  botorch-pref rank duels.csv
"""


_MODULES = {"run": "run", "rank": "rank", "serve": "serve"}
_SERVE = """\
Show a study to people in their browsers: they join by a link or a QR code, and say which is better
by click, touch or key. Everybody's answers are saved at once. The page of the study's owner, whose
address is printed, has results, the invitation, and the export of all answers. Ctrl-C ends it;
`botorch-pref serve STUDY` continues it.
"""


def main(argv: Sequence[str] | None = None) -> int:
    r"""Run the command line, with the arguments of the process by default.

    Returns:
        The exit status, 0, 130 after Ctrl-C, or 1 where nobody reads the output any more.

    Raises:
        SystemExit: With status 2, after one line on standard error, if something cannot
            be done as asked; with status 0 after help.
    """
    parser = Parser(prog="botorch-pref", description=_DESCRIPTION, epilog=_EXAMPLES)
    parser.add_argument("--version", action="version", version=f"botorch-pref {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_run(commands)
    _add_comparing(
        commands,
        "ask",
        help="optimise with a person at the terminal, who says which of two items is better",
        description=_ASK,
    )
    _add_serve(commands)
    _add_advise(commands)
    _add_rank(commands)
    for command in commands.choices.values():
        command.add_argument("--quiet", action="store_true", help="show no progress")
    args = parser.parse_args(argv)
    if wrong := [name for name, value in vars(args).items() if value == []]:
        parser.error(f"argument --{wrong[0]}: '--' is no value")  # which argparse drops
    try:
        with quiet(args.quiet):
            with notice("starting ..."):
                module = import_module(f"{__name__}.{_MODULES.get(args.command, 'session')}")
            status: int = getattr(module, args.command)(args)
    except UsageError as error:
        message = " ".join(str(error).split())
        parser.exit(2, f"{parser.prog} {args.command}: error: {message}\n")
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # as of `| head`; nothing is written at exit, either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status


def _add_run(commands: Any) -> None:
    run = commands.add_parser(
        "run",
        help="simulate a strategy on a problem",
        description=_RUN,
        late_epilog=_problems_and_strategies,
    )
    run.add_argument("problem", help="one of the problems below")
    run.add_argument("--strategy", metavar="NAME", help="one of the strategies below")
    run.add_argument(
        "--horizon",
        type=count,
        default=100,
        metavar="N",
        help="number of queries: duels, or values where the strategy measures; default: 100",
    )
    run.add_argument(
        "--seed", type=seed, default=0, metavar="N", help="of judge and strategy; default: 0"
    )
    run.add_argument(
        "--preset",
        choices=("practical", "paper"),
        default="practical",
        help="practical: hyperparameters are learnt, no item meets itself; paper: as published, "
        "with everything fixed; default: practical",
    )
    run.add_argument("--dim", type=count, metavar="D", help="dimension, where it can be chosen")
    run.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder for history.csv and regret.png, which are replaced if they are there; "
        "default: botorch_pref_runs/PROBLEM-STRATEGY-seedN",
    )


def _add_serve(commands: Any) -> None:
    serve = _add_comparing(
        commands, "serve", help="show a study to people in their browsers", description=_SERVE
    )
    serve.add_argument(
        "--media",
        type=Path,
        metavar="DIR",
        help="folder of pictures, sounds, videos or texts, which a column of --choices names",
    )
    serve.add_argument(
        "--template", type=Path, metavar="SVG", help="a picture with {{ item.NAME }} for values"
    )
    serve.add_argument("--title", default="", metavar="TEXT", help="of a new study")
    serve.add_argument("--prompt", metavar="TEXT", help="what people are asked")
    serve.add_argument("--language", metavar="CODE", help="of all pages: en or de")
    serve.add_argument("--per-person", type=count, metavar="N", help="how many questions each")
    serve.add_argument(
        "--database",
        metavar="URL",
        help="instead of a file, as postgresql+psycopg://USER:PASSWORD@HOST/NAME; each time",
    )
    serve.add_argument("--host", default="127.0.0.1", help="0.0.0.0 for all devices of the network")
    serve.add_argument("--port", type=count, default=8000, metavar="N", help="default: 8000")


def _add_comparing(commands: Any, name: str, **texts: Any) -> Parser:
    """Add a command of studies that compare."""
    ask = _add_study_command(
        commands,
        name,
        bounds="the dimensions of a new study: NAME (UNIT):LOW:HIGH for a number, with :int behind "
        "it for a whole one and :log for a logarithmic scale; NAME:{A|B|C} for a category",
        late_epilog=_duelling_strategies,
        **texts,
    )
    ask.add_argument(
        "--choices",
        type=Path,
        metavar="CSV",
        help="instead: the table of a new study's items, a header and a row for each; columns "
        "that are not numbers are categories",
    )
    ask.add_argument(
        "--strategy", metavar="NAME", help="of a new study: one of the strategies below"
    )
    ask.add_argument(
        "--question",
        metavar="TEXT",
        help='of a new study: "best of 4", "rank 3" or "grade 5", with other numbers of items '
        "or grades; default: duel",
    )
    ask.add_argument(
        "--horizon",
        type=count,
        metavar="N",
        help="number of duels that mr-lpf is to plan for, of which it asks fewer if a single "
        "item is left before; default: 50",
    )
    return ask


def _add_advise(commands: Any) -> None:
    advise = _add_study_command(
        commands,
        "advise",
        help="optimise with an expert at the terminal, who accepts, rejects and measures items",
        bounds="name, unit, lower and upper bound of each dimension, as in the example, or as "
        "`botorch-pref ask --help` says; needed to begin a study",
        description=_ADVISE,
        epilog=_ADVISE_EXAMPLE,
    )
    advise.set_defaults(choices=None)


def _add_rank(commands: Any) -> None:
    rank = commands.add_parser(
        "rank",
        help="rank items without features, such as players or models, by a table of duels",
        description=_RANK,
        epilog=_RANK_EXAMPLES,
    )
    rank.add_argument("duels", type=Path, metavar="CSV", help="the table, a row for each answer")


def _add_study_command(commands: Any, name: str, bounds: str, **texts: Any) -> Parser:
    """Add a command with the options of every study; ``bounds`` is the help of ``--bounds``."""
    command: Parser = commands.add_parser(name, **texts)
    command.add_argument("study", type=Path, metavar="FILE", help="the study, a JSON file")
    command.add_argument("--bounds", metavar="LIST", help=bounds)
    command.add_argument(
        "--seed", type=seed, metavar="N", help="of all draws of a new study; default: 0"
    )
    command.add_argument(
        "--unverified",
        action="store_true",
        help="take a study that was changed since it was saved, as by hand",
    )
    return command


def _problems_and_strategies() -> str:
    from botorch_pref.problems import problem_names
    from botorch_pref.strategies.registry import DEFAULT_STRATEGY, strategy_names

    wrapper = textwrap.TextWrapper(
        90, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
    )
    problems, strategies = (
        wrapper.fill(", ".join(names)) for names in (problem_names(), strategy_names())
    )
    return f"problems:\n{problems}\n\nstrategies (default: {DEFAULT_STRATEGY}):\n{strategies}\n"


def _duelling_strategies() -> str:
    from botorch_pref.strategies.base import UtilityStrategy
    from botorch_pref.strategies.registry import DEFAULT_STRATEGY, strategy_names

    names = ", ".join(strategy_names(UtilityStrategy))
    return f"strategies (default: {DEFAULT_STRATEGY}):\n  {names}\n\n{_ASK_EXAMPLES}"
