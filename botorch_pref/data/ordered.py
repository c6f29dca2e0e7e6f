r"""Ordered answers: grades of a preference, ties among them, and ratings of one item."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from botorch_pref.data.blocks import DUEL, ITEM, Block, BlockData
from botorch_pref.data.checks import (
    Check,
    as_indices,
    check_count,
    check_items,
    distinct,
    finite,
    in_range,
    refuse,
)
from botorch_pref.data.comparisons import Comparisons
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.likelihoods import BernoulliLikelihood, IntervalLikelihood


@dataclass(frozen=True, eq=False)
class Grades(BlockData):
    r"""Pairs of items, and by how much the first is the better one.

    With ``h`` the difference of utilities, grade ``g`` is given where ``h`` and the noise of the
    link add up to a value between the ``g``-th bound and the next (McCullagh 1980). The bounds are
    learnt, and symmetric: what is "much better" one way is "much worse" the other way.

    Args:
        datapoints: A ``batch_shape x n x d``-dim tensor of items.
        pairs: A ``batch_shape x m x 2``-dim tensor of an integer type: rows of ``datapoints``, in
            the order shown if annotators matter.
        grade: A ``batch_shape x m``-dim tensor of an integer type, from 0, the second item is
            better by most, to ``num_grades - 1``, the first is.
        num_grades: The number of grades, at least 2: two are a duel, three a duel with ties.
        annotator: A ``batch_shape x m``-dim tensor of annotator numbers, if these are to be told
            apart; see :class:`~botorch_pref.models.AnnotatorEffects`.

    Raises:
        ComparisonDataError: If an argument has a wrong shape, type or device, an item is NaN or
            infinite or compared with itself, or an index or a grade out of range. Names argument
            and row.

    Example:
        >>> X = torch.rand(3, 2, dtype=torch.float64)
        >>> data = Grades(X, torch.tensor([[0, 1], [1, 2]]), torch.tensor([4, 2]), num_grades=5)
    """

    _dims: ClassVar = {"datapoints": 2, "pairs": 2, "grade": 1, "annotator": 1}
    datapoints: Tensor
    pairs: Tensor
    grade: Tensor
    num_grades: int
    annotator: Tensor | None = None

    def __post_init__(self) -> None:
        X = self.datapoints
        check_items("datapoints", X, "n", "d")
        check_count("num_grades", self.num_grades, 2)
        pairs = as_indices("pairs", self.pairs, X, "m", 2)
        grade = as_indices("grade", self.grade, X, pairs.shape[-2])
        refuse(
            finite("datapoints", X),
            in_range("pairs", pairs, X.shape[-2]),
            distinct("pairs", pairs),
            _check_grade("grade", grade, self.num_grades),
        )
        who = self._annotators(pairs.shape[-2])
        vars(self).update(pairs=pairs, grade=grade, annotator=who)
        self._broadcast()

    @classmethod
    def of_ties(cls, data: Comparisons) -> Grades:
        r"""Duels with ties as three grades, so that the width of indifference is learnt.

        With the logit this is the model of Rao and Kupper (1967). It is for all links what it is
        for grades, and unlike Davidson's does not make a tie more likely where two items are good.

        Args:
            data: Answered duels, of annotators if they have any; a tie counts half a win there.

        Raises:
            UnsupportedError: If rows have more than one answer each, or different numbers of them.
        """
        if bool((data.count != 1).any()):
            raise UnsupportedError("Only rows of one answer each tell which of them were ties.")
        grade = (2.0 * data.wins).long()
        return cls(data.datapoints, data.pairs, grade, 3, data.annotator)

    @property
    def shown_first(self) -> Tensor:
        """The first items of the pairs."""
        return self.pairs[..., 0]

    def blocks(self, likelihood: BernoulliLikelihood, learnt: Any = None) -> list[Block]:
        """One observation a row, of the difference of its two items; see the base class."""
        return [_block(self.pairs, DUEL, learnt.likelihood(likelihood, self.grade))]


@dataclass(frozen=True, eq=False)
class Ratings(BlockData):
    r"""Items that were rated one by one, on an ordered scale.

    Rating ``g`` is given where the utility and the noise of the link add up to a value between the
    ``g``-th bound and the next. The bounds are learnt, for each annotator if there are annotators.

    Args:
        datapoints: A ``batch_shape x n x d``-dim tensor of items.
        items: A ``batch_shape x m``-dim tensor of an integer type: rows of ``datapoints``.
        rating: A ``batch_shape x m``-dim tensor of an integer type, from 0, the worst.
        num_grades: The number of ratings that there are, at least 2.
        annotator: A ``batch_shape x m``-dim tensor of annotator numbers, if these are to be told
            apart; see :class:`~botorch_pref.models.AnnotatorEffects`.

    Raises:
        ComparisonDataError: If an argument has a wrong shape, type or device, an item is NaN or
            infinite, or an index or a rating out of range. Names argument and row.

    Example:
        >>> X = torch.rand(3, 2, dtype=torch.float64)
        >>> data = Ratings(X, torch.tensor([0, 1, 1]), torch.tensor([4, 2, 3]), num_grades=5)
    """

    _dims: ClassVar = {"datapoints": 2, "items": 1, "rating": 1, "annotator": 1}
    datapoints: Tensor
    items: Tensor
    rating: Tensor
    num_grades: int
    annotator: Tensor | None = None

    def __post_init__(self) -> None:
        X = self.datapoints
        check_items("datapoints", X, "n", "d")
        check_count("num_grades", self.num_grades, 2)
        items = as_indices("items", self.items, X, "m")
        rating = as_indices("rating", self.rating, X, items.shape[-1])
        refuse(
            finite("datapoints", X),
            in_range("items", items.unsqueeze(-1), X.shape[-2]),
            _check_grade("rating", rating, self.num_grades),
        )
        who = self._annotators(items.shape[-1])
        vars(self).update(items=items, rating=rating, annotator=who)
        self._broadcast()

    def blocks(self, likelihood: BernoulliLikelihood, learnt: Any = None) -> list[Block]:
        """One observation a row, of the utility of its item; see the base class."""
        between = learnt.likelihood(likelihood, self.rating, self.annotator)
        return [_block(self.items.unsqueeze(-1), ITEM, between)]


def _block(items: Tensor, design: tuple[float, ...], likelihood: IntervalLikelihood) -> Block:
    one = torch.ones_like(likelihood.lower).detach().expand(items.shape[:-1])
    return Block(items, design, one, one, likelihood)


def _check_grade(argument: str, value: Tensor, number: int) -> Check:
    bad = (value < 0) | (value >= number)
    return Check(argument, value, bad, f"it is one of 0 to {number - 1}")
