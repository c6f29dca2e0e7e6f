"""Bands of made-up rows."""

import pandas as pd
import pytest

from botorch_pref.benchmarks.figures import plot_bands

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
