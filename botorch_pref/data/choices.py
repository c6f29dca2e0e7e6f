r"""Choices of the best of several items as tensors, validated once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Size, Tensor

from botorch_pref.data.blocks import Block, match_items
from botorch_pref.data.checks import (
    Check,
    as_indices,
    check_items,
    check_like,
    check_shape,
    common_batch_shape,
    finite,
    in_range,
    refuse,
)
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.likelihoods import SoftmaxLikelihood


@dataclass(frozen=True, eq=False)
class Choices:
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
        batch = common_batch_shape(
            datapoints=X.shape[:-2],
            items=items.shape[:-2],
            favourite=favourite.shape[:-1],
            weight=weight.shape[:-1],
        )
        object.__setattr__(self, "datapoints", X.expand(*batch, *X.shape[-2:]))
        object.__setattr__(self, "items", items.expand(*batch, m, k))
        object.__setattr__(self, "favourite", favourite.expand(*batch, m))
        object.__setattr__(self, "weight", weight.expand(*batch, m))

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

    @property
    def batch_shape(self) -> Size:
        """The batch shape, which all fields share."""
        return self.datapoints.shape[:-2]

    def block(self, likelihood: SoftmaxLikelihood | None = None, first: int = 0) -> Block:
        """One observation a question, of ``k`` latent values: the utilities of its items.

        Args:
            likelihood: That of a choice; that of unit scale by default.
            first: The number of the first datapoint among the items of inference.
        """
        assert self.weight is not None  # the constructor has set it
        unit = torch.eye(self.items.shape[-1]).tolist()
        design = tuple(map(tuple, unit))
        favourite = self.favourite.to(self.weight)
        likelihood = likelihood or SoftmaxLikelihood()
        return Block(self.items + first, design, favourite, self.weight, likelihood)
