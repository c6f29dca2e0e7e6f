"""Choices of the best of several items, alone and beside duels and values."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.sampling.pathwise import draw_matheron_paths
from torch import Size, Tensor

from botorch_pref.data import Choices
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.models import LaplaceMarginalLogLikelihood, PreferenceGP
from botorch_pref.randomness import seeded
from tests.models.common import (
    LinearMean,
    assert_moments,
    assert_same_posterior,
    make_duels,
    make_kernel,
    parameter_gradients,
    rand,
    utility,
)
from tests.models.mixed import measure, variances

POINTS = rand(4, 2, seed=9)


def best_of(size: int, number: int = 7, seed: int = 3) -> Choices:
    items = rand(number, size, 2, seed=seed)
    rows = torch.arange(number * size).view(number, size)
    return Choices(items.flatten(end_dim=1), rows, utility(items).argmax(-1))


def make(*choices: Choices, **options: Any) -> PreferenceGP:
    X, rows = make_duels(5, 4, 2)
    Z, Y = measure(3)
    options = {"values": (Z, Y, variances(Y)), "mean_module": LinearMean(0.7), **options}
    return PreferenceGP(X, rows, covar_module=make_kernel(2), choices=choices, **options)


def brute_force(model: PreferenceGP, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Posterior mean and covariance, and the evidence, by autograd's Hessian."""
    items, n = torch.cat([model.items, X]), len(model.items)
    with torch.no_grad():
        K, m = model.covar_module(items).to_dense(), model.mean_module(items)
    s = float(model.link_scale.detach())

    def log_likelihood(f: Tensor) -> Tensor:
        pairs = model.data.pairs
        total = torch.nn.functional.logsigmoid(s * (f[pairs[:, 0]] - f[pairs[:, 1]])).sum()
        first, values = model.data.num_items, model.values
        own = torch.distributions.Normal(f[first : first + 3], values.variances.sqrt().squeeze(-1))
        total, first = total + own.log_prob(values.targets.squeeze(-1)).sum(), first + 3
        for asked in model.choices:
            chance = (s * f[asked.items + first]).log_softmax(-1)
            total = total + chance.gather(-1, asked.favourite.unsqueeze(-1)).sum()
            first += asked.datapoints.shape[-2]
        return total

    prior, f = K[:n, :n], m[:n].clone()
    for _ in range(50):
        g = torch.autograd.functional.jacobian(log_likelihood, f)
        W = -torch.autograd.functional.hessian(log_likelihood, f)
        f = m[:n] + prior @ torch.linalg.solve(torch.eye(n) + W @ prior, W @ (f - m[:n]) + g)
    W = -torch.autograd.functional.hessian(log_likelihood, f)
    shrink = torch.linalg.solve(torch.eye(n) + W @ prior, W)
    weights = torch.linalg.solve(prior, f - m[:n])
    evidence = log_likelihood(f) - 0.5 * (f - m[:n]) @ weights
    evidence = evidence - 0.5 * torch.linalg.slogdet(torch.eye(n) + W @ prior).logabsdet
    cross = K[n:, :n]
    return m[n:] + cross @ weights, K[n:, n:] - cross @ shrink @ cross.T, evidence


@pytest.mark.parametrize("sizes", [(3,), (2, 4)])
def test_a_mixture_against_brute_force(sizes: tuple[int, ...]) -> None:
    model = make(*(best_of(size, seed=size) for size in sizes))
    model.link_scale = 1.7
    mean, covariance, evidence = brute_force(model, POINTS)
    assert_moments(model.posterior(POINTS), mean, covariance)
    torch.testing.assert_close(model.log_evidence(), evidence, atol=1e-8, rtol=0)
    for name, exact, numerical in parameter_gradients(model, model.log_evidence):
        torch.testing.assert_close(exact, numerical, atol=1e-6, rtol=1e-6, msg=name)


def test_the_better_of_two_is_a_duel() -> None:
    X, rows = make_duels(6, 8, 2)
    choices = Choices(X, rows, torch.zeros(8, dtype=torch.long))
    duels = PreferenceGP(X, rows, covar_module=make_kernel(2))
    model = PreferenceGP(None, None, covar_module=make_kernel(2), choices=choices)
    assert_same_posterior(model.posterior(POINTS), duels.posterior(POINTS), 1e-9, 1e-9)
    torch.testing.assert_close(model.log_evidence(), duels.log_evidence())


def test_best_of_three_is_fitted_and_drawn_from() -> None:
    model = PreferenceGP(None, None, choices=best_of(3, number=15))
    before = model.log_evidence().detach()
    fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
    assert model.log_evidence() > before
    X = rand(200, 2, seed=1)
    found = torch.corrcoef(torch.stack([model.posterior(X).mean.squeeze(-1), utility(X)]))[0, 1]
    assert found > 0.7
    with torch.no_grad(), seeded(0):
        draws = draw_matheron_paths(model, Size([1000]))(POINTS)
    mean = model.posterior(POINTS).mean.squeeze(-1).detach()
    torch.testing.assert_close(draws.mean(0), mean, atol=0.15, rtol=0)


def test_further_data_and_copies() -> None:
    model = make(best_of(3))
    more = model.condition_on_pairs(POINTS.view(2, 2, 2), torch.ones(2).double())
    assert more.choices[0].items.shape == (7, 3)
    assert more.num_observations == model.num_observations + 2
    assert_same_posterior(copy.deepcopy(model).posterior(POINTS), model.posterior(POINTS))
    assert model.with_comparisons(model.data).choices


def test_choices_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ComparisonDataError, match="choices"):
        make(Choices(rand(3, 4), torch.tensor([[0, 1, 2]]), torch.tensor([0])))
    with pytest.raises(UnsupportedError, match="variance"):
        make(best_of(3), variance=4.0)
    batch = Choices(rand(2, 3, 2), torch.tensor([[0, 1, 2]]), torch.tensor([0]))
    assert PreferenceGP(rand(2, 3, 2), None, choices=[batch, best_of(3)]).batch_shape == Size([2])
