"""A batch taken in pieces is the batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import pytest
import torch
from botorch.sampling.pathwise import draw_matheron_paths
from gpytorch import kernels
from gpytorch.means import ConstantMean
from torch import Size, Tensor

from botorch_pref.data import Comparisons
from botorch_pref.models import PreferenceGP, pieces
from botorch_pref.models.fitting import default_covar_module
from tests.models.common import rand

BATCH, ITEMS, ROWS = 5, 6, 4


def model(variance: Literal["laplace"] | float, rows: int, shared: bool) -> PreferenceGP:
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(BATCH, ITEMS, 2, generator=generator, dtype=torch.float64)
    pairs = torch.stack(
        [torch.randperm(ITEMS, generator=generator)[:2] for _ in range(BATCH * rows)]
    ).view(BATCH, rows, 2)
    kernel = default_covar_module(2, Size() if shared else Size([BATCH])).double()
    if not shared:
        scale = torch.arange(1.0, BATCH + 1, dtype=torch.float64)
        kernel.outputscale = scale
    mean = ConstantMean(batch_shape=Size() if shared else Size([BATCH]))
    data = Comparisons.from_comparisons(X, pairs)
    return PreferenceGP(X, data, covar_module=kernel, mean_module=mean, variance=variance)


@contextmanager
def pieces_of(monkeypatch: pytest.MonkeyPatch, size: int) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(pieces, "_CACHED_ENTRIES", size * ITEMS**2)
        yield


def tensors(posterior: Any) -> tuple[Tensor, Tensor]:
    return posterior.mean, posterior.distribution.covariance_matrix


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("variance", ["laplace", 6.0])
@pytest.mark.parametrize("rows", [ROWS, 3 * ITEMS])  # the answers' and the items' side
@pytest.mark.parametrize("shared", [False, True])
def test_the_posterior_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
    size: int,
    variance: Literal["laplace"] | float,
    rows: int,
    shared: bool,
) -> None:
    whole, split = (model(variance, rows, shared) for _ in range(2))
    X = torch.rand(BATCH, 3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    with pieces_of(monkeypatch, size):
        split.representer()
    for mine, other in zip(tensors(split.posterior(X)), tensors(whole.posterior(X)), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-9)
    (_, mine), (_, other) = split.representer(), whole.representer()
    assert type(mine.system) is type(other.system)
    for field in ("latent", "weights", "log_joint"):
        left, right = getattr(mine.mode, field), getattr(other.mode, field)
        torch.testing.assert_close(left, right, rtol=1e-9, atol=1e-9)
    assert torch.equal(mine.mode.converged, other.mode.converged)
    assert mine.mode.num_steps.shape == other.mode.num_steps.shape


@pytest.mark.parametrize("rows", [ROWS, 3 * ITEMS])
def test_paths_are_the_same(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    whole, split = (model("laplace", rows, shared=False) for _ in range(2))
    X = torch.rand(BATCH, 3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    with pieces_of(monkeypatch, 2):
        split.representer()
    values = []
    for gp in (whole, split):
        torch.manual_seed(0)
        values.append(draw_matheron_paths(gp, Size([2]))(X).detach())
    torch.testing.assert_close(values[1], values[0], rtol=1e-8, atol=1e-8)


def kernel_of(name: str) -> kernels.Kernel:
    shape = Size([BATCH])
    rbf = kernels.RBFKernel(batch_shape=shape)
    return {
        "cosine": lambda: kernels.CosineKernel(batch_shape=shape),
        "linear": lambda: kernels.LinearKernel(batch_shape=shape),
        "periodic": lambda: kernels.PeriodicKernel(batch_shape=shape),
        "piecewise": lambda: kernels.PiecewisePolynomialKernel(batch_shape=shape),
        "product": lambda: kernels.ScaleKernel(
            rbf * kernels.MaternKernel(nu=1.5, batch_shape=shape), batch_shape=shape
        ),
        "rq": lambda: kernels.RQKernel(batch_shape=shape),
        "spectral": lambda: kernels.SpectralMixtureKernel(2, ard_num_dims=2, batch_shape=shape),
        "sum": lambda: (
            kernels.RBFKernel(active_dims=[0], batch_shape=shape)
            + kernels.RBFKernel(active_dims=[1], batch_shape=shape)
        ),
        # These look at the batch shape that they were made with.
        "constant": lambda: kernels.ConstantKernel(batch_shape=shape) + rbf,
        "polynomial": lambda: kernels.PolynomialKernel(2, batch_shape=shape),
        "rff": lambda: kernels.RFFKernel(8, 2, batch_shape=shape),
    }[name]()


NAMES = ["cosine", "linear", "periodic", "piecewise", "product", "rq", "spectral", "sum"]


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("name", [*NAMES, "constant", "polynomial", "rff"])
def test_any_kernel(monkeypatch: pytest.MonkeyPatch, name: str, size: int) -> None:
    torch.manual_seed(0)
    kernel = kernel_of(name).double()
    for parameter in kernel.parameters():
        parameter.data.add_(0.3 * torch.randn_like(parameter))
    data = model("laplace", ROWS, shared=False).data
    assert data is not None
    gp = PreferenceGP(data.datapoints, data, covar_module=kernel)
    parameters = [*kernel.parameters()]
    whole = gp.log_evidence()
    wanted = torch.autograd.grad(whole.sum(), parameters)
    with pieces_of(monkeypatch, size):
        assert pieces.worth_splitting(gp, gp.items) == (name in NAMES)
        split = gp.log_evidence()
        found = torch.autograd.grad(split.sum(), parameters)
    torch.testing.assert_close(split, whole, rtol=1e-10, atol=1e-12)
    for mine, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-8, atol=1e-10)


def test_some_elements_of_the_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    gp = model("laplace", ROWS, shared=False)
    whole = gp.log_evidence().detach()
    chosen = torch.tensor([3, 0, 4])
    for size in (1, 2, BATCH):
        with pieces_of(monkeypatch, size):
            some = gp.element_evidence(chosen)
        torch.testing.assert_close(some.detach(), whole[chosen], rtol=1e-12, atol=1e-12)
    scale = gp.covar_module.raw_outputscale
    (grad,) = torch.autograd.grad(some.sum(), scale)
    (wanted,) = torch.autograd.grad(gp.log_evidence()[chosen].sum(), scale)
    torch.testing.assert_close(grad, wanted, rtol=1e-10, atol=1e-12)
    assert (grad[[1, 2]] == 0.0).all()


@pytest.mark.parametrize("shared", ["scale", "base"])
def test_a_kernel_of_which_a_part_is_shared_is_not_split(
    shared: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = torch.Size([3])
    kernel = kernels.ScaleKernel(
        kernels.RBFKernel(batch_shape=torch.Size() if shared == "base" else batch),
        batch_shape=torch.Size() if shared == "scale" else batch,
    ).double()
    comparisons = torch.tensor([[0, 1], [2, 1], [3, 0]]).expand(3, -1, -1)
    model = PreferenceGP(rand(3, 4, 2), comparisons, covar_module=kernel)
    whole = model.log_evidence()
    monkeypatch.setattr(pieces, "_CACHED_ENTRIES", 1)
    torch.testing.assert_close(model.log_evidence(), whole)
    assert model.posterior(rand(3, 2, 2)).mean.shape == (3, 2, 1)


@pytest.mark.parametrize("size", [1, 2])
def test_a_part_of_a_kernel_that_occurs_twice(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Pieces take its parameter from two places, and leave it where it was."""
    gp = model("laplace", ROWS, shared=False)
    part = kernels.RBFKernel(batch_shape=Size([BATCH])).double()
    part.lengthscale = torch.linspace(0.3, 0.9, BATCH, dtype=torch.float64).view(BATCH, 1, 1)
    gp.covar_module = kernels.ScaleKernel(part, batch_shape=Size([BATCH])).double() + part
    own = list(gp.covar_module.parameters())
    whole = gp.log_evidence()
    expected = torch.autograd.grad(whole.sum(), own)
    with pieces_of(monkeypatch, size):
        found = gp.log_evidence()
        grads = torch.autograd.grad(found.sum(), own)
    torch.testing.assert_close(found, whole, rtol=1e-12, atol=0.0)
    torch.testing.assert_close(grads, expected, rtol=1e-9, atol=1e-12)
    assert all(a is b for a, b in zip(gp.covar_module.parameters(), own, strict=True))
