"""Whitened coordinates, and the maximum likelihood in the ball against the printed program."""

from __future__ import annotations

import math

import pytest
import torch

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.inference import Block, Observations
from botorch_pref.likelihood_ratio import whiten
from botorch_pref.likelihoods import LogitLikelihood
from tests._reference import likelihood_ratio as reference
from tests.inference.common import DUEL, matern, rand
from tests.likelihood_ratio.common import Case, case, duel_block

CASES = [
    case(),
    case(judge="consistent"),
    case(num_labels=6, seed=1),
    case(m=0, num_labels=10, seed=2),
    case(n=3, m=40, norm_bound=30.0, seed=3),
    case(scale=2.5, seed=4),
    case(box=0.5, num_labels=6, seed=5),
    case(n=25, m=120, norm_bound=6.0, seed=6),
]


@pytest.mark.parametrize("problem", CASES)
def test_equals_the_printed_program(problem: Case) -> None:
    answers = problem.answers()
    assert answers is not None
    found = problem.confidence().mle
    expected = reference.maximum_likelihood(
        problem.covariance().numpy(), answers, problem.norm_bound, problem.boxed()
    )
    assert found.converged
    assert float(found.log_likelihood) == pytest.approx(expected.value, abs=1e-6)
    assert float(found.log_likelihood) >= expected.value - 1e-7


@pytest.mark.parametrize("problem", [c for c in CASES if c.box is None])
def test_stationary_in_the_ball(problem: Case) -> None:
    confidence = problem.confidence()
    found, observations = confidence.mle, confidence.observations
    u = found.coordinates
    assert observations is not None
    latent = observations.incidence.apply(confidence.root @ u)
    score = observations.derivatives(latent)[0]
    gradient = confidence.root.T @ observations.incidence.adjoint(score)
    assert float((gradient - found.norm_multiplier * u).norm()) <= 1e-6
    assert float(u.norm()) <= problem.norm_bound * (1 + 1e-9)
    assert observations.log_prob(latent).sum() == pytest.approx(float(found.log_likelihood))
    at_zero = float(observations.log_prob(torch.zeros_like(latent)).sum())
    assert at_zero == pytest.approx(-float(observations.weight.sum()) * math.log(2))
    assert at_zero <= float(found.log_likelihood) <= 0


def test_consistent_answers_reach_the_boundary() -> None:
    problem = case(judge="consistent")
    found = problem.confidence().mle
    assert found.norm_multiplier > 1e-3
    assert float(found.coordinates.norm()) == pytest.approx(problem.norm_bound, abs=1e-9)


def test_the_smallest_norm_where_the_ball_is_inactive() -> None:
    # A fifth of the duels lost: the log odds of one pair, and nothing elsewhere.
    items = rand(4, 2)
    observations = Observations([duel_block([[0, 1], [0, 1]], [1.0, 0.0])], 4)
    observations.blocks[0].weight.copy_(torch.tensor([4.0, 1.0]))
    problem = Case(items, items[:0], observations, norm_bound=50.0)
    confidence = problem.confidence()
    found, root = confidence.mle, confidence.root
    row = root[0] - root[1]
    expected = math.log(4) * row / row.square().sum()
    torch.testing.assert_close(found.coordinates, expected, atol=1e-5, rtol=0)
    assert found.norm_multiplier <= 1e-9


def test_grows_with_the_ball() -> None:
    values = [
        float(case(norm_bound=b).confidence().mle.log_likelihood)
        for b in (1e-3, 0.1, 1.0, 3.0, 10.0, 100.0)
    ]
    assert values == sorted(values)


def test_no_data() -> None:
    problem = case(m=0)
    found = problem.confidence().mle
    assert found.converged
    assert float(found.log_likelihood) == 0
    assert not found.coordinates.any()


def test_swaps_merges_and_permutations_change_nothing() -> None:
    items = rand(5, 2)
    pairs = [[0, 1], [2, 1], [0, 1], [3, 4], [4, 0]]
    answers = [1.0, 0.0, 0.0, 0.5, 1.0]
    merged = Block(
        torch.tensor([[4, 0], [1, 0], [1, 2], [4, 3]]),
        DUEL,
        torch.tensor([1.0, 0.5, 1.0, 0.5], dtype=torch.float64),
        torch.tensor([1.0, 2.0, 1.0, 1.0], dtype=torch.float64),
        LogitLikelihood(),
    )
    found = [
        Case(items, items[:0], Observations([block], 5), 3.0).confidence().mle
        for block in (duel_block(pairs, answers), merged)
    ]
    torch.testing.assert_close(found[0].coordinates, found[1].coordinates, atol=1e-6, rtol=0)
    torch.testing.assert_close(*(f.log_likelihood for f in found), atol=1e-10, rtol=0)


def test_root_and_inverse() -> None:
    X = rand(7, 2)
    K = matern(X)
    root, inverse = whiten(K)
    torch.testing.assert_close(root @ root.T, K, atol=1e-9, rtol=0)
    torch.testing.assert_close(inverse @ root, torch.eye(7, dtype=K.dtype), atol=1e-7, rtol=0)


def test_numerical_rank() -> None:
    factor = rand(9, 4)
    root, _ = whiten(factor @ factor.T)
    assert root.shape == (9, 4)
    torch.testing.assert_close(root @ root.T, factor @ factor.T, atol=1e-12, rtol=0)
    assert whiten(factor.new_zeros(0, 0)).root.shape == (0, 0)


def test_split_has_the_printed_norm() -> None:
    # The norm through values Z at the items and z at a point, by one solve of all of them.
    X, x = rand(6, 2), rand(1, 2, seed=7)
    both = torch.cat([X, x])
    K = matern(both)
    whitening = whiten(K[:6, :6])
    a, s = whitening.split(K[6, :6], K[6, 6])
    values = rand(7, seed=8)
    u = whitening.inverse @ values[:6]
    w = (values[6] - a @ u) / s
    expected = values @ torch.linalg.solve(K, values)
    torch.testing.assert_close(u.square().sum() + w.square(), expected, rtol=1e-8, atol=0)
    # At an item nothing is left over.
    at_item = whitening.split(K[0, :6], K[0, 0])
    torch.testing.assert_close(at_item[0], whitening.root[0], atol=1e-6, rtol=0)
    assert float(at_item[1]) <= 1e-5


def test_matrices_that_are_refused() -> None:
    with pytest.raises(ComparisonDataError, match="n x n"):
        whiten(rand(3, 2))
    with pytest.raises(ComparisonDataError, match="finite"):
        whiten(torch.full((2, 2), torch.nan))
