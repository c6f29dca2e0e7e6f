r"""Run an experiment of a paper, print and save what came of it."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any, cast, get_args

from botorch_pref.cli.parser import INTERRUPTED, UsageError, count
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.inference.finite import Regularizer
from botorch_pref.progress import notice
from botorch_pref.runner.store import CHECKSUMS, MANIFEST
from experiments.arguments import RESULTS, Parser, jobs, positive, writable_folder
from experiments.experiment import Experiment, RegretExperiment
from experiments.model_settings import Units, is_kernel
from experiments.papers import experiments
from experiments.report import FILES, report, save

# Those that all settings of an experiment take over.
_OF_SETTINGS = ("kernel", "lengthscale", "units", "regularizer", "ridge")


def run(name: str, argv: Sequence[str]) -> int:
    """Play an experiment, or go on with it.

    Raises:
        UsageError: If something cannot be done as asked.
        SystemExit: With status 2 for wrong arguments, with status 0 after help.
    """
    if name not in experiments():
        raise UsageError(f"there is no such experiment; there are {', '.join(experiments())}.")
    standard = experiments()[name]
    args = _parser(standard).parse_args(argv)
    changes = {key: getattr(args, key) for key in ("seeds", "horizon")}
    varied = {key: getattr(args, key, None) for key in _OF_SETTINGS}
    if given := {key: value for key, value in varied.items() if value is not None}:
        settings = [one._replace(**given) for one in standard.settings]
        alike = {one._replace(label=""): one for one in reversed(settings)}
        changes["settings"] = tuple(reversed(alike.values()))
    changes = {key: value for key, value in changes.items() if value is not None}
    experiment: Experiment = replace(standard, **cast(dict[str, Any], changes))
    varied = {"horizon": args.horizon, **varied}
    if experiment.missing:
        raise UsageError(experiment.missing)
    folder = args.out or RESULTS / _varied_name(standard.folder, varied)
    home = args.out or RESULTS / _varied_name(standard.runs_folder, varied)
    writable_folder(folder, [name + ending for ending in FILES])
    runs = home / "runs"
    if args.fresh:
        for file in (*runs.rglob("*-seed*.csv"), *runs.rglob(MANIFEST), *runs.rglob(CHECKSUMS)):
            file.unlink()
    start, kept = perf_counter(), len([*runs.rglob("*-seed*.csv")])
    try:
        table = experiment.run(args.jobs, runs, not args.quiet)
    except KeyboardInterrupt:
        print(f"interrupted; finished runs are kept in {runs}", file=sys.stderr)
        return INTERRUPTED
    except UnsupportedError as error:
        raise UsageError(f"{error} Give another --out, or --fresh.") from error
    try:
        with notice("summing up ..."):
            measures = experiment.measures(table)
            text = report(experiment, measures)
            paths = save(experiment, table, measures, folder, text)
    except OSError as error:
        raise UsageError(f"cannot write to {str(folder)!r}: {error.strerror}") from error
    print(text)
    lines = [f"{what:<10} {path}" for what, path in paths.items()]
    took = f"{perf_counter() - start:.0f} s"
    if kept:
        took += f", with {kept} runs that were finished before"
    print("\n".join(["", *lines, f"{'took':<10} {took}"]))
    return 0


def listing() -> str:
    """All experiments, one a line."""
    return "\n".join(
        f"  {experiment.name:<16} {experiment.title} ({experiment.source})"
        for experiment in experiments().values()
    )


def _parser(experiment: Experiment) -> Parser:
    parser = Parser(
        prog=f"experiments {experiment.name}",
        description=_description(experiment),
    )
    parser.add_argument(
        "--seeds", type=count, metavar="N", help=f"number of seeds; default: {experiment.seeds}"
    )
    parser.add_argument(
        "--horizon",
        type=count,
        metavar="N",
        help=f"number of {experiment.unit}; default: {experiment.horizon}",
    )
    if experiment.settings:
        own = parser.add_argument_group(
            "models",
            "Instead of what the settings have: "
            + "; ".join(s.text() for s in experiment.settings),
        )
        own.add_argument(
            "--kernel",
            type=_kernel,
            help="rbf, matern (5/2), matern15 (3/2), linear, or matern-NU with any smoothness NU",
        )
        own.add_argument("--lengthscale", type=positive, metavar="L", help="in the units")
        own.add_argument(
            "--units", choices=get_args(Units), help="distances of items as they are, or on a cube"
        )
        own.add_argument(
            "--regularizer", choices=get_args(Regularizer), help="the penalty of the predictors"
        )
        own.add_argument(
            "--ridge",
            type=positive,
            metavar="RHO",
            help="of the variances of all strategies, the penalty times kappa",
        )
    parser.add_argument(
        "--jobs",
        type=jobs,
        default=-1,
        metavar="N",
        help="number of processes; default: -1, one a core",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder for the results, and for the finished runs in DIR/runs; default: "
        f"{RESULTS / experiment.folder}, with what was varied behind it",
    )
    parser.add_argument(
        "--fresh",
        action="store_true",
        help="run everything again, rather than going on with the runs in the folder",
    )
    return parser


def _kernel(text: str) -> str:
    if not is_kernel(text):
        raise argparse.ArgumentTypeError(f"there is no kernel {text!r}")
    return text


def _description(experiment: Experiment) -> str:
    lines = [f"{experiment.title} ({experiment.source})."]
    if isinstance(experiment, RegretExperiment):
        lines.append(f"Strategies: {', '.join(experiment.strategies)}.")
    lines.append(
        "Prints the regrets and whether what the paper claims was seen; saves the report, a figure "
        "and tables. What was stopped goes on where it was."
    )
    lines += experiment.notes
    return "\n".join(textwrap.fill(line, 90) for line in lines)


def _varied_name(name: str, varied: Mapping[str, Any]) -> str:
    """The name of a folder, with what was asked for behind it."""
    for option, value in varied.items():
        if value is not None:
            name += f"-{option}-{value if isinstance(value, str) else f'{value:g}'}"
    return name
