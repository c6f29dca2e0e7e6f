r"""What kernels that wrap another share, and those over pairs: items, and batch plumbing."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Any

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from gpytorch.kernels import Kernel
from torch import Size, Tensor


class WrappingKernel(Kernel):
    r"""A kernel built from one other, without a batch of its own."""

    has_lengthscale = False

    def __init__(
        self,
        base_kernel: Kernel,
        active_dims: Sequence[int] | Tensor | None = None,
    ) -> None:
        super().__init__(active_dims=active_dims)
        self.base_kernel = base_kernel

    @property
    def is_stationary(self) -> bool:
        """False, as the value at an input and itself depends on the input."""
        return False

    # One set apart from the base kernel's would go stale under ``expand_batch`` and indexing;
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


class PairKernel(WrappingKernel):
    r"""A kernel over pairs ``[x, x']`` built from a base kernel over items.

    Inputs are ``... x n x 2d``: the ``d`` columns of the first item, then those of
    the second. ``active_dims`` of this kernel index the ``2d`` pair columns, those of
    the base kernel the ``d`` item dimensions. The batch shape is the base kernel's.
    """

    def __init__(
        self,
        base_kernel: Kernel,
        active_dims: Sequence[int] | Tensor | None = None,
    ) -> None:
        r"""Wrap ``base_kernel``.

        Args:
            base_kernel: Any GPyTorch kernel over items.
            active_dims: Pair columns to use, in the order ``[x, x']``; all by default.
        """
        super().__init__(base_kernel, active_dims)

    def expand_batch(self, *sizes: Size | tuple[int, ...] | int) -> Kernel:
        """This kernel with its parameters expanded to a batch shape."""
        new_kernel = self._without_active_dims()
        new_kernel.base_kernel = new_kernel.base_kernel.expand_batch(*sizes)
        return self._with_my_active_dims(new_kernel)

    def __getitem__(self, index: Any) -> Kernel:
        """This kernel for a part of its batch."""
        if len(self.batch_shape) == 0:
            return self
        new_kernel = self._without_active_dims()
        new_kernel.base_kernel = new_kernel.base_kernel[index]
        return self._with_my_active_dims(new_kernel)

    def __call__(
        self,
        x1: Tensor,
        x2: Tensor | None = None,
        diag: bool = False,
        last_dim_is_batch: bool = False,
        **params: Any,
    ) -> Any:
        """See :meth:`gpytorch.kernels.Kernel.__call__`.

        Raises:
            UnsupportedError: If ``last_dim_is_batch`` is set.
        """
        self._refuse_last_dim_is_batch(last_dim_is_batch)
        return super().__call__(x1, x2, diag=diag, **params)

    @abstractmethod
    def forward(
        self,
        x1: Tensor,
        x2: Tensor,
        diag: bool = False,
        last_dim_is_batch: bool = False,
        **params: Any,
    ) -> Tensor:
        r"""The covariance of ``x1: ... x n x 2d`` and ``x2: ... x m x 2d``.

        Returns:
            ``... x n x m`` covariances, or ``... x n`` with ``diag``.

        Raises:
            UnsupportedError: If ``last_dim_is_batch`` is set.
        """

    def _without_active_dims(self) -> PairKernel:
        # GPyTorch indexes and expands every buffer as if it were a parameter, and
        # ``active_dims`` is a buffer without a batch.
        new_kernel = deepcopy(self)
        for module in new_kernel.modules():
            if isinstance(module, Kernel):
                module.active_dims = None
        return new_kernel

    def _with_my_active_dims(self, new_kernel: PairKernel) -> PairKernel:
        # By name: modules that two constraints share are no longer shared in a copy.
        for name, module in new_kernel.named_modules(remove_duplicate=False):
            if isinstance(module, Kernel):
                module.active_dims = self.get_submodule(name).active_dims
        return new_kernel

    def _refuse_last_dim_is_batch(self, asked: bool) -> None:
        if asked:
            raise UnsupportedError(
                f"{type(self).__name__} does not support last_dim_is_batch: a single "
                "column is not a pair. Give the base kernel additive structure instead."
            )


def split_pair(pairs: Tensor) -> tuple[Tensor, Tensor]:
    r"""The first and the second items of ``pairs: ... x n x 2d``, each ``... x n x d``.

    Raises:
        BotorchTensorDimensionError: If the number of columns is odd.
    """
    columns = pairs.shape[-1]
    if columns % 2:
        raise BotorchTensorDimensionError(
            "A kernel over pairs needs an even number of columns, the first item's and "
            f"then the second's, but got {columns}."
        )
    first, second = pairs.split(columns // 2, dim=-1)
    return first, second


def same_inputs(x1: Tensor, x2: Tensor) -> bool:
    """Whether both arguments of a kernel are one and the same set of pairs."""
    return x1 is x2 or (x1.shape == x2.shape and torch.equal(x1, x2))
