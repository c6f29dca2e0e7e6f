r"""Simulated judges: who wins a duel, which item is a favourite, what value is measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.likelihoods import LogitLikelihood
from botorch_pref.problems.base import PreferenceProblem
from botorch_pref.queries import Duel, Query
from botorch_pref.randomness import derive_seed, derive_uniform


class LogisticJudge:
    r"""Answers duels by ``P(first wins) = mu(f(x) - f(x'))``, and tells noisy values of ``f``.

    The favourite of a choice is the item ``r`` with a probability in proportion to
    ``exp(scale f(x_r))``, Xu et al. (2024), eq. (99), which is the law of a duel where there
    are two. The answer at step ``t`` compares the probability with a uniform number that follows
    from ``(seed, t, annotator)`` alone, and so does the noise of a value: judges with one
    seed treat all strategies alike, and have no state.
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
            problem: The problem whose utility decides.
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

    def __call__(self, query: Query | Tensor | Sequence[int], t: int) -> float:
        r"""Answer a query.

        Args:
            query: A duel, a choice or an evaluation, of items or indices of the problem; or the
                duel of a ``2 x d``-dim tensor of items, or of two indices of choices.
            t: The step.

        Returns:
            1.0 if the first item wins, 0.0 if the second; or the position of the favourite,
            from 0; or the value, in units of the utility.

        Raises:
            ComparisonDataError: If a tensor or indices are no duel.
            ItemError: If the items or indices are none of the problem's.
            UnsupportedError: If the favourite is asked and the link is not logistic, or the query
                is of another kind.
        """
        query = self._query(query)
        if query.measures:
            seed = derive_seed(self.seed, "value", t, query.annotator)
            generator = torch.Generator().manual_seed(seed)
            noise = torch.randn((), generator=generator, dtype=torch.double)
            return float(utilities_of(self.problem, query)) + self.value_noise * float(noise)
        uniform = derive_uniform(self.seed, "label", t, query.annotator)
        total = 0.0
        for answer, chance in query.probabilities(self._compared(query), self.likelihood).items():
            total += chance
            if uniform < total:
                return answer
        return answer  # the last one takes what rounding leaves of the sum

    def probability(self, query: Query | Tensor | Sequence[int]) -> float:
        """The probability that the first item of a duel wins; arguments are those of a call."""
        query = self._query(query)
        return query.probabilities(self._compared(query), self.likelihood)[1.0]

    def _compared(self, query: Query) -> Tensor:
        """The numbers by which items are compared."""
        return utilities_of(self.problem, query)

    def _query(self, query: Query | Tensor | Sequence[int]) -> Query:
        if isinstance(query, Query):
            return query
        pair = torch.as_tensor(query)
        if pair.is_floating_point() or self.problem.choices is None:
            return Duel(0, pair)
        first, second = pair.tolist()
        return Duel(0, self.problem.choices[[first, second]], (first, second))


def utilities_of(problem: PreferenceProblem, query: Query) -> Tensor:
    """The ``k``-dim utilities of a query's items without noise, or a scalar for one item.

    Indices decide, where a query has them: an item may be listed twice with different utilities.

    Raises:
        ItemError: If the items or the indices are none of the problem's.
    """
    bounds = problem.bounds
    if query.indices is not None:
        return problem.utility(torch.tensor(query.indices, device=bounds.device))
    utilities: Tensor = problem(query.items.to(bounds))
    return utilities
