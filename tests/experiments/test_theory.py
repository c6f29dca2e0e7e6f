"""The bounds of the MR-LPF and PF-TS papers, beside values by hand and by brute force."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from linear_operator import to_dense

from botorch_pref.strategies.mr_lpf import round_sizes
from experiments import theory
from experiments.model_settings import fixed_kernel

LAM, DELTA = 0.05, 0.05


def squared_exponential(number: int) -> torch.Tensor:
    grid = torch.linspace(0.0, 1.0, number).double()
    return torch.exp(-((grid.unsqueeze(-1) - grid) ** 2) / (2 * 0.1**2))


def test_the_greedy_gain() -> None:
    """The determinant of the duels it chose; the largest one of single duels; known values."""
    small = squared_exponential(5)
    gain = theory.GreedyGain(small, 0.2, limit=12)
    pairs = list(itertools.combinations(range(5), 2))

    def of(design: tuple[tuple[int, int], ...]) -> float:
        rows = torch.zeros(len(design), 5).double()
        for row, (first, second) in enumerate(design):
            rows[row, first], rows[row, second] = 1.0, -1.0
        gram = torch.eye(len(design)).double() + rows @ small @ rows.T / 0.2
        return 0.5 * float(torch.logdet(gram))

    best = max(of(design) for design in itertools.combinations_with_replacement(pairs, 3))
    assert gain(1) == pytest.approx(max(of((pair,)) for pair in pairs))
    assert (1 - 1 / math.e) * best <= gain(3) <= best + 1e-9
    # Repeated, the duels that were chosen have the gain which the chain rule gives for them.
    assert 0.5 * float((12 * gain._spectrum / 0.2).log1p().sum()) == pytest.approx(gain(12))
    assert gain(12) < gain(13) < gain(1000)
    assert theory.GreedyGain(squared_exponential(100), LAM, limit=300)(300) == pytest.approx(
        35.7, rel=0.02
    )


def test_widths_by_hand() -> None:
    assert theory.curvature(3.0) == pytest.approx(22.135, abs=1e-3)
    widths = [theory.round_width(3.0, kappa, LAM, DELTA, 100, 5) for kappa in (22.135, 6.0)]
    assert widths == pytest.approx([17.3, 9.4], abs=0.05)
    by_hand = 0.25 * (3.0 + 0.5 * math.sqrt(2 * 22.135 / 0.05 * math.log(40.0)))
    assert theory.interval_width(3.0, 22.135, LAM, DELTA) == pytest.approx(by_hand)
    # Eq. (14) is Theorem 4.7 of all pairs in all rounds, or a little wider.
    each = theory.interval_width(3.0, 6.0, LAM, DELTA / (5 * 100**2))
    assert each <= widths[1] <= 1.2 * each
    assert theory.sampling_width(1.0, 22.0, LAM, DELTA, 0.0) == pytest.approx(
        4.0 + 2.0 * math.sqrt(880.0 * math.log(20.0))
    )


def test_bounds_of_regrets() -> None:
    covariance = squared_exponential(100)
    kappa = theory.curvature(3.0)
    first, last = (theory.round_width(3.0, one, LAM, DELTA, 100, 5) for one in (kappa, 6.0))
    wide, narrow = (theory.GreedyGain(covariance, LAM * one, limit=300) for one in (kappa, 4.0))
    least = theory.least_horizon(first, wide, LAM * kappa)
    assert 1e13 < least < 1e15
    for horizon, holds in ((least, True), (least - 1, False)):
        size = math.isqrt(horizon - 1) + 1
        sigma = theory.largest_deviation(wide(size), size, LAM * kappa)
        assert (2.0 * first * sigma <= 0.25) == holds
    constant = 2.0 * math.sqrt(2.0 / math.log(1.0 + 4.0 / 0.3))
    bound = theory.regret_bound(300, last, narrow, LAM)
    rounds = len(round_sizes(300))
    by_hand = 2.0 * constant * rounds * last * narrow(300) ** 0.5 * (300**0.5 + 1.0)
    assert bound == pytest.approx(by_hand)
    number = theory.sample_complexity(0.1, last, narrow, LAM)
    simple = [theory.simple_regret_bound(one, last, narrow, LAM) for one in (number, number - 1)]
    assert simple[0] <= 0.1 < simple[1]
    # No duel costs more than 1/2, so the bounds say nothing at the papers' horizons.
    pf_ts = theory.sampling_regret_bound(300, 3.0, kappa, LAM, DELTA, wide, 100)
    assert min(pf_ts, bound) > 150.0
    more = theory.sampling_regret_bound(300, 4.0, kappa, LAM, DELTA, wide, 100)
    assert more > pf_ts


def test_the_deviation_that_greedy_duels_leave() -> None:
    """Eq. (21) holds with the gain of the duels themselves; also of Matern's kernel."""
    X = torch.linspace(0.0, 1.0, 30).double().unsqueeze(-1)
    covariance = to_dense(fixed_kernel("matern-3.5", [0.2], 1)(X)) / 20.0
    for number in (5, 40):
        gain = theory.GreedyGain(covariance, 0.3, limit=number)
        table = theory.PairVarianceTable(covariance, 0.3)
        for _ in range(number):
            flat = int(table.variance.argmax())
            table.append(torch.tensor([flat // 30, flat % 30]))
        sigma = float(table.variance.max()) ** 0.5
        assert sigma <= theory.largest_deviation(gain(number), number, 0.3)
