r"""A utility, and the views of it that those have who answer."""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from botorch.models.transforms.input import InputTransform
from botorch.utils.constraints import LogTransformedInterval
from gpytorch.kernels import Kernel
from gpytorch.priors import LogNormalPrior
from linear_operator import to_dense
from torch import Tensor
from torch.nn import Parameter
from torch.nn.functional import pad

from botorch_pref.data.checks import check_count, checked_nonnegative, checked_positive
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.kernels.items import Read, WrapperKernel, Write

DEFAULT_BIAS = 0.01
_PRIOR_DEVIATION = 1.0
_LEAST, _MOST = 1e-6, 1e2
_MOST_JUDGES = 100_000

# The last column of an item: whether its utility counts, or what the first judge sees.
UTILITY, COMPARED = 0.0, 1.0


class ComparisonBiasKernel(WrapperKernel):
    r"""``k((x, z), (x', z')) = k(x, x') (1 + b_z [z = z'])``, with ``b_0 = 0``.

    The covariance of ``f + delta_z`` with a utility ``f ~ GP(0, k)`` and independent biases
    ``delta_z ~ GP(0, b_z k)``. The last column ``z`` marks whose view of an item is meant: 0 is the
    utility, which is maximised, and measured where values are; 1 to ``A`` are those of judges, or
    of people, who decide duels by ``f + delta_z``. So a :class:`~botorch_pref.models.PreferenceGP`
    learns from duels that are misspecified as in Xu et al. (2020): the utility stays uncertain for
    any number of duels of one judge, and what several people share is told from what is their own.
    A factor of ``f`` in their views is the link's scale. This is an intrinsic coregionalization
    model with ``B = 1 1^T + diag(0, b_1, ..., b_A)``; of one judge, the autoregressive model of
    Kennedy and O'Hagan (2000) with the cheap view as the one that is off.

    Example:
        >>> kernel = ComparisonBiasKernel(ScaleKernel(RBFKernel(ard_num_dims=3)))
        >>> covariance = kernel(torch.rand(10, 4, dtype=torch.float64).round())
    """

    def __init__(
        self,
        base_kernel: Kernel,
        *,
        bias: float | None = None,
        number: int = 1,
        mode: float = DEFAULT_BIAS,
    ) -> None:
        r"""Wrap a kernel of the utility.

        Args:
            base_kernel: The kernel ``k`` over the ``d`` columns of items.
            bias: ``b`` of all judges to fix it, at least 0; by default each one's is learnt.
            number: The number ``A`` of judges.
            mode: That of the log-normal prior of what is learnt; 0.01 is a bias of a tenth of the
                utility's standard deviation.

        Raises:
            ComparisonDataError: If a number is out of range; names it.
        """
        super().__init__(base_kernel)
        self.number = check_count("number", number, 1, _MOST_JUDGES)
        self.fixed_bias = None if bias is None else checked_nonnegative("bias", bias)
        if self.fixed_bias is not None:
            fixed = torch.full((number,), self.fixed_bias, dtype=torch.double)
            self.register_buffer("_fixed", fixed, persistent=False)
            return
        if not _LEAST < checked_positive("mode", mode) < _MOST:
            raise ComparisonDataError(f"`mode` must be above {_LEAST} and below {_MOST}: {mode!r}.")
        self.register_parameter("raw_bias", Parameter(torch.zeros(*self.batch_shape, number)))
        self.register_prior(
            "bias_prior",
            LogNormalPrior(math.log(mode) + _PRIOR_DEVIATION**2, _PRIOR_DEVIATION),
            Read("bias"),
            Write("bias"),
        )
        constraint = LogTransformedInterval(_LEAST, _MOST, initial_value=mode)
        self.register_constraint("raw_bias", constraint)
        self.bias = mode

    @property
    def bias(self) -> Tensor:
        """Variances ``b`` of biases relative to the utility's, ``... x A``."""
        if self.fixed_bias is not None:
            return cast(Tensor, self._fixed)
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
        first, second = (x[..., -1].detach().round().long() for x in (x1, x2))
        own = pad(self.bias.to(covariance), (1, 0))
        shape = torch.broadcast_shapes(own.shape[:-1], first.shape[:-1])
        own = own.expand(*shape, -1).gather(-1, first.expand(*shape, -1))
        if diag:
            return covariance * (1.0 + own * (first == second))
        same = first.unsqueeze(-1) == second.unsqueeze(-2)
        return covariance * (1.0 + own.unsqueeze(-1) * same)


class SeenBy(InputTransform):
    r"""Adds the column of whose view is meant to items that have none.

    Args:
        inner: The transform of the items with that column.
        dim: The number of columns of an item without it.
        view: Whose view is meant; 0 is the utility.
    """

    completes = True  # items of a model may have a column more than those it is asked about
    transform_on_train = transform_on_eval = transform_on_fantasize = True
    is_one_to_many = False

    def __init__(self, inner: InputTransform, dim: int, view: int = 0) -> None:
        super().__init__()
        self.inner, self.dim = inner, dim
        self.register_buffer("view", torch.tensor(float(view)))

    def transform(self, X: Tensor) -> Tensor:
        """``... x (d + 1)`` columns as a kernel sees them, of ``... x d`` or ``... x (d + 1)``."""
        if X.shape[-1] not in (self.dim, self.dim + 1):
            raise ComparisonDataError(
                f"`X` has {X.shape[-1]} columns, not {self.dim}, or one more for the view."
            )
        return self.inner(
            marked(X, float(cast(Tensor, self.view))) if X.shape[-1] == self.dim else X
        )


def marked(items: Tensor, marker: float) -> Tensor:
    """``... x d``-dim items with a column that says how they are seen."""
    return torch.cat([items, torch.full_like(items[..., :1], marker)], dim=-1)


def as_utility(items: Tensor) -> Tensor:
    """``... x (d + 1)``-dim items as their utility counts."""
    return marked(items[..., :-1], UTILITY)
