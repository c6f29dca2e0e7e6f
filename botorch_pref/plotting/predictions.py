r"""Predicted win probabilities beside what was answered."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from botorch_pref.models.cross_validation import Estimate, PairwisePredictions
from botorch_pref.plotting.drawing import (
    GREY,
    NORMAL_95,
    Axis,
    Backend,
    Curve,
    Drawing,
    Intervals,
    Panel,
    draw,
)
from botorch_pref.plotting.posterior import Array, as_array

_BINS = 5  # of probabilities between 1/2 and 1


def plot_calibration(
    predictions: PairwisePredictions, *, backend: Backend = "matplotlib"
) -> Figure | Any:
    r"""How often favourites won, against how often they were predicted to.

    The favourite of a pair is the item whose predicted probability is above 1/2, so it does not
    matter which item was shown first. Favourites are grouped into five bins of equal width, with
    Wilson's 95 % intervals and the numbers of answers; on the diagonal predictions are calibrated.
    Where no item was the favourite, half of the answers count.

    Args:
        predictions: Those of answers that the model has not seen; see
            :func:`~botorch_pref.models.pairwise_cross_validation`.
        backend: ``"plotly"`` for an interactive figure.

    Returns:
        A matplotlib ``Figure``, or a ``plotly.graph_objects.Figure``.
    """
    predicted, observed, answers = _binned(predictions)
    lower, upper = _wilson_interval(observed, answers)
    ends = np.array([0.5, 1.0])
    hover = [
        f"predicted: {p:.3f}\nwon: {won:.3f} ({low:.3f} to {high:.3f})\nanswers: {count:.0f}"
        for p, won, low, high, count in zip(predicted, observed, lower, upper, answers, strict=True)
    ]
    shares = Intervals(
        x=predicted,
        y=observed,
        lower=lower,
        upper=upper,
        name="share, 95 % interval",
        size=5.0,
        notes=[f"n={count:.0f}" for count in answers],
        hover=hover,
    )
    scores = f"Brier score {_text(predictions.brier_score)}\nLog score "
    panel = Panel(
        marks=[Curve(x=ends, y=ends, name="calibrated", colour=GREY, dash=1), shares],
        x=Axis(label="predicted probability of the favourite", limits=(0.49, 1.01)),
        y=Axis(
            label="share that the favourite won",
            limits=(min(0.3, float(lower.min()) - 0.12), 1.03),
        ),
        title=f"{scores}{_text(predictions.log_score)} (a coin: −{np.log(2.0):.3f})",
    )
    return draw(Drawing(panels=[panel], height=3.0), backend)


def _binned(predictions: PairwisePredictions) -> tuple[Array, Array, Array]:
    """Mean predicted probability of favourites, share that they won, number of answers, by bin."""
    chance, count = as_array(predictions.probability), as_array(predictions.count)
    wins = as_array(predictions.wins)
    favourite = np.maximum(chance, 1.0 - chance)
    won = np.where(chance > 0.5, wins, count - wins)
    won = np.where(chance == 0.5, 0.5 * count, won)
    number = np.minimum((2.0 * _BINS * (favourite - 0.5)).astype(int), _BINS - 1)
    weights = np.stack([count, won, count * favourite])
    sums = np.stack([weights[:, number == k].sum(axis=1) for k in range(_BINS)], axis=1)
    answers, wins, predicted = sums[:, sums[0] > 0]
    return predicted / answers, wins / answers, answers


def _wilson_interval(share: Array, count: Array) -> tuple[Array, Array]:
    """Wilson's 95 % score interval (1927, *JASA* 22); scipy's takes no halves, as ties are."""
    z = NORMAL_95
    size = count + z**2
    middle = (share * count + 0.5 * z**2) / size
    half = z * np.sqrt(count * share * (1.0 - share) + 0.25 * z**2) / size
    return np.maximum(middle - half, 0.0), np.minimum(middle + half, 1.0)


def _text(estimate: Estimate) -> str:
    """A mean and its standard error."""
    error = estimate.standard_error
    text = f"{estimate.value:.3f}" + ("" if np.isnan(error) else f" ± {error:.3f}")
    return text.replace("-", "−")
