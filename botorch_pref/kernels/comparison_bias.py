r"""A utility and the biased view of it by which duels are decided."""

from __future__ import annotations

import math
from typing import Any

import torch
from botorch.utils.constraints import LogTransformedInterval
from gpytorch.kernels import Kernel
from gpytorch.priors import LogNormalPrior
from linear_operator import to_dense
from torch import Tensor
from torch.nn import Parameter

from botorch_pref.data.checks import checked_positive
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.kernels.items import WrapperKernel

DEFAULT_BIAS = 0.01
_PRIOR_DEVIATION = 1.0
_LEAST, _MOST = 1e-6, 1e2

# The last column of an item: whether its utility counts, or what a judge of duels sees.
UTILITY, COMPARED = 0.0, 1.0


class ComparisonBiasKernel(WrapperKernel):
    r"""``k((x, z), (x', z')) = k(x, x') (1 + b z z')``.

    The covariance of ``f + z delta`` with a utility ``f ~ GP(0, k)`` and an independent bias
    ``delta ~ GP(0, b k)``. The last column ``z`` marks how an item is seen: 0 for the utility,
    which is measured and maximised, 1 for ``f_c = f + delta``, by which duels are decided. So
    a :class:`~botorch_pref.models.PreferenceGP` whose compared items are marked by 1, and whose
    measured ones by 0, learns from duels that are misspecified as in Xu et al. (2020): the
    utility, at ``z = 0``, stays uncertain for any number of duels. A factor of ``f`` in ``f_c`` is
    the link's scale. This is the autoregressive model of Kennedy and O'Hagan (2000) with the cheap
    view as the one that is off, or an intrinsic coregionalization model with ``B = [[1, 1],
    [1, 1 + b]]``.

    Example:
        >>> kernel = ComparisonBiasKernel(ScaleKernel(RBFKernel(ard_num_dims=3)))
        >>> covariance = kernel(torch.rand(10, 4, dtype=torch.float64))
    """

    def __init__(self, base_kernel: Kernel, *, bias: float | None = None) -> None:
        r"""Wrap a kernel of the utility.

        Args:
            base_kernel: The kernel ``k`` over the ``d`` columns of items.
            bias: ``b`` to fix it, at least 0; by default it is learnt, under a log-normal prior
                of mode 0.01: a bias of a tenth of the utility's standard deviation.

        Raises:
            ComparisonDataError: If ``bias`` is negative or not finite.
        """
        super().__init__(base_kernel)
        self.fixed_bias = bias if bias is None or bias == 0 else checked_positive("bias", bias)
        if self.fixed_bias is not None:
            return
        self.register_parameter("raw_bias", Parameter(torch.zeros(*self.batch_shape, 1)))
        self.register_prior(
            "bias_prior",
            LogNormalPrior(math.log(DEFAULT_BIAS) + _PRIOR_DEVIATION**2, _PRIOR_DEVIATION),
            _read_bias,
            _write_bias,
        )
        constraint = LogTransformedInterval(_LEAST, _MOST, initial_value=DEFAULT_BIAS)
        self.register_constraint("raw_bias", constraint)
        self.bias = DEFAULT_BIAS

    @property
    def bias(self) -> Tensor:
        """The variance ``b`` of the bias relative to the utility's, ``... x 1`` or a scalar."""
        if self.fixed_bias is not None:
            return torch.tensor(float(self.fixed_bias), dtype=torch.double)
        found: Tensor = self.raw_bias_constraint.transform(self.raw_bias)
        return found

    @bias.setter
    def bias(self, value: float | Tensor) -> None:
        if self.fixed_bias is not None:
            raise ComparisonDataError("`bias` was fixed when the kernel was made.")
        like = self.raw_bias
        value = torch.as_tensor(value, dtype=like.dtype, device=like.device).expand_as(like)
        self.initialize(raw_bias=self.raw_bias_constraint.inverse_transform(value))

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        """``... x n x m`` covariances of ``... x (d + 1)`` inputs; ``... x n`` with ``diag``."""
        covariance = to_dense(self.base_kernel(x1[..., :-1], x2[..., :-1], diag=diag, **params))
        fixed = self.fixed_bias
        bias = self.bias.to(covariance) if fixed is None else covariance.new_full((), fixed)
        if diag:
            return covariance * (1.0 + bias * x1[..., -1] * x2[..., -1])
        both = x1[..., -1].unsqueeze(-1) * x2[..., -1].unsqueeze(-2)
        return covariance * (1.0 + (bias.unsqueeze(-1) if bias.dim() else bias) * both)


def marked(items: Tensor, marker: float) -> Tensor:
    """``... x d``-dim items with a column that says how they are seen."""
    return torch.cat([items, torch.full_like(items[..., :1], marker)], dim=-1)


def as_utility(items: Tensor) -> Tensor:
    """``... x (d + 1)``-dim items as their utility counts."""
    return marked(items[..., :-1], UTILITY)


def _read_bias(kernel: ComparisonBiasKernel) -> Tensor:
    return kernel.bias


def _write_bias(kernel: ComparisonBiasKernel, value: float | Tensor) -> None:
    kernel.bias = value
