r"""A slope over a box, and what a base kernel has beside it."""

from __future__ import annotations

from typing import Any

from gpytorch.kernels import Kernel
from linear_operator import to_dense
from torch import Tensor

from botorch_pref.data.checks import checked_share
from botorch_pref.kernels.items import WrapperKernel


class SlopeKernel(WrapperKernel):
    r"""``(1 - s) k(x, x') + s (12 / d) sum_i (x_i - 1/2) (x'_i - 1/2)`` on the unit cube.

    A utility that rises or falls steadily in every column, and a part of the base kernel's beside
    that. Of a base kernel of unit variance the variance is one on average over the cube, of which
    the share ``s`` is the slope's. Lengthscales are those of the base kernel.

    Example:
        >>> kernel = ScaleKernel(SlopeKernel(RBFKernel(ard_num_dims=12), slope=0.8))
        >>> covariance = kernel(torch.rand(10, 12, dtype=torch.float64))
    """

    def __init__(self, base_kernel: Kernel, slope: float) -> None:
        r"""Wrap a kernel.

        Args:
            base_kernel: The kernel ``k`` of unit variance over items in the unit cube.
            slope: The share ``s`` of the variance, above 0 and below 1.

        Raises:
            ComparisonDataError: If the share is out of range.
        """
        super().__init__(base_kernel)
        self.slope = checked_share("slope", slope)

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        """``... x n x m`` covariances of ``... x d`` items; ``... x n`` with ``diag``."""
        covariance = to_dense(self.base_kernel(x1, x2, diag=diag, **params))
        one, other = x1 - 0.5, x2 - 0.5
        products = (one * other).sum(-1) if diag else one @ other.mT
        return (1.0 - self.slope) * covariance + self.slope * 12.0 / x1.shape[-1] * products
