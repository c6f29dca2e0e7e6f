"""Gradients of the posterior through the mode, against finite differences."""

from __future__ import annotations

import gc
import math
import weakref

import pytest
import torch
from torch import Tensor

from botorch_pref.inference import (
    DualSystem,
    LaplacePosterior,
    Observations,
    System,
    laplace_posterior,
)
from tests.inference.common import (
    LINKS,
    SIDES,
    assert_equal,
    likelihood,
    make,
    matern,
    numerical_gradient,
    rand,
    randn,
)

N, D, M, LABELS, Q = 5, 2, 7, 2, 3
X, POINTS = rand(N, D), rand(Q, D, seed=20)
KAPPAS = [None, 1.0]

both_sides = pytest.mark.parametrize("wanted", SIDES)
every_link = pytest.mark.parametrize(("link", "scale"), LINKS)
both_variances = pytest.mark.parametrize("kappa", KAPPAS, ids=["laplace", "kappa"])


Posterior = tuple[LaplacePosterior, Tensor, Tensor]


def parameters(outputscale: float) -> Tensor:
    """Log lengthscale, log output scale, constant and slope of the mean, items, points."""
    head = [math.log(0.4), math.log(outputscale), 0.3, 0.5]
    head_tensor = torch.tensor(head, dtype=torch.float64)
    return torch.cat([head_tensor, X.flatten(), POINTS.flatten()])


def weight(observations: Observations, kappa: float | None) -> Tensor | None:
    return None if kappa is None else observations.weight / kappa


def posterior(
    theta: Tensor, observations: Observations, wanted: type[System], kappa: float | None
) -> Posterior:
    """The representer, and the mean and covariance at the points, at ``... x p``."""
    lengthscale, outputscale = (
        theta[..., 0, None, None, None].exp(),
        theta[..., 1, None, None].exp(),
    )
    items = theta[..., 4 : 4 + N * D].unflatten(-1, (N, D))
    points = theta[..., 4 + N * D :].unflatten(-1, (Q, D))

    def mean(x: Tensor) -> Tensor:
        return theta[..., 2, None] + theta[..., 3, None] * x.sum(-1)

    def kernel(x: Tensor, z: Tensor) -> Tensor:
        return matern(x, z, lengthscale, outputscale)

    latent = observations.incidence.apply(mean(items))
    system = wanted(kernel(items, items), latent, observations)
    fitted = laplace_posterior(system, weight(observations, kappa))
    predicted = fitted.predict(mean(points), kernel(points, points), kernel(points, items))
    return fitted, *predicted


@both_sides
@every_link
@both_variances
@pytest.mark.parametrize("judge", ["noisy", "consistent"])
@pytest.mark.parametrize("outputscale", [0.1, 1.0, 10.0, 100.0])
class TestGradients:
    def test_weights_gamma_mean_and_covariance(
        self,
        wanted: type[System],
        link: str,
        scale: float,
        kappa: float | None,
        judge: str,
        outputscale: float,
    ) -> None:
        observations = make(X, M, LABELS, judge=judge, link=likelihood(link, scale), padding=1)
        size = M + LABELS if wanted is DualSystem else N

        def functionals(theta: Tensor) -> Tensor:
            """Linear in each part, so that every entry counts: ``... x p`` to ``... x 4``."""
            fitted, mean, covariance = posterior(theta, observations, wanted, kappa)
            return torch.stack(
                [
                    fitted.weights @ randn(size, seed=31),
                    (fitted.gamma * randn(size, size, seed=32)).sum((-2, -1)),
                    mean @ randn(Q, seed=33),
                    (covariance * randn(Q, Q, seed=34)).sum((-2, -1)),
                ],
                dim=-1,
            )

        theta = parameters(outputscale).requires_grad_()
        numerical = numerical_gradient(functionals, theta)
        for value, expected in zip(functionals(theta), numerical, strict=True):
            (exact,) = torch.autograd.grad(value, theta, retain_graph=True)
            assert_equal(exact, expected, 1e-6)


@both_sides
@both_variances
def test_singular_covariance(wanted: type[System], kappa: float | None) -> None:
    features, other = randn(N, 2), randn(Q, 2, seed=1)
    observations = make(X, M, LABELS)
    latent = torch.zeros(M + LABELS, dtype=torch.float64)

    def function(theta: Tensor) -> Tensor:
        items, points = (f * theta.exp().unsqueeze(-2) for f in (features, other))
        system = wanted(items @ items.mT, latent, observations)
        fitted = laplace_posterior(system, weight(observations, kappa))
        zero = torch.zeros(Q, dtype=torch.float64)
        mean, covariance = fitted.predict(zero, points @ points.mT, points @ items.mT)
        return mean @ randn(Q, seed=2) + (covariance * randn(Q, Q, seed=3)).sum((-2, -1))

    theta = torch.tensor([0.5, 1.0], dtype=torch.float64, requires_grad=True)
    (exact,) = torch.autograd.grad(function(theta), theta)
    assert_equal(exact, numerical_gradient(function, theta), 1e-6)


@both_sides
@both_variances
class TestValues:
    def test_two_leading_dimensions_are_a_loop(
        self, wanted: type[System], kappa: float | None
    ) -> None:
        observations = make(X, M, LABELS)
        theta = parameters(4.0).expand(2, 3, -1) + 0.1 * randn(2, 3, 4 + (N + Q) * D)
        theta = theta.clone().requires_grad_()
        fitted, mean, covariance = posterior(theta, observations, wanted, kappa)
        (grad,) = torch.autograd.grad(mean.sum() + covariance.sum(), theta)
        assert fitted.mode.converged.shape == (2, 3)
        for i in range(2):
            for j in range(3):
                alone = theta[i, j].detach().requires_grad_()
                _, one, other = posterior(alone, observations, wanted, kappa)
                (slope,) = torch.autograd.grad(one.sum() + other.sum(), alone)
                assert_equal(mean[i, j], one, 1e-12)
                assert_equal(covariance[i, j], other, 1e-12)
                assert_equal(grad[i, j], slope, 1e-9)


@both_sides
def test_a_representer_is_freed_without_the_collector(wanted: type[System]) -> None:
    K = matern(X).requires_grad_()
    observations = make(X, M)
    latent = torch.zeros(observations.num_rows, dtype=torch.float64)
    gc.disable()
    try:
        found = laplace_posterior(wanted(K, latent, observations))
        (found.weights.sum() + found.gamma.sum()).backward()
        system = weakref.ref(found.system)
        del found
        assert system() is None
    finally:
        gc.enable()
