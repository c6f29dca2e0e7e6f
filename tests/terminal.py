"""A terminal in the place of standard error."""

from __future__ import annotations

import io
import sys

import pytest


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """To be called in a test, as pytest changes standard error before."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal
