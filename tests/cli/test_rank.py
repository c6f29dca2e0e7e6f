"""``botorch-pref rank``: a report and a figure from a table; errors name file and row."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from botorch_pref.cli import main
from tests.cli.common import Capture, failure, full_disk
from tests.terminal import on_terminal

ROWS = "winner,loser,annotator\n" + "a,007,ann\n" * 9 + "007,None,bob\n" * 9 + "007,a,\n"


@pytest.fixture
def duels(tmp_path: Path) -> Path:
    path = tmp_path / "duels.csv"
    path.write_text(ROWS)
    return path


def test_a_leaderboard(duels: Path, capsys: Capture) -> None:
    assert main(["rank", str(duels)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "19 answers about 3 items"
    assert lines[2].split() == ["item", "rank", "95", "%", "utility", "lower", "upper", "duels"]
    assert [line.split()[0] for line in lines[3:6]] == ["a", "007", "None"]
    assert [line.split()[-1] for line in lines[3:6]] == ["10", "19", "9"]
    assert "annotators, the least reliable first (of 2" in lines[7]
    assert {line.split()[0] for line in lines[10:12]} == {"ann", "bob"}
    assert lines[-1] == f"plot: {duels}.png"
    assert Path(f"{duels}.png").read_bytes().startswith(b"\x89PNG")


def test_quiet(duels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    assert main(["rank", str(duels), "--quiet"]) == 0
    assert terminal.getvalue() == ""
    assert main(["rank", str(duels)]) == 0
    assert "ranking ..." in terminal.getvalue()
    assert terminal.getvalue().split("\r")[-1] == ""


def test_what_cannot_be_ranked(
    duels: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = partial(failure, capsys, lambda *words: main(["rank", *words]))
    assert "cannot be read" in run(str(duels.with_name("other.csv")))
    monkeypatch.setattr("botorch_pref.cli.rank.save_figure", full_disk)
    assert "cannot write to" in run(str(duels))
    duels.write_text("winner,loser\na,b\na,a\n")
    assert f"rank: error: '{duels}' row 2: `winner` is 'a'" in run(str(duels))
