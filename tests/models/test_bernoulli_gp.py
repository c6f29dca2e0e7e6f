"""Binary labels under any kernel: pairs, order effects, and plain classification."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from botorch.models.transforms.input import Warp
from gpytorch.means import ConstantMean, ZeroMean
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.kernels import AdditivePairKernel, DuelingKernel
from botorch_pref.likelihoods import BernoulliLikelihood, LogitLikelihood, ProbitLikelihood
from botorch_pref.models import BernoulliGP, PreferenceGP
from tests._reference import laplace as reference
from tests.models.common import (
    assert_moments,
    make_duels,
    make_kernel,
    parameter_gradients,
    rand,
)

links = pytest.mark.parametrize(
    ("likelihood", "name", "scale"),
    [(LogitLikelihood(), "logit", 1.0), (ProbitLikelihood(0.5), "probit", 0.5)],
    ids=["logit", "probit"],
)


def make_labels(num: int, dim: int = 2, seed: int = 0) -> tuple[Tensor, Tensor]:
    X = rand(num, dim, seed=seed)
    chance = rand(num, 1, seed=seed + 1)
    return X, (chance < torch.sigmoid(6 * (X[:, :1] - 0.5))).double()


def make_model(num: int = 15, dim: int = 2, seed: int = 0, **kwargs: Any) -> BernoulliGP:
    kwargs.setdefault("covar_module", make_kernel(dim))
    kwargs.setdefault("mean_module", ZeroMean())
    return BernoulliGP(*make_labels(num, dim, seed), **kwargs)


# ------------------------------------------------------------------------- pairs


@links
@pytest.mark.parametrize(("num_items", "num_duels"), [(8, 5), (5, 25)])
def test_the_dueling_kernel_is_the_preference_model(
    likelihood: BernoulliLikelihood, name: str, scale: float, num_items: int, num_duels: int
) -> None:
    X, comparisons = make_duels(num_items, num_duels, 2)
    base = make_kernel(2)
    turned = torch.arange(num_duels) % 3 == 0  # some duels are shown loser first
    shown = torch.where(turned.unsqueeze(-1), comparisons.flip(-1), comparisons)
    answers = 1.0 - turned.double()
    utilities = PreferenceGP(X, comparisons, covar_module=base, likelihood=likelihood)
    pairs = BernoulliGP(
        X[shown].flatten(-2),
        answers.unsqueeze(-1),
        covar_module=DuelingKernel(base),
        mean_module=ZeroMean(),
        likelihood=likelihood,
    )
    Z = rand(6, 2, 2, seed=1)
    found, expected = pairs.posterior(Z.flatten(-2)), utilities.pair_posterior(Z)
    torch.testing.assert_close(found.mean.flatten(), expected.mean.flatten(), atol=1e-8, rtol=1e-8)
    torch.testing.assert_close(
        found.variance.flatten(), expected.variance.flatten(), atol=1e-8, rtol=1e-8
    )
    torch.testing.assert_close(
        pairs.probability(Z.flatten(-2)), utilities.win_probability(Z), atol=1e-8, rtol=1e-8
    )
    evidences = pairs.log_evidence(), utilities.log_evidence()
    torch.testing.assert_close(*evidences, atol=1e-8, rtol=1e-8)
    gradients = [
        torch.cat([g.flatten() for g in torch.autograd.grad(e, list(base.parameters()))])
        for e in evidences
    ]
    torch.testing.assert_close(*gradients, atol=1e-7, rtol=1e-7)
    joint = found.covariance_matrix.detach()
    posterior = utilities.posterior(Z.reshape(12, 2)).covariance_matrix.detach()
    design = torch.from_numpy(reference.incidence(np.arange(12).reshape(6, 2), 12))
    torch.testing.assert_close(joint, design @ posterior @ design.T, atol=1e-8, rtol=1e-8)


def test_the_dueling_kernel_knows_no_slot_and_the_additive_kernel_learns_it() -> None:
    pairs = rand(40, 4)
    labels = torch.ones(40, 1).double()  # whatever is shown first wins
    x = rand(1, 2, seed=7).repeat(1, 2)
    dueling, additive, other = (
        BernoulliGP(pairs, given, covar_module=kernel(make_kernel(2)), mean_module=ZeroMean())
        for kernel, given in (
            (DuelingKernel, labels),
            (AdditivePairKernel, labels),
            (AdditivePairKernel, 1 - labels),
        )
    )
    assert dueling.probability(x).item() == pytest.approx(0.5, abs=1e-6)
    assert additive.probability(x).item() > 0.8
    assert additive.log_evidence() > dueling.log_evidence()
    torch.testing.assert_close(other.probability(x), 1 - additive.probability(x))


def test_the_additive_kernel_models_no_cycle_and_a_kernel_over_pairs_does() -> None:
    items = torch.tensor([[0.1, 0.1], [0.9, 0.2], [0.4, 0.9]]).double()
    cycle = torch.tensor([[0, 1], [1, 2], [2, 0]])
    forward, backward = items[cycle].flatten(-2), items[cycle.flip(-1)].flatten(-2)
    pairs = torch.cat([forward, backward]).repeat(20, 1)
    labels = torch.cat([torch.ones(3, 1), torch.zeros(3, 1)]).double().repeat(20, 1)

    def follows_the_cycle(kernel: Any) -> bool:
        model = BernoulliGP(pairs, labels, covar_module=kernel, mean_module=ZeroMean())
        won = model.probability(forward) > 0.5 + 1e-6
        lost = model.probability(backward) < 0.5 - 1e-6
        return bool(won.all() and lost.all())

    for lengthscale in (0.2, 0.5, 2.0):
        base = make_kernel(2, lengthscale=lengthscale, outputscale=50.0)
        assert not follows_the_cycle(AdditivePairKernel(base))
        assert not follows_the_cycle(DuelingKernel(base))
    assert follows_the_cycle(make_kernel(4, lengthscale=0.3, outputscale=50.0))


@pytest.mark.parametrize("kernel", [DuelingKernel, AdditivePairKernel])
@pytest.mark.parametrize(("outputscale", "lengthscale"), [(5.0, 2.0), (50.0, 0.5), (500.0, 0.2)])
def test_the_mode_of_repeated_inputs_is_found(
    kernel: Any, outputscale: float, lengthscale: float
) -> None:
    base = make_kernel(2, lengthscale=lengthscale, outputscale=outputscale)
    pairs = rand(6, 4, seed=3).repeat(20, 1)
    labels = (rand(120, 1, seed=4) < 0.5).double()
    model = BernoulliGP(pairs, labels, covar_module=kernel(base), mean_module=ZeroMean())
    mode = model.laplace_posterior()[1].mode
    assert bool(mode.converged)
    assert mode.num_steps < 20


# ---------------------------------------------------------------- classification


@links
def test_posterior_and_evidence_against_brute_force(
    likelihood: BernoulliLikelihood, name: str, scale: float
) -> None:
    mean_module = ConstantMean().double()
    mean_module.constant.data.fill_(-0.7)
    X, y = make_labels(12)
    y[:4] = 0.5
    model = BernoulliGP(
        X, y, covar_module=make_kernel(2), mean_module=mean_module, likelihood=likelihood
    )
    Z = rand(5, 2, seed=3)
    with torch.no_grad():
        prior = model.covar_module(torch.cat([X, Z])).to_dense().numpy()
    fitted = reference.fit(
        prior[:12, :12], -0.7, np.eye(12), y.squeeze(-1).numpy(), None, name, scale
    )
    mean, covariance = reference.predict(
        fitted, prior[:12, :12], np.eye(12), prior[12:, :12], prior[12:, 12:], -0.7
    )
    posterior = model.posterior(Z)
    assert_moments(posterior, torch.from_numpy(mean), torch.from_numpy(covariance))
    assert model.log_evidence().item() == pytest.approx(fitted.log_evidence, abs=1e-8)


@links
def test_evidence_gradients_against_finite_differences(
    likelihood: BernoulliLikelihood, name: str, scale: float
) -> None:
    warp = Warp(d=2, indices=[0, 1], bounds=torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double())
    model = make_model(mean_module=ConstantMean(), likelihood=likelihood, input_transform=warp)
    found = parameter_gradients(model.double(), model.log_evidence)
    assert len(found) == 5
    for parameter, exact, numerical in found:
        assert exact.abs().max() > 1e-4, parameter
        torch.testing.assert_close(exact, numerical, atol=1e-7, rtol=1e-6, msg=parameter)


def test_points_of_other_dimensions_noise_and_other_outputs_are_refused() -> None:
    model = make_model()
    with pytest.raises(ComparisonDataError, match="`X` has 3 columns, but the items have 2"):
        model.probability(rand(2, 3))
    with pytest.raises(UnsupportedError, match="observation_noise"):
        model.posterior(rand(2, 2), observation_noise=True)
    with pytest.raises(UnsupportedError, match="output_indices"):
        model.posterior(rand(2, 2), output_indices=[0, 1])
