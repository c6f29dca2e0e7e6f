"""The largest advantage over several opponents: against the printed program."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.inference import Observations
from botorch_pref.likelihood_ratio import SCREENING, LeastAdvantage, least_advantage, minimax
from botorch_pref.likelihood_ratio.minimax import upper_curvature
from tests.inference.common import choices, numerical_gradient, rand, randn
from tests.likelihood_ratio.common import Case, assert_inside, case

CASES = [
    (case(), 0.5, (0, 3, 5)),
    (case(seed=1), math.sqrt(12), (4, 5, 6, 7)),
    (case(judge="consistent", seed=2), 1e-2, (1, 2)),
    (case(num_labels=6, seed=3, norm_bound=1.0), 1.0, (0, 1, 2, 3, 4, 5, 6, 7)),
    (case(m=0), 1.0, (0, 1, 2)),
    (case(seed=7), math.inf, (2, 3, 4, 5)),
    (case(box=0.4, num_labels=6, seed=8), 1.0, (0, 2, 4)),
    (case(n=30, m=30, seed=10), math.sqrt(30), (24, 25, 26, 27, 28, 29)),
    (case(n=30, m=30, seed=4, lengthscale=1.5, norm_bound=6.0), 0.1, (1, 3, 9, 12)),
    # Items without answers, as those that the batch already has.
    (case(n=12, m=0, num_labels=4, seed=5), 2.0, (8, 9, 10, 11)),
]


def coefficients(problem: Case, opponents: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    a, s = problem.coefficients()
    return a.unsqueeze(-2) - problem.confidence().root[list(opponents)], s


@pytest.mark.parametrize(("problem", "slack", "opponents"), CASES)
def test_equals_the_printed_program(
    problem: Case, slack: float, opponents: tuple[int, ...]
) -> None:
    confidence = problem.confidence(slack)
    g, s = coefficients(problem, opponents)
    found = least_advantage(confidence, g, s)
    assert (found.gap <= 1e-6).all()
    assert_inside(confidence, found.coordinates, found.beyond)
    payoffs = (g @ found.coordinates.unsqueeze(-1)).squeeze(-1) + (s * found.beyond).unsqueeze(-1)
    torch.testing.assert_close(found.value, payoffs.amin(-1), atol=1e-12, rtol=0)
    torch.testing.assert_close(found.weights.sum(-1), torch.ones_like(s))
    assert (found.weights >= 0).all()
    level = float(confidence.mle.log_likelihood) - slack
    n = len(problem.items)
    for point in range(2):
        objective = np.zeros((len(opponents), n + len(problem.points)))
        objective[:, n + point] = 1.0
        objective[range(len(opponents)), list(opponents)] -= 1.0
        expected = problem.printed(objective, level)
        tolerance = 2e-6 if expected.exact else 1e-4
        assert float(found.value[point]) == pytest.approx(expected.value, abs=tolerance)


@pytest.mark.parametrize("tolerance", [1e-9, SCREENING])
def test_one_opponent_is_an_upper_bound(tolerance: float) -> None:
    problem = case(n=20, m=30, num_points=16)
    confidence = problem.confidence(math.sqrt(30))
    g, s = problem.advantage()
    found = least_advantage(confidence, g.unsqueeze(-2), s, tolerance=tolerance)
    bound = confidence.upper(g, s, tolerance=tolerance)
    for name in ("value", "coordinates", "beyond", "converged"):
        assert torch.equal(getattr(found, name), getattr(bound, name))
    torch.testing.assert_close(found.gap, bound.gap, atol=1e-14, rtol=0)


def test_the_gap_is_certified_at_any_accuracy(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = case(n=30, m=30, seed=10, num_points=8)
    confidence = problem.confidence(math.sqrt(30))
    g, s = coefficients(problem, (24, 25, 26, 27, 28, 29))
    exact = least_advantage(confidence, g, s)
    assert exact.converged.all()
    gaps = []
    for rounds in range(5):
        monkeypatch.setattr(minimax, "_MAX_ROUNDS", rounds)
        rough = least_advantage(confidence, g, s)
        assert_inside(confidence, rough.coordinates, rough.beyond)
        assert (rough.value <= exact.value + exact.gap + 1e-12).all()
        assert (rough.value + rough.gap >= exact.value - 1e-12).all()
        gaps.append(float(rough.gap.max()))
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[0] > 0.1
    monkeypatch.undo()
    assert (least_advantage(confidence, g, s, tolerance=SCREENING).gap <= SCREENING).all()


def test_between_each_opponent_and_the_estimate() -> None:
    problem = case(n=30, m=30, seed=10, num_points=8)
    confidence = problem.confidence(math.sqrt(30))
    g, s = coefficients(problem, (24, 25, 26, 27))
    found = least_advantage(confidence, g, s)
    assert ((found.weights > 1e-3).sum(-1) >= 3).any()
    value = found.value
    alone = confidence.upper(g, s.unsqueeze(-1)).value
    assert (value <= alone.amin(-1) + 1e-8).all()
    assert (value >= (g @ confidence.mle.coordinates).amin(-1) - 1e-8).all()
    fewer = least_advantage(confidence, g[:, :2], s).value
    assert (value <= fewer + 1e-8).all()
    assert (value < alone.amin(-1) - 1e-2).any()


def test_a_batch_is_a_loop() -> None:
    problem = case(seed=1)
    confidence = problem.confidence(math.sqrt(12))
    g, s = coefficients(problem, (4, 5, 6, 7))
    whole = least_advantage(confidence, g, s)
    one_by_one = [least_advantage(confidence, a, b).value for a, b in zip(g, s, strict=True)]
    torch.testing.assert_close(whole.value, torch.stack(one_by_one), atol=2e-9, rtol=0)
    shaped = least_advantage(confidence, g.view(2, 2, 4, -1), s.view(2, 2))
    torch.testing.assert_close(shaped.value, whole.value.view(2, 2), atol=1e-12, rtol=0)
    assert shaped.coordinates.shape == (2, 2, g.shape[-1])
    assert shaped.weights.shape == (2, 2, 4)
    none = least_advantage(confidence, g[:0], s[:0])
    assert none.value.shape == (0,)


def test_opponents_in_any_order_and_any_number_of_times() -> None:
    problem = case(seed=1)
    confidence = problem.confidence(math.sqrt(12))
    g, s = coefficients(problem, (4, 5, 6, 7))
    value = least_advantage(confidence, g, s).value
    for rows in ([3, 1, 0, 2], [0, 1, 2, 3, 3, 1]):
        other = least_advantage(confidence, g[:, rows], s)
        torch.testing.assert_close(other.value, value, atol=2e-9, rtol=0)
    # Nearly the same opponent twice, as where a search closes in.
    close = torch.cat([g, g[:, :1] + 1e-6], dim=1)
    found = least_advantage(confidence, close, s)
    assert (found.gap <= 1e-6).all()
    torch.testing.assert_close(found.value, value, atol=1e-4, rtol=0)


def test_gradient_is_the_envelopes() -> None:
    problem = case(seed=1, num_points=2)
    confidence = problem.confidence(math.sqrt(12))
    g, s = coefficients(problem, (4, 5, 6, 7))
    at = torch.cat([g[0].flatten(), s[:1]])

    def least(x: Tensor) -> LeastAdvantage:
        rows = x[..., :-1].unflatten(-1, (4, -1))
        return least_advantage(confidence, rows, x[..., -1], tolerance=1e-11)

    leaf = at.clone().requires_grad_()
    found = least(leaf)
    assert (found.weights > 1e-2).sum() >= 2
    (gradient,) = torch.autograd.grad(found.value, leaf)
    expected = numerical_gradient(lambda x: least(x).value, at, 1e-3)
    torch.testing.assert_close(gradient, expected, atol=2e-5, rtol=0)
    outer = found.weights.unsqueeze(-1) * found.coordinates
    torch.testing.assert_close(gradient, torch.cat([outer.flatten(), found.beyond.view(1)]))


def test_gradient_in_the_point() -> None:
    problem = case(n=20, m=20, seed=1)
    confidence = problem.confidence(3.0)
    opponents = problem.confidence().root[[3, 8, 12]]

    def least(x: Tensor) -> Tensor:
        a, s = problem.coefficients(x)
        return least_advantage(confidence, a.unsqueeze(-2) - opponents, s, tolerance=1e-11).value

    x = problem.points[1].clone().requires_grad_()
    (gradient,) = torch.autograd.grad(least(x.unsqueeze(0)).sum(), x)
    expected = numerical_gradient(least, problem.points[1], 1e-3)
    torch.testing.assert_close(gradient, expected, atol=1e-5, rtol=0)


def test_on_favourites() -> None:
    n = 10
    items = rand(8, n, seed=1).argsort(-1)[:, :4]
    observations = Observations([choices(items, torch.arange(8) % 4, n)], n)
    problem = Case(rand(n, 2, seed=2), rand(6, 2, seed=3), observations, 3.0)
    confidence = problem.confidence(math.sqrt(8))
    found = least_advantage(confidence, *coefficients(problem, (6, 7, 8, 9)))
    assert found.converged.all()
    assert_inside(confidence, found.coordinates, found.beyond)


def test_refuses_what_it_cannot_use() -> None:
    problem = case()
    confidence = problem.confidence(1.0)
    g, s = coefficients(problem, (0, 1, 2))
    for wrong in (g[..., :-1], g[:, :0], g[0, 0]):
        with pytest.raises(ComparisonDataError, match="`g` must be"):
            least_advantage(confidence, wrong, s)
    with pytest.raises(ComparisonDataError, match="do not broadcast"):
        least_advantage(confidence, g, s[:3])


CURVED = [
    (case(num_points=3), 0.5),
    (case(seed=1, num_points=3), math.sqrt(12)),
    (case(judge="consistent", seed=2, num_points=3), 1e-2),
    (case(seed=7, num_points=3), math.inf),
    (case(m=0, num_points=3), 1.0),
    # So much slack that the ball alone decides.
    (case(seed=3, num_points=3), 1e3),
]


@pytest.mark.parametrize(("problem", "slack"), CURVED)
def test_curvature_equals_differences_of_the_gradient(problem: Case, slack: float) -> None:
    confidence = problem.confidence(slack)
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
