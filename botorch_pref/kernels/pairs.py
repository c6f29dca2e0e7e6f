r"""Kernels over pairs of items: the dueling kernel and POP-BO's additive one."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from gpytorch.kernels import Kernel
from linear_operator import to_dense
from torch import Size, Tensor

from botorch_pref.kernels.items import WrapperKernel, dueling_variance


class PairKernel(WrapperKernel):
    r"""A kernel over pairs ``[x, x']`` built from a base kernel over items.

    Inputs are ``... x n x 2d``: the ``d`` columns of the first item, then those of
    the second. ``active_dims`` of this kernel index the ``2d`` pair columns, those of
    the base kernel the ``d`` item dimensions. The batch shape is the base kernel's.
    """

    def expand_batch(self, *sizes: Size | tuple[int, ...] | int) -> Kernel:
        """This kernel with its parameters expanded to a batch shape."""
        return self._with_base(lambda base: base.expand_batch(*sizes))

    def __getitem__(self, index: Any) -> Kernel:
        """This kernel for a part of its batch."""
        return self._with_base(lambda base: base[index]) if self.batch_shape else self

    def _with_base(self, change: Callable[[Kernel], Kernel]) -> PairKernel:
        """A copy of this kernel over a changed base kernel."""
        # GPyTorch indexes and expands every buffer as if it were a parameter, and
        # ``active_dims`` is a buffer without a batch.
        new_kernel = deepcopy(self)
        for module in new_kernel.modules():
            if isinstance(module, Kernel):
                module.active_dims = None
        new_kernel.base_kernel = change(new_kernel.base_kernel)
        # By name: modules that two constraints share are no longer shared in a copy.
        for name, module in new_kernel.named_modules(remove_duplicate=False):
            if isinstance(module, Kernel):
                module.active_dims = self.get_submodule(name).active_dims
        return new_kernel


class AdditivePairKernel(PairKernel):
    r"""``k((x, x'), (w, w')) = k(x, w) + k(x', w')``.

    The covariance of ``f(x) + g(x')`` for independent ``f, g ~ GP(0, k)``: a function
    of the pair without antisymmetry, so it models order effects (which slot is
    favoured), but not cycles. See Xu et al., *Principled Preferential Bayesian
    Optimization* (ICML 2024).

    Example:
        >>> kernel = AdditivePairKernel(MaternKernel(ard_num_dims=3))
        >>> covariance = kernel(torch.rand(10, 6, dtype=torch.float64))
    """

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        """``... x n x m`` covariances of pairs, or ``... x n`` with ``diag``."""
        first1, second1 = split_pair(x1)
        first2, second2 = split_pair(x2)
        k = self.base_kernel
        first = to_dense(k(first1, first2, diag=diag, **params))
        return first + to_dense(k(second1, second2, diag=diag, **params))


class DuelingKernel(PairKernel):
    r"""``k((x,x'),(w,w')) = k(x,w) + k(x',w') - k(x,w') - k(x',w)``.

    The covariance of ``h(x, x') = f(x) - f(x')`` for ``f ~ GP(0, k)``: eq. (4) of
    Lazzaro et al., *A Finite Time Analysis of Thompson Sampling for Bayesian
    Optimization with Preferential Feedback* (2026). Swapping the items of a pair flips
    the sign exactly, and ``k(z, z)`` keeps its digits for near-identical items.

    Example:
        >>> kernel = DuelingKernel(MaternKernel(ard_num_dims=3))
        >>> covariance = kernel(torch.rand(10, 6, dtype=torch.float64))
    """

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        """``... x n x m`` covariances of pairs, or ``... x n`` with ``diag``."""
        (pairs1, sign1), (pairs2, sign2) = _ordered(x1), _ordered(x2)
        same = x1 is x2 or (x1.shape == x2.shape and torch.equal(pairs1, pairs2))
        if not diag:
            covar = self._full(pairs1, pairs2, same, **params)
            return sign1.unsqueeze(-1) * sign2.unsqueeze(-2) * covar
        if same:
            return sign1 * sign2 * dueling_variance(self.base_kernel, *split_pair(pairs1), **params)
        k, (first, second) = self.base_kernel, split_pair(pairs2)
        near, far = (
            to_dense(k(one, first, diag=True, **params))
            - to_dense(k(one, second, diag=True, **params))
            for one in split_pair(pairs1)
        )
        return sign1 * sign2 * (near - far)

    def _full(self, pairs1: Tensor, pairs2: Tensor, same: bool, **params: Any) -> Tensor:
        """The ``... x n x m`` covariances of ordered pairs."""
        items1 = torch.cat(split_pair(pairs1), dim=-2)  # shape: (..., 2n, d)
        items2 = items1 if same else torch.cat(split_pair(pairs2), dim=-2)
        covar = to_dense(self.base_kernel(items1, items2, **params))
        # Distances come from a quadratic expansion, which takes an item for a near
        # neighbour of its equal in another row: a kernel with a kink at zero shows it.
        equal = (items1.unsqueeze(-2) == items2.unsqueeze(-3)).all(dim=-1)
        own = to_dense(self.base_kernel(items1, items1, diag=True, **params))
        covar = torch.where(equal, own.unsqueeze(-1), covar)
        near = covar[..., : pairs1.shape[-2], :] - covar[..., pairs1.shape[-2] :, :]
        covar = near[..., : pairs2.shape[-2]] - near[..., pairs2.shape[-2] :]
        if same:
            # That expansion also loses the digits of a small distance, which is all
            # that is left on the diagonal.
            diagonal = dueling_variance(self.base_kernel, *split_pair(pairs1), **params)
            diagonal = diagonal.expand(covar.shape[:-1])
            covar = torch.diagonal_scatter(covar, diagonal, dim1=-2, dim2=-1)
        return covar


def _ordered(pairs: Tensor) -> tuple[Tensor, Tensor]:
    r"""Each pair with its lexicographically smaller item first, and the sign of that.

    Evaluating the base kernel on ordered pairs alone makes the antisymmetry exact:
    both orders of a pair go through the very same floating-point operations.
    """
    first, second = split_pair(pairs)
    differs = (first != second).to(pairs.dtype)
    leading = differs.argmax(dim=-1, keepdim=True)  # the first column that differs
    swap = first.gather(-1, leading) > second.gather(-1, leading)  # shape: (..., n, 1)
    ordered = torch.where(swap, torch.cat([second, first], dim=-1), pairs)
    sign = torch.ones_like(pairs[..., 0]).masked_fill(swap.squeeze(-1), -1.0)
    return ordered, sign


def split_pair(pairs: Tensor) -> tuple[Tensor, Tensor]:
    """The first and the second items of ``pairs: ... x n x 2d``, each ``... x n x d``."""
    columns = pairs.shape[-1]
    if columns % 2:
        raise BotorchTensorDimensionError(
            "A kernel over pairs needs an even number of columns, the first item's and "
            f"then the second's, but got {columns}."
        )
    first, second = pairs.split(columns // 2, dim=-1)
    return first, second
