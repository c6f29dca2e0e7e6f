r"""Answered duels as tensors: validated once, then appended to and merged.

An item is named by its row in ``datapoints``, never by its value: two rows of equal value
are two items. Values are compared only where a caller hands over items instead of indices
(:meth:`Comparisons.from_pairs`, :meth:`Comparisons.append`), and then exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from botorch_pref.data.blocks import (
    DUEL,
    Block,
    BlockLikelihood,
    match_items,
    merge_rows,
    winners_first,
)
from botorch_pref.data.checks import (
    UNKNOWN_ANNOTATOR,
    Check,
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
from botorch_pref.exceptions import UnsupportedError


@dataclass(frozen=True, eq=False)
class Comparisons:
    r"""Duels with their answers, in the order in which they were shown.

    The constructor broadcasts the batch shapes and checks every row; objects grown from this
    one check only what is added. Gradients of items are kept throughout.

    Args:
        datapoints: A ``batch_shape x n x d``-dim tensor of items. ``n`` may be 0.
        pairs: A ``batch_shape x m x 2``-dim tensor of an integer type: rows of ``datapoints``.
        wins: A ``batch_shape x m``-dim tensor: wins of the first item, "no preference" being 0.5.
        count: A ``batch_shape x m``-dim tensor: how often the duel was answered. A row of
            count 0 is padding, the only kind that may name one item twice.
        annotator: A ``batch_shape x m``-dim tensor of annotator numbers, if these matter.

    Raises:
        ComparisonDataError: If a shape, type or device is wrong, an item NaN or infinite, an
            index out of range (as negative ones are), an item compared with itself, or wins and
            count are not those of any answers; names the argument and the row.

    Example:
        >>> X = torch.rand(3, 2, dtype=torch.float64)
        >>> data = Comparisons.from_comparisons(X, torch.tensor([[0, 1], [2, 1]]))
        >>> data = data.append_indices(torch.tensor([[0, 2]]), torch.tensor([0.5]))
    """

    datapoints: Tensor
    pairs: Tensor
    wins: Tensor
    count: Tensor
    annotator: Tensor | None = None

    def __post_init__(self) -> None:
        given = (getattr(self, field.name) for field in fields(self))
        for field, value in zip(fields(self), _checked_fields(*given), strict=True):
            object.__setattr__(self, field.name, value)

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
        values = (datapoints, pairs, wins, count, annotator)
        for field, value in zip(fields(cls), values, strict=True):
            object.__setattr__(new, field.name, value)
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
        batch = common_batch_shape(datapoints=datapoints.shape[:-2], comparisons=pairs.shape[:-2])
        count = datapoints.new_ones(*batch, pairs.shape[-2])
        X, pairs = _expand(datapoints, batch, 2), _expand(pairs, batch, 2)
        return cls.unchecked(X, pairs, count, count.clone())

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
            raise UnsupportedError("`append` needs unbatched data; see append_indices, with_fresh.")
        _check_pairs(pairs, answers, self.datapoints)
        indices, fresh = match_items(self.datapoints, items := pairs.flatten(end_dim=1))
        return _extended(self, items[fresh], indices.reshape(-1, 2), answers, annotator)

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

    def append_fresh(self, items: Tensor, answers: Tensor) -> Comparisons:
        """Adds one duel of two new items, whatever their values; differentiable in these.

        Values and answers are trusted: this is the way of fantasies, and waits for no device.

        Args:
            items: A ``batch_shape x 2 x d``-dim tensor of the two items.
            answers: A ``batch_shape``-dim tensor, as in :meth:`append`; batch shapes broadcast.

        Raises:
            ComparisonDataError: If an argument has a wrong shape, type or device.
        """
        check_shape("items", items, 2, self.datapoints.shape[-1])
        check_like("items", items, self.datapoints)
        check_shape("answers", answers)
        check_device("answers", answers, self.datapoints)
        pair = torch.arange(self.num_items, self.num_items + 2, device=items.device)
        return _extended(self, items, pair.unsqueeze(0), answers.unsqueeze(-1))

    def with_fresh(self, X: Tensor, Y: Tensor) -> Comparisons:
        """Adds new items, whatever their values, and comparisons between these.

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

        Each row has the lower index first, and rows are sorted by their indices. Different
        annotators' rows stay apart. Batched data, ragged if merged, are returned as they are.
        """
        if self.batch_shape:
            return self
        rows = merge_rows(self.num_items, self.pairs, self.wins, self.count, self.annotator)
        return self.unchecked(self.datapoints, *rows)

    def block(self, likelihood: BlockLikelihood) -> Block:
        """One observation a row, of the difference of its two items."""
        answer = torch.where(self.count > 0, self.wins / self.count.clamp_min(1.0), 0.5)
        return Block(self.pairs, DUEL, answer, self.count, likelihood)

    @property
    def comparisons(self) -> Tensor:
        """The ``batch_shape x M x 2``-dim rows ``[winner, loser]``, one for each answer.

        Raises:
            UnsupportedError: If there are ties, or batch elements with unequal numbers of answers.
        """
        return winners_first(self.pairs, self.wins, self.count)

    @property
    def batch_shape(self) -> torch.Size:
        """The batch shape, which all fields share."""
        return self.datapoints.shape[:-2]

    @property
    def num_items(self) -> int:
        """The number ``n`` of datapoints."""
        return self.datapoints.shape[-2]

    @property
    def num_comparisons(self) -> int:
        """The number of answers; in a batch, that of the element with the most."""
        return int(self.count.sum(dim=-1).max()) if self.batch_shape.numel() else 0


def expanded(data: Comparisons, batch: torch.Size) -> Comparisons:
    """The same data in every element of a larger batch; copies nothing."""
    items, pairs = _expand(data.datapoints, batch, 2), _expand(data.pairs, batch, 2)
    who = None if data.annotator is None else _expand(data.annotator, batch, 1)
    wins, count = _expand(data.wins, batch, 1), _expand(data.count, batch, 1)
    return data.unchecked(items, pairs, wins, count, who)


def _expand(value: Tensor, batch: torch.Size, dims: int) -> Tensor:
    """Expands all but the last ``dims`` dimensions to ``batch``."""
    return value.expand(*batch, *value.shape[value.dim() - dims :])


def _joined(old: Tensor, new: Tensor, batch: torch.Size, dims: int) -> Tensor:
    return torch.cat([_expand(old, batch, dims), _expand(new, batch, dims)], dim=-dims)


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
    X, m = data.datapoints, pairs.shape[-2]
    wins = answers.to(X.dtype)
    shapes = {"datapoints": X.shape[:-2], "items": items.shape[:-2]}
    shapes |= {"pairs": pairs.shape[:-2], "answers": wins.shape[:-1]}
    if annotator is not None:
        annotator = _as_annotators(annotator, X, m)
        shapes["annotator"] = annotator.shape[:-1]
    batch = common_batch_shape(**shapes)
    who = None
    if annotator is not None or data.annotator is not None:
        unknown = data.pairs.new_full((1,), UNKNOWN_ANNOTATOR)
        old = unknown.expand(data.pairs.shape[-2]) if data.annotator is None else data.annotator
        new = unknown.expand(m) if annotator is None else annotator
        who = _joined(old, new, batch, 1)
    return data.unchecked(
        _joined(X, items, batch, 2),
        _joined(data.pairs, pairs, batch, 2),
        _joined(data.wins, wins, batch, 1),
        _joined(data.count, torch.ones_like(wins), batch, 1),
        who,
    )


def _check_answers(answers: Tensor, like: Tensor, num_rows: int) -> Check:
    """Checks shape and device now; the returned check is that each row is an answer."""
    check_shape("answers", answers, num_rows)
    check_device("answers", answers, like)
    bad = (answers != 0) & (answers != 0.5) & (answers != 1)
    reason = "an answer is 1 (the first wins), 0 (the second) or 0.5 (no preference)"
    return Check("answers", answers, bad, reason)


def _check_pairs(pairs: Tensor, answers: Tensor, like: Tensor) -> None:
    """Checks ``m x 2 x d``-dim pairs of items, and their ``m`` answers."""
    check_shape("pairs", pairs, "m", 2, like.shape[-1], batch=False)
    check_like("pairs", pairs, like)
    check_shape("answers", answers, pairs.shape[0], batch=False)
    itself = distinct("pairs", pairs.transpose(-1, -2))
    refuse(
        finite("pairs", pairs, item_dims=2),
        itself._replace(values=pairs, bad=itself.bad.all(dim=-1)),
        _check_answers(answers, like, pairs.shape[0]),
    )


def _as_annotators(annotator: Tensor, like: Tensor, num_rows: int) -> Tensor:
    """Casts annotator numbers of any integer type to long."""
    annotator = as_indices("annotator", annotator, like, num_rows)
    reason = f"an annotator is at least 0, or {UNKNOWN_ANNOTATOR} if unknown"
    refuse(Check("annotator", annotator, annotator < UNKNOWN_ANNOTATOR, reason))
    return annotator


def _checked_fields(
    datapoints: Tensor, pairs: Tensor, wins: Tensor, count: Tensor, annotator: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
    """Checks the fields of ``Comparisons`` and broadcasts their batch shapes."""
    check_items("datapoints", datapoints, "n", "d")
    n, d = datapoints.shape[-2:]
    pairs = as_indices("pairs", pairs, datapoints, "m", 2)
    m = pairs.shape[-2]
    for name, value in (("wins", wins), ("count", count)):
        check_shape(name, value, m)
        check_like(name, value, datapoints)
    shapes = {"datapoints": datapoints.shape[:-2], "pairs": pairs.shape[:-2]}
    shapes |= {"wins": wins.shape[:-1], "count": count.shape[:-1]}
    if annotator is not None:
        annotator = _as_annotators(annotator, datapoints, m)
        shapes["annotator"] = annotator.shape[:-1]
    batch = common_batch_shape(**shapes)
    datapoints, pairs = datapoints.expand(*batch, n, d), pairs.expand(*batch, m, 2)
    wins, count = wins.expand(*batch, m), count.expand(*batch, m)
    itself = distinct("pairs", pairs)
    whole = count.isfinite() & (count >= 0) & (count == count.round())
    halves = (wins >= 0) & (wins <= count) & (2 * wins == (2 * wins).round())
    refuse(
        finite("datapoints", datapoints),
        in_range("pairs", pairs, n),
        itself._replace(bad=itself.bad & (count > 0)),
        Check("count", count, ~whole, "a count is a whole number, at least 0"),
        Check("wins", wins, ~halves, "wins are a multiple of 0.5 between 0 and `count`"),
    )
    annotator = None if annotator is None else annotator.expand(*batch, m)
    return datapoints, pairs, wins, count, annotator
