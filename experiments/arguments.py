r"""Arguments and folders of ``python -m experiments``."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

INTERRUPTED = 130
"""The exit status after Ctrl-C, as shells report it."""
RESULTS = Path("botorch_pref_runs")
"""The folder of all results, unless another one is named."""


class UsageError(Exception):
    """What cannot be done as asked: one line on standard error, exit status 2."""


class Parser(argparse.ArgumentParser):
    """A parser whose descriptions keep their lines, and whose errors take one line."""

    def __init__(self, prog: str, description: str, epilog: str | None = None) -> None:
        super().__init__(
            prog=f"python -m {prog}",
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        """End with status 2, after one line on standard error."""
        line = " ".join(message.split())
        self.exit(2, f"{self.prog}: error: {line} (see {self.prog} --help)\n")


def count(text: str) -> int:
    """A whole number, at least 1."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number, at least 1, not {text!r}")
    return int(text)


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
