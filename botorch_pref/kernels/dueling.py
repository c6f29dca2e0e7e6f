r"""The dueling kernel: the covariance of utility differences."""

from __future__ import annotations

from typing import Any

import torch
from gpytorch.kernels import Kernel
from linear_operator import to_dense
from torch import Tensor

from botorch_pref.kernels.base import PairKernel, same_inputs, split_pair


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

    def forward(
        self,
        x1: Tensor,
        x2: Tensor,
        diag: bool = False,
        last_dim_is_batch: bool = False,
        **params: Any,
    ) -> Tensor:
        """See the base class."""
        self._refuse_last_dim_is_batch(last_dim_is_batch)
        same = same_inputs(x1, x2)
        pairs1, sign1 = _ordered(x1)
        pairs2, sign2 = (pairs1, sign1) if same else _ordered(x2)
        if not diag:
            return self._full(pairs1, sign1, pairs2, sign2, **params)
        if same or same_inputs(pairs1, pairs2):
            return sign1 * sign2 * dueling_variance(self.base_kernel, *split_pair(pairs1), **params)
        first1, second1 = split_pair(pairs1)
        first2, second2 = split_pair(pairs2)
        k = self.base_kernel
        near = to_dense(k(first1, first2, diag=True, **params)) - to_dense(
            k(first1, second2, diag=True, **params)
        )
        far = to_dense(k(second1, first2, diag=True, **params)) - to_dense(
            k(second1, second2, diag=True, **params)
        )
        return sign1 * sign2 * (near - far)

    def _full(
        self,
        pairs1: Tensor,
        sign1: Tensor,
        pairs2: Tensor,
        sign2: Tensor,
        **params: Any,
    ) -> Tensor:
        items1 = torch.cat(split_pair(pairs1), dim=-2)  # shape: (..., 2n, d)
        same = same_inputs(pairs1, pairs2)
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
            covar = torch.diagonal_scatter(
                covar, diagonal.expand(covar.shape[:-1]), dim1=-2, dim2=-1
            )
        return sign1.unsqueeze(-1) * sign2.unsqueeze(-2) * covar


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
    own = to_dense(base_kernel(first, first, diag=True, **params)) + to_dense(
        base_kernel(second, second, diag=True, **params)
    )
    cross = to_dense(base_kernel(first, second, diag=True, **params))
    return (own - 2.0 * cross).clamp_min(0.0)
