r"""Blocks of observations, and the matching and merging of rows: ``O((n + m) log(n + m))``.

Notation: ``n`` items with utilities ``f: ... x n``; ``m`` observations, each of ``k`` items and
of ``r`` latent values ``eta = A f[items]: ... x m x r`` with a constant map ``A: r x k``; ``y``
answers, ``w`` weights. A duel has ``A = [1, -1]``, a label or a value ``[1]``, a choice of the
best of ``k`` the identity. Where ``r = 1``, latent values are ``... x m``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from botorch_pref.exceptions import UnsupportedError

DUEL, ITEM = (1.0, -1.0), (1.0,)


class BlockLikelihood(Protocol):
    """A log-concave likelihood of the latent values of each observation.

    Attributes:
        has_bounded_score: Whether a weight bounds the score of its observation.
    """

    has_bounded_score: bool

    def log_prob(self, latent: Tensor, answer: Tensor, weight: Tensor) -> Tensor:
        """``... x m``-dim log probabilities."""

    def derivatives(
        self, latent: Tensor, answer: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        r"""Derivatives of the log probability in the latent values.

        Returns:
            Where ``r = 1``, each ``... x m``-dim, the first derivative, *minus* the second and
            the third. Else the first, ``... x m x r``-dim; a root ``S``, ``... x m x r x r``-dim,
            of minus the second, ``S S^T``; and the third, ``... x m x r x r x r``-dim.
        """


@dataclass(frozen=True, eq=False)
class Block:
    r"""Observations of one kind.

    Attributes:
        items: ``... x m x k``-dim long tensor of item indices.
        coefficients: The rows of ``A``, each of ``k`` numbers; a single row may stand alone.
        answer: ``... x m``-dim answers, which the likelihood understands.
        weight: ``... x m``-dim weights; an observation of weight 0 is padding.
        likelihood: The likelihood of the answers.
    """

    items: Tensor
    coefficients: tuple[float, ...] | tuple[tuple[float, ...], ...]
    answer: Tensor
    weight: Tensor
    likelihood: BlockLikelihood

    @property
    def design(self) -> tuple[tuple[float, ...], ...]:
        """The ``r`` rows of ``A``."""
        if isinstance(self.coefficients[0], tuple):
            return self.coefficients
        return (self.coefficients,)

    @property
    def latent_dim(self) -> int:
        """The number ``r`` of latent values of an observation."""
        return len(self.design)

    @property
    def num_rows(self) -> int:
        """The number ``m r`` of latent values."""
        return self.weight.shape[-1] * self.latent_dim

    def select(self, elements: Tensor | slice | int) -> Block:
        """Some elements of the first batch dimension, or one without that dimension."""
        items = self.items.expand(*self.answer.shape[:-1], *self.items.shape[-2:])
        rows = items[elements], self.answer[elements], self.weight[elements]
        return replace(self, items=rows[0], answer=rows[1], weight=rows[2])

    def rows(self, kept: Tensor | slice) -> Block:
        """Some of the observations of unbatched data."""
        return replace(
            self, items=self.items[kept], answer=self.answer[kept], weight=self.weight[kept]
        )


def match_items(stored: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
    """Finds items among stored ones by exact value.

    Args:
        stored: An ``n x d``-dim tensor. Of several equal rows the first is meant.
        items: A ``k x d``-dim tensor.

    Returns:
        The ``k`` indices, those of new values counted on from ``n`` in order of appearance,
        and a ``k``-dim boolean mask of each new value's first appearance.
    """
    n = stored.shape[0]
    # unique compares values, not bits, so -0.0 is 0.0 here as well.
    values = torch.cat([stored, items]).detach()
    distinct, group = torch.unique(values, dim=0, return_inverse=True)
    first = _first_of_group(group, distinct.shape[0])[group[n:]]
    fresh = first == torch.arange(n, values.shape[0], device=values.device)
    number = n - 1 + fresh.cumsum(dim=0)
    return torch.where(first < n, first, number[(first - n).clamp_min(0)]), fresh


def merge_rows(
    num_items: int, pairs: Tensor, wins: Tensor, count: Tensor, annotator: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Sums the rows of each unordered pair (and annotator) and drops those of count 0.

    Args:
        num_items: What all indices in ``pairs`` lie below.
        pairs: An ``m x 2``-dim long tensor.
        wins: An ``m``-dim tensor: wins of the first item of each pair.
        count: An ``m``-dim tensor of answers.
        annotator: An ``m``-dim long tensor, or None.

    Returns:
        The four columns, sorted, each pair with its lower index first.
    """
    answered = count > 0
    pairs, wins, count = pairs[answered], wins[answered], count[answered]
    wins = torch.where(pairs[:, 0] < pairs[:, 1], wins, count - wins)
    pairs = pairs.sort(dim=-1).values
    key = pairs[:, 0] * num_items + pairs[:, 1]
    if annotator is not None:
        annotator = annotator[answered]
        distinct, rank = torch.unique(annotator, return_inverse=True)
        key = key * distinct.shape[0] + rank
    distinct, group = torch.unique(key, return_inverse=True)
    first = _first_of_group(group, distinct.shape[0])
    # Sums of halves are exact, hence the same in any order of summation.
    rows = torch.stack([wins, count])
    total = rows.new_zeros(2, distinct.shape[0]).index_add(1, group, rows)
    annotator = None if annotator is None else annotator[first]
    return pairs[first], total[0], total[1], annotator


def winners_first(pairs: Tensor, wins: Tensor, count: Tensor) -> Tensor:
    """Repeats each pair, the winner first, once for every answer.

    Args:
        pairs: A ``batch_shape x m x 2``-dim long tensor.
        wins: A ``batch_shape x m``-dim tensor: wins of the first item of each pair.
        count: A ``batch_shape x m``-dim tensor of answers.

    Returns:
        A ``batch_shape x M x 2``-dim long tensor.

    Raises:
        UnsupportedError: If there are ties, or batch elements with unequal numbers of answers.
    """
    if (wins != wins.round()).any():
        raise UnsupportedError("Answers of 0.5 (ties) have no winner, hence no `comparisons`.")
    times = torch.stack([wins, count - wins], dim=-1).long()
    total = times.sum(dim=(-2, -1)).flatten()
    if (total != total[:1]).any():
        raise UnsupportedError("Batch elements differ in their numbers of answers.")
    both = torch.stack([pairs, pairs.flip(-1)], dim=-2)
    rows = both.reshape(-1, 2).repeat_interleave(times.flatten(), dim=0)
    return rows.reshape(*pairs.shape[:-2], rows.shape[0] // max(total.shape[0], 1), 2)


def _first_of_group(group: Tensor, num_groups: int) -> Tensor:
    """The lowest position in ``group``, a vector of group numbers, of each of the groups."""
    position = torch.arange(group.shape[0], device=group.device)
    first = position.new_full((num_groups,), group.shape[0])
    return first.scatter_reduce(0, group, position, "amin")
