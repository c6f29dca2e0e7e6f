from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import binomtest

from botorch_pref.models import PairwisePredictions
from botorch_pref.plotting import plot_calibration


@pytest.fixture
def predictions() -> PairwisePredictions:
    chance = torch.tensor([0.55, 0.45, 0.92, 0.08, 0.5, 1.0], dtype=torch.float64)
    wins = torch.tensor([1.0, 0.0, 2.0, 1.0, 1.0, 1.0], dtype=torch.float64)
    count = torch.tensor([1.0, 1.0, 2.0, 3.0, 1.0, 1.0], dtype=torch.float64)
    return PairwisePredictions(chance, wins, count)


def test_calibration_has_the_wilson_interval() -> None:
    wins, count = torch.tensor([0.0, 3.0, 3.0, 50.0]).double(), torch.tensor([5.0, 10.0, 3.0, 80.0])
    chance = torch.tensor([0.55, 0.65, 0.75, 0.95]).double()
    axes = plot_calibration(PairwisePredictions(chance, wins, count.double())).axes[0]
    (bars,) = axes.collections
    for segment, won, size in zip(bars.get_segments(), wins, count, strict=True):
        expected = binomtest(int(won), int(size)).proportion_ci(0.95, method="wilson")
        assert segment[:, 1].tolist() == pytest.approx([expected.low, expected.high], abs=1e-6)


def test_calibration(predictions: PairwisePredictions) -> None:
    figure = plot_calibration(predictions)
    axes = figure.axes[0]
    points = next(line for line in axes.get_lines() if line.get_marker() == "o")
    # Favourites won both duels near 0.55 and half of the one at 0.5; 2 of 2 at 0.92, 2 of the 3
    # in which the second item was the favourite at 0.92, and the certain one.
    predicted = [(0.55 + 0.55 + 0.5) / 3, (5 * 0.92 + 1.0) / 6]
    np.testing.assert_allclose(points.get_xdata(), predicted)
    np.testing.assert_allclose(points.get_ydata(), [2.5 / 3, 5 / 6])
    assert [text.get_text() for text in axes.texts] == ["n=3", "n=6"]
    assert f"{predictions.brier_score.value:.3f}" in axes.get_title(loc="left")
    # Which item was shown first makes no difference.
    turned = PairwisePredictions(
        1 - predictions.probability, predictions.count - predictions.wins, predictions.count
    )
    again = plot_calibration(turned).axes[0].get_lines()
    for line, other in zip(axes.get_lines(), again, strict=True):
        np.testing.assert_allclose(line.get_xydata(), other.get_xydata())
