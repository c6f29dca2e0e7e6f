r"""Choices of the best of several items as tensors, validated once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from botorch_pref.data.blocks import Block, BlockData
from botorch_pref.data.checks import Check, as_indices, check_items, finite, in_range, refuse
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.likelihoods import BernoulliLikelihood, LogitLikelihood, SoftmaxLikelihood


@dataclass(frozen=True, eq=False)
class Choices(BlockData):
    r"""Questions of ``k`` items each, and which of them was chosen.

    Questions of another size are other choices. The constructor broadcasts the batch shapes.

    Args:
        datapoints: A ``batch_shape x n x d``-dim tensor of items.
        items: A ``batch_shape x m x k``-dim tensor of an integer type: rows of ``datapoints``, in
            the order shown if annotators matter.
        favourite: A ``batch_shape x m``-dim tensor of an integer type: the positions, from 0, of
            the items that were chosen, among those of their questions.
        annotator: A ``batch_shape x m``-dim tensor of annotator numbers, if these are to be told
            apart; see :class:`~botorch_pref.models.AnnotatorEffects`.

    Raises:
        ComparisonDataError: If an argument has a wrong shape, type or device, an item is NaN or
            infinite, or an index or a position out of range. Names argument and row.

    Example:
        >>> X = torch.rand(5, 2, dtype=torch.float64)
        >>> data = Choices(X, torch.tensor([[0, 1, 2], [1, 3, 4]]), torch.tensor([2, 0]))
    """

    _dims: ClassVar = {"datapoints": 2, "items": 2, "favourite": 1, "annotator": 1}
    datapoints: Tensor
    items: Tensor
    favourite: Tensor
    annotator: Tensor | None = None

    def __post_init__(self) -> None:
        X = self.datapoints
        check_items("datapoints", X, "n", "d")
        items = as_indices("items", self.items, X, "m", "k")
        m, k = items.shape[-2:]
        if k < 2:
            raise ComparisonDataError(f"`items` must be of at least 2 items a question, not {k}.")
        favourite = as_indices("favourite", self.favourite, X, m)
        known = (favourite >= 0) & (favourite < k)
        refuse(
            finite("datapoints", X),
            in_range("items", items, X.shape[-2]),
            Check("favourite", favourite, ~known, f"the favourite is one of 0 to {k - 1}"),
        )
        vars(self).update(items=items, favourite=favourite, annotator=self._annotators(m))
        self._broadcast()

    @property
    def shown_first(self) -> Tensor:
        """The first items of the questions."""
        return self.items[..., 0]

    def blocks(self, likelihood: BernoulliLikelihood, learnt: Any = None) -> list[Block]:
        """One observation a question, of the utilities of its items; see the base class."""
        favourite = self.favourite.to(self.datapoints)
        return [chosen_block(self.items, favourite, likelihood.scale)]


def chosen_block(
    items: Tensor, chosen: Tensor, scale: float, sign: float = 1.0, weight: Tensor | None = None
) -> Block:
    """Choices of the best of ``... x m x k`` items, or for a negative sign of the worst.

    Of two they are duels, with one latent value.

    Args:
        items: Indices of items.
        chosen: ``... x m``-dim positions of those that were chosen, as floating point.
        scale: What utilities are multiplied by.
        sign: 1 or -1.
        weight: ``... x m``-dim weights; by default ones.
    """
    weight = torch.ones_like(chosen) if weight is None else weight
    if items.shape[-1] == 2:
        return Block(items, (sign, -sign), 1.0 - chosen, weight, LogitLikelihood(scale))
    design = tuple(map(tuple, (sign * torch.eye(items.shape[-1])).tolist()))
    return Block(items, design, chosen, weight, SoftmaxLikelihood(scale))
