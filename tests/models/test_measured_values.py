"""Comparisons and values in one approximation: brute force, gradients, limits."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import gpytorch
import numpy as np
import pytest
import torch
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import Warp
from torch import Tensor

from botorch_pref.data import Comparisons
from botorch_pref.inference import DualSystem, PrimalSystem
from botorch_pref.likelihoods import BernoulliLikelihood, LogitLikelihood, ProbitLikelihood
from botorch_pref.models import PreferenceGP
from tests._reference import mixed as reference
from tests.models.common import (
    assert_moments,
    assert_same_posterior,
    make_duels,
    make_kernel,
    numerical_gradient,
    parameter_gradients,
    rand,
)
from tests.models.mixed import make_mixed, measure, oracle, prior, reference_data, variances


def close(found: Tensor, expected: Tensor, atol: float = 1e-8) -> None:
    torch.testing.assert_close(found, expected, atol=atol, rtol=atol)


@pytest.mark.parametrize("num_duels", [3, 40])
@pytest.mark.parametrize("variance", ["laplace", 0.7])
@pytest.mark.parametrize(
    ("link", "likelihood"), [("logit", LogitLikelihood()), ("probit", ProbitLikelihood())]
)
def test_posterior_and_evidence_against_brute_force(
    num_duels: int, variance: str | float, link: str, likelihood: BernoulliLikelihood
) -> None:
    for known in (True, False):
        model = make_mixed(
            num_duels=num_duels, known=known, likelihood=likelihood, variance=variance
        )
        side = DualSystem if num_duels == 3 else PrimalSystem
        assert isinstance(model.laplace_posterior()[1].system, side)
        X = rand(4, 2, seed=2)
        mean, covariance, evidence = oracle(model, X, link)
        assert_moments(model.posterior(X), mean, covariance)
        assert model.log_evidence().item() == pytest.approx(evidence, abs=1e-8)


def test_ties_repeats_and_items_that_are_both_compared_and_measured() -> None:
    X, Y = measure(4)
    pairs = torch.tensor([[0, 1], [1, 0], [0, 1], [2, 3]])
    data = Comparisons.from_comparisons(X, pairs).append_indices(
        torch.tensor([[0, 2]]), torch.tensor([0.5]).to(X)
    )
    options: dict[str, Any] = {"covar_module": make_kernel(2), "link_scale": 1.3}
    model = PreferenceGP(X, data, values=(X, Y, variances(Y)), **options)
    Z = rand(3, 2, seed=2)
    mean, covariance, evidence = oracle(model, Z)
    assert_moments(model.posterior(Z), mean, covariance)
    assert model.log_evidence().item() == pytest.approx(evidence, abs=1e-8)


def test_the_very_posterior_by_quadrature() -> None:
    # The tolerances are what Laplace's approximation is worth here, not rounding.
    X = torch.tensor([[0.1, 0.2], [0.5, 0.9], [0.8, 0.3]], dtype=torch.float64)
    Y = torch.tensor([[0.8], [-0.4]], dtype=torch.float64)
    pairs = torch.tensor([[2, 0], [0, 1], [2, 1]])
    model = PreferenceGP(
        X,
        pairs,
        values=(X[:2], Y, torch.tensor([[0.3], [0.1]]).to(X)),
        covar_module=make_kernel(2, outputscale=1.5),
        link_scale=1.8,
    )
    mean, K = prior(model, X[:0])
    data = reference_data(model)
    data = reference.Data(
        data.pairs, data.wins, data.count, np.arange(2), data.targets, data.variances, 1.8
    )
    center, covariance, evidence = reference.quadrature(mean[:3], K[:3, :3], data)
    posterior = model.posterior(X)
    deviation = np.sqrt(np.diag(covariance))
    error = (posterior.mean.squeeze(-1).detach().numpy() - center) / deviation
    assert np.abs(error).max() < 0.2
    scaled = (posterior.covariance_matrix.detach().numpy() - covariance) / deviation
    assert np.abs(scaled / deviation[:, None]).max() < 0.12
    assert model.log_evidence().item() == pytest.approx(evidence, abs=0.05)
    # What the values alone say is exact, and so far off that the test can tell.
    alone = PreferenceGP(None, None, values=model.values, covar_module=model.covar_module)
    assert np.abs(alone.posterior(X).mean.squeeze(-1).detach().numpy() - center).max() > 0.3


def single_task(model: PreferenceGP) -> SingleTaskGP:
    """BoTorch's regression with the same values and hyperparameters."""
    values = model.values
    assert values is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of values that are not standardised
        regression = SingleTaskGP(
            values.datapoints,
            values.targets,
            values.variances,
            covar_module=copy.deepcopy(model.covar_module),
            mean_module=copy.deepcopy(model.mean_module),
            outcome_transform=None,
        )
    if values.variances is None:
        regression.likelihood.noise = model.noise_model.noise.detach()
    return regression


def exact_evidence(regression: SingleTaskGP) -> Tensor:
    regression.train()
    output = regression(*regression.train_inputs)
    return regression.likelihood(output, *regression.train_inputs).log_prob(
        regression.train_targets
    )


@pytest.mark.parametrize("variance", [None, 0.1, 1e-6])
@pytest.mark.parametrize("batch_shape", [(), (3,)])
def test_values_alone_are_exact_regression(
    variance: float | None, batch_shape: tuple[int, ...]
) -> None:
    X, Y = measure(12 * max(1, sum(batch_shape)))
    X, Y = X.view(*batch_shape, 12, 2), Y.view(*batch_shape, 12, 1)
    noise = () if variance is None else (variance * (1 + rand(*Y.shape, seed=5)),)
    model = PreferenceGP(None, None, values=(X, Y, *noise))
    torch.nn.init.constant_(model.mean_module.raw_constant, 0.3)
    regression = single_task(model)
    Z = rand(*batch_shape, 5, 2, seed=2)
    with gpytorch.settings.fast_computations(False, False, False):
        assert_same_posterior(model.posterior(Z), regression.posterior(Z), 1e-8, 1e-8)
        found, expected = model.log_evidence(), exact_evidence(regression)
        close(found, expected)
        kernels = (model.covar_module, regression.covar_module)
        slopes = [
            torch.autograd.grad(value.sum(), [kernel.base_kernel.raw_lengthscale])[0]
            for value, kernel in zip((found, expected), kernels, strict=True)
        ]
    close(slopes[0], slopes[1], atol=1e-7)
    if variance is None:
        noisy = model.posterior(Z, observation_noise=True)
        assert_same_posterior(noisy, regression.posterior(Z, observation_noise=True), 1e-8, 1e-8)
        assert any(name.endswith("noise_prior") for name, *_ in model.named_priors())


def test_the_scale_of_the_link_is_that_of_the_likelihood() -> None:
    scaled = make_mixed(link_scale=2.5)
    other = make_mixed(link_scale=1.0, likelihood=LogitLikelihood(2.5))
    X = rand(4, 2, seed=2)
    assert_same_posterior(scaled.posterior(X), other.posterior(X))
    close(scaled.log_evidence(), other.log_evidence(), 1e-10)
    close(scaled.win_probability(X[:2]), other.win_probability(X[:2]), 1e-10)
    assert scaled.link.scale == 2.5


@pytest.mark.parametrize("num_duels", [3, 40])
@pytest.mark.parametrize("known", [True, False])
def test_gradients_of_the_evidence(num_duels: int, known: bool) -> None:
    model = make_mixed(num_duels=num_duels, known=known, mean_module=gpytorch.means.ConstantMean())
    names = []
    for name, exact, numerical in parameter_gradients(model, model.log_evidence):
        names.append(name)
        torch.testing.assert_close(exact, numerical, atol=1e-6, rtol=1e-6, msg=name)
    wanted = ["raw_lengthscale", "raw_outputscale", "raw_constant", "raw_link_scale"]
    wanted += [] if known else ["raw_noise"]
    assert all(any(name.endswith(ending) for name in names) for ending in wanted)


@pytest.mark.parametrize("num_duels", [3, 40])
def test_gradients_with_respect_to_items(num_duels: int) -> None:
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double()
    warp = Warp(d=2, indices=[0, 1], bounds=bounds)
    model = make_mixed(4, num_duels, 2, input_transform=warp)
    X, data, values = model.datapoints, model.data, model.values
    Z, Q = values.datapoints, rand(3, 2, seed=2)
    pick = torch.linspace(-1, 1, 9, dtype=torch.float64).view(3, 3)

    def results(X: Tensor, Z: Tensor) -> Tensor:
        rows = Comparisons.unchecked(X, data.pairs, data.wins, data.count)
        model.set_train_data(X, rows, values=(Z, values.targets, values.variances))
        posterior = model.posterior(Q)
        moments = posterior.mean.sum() + (pick * posterior.covariance_matrix).sum()
        return model.log_evidence() + moments

    given = X.clone().requires_grad_(), Z.clone().requires_grad_()
    grads = torch.autograd.grad(results(*given), given)
    for seed in range(2):  # along a direction in all items
        ways = rand(*X.shape, seed=seed) - 0.5, rand(*Z.shape, seed=seed + 5) - 0.5
        slope = sum((grad * way).sum() for grad, way in zip(grads, ways, strict=True))
        start = torch.zeros((), dtype=torch.float64)
        along = numerical_gradient(lambda t: results(X + t * ways[0], Z + t * ways[1]), start)  # noqa: B023
        close(slope, along, 1e-6)


def test_gradients_of_the_posterior_with_respect_to_scales() -> None:
    model = make_mixed(known=False)
    Q = rand(3, 2, seed=2)
    pick = torch.linspace(-1, 1, 9, dtype=torch.float64).view(3, 3)

    def moments() -> Tensor:
        posterior = model.posterior(Q)
        return posterior.mean.sum() + (pick * posterior.covariance_matrix).sum()

    with gpytorch.settings.detach_test_caches(False):
        for name, exact, numerical in parameter_gradients(model, moments):
            torch.testing.assert_close(exact, numerical, atol=1e-6, rtol=1e-6, msg=name)


def test_gradients_with_respect_to_points() -> None:
    model = make_mixed(known=False)
    pick = torch.linspace(-1, 1, 9, dtype=torch.float64).view(3, 3)

    def moments(X: Tensor) -> Tensor:
        posterior = model.posterior(X)
        value = posterior.mean.sum() + (pick * posterior.covariance_matrix).sum()
        return value + model.win_probability(X[:2])

    X = rand(3, 2, seed=2).requires_grad_()
    (grad,) = torch.autograd.grad(moments(X), X)
    close(grad, numerical_gradient(moments, X), 1e-6)


def test_the_order_of_rows_does_not_matter() -> None:
    model = make_mixed(num_duels=8)
    values, data = model.values, model.data
    rows, order = torch.randperm(8), torch.tensor([2, 0, 3, 1])
    other = copy.deepcopy(model)
    given = tuple(t[order] for t in (values.datapoints, values.targets, values.variances))
    shuffled = Comparisons(data.datapoints, data.pairs[rows], data.wins[rows], data.count[rows])
    other.set_train_data(data.datapoints, shuffled, values=given)
    X = rand(4, 2, seed=2)
    assert_same_posterior(model.posterior(X), other.posterior(X), 1e-9, 1e-9)
    close(model.log_evidence(), other.log_evidence(), 1e-9)
    repeated = copy.deepcopy(model)  # a value in two halves, of twice the variance each
    halves = (values.datapoints, values.targets, 2 * values.variances)
    twice = tuple(torch.cat([t, t]) for t in halves)
    repeated.set_train_data(data.datapoints, data, values=twice)
    assert_same_posterior(model.posterior(X), repeated.posterior(X), 1e-8, 1e-8)


def test_precise_values_beside_comparisons() -> None:
    # The rounding of a latent value of precision 1e6 must not reach the prediction.
    X, Y = measure(8, noise=0.0)
    duels, comparisons = make_duels(6, 20, 2)
    values = (X, Y, torch.full_like(Y, 1e-6))
    model = PreferenceGP(duels, comparisons, values=values, covar_module=make_kernel(2))
    mean, covariance, evidence = oracle(model, Q := rand(4, 2, seed=2))
    assert_moments(model.posterior(Q), mean, covariance, 1e-7)
    assert model.log_evidence().item() == pytest.approx(evidence, abs=1e-7)
    assert bool(model.laplace_posterior()[1].mode.converged)
