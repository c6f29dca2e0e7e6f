r"""A prior mean that is the highest in the middle of a box."""

from __future__ import annotations

from gpytorch.means import Mean
from torch import Size, Tensor


class MiddleMean(Mean):
    r"""``-a / sqrt(d) sum_i (2 x_i - 1)^2`` on the unit cube.

    It says that the best item is seldom at the border of a box. From the middle to a corner it
    falls by ``a sqrt(d)``; its standard deviation over the cube is ``0.3 a`` for any ``d``. For
    categories, encoded as one of several columns, it is the same for all.

    Args:
        dim: The number ``d`` of columns; what is behind them is ignored.
        fall: ``a``, in units of the utility.
    """

    batch_shape = Size()

    def __init__(self, dim: int, fall: float) -> None:
        super().__init__()
        self.dim, self.fall = dim, fall

    def forward(self, x: Tensor) -> Tensor:
        """``... x n``-dim means of ``... x n x d``-dim items."""
        away = (2.0 * x[..., : self.dim] - 1.0).square().sum(-1)
        return -self.fall / self.dim**0.5 * away
