"""The barrier's path alone: as good as the primal-dual method, and where that one is stuck."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from botorch_pref.inference import Observations
from botorch_pref.likelihood_ratio import ConfidenceSet
from botorch_pref.likelihood_ratio.interior_point import Barrier, InteriorPoint
from tests.inference.common import rand
from tests.likelihood_ratio.common import Case, assert_inside, case, duel_block


def scaled(confidence: ConfidenceSet, seed: int, size: int = 12) -> tuple[Tensor, Tensor]:
    """Objectives of length one, and a point strictly inside for each."""
    q = confidence.basis.shape[-1]
    linear = torch.randn(
        size, q + 1, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    linear[:, -1] = linear[:, -1].abs()
    start = torch.nn.functional.pad(confidence.centre, (0, 1)).expand(size, -1)
    return linear / linear.norm(dim=-1, keepdim=True), start


@pytest.mark.parametrize("box", [None, 1.0])
@pytest.mark.parametrize("slack", [0.1, 3.0])
def test_both_methods_agree(box: float | None, slack: float) -> None:
    confidence = case(n=10, m=16, box=box).confidence(slack)
    linear, start = scaled(confidence, seed=1)
    tolerance = torch.full((len(linear),), 1e-8, dtype=torch.float64)
    found, sure = (
        method(confidence.constraints, max_steps=200).maximize(linear, start, None, tolerance)
        for method in (InteriorPoint, Barrier)
    )
    assert (sure.upper - sure.lower <= tolerance).all()
    torch.testing.assert_close(sure.lower, found.lower, atol=2e-8, rtol=0)
    assert confidence.constraints.contains(sure.point[:, :-1]).all()


def flat(num_duels: int, norm_bound: float) -> Case:
    """Answers that a large function explains so well that nothing is left to explain."""
    items = torch.linspace(0.0, 1.0, num_duels + 1, dtype=torch.float64).unsqueeze(-1)
    chain = [[i + 1, i] for i in range(num_duels)]
    answers = [1.0] * (num_duels // 2) + [0.0] * (num_duels - num_duels // 2)
    observations = Observations([duel_block(chain, answers)], num_duels + 1)
    return Case(items, rand(12, 1, seed=5), observations, norm_bound, None, 0.1)


@pytest.mark.parametrize("num_duels", [3, 8])
@pytest.mark.parametrize("slack", [0.01, 0.3])
@pytest.mark.parametrize("norm_bound", [40.0, 200.0])
def test_a_flat_likelihood(num_duels: int, slack: float, norm_bound: float) -> None:
    problem = flat(num_duels, norm_bound)
    confidence = problem.confidence(slack)
    g, s = problem.advantage()
    for bound in (confidence.upper(g, s), confidence.lower(g, s)):
        assert (bound.gap <= 1e-7 * norm_bound).all()
        assert_inside(confidence, bound.coordinates, bound.beyond)


def test_it_is_needed() -> None:
    """The primal-dual method alone leaves some of these open."""
    left = 0
    for norm_bound in (20.0, 40.0, 80.0, 160.0):
        for num_duels in (3, 5, 8):
            confidence = flat(num_duels, norm_bound).confidence(0.02)
            linear, start = scaled(confidence, seed=num_duels, size=40)
            tolerance = torch.full((len(linear),), 1e-9, dtype=torch.float64)
            solver = InteriorPoint(confidence.constraints, max_steps=100)
            found = solver.maximize(linear, start, None, tolerance)
            left += int((found.upper - found.lower > 1e-6).sum())
            sure = confidence._solve(linear, start, None, tolerance, 100)
            assert (sure.upper - sure.lower <= 1e-6).all()
            assert math.isfinite(float(sure.upper.sum()))
    assert left > 0
