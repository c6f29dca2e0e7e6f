r"""The parser of all commands, the types of their arguments, and how a command ends early.

Nothing here takes long to import: help is immediate.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NoReturn

INTERRUPTED = 130
"""The exit status after Ctrl-C, as shells report it."""


class UsageError(Exception):
    """What cannot be done as asked: one line on standard error, exit status 2."""


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
    """A whole number, 1 to 1,000,000: nobody waits for more."""
    return _whole(text, 1, 1_000_000)


def seed(text: str) -> int:
    """A whole number in ``[0, 2**63)``."""
    return _whole(text, 0, 2**63 - 1)


def _whole(text: str, least: int, most: int) -> int:
    number = int(text) if text.isascii() and text.isdigit() else -1
    if not least <= number <= most:
        limit = f"at least {least}" if number < least else f"at most {most:,}"
        raise argparse.ArgumentTypeError(f"must be a whole number, {limit}, not {text!r}")
    return number
