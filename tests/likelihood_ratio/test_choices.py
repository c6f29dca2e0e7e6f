"""Favourites among several items: the likelihood, and sets that rest on it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from botorch_pref.inference import Block, Observations
from botorch_pref.likelihoods import LogitLikelihood
from tests._reference import likelihood_ratio as reference
from tests.inference.common import DUEL, choices, design, rand
from tests.likelihood_ratio.common import Case, assert_inside


def questions(n: int, m: int, k: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """``m`` questions of ``k`` different items each, and noisy favourites."""
    items = rand(m, n, seed=seed).argsort(-1)[:, :k]
    utility = 3.0 * rand(n, seed=seed + 1)[items] + rand(m, k, seed=seed + 2)
    return items, utility.argmax(-1)


def case(
    sizes: dict[int, int], n: int = 10, *, scale: float = 1.0, norm_bound: float = 3.0
) -> tuple[Case, reference.Choices]:
    """Questions, as many as given of each size, on random items, and their printed form."""
    X, points = rand(n, 2, seed=7), rand(3, 2, seed=8)
    asked = [questions(n, m, k, seed=10 * k) for k, m in sizes.items()]
    blocks = [choices(items, favourite, n, scale=scale) for items, favourite in asked]
    shown = [row for items, _ in asked for row in items.tolist()]
    favourite = [r for _, best in asked for r in best.tolist()]
    printed = reference.Choices(shown, favourite, scale)
    return Case(X, points, Observations(blocks, n), norm_bound), printed


CASES = [
    (case({3: 8}), 1.0),
    (case({4: 10, 2: 5, 3: 1}), math.sqrt(16)),
    (case({5: 12}, scale=2.5), 0.1),
    (case({6: 20}, n=25, norm_bound=6.0), math.sqrt(20)),
    (case({10: 3}, norm_bound=20.0), 1.0),
]


def test_two_items_are_a_duel() -> None:
    items, favourite = questions(8, 15, 2)
    weight = 1.0 + (3.0 * rand(15)).floor()
    X, points = rand(8, 2, seed=7), rand(3, 2, seed=8)
    duels = Block(items, DUEL, 1.0 - favourite.double(), weight, LogitLikelihood(1.3))
    found = []
    for block in (duels, choices(items, favourite, 8, weight, 1.3)):
        problem = Case(X, points, Observations([block], 8), 3.0)
        confidence = problem.confidence(1.0)
        g, s = problem.advantage()
        bounds = confidence.lower(g, s).value, confidence.upper(g, s).value
        found.append(torch.cat([*bounds, confidence.mle.log_likelihood.view(1)]))
    torch.testing.assert_close(*found, atol=1e-9, rtol=0)


@pytest.mark.parametrize(("asked", "slack"), CASES)
def test_equal_the_printed_program(asked: tuple[Case, reference.Choices], slack: float) -> None:
    problem, printed = asked
    confidence = problem.confidence(slack)
    covariance = problem.covariance().numpy()
    best = reference.maximum_likelihood(covariance, printed, problem.norm_bound)
    assert confidence.mle.converged
    assert float(confidence.mle.log_likelihood) == pytest.approx(best.value, abs=1e-6)
    level = float(confidence.mle.log_likelihood) - slack
    g, s = problem.advantage()
    for bound, sign in ((confidence.lower(g, s), -1.0), (confidence.upper(g, s), 1.0)):
        assert bound.converged.all()
        assert_inside(confidence, bound.coordinates, bound.beyond)
        objective = np.zeros(len(problem.items) + len(problem.points))
        objective[len(problem.items)], objective[0] = sign, -sign
        expected = reference.largest(covariance, printed, problem.norm_bound, objective, level)
        assert sign * float(bound.value[0]) == pytest.approx(expected.value, abs=1e-6)


def test_beside_duels_and_labels() -> None:
    items, favourite = questions(8, 5, 3)
    X = rand(8, 2, seed=7)
    duels = Block(
        torch.tensor([[0, 1], [2, 3]]),
        DUEL,
        torch.tensor([1.0, 0.5], dtype=torch.float64),
        torch.ones(2, dtype=torch.float64),
        LogitLikelihood(),
    )
    label = Block(
        torch.tensor([[4]]), (1.0,), *torch.ones(2, 1, dtype=torch.float64), LogitLikelihood()
    )
    observations = Observations([choices(items, favourite, 8), duels, label], 8)
    problem = Case(X, X[:0], observations, 3.0)
    confidence = problem.confidence()
    mle = confidence.mle
    assert mle.converged
    rows = torch.from_numpy(design(observations)) @ confidence.root
    score = observations.derivatives(rows @ mle.coordinates)[0]
    residual = rows.T @ score - mle.norm_multiplier * mle.coordinates
    assert float(residual.norm()) <= 1e-6
