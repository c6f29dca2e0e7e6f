r"""Blocks of observations, and the matching and merging of rows: ``O((n + m) log(n + m))``.

Notation: ``n`` items with utilities ``f: ... x n``; ``m`` observations, each of ``k`` items and
of ``r`` latent values ``eta = A f[items]: ... x m x r`` with a constant map ``A: r x k``; ``y``
answers, ``w`` weights. A duel has ``A = [1, -1]``, a label or a value ``[1]``, a choice of the
best of ``k`` the identity. Where ``r = 1``, latent values are ``... x m``.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self

import torch
from torch import Size, Tensor

from botorch_pref.data.checks import as_annotators, common_batch_shape
from botorch_pref.likelihoods import BernoulliLikelihood, RowLikelihood

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
        """Some elements of the first dimension, of the batch or else of the observations."""
        items = self.items.expand(*self.answer.shape[:-1], *self.items.shape[-2:])
        answer, weight, likelihood = self.answer[elements], self.weight[elements], self.likelihood
        if isinstance(likelihood, RowLikelihood):
            likelihood = likelihood.select(elements)
        return replace(
            self, items=items[elements], answer=answer, weight=weight, likelihood=likelihood
        )

    @property
    def is_learnt(self) -> bool:
        """Whether the likelihood has parameters that require a gradient."""
        return isinstance(self.likelihood, RowLikelihood) and self.likelihood.is_learnt


class BlockData(ABC):
    """Answers of one kind, with their items: a frozen dataclass of tensors.

    A subclass names its tensors in ``_dims``, with the number of their dimensions after the batch,
    and checks and broadcasts them when it is made.

    Attributes:
        datapoints: A ``batch_shape x n x d``-dim tensor of items.
    """

    _dims: ClassVar[Mapping[str, int]]
    datapoints: Tensor
    annotator: Tensor | None = None

    @abstractmethod
    def blocks(self, likelihood: BernoulliLikelihood, learnt: Any = None) -> list[Block]:
        """The answers as inference sees them.

        Args:
            likelihood: The link of the model, whose scale other likelihoods share.
            learnt: What a model learns of these answers beside the utility; see
                ``botorch_pref.models.answer_parameters``.
        """

    @property
    def shown_first(self) -> Tensor | None:
        """``... x m``-dim items that were shown first; ``None`` where no order is known."""
        return None

    @property
    def batch_shape(self) -> Size:
        """The batch shape, which all tensors share."""
        return self.datapoints.shape[:-2]

    @property
    def num_items(self) -> int:
        """The number ``n`` of datapoints."""
        return self.datapoints.shape[-2]

    def expand(self, batch_shape: Size) -> Self:
        """The same answers in every element of a larger batch; copies nothing."""
        new = copy.copy(self)
        for name, value in self._tensors().items():
            shape = value.shape[value.dim() - self._dims[name] :]
            object.__setattr__(new, name, value.expand(*batch_shape, *shape))
        return new

    def _annotators(self, num_rows: int) -> Tensor | None:
        """The numbers of who gave so many answers, checked, if they are given."""
        if self.annotator is None:
            return None
        return as_annotators("annotator", self.annotator, self.datapoints, num_rows)

    def _broadcast(self, names: Mapping[str, str] | None = None) -> None:
        """Expand all tensors to their common batch shape; an error calls them by ``names``."""
        shapes = {n: v.shape[: v.dim() - self._dims[n]] for n, v in self._tensors().items()}
        batch = common_batch_shape(**{(names or {}).get(n, n): s for n, s in shapes.items()})
        for name, value in self.expand(batch)._tensors().items():
            object.__setattr__(self, name, value)

    def _item_block(self, answer: Tensor, likelihood: BlockLikelihood) -> Block:
        """One observation of the utility of each datapoint."""
        rows = torch.arange(self.num_items, device=answer.device)
        items = rows.expand(answer.shape).unsqueeze(-1)
        return Block(items, ITEM, answer, torch.ones_like(answer), likelihood)

    def _tensors(self) -> dict[str, Tensor]:
        return {n: value for n in self._dims if (value := getattr(self, n)) is not None}


def match_items(stored: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
    """Finds ``k x d`` items among ``n x d`` stored ones by exact value, the first of equal ones.

    Returns:
        The ``k`` indices, those of new values counted on from ``n`` in order of appearance,
        and a ``k``-dim boolean mask of each new value's first appearance.
    """
    n = stored.shape[0]
    # unique compares values, not bits, so -0.0 is 0.0 here as well.
    values = torch.cat([stored, items]).detach()
    distinct, group = torch.unique(values, dim=0, return_inverse=True)
    first = _first_of_group(group, distinct.shape[0])[group[n:]]
    is_new = first == torch.arange(n, values.shape[0], device=values.device)
    number = n - 1 + is_new.cumsum(dim=0)
    return torch.where(first < n, first, number[(first - n).clamp_min(0)]), is_new


def merge_rows(
    num_items: int, pairs: Tensor, wins: Tensor, count: Tensor, annotator: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Sums the rows of each unordered pair, or of each ordered one and annotator.

    The arguments are those of unbatched :class:`~botorch_pref.data.Comparisons`; rows of count 0
    are dropped, and the columns returned are sorted, each unordered pair with its lower index
    first.
    """
    answered = count > 0
    pairs, wins, count = pairs[answered], wins[answered], count[answered]
    if annotator is None:
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


def _first_of_group(group: Tensor, num_groups: int) -> Tensor:
    """The lowest position of each group in a vector of group numbers."""
    position = torch.arange(group.shape[0], device=group.device)
    first = position.new_full((num_groups,), group.shape[0])
    return first.scatter_reduce(0, group, position, "amin")
