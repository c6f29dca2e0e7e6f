r"""The parser of all commands, and the types of their arguments."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """Errors in one line, and an epilog that is only written when it is read."""

    def __init__(self, *args: Any, late_epilog: Callable[[], str] | None = None, **kwargs: Any):
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(*args, **kwargs)
        self._late_epilog = late_epilog

    def format_help(self) -> str:
        """The help, with its epilog."""
        if self._late_epilog is not None:
            self.epilog = self._late_epilog()
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        """End with status 2, after one line on standard error."""
        line = " ".join(message.split())
        self.exit(2, f"{self.prog}: error: {line} (see {self.prog} --help)\n")


def count(text: str) -> int:
    """A whole number, at least 1."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number, at least 1, not {text!r}")
    return int(text)


def seed(text: str) -> int:
    """A whole number in ``[0, 2**63)``."""
    if not text.isascii() or not text.isdigit() or int(text) >= 2**63:
        raise argparse.ArgumentTypeError(f"must be a whole number, at least 0, not {text!r}")
    return int(text)


def jobs(text: str) -> int:
    """A number of processes: at least 1, or -1 for one a core."""
    if text == "-1":
        return -1
    try:
        return count(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"must be a whole number, at least 1, or -1 for one process a core, not {text!r}"
        ) from None


def add_seeds(parser: Parser, default: int) -> None:
    """The seeds of a measurement, ``range(first_seed, first_seed + seeds)``, and its processes."""
    parser.add_argument("--seeds", type=count, default=default, help="number of seeds")
    parser.add_argument("--first-seed", type=seed, default=0, help="the first of them")
    parser.add_argument("--jobs", type=jobs, default=1, help="number of processes")


def positive(text: str) -> float:
    """A positive number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"must be a positive number, not {text!r}")
    return value
