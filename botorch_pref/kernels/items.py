r"""Kernels over items: the default one and its priors, wrappers, and values as plain tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, Self

import torch
from botorch.utils.constraints import LogTransformedInterval
from gpytorch import Module, settings
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, ScaleKernel
from gpytorch.priors import LogNormalPrior
from linear_operator import to_dense
from torch import Size, Tensor

# Modes of the priors, and the standard deviations of the logarithms.
DEFAULT_LENGTHSCALE, LENGTHSCALE_WIDTH = 0.8, 0.8
DEFAULT_OUTPUT_SCALE, OUTPUT_SCALE_WIDTH = 4.0, 1.0
NOT_MANY = 8  # dimensions; in more, items are farther apart

KernelName = Literal["rbf", "matern", "matern15"]
_SMOOTHNESS = {"matern": 2.5, "matern15": 1.5}


class PriorAround(LogNormalPrior):
    r"""A log-normal prior given by its mode and the standard deviation of the logarithm."""

    def __init__(self, mode: float, width: float) -> None:
        super().__init__(math.log(mode) + width**2, width)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Torch's, of what moves a module; GPyTorch's draws would stay on the former device."""
        super()._apply(fn, recurse)
        self.base_dist.loc, self.base_dist.scale = self._buffered_loc, self._buffered_scale
        return self


class Read:
    """Reads what a prior is of: as GPyTorch needs it, and pickles, which a lambda does not."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, module: Module) -> Tensor:
        value: Tensor = getattr(module, self.name)
        return value


class Write(Read):
    """Sets it, as a sampler does."""

    def __call__(self, module: Module, value: Tensor) -> None:  # type: ignore[override]
        module.initialize(**{self.name: value})


def default_lengthscale(dim: int) -> float:
    """The mode of the default prior of lengthscales, for items of so many dimensions."""
    return DEFAULT_LENGTHSCALE * math.sqrt(max(1.0, dim / NOT_MANY))


def default_covar_module(
    dim: int | None,
    batch_shape: Size,
    kind: KernelName = "matern",
    *,
    lengthscale: float | None = None,
    outputscale: float = DEFAULT_OUTPUT_SCALE,
) -> ScaleKernel:
    r"""A scaled kernel with one lengthscale a dimension, for items in the unit cube.

    The priors are log-normal and given by their modes, near which a fit stays where the answers
    say little: a lengthscale of 0.8 (90 % between 0.41 and 5.7) and an output scale of 4 squared
    logits (2.1 and 56). In more than eight dimensions the lengthscale's mode grows with the root
    of their number, ``0.8 sqrt(d / 8)``, as the distances of items do: with 0.8 the rows of a table
    of 768 columns are unrelated. A fit starts from the modes and searches on the log scale.
    ``python -m experiments beliefs`` and ``tutorial`` chose them.

    Args:
        dim: The number of dimensions of an item; one shared lengthscale if ``None``.
        batch_shape: The batch shape of the hyperparameters.
        kind: ``"matern"`` for Matern-5/2, ``"matern15"`` for Matern-3/2, or ``"rbf"``.
        lengthscale: The mode of the prior of each lengthscale; as above by default.
        outputscale: The mode of the prior of the output scale.

    Returns:
        The kernel, at the modes.
    """
    if lengthscale is None:
        lengthscale = default_lengthscale(dim or 1)
    options = {
        "ard_num_dims": dim,
        "batch_shape": batch_shape,
        "lengthscale_prior": PriorAround(lengthscale, LENGTHSCALE_WIDTH),
        "lengthscale_constraint": LogTransformedInterval(1e-3, 1e2, initial_value=lengthscale),
    }
    smoothness = _SMOOTHNESS.get(kind)
    base = MaternKernel(nu=smoothness, **options) if smoothness else RBFKernel(**options)
    return scaled_kernel(base, outputscale)


def scaled_kernel(base_kernel: Kernel, outputscale: float = DEFAULT_OUTPUT_SCALE) -> ScaleKernel:
    """A kernel of unit variance with an output scale, and the default prior of it.

    Args:
        base_kernel: The kernel, whose batch shape that of the output scale is.
        outputscale: The mode of the prior, which is where it stands.
    """
    return ScaleKernel(
        base_kernel,
        batch_shape=base_kernel.batch_shape,
        outputscale_prior=PriorAround(outputscale, OUTPUT_SCALE_WIDTH),
        outputscale_constraint=LogTransformedInterval(1e-3, 1e4, initial_value=outputscale),
    )


class WrapperKernel(Kernel):
    r"""A kernel made of one base kernel, whose batch shape it has.

    Args:
        base_kernel: The kernel inside.
        active_dims: The columns of its inputs; all by default.
    """

    def __init__(
        self, base_kernel: Kernel, active_dims: Sequence[int] | Tensor | None = None
    ) -> None:
        super().__init__(active_dims=active_dims)
        self.base_kernel = base_kernel

    # A second one beside the base kernel's would go stale under ``expand_batch`` and indexing;
    # and GPyTorch asks many times a call, and would search all modules each time.
    @property
    def batch_shape(self) -> Size:
        """The batch shape of the base kernel."""
        return self.base_kernel.batch_shape

    @batch_shape.setter
    def batch_shape(self, val: Size) -> None:
        self.base_kernel.batch_shape = val

    def named_sub_kernels(self) -> Iterable[tuple[str, Kernel]]:
        """The base kernel alone; it recurses into its own sub-kernels itself."""
        yield "base_kernel", self.base_kernel


def dense_covariance(
    kernel: Kernel, left: Tensor, right: Tensor | None = None, diag: bool = False
) -> Tensor:
    """The ``... x p x q``-dim covariance of points as a tensor, or its ``... x p``-dim diagonal.

    A lazily evaluated kernel, GPyTorch's default, costs a fifth more where points are few.

    Args:
        kernel: Any kernel.
        left: ``... x p x d``-dim points.
        right: ``... x q x d``-dim points; ``left`` by default.
        diag: Whether only the diagonal is wanted, where ``p = q``.
    """
    with settings.lazily_evaluate_kernels(False):
        covariance: Tensor = to_dense(kernel(left, right, diag=diag))
        return covariance


def dueling_variance(base_kernel: Kernel, first: Tensor, second: Tensor, **params: Any) -> Tensor:
    """Prior variances of ``f(x) - f(x')``, one for each pair, with all their digits.

    Args:
        base_kernel: A kernel over items; its distances are not expanded into squares.
        first: ``... x n x d``-dim first items.
        second: ``... x n x d``-dim second items.
        **params: Passed to the base kernel.
    """
    own = to_dense(base_kernel(first, first, diag=True, **params))
    own = own + to_dense(base_kernel(second, second, diag=True, **params))
    cross = to_dense(base_kernel(first, second, diag=True, **params))
    return (own - 2.0 * cross).clamp_min(0.0)


def safe_deviation(variance: Tensor) -> Tensor:
    r"""The square root of ``...``-dim variances, of gradient zero where they are zero."""
    positive = variance > 0
    return torch.where(positive, torch.where(positive, variance, 1.0).sqrt(), 0.0)
