r"""Answered duels as tensors: validated once, then appended to and merged.

An item is named by its row in ``datapoints``, never by its value: two rows of equal value
are two items. Values are compared only where a caller hands over items instead of indices
(:meth:`Comparisons.from_pairs`, :meth:`Comparisons.append`), and then exactly.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Final, NamedTuple

import torch
from botorch.exceptions.warnings import InputDataWarning
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError, UnsupportedError

__all__ = ["UNKNOWN_ANNOTATOR", "Comparisons"]

UNKNOWN_ANNOTATOR: Final = -1
"""The annotator of a row added without one to data that have annotators."""


class _Check(NamedTuple):
    """Rows to refuse: ``bad`` is ``... x m``, ``values`` is ``... x m x ...``."""

    argument: str
    values: Tensor
    bad: Tensor
    reason: str


def _refuse(*checks: _Check) -> None:
    """Raises for the first bad row of the first failing check; one transfer if none is."""
    if not torch.stack([check.bad.any() for check in checks]).any():
        return
    for argument, values, bad, reason in checks:
        for where in bad.nonzero()[:1].tolist():
            *batch, row = where
            place = f"batch {tuple(batch)} row {row}" if batch else f"row {row}"
            shown = str(values[tuple(where)].tolist())
            shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
            raise ComparisonDataError(f"`{argument}` {place} is {shown}: {reason}.")


def _check_shape(argument: str, value: Tensor, *sizes: int | str, batch: bool = True) -> None:
    """Checks the trailing dimensions, of which those given by a letter may have any size."""
    if not isinstance(value, Tensor):
        raise ComparisonDataError(f"`{argument}` must be a tensor, not {type(value).__name__}.")
    depth = len(sizes)
    fits = value.dim() >= depth if batch else value.dim() == depth
    have = value.shape[value.dim() - depth :] if fits else ()
    if not fits or any(isinstance(w, int) and w != h for w, h in zip(sizes, have)):
        wanted = " x ".join([*(["..."] if batch else []), *map(str, sizes)])
        raise ComparisonDataError(
            f"`{argument}` must have shape {wanted}, but has shape {tuple(value.shape)}."
        )


def _check_device(argument: str, value: Tensor, like: Tensor) -> None:
    if value.device != like.device:
        raise ComparisonDataError(
            f"`{argument}` is on {value.device}, but the datapoints are on {like.device}."
        )


def _check_like(argument: str, value: Tensor, like: Tensor) -> None:
    if value.dtype != like.dtype:
        raise ComparisonDataError(
            f"`{argument}` is of type {value.dtype}, but the datapoints are {like.dtype}."
        )
    _check_device(argument, value, like)


def _check_items(argument: str, value: Tensor, *sizes: int | str, batch: bool = True) -> None:
    """Checks items handed over by a caller; the only place that warns of single precision."""
    _check_shape(argument, value, *sizes, batch=batch)
    if value.shape[-1] == 0:
        raise ComparisonDataError(f"`{argument}` has items without dimensions (d = 0).")
    if value.dtype not in (torch.float32, torch.float64):
        raise ComparisonDataError(
            f"`{argument}` must be floating point (torch.float64), but is {value.dtype}."
        )
    if value.dtype == torch.float32:
        warnings.warn(
            f"`{argument}` is of type {value.dtype}. It is strongly recommended to use double "
            "precision in BoTorch, as this improves both precision and stability and can help "
            "avoid numerical errors.",
            InputDataWarning,
            stacklevel=4,
        )


def _as_indices(argument: str, value: Tensor, like: Tensor, *sizes: int | str) -> Tensor:
    """Casts indices of any integer type to long; floats and booleans are refused."""
    _check_shape(argument, value, *sizes)
    if value.is_floating_point() or value.is_complex() or value.dtype == torch.bool:
        raise ComparisonDataError(f"`{argument}` must be of an integer type, but is {value.dtype}.")
    _check_device(argument, value, like)
    return value.long()


def _batch_shape(**shapes: torch.Size) -> torch.Size:
    try:
        return torch.Size(torch.broadcast_shapes(*shapes.values()))
    except RuntimeError as error:
        found = ", ".join(f"`{argument}` {tuple(shape)}" for argument, shape in shapes.items())
        raise ComparisonDataError(f"The batch shapes do not broadcast: {found}.") from error


def _finite(argument: str, items: Tensor, item_dims: int = 1) -> _Check:
    bad = ~items.isfinite().flatten(start_dim=-item_dims).all(dim=-1)
    return _Check(argument, items, bad, "NaN or infinite")


def _in_range(argument: str, pairs: Tensor, num_items: int) -> _Check:
    bad = ((pairs < 0) | (pairs >= num_items)).any(dim=-1)
    return _Check(argument, pairs, bad, f"an index is out of range for {num_items} items")


def _distinct(argument: str, pairs: Tensor) -> _Check:
    bad = pairs[..., 0] == pairs[..., 1]
    return _Check(argument, pairs, bad, "an item cannot be compared with itself")


def _answered(answers: Tensor, like: Tensor, num_rows: int) -> _Check:
    _check_shape("answers", answers, num_rows)
    _check_device("answers", answers, like)
    known = (answers == 0) | (answers == 0.5) | (answers == 1)
    reason = "an answer is 1 (the first wins), 0 (the second) or 0.5 (no preference)"
    return _Check("answers", answers, ~known, reason)


def _known(annotator: Tensor) -> _Check:
    reason = f"an annotator is at least 0, or {UNKNOWN_ANNOTATOR} if unknown"
    return _Check("annotator", annotator, annotator < UNKNOWN_ANNOTATOR, reason)


def _first_of_group(group: Tensor, num_groups: int) -> Tensor:
    """The lowest position in ``group`` (``N`` group numbers) of each of the groups."""
    position = torch.arange(group.shape[0], device=group.device)
    first = position.new_full((num_groups,), group.shape[0])
    return first.scatter_reduce(0, group, position, "amin")


def _match(stored: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
    """Finds ``k x d`` items among ``n x d`` stored ones by exact value, in ``O((n + k) log)``.

    Returns:
        The ``k`` indices, those of new values counted on from ``n`` in order of appearance,
        and a ``k``-dim boolean mask of each new value's first appearance.
    """
    n = stored.shape[0]
    # Adding zero turns -0.0, whose bits differ, into 0.0.
    values = torch.cat([stored, items]).detach() + 0.0
    distinct, group = torch.unique(values, dim=0, return_inverse=True)
    first = _first_of_group(group, distinct.shape[0])[group[n:]]
    fresh = first == torch.arange(n, values.shape[0], device=values.device)
    number = n - 1 + fresh.cumsum(dim=0)
    return torch.where(first < n, first, number[(first - n).clamp_min(0)]), fresh


def _expand(value: Tensor, batch: torch.Size, dims: int) -> Tensor:
    """Expands all but the last ``dims`` dimensions to ``batch``."""
    return value.expand(*batch, *value.shape[value.dim() - dims :])


def _joined(old: Tensor, new: Tensor, batch: torch.Size, dims: int) -> Tensor:
    return torch.cat([_expand(old, batch, dims), _expand(new, batch, dims)], dim=-dims)


@dataclass(frozen=True, eq=False)
class Comparisons:
    r"""Duels with their answers, in the order in which they were shown.

    The constructor broadcasts the batch shapes and checks every row; objects grown from this
    one check only what is added. Nothing is copied, and the gradient of ``datapoints`` is kept.

    Args:
        datapoints: A ``batch_shape x n x d``-dim tensor of items. May be empty.
        pairs: A ``batch_shape x m x 2``-dim long tensor of two rows of ``datapoints`` each.
        wins: A ``batch_shape x m``-dim tensor: how often the first item won, "no preference"
            counting one half.
        count: A ``batch_shape x m``-dim tensor: how often the duel was answered. A row of
            count 0 is padding, the only kind that may name one item twice.
        annotator: A ``batch_shape x m``-dim long tensor of annotator numbers, if these matter.

    Raises:
        ComparisonDataError: If an argument has a wrong shape, type or device, or a row with
            NaN or infinite items, an index out of range (negative ones are), an item compared
            with itself, or wins and count that no answers add up to. Names argument and row.

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
        X = self.datapoints
        _check_items("datapoints", X, "n", "d")
        m = (pairs := _as_indices("pairs", self.pairs, X, "m", 2)).shape[-2]
        rows = {"wins": self.wins, "count": self.count}
        for name, value in rows.items():
            _check_shape(name, value, m)
            _check_like(name, value, X)
        if self.annotator is not None:
            rows["annotator"] = _as_indices("annotator", self.annotator, X, m)
        shapes = {"datapoints": X.shape[:-2], "pairs": pairs.shape[:-2]}
        batch = _batch_shape(**shapes, **{name: value.shape[:-1] for name, value in rows.items()})
        rows = {name: value.expand(*batch, m) for name, value in rows.items()}
        X, pairs = X.expand(*batch, *X.shape[-2:]), pairs.expand(*batch, m, 2)
        wins, count, same = rows["wins"], rows["count"], _distinct("pairs", pairs)
        whole = (count >= 0) & count.isfinite() & (count == count.round())
        halves = (wins >= 0) & (wins <= count) & (2 * wins == (2 * wins).round())
        _refuse(
            _finite("datapoints", X),
            _in_range("pairs", pairs, X.shape[-2]),
            same._replace(bad=same.bad & (count > 0)),
            _Check("count", count, ~whole, "a count is a whole number, at least 0"),
            _Check("wins", wins, ~halves, "wins are a multiple of 0.5 between 0 and `count`"),
            *([_known(rows["annotator"])] if "annotator" in rows else []),
        )
        for name, value in {"datapoints": X, "pairs": pairs, **rows}.items():
            object.__setattr__(self, name, value)

    @classmethod
    def unchecked(
        cls,
        datapoints: Tensor,
        pairs: Tensor,
        wins: Tensor,
        count: Tensor,
        annotator: Tensor | None = None,
    ) -> Comparisons:
        """Builds from fields of equal batch shape known to be valid, as after a move.

        Args: as of the class. No check, no warning, no transfer from the device.
        """
        new = object.__new__(cls)
        for name, value in zip(cls.__dataclass_fields__, (datapoints, pairs, wins, count, annotator)):
            object.__setattr__(new, name, value)
        return new

    @classmethod
    def from_comparisons(cls, datapoints: Tensor, comparisons: Tensor) -> Comparisons:
        """Builds from BoTorch's form of the data.

        Args:
            datapoints: A ``batch_shape x n x d``-dim tensor of items.
            comparisons: A ``batch_shape x m x 2``-dim tensor of an integer type; each row is
                ``[winner, loser]``, two rows of ``datapoints``.

        Raises:
            ComparisonDataError: As the constructor.
        """
        _check_items("datapoints", datapoints, "n", "d")
        pairs = _as_indices("comparisons", comparisons, datapoints, "m", 2)
        _refuse(
            _finite("datapoints", datapoints),
            _in_range("comparisons", pairs, datapoints.shape[-2]),
            _distinct("comparisons", pairs),
        )
        batch = _batch_shape(datapoints=datapoints.shape[:-2], comparisons=pairs.shape[:-2])
        count = datapoints.new_ones(*batch, pairs.shape[-2])
        return cls.unchecked(_expand(datapoints, batch, 2), _expand(pairs, batch, 2), count, count)

    @classmethod
    def from_pairs(
        cls, pairs: Tensor, answers: Tensor, annotator: Tensor | None = None
    ) -> Comparisons:
        """Builds from items and answers; exactly equal items become one datapoint.

        Args: as of :meth:`append`. Datapoints are numbered in order of appearance, and
            gradients flow to the first appearance of each.

        Raises:
            ComparisonDataError: As :meth:`append`.
        """
        _check_items("pairs", pairs, "m", 2, "d", batch=False)
        none, no_pairs = pairs.new_empty(0), torch.empty(0, 2, dtype=torch.long, device=pairs.device)
        empty = cls.unchecked(pairs.new_empty(0, pairs.shape[-1]), no_pairs, none, none)
        return empty.append(pairs, answers, annotator)

    def append(
        self, pairs: Tensor, answers: Tensor, annotator: Tensor | None = None
    ) -> Comparisons:
        """Adds duels given by their items; an item equal to a stored one is that one.

        Args:
            pairs: An ``m' x 2 x d``-dim tensor of items. Equality is exact (and 0 is -0); of
                several equal datapoints the first is meant; others are added as they appear.
            answers: An ``m'``-dim tensor: 1 if the first item wins, 0 if the second, 0.5 for
                "no preference".
            annotator: An ``m'``-dim long tensor of annotator numbers, if these matter.

        Raises:
            ComparisonDataError: If an argument has a wrong shape, type or device, or a row with
                NaN or infinite items, two equal items, or another answer.
            UnsupportedError: If these data are batched.
        """
        if self.batch_shape:
            raise UnsupportedError(
                "Items are matched with stored ones in unbatched data only; batched data take "
                "append_indices, append_fresh or with_fresh."
            )
        X = self.datapoints
        _check_shape("pairs", pairs, "m", 2, X.shape[-1], batch=False)
        _check_like("pairs", pairs, X)
        _check_shape("answers", answers, pairs.shape[0], batch=False)
        same = (pairs[:, 0] == pairs[:, 1]).all(dim=-1)
        _refuse(
            _finite("pairs", pairs, item_dims=2),
            _Check("pairs", pairs, same, "an item cannot be compared with itself"),
            _answered(answers, X, pairs.shape[0]),
        )
        items = pairs.flatten(end_dim=1)
        indices, fresh = _match(X, items)
        return self._extended(items[fresh], indices.unflatten(0, (-1, 2)), answers, annotator)

    def append_indices(
        self, pairs: Tensor, answers: Tensor, annotator: Tensor | None = None
    ) -> Comparisons:
        """Adds duels between stored items.

        Args:
            pairs: A ``batch_shape x m' x 2``-dim tensor of an integer type: rows of
                ``datapoints``, the one shown first first.
            answers: A ``batch_shape x m'``-dim tensor, as in :meth:`append`.
            annotator: A ``batch_shape x m'``-dim long tensor, as in :meth:`append`.

        Raises:
            ComparisonDataError: If an argument has a wrong shape, type or device, or a row with
                an index out of range, one index twice, or another answer.
        """
        X = self.datapoints
        pairs = _as_indices("pairs", pairs, X, "m", 2)
        _refuse(
            _in_range("pairs", pairs, self.num_items),
            _distinct("pairs", pairs),
            _answered(answers, X, pairs.shape[-2]),
        )
        return self._extended(X[..., :0, :], pairs, answers, annotator)

    def append_fresh(self, items: Tensor, answers: Tensor) -> Comparisons:
        """Adds one duel of two new items, whatever their values; differentiable in these.

        Values and answers are trusted: this is the way of fantasies, and waits for no device.

        Args:
            items: A ``batch_shape' x 2 x d``-dim tensor of the two items.
            answers: A ``batch_shape'``-dim tensor, as in :meth:`append`. All batch shapes are
                broadcast.

        Raises:
            ComparisonDataError: If an argument has a wrong shape, type or device.
        """
        _check_shape("items", items, 2, self.datapoints.shape[-1])
        _check_like("items", items, self.datapoints)
        _check_shape("answers", answers)
        _check_device("answers", answers, self.datapoints)
        pair = torch.arange(self.num_items, self.num_items + 2, device=items.device)
        return self._extended(items, pair.unsqueeze(0), answers.unsqueeze(-1))

    def with_fresh(self, datapoints_new: Tensor, comparisons_new: Tensor) -> Comparisons:
        """Adds new items, whatever their values, and comparisons between these.

        Args:
            datapoints_new: A ``batch_shape' x k x d``-dim tensor of items.
            comparisons_new: A ``batch_shape' x m' x 2``-dim tensor of an integer type; each row
                is ``[winner, loser]``, two rows of ``datapoints_new``. All batch shapes are
                broadcast.

        Raises:
            ComparisonDataError: As the constructor.
        """
        X = self.datapoints
        _check_shape("datapoints_new", datapoints_new, "k", X.shape[-1])
        _check_like("datapoints_new", datapoints_new, X)
        pairs = _as_indices("comparisons_new", comparisons_new, X, "m", 2)
        _refuse(
            _finite("datapoints_new", datapoints_new),
            _in_range("comparisons_new", pairs, datapoints_new.shape[-2]),
            _distinct("comparisons_new", pairs),
        )
        wins = X.new_ones(pairs.shape[:-1])
        return self._extended(datapoints_new, pairs + self.num_items, wins)

    def merged(self) -> Comparisons:
        """Sums repeated pairs, in either order, into one row each and drops padding.

        Each row has the lower index first, and rows are sorted by their indices. Different
        annotators' rows stay apart. Batched data, ragged if merged, are returned as they are.
        """
        if self.batch_shape:
            return self
        answered = self.count > 0
        pairs, wins, count = self.pairs[answered], self.wins[answered], self.count[answered]
        wins = torch.where(pairs[:, 0] < pairs[:, 1], wins, count - wins)
        pairs = pairs.sort(dim=-1).values
        key = pairs[:, 0] * self.num_items + pairs[:, 1]
        annotator = None
        if self.annotator is not None:
            annotator = self.annotator[answered]
            who, who_of_row = torch.unique(annotator, return_inverse=True)
            key = key * who.shape[0] + who_of_row
        key, group = torch.unique(key, return_inverse=True)
        first = _first_of_group(group, key.shape[0])
        # Sums of halves are exact, hence the same in any order of summation.
        total = wins.new_zeros(2, key.shape[0])
        total = total.index_add(1, group, torch.stack([wins, count]))
        annotator = None if annotator is None else annotator[first]
        return self.unchecked(self.datapoints, pairs[first], total[0], total[1], annotator)

    @property
    def comparisons(self) -> Tensor:
        """The ``batch_shape x M x 2``-dim ``[winner, loser]`` rows, one for each answer.

        Raises:
            UnsupportedError: If there are ties, or batch elements with unequal numbers of answers.
        """
        if (self.wins != self.wins.round()).any():
            raise UnsupportedError("Answers of 0.5 (ties) have no winner, hence no `comparisons`.")
        both = torch.stack([self.pairs, self.pairs.flip(-1)], dim=-2)
        times = torch.stack([self.wins, self.count - self.wins], dim=-1).long()
        total = times.sum(dim=(-2, -1)).flatten()
        if (total != total[:1]).any():
            raise UnsupportedError("Batch elements differ in their numbers of answers.")
        rows = both.flatten(end_dim=-2).repeat_interleave(times.flatten(), dim=0)
        return rows.reshape(*self.batch_shape, rows.shape[0] // max(len(total), 1), 2)

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
        total = self.count.sum(dim=-1)
        return int(total.max()) if total.numel() else 0

    def _extended(
        self, items: Tensor, pairs: Tensor, answers: Tensor, annotator: Tensor | None = None
    ) -> Comparisons:
        """Adds checked items (``... x k x d``) and checked rows of one answer each."""
        X, m = self.datapoints, pairs.shape[-2]
        wins = answers.to(X.dtype)
        shapes = {"datapoints": X.shape[:-2], "items": items.shape[:-2]}
        shapes |= {"pairs": pairs.shape[:-2], "answers": wins.shape[:-1]}
        if annotator is not None:
            annotator = _as_indices("annotator", annotator, X, m)
            _refuse(_known(annotator))
            shapes["annotator"] = annotator.shape[:-1]
        batch = _batch_shape(**shapes)
        who = None
        if annotator is not None or self.annotator is not None:
            unknown = self.pairs.new_full((), UNKNOWN_ANNOTATOR)
            old = unknown.expand(self.pairs.shape[-2]) if self.annotator is None else self.annotator
            new = unknown.expand(m) if annotator is None else annotator
            who = _joined(old, new, batch, 1)
        return self.unchecked(
            _joined(X, items, batch, 2),
            _joined(self.pairs, pairs, batch, 2),
            _joined(self.wins, wins, batch, 1),
            _joined(self.count, torch.ones_like(wins), batch, 1),
            who,
        )


@dataclass(frozen=True, eq=False)
class Labels:
    r"""Accepted and rejected items.

    Args:
        items: A ``batch_shape x n x d``-dim tensor of items.
        labels: A ``batch_shape x n x 1``-dim tensor: 1 accept, 0 reject, 0.5 undecided.

    Raises:
        ComparisonDataError: If an argument has a wrong shape, type or device, or a row with
            NaN or infinite items, or another label. Names argument and row.
    """

    items: Tensor
    labels: Tensor

    def __post_init__(self) -> None:
        _check_items("items", self.items, "n", "d")
        _check_shape("labels", self.labels, self.items.shape[-2], 1)
        _check_like("labels", self.labels, self.items)
        values = self.labels.squeeze(-1)
        known = (values == 0) | (values == 0.5) | (values == 1)
        reason = "a label is 1 (accept), 0 (reject) or 0.5 (undecided)"
        _refuse(_finite("items", self.items), _Check("labels", values, ~known, reason))
