"""What the tests of the models share: data, kernels, finite differences."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
from botorch.posteriors import Posterior
from gpytorch.kernels import MaternKernel, ScaleKernel
from gpytorch.means import Mean
from torch import Size, Tensor

from botorch_pref.models import PreferenceGP


class LinearMean(Mean):
    """``slope * sum(x)``: a prior mean that does not cancel in a difference."""

    def __init__(self, slope: float) -> None:
        super().__init__()
        self.slope = slope

    def forward(self, x: Tensor) -> Tensor:
        return self.slope * x.sum(-1)


def rand(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, generator=generator, dtype=torch.float64)


def make_kernel(
    dim: int,
    lengthscale: float = 0.4,
    outputscale: float = 4.0,
    nu: float = 2.5,
    batch_shape: tuple[int, ...] = (),
) -> ScaleKernel:
    """A scaled ARD Matern kernel whose lengthscales differ, without priors."""
    shape = Size(batch_shape)
    base = MaternKernel(nu=nu, ard_num_dims=dim, batch_shape=shape)
    kernel = ScaleKernel(base, batch_shape=shape).double()
    stretch = torch.linspace(1.0, 1.5, dim, dtype=torch.float64)
    kernel.base_kernel.lengthscale = (lengthscale * stretch).expand(*batch_shape, 1, dim)
    kernel.outputscale = outputscale
    return kernel


def utility(X: Tensor) -> Tensor:
    """A smooth utility of items, of range about 4."""
    return 2 * torch.sin(3 * X).sum(-1) - (X - 0.6).square().sum(-1)


def make_duels(
    num_items: int, num_duels: int, dim: int, seed: int = 0, consistent: bool = False
) -> tuple[Tensor, Tensor]:
    """Items and ``[winner, loser]`` rows of a logistic judge, or of one that never errs."""
    generator = torch.Generator().manual_seed(seed + 1000)
    X = rand(num_items, dim, seed=seed)
    first = torch.randint(num_items, (num_duels,), generator=generator)
    second = (first + torch.randint(1, num_items, (num_duels,), generator=generator)) % num_items
    difference = utility(X)[first] - utility(X)[second]
    chance = torch.rand(num_duels, generator=generator, dtype=torch.float64)
    wins = difference > 0 if consistent else chance < torch.sigmoid(2 * difference)
    pairs = torch.stack([first, second], dim=-1)
    return X, torch.where(wins.unsqueeze(-1), pairs, pairs.flip(-1))


def make_model(
    num_items: int = 8,
    num_duels: int = 12,
    dim: int = 2,
    seed: int = 0,
    consistent: bool = False,
    **options: Any,
) -> PreferenceGP:
    """A model of those duels."""
    X, comparisons = make_duels(num_items, num_duels, dim, seed, consistent)
    options.setdefault("covar_module", make_kernel(dim))
    return PreferenceGP(X, comparisons, **options)


def _saved(model: Any) -> Any:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


COPIES: dict[str, Callable[[Any], Any]] = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "torch.save": _saved,
}
duplicates = pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES)


def differences(posterior: Posterior) -> tuple[Tensor, Tensor]:
    """Mean and covariance of the utility at each point minus that at the first one."""
    mean = posterior.mean.squeeze(-1).detach()
    covariance = posterior.covariance_matrix.detach()
    mean = mean[..., 1:] - mean[..., :1]
    covariance = covariance[..., 1:, :] - covariance[..., :1, :]
    return mean, covariance[..., 1:] - covariance[..., :1]


def assert_same_posterior(
    first: Posterior, second: Posterior, atol: float = 1e-10, rtol: float = 1e-10
) -> None:
    torch.testing.assert_close(first.mean, second.mean, atol=atol, rtol=rtol)
    torch.testing.assert_close(
        first.covariance_matrix, second.covariance_matrix, atol=atol, rtol=rtol
    )


def assert_moments(
    posterior: Posterior, mean: Tensor, covariance: Tensor, atol: float = 1e-8
) -> None:
    """The mean and covariance of a posterior are those expected, up to ``atol`` and that ratio."""
    found = posterior.mean.squeeze(-1).detach(), posterior.covariance_matrix.detach()
    torch.testing.assert_close(found, (mean, covariance), atol=atol, rtol=atol)


def assert_laplace(model: PreferenceGP, X: Tensor, log_likelihood: Callable[[Tensor], Tensor]):
    """Posterior and evidence are those of Newton's method and autograd's Hessian."""
    items, n = torch.cat([model.items, X]), len(model.items)
    with torch.no_grad():
        K = model.covar_module(items).to_dense()
    prior, cross, one = K[:n, :n], K[n:, :n], torch.eye(n).double()
    f, score = torch.zeros(n).double(), torch.autograd.functional.jacobian
    hessian = torch.autograd.functional.hessian
    for _ in range(12):
        W = -hessian(log_likelihood, f)
        f = prior @ torch.linalg.solve(one + W @ prior, W @ f + score(log_likelihood, f))
    W, weights = -hessian(log_likelihood, f), score(log_likelihood, f)
    explained = cross @ torch.linalg.solve(one + W @ prior, W) @ cross.T
    evidence = log_likelihood(f) - 0.5 * f @ weights - 0.5 * torch.logdet(one + W @ prior)
    posterior = model.posterior(X)
    torch.testing.assert_close(posterior.mean.squeeze(-1), cross @ weights, atol=1e-7, rtol=0)
    covariance = K[n:, n:] - explained
    torch.testing.assert_close(posterior.covariance_matrix, covariance, atol=1e-7, rtol=0)
    torch.testing.assert_close(model.log_evidence(), evidence, atol=1e-7, rtol=0)


def numerical_gradient(
    function: Callable[[Tensor], Tensor], at: Tensor, step: float = 1e-4
) -> Tensor:
    """The derivative of a function by central differences of fourth order.

    Returns:
        The shape of the function's value, then that of ``at``.
    """
    at = at.detach()
    columns = []
    for i in range(at.numel()):
        shift = torch.zeros_like(at)
        shift.view(-1)[i] = step
        with torch.no_grad():
            near = function(at + shift) - function(at - shift)
            far = function(at + 2 * shift) - function(at - 2 * shift)
        columns.append((8 * near - far) / (12 * step))
    return torch.stack(columns, dim=-1).reshape([*columns[0].shape, *at.shape])


def parameter_gradients(
    model: torch.nn.Module, function: Callable[[], Tensor], step: float = 1e-4
) -> list[tuple[str, Tensor, Tensor]]:
    """Name, autograd's gradient and the numerical one, for every parameter of a model."""
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    parameters = [parameter for _, parameter in named]
    exact = torch.autograd.grad(function(), parameters, allow_unused=True)
    found = []
    for (name, parameter), gradient in zip(named, exact, strict=True):
        start = parameter.detach().clone()

        def at(value: Tensor, parameter: Tensor = parameter) -> Tensor:
            parameter.data.copy_(value)
            return function()

        numerical = numerical_gradient(at, start, step)
        parameter.data.copy_(start)
        found.append((name, torch.zeros_like(start) if gradient is None else gradient, numerical))
    return found


class Limits:
    """In the place of `threadpool_limits`: remembers what is asked for, while it is."""

    active: ClassVar[list[dict[str, object]]] = []

    def __init__(self, **options: object) -> None:
        self.options = options

    def __enter__(self) -> None:
        self.active.append(self.options)

    def __exit__(self, *error: object) -> None:
        self.active.pop()


ONE_THREAD: dict[str, object] = {"limits": 1, "user_api": "blas"}


def first_won(model: PreferenceGP) -> Tensor:
    """Whether the first of its two items won the last duel of a model, as 1 or 0."""
    winner, loser = model.data.pairs[..., -1, :].unbind(-1)
    return (winner < loser).double()
