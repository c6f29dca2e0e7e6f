r"""Kernels as plain tensors: covariances, variances of differences."""

from __future__ import annotations

from typing import Any

import torch
from gpytorch import settings
from gpytorch.kernels import Kernel
from linear_operator import to_dense
from torch import Tensor


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
