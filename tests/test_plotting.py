from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure

from botorch_pref.plotting import plot_regret, save_figure
from botorch_pref.runner import History

REGRETS = [0.4, 0.2, 0.3, 0.0]


@pytest.fixture
def history() -> History:
    table = pd.DataFrame(
        {
            "step": [1, 2, 3, 4],
            "identical": [False, False, True, False],
            "dueling_regret": REGRETS,
            "cumulative_regret": [0.4, 0.6, 0.9, 0.9],
            "recommendation_regret": [None, 1.5, None, 0.5],
        }
    )
    return History("catalyst", "pf-ts", 4, 0.45, table)


def lines(figure: Figure, panel: int) -> dict[str, list[tuple[float, float]]]:
    """The points of every line of a panel, by its label."""
    found = {}
    for line in figure.axes[panel].get_lines():
        x, y = line.get_data()
        found[str(line.get_label())] = [*zip(map(float, x), map(float, y), strict=True)]
    return found


def test_what_is_drawn(history: History) -> None:
    figure = plot_regret(history)
    each, total = lines(figure, 0), lines(figure, 1)
    assert each["a duel"] == [(1, 0.4), (2, 0.2), (4, 0.0)]
    assert each["an item with itself"] == [(3, 0.3)]
    assert [y for _, y in each["mean of the last 10"]] == pytest.approx([0.4, 0.3, 0.3, 0.225])
    assert {y for _, y in each["random play"]} == {0.45}
    assert total["pf-ts"] == [(0, 0.0), (1, 0.4), (2, 0.6), (3, 0.9), (4, 0.9)]
    assert total["random play"] == [(0, 0.0), (4, 1.8)]
    recommended, latest = lines(figure, 2).values()
    assert recommended == [(2, 1.5), (4, 0.5)]
    assert latest == [(4, 0.5)]


def test_everything_is_labelled(history: History) -> None:
    figure = plot_regret(history, title="A title", utility_unit="percent", utility_scale=10.0)
    assert figure.get_suptitle() == "A title"
    assert plot_regret(history).get_suptitle() == "catalyst, pf-ts"
    assert [axes.get_xlabel() for axes in figure.axes] == ["duels"] * 3
    assert "(probability)" in figure.axes[0].get_ylabel()
    assert "(sum of probabilities)" in figure.axes[1].get_ylabel()
    assert figure.axes[2].get_ylabel() == "recommendation regret\n(percent)"
    assert [y for _, y in next(iter(lines(figure, 2).values()))] == [15.0, 5.0]
    assert all(axes.get_title(loc="left") for axes in figure.axes)


def test_without_identical_pairs_or_recommendations(history: History, tmp_path: Path) -> None:
    table = history.table.assign(identical=False, recommendation_regret=float("nan"))
    figure = plot_regret(History("p", "s", 9, 0.3, table.iloc[:1]))
    assert "an item with itself" not in lines(figure, 0)
    assert save_figure(figure, tmp_path / "one.png").stat().st_size > 0


def test_saved_whole_and_alone(history: History, tmp_path: Path) -> None:
    path = tmp_path / "regret.png"
    path.write_bytes(b"old")
    assert save_figure(plot_regret(history), path) == path
    assert path.read_bytes().startswith(b"\x89PNG")
    save_figure(plot_regret(history), tmp_path / "regret.pdf")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["regret.pdf", "regret.png"]
    with pytest.raises(ValueError, match="xyz"):
        save_figure(plot_regret(history), tmp_path / "regret.xyz")
    with pytest.raises(OSError, match="missing"):
        save_figure(plot_regret(history), tmp_path / "missing" / "regret.png")
    assert len([*tmp_path.iterdir()]) == 2


def test_pyplot_is_left_alone() -> None:
    code = "import sys, botorch_pref.plotting; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
