"""How a bound bends with its coefficients, against differences of its gradient."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from botorch_pref.likelihood_ratio import ConfidenceSet
from botorch_pref.likelihood_ratio.curvature import upper_curvature
from tests.inference.common import randn
from tests.likelihood_ratio.common import Case, case

CASES = [
    (case(num_points=3), 0.5),
    (case(seed=1, num_points=3), math.sqrt(12)),
    (case(judge="consistent", seed=2, num_points=3), 1e-2),
    (case(seed=7, num_points=3), math.inf),
    (case(m=0, num_points=3), 1.0),
    # So much slack that the ball alone decides.
    (case(seed=3, num_points=3), 1e3),
]


@pytest.mark.parametrize(("problem", "slack"), CASES)
def test_equals_differences_of_the_gradient(problem: Case, slack: float) -> None:
    confidence = ConfidenceSet(problem.program(), slack)
    g, s = problem.advantage()
    directions = randn(3, 2, g.shape[-1])

    def slopes(along: Tensor) -> Tensor:
        moved = confidence.upper(g + along, s, tolerance=1e-12)
        return (directions @ moved.coordinates.unsqueeze(-1)).squeeze(-1)

    bound = confidence.upper(g, s, tolerance=1e-12)
    found = upper_curvature(confidence, bound, g, s, directions)
    step = 1e-3
    columns = [
        (slopes(step * directions[:, j]) - slopes(-step * directions[:, j])) / (2 * step)
        for j in range(2)
    ]
    expected = torch.stack(columns, dim=-1)
    scale = float(expected.abs().amax())
    torch.testing.assert_close(found, expected, atol=1e-3 * scale, rtol=0)
    torch.testing.assert_close(found, found.mT, atol=1e-12 * scale, rtol=0)
    # Nothing moves with the length of the coefficients alone.
    along = torch.cat([g.unsqueeze(-2), directions], dim=-2)
    still = upper_curvature(confidence, bound, g, torch.zeros_like(s), along)
    assert still.isfinite().all()


def test_a_function_that_vanishes_says_nothing() -> None:
    problem = case(num_points=2)
    confidence = ConfidenceSet(problem.program(), 1.0)
    g, s = torch.zeros(2, 8, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    found = upper_curvature(confidence, confidence.upper(g, s), g, s, randn(2, 3, 8))
    assert found.isfinite().all()
