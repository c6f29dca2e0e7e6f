"""PreferenceGP with values beside comparisons: data, fitting, batches, draws, fantasies."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms.input import Normalize
from botorch.sampling.normal import SobolQMCNormalSampler
from botorch.sampling.pathwise import draw_matheron_paths
from torch import Size, Tensor

from botorch_pref.acquisition import link_of
from botorch_pref.data import Comparisons
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.models import LaplaceMarginalLogLikelihood, PreferenceGP
from tests.common import same
from tests.models.common import (
    COPIES,
    assert_same_posterior,
    first_won,
    make_duels,
    make_kernel,
    rand,
    utility,
)
from tests.models.mixed import make_mixed, measure, variances

Z = rand(4, 2, seed=2)


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


def test_noise_must_be_known_in_one_way() -> None:
    X, Y = measure(3)
    learnt, known = make_mixed(known=False), make_mixed(known=True)
    before = known.posterior(Z)
    duels = known.datapoints, known.comparisons
    with pytest.raises(ComparisonDataError, match=r"`values\[2\]` must be given"):
        known.set_train_data(*duels, values=(X, Y))
    assert_same_posterior(known.posterior(Z), before, 0, 0)
    with pytest.raises(ComparisonDataError, match=r"`values\[2\]` must be None"):
        learnt.set_train_data(*duels, values=(X, Y, Y + 9))
    with pytest.raises(ComparisonDataError, match=r"`values\[2\]` must be given"):
        PreferenceGP(*duels).set_train_data(*duels, values=(X, Y))
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
    alone.set_train_data(whole.datapoints, whole.data, values=whole.values)
    assert_same_posterior(alone.posterior(Z), whole.posterior(Z), 0, 0)
    alone.set_train_data(whole.datapoints, whole.data)
    assert alone.values is None


def test_win_probability_has_the_scale_of_the_link() -> None:
    model = make_mixed(link_scale=2.2)
    pair = Z[:2]
    posterior = model.pair_posterior(pair)
    grid = torch.linspace(-8, 8, 4001, dtype=torch.float64)
    h = posterior.mean.flatten() + posterior.variance.sqrt().flatten() * grid
    density = torch.exp(-(grid**2) / 2)
    expected = (torch.sigmoid(2.2 * h) * density).sum() / density.sum()
    torch.testing.assert_close(model.win_probability(pair), expected, atol=1e-8, rtol=1e-8)
    assert link_of(model).scale == 2.2
    plain = PreferenceGP(*make_duels(4, 3, 2))
    assert link_of(plain) is plain.likelihood
    batch = make_batch()
    with pytest.raises(UnsupportedError, match="no one link"):
        _ = batch.link


def test_noise_in_the_posterior() -> None:
    learnt, known = make_mixed(known=False), make_mixed(known=True)
    plain, noisy = (learnt.posterior(Z, observation_noise=noise) for noise in (False, True))
    torch.testing.assert_close(noisy.mean, plain.mean)
    torch.testing.assert_close(noisy.variance, plain.variance + 0.05)
    with pytest.raises(UnsupportedError, match="observation_noise"):
        known.posterior(Z, observation_noise=True)


@pytest.mark.parametrize(
    "change",
    [
        lambda model: setattr(model, "link_scale", 0.4),
        lambda model: setattr(model.noise_model, "noise", 3.0),
    ],
    ids=["link scale", "noise"],
)
def test_no_change_leaves_a_stale_posterior(change: Any) -> None:
    model = make_mixed(known=False)
    before = model.posterior(Z)
    change(model)
    after = model.posterior(Z)
    assert not torch.allclose(before.mean, after.mean)
    assert_same_posterior(after, copy.deepcopy(model).posterior(Z), 0, 0)


@pytest.mark.parametrize("known", [True, False])
def test_copies_pickles_types_and_states(known: bool) -> None:
    model = make_mixed(known=known, input_transform=Normalize(d=2))
    expected = model.posterior(Z)
    for duplicate in COPIES.values():
        twin = duplicate(model)
        assert_same_posterior(twin.posterior(Z), expected, 0, 0)
        torch.testing.assert_close(twin.log_evidence(), model.log_evidence())
        twin.link_scale = 0.1
    assert_same_posterior(model.posterior(Z), expected, 0, 0)
    other = make_mixed(known=known, input_transform=Normalize(d=2), covar_module=make_kernel(2))
    other.covar_module.outputscale = 9.0
    other.link_scale = 3.0
    other.load_state_dict(model.state_dict())
    assert_same_posterior(other.posterior(Z), expected, 0, 0)
    assert not any(name.startswith("_") for name in model.state_dict())
    single = copy.deepcopy(model).to(torch.float32)
    assert single.items.dtype == torch.float32
    torch.testing.assert_close(
        single.posterior(Z.float()).mean.double(), expected.mean, atol=1e-3, rtol=1e-3
    )


def test_fantasies_are_duels_more() -> None:
    model = make_mixed(known=False)
    X = rand(2, 2, 2, seed=11)
    fantasy = model.fantasize(X, SobolQMCNormalSampler(Size([4]), seed=0))
    assert fantasy.batch_shape == Size([4, 2])
    found, won = fantasy.posterior(Z), first_won(fantasy)
    answers = {0.0: torch.zeros(1).double(), 1.0: torch.ones(1).double()}
    for s in range(4):
        for b in range(2):
            answer = won[s, b].item()
            told = model.condition_on_pairs(X[b : b + 1], answers[answer]).posterior(Z)
            torch.testing.assert_close(found.mean[s, b], told.mean, atol=1e-9, rtol=1e-9)
    alone = PreferenceGP(None, None, values=measure(5))
    assert alone.fantasize(X, SobolQMCNormalSampler(Size([3]))).posterior(Z).mean.isfinite().all()


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


def test_values_shared_by_a_batch_of_comparisons() -> None:
    duels = [make_duels(5, 6, 2, seed=i) for i in range(2)]
    X, comparisons = (torch.stack(parts) for parts in zip(*duels, strict=True))
    items, Y = measure(4)
    options: dict[str, Any] = {"covar_module": make_kernel(2), "link_scale": 1.3}
    model = PreferenceGP(X, comparisons, values=(items, Y, variances(Y)), **options)
    assert model.batch_shape == Size([2])
    posterior = model.posterior(Z)
    for i in range(2):
        alone = PreferenceGP(X[i], comparisons[i], values=(items, Y, variances(Y)), **options)
        torch.testing.assert_close(posterior.mean[i], alone.posterior(Z).mean)
        torch.testing.assert_close(model.log_evidence()[i], alone.log_evidence())


@pytest.mark.slow
def test_a_batch_is_fitted_like_its_elements() -> None:
    model = make_batch(size=2)
    alone = [element(model, i) for i in range(2)]
    assert model.custom_fit is not None
    for one in (model, *alone):
        fit_gpytorch_mll(LaplaceMarginalLogLikelihood(one.likelihood, one))
    for i, single in enumerate(alone):
        found, own = model.log_evidence()[i], single.log_evidence()
        torch.testing.assert_close(found, own, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(model.link_scale[i], single.link_scale, atol=1e-4, rtol=1e-4)


def toy(num_duels: int, num_values: int, scale: float) -> PreferenceGP:
    """Duels of a logistic judge of known scale, and values, of one utility."""
    generator = torch.Generator().manual_seed(0)
    X = rand(num_duels, 2, 1, seed=1)
    h = utility(X[:, 0]) - utility(X[:, 1])
    chance = torch.rand(num_duels, generator=generator, dtype=torch.float64)
    answers = (chance < torch.sigmoid(scale * h)).double()
    items = rand(num_values, 1, seed=2)
    noise = 0.05 * torch.randn(num_values, generator=generator).double()
    return PreferenceGP.from_pairs(X, answers, values=(items, (utility(items) + noise)[:, None]))


def test_a_fit_finds_the_scale_and_the_noise() -> None:
    model = toy(num_duels=150, num_values=12, scale=4.0)
    fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
    assert 2.5 < model.link_scale.item() < 6.0
    assert 0.02 < model.noise_model.noise.sqrt().item() < 0.12
    X = torch.linspace(0, 1, 11, dtype=torch.float64).unsqueeze(-1)
    error = model.posterior(X).mean.squeeze(-1) - utility(X)
    assert error.abs().max() < 0.3  # of the utility itself, constant included


@pytest.mark.parametrize("variance", ["laplace", 0.7])
def test_moments_of_draws(variance: str | float) -> None:
    model = make_mixed(known=False, variance=variance)
    torch.manual_seed(0)
    posterior, num_draws = model.posterior(Z), 2000
    draws = draw_matheron_paths(model, Size([num_draws]))(Z).detach()
    deviation = posterior.variance.sqrt().squeeze(-1)
    mean = posterior.mean.squeeze(-1)
    assert ((draws.mean(0) - mean) / deviation).abs().max() < 4 / num_draws**0.5
    scaled = (draws - mean) / deviation
    found = scaled.T @ scaled / num_draws
    expected = posterior.covariance_matrix / deviation.outer(deviation)
    assert (found - expected).abs().max() < 0.1  # random features and chance


@pytest.mark.parametrize("known", [True, False])
def test_the_same_on_a_device(known: bool, device: torch.device) -> None:
    model = make_mixed(known=known)
    expected: Tensor = model.posterior(Z).mean
    twin = copy.deepcopy(model).to(device)
    same(twin.posterior(Z.to(device)).mean, expected)
    same(twin.log_evidence(), model.log_evidence())
    same(twin.win_probability(Z[:2].to(device)), model.win_probability(Z[:2]))
    pair, won = Z[None, :2], torch.ones(1).double()
    wanted: Tensor = model.condition_on_pairs(pair, won).posterior(Z).mean
    twin = twin.condition_on_pairs(pair.to(device), won.to(device))
    same(twin.posterior(Z.to(device)).mean, wanted)
