r"""Simulated experts, who accept or reject single items.

All of them take a :class:`~botorch_pref.queries.Label`, whose answer is 1 to accept and 0 to
reject, and an :class:`~botorch_pref.queries.Evaluate`, whose answer is the value of the
objective; those who judge by the utility also a :class:`~botorch_pref.queries.Duel`. So one of
them is the judge of a strategy that asks any of these; and a class, or a
``functools.partial`` of one, is what makes the judge of an experiment.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.problems.base import PreferenceProblem
from botorch_pref.problems.judges import LogisticJudge
from botorch_pref.queries import Duel, Evaluate, Label, Query
from botorch_pref.randomness import derive_uniform


class Expert(ABC):
    r"""Accepts items with a probability, and tells the values of the objective.

    The label at step ``t`` compares the probability with a uniform number that follows from
    ``(seed, t, annotator)`` alone, and so do the noise of a value and whether there is an
    answer at all: a label is drawn freshly at every step, and strategies under one seed meet
    the same noise.
    """

    def __init__(
        self,
        problem: PreferenceProblem,
        *,
        seed: int = 0,
        value_noise: float = 0.0,
        absence: float = 0.0,
    ) -> None:
        r"""Set what all experts have.

        Args:
            problem: The objective, which is maximised.
            seed: The seed of the labels and of the noise.
            value_noise: The standard deviation of the normal noise on values, in units of
                the utility.
            absence: The probability that a label or a duel is not answered; values always are.

        Raises:
            UnsupportedError: If ``value_noise`` is negative or not finite, or ``absence``
                is no probability.
        """
        if not 0.0 <= absence <= 1.0:
            raise UnsupportedError(f"absence must be a probability, got {absence!r}.")
        self.problem = problem
        self.seed = seed
        self.absence = absence
        self._values = LogisticJudge(problem, seed, value_noise=value_noise)

    def __call__(self, query: Query, t: int) -> float | None:
        r"""Answer a query.

        Args:
            query: The label, the duel or the evaluation that is asked for. An index comes
                first, where a query has one.
            t: The step.

        Returns:
            Of a label 1.0 to accept, 0.0 to reject, and of a duel 1.0 if the first item is
            preferred, 0.0 if the second, ``None`` if there is no answer; of an evaluation the
            value, in units of the utility.

        Raises:
            ItemError: If an item is none of the problem's.
            UnsupportedError: If the query is of another kind, or a duel and this expert does not
                compare items.
        """
        if isinstance(query, Evaluate):
            return self._values(query, t)
        if isinstance(query, Label):
            likely = self._accepts(query, t)
        elif isinstance(query, Duel):
            likely = self._prefers(query, t)
        else:
            raise _unanswerable(query)
        if derive_uniform(self.seed, "absence", t, query.annotator) < self.absence:
            return None
        return float(derive_uniform(self.seed, "label", t, query.annotator) < likely)

    def probability(self, items: Tensor, t: int | None = None) -> Tensor:
        r"""The probability that an item is accepted, if there is an answer.

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


def _unanswerable(query: Query) -> UnsupportedError:
    kind = type(query).__name__
    return UnsupportedError(f"query: this expert answers labels and evaluations, not {kind}.")
