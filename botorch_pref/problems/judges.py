r"""Simulated judges, and how a difference of utilities decides a duel.

References:
.. [Xu2020] Y. Xu, A. Joshi, A. Singh, A. Dubrawski. Zeroth Order Non-convex Optimization
    with Dueling-Choice Bandits. UAI 2020.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.likelihoods import LogitLikelihood
from botorch_pref.problems.base import PreferenceProblem, check_positive
from botorch_pref.problems.fidelities import FidelityProblem
from botorch_pref.queries import Duel, Evaluate, Query
from botorch_pref.randomness import derive_seed, derive_uniform


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
        utilities = utilities_of(self.problem, query)
        if query.measures:
            seed = derive_seed(self.seed, "value", t, query.annotator)
            generator = torch.Generator().manual_seed(seed)
            noise = torch.randn((), generator=generator, dtype=torch.double)
            return float(utilities) + self.value_noise * float(noise)
        uniform = derive_uniform(self.seed, "label", t, query.annotator)
        total = 0.0
        for answer, chance in query.probabilities(utilities, self.likelihood).items():
            total += chance
            if uniform < total:
                return answer
        return answer  # the last one takes what rounding leaves of the sum

    def probability(self, query: Query | Tensor | Sequence[int]) -> float:
        r"""The probability that the first item of a duel wins.

        Args:
            query: As for a call.

        Raises:
            ComparisonDataError: If a tensor or indices are no duel.
            ItemError: If the items or indices are none of the problem's.
        """
        query = self._query(query)
        return query.probabilities(utilities_of(self.problem, query), self.likelihood)[1.0]

    def _query(self, query: Query | Tensor | Sequence[int]) -> Query:
        if isinstance(query, Query):
            return query
        pair = torch.as_tensor(query)
        if pair.is_floating_point() or self.problem.choices is None:
            return Duel(0, pair)
        first, second = pair.tolist()
        return Duel(0, self.problem.choices[[first, second]], (first, second))


def utilities_of(problem: PreferenceProblem, query: Query) -> Tensor:
    r"""The utilities of the items that a query is about, without noise.

    Args:
        problem: The problem.
        query: The query; its indices come first, where it has them: an item may be listed twice
            with different utilities.

    Returns:
        ``k``-dim, or a scalar for a query of one item.

    Raises:
        ItemError: If the items or the indices are none of the problem's.
    """
    bounds = problem.bounds
    if query.indices is not None:
        return problem.utility(torch.tensor(query.indices, device=bounds.device))
    utilities: Tensor = problem(query.items.to(bounds))
    return utilities


@dataclass(frozen=True)
class DuelLink:
    r"""``P(first wins)`` as a function of the difference ``u`` of two values.

    ================= ========================================================
    kind              probability
    ================= ========================================================
    ``deterministic`` 1 if ``u > 0``, 0 if ``u < 0``, 1/2 if they tie
    ``logistic``      ``1 / (1 + exp(-u / scale))``, Bradley-Terry-Luce
    ================= ========================================================

    Attributes:
        kind: One of these.
        scale: The scale, in units of the values; without effect on the first.
    """

    kind: Literal["deterministic", "logistic"] = "deterministic"
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in ("deterministic", "logistic"):
            raise UnsupportedError(
                f"kind must be 'deterministic' or 'logistic', got {self.kind!r}."
            )
        check_positive(scale=self.scale)

    def __call__(self, differences: Tensor) -> Tensor:
        r"""The probability that the first item wins.

        Args:
            differences: ``...``-dim, value of the first minus value of the second.

        Returns:
            ``...``-dim probabilities.
        """
        if self.kind == "deterministic":
            return 0.5 * (1.0 + differences.sign())
        return (differences / self.scale).sigmoid()


class DuelingChoiceJudge:
    r"""Tells values of ``f``, and decides duels by ``f_c`` ([Xu2020], Sec. 2).

    ``P(first wins) = sigma(f_c(x) - f_c(x'))``; so a constant added to ``f_c`` changes no
    answer. Every answer follows from ``(seed, t, annotator)`` alone, as that of other judges
    does: a duel compares the probability with a uniform number, which is the fair coin where
    the deterministic link ties.

    Attributes:
        problem: The problem, whose values are told.
        comparison: The problem by whose utility duels are decided: the low fidelity.
        link: The link ``sigma``.
    """

    def __init__(
        self,
        problem: PreferenceProblem,
        seed: int = 0,
        link: DuelLink | None = None,
        *,
        unbiased: bool = False,
    ) -> None:
        r"""Set what is told.

        Args:
            problem: The problem. One without a low fidelity is its own: ``f_c = f``.
            seed: The seed of the answers.
            link: The link; the deterministic one if omitted.
            unbiased: If true, duels are decided by the utility itself, ``f_c = f``.
        """
        self.problem = problem
        self.seed = seed
        self.link = DuelLink() if link is None else link
        self.comparison = problem
        if isinstance(problem, FidelityProblem) and not unbiased:
            self.comparison = problem.low_problem()
        self._duels = LogisticJudge(self.comparison, seed, likelihood=self.link)

    def __call__(self, query: Query | Tensor | Sequence[int], t: int) -> float:
        r"""Decide a duel, or tell a value; for arguments and errors see :class:`LogisticJudge`."""
        if isinstance(query, Evaluate):
            return float(utilities_of(self.problem, query))
        return self._duels(query, t)

    def probability(self, query: Query | Tensor | Sequence[int]) -> float:
        """The probability that the first item of a duel wins."""
        return self._duels.probability(query)
