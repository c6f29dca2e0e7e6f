"""Values beside comparisons: brute force, gradients, limits, data, fits, batches."""

from __future__ import annotations

import copy
import itertools
import warnings
from typing import Any

import gpytorch
import pytest
import torch
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import Normalize, Warp
from botorch.sampling.normal import SobolQMCNormalSampler
from torch import Size, Tensor

from botorch_pref.data import Comparisons
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.inference import DualSystem, PrimalSystem
from botorch_pref.likelihoods import (
    BernoulliLikelihood,
    LogitLikelihood,
    ProbitLikelihood,
    link_of,
)
from botorch_pref.models import PreferenceGP
from tests.models.common import (
    COPIES,
    assert_moments,
    assert_same_posterior,
    first_won,
    make_duels,
    make_kernel,
    numerical_gradient,
    parameter_gradients,
    rand,
)
from tests.models.mixed import make_mixed, measure, oracle, variances

Z = rand(4, 2, seed=2)


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
    model = make_mixed(4, num_duels, 2)
    options = {"covar_module": model.covar_module, "link_scale": 1.7, "input_transform": warp}
    X, data, values = model.datapoints, model.data, model.values
    Z, Q = values.datapoints, rand(3, 2, seed=2)
    pick = torch.linspace(-1, 1, 9, dtype=torch.float64).view(3, 3)

    def results(X: Tensor, Z: Tensor) -> Tensor:
        rows = Comparisons.unchecked(X, data.pairs, data.wins, data.count)
        given = Z, values.targets, values.variances
        model = PreferenceGP(X, rows, values=given, **options)
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


def test_the_order_of_rows_does_not_matter() -> None:
    X, Y = measure(4)
    items, duels = make_duels(6, 8, 2)
    V, options = variances(Y), {"covar_module": make_kernel(2), "link_scale": 1.7}
    rows, order = torch.randperm(8), torch.tensor([2, 0, 3, 1])
    model = PreferenceGP(items, duels, values=(X, Y, V), **options)
    given = X[order], Y[order], V[order]
    other = PreferenceGP(items, duels[rows], values=given, **options)
    # A value in two halves, of twice the variance each.
    twice = tuple(torch.cat([t, t]) for t in (X, Y, 2 * V))
    repeated = PreferenceGP(items, duels, values=twice, **options)
    close(model.log_evidence(), other.log_evidence(), 1e-9)
    for one in (other, repeated):
        assert_same_posterior(model.posterior(Z), one.posterior(Z), 1e-8, 1e-8)


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


def test_gradients_of_the_posterior() -> None:
    """With respect to hyperparameters and to points."""
    model = make_mixed(known=False)
    pick = torch.linspace(-1, 1, 9, dtype=torch.float64).view(3, 3)
    X = rand(3, 2, seed=2).requires_grad_()

    def moments(points: Tensor = X) -> Tensor:
        posterior = model.posterior(points)
        value = posterior.mean.sum() + (pick * posterior.covariance_matrix).sum()
        return value + model.win_probability(points[:2])

    (grad,) = torch.autograd.grad(moments(), X)
    close(grad, numerical_gradient(moments, X), 1e-6)
    with gpytorch.settings.detach_test_caches(False):
        for name, exact, numerical in parameter_gradients(model, moments):
            torch.testing.assert_close(exact, numerical, atol=1e-6, rtol=1e-6, msg=name)


def test_noise_in_the_posterior_and_no_stale_one() -> None:
    learnt, known = make_mixed(known=False), make_mixed(known=True)
    plain, noisy = (learnt.posterior(Z, observation_noise=noise) for noise in (False, True))
    close(noisy.mean, plain.mean)
    close(noisy.variance, plain.variance + 0.05)
    with pytest.raises(UnsupportedError, match="observation_noise"):
        known.posterior(Z, observation_noise=True)
    for owner, name in ((learnt, "link_scale"), (learnt.noise_model, "noise")):
        before = learnt.posterior(Z)
        setattr(owner, name, 3.0)
        assert not torch.allclose(before.mean, learnt.posterior(Z).mean)
        assert_same_posterior(learnt.posterior(Z), copy.deepcopy(learnt).posterior(Z), 0, 0)


@pytest.mark.parametrize("known", [True, False])
def test_copies_types_and_states(known: bool) -> None:
    model = make_mixed(known=known, input_transform=Normalize(d=2))
    expected = model.posterior(Z)
    other = make_mixed(known=known, input_transform=Normalize(d=2), covar_module=make_kernel(2))
    other.covar_module.outputscale, other.link_scale = 9.0, 3.0
    other.load_state_dict(model.state_dict())
    for twin in (other, *(duplicate(model) for duplicate in COPIES.values())):
        assert_same_posterior(twin.posterior(Z), expected, 0, 0)
        close(twin.log_evidence(), model.log_evidence())
        twin.link_scale = 0.1
    assert_same_posterior(model.posterior(Z), expected, 0, 0)
    single = copy.deepcopy(model).to(torch.float32)
    close(single.posterior(Z.float()).mean.double(), expected.mean, 1e-3)


def test_fantasies_are_further_duels() -> None:
    model = make_mixed(known=False)
    X = rand(2, 2, 2, seed=11)
    fantasy = model.fantasize(X, SobolQMCNormalSampler(Size([4]), seed=0))
    found, won = fantasy.posterior(Z), first_won(fantasy)
    assert won.shape == (4, 2)
    for s, b in itertools.product(range(4), range(2)):
        told = model.condition_on_pairs(X[b : b + 1], won[s, b : b + 1]).posterior(Z)
        close(found.mean[s, b], told.mean)
    alone = PreferenceGP(None, None, values=measure(5))
    assert alone.fantasize(X, SobolQMCNormalSampler(Size([3]))).posterior(Z).mean.isfinite().all()


def make_batch(num_items: int = 5, size: int = 3, **options: Any) -> PreferenceGP:
    """A batch with data and hyperparameters of its own in each element."""
    duels = [make_duels(num_items, 6, 2, seed=i) for i in range(size)]
    values = [measure(4, seed=i + 20) for i in range(size)]
    X, comparisons = (torch.stack(parts) for parts in zip(*duels, strict=True))
    model = PreferenceGP(
        X, comparisons, values=tuple(map(torch.stack, zip(*values, strict=True))), **options
    )
    spread = 1 + rand(size, 1, seed=9)
    model.link_scale = spread
    model.noise_model.noise = 0.1 * spread
    model.covar_module.base_kernel.lengthscale = 0.3 * spread.unsqueeze(-1).expand(size, 1, 2)
    return model


def element(model: PreferenceGP, i: int) -> PreferenceGP:
    """One element of a batch, as a model of its own."""
    data, values = model.data, model.values
    rows = Comparisons(data.datapoints[i], data.pairs[i], data.wins[i], data.count[i])
    alone = PreferenceGP(rows.datapoints, rows, values=(values.datapoints[i], values.targets[i]))
    state = {
        name: value[i] if value.dim() and len(value) == len(data.datapoints) else value
        for name, value in model.state_dict().items()
    }
    alone.load_state_dict(state)
    return alone


def test_a_scale_that_is_negative_or_fixed_is_refused() -> None:
    with pytest.raises(ComparisonDataError, match="`link_scale` must be a positive"):
        make_mixed(link_scale=-1.0)
    with pytest.raises(ComparisonDataError, match="fixed"):
        make_mixed(link_scale=1.5).link_scale = 2.0


def test_conditioning_is_having_seen_all() -> None:
    X, Y = measure(7)
    pairs, answers = rand(5, 2, 2, seed=6), torch.tensor([1.0, 0.0, 0.5, 1.0, 1.0]).double()
    options: dict[str, Any] = {"covar_module": make_kernel(2), "link_scale": 1.4}
    known = variances(Y)
    whole = PreferenceGP.from_pairs(pairs, answers, values=(X, Y, known), **options)
    options["mean_module"] = whole.mean_module
    values = (X, Y, known)
    parts = PreferenceGP.from_pairs(pairs[:2], answers[:2], values=values, **options)
    parts = parts.condition_on_pairs(pairs[2:], answers[2:])
    assert_same_posterior(parts.posterior(Z), whole.posterior(Z))
    assert parts.log_evidence().item() == pytest.approx(whole.log_evidence().item(), abs=1e-10)
    alone = PreferenceGP(None, None, values=values, **options)
    assert_same_posterior(alone.condition_on_pairs(pairs, answers).posterior(Z), whole.posterior(Z))
    alone.set_train_data(whole.datapoints, whole.data)
    assert alone.values is None


def test_win_probability_has_the_scale_of_the_link() -> None:
    model = make_mixed(link_scale=2.5)
    other = make_mixed(link_scale=1.0, likelihood=LogitLikelihood(2.5))
    assert_same_posterior(model.posterior(Z), other.posterior(Z))
    close(model.log_evidence(), other.log_evidence(), 1e-10)
    close(model.win_probability(Z[:2]), other.win_probability(Z[:2]), 1e-10)
    assert link_of(model).scale == 2.5
    plain = PreferenceGP(*make_duels(4, 3, 2))
    assert link_of(plain) is plain.likelihood
    batch = make_batch()
    with pytest.raises(UnsupportedError, match="no one link"):
        _ = batch.link


@pytest.mark.parametrize("variance", ["laplace", 0.7])
def test_batched_is_looped(variance: str | float) -> None:
    model = make_batch(variance=variance)
    X = rand(3, 4, 2, seed=2)
    posterior, evidence = model.posterior(X), model.log_evidence()
    probability = model.win_probability(X[:, :2])
    slopes = torch.autograd.grad(evidence.sum(), list(model.parameters()))
    for i in range(3):
        alone = element(model, i)
        alone.variance = variance
        own = alone.posterior(X[i])
        torch.testing.assert_close(posterior.mean[i], own.mean, atol=1e-9, rtol=1e-9)
        torch.testing.assert_close(
            posterior.covariance_matrix[i], own.covariance_matrix, atol=1e-9, rtol=1e-9
        )
        torch.testing.assert_close(evidence[i], alone.log_evidence(), atol=1e-9, rtol=1e-9)
        torch.testing.assert_close(probability[i], alone.win_probability(X[i, :2]))
        own_slopes = torch.autograd.grad(alone.log_evidence(), list(alone.parameters()))
        for slope, own_slope in zip(slopes, own_slopes, strict=True):
            torch.testing.assert_close(slope[i], own_slope, atol=1e-8, rtol=1e-8)
