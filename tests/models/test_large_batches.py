"""Large batches, evaluated and fitted one element after the other, are the batch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import PairwiseLaplaceMarginalLogLikelihood
from botorch.models.transforms.input import Warp
from botorch.optim.fit import fit_gpytorch_mll_torch
from gpytorch import kernels
from gpytorch.constraints import Interval
from gpytorch.means import LinearMean
from gpytorch.priors import LogNormalPrior
from torch import Size, Tensor

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.models import LaplaceMarginalLogLikelihood, PreferenceGP, evidence
from botorch_pref.models.evidence import is_large_batch
from botorch_pref.models.fitting import DEFAULT_MODES, default_covar_module, fits_by_element
from tests.models.common import rand

BATCH, DUELS, DIM = 4, 12, 2


@pytest.fixture
def small_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every batch is a large one."""
    monkeypatch.setattr(evidence, "_CACHED_ENTRIES", 1)


def duels(dim: int = DIM) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(BATCH, 2 * DUELS, dim, generator=generator, dtype=torch.float64)
    utility = 8.0 * torch.sin(3.0 * X.sum(-1) + torch.arange(BATCH).unsqueeze(-1))
    rows = torch.arange(2 * DUELS).view(DUELS, 2).expand(BATCH, -1, -1)
    first, second = (utility.gather(-1, rows[..., i]) for i in (0, 1))
    uniform = torch.rand(first.shape, generator=generator, dtype=torch.float64)
    wins = (uniform < torch.sigmoid(first - second)).unsqueeze(-1)
    return X, torch.where(wins, rows, rows.flip(-1))


def fit(model: PreferenceGP, **options: object) -> None:
    fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model), **options)


def learnt(model: PreferenceGP) -> Tensor:
    kernel = model.covar_module
    scale = kernel.outputscale.unsqueeze(-1)
    return torch.cat([kernel.base_kernel.lengthscale.squeeze(-2), scale], dim=-1).detach()


def kernel_of(name: str) -> kernels.Kernel:
    shape = Size([BATCH])
    rbf = kernels.RBFKernel(batch_shape=shape)
    return {
        "default": lambda: default_covar_module(DIM, shape),
        "shared": lambda: default_covar_module(DIM, Size()),
        "twice": lambda: kernels.ScaleKernel(rbf, batch_shape=shape) + rbf,
        "linear": lambda: kernels.LinearKernel(batch_shape=shape),
        "product": lambda: rbf * kernels.MaternKernel(nu=1.5, batch_shape=shape),
        "spectral": lambda: kernels.SpectralMixtureKernel(2, ard_num_dims=2, batch_shape=shape),
        # These look at the batch shape that they were made with, or share a part.
        "constant": lambda: kernels.ConstantKernel(batch_shape=shape) + rbf,
        "partly shared": lambda: kernels.ScaleKernel(kernels.RBFKernel(), batch_shape=shape),
    }[name]()


WHOLE = ("constant", "partly shared")


@pytest.mark.parametrize(
    "name", ["default", "shared", "twice", "linear", "product", "spectral", *WHOLE]
)
def test_the_evidence_and_its_gradients(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    torch.manual_seed(0)
    kernel = kernel_of(name).double()
    for parameter in kernel.parameters():
        parameter.data.add_(0.3 * torch.randn_like(parameter))
    X, rows = duels()
    model = PreferenceGP(X.requires_grad_(), rows, covar_module=kernel)
    weights = torch.linspace(-1.0, 2.0, BATCH, dtype=torch.float64)
    wanted = [model.datapoints, *kernel.parameters()]
    whole = model.log_evidence()
    expected = torch.autograd.grad((weights * whole).sum(), wanted)
    monkeypatch.setattr(evidence, "_CACHED_ENTRIES", 1)
    assert is_large_batch(kernel, model.items) == (name not in WHOLE)
    for _ in range(2):  # the second time from the modes found
        found = model.log_evidence()
        grads = torch.autograd.grad((weights * found).sum(), wanted)
        torch.testing.assert_close(found, whole, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(grads, expected, rtol=1e-7, atol=1e-8)


@pytest.mark.usefixtures("small_cache")
def test_one_element_and_no_second_derivatives() -> None:
    X, rows = duels()
    model = PreferenceGP(X.requires_grad_(), rows)
    scale = model.covar_module.raw_outputscale
    (wanted,) = torch.autograd.grad(model.log_evidence()[2], scale)
    value = model.element_evidence(2)
    torch.testing.assert_close(value, model.log_evidence()[2])
    (grad,) = torch.autograd.grad(value, scale)
    torch.testing.assert_close(grad, wanted)
    with pytest.raises(UnsupportedError, match="first derivatives only"):
        torch.autograd.grad(model.log_evidence().sum(), model.datapoints, create_graph=True)
    with torch.no_grad():
        assert not model.log_evidence().requires_grad


@pytest.mark.usefixtures("small_cache")
@pytest.mark.parametrize(
    "objective", [LaplaceMarginalLogLikelihood, PairwiseLaplaceMarginalLogLikelihood]
)
def test_a_fit_equals_a_loop(objective: type) -> None:
    X, rows = duels()
    loop = []
    for x, own in zip(X, rows, strict=True):
        alone = PreferenceGP(x, own)
        fit(alone)
        loop.append(learnt(alone))
    model = PreferenceGP(X, rows)
    assert fits_by_element(model)
    fit_gpytorch_mll(objective(model.likelihood, model))
    torch.testing.assert_close(learnt(model), torch.stack(loop), rtol=1e-6, atol=0.0)


def shared_transform() -> PreferenceGP:
    """As many columns as there are models."""
    return PreferenceGP(*duels(BATCH), input_transform=Warp(d=BATCH, indices=[*range(BATCH)]))


def shared_transform_with_priors() -> PreferenceGP:
    priors = {f"concentration{i}_prior": LogNormalPrior(0.0, 1.0) for i in (0, 1)}
    warp = Warp(d=DIM, indices=[0, 1], **priors).requires_grad_(False)
    return PreferenceGP(*duels(), input_transform=warp)


def shared_mean() -> PreferenceGP:
    return PreferenceGP(*duels(BATCH), mean_module=LinearMean(BATCH, bias=False).double())


def shared_kernel() -> PreferenceGP:
    return PreferenceGP(*duels(), covar_module=default_covar_module(DIM, Size()).double())


def shared_items() -> PreferenceGP:
    X, rows = duels()
    kernel = default_covar_module(DIM, Size([BATCH])).double()
    return PreferenceGP(X[0], rows[0], covar_module=kernel)


@pytest.mark.usefixtures("small_cache")
@pytest.mark.parametrize(
    "make",
    [shared_transform, shared_transform_with_priors, shared_mean, shared_kernel, shared_items],
)
def test_models_that_share_something_are_fitted_jointly(make: Callable[[], PreferenceGP]) -> None:
    model = make()
    assert not fits_by_element(model)
    before = [p.detach().clone() for p in model.parameters()]
    fit(model)
    assert any(not torch.equal(p, old) for p, old in zip(model.parameters(), before, strict=True))


@pytest.mark.usefixtures("small_cache")
def test_options_bounds_and_other_optimizers() -> None:
    lower, upper = torch.tensor([0.1, 0.2]), torch.tensor([0.11, 0.22])
    kernel = default_covar_module(DIM, Size([BATCH])).double()
    kernel.base_kernel.register_constraint("raw_lengthscale", Interval(lower, upper))
    model = PreferenceGP(*duels(), covar_module=kernel)
    fit(model, optimizer_kwargs={"options": {"maxiter": 50}})
    found = kernel.base_kernel.lengthscale
    assert ((found >= lower) & (found <= upper)).all()
    kernel = default_covar_module(DIM, Size([BATCH]), modes=DEFAULT_MODES[:1]).double()
    model = PreferenceGP(*duels(), covar_module=kernel)
    start = learnt(model)
    fit(model, optimizer=fit_gpytorch_mll_torch, optimizer_kwargs={"step_limit": 1})
    # One step of Adam moves every raw parameter by its learning rate at most.
    assert 0.0 < float((learnt(model).log() - start.log()).abs().max()) < 0.2


@pytest.mark.usefixtures("small_cache")
def test_evidence_in_the_units_of_values() -> None:
    X, rows = duels()
    values = X[:, :4], rand(BATCH, 4, 1)
    model = PreferenceGP(X, rows, values=values)
    whole = model.log_evidence()
    for i in range(BATCH):
        torch.testing.assert_close(model.element_evidence(i), whole[i])
        alone = PreferenceGP(X[i], rows[i], values=tuple(part[i] for part in values))
        torch.testing.assert_close(alone.log_evidence(), whole[i], rtol=1e-9, atol=1e-9)
