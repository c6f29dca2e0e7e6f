r"""Simulated experts who judge an item by its utility.

References:
.. [Xu2024b] W. Xu, M. Adachi, C. N. Jones, M. A. Osborne. Principled Bayesian
    Optimisation in Collaboration with Human Experts. NeurIPS 2024.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from botorch_pref.exceptions import SearchSpaceError, UnsupportedError
from botorch_pref.problems.base import PreferenceProblem
from botorch_pref.problems.experts import Expert
from botorch_pref.problems.judges import LogisticJudge, item_utility
from botorch_pref.queries import Duel, Label

Range: TypeAlias = tuple[float, float]

RHO_BOUND = 3.0  # the ends of the range are mapped to -3 and 3


class UtilityExpert(Expert):
    r"""Judges items by their utility: ``P(accept) = S(a rho(u))``.

    Of a duel the first item is preferred with probability ``S(a (rho(u) - rho(u')))``.
    """

    def __init__(
        self,
        problem: PreferenceProblem,
        rho_range: Sequence[float] | None,
        seed: int,
        value_noise: float,
        absence: float,
    ) -> None:
        super().__init__(problem, seed=seed, value_noise=value_noise, absence=absence)
        self.rho_range = _range_of(problem, rho_range)

    @abstractmethod
    def accuracy_at(self, t: int | None = None) -> float:
        r"""The accuracy ``a``.

        Args:
            t: The step; ``None`` for now.

        Returns:
            The accuracy.
        """

    def rho(self, utilities: Tensor) -> Tensor:
        r"""The line that maps the range to [-3, 3].

        It goes on beyond the range: nothing is cut off. (With the authors' range of
        ``ackley4`` two thirds of the box lie below -3.)

        Args:
            utilities: ``...``-dim, of the problem.

        Returns:
            ``...``-dim logits of an expert of accuracy 1; large is good.
        """
        low, high = self.rho_range
        return RHO_BOUND * ((utilities - low) - (high - utilities)) / (high - low)

    def _probability(self, items: Tensor, t: int | None) -> Tensor:
        return self._link(self.problem(items), t)

    def _link(self, utilities: Tensor, t: int | None) -> Tensor:
        return torch.sigmoid(self.accuracy_at(t) * self.rho(utilities))

    def _accepts(self, query: Label, t: int) -> float:
        # An item may be listed twice with different utilities: the index decides.
        utility = torch.tensor(item_utility(self.problem, query), dtype=torch.double)
        return float(self._link(utility, t))

    def _prefers(self, query: Duel, t: int) -> float:
        low, high = self.rho_range
        slope = self.accuracy_at(t) * 2.0 * RHO_BOUND / (high - low)
        judge = LogisticJudge(self.problem, likelihood=lambda gap: torch.sigmoid(slope * gap))
        return judge.probability(query)


class SyntheticExpert(UtilityExpert):
    r"""Accepts with probability ``S(a rho(u))`` for the utility ``u`` ([Xu2024b], Example 2.2).

    The line ``rho`` maps a range of the utility to [-3, 3], so that an expert of accuracy
    ``a`` accepts the best item with probability ``S(3 a)``: 0.9975 for 2 (strong), 0.9526 for 1
    (helpful), 0.5 for 0 (random), 0.0474 for -1 (adversarial), 0.0025 for -2 (strongly
    adversarial). Beyond the range the line goes on. In the paper, where ``f = -u`` is minimised
    and a label is 1 to reject, it is ``P(reject) = S(a rho(f))``: the same expert. Asked which of
    two items is better, he prefers the first with probability ``S(a (rho(u) - rho(u')))``.

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
        value_noise: float = 0.0,
        absence: float = 0.0,
    ) -> None:
        r"""Set what the expert knows.

        Args:
            problem: The objective.
            accuracy: The accuracy ``a``, of either sign.
            rho_range: The lowest and the highest utility of the range; that of the problem
                if omitted, as those of the experiments has one, or
                that of its choices.
            seed: As for :class:`~botorch_pref.problems.Expert`, as are the rest.
            value_noise: See there.
            absence: See there.

        Raises:
            SearchSpaceError: If ``rho_range`` is not a lower and a higher number, the lower
                one below the largest utility.
            UnsupportedError: If ``accuracy`` is not finite, ``rho_range`` is omitted and the
                problem has none, or as for :class:`~botorch_pref.problems.Expert`.
        """
        super().__init__(problem, rho_range, seed, value_noise, absence)
        self.accuracy = checked_accuracy("accuracy", accuracy)

    def accuracy_at(self, t: int | None = None) -> float:
        """The accuracy, at whatever step."""
        return self.accuracy


def checked_accuracy(argument: str, accuracy: float) -> float:
    """A finite accuracy as a float; an ``UnsupportedError`` names the argument otherwise."""
    if not math.isfinite(accuracy):
        raise UnsupportedError(f"{argument} must be a finite accuracy, got {accuracy!r}.")
    return float(accuracy)


def _range_of(problem: PreferenceProblem, rho_range: Sequence[float] | None) -> Range:
    """The range given, or the problem's own, or that of its choices."""
    if rho_range is None:
        rho_range = getattr(problem, "rho_range", None)
    if rho_range is None:
        if problem.choices is None:
            raise UnsupportedError(f"rho_range has to be given: {problem.name} has none.")
        rho_range = (float(problem.utilities.min()), float(problem.utilities.max()))
    try:
        best = problem.optimal_value
    except NotImplementedError:
        best = None
    return checked_rho_range(rho_range, best)


def checked_rho_range(rho_range: Sequence[float], best: float | None = None) -> Range:
    r"""A range of utilities that an expert maps to [-3, 3].

    Args:
        rho_range: The lowest and the highest utility.
        best: The largest utility of the problem, if it is known.

    Returns:
        The two as floats.

    Raises:
        SearchSpaceError: If it is not a lower and a higher finite number, or lies above all
            utilities, as a range of what is to be minimised would.
    """
    try:
        numbers = [float(one) for one in rho_range]
    except (TypeError, ValueError):
        numbers = []
    if len(numbers) != 2 or not -math.inf < numbers[0] < numbers[1] < math.inf:
        raise SearchSpaceError(
            f"rho_range must be a lower and a higher finite number, got {rho_range!r}."
        )
    low, high = numbers
    if best is not None and low >= best:
        raise SearchSpaceError(
            f"rho_range must start below the largest utility, {best:g}, got {rho_range!r}: it is "
            "in units of the utility, which is maximised."
        )
    return low, high
