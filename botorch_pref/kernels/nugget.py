r"""What is an item's own: the part of its utility that its neighbours do not share."""

from __future__ import annotations

from typing import Any

import torch
from gpytorch.constraints import Interval
from gpytorch.kernels import Kernel
from gpytorch.priors import NormalPrior
from linear_operator import to_dense
from scipy.special import logit
from torch import Tensor
from torch.nn import Parameter

from botorch_pref.kernels.items import Read, WrapperKernel, Write

# The logit of the nugget has a normal prior around that of this mode.
DEFAULT_NUGGET, NUGGET_WIDTH = 0.3, 1.0
_FEW = 8  # columns, of which the differences of all rows cost less than sorting them


class NuggetKernel(WrapperKernel):
    r"""``(1 - s) k(x, x') + s [x = x']`` with a nugget ``s`` between 0 and 1.

    The nugget of geostatistics: a share ``s`` of an item's variance is its own, and says nothing
    of other items, however near they are. The rows of a table differ in more than its columns
    tell. Items are the same where all their columns are equal. For a base kernel of unit variance
    the variance is one as well. Lengthscales are those of the base kernel.

    Example:
        >>> kernel = ScaleKernel(NuggetKernel(RBFKernel(ard_num_dims=3)))
        >>> covariance = kernel(torch.rand(10, 3, dtype=torch.float64))
    """

    def __init__(self, base_kernel: Kernel) -> None:
        r"""Wrap a kernel.

        Args:
            base_kernel: The kernel ``k`` of unit variance over items.
        """
        super().__init__(base_kernel)
        self.register_parameter("raw_nugget", Parameter(torch.zeros(*self.batch_shape, 1)))
        self.register_constraint("raw_nugget", Interval(0.0, 1.0))
        self.register_prior(
            "nugget_prior",
            NormalPrior(float(logit(DEFAULT_NUGGET)), NUGGET_WIDTH),
            Read("raw_nugget"),
            Write("raw_nugget"),
        )
        self.nugget = DEFAULT_NUGGET

    @property
    def nugget(self) -> Tensor:
        """The share ``s`` of an item's variance that is its own, ``... x 1``."""
        found: Tensor = self.raw_nugget_constraint.transform(self.raw_nugget)
        return found

    @nugget.setter
    def nugget(self, value: float | Tensor) -> None:
        like = self.raw_nugget
        value = torch.as_tensor(value, dtype=like.dtype, device=like.device).expand_as(like)
        self.initialize(raw_nugget=self.raw_nugget_constraint.inverse_transform(value))

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        """``... x n x m`` covariances of ``... x d`` items; ``... x n`` with ``diag``."""
        covariance = to_dense(self.base_kernel(x1, x2, diag=diag, **params))
        nugget = self.nugget.to(covariance)
        if diag:
            return (1.0 - nugget) * covariance + nugget * (x1 == x2).all(-1)
        nugget = nugget.unsqueeze(-1)
        return (1.0 - nugget) * covariance + nugget * same_rows(x1, x2)


class IndependentKernel(Kernel):
    r"""``[x = x']``: nothing is known of an item from others, as of players and of models.

    Items are the same where all their columns are equal, which may be one column of numbers.

    Example:
        >>> kernel = ScaleKernel(IndependentKernel())
        >>> covariance = kernel(torch.arange(5.0, dtype=torch.float64).unsqueeze(-1))
    """

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        """``... x n x m`` covariances of ``... x d`` items; ``... x n`` with ``diag``."""
        return ((x1 == x2).all(-1) if diag else same_rows(x1, x2)).to(x1)


def same_rows(x1: Tensor, x2: Tensor) -> Tensor:
    """Which of ``... x n x d`` and ``... x m x d`` rows are equal, ``... x n x m``."""
    x1, x2 = x1.detach(), x2.detach()
    if x1.shape[-1] <= _FEW:
        return torch.cdist(x1, x2, p=torch.inf) == 0.0
    # All differences would take most of the time of a question about a table of embeddings.
    left, right = x1.shape[:-1], x2.shape[:-1]
    both = torch.cat([x1.flatten(end_dim=-2), x2.flatten(end_dim=-2)])
    numbers = both.unique(dim=0, return_inverse=True)[1].split([left.numel(), right.numel()])
    return numbers[0].view(left).unsqueeze(-1) == numbers[1].view(right).unsqueeze(-2)
