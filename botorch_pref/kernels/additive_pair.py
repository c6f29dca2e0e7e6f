r"""The additive pair kernel of POP-BO."""

from __future__ import annotations

from typing import Any

from linear_operator import to_dense
from torch import Tensor

from botorch_pref.kernels.base import PairKernel, split_pair


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
        first1, second1 = split_pair(x1)
        first2, second2 = split_pair(x2)
        k = self.base_kernel
        first = to_dense(k(first1, first2, diag=diag, **params))
        return first + to_dense(k(second1, second2, diag=diag, **params))
