"""What the tests of the commands share: words typed in, refusals, and reports."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from botorch_pref.cli import main
from botorch_pref.study import Study

Type = Callable[..., int]


def typing(command: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Type:
    """Runs a command in a folder, with words typed in."""
    monkeypatch.chdir(folder)

    def run(words: str, *arguments: str, file: str = "study.json") -> int:
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{w}\n" for w in words.split())))
        return main([command, file, *arguments])

    return run


def saved() -> Study:
    return Study.load("study.json", read_only=True)


def assert_refused(
    typed: Type,
    arguments: Sequence[str],
    message: str,
    command: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """That arguments are refused in one line, and no file is made."""
    with pytest.raises(SystemExit) as stopped:
        typed("1", *arguments)
    assert stopped.value.code == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert len(shown.err.splitlines()) == 1
    assert shown.err.startswith(f"botorch-pref {command}: error: ")
    assert message in shown.err
    assert not [*Path().iterdir()]


def fields(text: str) -> dict[str, str]:
    """The lines of a report by their names."""
    return {line[:18].strip(): line[19:] for line in text.splitlines()}
