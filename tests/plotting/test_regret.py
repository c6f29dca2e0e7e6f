from __future__ import annotations

import itertools
import math
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.plotting import plot_experiment, plot_regret
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
    assert total["_child0"] == [(0, 0.0), (1, 0.4), (2, 0.6), (3, 0.9), (4, 0.9)]
    assert total["random play"] == [(0, 0.0), (4, 1.8)]
    recommended, latest = lines(figure, 2).values()
    assert recommended == [(2, 1.5), (4, 0.5)]
    assert latest == [(4, 0.5)]
    assert figure.get_suptitle() == "catalyst, pf-ts"
    assert [axes.get_xlabel() for axes in figure.axes] == ["duels"] * 3
    figure = plot_regret(history, title="A title", utility_unit="percent", utility_scale=10.0)
    assert figure.get_suptitle() == "A title"
    assert figure.axes[2].get_ylabel() == "recommendation regret\n(percent)"
    assert [y for _, y in next(iter(lines(figure, 2).values()))] == [15.0, 5.0]


def test_what_was_asked_is_no_duel(history: History) -> None:
    kinds = ["duel", "evaluate", "duel", "evaluate"]
    mixed = History("p", "s", 4, 0.45, history.table.assign(kind=kinds))
    figure = plot_regret(mixed)
    assert [axes.get_xlabel() for axes in figure.axes] == ["queries"] * 3
    assert figure.axes[0].get_title(loc="left") == "Regret of each query"
    each = lines(figure, 0)
    assert each["a duel"] == [(1, 0.4)]
    assert each["an item with itself"] == [(3, 0.3)]
    assert each["a value"] == [(2, 0.2), (4, 0.0)]
    values = History("p", "s", 4, 0.45, history.table.assign(kind="evaluate", identical=False))
    assert {"a duel", "an item with itself"}.isdisjoint(lines(plot_regret(values), 0))


@pytest.fixture
def experiment() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "problem": "ackley",
            "strategy": strategy,
            "seed": seed,
            "step": step,
            "dueling_regret": regret / step,
            "cumulative_regret": regret * step,
            "recommendation_regret": regret if step % 2 == 0 else math.nan,
        }
        for strategy, regrets in {"second": [0.1, 0.3], "first": [0.2, 0.2]}.items()
        for seed, regret in enumerate(regrets)
        for step in range(1, 5)
    )


def band(figure: Figure, panel: int, number: int) -> list[tuple[float, float]]:
    """The lower and upper end of a band, at each of its steps."""
    collection = figure.axes[panel].collections[number]
    ends: dict[float, list[float]] = {}
    for x, y in collection.get_paths()[0].vertices:
        ends.setdefault(float(x), []).append(float(y))
    return [(min(ys), max(ys)) for _, ys in sorted(ends.items())]


def test_what_is_drawn_of_an_experiment(experiment: pd.DataFrame) -> None:
    figure = plot_experiment(experiment, window=2)
    each, total, recommended = (lines(figure, panel) for panel in range(3))
    assert [*each] == [*total] == [*recommended] == ["second", "first"]
    means = [0.2 / step for step in range(1, 5)]
    windowed = [means[0], *((a + b) / 2 for a, b in itertools.pairwise(means))]
    for name in ("second", "first"):
        assert [x for x, _ in each[name]] == [1, 2, 3, 4]
        assert [y for _, y in each[name]] == pytest.approx(windowed)
        assert [x for x, _ in total[name]] == [0, 1, 2, 3, 4]
        assert [y for _, y in total[name]] == pytest.approx([0.2 * step for step in range(5)])
        assert recommended[name] == [(step, pytest.approx(0.2)) for step in (2, 4)]
    # The standard error of 0.1 and 0.3 is 0.1, that of two equal numbers is 0.
    expected = [(0.1 * step, 0.3 * step) for step in range(5)]
    assert band(figure, 1, 0) == [pytest.approx(ends) for ends in expected]
    assert all(low == pytest.approx(high) for low, high in band(figure, 1, 1))


def test_runs_that_end_earlier(experiment: pd.DataFrame) -> None:
    """The last recommendation stands; a sum of fewer runs would be another's mean."""
    ended = experiment[(experiment["seed"] == 0) | (experiment["step"] <= 2)]
    figure = plot_experiment(ended)
    _, total, recommended = (lines(figure, panel) for panel in range(3))
    assert [x for x, _ in total["second"]] == [0, 1, 2]
    assert recommended["second"] == [(step, pytest.approx(0.2)) for step in (2, 4)]
    assert recommended["first"] == [(step, pytest.approx(0.2)) for step in (2, 4)]


def test_an_experiment_is_labelled(experiment: pd.DataFrame) -> None:
    figure = plot_experiment(experiment)
    assert figure.get_suptitle() == "ackley"
    assert plot_experiment(experiment, title="A title").get_suptitle() == "A title"
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["second", "first"]
    assert legend.get_title().get_text() == "mean ± standard error of 2 seeds"
    kinds = experiment.assign(kind=["duel", "evaluate"] * (len(experiment) // 2))
    assert plot_experiment(kinds).axes[0].get_xlabel() == "queries"
    fewer = experiment[(experiment["strategy"] == "first") | (experiment["seed"] == 0)]
    title = plot_experiment(fewer).legends[0].get_title().get_text()
    assert title == "mean ± standard error of 1 to 2 seeds"


def test_random_play_beside_an_experiment(experiment: pd.DataFrame) -> None:
    figure = plot_experiment(experiment, random_regret=0.45)
    assert lines(figure, 0)["random play"] == [(0, 0.45), (4, 0.45)]
    assert lines(figure, 1)["random play"] == [(0, 0.0), (4, 1.8)]
    assert "random play" not in lines(figure, 2)
    assert "random play" in [text.get_text() for text in figure.legends[0].get_texts()]
    # It is far above the strategies here, which stay readable.
    assert figure.axes[1].get_ylim()[1] < 1.5


def test_what_cannot_be_drawn(experiment: pd.DataFrame) -> None:
    two = pd.concat([experiment, experiment.assign(problem="branin")])
    wrong: list[tuple[pd.DataFrame, dict[str, Any], str]] = [
        (experiment, {"metrics": ["seconds"]}, r"metrics must be of .*, got \['seconds'\]"),
        (experiment, {"metrics": ["cumulative_first_regret"]}, "metrics must be of"),
        (experiment, {"metrics": []}, "metrics must be of"),
        (experiment[:0], {}, "table has no rows"),
        (two, {}, "table must be of one problem, got ackley, branin"),
        (experiment, {"window": 0}, "window must be at least 1, got 0"),
    ]
    for table, options, message in wrong:
        with pytest.raises(UnsupportedError, match=message):
            plot_experiment(table, **options)
