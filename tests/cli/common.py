"""What the tests of the commands share: words typed in, refusals, and reports."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from botorch_pref.cli import main
from botorch_pref.study import Study

Type = Callable[..., int]
Capture = pytest.CaptureFixture[str]


def typing(command: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Type:
    """Runs a command in a folder, with words typed in."""
    monkeypatch.chdir(folder)

    def run(words: str, *arguments: str, file: str = "study.json") -> int:
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{w}\n" for w in words.split())))
        return main([command, file, *arguments])

    return run


def saved() -> Study:
    return Study.load("study.json", read_only=True)


def failure(capsys: Capture, run: Callable[..., int], *arguments: str) -> str:
    """The one line that a command fails with."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped:
        run(*arguments)
    assert stopped.value.code == 2
    shown = capsys.readouterr()
    assert len(shown.err.splitlines()) == 1
    assert "error: " in shown.err
    return shown.err


def fields(text: str) -> dict[str, str]:
    """The lines of a report by their names."""
    return {line[:18].strip(): line[19:] for line in text.splitlines()}


def full_disk(*arguments: object) -> None:
    raise OSError(28, "No space left on device")
