r"""Arguments and folders of ``python -m experiments``."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable
from pathlib import Path

from botorch_pref.cli import parser as cli
from botorch_pref.cli.parser import UsageError, count

RESULTS = Path("botorch_pref_runs")
"""The folder of all results, unless another one is named."""


class Parser(cli.Parser):
    """A parser of ``python -m``, whose descriptions keep their lines."""

    def __init__(self, prog: str, description: str, epilog: str | None = None) -> None:
        super().__init__(prog=f"python -m {prog}", description=description, epilog=epilog)
        # `experiments.__main__` heeds it.
        self.add_argument("--quiet", action="store_true", help="show no progress")


def jobs(text: str) -> int:
    """A number of processes: at least 1, or -1 for one a core."""
    return -1 if text == "-1" else count(text)


def positive(text: str) -> float:
    """A positive number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"must be a positive number, not {text!r}")
    return value


def add_seeds(parser: Parser, default: int) -> None:
    """The seeds of a measurement, ``range(first_seed, first_seed + seeds)``, and its processes."""
    parser.add_argument("--seeds", type=count, default=default, help=f"default: {default}")
    parser.add_argument("--first-seed", type=int, default=0, help="the first of them; default: 0")
    parser.add_argument("--jobs", type=jobs, default=1, help="number of processes; default: 1")


def writable_folder(folder: Path, files: Iterable[str]) -> Path:
    r"""Make a folder, and see that results can be written there before anything is run.

    Raises:
        UsageError: If it cannot be made, or one of the files is a folder there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write to {str(folder)!r}: {error.strerror}") from error
    for name in files:
        if (folder / name).is_dir():
            raise UsageError(f"cannot write to {str(folder)!r}: {name} is a folder there")
    return folder
