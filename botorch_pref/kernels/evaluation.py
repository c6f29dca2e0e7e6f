r"""Kernels as plain tensors: covariances, variances of differences, functions of parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from gpytorch import settings
from gpytorch.kernels import Kernel
from linear_operator import to_dense
from torch import Tensor
from torch.func import functional_call
from torch.nn import Module


def dense_covariance(
    kernel: Kernel, left: Tensor, right: Tensor | None = None, diag: bool = False
) -> Tensor:
    r"""The covariance of points as a plain tensor.

    A lazily evaluated kernel, GPyTorch's default, costs a fifth more where points are few.

    Args:
        kernel: Any kernel.
        left: ``... x p x d``-dim points.
        right: ``... x q x d``-dim points; ``left`` by default.
        diag: Whether only the diagonal is wanted, where ``p = q``.

    Returns:
        ``... x p x q``-dim covariance, or its ``... x p``-dim diagonal, with its graph.
    """
    with settings.lazily_evaluate_kernels(False):
        covariance: Tensor = to_dense(kernel(left, right, diag=diag))
        return covariance


def dueling_variance(base_kernel: Kernel, first: Tensor, second: Tensor, **params: Any) -> Tensor:
    r"""``k(z, z)``, the prior variance of ``f(x) - f(x')``, with all its digits.

    Args:
        base_kernel: A kernel over items.
        first: ``... x n x d``-dim first items.
        second: ``... x n x d``-dim second items.
        **params: Passed to the base kernel.

    Returns:
        ``... x n``-dim variances, from distances that are not expanded into squares.
    """
    own = to_dense(base_kernel(first, first, diag=True, **params))
    own = own + to_dense(base_kernel(second, second, diag=True, **params))
    cross = to_dense(base_kernel(first, second, diag=True, **params))
    return (own - 2.0 * cross).clamp_min(0.0)


def safe_deviation(variance: Tensor) -> Tensor:
    r"""The square root of ``...``-dim variances, of gradient zero where they are zero."""
    positive = variance > 0
    return torch.where(positive, torch.where(positive, variance, 1.0).sqrt(), 0.0)


class KernelFunction:
    """A kernel as a function of points and of parameters, which need not be its own.

    Args:
        kernel: Any kernel.

    Attributes:
        parameters: Those of the kernel; one that several of its parts hold comes as often.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._dense = _Dense(kernel)
        # One name for each place that holds one: torch puts back what it found there name by name.
        named = {
            f"{name}.{key}" if name else key: value
            for name, module in self._dense.named_modules()
            for key, value in module.named_parameters(recurse=False)
        }
        self._names = tuple(named)
        self.parameters: tuple[Tensor, ...] = tuple(named.values())

    def __call__(
        self,
        parameters: Sequence[Tensor],
        left: Tensor,
        right: Tensor | None = None,
        diag: bool = False,
    ) -> Tensor:
        """:func:`dense_covariance` with these parameters."""
        named = dict(zip(self._names, parameters, strict=True))
        # All places are given, so that torch need not look for further ones of the same tensors.
        arguments = (left, right, diag)
        found: Tensor = functional_call(self._dense, named, arguments, tie_weights=False)
        return found


class _Dense(Module):
    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.kernel = kernel

    def forward(self, left: Tensor, right: Tensor | None, diag: bool) -> Tensor:
        return dense_covariance(self.kernel, left, right, diag)
