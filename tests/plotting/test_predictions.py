from __future__ import annotations

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from scipy.stats import binomtest

from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.models import PairwisePredictions
from botorch_pref.plotting import (
    plot_accuracy,
    plot_calibration,
    plot_cross_validation,
    wilson_interval,
)


@pytest.fixture
def predictions() -> PairwisePredictions:
    chance = torch.tensor([0.55, 0.45, 0.92, 0.08, 0.5, 1.0], dtype=torch.float64)
    wins = torch.tensor([1.0, 0.0, 2.0, 1.0, 1.0, 1.0], dtype=torch.float64)
    count = torch.tensor([1.0, 1.0, 2.0, 3.0, 1.0, 1.0], dtype=torch.float64)
    return PairwisePredictions(chance, wins, count)


@pytest.mark.parametrize(("wins", "count"), [(0, 5), (3, 10), (7, 7), (50, 80)])
def test_wilson_interval(wins: int, count: int) -> None:
    found = wilson_interval(np.array([wins]), np.array([count]), 0.9)
    expected = binomtest(wins, count).proportion_ci(0.9, method="wilson")
    assert [end.item() for end in found] == pytest.approx([expected.low, expected.high])


def test_calibration(predictions: PairwisePredictions) -> None:
    figure = plot_calibration(predictions)
    axes = figure.axes[0]
    points = next(line for line in axes.get_lines() if line.get_marker() == "o")
    # Favourites won both duels near 0.55 and half of the one at 0.5; 2 of 2 at 0.92, 2 of the 3
    # in which the second item was the favourite at 0.92, and the certain one.
    predicted = [(0.55 + 0.55 + 0.5) / 3, (5 * 0.92 + 1.0) / 6]
    np.testing.assert_allclose(points.get_xdata(), predicted)
    np.testing.assert_allclose(points.get_ydata(), [2.5 / 3, 5 / 6])
    (bars,) = axes.collections
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    lower, upper = wilson_interval(np.array([2.5, 5.0]), np.array([3.0, 6.0]))
    np.testing.assert_allclose(ends, np.stack([lower, upper], -1))
    assert [text.get_text() for text in axes.texts] == ["n=3", "n=6"]
    assert f"{predictions.brier_score.value:.3f}" in axes.get_title(loc="left")
    # Which item was shown first makes no difference.
    turned = PairwisePredictions(
        1 - predictions.probability, predictions.count - predictions.wins, predictions.count
    )
    again = plot_calibration(turned).axes[0].get_lines()
    for line, other in zip(axes.get_lines(), again, strict=True):
        np.testing.assert_allclose(line.get_xydata(), other.get_xydata())
    assert len(plot_calibration(predictions, bins=1).axes[0].texts) == 1
    with pytest.raises(ComparisonDataError, match="`bins` must be a whole number, at least 1"):
        plot_calibration(predictions, bins=0)


def test_what_was_given_to_the_answers(predictions: PairwisePredictions) -> None:
    axes = plot_cross_validation(predictions).axes[0]
    heights = [bar.get_height() for container in axes.containers for bar in container]
    # What was predicted at 0.5 is half of it right, half of it wrong, as in the accuracy.
    assert heights == pytest.approx([1, 0, 0, 0, 0.5, 2.5, 0, 0, 0, 5])
    assert sum(heights[5:]) / sum(heights) == pytest.approx(predictions.accuracy.value)
    assert sum(heights) == predictions.num_answers
    title = axes.get_title(loc="left")
    assert f"Accuracy {predictions.accuracy.value:.3f} ± " in title
    assert f"of {predictions.num_answers} answers" in title
    assert f"−{-predictions.log_score.value:.3f}" in title


def test_accuracies(predictions: PairwisePredictions) -> None:
    one = torch.ones(1)
    single = PairwisePredictions(0.7 * one, one, one)
    axes = plot_accuracy({"first": predictions, "second": single}).axes[0]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["first", "second"]
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first on top
    value, error = predictions.accuracy
    bars = [container.lines for container in axes.containers]
    assert [line.get_xydata().tolist() for line, *_ in bars] == [[[value, 0]], [[1.0, 1]]]
    (segment,) = bars[0][2][0].get_segments()
    np.testing.assert_allclose(segment, [[value - error, 0], [value + error, 0]])
    with pytest.raises(UnsupportedError, match="models must have one model at least"):
        plot_accuracy({})


def test_on_given_axes(predictions: PairwisePredictions) -> None:
    own = Figure()
    panels = own.subplots(1, 3)
    assert plot_calibration(predictions, ax=panels[0]) is own
    assert plot_cross_validation(predictions, ax=panels[1]) is own
    assert plot_accuracy({"model": predictions}, ax=panels[2]) is own
    assert all(axes.get_lines() for axes in panels)
