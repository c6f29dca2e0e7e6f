"""The law of a difference: the exact posterior of one pair, covariances of all answers, limits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import special, stats

from botorch_pref.acquisition.difference_law import DifferenceLaw
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.inference import DualSystem, PrimalSystem
from botorch_pref.models import PreferenceGP
from tests.acquisition.common import make_botorch_model, make_model
from tests.models.common import make_duels, make_kernel, numerical_gradient, rand

Z = 0.25 * torch.arange(-32, 33).double()


@pytest.mark.parametrize("losses", [0, 1])
def test_is_exact_for_one_pair(losses: int) -> None:
    """There is no other line; unlike the normal law it forgets no answer."""
    pair, kernel = rand(2, 2, seed=6), make_kernel(2, outputscale=1.0)
    answers = torch.tensor([1.0] * 20 + [0.0] * losses).double()
    pairs = pair.expand(len(answers), 2, 2)
    model = PreferenceGP.from_pairs(pairs, answers, covar_module=kernel, link_scale=6.0)
    law = DifferenceLaw.of(model)
    assert law is not None
    with torch.no_grad():
        prior = kernel(pair).to_dense()
        variance = float(prior[0, 0] + prior[1, 1] - 2 * prior[0, 1])
        laplace = model.pair_posterior(pair)
        mean, deviation = laplace.mean.flatten(), laplace.variance.sqrt().flatten()
        log = law.log_ratio(pair.unsqueeze(0), deviation, Z)[0] - 0.5 * Z.square()
    weights, d = log.softmax(-1), mean + deviation * Z
    grid = np.linspace(-6, 6, 40001) * np.sqrt(variance)
    likelihood = 20 * np.log(special.expit(6 * grid)) + losses * np.log(special.expit(-6 * grid))
    exact = special.softmax(likelihood - 0.5 * grid**2 / variance)
    assert float(weights @ d) == pytest.approx(exact @ grid, rel=2e-3)
    assert float(weights @ d.square()) == pytest.approx(exact @ grid**2, rel=2e-3)
    assert float(weights[d < 0].sum()) < 0.2 * stats.norm.sf(float(mean / deviation))


@torch.no_grad()
@pytest.mark.parametrize(("num_duels", "side"), [(5, DualSystem), (25, PrimalSystem)])
def test_follows_the_posterior_covariance(num_duels: int, side: type) -> None:
    items, duels = make_duels(6, num_duels, 2)
    values = rand(2, 2, seed=2), rand(2, 1, seed=3), torch.full((2, 1), 0.04).double()
    model = PreferenceGP(items, duels, values=values, covar_module=make_kernel(2), link_scale=1.5)
    law, X = DifferenceLaw(model), rand(4, 2, 2, seed=4)
    assert type(law.system) is side
    data = model.merged_data
    assert data is not None
    first, second = data.pairs.T
    for pair, slopes in zip(X, law._slopes(X), strict=True):
        covariance = model.posterior(torch.cat([pair, items])).covariance_matrix
        cross = covariance[2:, 0] - covariance[2:, 1]
        torch.testing.assert_close(slopes, 1.5 * (cross[first] - cross[second]))
    mean = model.posterior(items).mean.flatten()
    torch.testing.assert_close(law.mode, 1.5 * (mean[first] - mean[second]), atol=1e-7, rtol=0)


def test_gradient() -> None:
    law, X = DifferenceLaw(make_model()), rand(2, 2, 2, seed=4).requires_grad_()

    def total(pairs: torch.Tensor) -> torch.Tensor:
        return (law.log_ratio(pairs, torch.tensor([0.8, 1.1]).double(), Z) * Z.cos()).sum()

    (gradient,) = torch.autograd.grad(total(X), X)
    torch.testing.assert_close(gradient, numerical_gradient(total, X), atol=1e-6, rtol=1e-6)


def test_without_answers() -> None:
    """None where only values are known, of other models, inducing items or a fixed curvature."""
    values = rand(2, 2), rand(2, 1), torch.full((2, 1), 0.04).double()
    for model in (
        PreferenceGP(None, None, covar_module=make_kernel(2)),
        PreferenceGP(None, None, values=values, covar_module=make_kernel(2)),
        make_model(variance=4.0),
        make_model(inducing_points=3),
        make_botorch_model(),
    ):
        assert DifferenceLaw.of(model) is None
    with pytest.raises(UnsupportedError, match="inducing items"):
        DifferenceLaw(make_model(inducing_points=3))
