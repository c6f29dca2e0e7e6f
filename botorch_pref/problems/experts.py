r"""Simulated experts, who accept or reject single items.

All of them take a :class:`~botorch_pref.queries.Label`, whose answer is 1 to accept and 0 to
reject, and an :class:`~botorch_pref.queries.Evaluate`, whose answer is the value of the
objective; those who know the utility also a :class:`~botorch_pref.queries.Duel`. So one of
them is the judge of a strategy that asks any of these; and a class, or a
``functools.partial`` of one, is what makes the judge of an experiment.

References:
.. [Xu2024b] W. Xu, M. Adachi, C. N. Jones, M. A. Osborne. Principled Bayesian
    Optimisation in Collaboration with Human Experts. NeurIPS 2024.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from botorch_pref.exceptions import SearchSpaceError, UnsupportedError
from botorch_pref.problems.base import PreferenceProblem
from botorch_pref.problems.judges import LogisticJudge, utilities_of
from botorch_pref.queries import Duel, Evaluate, Label, Query
from botorch_pref.randomness import derive_uniform

Range: TypeAlias = tuple[float, float]

RHO_BOUND = 3.0  # the ends of the range are mapped to -3 and 3


class Expert(ABC):
    r"""Accepts items with a probability, and tells the values of the objective.

    The label at step ``t`` compares the probability with a uniform number that follows from
    ``(seed, t, annotator)`` alone: a label is drawn again at every step, and strategies under one
    seed meet the same noise.

    Args:
        problem: The objective, which is maximised.
        seed: The seed of the labels.
    """

    def __init__(self, problem: PreferenceProblem, *, seed: int = 0) -> None:
        self.problem = problem
        self.seed = seed

    def __call__(self, query: Query, t: int) -> float:
        r"""Answer a query.

        Args:
            query: The label, the duel or the evaluation that is asked for. An index comes
                first, where a query has one.
            t: The step.

        Returns:
            Of a label 1.0 to accept, 0.0 to reject, and of a duel 1.0 if the first item is
            preferred, 0.0 if the second; of an evaluation the value, in units of the utility.

        Raises:
            ItemError: If an item is none of the problem's.
            UnsupportedError: If the query is of another kind, or a duel and this expert does not
                compare items.
        """
        if isinstance(query, Evaluate):
            return float(utilities_of(self.problem, query))
        if isinstance(query, Label):
            likely = self._accepts(query, t)
        elif isinstance(query, Duel):
            likely = self._prefers(query, t)
        else:
            raise _unanswerable(query)
        return float(derive_uniform(self.seed, "label", t, query.annotator) < likely)

    def probability(self, items: Tensor, t: int | None = None) -> Tensor:
        r"""The probability that an item is accepted.

        Args:
            items: ``... x d``-dim items of the problem.
            t: The step, for experts who change; ``None`` for what they hold now.

        Returns:
            ``...``-dim probabilities, of the dtype of ``items``.

        Raises:
            ItemError: If these are no items of the problem; names the first such row.
        """
        self.problem._validate_items(items, argument="items")
        return self._probability(items, t)

    @abstractmethod
    def _probability(self, items: Tensor, t: int | None) -> Tensor:
        """The probability that valid items are accepted."""

    def _accepts(self, query: Label, t: int) -> float:
        """The probability that the item of a query is accepted."""
        return float(self.probability(query.items.to(self.problem.bounds), t))

    def _prefers(self, query: Duel, t: int) -> float:
        """The probability that the first item of a query is preferred."""
        raise _unanswerable(query)


class SyntheticExpert(Expert):
    r"""Accepts with probability ``S(a rho(u))`` for the utility ``u`` ([Xu2024b], Example 2.2).

    The line ``rho`` maps a range of the utility to [-3, 3], so that an expert of accuracy
    ``a`` accepts the best item with probability ``S(3 a)``: 0.9975 for 2 (strong), 0.9526 for 1
    (helpful), 0.5 for 0 (random), 0.0474 for -1 (adversarial), 0.0025 for -2 (strongly
    adversarial). Beyond the range the line goes on. In the paper, where ``f = -u`` is minimised
    and a label is 1 to reject, it is ``P(reject) = S(a rho(f))``: the same expert. Asked which of
    two items is better, they prefer the first with probability ``S(a (rho(u) - rho(u')))``.

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
            problem: The objective.
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
        super().__init__(problem, seed=seed)
        self.accuracy = checked_accuracy("accuracy", accuracy)
        self.rho_range = _range_of(problem, rho_range)

    def accuracy_at(self, t: int | None = None) -> float:
        """The accuracy ``a`` at a step, for experts who change; ``None`` is now."""
        return self.accuracy

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
        return float(self._link(utilities_of(self.problem, query).double(), t))

    def _prefers(self, query: Duel, t: int) -> float:
        low, high = self.rho_range
        slope = self.accuracy_at(t) * 2.0 * RHO_BOUND / (high - low)
        judge = LogisticJudge(self.problem, likelihood=lambda gap: torch.sigmoid(slope * gap))
        return judge.probability(query)


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
    """A range of utilities that an expert maps to [-3, 3], as floats.

    Raises:
        SearchSpaceError: If it is not a lower and a higher finite number, or lies above the
            largest utility, as a range of what is to be minimised would.
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


def _unanswerable(query: Query) -> UnsupportedError:
    kind = type(query).__name__
    return UnsupportedError(f"query: this expert answers labels and evaluations, not {kind}.")
