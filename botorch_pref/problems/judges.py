r"""Simulated judges."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.likelihoods import LogitLikelihood
from botorch_pref.problems.base import ItemError, PreferenceProblem
from botorch_pref.queries import Choice, Query
from botorch_pref.randomness import derive_seed, derive_uniform


class PairQuery(Protocol):
    """What a judge reads of a duel."""

    @property
    def items(self) -> Tensor:
        """The ``2 x d``-dim pair."""

    @property
    def indices(self) -> tuple[int, int] | None:
        """The pair's indices among the choices, where there are any."""

    @property
    def annotator(self) -> str | None:
        """Who is asked."""


class LogisticJudge:
    r"""Answers duels by ``P(first wins) = mu(f(x) - f(x'))``, and tells noisy values of ``f``.

    The favourite of a choice is the item ``r`` with a probability in proportion to
    ``exp(scale f(x_r))``, Xu et al. (2024), eq. (99), which is the law of a duel where there
    are two. The answer at step ``t`` compares the probability with a uniform number that follows
    from ``(seed, t, annotator)`` alone, and so does the noise of a value: judges with one
    seed treat all strategies alike, and nothing about them has to be saved.
    """

    def __init__(
        self,
        problem: PreferenceProblem,
        seed: int = 0,
        likelihood: Callable[[Tensor], Tensor] | None = None,
        *,
        value_noise: float = 1.0,
    ) -> None:
        r"""Set the utility behind the answers.

        Args:
            problem: The problem whose utility is judged.
            seed: The seed of the answers.
            likelihood: The link ``mu``, elementwise in the difference of utilities;
                ``LogitLikelihood()`` if omitted.
            value_noise: The standard deviation of the normal noise on values, in units of
                the utility; 0 for values without noise.

        Raises:
            UnsupportedError: If ``value_noise`` is negative or not finite.
        """
        if not 0.0 <= value_noise < math.inf:
            raise UnsupportedError(
                f"value_noise must be a finite number, at least 0, got {value_noise!r}."
            )
        self.problem = problem
        self.seed = seed
        self.likelihood = LogitLikelihood() if likelihood is None else likelihood
        self.value_noise = value_noise

    def __call__(self, query: PairQuery | Query | Tensor | Sequence[int], t: int) -> float:
        r"""Answer a duel or a choice, or tell the value of an item.

        Args:
            query: A duel, a ``2 x d``-dim tensor of items, or two indices of choices; or a
                :class:`~botorch_pref.queries.Choice` or
                :class:`~botorch_pref.queries.Evaluate`. Indices come first where a query
                has items as well.
            t: The step.

        Returns:
            1.0 if the first item wins, 0.0 if the second; or the position of the favourite,
            from 0; or the value, in units of the utility.

        Raises:
            ItemError: If the query is not a pair of items or of indices, a choice or an item.
            UnsupportedError: If the favourite is asked and the link is not logistic.
        """
        annotator = getattr(query, "annotator", None)
        if isinstance(query, Query) and query.measures:
            seed = derive_seed(self.seed, "value", t, annotator)
            generator = torch.Generator().manual_seed(seed)
            noise = torch.randn((), generator=generator, dtype=torch.double)
            return item_utility(self.problem, query) + self.value_noise * float(noise)
        uniform = derive_uniform(self.seed, "label", t, annotator)
        if not isinstance(query, Query):
            return float(uniform < self.probability(query))
        total = 0.0
        for answer, chance in query.probabilities(self._utilities(query), self.likelihood).items():
            total += chance
            if uniform < total:
                return answer
        return answer  # the last one takes what rounding leaves of the sum

    def probability(self, query: PairQuery | Tensor | Sequence[int]) -> float:
        r"""The probability that the first item wins.

        Args:
            query: As for a call.

        Returns:
            A probability.

        Raises:
            ItemError: If the query is not a pair of items, or of indices.
        """
        utilities = self._utilities(query)
        if len(utilities) != 2:
            raise ItemError(f"query must be two items, got {len(utilities)}.")
        return float(self.likelihood(utilities[0] - utilities[1]))

    def choice_probabilities(self, query: Choice) -> Tensor:
        r"""The probability of each item that it is the favourite.

        Args:
            query: The choice among ``k`` items.

        Returns:
            ``k``-dim probabilities.

        Raises:
            ItemError: If its items or indices are none of the problem's.
            UnsupportedError: If the link is not logistic.
        """
        chances = query.probabilities(self._utilities(query), self.likelihood)
        return torch.tensor([*chances.values()], dtype=torch.double)

    def _utilities(self, query: PairQuery | Query | Tensor | Sequence[int]) -> Tensor:
        """The ``2``-dim utilities of a pair, or the ``k``-dim ones of a query's items."""
        number = len(query.rows) if isinstance(query, Query) else 2
        pair: Tensor | Sequence[int]
        if isinstance(query, (Tensor, Sequence)):
            pair = query
        elif isinstance(query, Query):
            pair = query.rows if query.row_indices is None else query.row_indices
        elif query.indices is not None:
            pair = query.indices
        else:
            pair = query.items
        pair = torch.as_tensor(pair, device=self.problem.bounds.device)
        if not pair.is_floating_point():
            if pair.shape != (number,):
                raise ItemError(f"query must be two indices, got shape {tuple(pair.shape)}.")
            return self.problem.utility(pair)
        if pair.shape != (number, self.problem.dim):
            raise ItemError(
                f"query must be {number} x {self.problem.dim} items, got shape {tuple(pair.shape)}."
            )
        utilities: Tensor = self.problem(pair)
        return utilities


def item_utility(problem: PreferenceProblem, query: Query) -> float:
    r"""The utility of the item that a query is about.

    Args:
        problem: The problem.
        query: The query; its index comes first, where it has one.

    Returns:
        The utility, without noise.

    Raises:
        ItemError: If the item or the index is none of the problem's.
    """
    bounds = problem.bounds
    if query.indices is not None:
        return float(problem.utility(torch.tensor(query.indices, device=bounds.device)))
    return float(problem(query.items.to(bounds)))
