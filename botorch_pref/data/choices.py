r"""Choices of the best of several items as tensors, validated once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from botorch_pref.data.blocks import Block, BlockData, match_items
from botorch_pref.data.checks import (
    Check,
    as_indices,
    check_items,
    check_like,
    check_shape,
    finite,
    in_range,
    refuse,
)
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.likelihoods import BernoulliLikelihood, SoftmaxLikelihood


@dataclass(frozen=True, eq=False)
class Choices(BlockData):
    r"""Questions of ``k`` items each, and which of them was chosen.

    Questions of another size are other choices. The constructor broadcasts the batch shapes.

    Args:
        datapoints: A ``batch_shape x n x d``-dim tensor of items.
        items: A ``batch_shape x m x k``-dim tensor of an integer type: rows of ``datapoints``.
        favourite: A ``batch_shape x m``-dim tensor of an integer type: the positions, from 0, of
            the items that were chosen, among those of their questions.
        weight: A ``batch_shape x m``-dim tensor: how often a question was so answered; 1 by
            default. A row of weight 0 is padding.

    Raises:
        ComparisonDataError: If an argument has a wrong shape, type or device, an item is NaN or
            infinite, an index or a position out of range, or a weight negative. Names argument
            and row.

    Example:
        >>> X = torch.rand(5, 2, dtype=torch.float64)
        >>> data = Choices(X, torch.tensor([[0, 1, 2], [1, 3, 4]]), torch.tensor([2, 0]))
    """

    _dims: ClassVar = {"datapoints": 2, "items": 2, "favourite": 1, "weight": 1}
    datapoints: Tensor
    items: Tensor
    favourite: Tensor
    weight: Tensor | None = None

    def __post_init__(self) -> None:
        X = self.datapoints
        check_items("datapoints", X, "n", "d")
        items = as_indices("items", self.items, X, "m", "k")
        m, k = items.shape[-2:]
        if k < 2:
            raise ComparisonDataError(f"`items` must be of at least 2 items a question, not {k}.")
        favourite = as_indices("favourite", self.favourite, X, m)
        weight = X.new_ones(m) if self.weight is None else self.weight
        check_shape("weight", weight, m)
        check_like("weight", weight, X)
        refuse(
            finite("datapoints", X),
            in_range("items", items, X.shape[-2]),
            Check(
                "favourite",
                favourite,
                (favourite < 0) | (favourite >= k),
                f"the favourite is one of 0 to {k - 1}",
            ),
            Check("weight", weight, ~((weight >= 0) & weight.isfinite()), "not a weight"),
        )
        for name, value in (("items", items), ("favourite", favourite), ("weight", weight)):
            object.__setattr__(self, name, value)
        self._broadcast()

    @classmethod
    def from_items(cls, items: Tensor, favourite: Tensor) -> Choices:
        """Builds from items; equal ones become one datapoint, in order of appearance.

        Args:
            items: An ``m x k x d``-dim tensor of the items shown.
            favourite: As in the constructor.

        Raises:
            ComparisonDataError: As the constructor.
        """
        check_items("items", items, "m", "k", "d", batch=False)
        flat = items.flatten(end_dim=1)
        indices, new = match_items(flat[:0], flat)
        return cls(flat[new], indices.view(items.shape[:-1]), favourite)

    def block(self, likelihood: BernoulliLikelihood, first: int = 0) -> Block:
        """One observation a question, of the utilities of its items; see the base class."""
        assert self.weight is not None  # the constructor has set it
        design = tuple(map(tuple, torch.eye(self.items.shape[-1]).tolist()))
        favourite, softmax = self.favourite.to(self.weight), SoftmaxLikelihood(likelihood.scale)
        return Block(self.items + first, design, favourite, self.weight, softmax)
