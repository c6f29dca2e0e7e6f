"""Bands of made-up rows."""

import pandas as pd
import pytest
from matplotlib.figure import Figure

from botorch_pref.plotting import COLOURS
from experiments.figures import draw_utility_band, plot_bands, plot_panels

ROWS = pd.DataFrame(
    {"strategy": strategy, "seed": seed, "spent": spent, "regret": regret + seed / spent}
    for strategy, regret in (("one", 1.0), ("two", 2.0))
    for seed in (0, 1)
    for spent in (5, 10)
)
OPTIONS = {"x": "spent", "y": "regret", "title": "A title", "xlabel": "cost", "ylabel": "regret"}


def test_means_and_errors() -> None:
    axes = plot_bands(ROWS, **OPTIONS).axes[0]
    one, two = axes.get_lines()
    assert [*one.get_xdata()] == [5, 10]
    assert [*one.get_ydata()] == pytest.approx([1.1, 1.05])
    assert [*two.get_ydata()] == pytest.approx([2.1, 2.05])
    assert one.get_color() != two.get_color()
    assert one.get_marker() != two.get_marker()
    band = axes.collections[0].get_paths()[0].vertices
    # Half the difference of two seeds is the standard error of their mean.
    assert band[:, 1].min() == pytest.approx(1.0)
    assert band[:, 1].max() == pytest.approx(1.2)


def test_everything_is_labelled() -> None:
    figure = plot_bands(ROWS, **OPTIONS)
    axes = figure.axes[0]
    assert figure.get_suptitle() == "A title"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("cost", "regret")
    legend = axes.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["one", "two"]
    assert legend.get_title().get_text() == "mean ± standard error of 2 seeds"
    alone = plot_bands(ROWS[ROWS["seed"] == 0], **OPTIONS).axes[0].get_legend()
    assert alone.get_title().get_text() == "one seed"


def test_a_panel_for_each_value() -> None:
    rows = pd.concat(
        [
            ROWS.assign(task="easy"),
            # The first strategy is not there: the other keeps its colour.
            ROWS[ROWS["strategy"] == "two"].assign(task="hard", regret=7.0),
        ]
    )
    figure = plot_panels(rows, panel="task", **OPTIONS)
    easy, hard, legend = figure.axes
    assert [easy.get_title(loc="left"), hard.get_title(loc="left")] == ["easy", "hard"]
    assert [[*line.get_ydata()] for line in easy.get_lines()] == [
        pytest.approx([1.1, 1.05]),
        pytest.approx([2.1, 2.05]),
    ]
    (line,) = hard.get_lines()
    assert [*line.get_ydata()] == [7.0, 7.0]
    assert line.get_color() == easy.get_lines()[1].get_color() == COLOURS[1]
    assert [text.get_text() for text in legend.get_legend().get_texts()] == ["one", "two"]
    assert not legend.axison
    assert (figure.get_suptitle(), figure.get_supxlabel()) == ("A title", "cost")


def test_a_utility_band() -> None:
    rows = pd.DataFrame({"x": [0.0, 1.0, 3.0], "utility": [0.0, 2.0, 1.0]})
    rows = rows.assign(estimate=1.0, lower=-1.0, upper=[2.0, 5.0, 3.0])
    axes = Figure().subplots()
    draw_utility_band(axes, rows)
    estimate, utility = axes.get_lines()
    assert [*estimate.get_ydata()] == [1.0, 1.0, 1.0]
    assert [*utility.get_ydata()] == [0.0, 2.0, 1.0]
    band = axes.collections[0].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == (-1.0, 5.0)
    assert axes.get_xlim() == (0.0, 3.0)
