"""Bounds over the confidence set: against the printed program, and what they must satisfy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.inference import Observations
from botorch_pref.likelihood_ratio import (
    SCREENING,
    Bound,
    ConfidenceSet,
    whiten,
)
from tests.inference.common import make, numerical_gradient, rand
from tests.likelihood_ratio.common import JITTER, Case, assert_inside, case, duel_block

CASES = [
    (case(), 0.5),
    (case(seed=1), math.sqrt(12)),
    (case(judge="consistent", seed=2), 1e-2),
    (case(num_labels=6, seed=3, norm_bound=1.0), 1.0),
    (case(m=0, num_labels=10, seed=4), 0.1),
    (case(n=3, m=40, norm_bound=20.0, seed=5), 2.0),
    (case(scale=2.5, seed=6), 1.0),
    (case(m=0), 1.0),
    (case(seed=7), math.inf),
    (case(box=0.4, num_labels=6, seed=8), 1.0),
    (case(box=0.3, seed=9), math.inf),
    (case(n=30, m=30, seed=10), math.sqrt(30)),
    (case(n=100, m=200, dim=6, lengthscale=1.0, norm_bound=6.0, seed=11), math.sqrt(200)),
]


def bounds(problem: Case, slack: float) -> tuple[ConfidenceSet, Bound, Bound]:
    confidence = problem.confidence(slack)
    g, s = problem.advantage()
    return confidence, confidence.lower(g, s), confidence.upper(g, s)


@pytest.mark.parametrize(("problem", "slack"), CASES)
def test_equal_the_printed_program(problem: Case, slack: float) -> None:
    confidence, low, high = bounds(problem, slack)
    level = float(confidence.mle.log_likelihood) - slack
    for bound, sign in ((low, -1.0), (high, 1.0)):
        assert bound.converged.all()
        assert_inside(confidence, bound.coordinates, bound.beyond)
        for point in range(len(problem.points))[:2]:
            objective = np.zeros(len(problem.items) + len(problem.points))
            objective[len(problem.items) + point], objective[0] = sign, -sign
            expected = problem.printed(objective, level)
            value = sign * float(bound.value[point])
            # Where Clarabel is unsure of its answer, ours is certified to lie above it.
            assert value == pytest.approx(expected.value, abs=1e-6 if expected.exact else 1e-4)
            assert value >= expected.value - 1e-6


@pytest.mark.parametrize(("problem", "slack"), CASES)
def test_a_batch_is_a_loop(problem: Case, slack: float) -> None:
    confidence, _, whole = bounds(problem, slack)
    g, s = problem.advantage()
    one_by_one = torch.stack([confidence.upper(a, b).value for a, b in zip(g, s, strict=True)])
    torch.testing.assert_close(whole.value, one_by_one, atol=1e-8, rtol=0)
    shaped = confidence.upper(g.view(2, 2, -1), s.view(2, 2))
    torch.testing.assert_close(shaped.value, whole.value.view(2, 2), atol=1e-8, rtol=0)
    assert shaped.coordinates.shape == (2, 2, g.shape[-1])


def test_the_gap_is_certified_at_any_accuracy() -> None:
    confidence, _, exact = bounds(case(n=20, m=30), math.sqrt(30))
    g, s = case(n=20, m=30).advantage()
    for steps in range(8):
        rough = confidence.upper(g, s, max_steps=steps)
        assert_inside(confidence, rough.coordinates, rough.beyond)
        assert (rough.value <= exact.value + 1e-9).all()
        assert (rough.value + rough.gap >= exact.value).all()
        assert (rough.num_steps <= steps).all()
    screening = confidence.upper(g, s, tolerance=SCREENING)
    assert (screening.gap <= SCREENING).all()
    assert (screening.num_steps < exact.num_steps).any()
    early = confidence.upper(g, s, max_steps=1)
    assert not early.converged.any()
    assert (early.gap > 1e-3).any()


def test_a_warm_start_saves_steps() -> None:
    problem = case(n=20, m=30, num_points=32)
    confidence, _, cold = bounds(problem, math.sqrt(30))
    g, s = problem.advantage(problem.points + 1e-3)
    warm, fresh = confidence.upper(g, s, start=cold), confidence.upper(g, s)
    torch.testing.assert_close(warm.value, fresh.value, atol=1e-8, rtol=0)
    assert warm.num_steps.sum() < 0.9 * fresh.num_steps.sum()
    # A start that has nothing to do with the element does no harm.
    astray = confidence.upper(g, s, start=Bound(*(part.flip(0) for part in cold)))
    torch.testing.assert_close(astray.value, fresh.value, atol=1e-8, rtol=0)
    assert astray.num_steps.sum() <= 1.2 * fresh.num_steps.sum()
    # From another set: one more duel, and less slack.
    other = case(n=20, m=31, num_points=32).confidence(1.0)
    moved = other.upper(g, s, start=cold)
    torch.testing.assert_close(moved.value, other.upper(g, s).value, atol=1e-8, rtol=0)
    assert_inside(other, moved.coordinates, moved.beyond)


@pytest.mark.parametrize("box", [None, 0.5])
def test_gradient_is_the_envelopes(box: float | None) -> None:
    problem = case(box=box, num_points=1)
    confidence = problem.confidence(1.0)
    g, s = problem.advantage()
    at = torch.cat([g[0], s])

    def upper(x: Tensor) -> Tensor:
        return confidence.upper(x[..., :-1], x[..., -1], tolerance=1e-12).value

    leaf = at.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(upper(leaf), leaf)
    torch.testing.assert_close(gradient, numerical_gradient(upper, at, 1e-3), atol=1e-6, rtol=0)
    low = confidence.lower(leaf[:-1], leaf[-1])
    (gradient,) = torch.autograd.grad(low.value, leaf)
    expected = torch.cat([low.coordinates, low.beyond.unsqueeze(-1)])
    torch.testing.assert_close(gradient, expected)


def test_between_the_estimate_and_the_ball() -> None:
    problem = case(n=12, m=20, num_points=16)
    confidence, low, high = bounds(problem, 1.0)
    g, s = problem.advantage()
    estimate = g @ confidence.mle.coordinates
    assert (low.value <= estimate + 1e-9).all()
    assert (estimate <= high.value + 1e-9).all()
    a, s = problem.coefficients()
    for bound in (confidence.lower(a, s), confidence.upper(a, s)):
        assert (bound.value.abs() <= problem.norm_bound * math.sqrt(1 + JITTER) + 1e-9).all()
    # Without data, or with any slack, only the ball is left.
    ball = problem.norm_bound * (g.square().sum(-1) + s.square()).sqrt()
    for everything in (
        problem.confidence(math.inf),
        problem.confidence(1e6),
        case(n=12, m=0).confidence(1.0),
    ):
        torch.testing.assert_close(everything.upper(g, s).value, ball, atol=1e-9, rtol=0)


def test_advantage_both_ways_round() -> None:
    problem = case(n=10, m=15, num_points=0)
    confidence = problem.confidence(0.5)
    first, second = confidence.root[3], confidence.root[5]
    none = torch.zeros((), dtype=torch.float64)
    there, back = (confidence.upper(g, none) for g in (first - second, second - first))
    assert float(there.value + back.value) >= 0
    assert float(confidence.lower(first - second, none).value) == pytest.approx(-float(back.value))


def test_widens_with_the_slack() -> None:
    problem = case(judge="consistent")
    slacks = (1e-8, 1e-6, 1e-4, 1e-2, 1.0, 10.0, 1e3, math.inf)
    values = torch.stack([bounds(problem, slack)[2].value for slack in slacks])
    assert (values.diff(dim=0) >= -1e-9).all()
    # To the estimate as the root of the slack, where the ball is active.
    g, _ = problem.advantage()
    excess = values - g @ problem.confidence().mle.coordinates
    ratio = excess[1:3] / excess[0:2]
    torch.testing.assert_close(ratio, torch.full_like(ratio, 10.0), atol=0.5, rtol=0)


def test_no_slack_is_the_estimate() -> None:
    problem = case(judge="consistent")
    confidence, low, high = bounds(problem, 0.0)
    estimate = problem.advantage()[0] @ confidence.mle.coordinates
    torch.testing.assert_close(low.value, estimate, atol=1e-5, rtol=0)
    torch.testing.assert_close(high.value, estimate, atol=1e-5, rtol=0)
    assert not high.num_steps.any()


def test_a_duel_with_itself() -> None:
    problem = case(n=10, m=15, norm_bound=3.0)
    confidence = problem.confidence(1.0)
    g, s = problem.advantage(problem.items[:1])
    value = float(confidence.upper(g, s).value)
    assert -1e-5 <= value <= 3.0 * math.sqrt(2 * JITTER)
    zero = confidence.upper(torch.zeros_like(g), torch.zeros_like(s))
    assert float(zero.value) == 0
    assert zero.converged.all()
    # As a row of data it says nothing.
    blocks = confidence.observations.blocks  # type: ignore[union-attr]
    more = Observations([*blocks, duel_block([[2, 2]], [1.0])], 10)
    other = ConfidenceSet(confidence.root, more, norm_bound=3.0, slack=1.0)
    g, s = problem.advantage()
    both = [known.upper(g, s).value for known in (confidence, other)]
    torch.testing.assert_close(*both, atol=1e-8, rtol=0)


def test_scaling_changes_nothing() -> None:
    problem = case()
    confidence = problem.confidence(1.0)
    g, s = problem.advantage()
    value = confidence.upper(g, s).value
    root, told = 7.0 * confidence.root, confidence.observations
    other = ConfidenceSet(root, told, norm_bound=3.0 / 7.0, slack=1.0)
    torch.testing.assert_close(other.upper(7.0 * g, 7.0 * s).value, value, atol=1e-8, rtol=0)


def test_duplicated_items_in_the_numerical_rank() -> None:
    items = rand(6, 2)
    points = rand(3, 2, seed=9)
    pairs, answers = [[0, 1], [2, 3], [4, 5], [1, 2]], [1.0, 0.0, 1.0, 1.0]
    renamed = [[6, 1], [2, 3], [4, 5], [1, 8]]
    values = []
    for X, rows in ((items, pairs), (torch.cat([items, items[:3]]), renamed)):
        problem = Case(X, points, Observations([duel_block(rows, answers)], len(X)), 3.0)
        whitening = whiten(problem.kernel(X, X))
        assert whitening.root.shape[-1] == 6
        told = problem.observations
        confidence = ConfidenceSet(whitening.root, told, norm_bound=3.0, slack=0.5)
        a, s = whitening.split(problem.kernel(points, X), torch.ones(3, dtype=torch.float64))
        values.append(confidence.upper(a, s).value)
    torch.testing.assert_close(*values, atol=1e-7, rtol=0)


def test_jitter_matters_little() -> None:
    problem = case(n=10, m=15)
    n, values = len(problem.items), []
    for jitter in (1e-8, 1e-6):
        K = problem.kernel(problem.items, problem.items)
        whitening = whiten(K + jitter * torch.eye(n, dtype=K.dtype), cutoff=1e-14)
        root, told = whitening.root, problem.observations
        confidence = ConfidenceSet(root, told, norm_bound=3.0, slack=1.0)
        variance = torch.full((4,), 1 + jitter, dtype=K.dtype)
        a, s = whitening.split(problem.kernel(problem.points, problem.items), variance)
        values.append(confidence.upper(a - root[0], s).value)
    assert float((values[0] - values[1]).abs().max()) <= 2e-4


@pytest.mark.parametrize("norm_bound", [1e-3, 0.1, 10.0, 30.0])
@pytest.mark.parametrize("judge", ["noisy", "consistent"])
def test_balls_of_all_sizes(norm_bound: float, judge: str) -> None:
    problem = case(n=15, m=25, norm_bound=norm_bound, judge=judge, num_points=16)
    g, s = problem.advantage()
    for slack in (1e-6, 1e-3, 0.1, 5.0, 1e3):
        confidence = problem.confidence(slack)
        for bound in (confidence.lower(g, s), confidence.upper(g, 0 * s)):
            assert bound.converged.all()
            assert_inside(confidence, bound.coordinates, bound.beyond)


def test_multipliers_are_the_printed_conditions() -> None:
    problem = case(n=10, m=15)
    confidence, _, high = bounds(problem, 1.0)
    g, s = problem.advantage()
    nu, mu = high.multipliers.unbind(-1)
    u = high.coordinates.clone().requires_grad_()
    observations = confidence.observations
    assert observations is not None
    latent = observations.incidence.apply(u @ confidence.root.T)
    (score,) = torch.autograd.grad(observations.log_prob(latent).sum(), u)
    residual = g + mu.unsqueeze(-1) * score - nu.unsqueeze(-1) * high.coordinates
    assert float(residual.abs().max()) <= 1e-4
    torch.testing.assert_close(high.beyond, s / nu, atol=1e-4, rtol=0)


def test_refuses_what_it_cannot_use() -> None:
    problem = case()
    confidence = problem.confidence(1.0)
    root, told = confidence.root, confidence.observations
    wrong: list[tuple[str, Any, Any, dict[str, Any]]] = [
        ("norm_bound", root, told, {"norm_bound": 0.0}),
        ("box", root, told, {"box": -1.0}),
        ("slack", root, told, {"slack": -1.0}),
        ("slack", root, told, {"slack": math.nan}),
        ("root", root[0], told, {}),
        ("8 items", root[:-1], told, {}),
        ("batch", root, make(rand(2, 8, 2), 5), {}),
    ]
    for message, items, observations, options in wrong:
        with pytest.raises((ComparisonDataError, UnsupportedError), match=message):
            ConfidenceSet(items, observations, **{"norm_bound": 1.0, **options})
    g, s = problem.advantage()
    with pytest.raises(ComparisonDataError, match="`g`"):
        confidence.upper(g[..., :-1], s)
    with pytest.raises(ComparisonDataError, match="do not broadcast"):
        confidence.upper(g, s[:3])
