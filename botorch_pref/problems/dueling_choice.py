r"""A judge of cheap duels and dear values.

References:
.. [Xu2020] Y. Xu, A. Joshi, A. Singh, A. Dubrawski. Zeroth Order Non-convex Optimization
    with Dueling-Choice Bandits. UAI 2020.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import Tensor

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.problems.base import PreferenceProblem
from botorch_pref.problems.duel_links import DuelLink
from botorch_pref.problems.fidelities import FidelityProblem
from botorch_pref.problems.judges import LogisticJudge, PairQuery, item_utility
from botorch_pref.queries import Evaluate
from botorch_pref.randomness import derive_uniform


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
        value_noise: float = 0.0,
        noise: Literal["uniform", "normal"] = "uniform",
    ) -> None:
        r"""Set what is told.

        Args:
            problem: The problem. One without a low fidelity is its own: ``f_c = f``.
            seed: The seed of the answers.
            link: The link; the deterministic one if omitted.
            unbiased: If true, duels are decided by the utility itself, ``f_c = f``.
            value_noise: The noise on values, in units of the utility: the largest size of
                uniform noise, or the standard deviation of normal noise.
            noise: The law of the noise on values.

        Raises:
            UnsupportedError: If ``value_noise`` is negative or not finite, or there is no such
                law.
        """
        if noise not in ("uniform", "normal"):
            raise UnsupportedError(f"noise must be 'uniform' or 'normal', got {noise!r}.")
        self.problem = problem
        self.seed = seed
        self.link = DuelLink() if link is None else link
        self.value_noise = value_noise
        self.noise = noise
        self.comparison = problem
        if isinstance(problem, FidelityProblem) and not unbiased:
            self.comparison = problem.low_problem()
        self._values = LogisticJudge(problem, seed, value_noise=value_noise)
        self._duels = LogisticJudge(self.comparison, seed, likelihood=self.link)

    def __call__(self, query: PairQuery | Evaluate | Tensor | Sequence[int], t: int) -> float:
        r"""Decide a duel, or tell a value.

        Args:
            query: A :class:`~botorch_pref.queries.Duel`, a ``2 x d``-dim tensor of items, or
                two indices of choices; or a :class:`~botorch_pref.queries.Evaluate`. Indices
                come first where a query has items as well.
            t: The step.

        Returns:
            1.0 if the first item wins, 0.0 if the second; or the value, in units of the
            utility.

        Raises:
            ItemError: If the query is not a pair of items or of indices, or an item.
            UnsupportedError: If the query is a choice.
        """
        if not isinstance(query, Evaluate):
            return self._duels(query, t)
        if self.noise == "normal":
            return self._values(query, t)
        uniform = derive_uniform(self.seed, "value", t, query.annotator)
        return item_utility(self.problem, query) + self.value_noise * (2.0 * uniform - 1.0)

    def probability(self, query: PairQuery | Tensor | Sequence[int]) -> float:
        r"""The probability that the first item wins.

        Args:
            query: A duel, as for a call.

        Returns:
            A probability.

        Raises:
            ItemError: If the query is not a pair of items, or of indices.
        """
        return self._duels.probability(query)
