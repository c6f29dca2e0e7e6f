"""Widths by hand, and the bounds on sums of variances."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.strategies.mr_lpf import bounds
from botorch_pref.strategies.mr_lpf.bounds import Width, as_width
from tests._reference import finite as reference
from tests._reference import kernels


def test_width_of_theory_by_hand() -> None:
    """Eq. (14), and the numbers of a usual case."""
    width = Width("theory", norm_bound=3.0, delta=0.05)
    for kappa, rounded in ((22.1, 17.3), (6.0, 9.4)):
        beta = width.beta(0.05, kappa, 5, math.log(100))
        by_hand = 0.25 * (3.0 + math.sqrt(kappa / 0.05 * math.log(2 * 5 * 100 / 0.05)))
        assert beta == pytest.approx(by_hand, abs=1e-12)
        assert beta == pytest.approx(rounded, abs=0.06)


def test_other_widths() -> None:
    assert Width("constant", 0.7).beta(0.05, 6.0, 5, 3.0) == 0.7
    assert Width("bayes", 2.0).beta(0.25, 6.0, 5, 3.0) == pytest.approx(0.25 * 2.0 / 0.5)
    assert as_width(2) == Width("constant", 2.0)
    assert as_width(0) == Width("constant", 0.0)
    assert as_width(Width("bayes", 0.5)._asdict()) == Width("bayes", 0.5)


def test_practical_width() -> None:
    assert bounds.practical_width(15, 2) == Width("bayes", 1.0)
    assert bounds.practical_width(14, 3) == Width("bayes", (14 / 21) ** 2)
    assert bounds.practical_width(15, 6) == Width("bayes", 0.25)
    assert bounds.practical_width(15, 20) == Width("bayes", 0.25)
    assert bounds.practical_width(45, 1) == Width("bayes", 1.0)


@pytest.mark.parametrize(
    "beta",
    [-1.0, math.nan, math.inf, True, "bayes", None, Width("other"), Width("bayes", 0.0)]
    + [Width("theory", norm_bound=-1.0), Width("theory", delta=2.0), {"sort": "bayes"}],
)
def test_bad_widths(beta: Any) -> None:
    with pytest.raises(ComparisonDataError, match="`beta`"):
        as_width(beta)


def test_steepness_of_a_bounded_norm() -> None:
    norm, h = 1.7, math.sqrt(2) * 1.7
    slope = math.exp(-h) / (1 + math.exp(-h)) ** 2
    assert bounds.steepness_bound(norm) == pytest.approx(1 / slope)


def test_kappa_of_the_next_round() -> None:
    assert bounds.next_kappa(100.0, 1.0, 0.125) == pytest.approx(16 / 3)  # p = 3/4
    assert bounds.next_kappa(5.0, 1.0, 0.125) == 5.0
    assert bounds.next_kappa(100.0, 1.0, 0.25) == 100.0
    assert bounds.next_kappa(100.0, 1.0, 0.0) == pytest.approx(4.0)


def test_selected_deviations_and_bounds_of_a_greedy_round() -> None:
    """Eqs. (20) and (21), the gain as a log determinant, and every deviation in its turn."""
    n, size, ridge = 12, 20, 0.05
    grid = np.linspace(0.0, 1.0, n)[:, None]
    K = kernels.gram("rbf", grid, grid, 0.1)
    pairs: list[tuple[int, int]] = []
    expected = []
    for _ in range(size):
        variance = np.diag(reference.pair_covariance(K, np.array(pairs).reshape(-1, 2), ridge))
        pairs.append(divmod(int(variance.argmax()), n))
        expected.append(math.sqrt(variance.max()))
    left = np.diag(reference.pair_covariance(K, pairs, ridge)).max()
    gram = torch.from_numpy(reference.dueling_gram(K, pairs, pairs))
    sigma = bounds.selected_sigma(gram, ridge)
    np.testing.assert_allclose(sigma.numpy(), expected, atol=1e-8)
    gain = bounds.information_gain(sigma, ridge)
    assert float(gain[-1]) == pytest.approx(reference.information_gain(K, pairs, ridge), abs=1e-9)
    total = float(sigma.square().sum())
    loose, tight = (bounds.variance_sum_bound(float(gain[-1]), ridge, v) for v in (4.0, 2.0))
    assert total <= tight <= loose
    assert loose == pytest.approx(8 / math.log(1 + 4 / ridge) * float(gain[-1]))
    for v in (4.0, 2.0):
        assert math.sqrt(left) <= bounds.sigma_bound(float(gain[-1]), ridge, size, v)
    by_hand = math.sqrt(8 / math.log(1 + 4 / ridge)) * math.sqrt(float(gain[-1]) / size)
    assert bounds.sigma_bound(float(gain[-1]), ridge, size) == pytest.approx(by_hand)
