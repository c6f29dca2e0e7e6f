from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from botorch.models import PairwiseGP
from matplotlib.figure import Figure
from torch import Tensor
from torch.distributions import Normal

from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.models import PreferenceGP
from botorch_pref.plotting import plot_win_probabilities
from tests.models.common import make_duels, make_kernel

X, COMPARISONS = make_duels(9, 20, 2)


@pytest.fixture(scope="module")
def model() -> PreferenceGP:
    return PreferenceGP(X, COMPARISONS, covar_module=make_kernel(2))


def texts(figure: Figure) -> dict[tuple[int, int], str]:
    """The text of every cell, by row and column."""
    return {
        (int(text.get_position()[1]), int(text.get_position()[0])): text.get_text()
        for text in figure.axes[0].texts
    }


def test_chances_to_win(model: PreferenceGP) -> None:
    figure = plot_win_probabilities(model, X, top=4)
    axes = figure.axes[0]
    order = model.posterior(X).mean.flatten().argsort(descending=True)[:4]
    for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
        assert [text.get_text() for text in labels] == [f"#{row}" for row in order]
    cells = axes.get_images()[0].get_array()
    assert np.array_equal(np.ma.getmaskarray(cells), np.eye(4, dtype=bool))
    drawn = texts(figure)
    assert len(drawn) == 4 * 3
    for row, column in drawn:
        chance = model.win_probability(X[order[[row, column]]]).item()
        assert cells[row, column] == pytest.approx(chance)
        assert drawn[row, column] == f"{100 * chance:.0f}"
        assert cells[row, column] + cells[column, row] == pytest.approx(1.0)
    assert axes.get_images()[0].get_clim() == (0.0, 1.0)
    assert "wins a duel" in axes.get_title(loc="left")


def test_chances_of_the_larger_utility() -> None:
    theirs = PairwiseGP(X, COMPARISONS)
    names = [f"item {row}" for row in range(9)]
    figure = plot_win_probabilities(theirs, X, labels=names)
    posterior = theirs.posterior(X)
    mean, covariance = posterior.mean.flatten().detach(), posterior.covariance_matrix.detach()
    order = mean.argsort(descending=True)[:8]
    first, second = order[0], order[3]
    variance = covariance[first, first] + covariance[second, second] - 2 * covariance[first, second]
    expected = Normal(0.0, 1.0).cdf((mean[first] - mean[second]) / variance.sqrt())
    cells = figure.axes[0].get_images()[0].get_array()
    assert cells.shape == (8, 8)
    assert cells[0, 3] == pytest.approx(expected.item(), abs=1e-6)
    assert figure.axes[0].get_yticklabels()[3].get_text() == f"item {second}"
    assert "utility is larger" in figure.axes[0].get_title(loc="left")


LONG = "a blend of two, number {}, dark"


@pytest.mark.parametrize(
    ("top", "name"),
    [(8, "{}"), (14, "{}"), (14, "WWW{}"), (14, LONG), (30, "WWW{}"), (30, LONG)],
)
def test_labels_do_not_touch(top: int, name: str) -> None:
    X, comparisons = make_duels(130, 20, 2)
    many = PreferenceGP(X, comparisons, covar_module=make_kernel(2))
    names = [name.format(row) for row in range(len(X))]
    figure = plot_win_probabilities(many, X, top=top, labels=names)
    figure.draw_without_rendering()
    axes = figure.axes[0]
    across, beside = (
        [text.get_window_extent() for text in texts]
        for texts in (axes.get_xticklabels(), axes.get_yticklabels())
    )
    assert all(a.x1 < b.x0 for a, b in pairwise(across))
    assert all(a.y0 > b.y1 for a, b in pairwise(beside))
    letters = [text.get_fontsize() for text in (*axes.get_xticklabels(), *axes.get_yticklabels())]
    assert max(letters) <= 7.0
    if name != LONG:  # those have several lines
        assert min(letters) == 7.0 if top <= 14 else min(letters) > 4.0
    if top == 8:
        assert {text.get_rotation() for text in axes.get_xticklabels()} == {0.0}


def test_certainty_is_not_claimed() -> None:
    sure = PreferenceGP(X[:2], torch.tensor([[0, 1]] * 500), covar_module=make_kernel(2))
    assert texts(plot_win_probabilities(sure, X[:2])) == {(0, 1): ">99", (1, 0): "<1"}
    same = X[:1].repeat(2, 1)
    theirs = PairwiseGP(X, COMPARISONS)
    assert {*texts(plot_win_probabilities(theirs, same)).values()} == {"50"}


def test_what_cannot_be_drawn(model: PreferenceGP) -> None:
    wrong: list[tuple[Tensor, dict[str, Any], type[Exception], str]] = [
        (X, {"labels": ["a"]}, UnsupportedError, "labels must be 9 names"),
        (X[0], {}, ComparisonDataError, "`items` must have shape n x d"),
        (X / 0.0, {}, ComparisonDataError, "`items` row 0 is .*: NaN or infinite"),
        (X, {"top": 1}, ComparisonDataError, "`top` must be a whole number, at least 2"),
        (X[:1], {}, ComparisonDataError, r"`len\(items\)` must be .* at least 2"),
    ]
    for items, options, error, message in wrong:
        with pytest.raises(error, match=message):
            plot_win_probabilities(model, items, **options)
