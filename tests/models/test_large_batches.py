"""Large batches, evaluated and fitted one model after the other, are the batch."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import PairwiseLaplaceMarginalLogLikelihood
from botorch.models.transforms.input import Warp
from gpytorch import kernels
from gpytorch.means import ConstantMean, LinearMean
from torch import Size, Tensor

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.kernels.items import default_covar_module
from botorch_pref.models import LaplaceMarginalLogLikelihood, PreferenceGP, base

BATCH, DUELS, DIM = 4, 12, 2


@pytest.fixture
def small_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every batch is a large one."""
    monkeypatch.setattr(base, "_CACHED_ENTRIES", 1)


def duels(dim: int = DIM) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(BATCH, 2 * DUELS, dim, generator=generator, dtype=torch.float64)
    utility = 8.0 * torch.sin(3.0 * X.sum(-1) + torch.arange(BATCH).unsqueeze(-1))
    rows = torch.arange(2 * DUELS).view(DUELS, 2).expand(BATCH, -1, -1)
    first, second = (utility.gather(-1, rows[..., i]) for i in (0, 1))
    uniform = torch.rand(first.shape, generator=generator, dtype=torch.float64)
    wins = (uniform < torch.sigmoid(first - second)).unsqueeze(-1)
    return X, torch.where(wins, rows, rows.flip(-1))


def is_split(model: PreferenceGP) -> bool:
    return model._is_split(model.observed())


SHAPE = Size([BATCH])
RBF = kernels.RBFKernel(batch_shape=SHAPE)
KERNELS: dict[str, kernels.Kernel] = {
    "default": default_covar_module(DIM, SHAPE),
    "twice": kernels.ScaleKernel(RBF, batch_shape=SHAPE) + RBF,
    "linear": kernels.LinearKernel(batch_shape=SHAPE),
    "constant": kernels.ConstantKernel(batch_shape=SHAPE) + RBF,
    "spectral": kernels.SpectralMixtureKernel(2, ard_num_dims=2, batch_shape=SHAPE),
}


@pytest.mark.parametrize("name", KERNELS)
def test_the_evidence_and_its_gradients(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    torch.manual_seed(0)
    kernel = copy.deepcopy(KERNELS[name]).double()
    for parameter in kernel.parameters():
        parameter.data.add_(0.3 * torch.randn_like(parameter))
    mean = ConstantMean(batch_shape=SHAPE).double()
    model = PreferenceGP(*duels(), covar_module=kernel, mean_module=mean)
    weights = torch.linspace(-1.0, 2.0, BATCH, dtype=torch.float64)
    wanted = list(model.parameters())
    whole = model.log_evidence()
    expected = torch.autograd.grad((weights * whole).sum(), wanted, materialize_grads=True)
    monkeypatch.setattr(base, "_CACHED_ENTRIES", 1)
    assert is_split(model)
    for _ in range(2):  # the second time from the modes found
        found = model.log_evidence()
        grads = torch.autograd.grad((weights * found).sum(), wanted)
        torch.testing.assert_close(found, whole, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(grads, expected, rtol=1e-7, atol=1e-8)
    with pytest.raises(UnsupportedError, match="first derivatives only"):
        torch.autograd.grad(model.log_evidence().sum(), wanted, create_graph=True)
    with torch.no_grad():
        assert not model.log_evidence().requires_grad


@pytest.mark.usefixtures("small_cache")
def test_a_fit_equals_a_loop() -> None:
    X, rows = duels()
    model = PreferenceGP(X, rows)
    assert is_split(model)
    fit_gpytorch_mll(PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model))
    for i in range(BATCH):
        alone = PreferenceGP(X[i], rows[i])
        fit_gpytorch_mll(LaplaceMarginalLogLikelihood(alone.likelihood, alone))
        scales = [[*m.covar_module.parameters()] for m in (model, alone)]
        for found, wanted in zip(*scales, strict=True):
            torch.testing.assert_close(found[i].exp(), wanted.exp(), rtol=1e-6, atol=0.0)


X, ROWS = duels()
WIDE, WIDE_ROWS = duels(BATCH)  # as many columns as there are models
KERNEL = kernels.ScaleKernel(kernels.RBFKernel(), batch_shape=Size([BATCH]))
TOGETHER: dict[str, Callable[[], PreferenceGP]] = {
    "transform": lambda: PreferenceGP(
        WIDE, WIDE_ROWS, input_transform=Warp(d=BATCH, indices=[*range(BATCH)])
    ),
    "mean": lambda: PreferenceGP(
        WIDE, WIDE_ROWS, mean_module=LinearMean(BATCH, bias=False).double()
    ),
    "kernel": lambda: PreferenceGP(
        X, ROWS, covar_module=default_covar_module(DIM, Size()).double()
    ),
    "part of the kernel": lambda: PreferenceGP(X, ROWS, covar_module=KERNEL.double()),
    "items": lambda: PreferenceGP(
        X[0], ROWS[0], covar_module=default_covar_module(DIM, Size([BATCH])).double()
    ),
    "values": lambda: PreferenceGP(X, ROWS, values=(X[:, :4], X[:, :4, :1])),
    "fantasies": lambda: PreferenceGP(X.clone().requires_grad_(), ROWS),
}


@pytest.mark.usefixtures("small_cache")
@pytest.mark.parametrize("make", TOGETHER.values(), ids=TOGETHER)
def test_models_that_share_something_stay_together(make: Callable[[], PreferenceGP]) -> None:
    assert not is_split(make())
