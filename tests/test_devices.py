"""The whole path on another device: the same numbers, and nothing brought to the CPU but tests.

Without a CUDA device the tests run on an emulated one, which shows that all tensors are where they
belong; those marked ``cuda`` run the same on a real one.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms.input import Normalize
from botorch.optim.utils import sample_all_priors
from botorch.sampling import SobolQMCNormalSampler
from torch import Size, Tensor
from torch.nn import Module

from botorch_pref.acquisition import (
    DuelingKnowledgeGradient,
    DuelingThompsonSampling,
)
from botorch_pref.data import Choices
from botorch_pref.exceptions import SearchSpaceError
from botorch_pref.inference.finite import FinitePosterior
from botorch_pref.kernels.items import default_covar_module
from botorch_pref.models import (
    BernoulliGP,
    BordaGP,
    LaplaceMarginalLogLikelihood,
    LikelihoodRatioModel,
    PreferenceGP,
)
from botorch_pref.models.base import LaplaceGP
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import EUBO
from botorch_pref.study import Study
from experiments.baselines import GPUCB
from tests._reference.second_device import second_device
from tests.common import BOX, CPU, answer, emulated, held, items_and_comparisons, same

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


def moved(module: Module, device: torch.device) -> Module:
    """A copy on a device, where it was not made."""
    return copy.deepcopy(module).to(device)


X, COMPARISONS = items_and_comparisons()
Y, VARIANCES = torch.sin(4.0 * X[:4]).sum(-1, keepdim=True), torch.full((4, 1), 0.05).double()
BATCH = torch.stack([X, X.flip(-1) ** 2, 0.3 * X.flip(0)])
AT = X[:6] + 0.05
Move = Callable[[Tensor], Tensor]
MODELS: dict[str, Callable[[Move], PreferenceGP | BernoulliGP]] = {
    "duels": lambda to: PreferenceGP(to(X), to(COMPARISONS)),
    "batch": lambda to: PreferenceGP(to(BATCH), to(COMPARISONS.expand(3, -1, -1))),
    "answer-free": lambda to: PreferenceGP(to(X), to(COMPARISONS), variance=1.5),
    "inducing items": lambda to: PreferenceGP(to(X), to(COMPARISONS), inducing_points=6),
    "values": lambda to: PreferenceGP(to(X), to(COMPARISONS), values=(to(X[:4]), to(Y))),
    "known noise": lambda to: PreferenceGP(
        to(X), to(COMPARISONS), values=(to(X[:4]), to(Y), to(VARIANCES))
    ),
    "labels": lambda to: BernoulliGP(to(X), to((X[:, :1] > 0.5).double())),
}


@pytest.mark.parametrize("name", MODELS)
def test_models(device: torch.device, name: str) -> None:
    """Made there, moved there after their use, and then conditioned on duels."""

    def results(model: PreferenceGP | BernoulliGP, device: torch.device) -> list[Tensor]:
        at = AT.to(device)
        evidence, posterior = model.log_evidence(), model.posterior(at)
        learnt = [p for p in model.parameters() if p.requires_grad]
        found = [evidence, posterior.mean, posterior.covariance_matrix]
        found += torch.autograd.grad(evidence.sum(), learnt)
        if isinstance(model, PreferenceGP):
            pairs = at.view(3, 2, 2)
            found += [model.win_probability(pairs), model.pair_posterior(pairs).variance]
            if not model.batch_shape and model is not made:
                later = model.condition_on_pairs(pairs, pairs.new_ones(3))
                found += [later.posterior(at).mean, later.log_evidence()]
        assert all(tensor.device == device for tensor in (model.items, *found))
        return found

    here, made = MODELS[name](lambda tensor: tensor), MODELS[name](lambda tensor: tensor.to(device))
    wanted = results(here, CPU)
    for there in (made, moved(here, device)):
        found = results(there, device)
        for one, expected in zip(found, wanted[: len(found)], strict=True):
            same(one, expected)


_SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in MODELS if name != "batch"]


@pytest.mark.parametrize("name", ["batch", *_SLOW])
def test_fits(device: torch.device, name: str) -> None:
    def fitted(device: torch.device) -> PreferenceGP | BernoulliGP:
        model = MODELS[name](lambda tensor: tensor.to(device))
        mll = LaplaceMarginalLogLikelihood(model.likelihood, model)
        fit_gpytorch_mll(mll, optimizer_kwargs={"options": {"maxiter": 3}})
        return model

    there, here = fitted(device), fitted(CPU)
    back = copy.deepcopy(there).cpu()
    same(there.log_evidence(), back.log_evidence())
    same(there.posterior(AT.to(device)).mean, back.posterior(AT).mean)
    torch.testing.assert_close(back.log_evidence(), here.log_evidence(), rtol=1e-8, atol=1e-7)
    for (part, found), wanted in zip(there.named_parameters(), here.parameters(), strict=True):
        assert found.device == device, part
        torch.testing.assert_close(found.cpu(), wanted, rtol=1e-4, atol=1e-4)


def test_the_posterior_of_finitely_many_items(device: torch.device) -> None:
    def posterior(device: torch.device) -> list[Tensor]:
        kernel = default_covar_module(2, torch.Size()).to(X).base_kernel
        found = FinitePosterior(kernel(X).to_dense().detach().to(device), penalty=0.1)
        for pair in COMPARISONS.tolist():
            found.append(pair, 1.0)
        return [found.mean, found.covariance]

    for found, wanted in zip(posterior(device), posterior(CPU), strict=True):
        same(found, wanted)


def test_rules_are_moved_after_they_were_used(device: torch.device) -> None:
    """What they keep beside parameters and buffers, too."""
    model = PreferenceGP(X, COMPARISONS)
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
    model = MODELS["batch"](lambda tensor: tensor)
    assert model.log_evidence().isfinite().all()
    model.to(device)
    sample_all_priors(model)
    assert model.covar_module.base_kernel.lengthscale.device == device
    assert model.log_evidence().isfinite().all()


@pytest.mark.parametrize("name", [*MODELS, "choices", "scaled items", "borda", "a set"])
def test_nothing_that_a_model_holds_is_left_behind(name: str, device: torch.device) -> None:
    """Data, learnt bounds and inducing items move, and what was derived from them is dropped."""
    choices = Choices(X, torch.tensor([[0, 1, 2], [5, 3, 4]]), torch.tensor([2, 0]))
    more: dict[str, Callable[[], Any]] = {
        "choices": lambda: PreferenceGP(X, COMPARISONS, choices=choices, inference="ep"),
        "scaled items": lambda: PreferenceGP(X, COMPARISONS, input_transform=Normalize(2)),
        "borda": lambda: BordaGP(X, X[:, :1], input_transform=Normalize(2)),
        "a set": lambda: LikelihoodRatioModel.from_comparisons(X, COMPARISONS, norm_bound=2.0),
    }
    model = more[name]() if name in more else MODELS[name](lambda tensor: tensor)
    (model.upper if name == "a set" else model.posterior)(AT)
    if isinstance(model, LaplaceGP):
        model.log_evidence()
    assert len([*held(model)]) > 5
    model.float()
    assert all(t.dtype == torch.float32 for t in held(model) if t.is_floating_point())
    model.to(device)
    assert all(t.device == device or not t.dim() for t in held(model))  # a prior keeps numbers


def test_values_alone(device: torch.device) -> None:
    items = X.to(device)
    model = PreferenceGP(None, None, values=(items, items[:, :1]))
    sampler = SobolQMCNormalSampler(Size([2]), seed=0)
    assert model.fantasize(items[:2], sampler).posterior(items[:3]).mean.device == device


def test_a_state_is_read_on_the_device(device: torch.device) -> None:
    """With what was learnt, within the bounds of its constraints."""
    here = GPUCB(bounds=BOX, num_initial_values=2, seed=0)
    for _ in range(4):
        query = here.ask()
        here.tell(query, answer(query))
    state = json.loads(json.dumps(here.state_dict()))
    there = GPUCB.from_state_dict(state, device)
    assert there.state_dict()["progress"] == state["progress"]
    assert there.ask().items.device == device


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
