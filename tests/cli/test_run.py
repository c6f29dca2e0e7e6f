"""What ``run`` says of a simulation, whatever its strategy asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure

from botorch_pref.cli import main
from botorch_pref.strategies import registry
from experiments.baselines import BASELINES, GPTS
from tests.cli.common import fields


@pytest.fixture(autouse=True)
def _baselines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Strategies that measure values alone, or both, by their names."""
    for name, kind in BASELINES.items():
        monkeypatch.setitem(registry._STRATEGIES, name, kind)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that are saved."""
    figures: list[Figure] = []

    def save(figure: Figure, path: Path) -> Path:
        figures.append(figure)
        return path

    monkeypatch.setattr("botorch_pref.cli.run.save_figure", save)
    return figures


def run(folder: Path, strategy: str, horizon: int, problem: str = "branin") -> pd.DataFrame:
    """The table of a run."""
    arguments = ["--strategy", strategy, "--horizon", str(horizon), "--quiet"]
    assert main(["run", problem, *arguments, "--out", str(folder)]) == 0
    return pd.read_csv(folder / "history.csv")


def few_first(monkeypatch: pytest.MonkeyPatch, name: str, duels: int, values: int) -> None:
    """Makes the initial design of a strategy a small one."""
    kind: Any = registry._STRATEGIES[name]

    def small(*, space: Any, seed: int) -> Any:
        return kind(
            space=space, seed=seed, num_initial_duels=duels, num_initial_values=values, gamma=0.0
        )

    monkeypatch.setitem(registry._STRATEGIES, name, small)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("strategy", "asked"), [("gp-ucb", "3 values, cost 3"), ("gp-ts", "3 values")]
)
def test_values_are_no_duels(
    strategy: str,
    asked: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    drawn: list[Figure],
) -> None:
    table = run(tmp_path, strategy, 3)
    assert table["kind"].tolist() == ["evaluate"] * 3
    shown = capsys.readouterr().out
    report = fields(shown)
    assert report["run"] == f"branin, {strategy} (practical), {asked}, seed 0"
    assert "identical pairs" not in report
    assert report["time"].endswith(" ms a value)")
    assert "(dueling regret, of a value that of its item with itself; " in shown
    assert "random play expects " in report["cumulative regret"]
    assert " duel" not in shown.replace("(dueling regret", "")
    (figure,) = drawn
    assert asked in figure.get_suptitle()
    assert [axes.get_xlabel() for axes in figure.axes] == ["queries"] * 3


def test_duels_and_values(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    drawn: list[Figure],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in 4 duels at 1/10 each, and 2 values; an item meets itself in duels alone."""
    few_first(monkeypatch, "mf-gp-ucb", 3, 2)
    table = run(tmp_path, "mf-gp-ucb", 6)
    assert table["kind"].tolist() == ["duel"] * 3 + ["evaluate"] * 2 + ["duel"]
    report = fields(capsys.readouterr().out)
    assert report["run"].endswith(", 4 duels, 2 values, cost 2.4, seed 0")
    assert report["identical pairs"] == "0 of 4 duels (0%)"
    assert report["time"].endswith(" ms a query)")
    assert "of a value that of its item with itself" in report["cumulative regret"]
    assert drawn[0].axes[0].get_xlabel() == "queries"


def test_duels_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], drawn: list[Figure]
) -> None:
    run(tmp_path, "random", 1)
    report = fields(capsys.readouterr().out)
    assert report["run"] == "branin, random (practical), 1 duel, seed 0"
    assert report["identical pairs"] == "0 of 1 duels (0%)"
    assert report["time"].endswith(" ms a duel)")
    assert "(dueling regret; random play " in report["cumulative regret"]
    assert drawn[0].axes[0].get_xlabel() == "duels"


@pytest.mark.parametrize(
    ("strategy", "horizon", "whole"),
    [("borda-ucb", 3, 100), ("comp-gp-ucb", 52, 55), ("gp-ucb", 10, 10), ("gp-ucb", 11, None)],
)
def test_an_initial_design_that_uses_up_the_horizon(
    strategy: str,
    horizon: int,
    whole: int | None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    drawn: list[Figure],
) -> None:
    """Such a run is random play, and what it takes to go beyond is told."""
    run(tmp_path, strategy, horizon)
    text = f"all {horizon} queries were of it, so random; a --horizon above {whole} goes beyond"
    expected = None if whole is None else text
    assert fields(capsys.readouterr().out).get("initial design") == expected


def test_no_initial_design(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], drawn: list[Figure]
) -> None:
    for strategy in ("pf-ts", "gp-ts"):
        run(tmp_path, strategy, 1)
        assert "initial design" not in capsys.readouterr().out


def test_values_that_are_interrupted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(GPTS):
        def ask(self, annotator: str | None = None) -> Any:
            if self.num_answers == 2:
                raise KeyboardInterrupt
            return super().ask(annotator)

    monkeypatch.setitem(registry._STRATEGIES, "gp-ts", Interrupted)
    arguments = ["--strategy", "gp-ts", "--horizon", "9", "--quiet", "--out", str(tmp_path)]
    assert main(["run", "rkhs", *arguments]) == 130
    line = capsys.readouterr().err
    assert line.startswith("interrupted after 2 of 9 queries; what was done is saved in ")


def test_help_says_what_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "a simulated judge answers its queries" in shown
    assert "the value of an item with normal noise" in shown
    assert "--horizon N number of queries: duels, or values" in shown
