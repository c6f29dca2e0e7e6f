"""Progress: a bar on a terminal, log messages elsewhere, nothing when it is quiet."""

from __future__ import annotations

import fcntl
import io
import logging
import os
import pty
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator

import botorch
import pytest
import torch

from botorch_pref.models import (
    FullyBayesianPreferenceGP,
    LaplaceMarginalLogLikelihood,
    PreferenceGP,
    pairwise_cross_validation,
)
from botorch_pref.models import cross_validation as validation
from botorch_pref.models import fully_bayesian as sampling
from botorch_pref.progress import notice, progress_bar, quiet, tracked
from tests.models.common import make_duels
from tests.terminal import Terminal, on_terminal


def last_line(terminal: Terminal) -> str:
    """What a person sees at the end."""
    return terminal.getvalue().rstrip("\n").split("\r")[-1].strip()


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    assert [*tracked("abc", "letters", 3, unit="letter")] == ["a", "b", "c"]
    assert "letters:   0%" in terminal.getvalue()
    assert "letters: 100%" in last_line(terminal)
    assert "3/3" in last_line(terminal)


@pytest.mark.parametrize("options", [{"show": False}, {"delay": 60.0}])
def test_no_bar(monkeypatch: pytest.MonkeyPatch, options: dict[str, float]) -> None:
    terminal = on_terminal(monkeypatch)
    assert [*tracked("abc", "letters", 3, **options)] == ["a", "b", "c"]
    assert terminal.getvalue() == ""


def test_a_slow_first_step_is_not_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with progress_bar("steps", 2, delay=0.05) as bar:
        limit = time.monotonic() + 10.0
        while "steps:   0%" not in terminal.getvalue():
            assert time.monotonic() < limit
            time.sleep(0.01)
        bar.update()
    assert last_line(terminal) == ""  # it vanishes


def test_no_bar_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    with notice("thinking ..."):
        assert [*tracked("abc", "letters", 3)] == ["a", "b", "c"]
    assert pipe.getvalue() == ""


@pytest.fixture
def messages() -> Iterator[list[str]]:
    """The messages of BoTorch's logger."""
    found: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(f"{record.levelname} {record.getMessage()}")

    handler = Handler()
    botorch.logging.logger.addHandler(handler)
    yield found
    botorch.logging.logger.removeHandler(handler)


def test_messages_in_a_file(monkeypatch: pytest.MonkeyPatch, messages: list[str]) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    with botorch.settings.log_level(logging.INFO):
        assert [*tracked("abc", "letters", 3)] == ["a", "b", "c"]
        with quiet():
            assert [*tracked("de", "others", 2)] == ["d", "e"]
    assert messages[0].startswith("INFO letters:   0%")
    assert "3/3" in messages[-1]
    assert not any("others" in message for message in messages)
    del messages[:]
    assert [*tracked("abc", "letters", 3)] == ["a", "b", "c"]
    assert messages == []


def test_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with quiet(), quiet(False), notice("thinking ..."):  # who calls has said so
        assert [*tracked("abc", "letters", 3)] == ["a", "b", "c"]
    assert terminal.getvalue() == ""
    with notice("thinking ..."):
        assert terminal.getvalue() == "thinking ..."
    assert last_line(terminal) == ""


def test_what_takes_long_in_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples and folds have a bar, here without its delay."""
    terminal = on_terminal(monkeypatch)
    for module in (sampling, validation):
        at_once = lambda *args, delay, **options: tracked(*args, **options)  # noqa: E731
        monkeypatch.setattr(module, "tracked", at_once)
    X, comparisons = make_duels(6, 12, 2)
    pairwise_cross_validation(PreferenceGP(X, comparisons), 3)
    assert "cross-validation: 100%" in last_line(terminal)
    assert "3/3" in last_line(terminal)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = FullyBayesianPreferenceGP(X, comparisons, num_samples=2, num_steps=4)
        botorch.fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
    assert "sampling hyperparameters: 100%" in last_line(terminal)
    assert "4/4" in last_line(terminal)


def test_workers_have_no_bars() -> None:
    """They share the terminal of the process that started them."""
    code = (
        "import joblib, pty, sys\n"
        "from botorch_pref.progress import tracked\n"
        "def work(name): return [*tracked('ab', name, 2)]\n"
        "if __name__ == '__main__':\n"
        "    jobs = (joblib.delayed(work)('inner') for _ in range(2))\n"
        "    found = joblib.Parallel(2, return_as='generator')(jobs)\n"
        "    print([*tracked(found, 'outer', 2)])\n"
    )
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    ran = subprocess.run(
        [sys.executable, "-c", code],
        stderr=theirs,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    os.close(theirs)
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert ran.stdout == "[['a', 'b'], ['a', 'b']]\n"
    assert "outer: 100%" in shown
    assert "inner" not in shown
