"""A batch of models is fitted as its elements would be, each alone."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import ModelFittingError
from botorch.exceptions.warnings import OptimizationWarning
from botorch.fit import fit_gpytorch_mll
from botorch.models import PairwiseLaplaceMarginalLogLikelihood
from botorch.models.transforms.input import Warp
from botorch.optim.fit import fit_gpytorch_mll_scipy, fit_gpytorch_mll_torch
from gpytorch.constraints import Interval
from gpytorch.means import LinearMean
from gpytorch.priors import LogNormalPrior
from torch import Size, Tensor

from botorch_pref.models import (
    LaplaceMarginalLogLikelihood,
    PreferenceGP,
    independent_fit,
    laplace_gp,
    pieces,
)
from botorch_pref.models.fitting import DEFAULT_MODES, default_covar_module
from botorch_pref.models.independent_fit import fit_independently, is_independent
from tests.models.common import ONE_THREAD, Limits, rand

BATCH, DUELS, DIM = 5, 12, 2


def duels(dim: int = DIM) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(BATCH, 2 * DUELS, dim, generator=generator, dtype=torch.float64)
    utility = 8.0 * torch.sin(3.0 * X.sum(-1) + torch.arange(BATCH).unsqueeze(-1))
    rows = torch.arange(2 * DUELS).view(DUELS, 2).expand(BATCH, -1, -1)
    first, second = (utility.gather(-1, rows[..., i]) for i in (0, 1))
    uniform = torch.rand(first.shape, generator=generator, dtype=torch.float64)
    wins = (uniform < torch.sigmoid(first - second)).unsqueeze(-1)
    return X, torch.where(wins, rows, rows.flip(-1))


def mll_of(model: PreferenceGP) -> LaplaceMarginalLogLikelihood:
    return LaplaceMarginalLogLikelihood(model.likelihood, model)


def learnt(model: PreferenceGP) -> Tensor:
    kernel = model.covar_module
    scale = kernel.outputscale.unsqueeze(-1)
    return torch.cat([kernel.base_kernel.lengthscale.squeeze(-2), scale], dim=-1).detach()


@pytest.mark.parametrize("size", [1, 2, BATCH])
def test_equals_a_loop(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    X, rows = duels()
    loop = []
    for x, own in zip(X, rows, strict=True):
        alone = PreferenceGP(x, own)
        fit_gpytorch_mll(mll_of(alone))
        loop.append(learnt(alone))
    monkeypatch.setattr(pieces, "_CACHED_ENTRIES", size * (2 * DUELS) ** 2)
    model = PreferenceGP(X, rows)
    mll = fit_gpytorch_mll(mll_of(model))
    assert not mll.training
    torch.testing.assert_close(learnt(model), torch.stack(loop), rtol=1e-8, atol=0.0)


def test_botorchs_own_objective_is_fitted_alike() -> None:
    X, rows = duels()
    one, other = PreferenceGP(X, rows), PreferenceGP(X, rows)
    fit_gpytorch_mll(mll_of(one))
    fit_gpytorch_mll(PairwiseLaplaceMarginalLogLikelihood(other.likelihood, other))
    assert torch.equal(learnt(one), learnt(other))


def test_no_element_is_worse_than_after_a_joint_fit() -> None:
    X, rows = duels()
    alone, joint = PreferenceGP(X, rows), PreferenceGP(X, rows)
    start = learnt(alone)
    result = fit_independently(mll_of(alone).train())
    joint_mll = mll_of(joint)
    fit_gpytorch_mll(joint_mll, optimizer=fit_gpytorch_mll_scipy)
    assert not torch.equal(learnt(alone), start)
    with torch.no_grad():
        separately, jointly = mll_of(alone)(None, None), joint_mll(None, None)
    assert float(separately) == pytest.approx(-result.fval, rel=1e-10)
    assert separately >= jointly - 1e-5


def shared_kernel() -> PreferenceGP:
    return PreferenceGP(*duels(), covar_module=default_covar_module(DIM, Size()).double())


def shared_transform() -> PreferenceGP:
    warp = Warp(d=DIM, indices=[0, 1])
    return PreferenceGP(*duels(), input_transform=warp)


def shared_transform_of_as_many_columns() -> PreferenceGP:
    warp = Warp(d=BATCH, indices=[*range(BATCH)])
    return PreferenceGP(*duels(BATCH), input_transform=warp)


def shared_mean_of_as_many_columns() -> PreferenceGP:
    return PreferenceGP(*duels(BATCH), mean_module=LinearMean(BATCH, bias=False).double())


def shared_transform_with_priors() -> PreferenceGP:
    priors = {f"concentration{i}_prior": LogNormalPrior(0.0, 1.0) for i in (0, 1)}
    warp = Warp(d=DIM, indices=[0, 1], **priors).requires_grad_(False)
    return PreferenceGP(*duels(), input_transform=warp)


def shared_items() -> PreferenceGP:
    X, rows = duels()
    kernel = default_covar_module(DIM, Size([BATCH])).double()
    return PreferenceGP(X[0], rows[0], covar_module=kernel)


def no_batch() -> PreferenceGP:
    X, rows = duels()
    return PreferenceGP(X[0], rows[0])


@pytest.mark.parametrize(
    "make",
    [
        shared_kernel,
        shared_transform,
        shared_transform_of_as_many_columns,
        shared_transform_with_priors,
        shared_mean_of_as_many_columns,
        shared_items,
        no_batch,
    ],
)
def test_models_that_share_something_are_fitted_jointly(
    make: Callable[[], PreferenceGP], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make()
    assert not is_independent(model)
    monkeypatch.setattr(laplace_gp, "fit_independently", None)  # which cannot be called
    before = [p.detach().clone() for p in model.parameters()]
    fit_gpytorch_mll(mll_of(model))
    assert any(not torch.equal(p, old) for p, old in zip(model.parameters(), before, strict=True))


def test_an_optimizer_or_a_closure_of_the_callers_is_used() -> None:
    kernel = default_covar_module(DIM, Size([BATCH]), modes=DEFAULT_MODES[:1]).double()
    model = PreferenceGP(*duels(), covar_module=kernel)
    start = learnt(model)
    asked = {"optimizer": fit_gpytorch_mll_torch, "optimizer_kwargs": {"step_limit": 1}}
    fit_gpytorch_mll(mll_of(model), **asked)
    # One step of Adam moves every raw parameter by its learning rate at most.
    assert 0.0 < float((learnt(model).log() - start.log()).abs().max()) < 0.2
    assert hasattr(model, "custom_fit")


def test_options_and_bounds() -> None:
    model = PreferenceGP(*duels())
    mll = mll_of(model).train()
    result = fit_independently(mll, options={"maxiter": 1})
    assert result.step == 1
    name = next(n for n, _ in mll.named_parameters() if "lengthscale" in n)
    fit_independently(mll, bounds={name: (-0.5, -0.25)})
    raw = dict(mll.named_parameters())[name].detach()
    assert ((raw >= -0.5) & (raw <= -0.25)).all()


def test_bounds_of_each_column() -> None:
    lower, upper = torch.tensor([0.1, 0.2]), torch.tensor([0.11, 0.22])
    kernel = default_covar_module(DIM, Size([BATCH])).double()
    kernel.base_kernel.register_constraint("raw_lengthscale", Interval(lower, upper))
    model = PreferenceGP(*duels(), covar_module=kernel)
    assert is_independent(model)
    fit_gpytorch_mll(mll_of(model))
    found = kernel.base_kernel.lengthscale
    assert ((found >= lower) & (found <= upper)).all()


def test_an_abnormal_end_is_searched_from_again_and_then_warned_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[int] = []
    real = independent_fit.fmin_l_bfgs_b_batched

    def failing(func: Any, x: Any, **kwargs: Any) -> Any:
        calls.append(len(x))
        found, value, results = real(func, x, **kwargs)
        for row, result in enumerate(results):
            result.status = 2 if len(calls) <= fails and (row == 1 or len(x) == 1) else 0
        return found, np.asarray(value), results

    monkeypatch.setattr(independent_fit, "fmin_l_bfgs_b_batched", failing)
    fails = 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit_independently(mll_of(PreferenceGP(*duels())).train())
    assert calls == [BATCH, 1]
    calls.clear()
    fails = 99
    with pytest.warns(OptimizationWarning, match=r"elements \[1\] of the batch"):
        fit_independently(mll_of(PreferenceGP(*duels())).train())
    assert calls == [BATCH, 1, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OptimizationWarning)
        with pytest.raises(ModelFittingError):
            fit_gpytorch_mll(mll_of(PreferenceGP(*duels())), max_attempts=1)


@pytest.mark.parametrize(
    "optimizer_kwargs",
    [
        {"options": {"gtol": 1e-4, "maxiter": 5}},
        {"options": {"ftol": 1e-6}},
        {"timeout_sec": 100.0},
        {"options": {"maxfun": 20}},
    ],
)
def test_options_of_botorch_are_understood(optimizer_kwargs: dict[str, Any]) -> None:
    X = rand(2, 6, 2)
    comparisons = torch.tensor([[0, 1], [2, 1], [3, 0], [4, 5]]).expand(2, -1, -1)
    model = PreferenceGP(X, comparisons)
    before = model.log_evidence().detach()
    mll = LaplaceMarginalLogLikelihood(model.likelihood, model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OptimizationWarning)
        fit_gpytorch_mll(mll, optimizer_kwargs=optimizer_kwargs)
    assert not torch.equal(model.log_evidence(), before)


def test_libraries_get_one_thread_as_in_botorchs_own_searches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SciPy's tiny products keep a second core busy with waiting, and BoTorch's fits do not."""
    seen = []
    evidence = PreferenceGP.element_evidence

    def watched(self: PreferenceGP, elements: Tensor) -> Tensor:
        seen.append(list(Limits.active))
        return evidence(self, elements)

    monkeypatch.setattr(PreferenceGP, "element_evidence", watched)
    monkeypatch.setattr(independent_fit, "threadpool_limits", Limits)
    fit_gpytorch_mll(mll_of(PreferenceGP(*duels())))
    assert seen
    assert all(active == [ONE_THREAD] for active in seen)
    assert not Limits.active
