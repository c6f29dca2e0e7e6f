"""Observations of several latent values: derivatives, evidence and posterior."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import Tensor
from torch.autograd.functional import hessian, jacobian

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.inference import (
    Block,
    DualSystem,
    ExactSystem,
    Observations,
    PrimalSystem,
    choose_system,
    laplace_posterior,
    log_evidence,
)
from botorch_pref.likelihoods import LogitLikelihood, StandardNormal
from tests.inference.common import (
    DUEL,
    LABEL,
    SIDES,
    assert_equal,
    choices,
    matern,
    numerical_gradient,
    rand,
    randn,
)
from tests.inference.inducing import inducing_side

N = 7
X, POINTS = rand(N, 2), rand(3, 2, seed=9)
MEAN = torch.linspace(-1.0, 1.0, N, dtype=torch.float64)


def questions(num: int, k: int, scale: float = 1.3) -> Block:
    """Questions of ``k`` different items, of which one is padding."""
    items = rand(num, N, seed=k).argsort(-1)[:, :k]
    favourite = (k * rand(num, seed=k + 1)).long()
    weight = (1.0 + 2.0 * rand(num, seed=k + 2)).floor()
    weight[-1] = 0.0
    return choices(items, favourite, N, weight, scale)


def mixed(num: int, k: int = 3) -> Observations:
    """Choices of two sizes with a tie and a measured value between."""
    one = torch.ones(1, dtype=torch.float64)
    tie = Block(torch.tensor([[2, 5]]), DUEL, 0.5 * one, 2.0 * one, LogitLikelihood())
    value = Block(torch.tensor([[3]]), LABEL, 0.0 * one, one, StandardNormal())
    return Observations([questions(num, k), tie, value, questions(2, 4)], N)


CASES = {
    "choices": lambda: Observations([questions(2, 3)], N),
    "pairs": lambda: Observations([questions(6, 2)], N),
    "mixed": lambda: mixed(1),
    "many": lambda: mixed(8),
}
every_case = pytest.mark.parametrize("case", CASES)
every_system = pytest.mark.parametrize("system", SIDES)


def system_of(theta: Tensor, observations: Observations, wanted: type[ExactSystem]) -> ExactSystem:
    """Of lengthscale, output scale and a shift of the mean."""
    covariance = matern(X, None, theta[0], theta[1])
    latent = observations.incidence.apply(MEAN + theta[2] * X[:, 0])
    return wanted(covariance, latent, observations)


@every_case
def test_derivatives_are_those_of_autograd(case: str) -> None:
    observations = CASES[case]()
    latent = randn(observations.num_rows, seed=2)

    def log_prob(eta: Tensor) -> Tensor:
        return observations.log_prob(eta).sum()

    score, curvature = observations.derivatives(latent)
    expected = -hessian(log_prob, latent)
    assert_equal(score, jacobian(log_prob, latent), 1e-13)
    identity = torch.eye(len(latent), dtype=torch.float64)
    assert_equal(curvature.unscale(identity), expected, 1e-13)
    assert_equal(curvature.weight, expected.diagonal(), 1e-13)
    assert_equal(curvature.apply(score), expected @ score, 1e-13)
    H = observations.incidence.dense(latent)
    assert_equal(observations.incidence.apply(X[:, 0]), H @ X[:, 0], 1e-13)
    assert_equal(curvature.laplacian(observations.incidence), H.T @ expected @ H, 1e-12)
    Z = randn(len(latent), 2, seed=3)
    assert_equal(curvature.quadratic(Z), Z.T @ expected @ Z, 1e-12)
    moment = Z @ Z.T

    def trace(eta: Tensor) -> Tensor:
        return (hessian(log_prob, eta, create_graph=True) * moment).sum()

    assert_equal(curvature.contract(curvature.marginals(Z, Z)), jacobian(trace, latent), 1e-12)


def test_batches_and_large_utilities() -> None:
    observations = mixed(5)
    latent = randn(2, 3, observations.num_rows, seed=4)
    value = observations.log_prob(latent)
    score, curvature = observations.derivatives(latent)
    for i, j in product(range(2), range(3)):
        one, own = observations.derivatives(latent[i, j])
        assert_equal(value[i, j], observations.log_prob(latent[i, j]), 1e-14)
        assert_equal(score[i, j], one, 1e-14)
        assert_equal(curvature.weight[i, j], own.weight, 1e-14)
    score, curvature = observations.derivatives(1e3 * latent)
    assert observations.log_prob(1e3 * latent).isfinite().all()
    assert score.isfinite().all()
    assert curvature.weight.isfinite().all()


@every_case
@every_system
def test_evidence_against_dense_algebra(case: str, system: type[ExactSystem]) -> None:
    """At the mode, which is where the gradient of the log joint vanishes."""
    observations = CASES[case]()
    theta = torch.tensor([0.4, 4.0, 0.3], dtype=torch.float64)
    value, mode = log_evidence(system_of(theta, observations, system))
    K, H = matern(X), observations.incidence.dense(X)
    assert mode.converged
    latent = H @ (MEAN + 0.3 * X[:, 0]) + H @ K @ H.T @ mode.weights

    def log_prob(eta: Tensor) -> Tensor:
        return observations.log_prob(eta).sum()

    assert_equal(mode.latent, latent, 1e-9)
    assert_equal(mode.weights, jacobian(log_prob, latent), 1e-9)
    W, P = -hessian(log_prob, latent), H @ K @ H.T
    B = torch.eye(len(W), dtype=torch.float64) + W @ P
    joint = log_prob(latent) - 0.5 * mode.weights @ P @ mode.weights
    assert_equal(value, joint - 0.5 * B.logdet(), 1e-9)
    found = laplace_posterior(system_of(theta, observations, system))
    cross = matern(POINTS, X)
    mean, covariance = found.predict(torch.zeros(3), matern(POINTS), cross)
    explained = cross @ H.T @ torch.linalg.solve(B, W) @ H @ cross.T
    assert_equal(mean, cross @ H.T @ mode.weights, 1e-9)
    assert_equal(covariance, matern(POINTS) - explained, 1e-9)


@every_case
@every_system
def test_gradients_against_finite_differences(case: str, system: type[ExactSystem]) -> None:
    observations = CASES[case]()
    theta = torch.tensor([0.4, 4.0, 0.3], dtype=torch.float64)

    def evidence(theta: Tensor) -> Tensor:
        return log_evidence(system_of(theta, observations, system))[0]

    def moments(theta: Tensor) -> Tensor:
        found = laplace_posterior(system_of(theta, observations, system))
        prior = matern(POINTS, None, theta[0], theta[1])
        cross = matern(POINTS, X, theta[0], theta[1])
        mean, covariance = found.predict(theta[2] * POINTS[:, 0], prior, cross)
        weights = 1.0 + torch.arange(3)
        return mean @ weights.double() + (covariance @ weights.double()).sum()

    for of in (evidence, moments):
        leaf = theta.clone().requires_grad_()
        (grad,) = torch.autograd.grad(of(leaf), leaf)
        expected = numerical_gradient(lambda rows, f=of: torch.stack([f(t) for t in rows]), theta)
        assert_equal(grad, expected, 1e-7)


def test_evidence_against_quadrature() -> None:
    """Of one question of three items, whose evidence is an integral in two differences."""
    block = choices(torch.tensor([[0, 1, 2]]), torch.tensor([1]), 3)
    errors = []
    for outputscale in (0.01, 0.1):
        K = matern(rand(3, 2, seed=5), None, 0.4, outputscale)
        value, _ = log_evidence(
            choose_system(K, torch.zeros(3, dtype=torch.float64), Observations([block], 3))
        )
        contrast = torch.tensor([[1.0, -1.0, 0.0], [0.0, -1.0, 1.0]], dtype=torch.float64)
        root = torch.linalg.cholesky(contrast @ K @ contrast.T)
        grid = torch.linspace(-8.0, 8.0, 201, dtype=torch.float64)
        z = torch.cartesian_prod(grid, grid)
        others = (z @ root.T).exp().sum(-1)
        density = torch.exp(-0.5 * z.square().sum(-1)) / (2 * torch.pi) * (grid[1] - grid[0]) ** 2
        errors.append(float((value - (density / (1.0 + others)).sum().log()).abs()))
    # The approximation is exact for a narrow prior, to second order in its variance.
    assert errors[0] < 1e-5
    assert errors[1] < 1e-3


def test_a_batch_is_a_loop_over_it() -> None:
    observations = mixed(5)
    scales = torch.tensor([0.5, 2.0, 8.0], dtype=torch.float64)
    latent = observations.incidence.apply(MEAN)
    for wanted in (DualSystem, PrimalSystem):
        together = scales.clone().requires_grad_()
        covariance = matern(X, None, 0.4, together[:, None, None])
        value, _ = log_evidence(wanted(covariance, latent, observations))
        (grad,) = torch.autograd.grad(value.sum(), together)
        for i, scale in enumerate(scales):
            leaf = scale.clone().requires_grad_()
            one = wanted(matern(X, None, 0.4, leaf), latent, observations)
            alone, _ = log_evidence(one)
            assert_equal(value[i], alone, 1e-10)
            assert_equal(grad[i], torch.autograd.grad(alone, leaf)[0], 1e-8)


def test_inducing_items_take_single_latent_values() -> None:
    with pytest.raises(UnsupportedError, match="all items"):
        inducing_side(X, X[:3], mixed(2), MEAN)
