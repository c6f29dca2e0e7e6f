"""Favourites among several items: the likelihood, and sets that rest on it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.inference import Block, Observations
from botorch_pref.likelihood_ratio import ChoiceLikelihood, ConfidenceSet, choice_block
from botorch_pref.likelihoods import LogitLikelihood
from tests._reference import likelihood_ratio as reference
from tests.common import same
from tests.inference.common import DUEL, design, rand, randn
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
    blocks = [choice_block(items, favourite, scale=scale) for items, favourite in asked]
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


def favourites_log_prob(items: Tensor, favourite: Tensor, f: Tensor, scale: float) -> Tensor:
    shown = scale * f[items]
    picked = shown.gather(-1, favourite.unsqueeze(-1)).squeeze(-1)
    return picked - shown.exp().sum(-1).log()


@pytest.mark.parametrize("k", [2, 3, 5])
def test_value_gradient_and_curvature_are_the_softmaxs(k: int) -> None:
    n, scale = 7, 1.7
    items, favourite = questions(n, 6, k)
    weight = torch.tensor([1.0, 3.0, 0.0, 1.0, 2.0, 0.5], dtype=torch.float64)
    observations = Observations([choice_block(items, favourite, weight, scale=scale)], n)
    f = randn(n, seed=k)

    def expected(f: Tensor) -> Tensor:
        return (weight * favourites_log_prob(items, favourite, f, scale)).sum()

    latent = observations.map.apply(f)
    assert observations.num_rows == 6 * k * (k - 1) // 2
    torch.testing.assert_close(observations.log_prob(latent).sum(), expected(f))
    score, curvature, third = observations.derivatives(latent)
    gradient = torch.autograd.functional.jacobian(expected, f)
    torch.testing.assert_close(observations.map.adjoint(score), gradient)
    hessian = torch.autograd.functional.hessian(expected, f)
    torch.testing.assert_close(observations.map.laplacian(curvature), -hessian)
    assert (curvature >= 0).all()
    assert third.isnan().all()


def test_batches_of_latent_values_and_of_questions() -> None:
    items, favourite = questions(7, 6, 4)
    block = choice_block(items, favourite)
    observations = Observations([block], 7)
    f = randn(2, 5, 7)
    latent = observations.map.apply(f)
    value = observations.log_prob(latent).sum(-1)
    score, curvature, _ = observations.derivatives(latent)
    for i in range(2):
        for j in range(5):
            one = observations.map.apply(f[i, j])
            torch.testing.assert_close(value[i, j], observations.log_prob(one).sum())
            torch.testing.assert_close(score[i, j], observations.derivatives(one)[0])
            torch.testing.assert_close(curvature[i, j], observations.derivatives(one)[1])
    # Far apart, where a naive exponential would not be finite.
    far = observations.map.apply(1e3 * f)
    assert observations.log_prob(far).isfinite().all()
    assert all(part.isfinite().all() for part in observations.derivatives(far)[:2])


def test_two_items_are_a_duel() -> None:
    items, favourite = questions(8, 15, 2)
    weight = 1.0 + (3.0 * rand(15)).floor()
    X, points = rand(8, 2, seed=7), rand(3, 2, seed=8)
    duels = Block(items, DUEL, 1.0 - favourite.double(), weight, LogitLikelihood(1.3))
    blocks = (duels, choice_block(items, favourite, weight, scale=1.3))
    cases = [Case(X, points, Observations([block], 8), 3.0) for block in blocks]
    latent = randn(4, 15)
    sides = [
        (c.observations.log_prob(latent), *c.observations.derivatives(latent)[:2]) for c in cases
    ]  # type: ignore[union-attr]
    for one, other in zip(*sides, strict=True):
        torch.testing.assert_close(one, other, atol=1e-14, rtol=1e-13)
    found = []
    for problem in cases:
        confidence = ConfidenceSet(problem.program(), 1.0)
        g, s = problem.advantage()
        bounds = confidence.lower(g, s).value, confidence.upper(g, s).value
        found.append(torch.cat([*bounds, confidence.mle.log_likelihood.view(1)]))
    torch.testing.assert_close(*found, atol=1e-9, rtol=0)


@pytest.mark.parametrize(("asked", "slack"), CASES)
def test_equal_the_printed_program(asked: tuple[Case, reference.Choices], slack: float) -> None:
    problem, choices = asked
    program = problem.program()
    confidence = ConfidenceSet(program, slack)
    covariance = problem.covariance().numpy()
    best = reference.maximum_likelihood(covariance, choices, problem.norm_bound)
    assert confidence.mle.converged
    assert float(confidence.mle.log_likelihood) == pytest.approx(best.value, abs=1e-6)
    level = float(confidence.mle.log_likelihood) - slack
    g, s = problem.advantage()
    for bound, sign in ((confidence.lower(g, s), -1.0), (confidence.upper(g, s), 1.0)):
        assert bound.converged.all()
        assert_inside(confidence, bound.coordinates, bound.beyond)
        objective = np.zeros(len(problem.items) + len(problem.points))
        objective[len(problem.items)], objective[0] = sign, -sign
        expected = reference.largest(covariance, choices, problem.norm_bound, objective, level)
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
    observations = Observations([choice_block(items, favourite), duels, label], 8)
    problem = Case(X, X[:0], observations, 3.0)
    mle = problem.program().maximum_likelihood()
    assert mle.converged
    rows = torch.from_numpy(design(observations)) @ problem.program().root
    score = observations.derivatives(rows @ mle.coordinates)[0]
    residual = rows.T @ score - mle.norm_multiplier * mle.coordinates
    assert float(residual.norm()) <= 1e-6


def test_an_item_shown_twice_and_a_reordered_question() -> None:
    # The second of two equal items takes half the probability of both.
    items = torch.tensor([[0, 1, 1]])
    observations = Observations([choice_block(items, torch.tensor([0]))], 2)
    f = torch.tensor([0.3, -0.4], dtype=torch.float64)
    value = observations.log_prob(observations.map.apply(f)).sum()
    torch.testing.assert_close(value, 0.3 - (f[0].exp() + 2.0 * f[1].exp()).log())
    items, favourite = questions(6, 4, 4)
    order = torch.tensor([2, 0, 3, 1])
    moved = (order == favourite.unsqueeze(-1)).long().argmax(-1)
    f = randn(6)
    values = [
        o.log_prob(o.map.apply(f)).sum()
        for o in (
            Observations([choice_block(items, favourite)], 6),
            Observations([choice_block(items[:, order], moved)], 6),
        )
    ]
    torch.testing.assert_close(*values)


def test_refuses_what_it_cannot_use() -> None:
    items, favourite = questions(6, 4, 3)
    for wrong, message in (
        ((items[0], favourite), "`items` must have shape"),
        ((items.double(), favourite), "`items` must be of an integer type"),
        ((items[:, :1], favourite), "at least 2 items, not of 1"),
        ((items - 7, favourite), "`items` row 0 .* negative"),
        ((items, favourite[:2]), "`favourite` must have shape"),
        ((items, favourite + 1.0), "`favourite` must be of an integer type"),
        ((items, torch.tensor([0, 1, 3, 0])), "`favourite` row 2 is 3: .* 0 to 2"),
        ((items, torch.tensor([0, 1, 2, -1])), "`favourite` row 3 is -1"),
        ((items, favourite, torch.tensor([1.0, -1.0, 0.0, 0.0])), "`weight` row 1"),
        ((items, favourite, torch.ones(3)), "`weight` must have shape"),
    ):
        with pytest.raises(ComparisonDataError, match=message):
            choice_block(*wrong)  # type: ignore[arg-type]
    with pytest.raises(ComparisonDataError, match="`scale`"):
        choice_block(items, favourite, scale=0.0)
    with pytest.raises(ComparisonDataError, match="at least 2"):
        ChoiceLikelihood(1)


def test_a_device_agrees(device: torch.device) -> None:
    items, favourite = questions(8, 15, 4)
    block = choice_block(items, favourite)
    moved = choice_block(items.to(device), favourite.to(device))
    latent = randn(3, len(block.answer))
    here = (block.answer, block.weight)
    there = (moved.answer, moved.weight)
    value = moved.likelihood.log_prob(latent.to(device), *there)
    same(value, block.likelihood.log_prob(latent, *here))
    parts = (
        block.likelihood.derivatives(latent, *here),
        moved.likelihood.derivatives(latent.to(device), *there),
    )
    for one, other in zip(*parts, strict=True):
        torch.testing.assert_close(other.cpu(), one, rtol=1e-8, atol=1e-8, equal_nan=True)
