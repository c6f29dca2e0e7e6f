r"""Rankings of several items as tensors, whole or in part, validated once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from botorch_pref.data.blocks import Block, BlockData
from botorch_pref.data.checks import (
    Check,
    as_indices,
    check_count,
    check_device,
    check_items,
    check_shape,
    finite,
    in_range,
    refuse,
)
from botorch_pref.data.choices import chosen_block
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.likelihoods import BernoulliLikelihood


@dataclass(frozen=True, eq=False)
class Rankings(BlockData):
    r"""Questions of ``k`` items each, ranked from the best to the worst, or at both ends alone.

    A ranking is a product of choices (Luce 1959, Plackett 1975): the best of all, the best of
    those left, and so on; then the worst of those left, and so on. ``num_best = 1`` and
    ``num_worst = 0`` are :class:`~botorch_pref.data.Choices`, 1 and 1 the best and the worst.

    Args:
        datapoints: A ``batch_shape x n x d``-dim tensor of items.
        items: A ``batch_shape x m x k``-dim tensor of an integer type: rows of ``datapoints``, the
            best first and the worst last; those between that were not ranked in any order.
        num_best: How many of the best were ranked; by default all.
        num_worst: How many of the worst were ranked, by choices of the worst.
        tied: A ``batch_shape x m x (k - 1)``-dim boolean tensor: whether an item is tied with the
            next one. All items that are tied are chosen from the same ones (Breslow 1974). Not
            with ``num_worst``.
        annotator: A ``batch_shape x m``-dim tensor of annotator numbers, if these are to be told
            apart; see :class:`~botorch_pref.models.AnnotatorEffects`.
        first: A ``batch_shape x m``-dim tensor of an integer type: the positions, from 0, in the
            rankings, of the items that were shown first, if annotators may prefer these.

    Raises:
        ComparisonDataError: If an argument has a wrong shape, type or device, an item is NaN or
            infinite, an index out of range or in a ranking twice, or more are ranked than there
            are. Names argument and row.

    Example:
        >>> X = torch.rand(5, 2, dtype=torch.float64)
        >>> data = Rankings(X, torch.tensor([[2, 0, 1], [4, 1, 3]]))
    """

    _dims: ClassVar = {"datapoints": 2, "items": 2, "tied": 2, "annotator": 1, "first": 1}
    datapoints: Tensor
    items: Tensor
    num_best: int | None = None
    num_worst: int = 0
    tied: Tensor | None = None
    annotator: Tensor | None = None
    first: Tensor | None = None

    def __post_init__(self) -> None:
        X = self.datapoints
        check_items("datapoints", X, "n", "d")
        items = as_indices("items", self.items, X, "m", "k")
        k, best = items.shape[-1], self.num_best
        if k < 2:
            raise ComparisonDataError(f"`items` must be of at least 2 items a question, not {k}.")
        worst = check_count("num_worst", self.num_worst, 0)
        best = k - worst if best is None else check_count("num_best", best, 0)
        if not 0 < best + worst <= k:
            raise ComparisonDataError(
                f"`num_best` and `num_worst` must rank 1 to {k} items, not {best} and {worst}."
            )
        if self.tied is not None:
            check_shape("tied", self.tied, items.shape[-2], k - 1)
            if self.tied.dtype != torch.bool or worst:
                raise ComparisonDataError("`tied` must be boolean, and `num_worst` 0 with it.")
            check_device("tied", self.tied, X)
            across = self.tied[..., best - 1 :].any(-1) & (best < k)
            refuse(Check("tied", self.tied, across, "only items that are ranked are tied"))
            if not bool(self.tied.any()):
                object.__setattr__(self, "tied", None)
        ordered = items.sort(dim=-1).values
        twice = (ordered[..., 1:] == ordered[..., :-1]).any(-1)
        refuse(
            finite("datapoints", X),
            in_range("items", items, X.shape[-2]),
            Check("items", items, twice, "a ranking has an item once"),
        )
        who = self._annotators(items.shape[-2])
        if self.first is not None:
            place = as_indices("first", self.first, X, items.shape[-2])
            known = (place >= 0) & (place < k)
            refuse(Check("first", place, ~known, f"a position is one of 0 to {k - 1}"))
            vars(self).update(first=place)
        vars(self).update(items=items, num_best=best, num_worst=worst, annotator=who)
        self._broadcast()

    @property
    def shown_first(self) -> Tensor | None:
        """The items that were shown first."""
        if self.first is None:
            return None
        return self.items.gather(-1, self.first.unsqueeze(-1)).squeeze(-1)

    def blocks(self, likelihood: BernoulliLikelihood, learnt: Any = None) -> list[Block]:
        """A block of choices for each place, of the utilities of the items that are left."""
        items, found = self.items, []
        k, best = items.shape[-1], self.num_best or 0
        place = self.datapoints.new_zeros(items.shape[:-1])
        start = place.long()  # of the items that are tied with the one at a place
        for i in range(best):
            if self.tied is not None and i:
                start = torch.where(self.tied[..., i - 1], start, i)
            for j in range(0 if self.tied is not None else i, min(i + 1, k - 1)):
                weight = (start == j).to(place) if self.tied is not None else None
                chosen = place + (i - j)
                found.append(chosen_block(items[..., j:], chosen, likelihood.scale, 1.0, weight))
        for i in range(k, max(k - self.num_worst, best + 1), -1):
            left = items[..., best:i]
            found.append(chosen_block(left, place + (i - best - 1), likelihood.scale, -1.0))
        return found
