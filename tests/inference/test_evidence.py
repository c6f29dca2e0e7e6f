"""The evidence against the oracle and scikit-learn, and its gradient against finite differences."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.inference import (
    Block,
    Observations,
    System,
    choose_system,
    log_evidence,
)
from tests.inference.common import (
    DUEL,
    LINKS,
    SIDES,
    assert_equal,
    duels,
    likelihood,
    make,
    matern,
    numerical_gradient,
    oracle,
    prior_latent,
    rand,
    randn,
)

N, D, M, LABELS = 6, 2, 10, 3
X = rand(N, D)
QUICK = settings(max_examples=20, deadline=None, database=None, derandomize=True)

both_sides = pytest.mark.parametrize("wanted", SIDES)
every_link = pytest.mark.parametrize(("link", "scale"), LINKS)
both_judges = pytest.mark.parametrize("judge", ["noisy", "consistent"])
every_outputscale = pytest.mark.parametrize("outputscale", [0.1, 1.0, 10.0, 100.0])


def parameters(outputscale: float) -> Tensor:
    """Two log lengthscales, log output scale, constant and slope of the mean, items."""
    head = [math.log(0.4), math.log(0.6), math.log(outputscale), 0.3, 0.5]
    return torch.cat([torch.tensor(head, dtype=torch.float64), X.flatten()])


def system_of(theta: Tensor, observations: Observations, wanted: type[System]) -> System:
    """The system at ``... x p`` parameters."""
    items = theta[..., 5:].unflatten(-1, (N, D))
    lengthscale = theta[..., None, None, :2].exp()
    K = matern(items, lengthscale=lengthscale, outputscale=theta[..., 2, None, None].exp())
    mean = theta[..., 3, None] + theta[..., 4, None] * items.sum(-1)
    return wanted(K, observations.incidence.apply(mean), observations)


@both_sides
@every_link
@both_judges
@every_outputscale
class TestEvidence:
    def test_against_the_oracle(
        self, wanted: type[System], link: str, scale: float, judge: str, outputscale: float
    ) -> None:
        observations = make(X, M, LABELS, judge=judge, link=likelihood(link, scale), padding=1)
        mean = 0.3 + 0.5 * X.sum(-1)
        K = matern(X, outputscale=outputscale)
        latent = prior_latent(observations, mean)
        found, mode = log_evidence(wanted(K, latent, observations))
        expected = oracle(K, mean, observations, link, scale)
        assert_equal(found, expected.log_evidence)
        assert_equal(mode.latent, expected.differences)

    def test_gradient(
        self, wanted: type[System], link: str, scale: float, judge: str, outputscale: float
    ) -> None:
        observations = make(X, M, LABELS, judge=judge, link=likelihood(link, scale), padding=1)

        def evidence(theta: Tensor) -> Tensor:
            return log_evidence(system_of(theta, observations, wanted))[0]

        theta = parameters(outputscale).requires_grad_()
        (exact,) = torch.autograd.grad(evidence(theta), theta)
        assert_equal(exact, numerical_gradient(evidence, theta), 1e-6)
        assert (exact.abs() > 1e-6).all()


@both_sides
class TestGradient:
    def test_duels_only(self, wanted: type[System]) -> None:
        # No duel can tell a constant from zero; an item in no duel has no slope.
        observations = Observations([duels(X[:-1], M)], N)

        def evidence(theta: Tensor) -> Tensor:
            return log_evidence(system_of(theta, observations, wanted))[0]

        theta = parameters(10.0).requires_grad_()
        (exact,) = torch.autograd.grad(evidence(theta), theta)
        assert_equal(exact, numerical_gradient(evidence, theta), 1e-6)
        assert abs(float(exact[3])) < 1e-12
        assert (exact[-D:] == 0).all()

    @pytest.mark.parametrize("outputscale", [1.0, 100.0])
    def test_singular_covariance(self, wanted: type[System], outputscale: float) -> None:
        # Along a direction that keeps the rank, which both systems see alike.
        features = randn(N, 2)
        observations = make(X, M, LABELS)

        def evidence(theta: Tensor) -> Tensor:
            root = features * theta.exp().unsqueeze(-2)
            latent = torch.zeros(M + LABELS, dtype=torch.float64)
            system = wanted(root @ root.mT, latent, observations)
            return log_evidence(system)[0]

        theta = torch.tensor([0.0, 0.7], dtype=torch.float64) + 0.5 * math.log(outputscale)
        theta = theta.requires_grad_()
        (exact,) = torch.autograd.grad(evidence(theta), theta)
        assert_equal(exact, numerical_gradient(evidence, theta), 1e-6)


@both_sides
class TestBatches:
    def make(self, wanted: type[System], shared: bool) -> tuple[Observations, Tensor]:
        items = rand(2, 3, N, D)
        observations = make(X if shared else items, M, LABELS)
        theta = parameters(4.0).expand(2, 3, -1).clone()
        theta[..., :5] += 0.5 * randn(2, 3, 5)
        theta[..., 5:] = items.flatten(-2)
        return observations, theta

    @pytest.mark.parametrize("shared", [True, False])
    def test_two_leading_dimensions_are_a_loop(self, wanted: type[System], shared: bool) -> None:
        observations, theta = self.make(wanted, shared)
        theta.requires_grad_()
        found, mode = log_evidence(system_of(theta, observations, wanted))
        weights = 1.0 + rand(2, 3)
        (grad,) = torch.autograd.grad((weights * found).sum(), theta)
        assert found.shape == mode.converged.shape == (2, 3)
        for i, j in np.ndindex(2, 3):
            one = observations if shared else element(observations, i, j)
            alone = theta[i, j].detach().requires_grad_()
            expected, _ = log_evidence(system_of(alone, one, wanted))
            (slope,) = torch.autograd.grad(expected, alone)
            assert_equal(found[i, j], expected, 1e-12)
            assert_equal(grad[i, j], weights[i, j] * slope, 1e-9)

    def test_one_prior_of_many_data_sets(self, wanted: type[System]) -> None:
        observations, _ = self.make(wanted, shared=False)
        K = matern(X).requires_grad_()
        latent = torch.zeros(M + LABELS, dtype=torch.float64)
        found, _ = log_evidence(wanted(K, latent, observations))
        (grad,) = torch.autograd.grad(found.sum(), K)
        total = torch.zeros_like(K)
        for i, j in np.ndindex(2, 3):
            system = wanted(K, latent, element(observations, i, j))
            expected, _ = log_evidence(system)
            assert_equal(found[i, j], expected, 1e-12)
            total += torch.autograd.grad(expected, K)[0]
        assert_equal(grad, total, 1e-9)


def element(observations: Observations, *index: int) -> Observations:
    blocks = [
        Block(b.items[index], b.coefficients, b.answer[index], b.weight[index], b.likelihood)
        for b in observations.blocks
    ]
    return Observations(blocks, observations.num_items)


@both_sides
class TestInvariances:
    @QUICK
    @given(seed=st.integers(0, 10**6), data=st.data())
    def test_order_of_rows_and_of_items(
        self, wanted: type[System], seed: int, data: st.DataObject
    ) -> None:
        block = duels(X, M, seed=seed)
        order = torch.tensor(data.draw(st.permutations(range(M))))
        flip = torch.tensor(data.draw(st.lists(st.booleans(), min_size=M, max_size=M)))
        items = torch.where(flip[:, None], block.items.flip(-1), block.items)
        answer = torch.where(flip, 1.0 - block.answer, block.answer)
        moved = Block(items[order], DUEL, answer[order], block.weight[order], block.likelihood)
        values, slopes = zip(*(evaluate(b, wanted) for b in (block, moved)), strict=True)
        assert_equal(values[1], values[0], 1e-10)
        assert_equal(slopes[1], slopes[0])

    def test_repeated_rows_are_a_weight(self, wanted: type[System]) -> None:
        block = duels(X, M)
        times = block.weight.long()
        repeated = Block(
            block.items.repeat_interleave(times, 0),
            DUEL,
            block.answer.repeat_interleave(times),
            torch.ones(int(times.sum()), dtype=torch.float64),
            block.likelihood,
        )
        values, slopes = zip(*(evaluate(b, wanted) for b in (block, repeated)), strict=True)
        assert_equal(values[1], values[0])
        assert_equal(slopes[1], slopes[0])


def evaluate(block: Block, wanted: type[System]) -> tuple[Tensor, Tensor]:
    theta = parameters(10.0).requires_grad_()
    value, _ = log_evidence(system_of(theta, Observations([block], N), wanted))
    return value.detach(), torch.autograd.grad(value, theta)[0]


@both_sides
@every_link
def test_gaps_of_a_thousand_are_finite(wanted: type[System], link: str, scale: float) -> None:
    observations = make(X, M, link=likelihood(link, scale))
    mean = torch.linspace(-1000.0, 1000.0, N, dtype=torch.float64)
    K = matern(X, outputscale=0.1).requires_grad_()
    latent = prior_latent(observations, mean).requires_grad_()
    found, mode = log_evidence(wanted(K, latent, observations))
    assert mode.latent.abs().max() > 1000
    assert_equal(found, oracle(K, mean, observations, link, scale).log_evidence)
    for grad in torch.autograd.grad(found, (K, latent)):
        assert torch.isfinite(grad).all()


@pytest.mark.slow
def test_costs_few_factorisations() -> None:
    size = 400
    items = rand(size, 6)
    observations, latent = make(items, size), torch.zeros(size, dtype=torch.float64)
    system = choose_system(matern(items), latent, observations)
    system.covariance.requires_grad_()
    matrix = matern(items) + torch.eye(size, dtype=torch.float64)

    def evidence() -> None:
        torch.autograd.grad(log_evidence(system)[0], system.covariance)

    # The aim is 15; the margin is for machines on which this is not the only job.
    ratio = fastest(evidence) / fastest(lambda: torch.linalg.cholesky(matrix))
    assert ratio <= 30.0


def fastest(function: Callable[[], object], repeats: int = 15) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


@both_sides
def test_a_second_derivative_is_refused(wanted: type[System]) -> None:
    theta = parameters(1.0).requires_grad_()
    value, _ = log_evidence(system_of(theta, make(X, M), wanted))
    with pytest.raises(UnsupportedError, match="first derivatives only"):
        torch.autograd.grad(value, theta, create_graph=True)
