"""The command that runs all campaigns."""

from __future__ import annotations

import pytest

from tests.faults import test_command_lines, test_extreme_numbers
from tests.faults.__main__ import main, parts
from tests.faults.common import Campaign


def fails() -> str:
    raise ValueError("as ever")


def test_one_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The parts run one after the other, and a failed trial is told, and is the status."""

    def campaign(number: int, seed: int) -> Campaign:
        found = Campaign()
        for trial in range(number):
            found.run(f"subject {seed}", trial, fails if trial == 1 else lambda: "works")
        return found

    monkeypatch.setattr("tests.faults.test_files.CAMPAIGNS", {})
    monkeypatch.setattr("tests.faults.test_states.campaign", campaign)
    monkeypatch.setattr(test_command_lines, "campaign", campaign)
    monkeypatch.setattr(test_extreme_numbers, "campaign", campaign)
    assert main(["--seed", "7", "--share", "0.0002"]) == 0
    words = capsys.readouterr().out.split()
    assert words == ["works", "subject", "7", "3", "all", "3", "0", "failures"]
    assert main(["--seed", "7", "--share", "0.0004"]) == 1
    out = capsys.readouterr().out
    assert "2 failures" in out
    assert "subject 7: 1: ValueError: as ever" in out


def test_all_parts() -> None:
    assert [*parts(0, 1.0)] == [
        *("kills", "several_writers", "full_disks", "changed_files", "files_of_strangers"),
        *("changed_runs", "states", "command lines", "extreme numbers"),
    ]
