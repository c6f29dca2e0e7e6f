r"""Kernels evaluated at once."""

from __future__ import annotations

from collections.abc import Sequence

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

    A lazily evaluated kernel, GPyTorch's default, costs a fifth more where points are few, and
    serves nothing where all of it is wanted.

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
