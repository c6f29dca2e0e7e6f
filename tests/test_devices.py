"""The whole path on another device: the same numbers, and nothing brought to the CPU but tests.

Without a CUDA device the tests run on an emulated one, which shows that all tensors are where they
belong; those marked ``cuda`` run the same on a real one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.optim import optimize_acqf
from botorch.optim.utils import sample_all_priors
from botorch.sampling import SobolQMCNormalSampler
from torch import Size, Tensor
from torch.nn import Module

from botorch_pref.acquisition import (
    DuelingKnowledgeGradient,
    DuelingThompsonSampling,
    MaxMinLCB,
    PairVariance,
)
from botorch_pref.exceptions import SearchSpaceError
from botorch_pref.inference.finite import FinitePosterior
from botorch_pref.models import (
    BordaGP,
    LaplaceMarginalLogLikelihood,
    LikelihoodRatioModel,
    PreferenceGP,
)
from botorch_pref.models.fitting import default_covar_module
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import EUBO
from botorch_pref.study import Study
from experiments.baselines import GPUCB
from tests._reference.second_device import second_device
from tests.common import BOX, CPU, answer, emulated, items_and_comparisons, same

TABLE = torch.cartesian_prod(*[torch.linspace(0, 1, 4, dtype=torch.float64)] * 2)


@emulated
def test_the_emulated_device_is_as_strict_as_a_real_one() -> None:
    here = torch.eye(3, dtype=torch.float64)
    with second_device() as (device, counts):
        there = here.to(device)
        assert there.device == torch.zeros(2, device=device).device == device
        for wrong in (
            lambda: there + here[0],
            lambda: torch.rand(2, device=device, generator=torch.Generator()),
            there.numpy,
            lambda: here[there[0].long()],
            lambda: there.index_put_((torch.tensor([0]),), here[:1]),
            lambda: torch.cat([there[0], here[0]]),
            lambda: torch.stack([there[0, 0], here[0, 0]]),
            lambda: there.clamp(min=here[0, 0]),
            lambda: torch.logaddexp(there, here[0, 0]),
            lambda: here[0, 0].clone().add_(there[0, 0]),
        ):
            with pytest.raises((RuntimeError, TypeError)):
                wrong()
        number, counts.sent = torch.tensor(2.0).double(), 0
        for right in (there * number, there.clamp_min(number), torch.where(there > 0, number, 1.0)):
            assert right.device == device
        assert (counts.transfers, counts.sent) == (0, 0)
        with pytest.raises(RuntimeError):
            here[there[0] > 0.0]
        counts.transfers = 0
        assert bool(there.sum() == 3.0)
        assert torch.equal(there.cpu(), here)
        assert not torch.equal(there, there[:2])  # by their shapes
        assert torch.equal(there[[0, 2], 1:].cpu(), here[[0, 2], 1:])
        assert (counts.transfers, counts.sent) == (3, 1)  # a list of indices is sent
        there[there > 0.0] = 2.0
        assert counts.transfers == 4  # how many there are
        assert torch.equal(there.cpu(), 2.0 * here)
        root = there.clone().requires_grad_()
        torch.linalg.cholesky(root).diagonal().log().sum().backward()
        assert root.grad is not None
        assert torch.allclose(root.grad.cpu().diagonal(), torch.tensor(0.25).double())


_FITTED = [
    pytest.param(options, True, marks=pytest.mark.slow, id=f"{options}, fitted")
    for options in ({}, {"variance": 1.5}, {"inducing_points": 6})
]


@pytest.mark.parametrize(("options", "fit"), [({}, False), *_FITTED])
def test_preference_gp(device: torch.device, options: dict[str, Any], fit: bool) -> None:
    X, comparisons = items_and_comparisons()

    def results(device: torch.device) -> list[Tensor]:
        model = PreferenceGP(X.to(device), comparisons.to(device), **options)
        mll = LaplaceMarginalLogLikelihood(model.likelihood, model)
        evidence = mll(model(*model.train_inputs), model.train_targets)
        evidence.backward()
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        assert gradients
        pairs = X[:8].view(4, 2, 2).to(device)
        posterior = model.posterior(X[:3].to(device) + 0.1)
        found = [posterior.mean, posterior.variance, model.win_probability(pairs)]
        found += [model.pair_posterior(pairs).variance]
        assert all(tensor.device == device for tensor in (*found, *gradients))
        if fit:
            fit_gpytorch_mll(mll)
        return [evidence, *gradients, *found, model.posterior(X.to(device)).mean]

    for found, wanted in zip(results(device), results(CPU), strict=True):
        same(found, wanted)


def test_a_batch_of_models(device: torch.device) -> None:
    X, comparisons = items_and_comparisons()
    batch = torch.stack([X, X.flip(-1) ** 2])
    wanted = PreferenceGP(batch, comparisons.expand(2, -1, -1)).posterior(batch[:, :3])
    rows = comparisons.expand(2, -1, -1).to(device)
    found = PreferenceGP(batch.to(device), rows).posterior(batch[:, :3].to(device))
    same(found.mean, wanted.mean)
    same(found.variance, wanted.variance)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "q"),
    [
        (PairVariance, 2),
        (lambda model: DuelingThompsonSampling(model, seed=3), 2),
        (lambda model: MaxMinLCB(model, beta=1.0, followers=model.datapoints), 1),
    ],
    ids=["variance", "thompson", "max-min"],
)
def test_acquisition_functions(device: torch.device, rule: Callable[[Any], Any], q: int) -> None:
    X, comparisons = items_and_comparisons()
    start = X[:4].view(-1, q, 2)

    def found(device: torch.device) -> tuple[Tensor, Tensor]:
        torch.manual_seed(0)
        acquisition = rule(PreferenceGP(X.to(device), comparisons.to(device)))
        result: tuple[Tensor, Tensor] = optimize_acqf(
            acquisition,
            BOX.to(device),
            q=q,
            num_restarts=len(start),
            batch_initial_conditions=start.to(device),
            options={"maxiter": 3},
        )
        return result

    items, value = found(device)
    wanted, best = found(CPU)
    assert items.device == device
    same(items, wanted)
    same(value, best)


@pytest.mark.slow
def test_likelihood_ratio_bounds(device: torch.device) -> None:
    X, comparisons = items_and_comparisons()

    def bounds(device: torch.device) -> list[Tensor]:
        kernel = default_covar_module(2, torch.Size()).to(X)
        model = LikelihoodRatioModel.from_comparisons(
            X.to(device), comparisons.to(device), covar_module=kernel.to(device), norm_bound=2.0
        )
        at = X[:5].to(device)
        return [model.upper(at), model.lower(at), model.mle(at)]

    for found, wanted in zip(bounds(device), bounds(CPU), strict=True):
        same(found, wanted)


def test_the_posterior_of_finitely_many_items(device: torch.device) -> None:
    X, comparisons = items_and_comparisons()

    def posterior(device: torch.device) -> list[Tensor]:
        kernel = default_covar_module(2, torch.Size()).to(X).base_kernel
        found = FinitePosterior(kernel(X).to_dense().detach().to(device), penalty=0.1)
        for pair in comparisons.tolist():
            found.append(pair, 1.0)
        return [found.mean, found.covariance]

    for found, wanted in zip(posterior(device), posterior(CPU), strict=True):
        same(found, wanted)


def moved(module: Module, device: torch.device) -> Module:
    """A copy on a device, where it was not made."""
    return copy.deepcopy(module).to(device)


def test_rules_are_moved_after_they_were_used(device: torch.device) -> None:
    """What they keep beside parameters and buffers, too."""
    X, comparisons = items_and_comparisons()
    model = PreferenceGP(X, comparisons)
    counts = torch.full((len(X), 1), 2.0, dtype=torch.float64)
    borda = BordaGP(X, X[:, :1], counts=counts, noise=0.25)
    rules = (DuelingThompsonSampling(model, seed=3), DuelingKnowledgeGradient(model, X[:5]))
    pairs = X[:8].view(4, 2, 2)
    with torch.no_grad():
        for rule in rules:
            wanted = rule(pairs)
            same(moved(rule, device)(pairs.to(device)), wanted)
        wanted = borda.interval(X[:3], 1.0)[0]
        same(borda.to(device).interval(X[:3].to(device), 1.0)[0], wanted)


def test_a_moved_model_draws_from_its_priors_and_is_fitted_again(device: torch.device) -> None:
    X, comparisons = items_and_comparisons()
    model = PreferenceGP(torch.stack([X, X.flip(-1)]), comparisons.expand(2, -1, -1))
    assert model.log_evidence().isfinite().all()
    model.to(device)
    sample_all_priors(model)
    assert model.covar_module.base_kernel.lengthscale.device == device
    assert model.log_evidence().isfinite().all()


def test_values_alone(device: torch.device) -> None:
    X = items_and_comparisons()[0].to(device)
    model = PreferenceGP(None, None, values=(X, X[:, :1]))
    sampler = SobolQMCNormalSampler(Size([2]), seed=0)
    assert model.fantasize(X[:2], sampler).posterior(X[:3]).mean.device == device


def test_constraints_in_tensors(device: torch.device) -> None:
    """As BoTorch has them."""
    row = (torch.tensor([0, 1], device=device), torch.ones(2, dtype=torch.double, device=device), 1)
    space = SearchSpace(BOX.to(device), inequality_constraints=[row])
    assert bool((space.sample(5, 0).sum(-1) >= 1.0 - 1e-9).all())
    with pytest.raises(SearchSpaceError, match=r"`choices` are on .*, but `bounds` on"):
        SearchSpace(BOX, TABLE.to(device))


@pytest.mark.slow
@pytest.mark.parametrize("measured", [False, True])
def test_a_study_stays_where_it_is(device: torch.device, measured: bool, tmp_path: Path) -> None:
    kind: Any = partial(GPUCB, num_initial_values=2) if measured else EUBO
    with Study.create(tmp_path / "study.json", SearchSpace(BOX.to(device)), kind) as study:
        for _ in range(4):
            query = study.ask()
            study.tell(query, answer(query))
        assert study.recommend().item.device == device
        study.undo()
        assert study.ask().items.device == device
    with Study.load(tmp_path / "study.json", device=device) as study:
        assert study.ask().items.device == device
        assert study.recommend().item.device == device
