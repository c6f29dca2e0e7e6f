r"""Simulated judges of items, and an expert, who accepts or rejects single ones.

References:
.. [Xu2024b] W. Xu, M. Adachi, C. N. Jones, M. A. Osborne. Principled Bayesian
    Optimisation in Collaboration with Human Experts. NeurIPS 2024.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from botorch_pref.exceptions import SearchSpaceError, UnsupportedError
from botorch_pref.likelihoods import LogitLikelihood
from botorch_pref.problems.base import PreferenceProblem
from botorch_pref.queries import Answer, Duel, Label, Query
from botorch_pref.randomness import derive_seed, derive_uniform

_RHO_BOUND = 3.0  # the ends of an expert's range are mapped to -3 and 3


class LogisticJudge:
    r"""Answers duels by ``P(first wins) = mu(f(x) - f(x'))``, and tells noisy values of ``f``.

    The favourite of a choice is the item ``r`` with a probability in proportion to
    ``exp(scale f(x_r))``, Xu et al. (2024), eq. (99), which is the law of a duel where there
    are two; a ranking is the favourite of all, then that of the others, and so on. A grade is given
    where the difference and the noise of the link fall between two bounds, which are 1 apart. The
    answer at step ``t`` compares the probability with a uniform number that follows from
    ``(seed, t, annotator)`` alone, and so does the noise of a value: judges with one seed treat all
    strategies alike, and have no state.
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

    def __call__(self, query: Query | Tensor | Sequence[int], t: int) -> Answer:
        r"""Answer a query.

        Args:
            query: A query but a label; or the duel of a ``2 x d``-dim tensor of
                items, or of two indices of choices.
            t: The step.

        Returns:
            What :meth:`Strategy.tell <botorch_pref.strategies.base.Strategy.tell>` takes: 1.0 if
            the first item of a duel wins, 0.0 if the second; a value in units of the utility.

        Raises:
            ComparisonDataError: If a tensor is no duel.
            ItemError: If the items or indices are none of the problem's.
            UnsupportedError: If the query is of another kind, or the link of a choice not logistic.
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
        """The probability that the first item of a duel wins."""
        query = self._query(query)
        return query.probabilities(self._compared(query), self.likelihood)[1.0]

    def _compared(self, query: Query) -> Tensor:
        """The numbers by which items are compared; a subclass may have others."""
        return utilities_of(self.problem, query)

    def _query(self, query: Query | Tensor | Sequence[int]) -> Query:
        if isinstance(query, Query):
            return query
        pair = torch.as_tensor(query)
        if pair.is_floating_point() or self.problem.choices is None:
            return Duel(0, pair)
        first, second = pair.tolist()
        return Duel(0, self.problem.choices[[first, second]], (first, second))


class SyntheticExpert:
    r"""Accepts with probability ``S(a rho(u))`` for the utility ``u`` ([Xu2024b], Example 2.2).

    The line ``rho`` maps a range of the utility to [-3, 3], so that an expert of accuracy
    ``a`` accepts the best item with probability ``S(3 a)``: 0.9975 for 2 (strong), 0.9526 for 1
    (helpful), 0.5 for 0 (random), 0.0474 for -1 (adversarial), 0.0025 for -2 (strongly
    adversarial). In the paper, where ``f = -u`` is minimised and a label is 1 to reject, it is
    ``P(reject) = S(a rho(f))``: the same expert. In a duel the first item wins with probability
    ``S(a (rho(u) - rho(u')))``. Values are those of the objective, without noise.

    The answer at step ``t`` compares the probability with a uniform number that follows from
    ``(seed, t, annotator)`` alone: strategies under one seed meet the same noise.

    Attributes:
        accuracy: The accuracy ``a``.
        rho_range: The range, in units of the utility.
    """

    def __init__(
        self,
        problem: PreferenceProblem,
        accuracy: float = 1.0,
        rho_range: Sequence[float] | None = None,
        *,
        seed: int = 0,
    ) -> None:
        r"""Set what the expert knows.

        Args:
            problem: The objective, which is maximised.
            accuracy: The accuracy ``a``, of either sign.
            rho_range: The lowest and the highest utility of the range; if omitted that of the
                problem, where it has one, or that of its choices.
            seed: The seed of the labels.

        Raises:
            SearchSpaceError: If ``rho_range`` is not a lower and a higher number, the lower
                one below the largest utility.
            UnsupportedError: If ``accuracy`` is not finite, or ``rho_range`` is omitted and the
                problem has none.
        """
        if not math.isfinite(accuracy):
            raise UnsupportedError(f"accuracy must be finite, got {accuracy!r}.")
        self.problem, self.accuracy, self.seed = problem, float(accuracy), seed
        if rho_range is None:
            rho_range = getattr(problem, "rho_range", None)
        if rho_range is None:
            if problem.choices is None:
                raise UnsupportedError(f"rho_range has to be given: {problem.name} has none.")
            rho_range = (float(problem.utilities.min()), float(problem.utilities.max()))
        try:
            best = problem.optimal_value
        except NotImplementedError:
            best = math.inf
        self.rho_range = checked_rho_range(rho_range, best)

    def __call__(self, query: Query, t: int) -> float:
        r"""Answer a query.

        Args:
            query: A label, a duel or an evaluation. An index comes first, where a query has one.
            t: The step.

        Returns:
            Of a label 1.0 to accept, 0.0 to reject, and of a duel 1.0 if the first item is
            preferred, 0.0 if the second; of an evaluation the value, in units of the utility.

        Raises:
            ItemError: If an item is none of the problem's.
            UnsupportedError: If the query is of another kind.
        """
        utilities = utilities_of(self.problem, query).double()
        if query.measures:
            return float(utilities)
        if not isinstance(query, Label | Duel):
            raise UnsupportedError(f"An expert answers no {query.kind}.")
        rho = self.rho(utilities)
        logit = self.accuracy * (rho[0] - rho[1] if isinstance(query, Duel) else rho)
        return float(derive_uniform(self.seed, "label", t, query.annotator) < logit.sigmoid())

    def probability(self, items: Tensor) -> Tensor:
        r"""The ``...``-dim probabilities that ``... x d``-dim items are accepted.

        Raises:
            ItemError: If these are no items of the problem; names the first such row.
        """
        return torch.sigmoid(self.accuracy * self.rho(self.problem(items)))

    def rho(self, utilities: Tensor) -> Tensor:
        """The line that maps the range to [-3, 3], and goes on beyond it; elementwise."""
        low, high = self.rho_range
        return _RHO_BOUND * ((utilities - low) - (high - utilities)) / (high - low)


def utilities_of(problem: PreferenceProblem, query: Query) -> Tensor:
    """The ``k``-dim utilities of a query's items without noise, or a scalar for one item.

    Indices decide, where a query has them: an item may be listed twice with different utilities.
    """
    bounds = problem.bounds
    if query.indices is not None:
        return problem.utility(torch.tensor(query.indices, device=bounds.device))
    utilities: Tensor = problem(query.items.to(bounds))
    return utilities


def checked_rho_range(rho_range: Sequence[float], best: float) -> tuple[float, float]:
    """A lower and a higher utility, the lower one below ``best``; else a ``SearchSpaceError``."""
    try:
        low, high = (float(one) for one in rho_range)
    except (TypeError, ValueError):
        low = high = math.nan
    if not -math.inf < low < high < math.inf:
        raise SearchSpaceError(
            f"rho_range must be a lower and a higher finite number, got {rho_range!r}."
        )
    if low >= best:
        raise SearchSpaceError(
            f"rho_range must start below the largest utility, {best:g}, got {rho_range!r}: it is "
            "in units of the utility, which is maximised."
        )
    return low, high
