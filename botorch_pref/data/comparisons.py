r"""Answered duels as tensors: validated once, then appended to and merged.

An item is named by its row in ``datapoints``, never by its value: two rows of equal value
are two items. Values are compared only where a caller hands over items instead of indices
(:meth:`Comparisons.from_pairs`, :meth:`Comparisons.append`), and then exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from botorch_pref.data.blocks import DUEL, Block, BlockData, match_items, merge_rows
from botorch_pref.data.checks import (
    ITSELF,
    UNKNOWN_ANNOTATOR,
    Check,
    as_annotators,
    as_indices,
    check_device,
    check_items,
    check_like,
    check_shape,
    common_batch_shape,
    distinct,
    finite,
    in_range,
    refuse,
)
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.likelihoods import BernoulliLikelihood


@dataclass(frozen=True, eq=False)
class Comparisons(BlockData):
    r"""Duels with their answers, in the order in which they were shown.

    The constructor broadcasts the batch shapes and checks every row; objects grown from this
    one check only what is added. Gradients of items are kept throughout.

    Args:
        datapoints: A ``batch_shape x n x d``-dim tensor of items. ``n`` may be 0.
        pairs: A ``batch_shape x m x 2``-dim tensor of an integer type: rows of ``datapoints``.
        wins: A ``batch_shape x m``-dim tensor: wins of the first item, "no preference" being 0.5.
        count: A ``batch_shape x m``-dim tensor: how often the duel was answered. A row of
            count 0 is padding, the only kind that may name one item twice.
        annotator: A ``batch_shape x m``-dim tensor of annotator numbers, if these are to be told
            apart; see :class:`~botorch_pref.models.AnnotatorEffects`.

    Raises:
        ComparisonDataError: If a shape, type or device is wrong, an item NaN or infinite, an
            index out of range (as negative ones are), an item compared with itself, or wins and
            count are not those of any answers; names the argument and the row.

    Example:
        >>> X = torch.rand(3, 2, dtype=torch.float64)
        >>> data = Comparisons.from_comparisons(X, torch.tensor([[0, 1], [2, 1]]))
        >>> data = data.append_indices(torch.tensor([[0, 2]]), torch.tensor([0.5]))
    """

    _dims: ClassVar = {"datapoints": 2, "pairs": 2, "wins": 1, "count": 1, "annotator": 1}
    datapoints: Tensor
    pairs: Tensor
    wins: Tensor
    count: Tensor
    annotator: Tensor | None = None

    def __post_init__(self) -> None:
        X = self.datapoints
        check_items("datapoints", X, "n", "d")
        pairs = as_indices("pairs", self.pairs, X, "m", 2)
        m = pairs.shape[-2]
        for name in ("wins", "count"):
            check_shape(name, getattr(self, name), m)
            check_like(name, getattr(self, name), X)
        vars(self).update(pairs=pairs, annotator=self._annotators(m))
        self._broadcast()
        wins, count, itself = self.wins, self.count, distinct("pairs", self.pairs)
        whole = count.isfinite() & (count >= 0) & (count == count.round())
        halves = (wins >= 0) & (wins <= count) & (2 * wins == (2 * wins).round())
        refuse(
            finite("datapoints", X),
            in_range("pairs", self.pairs, self.num_items),
            itself._replace(bad=itself.bad & (count > 0)),
            Check("count", count, ~whole, "a count is a whole number, at least 0"),
            Check("wins", wins, ~halves, "wins are a multiple of 0.5 between 0 and `count`"),
        )

    @classmethod
    def unchecked(
        cls,
        datapoints: Tensor,
        pairs: Tensor,
        wins: Tensor,
        count: Tensor,
        annotator: Tensor | None = None,
    ) -> Comparisons:
        """Builds from fields of one batch shape known to be valid: no check, no warning."""
        new = object.__new__(cls)
        vars(new).update(zip(cls._dims, (datapoints, pairs, wins, count, annotator), strict=True))
        return new

    @classmethod
    def from_comparisons(cls, datapoints: Tensor, comparisons: Tensor) -> Comparisons:
        """Builds from BoTorch's form of the data.

        Args:
            datapoints: A ``batch_shape x n x d``-dim tensor of items.
            comparisons: A ``batch_shape x m x 2``-dim tensor of integers, ``[winner, loser]``.

        Raises:
            ComparisonDataError: As the constructor.
        """
        check_items("datapoints", datapoints, "n", "d")
        pairs = _winner_rows(datapoints=datapoints, comparisons=comparisons)
        count = datapoints.new_ones(pairs.shape[:-1])
        new = cls.unchecked(datapoints, pairs, count, count.clone())
        new._broadcast({"pairs": "comparisons"})
        return new

    @classmethod
    def from_arguments(
        cls, datapoints: Tensor | None, comparisons: Tensor | Comparisons | None
    ) -> Comparisons | None:
        """Those of a model's two arguments; ``None`` if both are.

        Items without comparisons are kept: they have the dimensions of an item.
        """
        if datapoints is None:
            if comparisons is not None:
                raise ComparisonDataError("`datapoints` is None while `comparisons` index them.")
            return None
        if comparisons is None:
            check_shape("datapoints", datapoints, "n", "d")
            rows = (*datapoints.shape[:-2], 0, 2)
            comparisons = torch.zeros(rows, dtype=torch.long, device=datapoints.device)
        if not isinstance(comparisons, Comparisons):
            return cls.from_comparisons(datapoints, comparisons)
        if comparisons.datapoints is not datapoints and not torch.equal(
            comparisons.datapoints, datapoints
        ):
            raise ComparisonDataError("`comparisons` are over other datapoints than `datapoints`.")
        return comparisons

    @classmethod
    def from_pairs(
        cls, pairs: Tensor, answers: Tensor, annotator: Tensor | None = None
    ) -> Comparisons:
        """Builds from items and answers (see :meth:`append`); equal items become one datapoint.

        Datapoints are numbered in order of appearance; gradients flow to the first appearance.

        Raises:
            ComparisonDataError: As :meth:`append`.
        """
        check_items("pairs", pairs, "m", 2, "d", batch=False)
        no_rows = pairs.new_empty(0)
        no_pairs = torch.empty(0, 2, dtype=torch.long, device=pairs.device)
        empty = cls.unchecked(pairs.new_empty(0, pairs.shape[-1]), no_pairs, no_rows, no_rows)
        return empty.append(pairs, answers, annotator)

    def append(
        self, pairs: Tensor, answers: Tensor, annotator: Tensor | None = None
    ) -> Comparisons:
        """Adds duels given by their items; an item equal to a stored one is that one.

        Args:
            pairs: An ``m' x 2 x d``-dim tensor of items. Equality is exact (and 0 is -0); of
                several equal datapoints the first is meant. New items are added in order.
            answers: An ``m'``-dim tensor: 1 if the first item wins, 0 if the second, 0.5 for
                "no preference".
            annotator: An ``m'``-dim tensor of annotator numbers, if these matter.

        Raises:
            ComparisonDataError: As the constructor, or if two items are equal in value, or an
                answer is another.
            UnsupportedError: If these data are batched.
        """
        if self.batch_shape:
            raise UnsupportedError("`append` needs unbatched data; see append_indices, append_new.")
        check_shape("pairs", pairs, "m", 2, self.datapoints.shape[-1], batch=False)
        check_like("pairs", pairs, self.datapoints)
        check_shape("answers", answers, len(pairs), batch=False)
        itself = (pairs[:, 0] == pairs[:, 1]).all(dim=-1)
        refuse(
            finite("pairs", pairs, item_dims=2),
            Check("pairs", pairs, itself, ITSELF),
            _check_answers(answers, self.datapoints, len(pairs)),
        )
        indices, new = match_items(self.datapoints, items := pairs.flatten(end_dim=1))
        return _extended(self, items[new], indices.reshape(-1, 2), answers, annotator)

    def append_indices(
        self, pairs: Tensor, answers: Tensor, annotator: Tensor | None = None
    ) -> Comparisons:
        """Adds duels between stored items; batch shapes are broadcast.

        Args:
            pairs: A ``batch_shape x m' x 2``-dim tensor of an integer type: ``datapoints`` rows.
            answers: A ``batch_shape x m'``-dim tensor, as in :meth:`append`.
            annotator: A ``batch_shape x m'``-dim tensor, as in :meth:`append`.

        Raises:
            ComparisonDataError: As the constructor, or if an answer is another.
        """
        X = self.datapoints
        pairs = as_indices("pairs", pairs, X, "m", 2)
        answered = _check_answers(answers, X, pairs.shape[-2])
        refuse(in_range("pairs", pairs, self.num_items), distinct("pairs", pairs), answered)
        return _extended(self, X[..., :0, :], pairs, answers, annotator)

    def append_new(self, X: Tensor, Y: Tensor) -> Comparisons:
        """Adds new items, whatever their values, and comparisons between these; differentiable.

        Args:
            X: A ``batch_shape x k x d``-dim tensor of items.
            Y: A ``batch_shape x m' x 2``-dim tensor of integers, ``[winner, loser]``
                rows that index ``X``. Batch shapes broadcast.

        Raises:
            ComparisonDataError: As the constructor.
        """
        stored = self.datapoints
        check_shape("X", X, "k", stored.shape[-1])
        check_like("X", X, stored)
        pairs = _winner_rows(X=X, Y=Y)
        pairs, wins = pairs + self.num_items, stored.new_ones(pairs.shape[:-1])
        return _extended(self, X, pairs, wins)

    def merged(self) -> Comparisons:
        """Sums repeated pairs, in either order, into one row each and drops padding.

        Rows are sorted by their indices, of which the lower is first. Those of different
        annotators stay apart, and where there are annotators, so do the two orders of a pair.
        Batched data, ragged if merged, are returned as they are.
        """
        if self.batch_shape:
            return self
        rows = merge_rows(self.num_items, self.pairs, self.wins, self.count, self.annotator)
        return self.unchecked(self.datapoints, *rows)

    @property
    def shown_first(self) -> Tensor:
        """The first items of the pairs."""
        return self.pairs[..., 0]

    def pooled(self) -> Comparisons:
        """The same without annotators."""
        return self.unchecked(self.datapoints, self.pairs, self.wins, self.count)

    def blocks(self, likelihood: BernoulliLikelihood, learnt: Any = None) -> list[Block]:
        """One observation a row, of the difference of its two items; see the base class."""
        answer = torch.where(self.count > 0, self.wins / self.count.clamp_min(1.0), 0.5)
        return [Block(self.pairs, DUEL, answer, self.count, likelihood)]

    @property
    def comparisons(self) -> Tensor:
        """The ``batch_shape x M x 2``-dim rows ``[winner, loser]``, one for each answer.

        Raises:
            UnsupportedError: If there are ties, or batch elements with unequal numbers of answers.
        """
        wins, count = self.wins, self.count
        if (wins != wins.round()).any():
            raise UnsupportedError("Answers of 0.5 (ties) have no winner, hence no `comparisons`.")
        times = torch.stack([wins, count - wins], dim=-1).long()
        total = times.sum(dim=(-2, -1)).flatten()
        if (total != total[:1]).any():
            raise UnsupportedError("Batch elements differ in their numbers of answers.")
        both = torch.stack([self.pairs, self.pairs.flip(-1)], dim=-2)
        rows = both.reshape(-1, 2).repeat_interleave(times.flatten(), dim=0)
        return rows.reshape(*self.batch_shape, rows.shape[0] // max(total.shape[0], 1), 2)

    @property
    def num_comparisons(self) -> int:
        """The number of answers; in a batch, that of the element with the most."""
        return int(self.count.sum(dim=-1).max()) if self.batch_shape.numel() else 0


def _winner_rows(**arguments: Tensor) -> Tensor:
    """Checks items and the ``[winner, loser]`` rows that index them, given in this order."""
    (name, items), (argument, rows) = arguments.items()
    pairs = as_indices(argument, rows, items, "m", 2)
    num_items = items.shape[-2]
    refuse(finite(name, items), in_range(argument, pairs, num_items), distinct(argument, pairs))
    return pairs


def _extended(
    data: Comparisons,
    items: Tensor,
    pairs: Tensor,
    answers: Tensor,
    annotator: Tensor | None = None,
) -> Comparisons:
    """Adds checked items (``... x k x d``) and checked rows of one answer each."""
    wins = answers.to(data.datapoints.dtype)
    if annotator is not None:
        annotator = as_annotators("annotator", annotator, data.datapoints, pairs.shape[-2])
        if data.annotator is None:
            unknown = torch.full_like(data.pairs[..., 0], UNKNOWN_ANNOTATOR)
            data = data.unchecked(data.datapoints, data.pairs, data.wins, data.count, unknown)
    elif data.annotator is not None:
        annotator = torch.full_like(pairs[..., 0], UNKNOWN_ANNOTATOR)
    added = data.unchecked(items, pairs, wins, torch.ones_like(wins), annotator)
    added._broadcast({"datapoints": "items", "wins": "answers"})
    batch = common_batch_shape(datapoints=data.batch_shape, answers=added.batch_shape)
    old, new = data.expand(batch)._tensors(), added.expand(batch)._tensors()
    return data.unchecked(
        **{name: torch.cat([old[name], new[name]], dim=-data._dims[name]) for name in old}
    )


def _check_answers(answers: Tensor, like: Tensor, num_rows: int) -> Check:
    """Checks shape and device now; the returned check is that each row is an answer."""
    check_shape("answers", answers, num_rows)
    check_device("answers", answers, like)
    bad = (answers != 0) & (answers != 0.5) & (answers != 1)
    reason = "an answer is 1 (the first wins), 0 (the second) or 0.5 (no preference)"
    return Check("answers", answers, bad, reason)
