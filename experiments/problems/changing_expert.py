r"""A simulated expert whose accuracy changes with what they have seen.

References:
.. [Xu2024b] W. Xu, M. Adachi, C. N. Jones, M. A. Osborne. Principled Bayesian
    Optimisation in Collaboration with Human Experts. NeurIPS 2024.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from botorch_pref.exceptions import SearchSpaceError, UnsupportedError
from botorch_pref.problems.base import PreferenceProblem, check_positive
from botorch_pref.problems.utility_experts import UtilityExpert, checked_accuracy
from botorch_pref.queries import Evaluate, Query


@dataclass(frozen=True)
class AccuracySchedule:
    r"""The accuracy of an expert who has seen ``n`` values ([Xu2024b], App. I.1).

    The text has an expert who gets better, which is ``a_n = limit (1 - exp(-rate n))``, the
    form ``"rising"``. The formula that is printed there, ``a_n = limit (1 - exp(-rate / n))``,
    falls from ``limit`` to 0: the form ``"printed"``.

    Attributes:
        rate: The rate, which the paper does not give.
        form: ``"rising"`` or ``"printed"``.
        limit: The accuracy to which the first form rises, and from which the second falls.
    """

    rate: float
    form: Literal["rising", "printed"] = "rising"
    limit: float = 2.0

    def __post_init__(self) -> None:
        check_positive(rate=self.rate)
        checked_accuracy("limit", self.limit)
        if self.form not in ("rising", "printed"):
            raise SearchSpaceError(f"form must be 'rising' or 'printed', got {self.form!r}.")

    def __call__(self, num_evaluations: int) -> float:
        r"""The accuracy.

        Args:
            num_evaluations: The number ``n`` of values seen, at least 0.

        Returns:
            The accuracy ``a_n``.
        """
        if self.form == "rising":
            return -self.limit * math.expm1(-self.rate * num_evaluations)
        if num_evaluations == 0:
            return self.limit
        return -self.limit * math.expm1(-self.rate / num_evaluations)


class TimeVaryingExpert(UtilityExpert):
    r"""A :class:`SyntheticExpert` whose accuracy depends on the number of values told so far.

    It remembers at which steps it told a value, and a label at step ``t`` counts those before
    ``t``. So every run needs an expert of its own.

    Attributes:
        schedule: The accuracy by the number of values.
        rho_range: The range, in units of the utility.
    """

    def __init__(
        self,
        problem: PreferenceProblem,
        schedule: Callable[[int], float],
        rho_range: Sequence[float] | None = None,
        *,
        initial_evaluations: int = 0,
        seed: int = 0,
        value_noise: float = 0.0,
        absence: float = 0.0,
    ) -> None:
        r"""Set what the expert knows, and will know.

        Args:
            problem: The objective.
            schedule: The accuracy by the number of values, as :class:`AccuracySchedule`.
            rho_range: As for :class:`SyntheticExpert`.
            initial_evaluations: The number of values known before the first step.
            seed: As for :class:`~botorch_pref.problems.Expert`, as are the rest.
            value_noise: See there.
            absence: See there.

        Raises:
            SearchSpaceError: As for :class:`SyntheticExpert`.
            UnsupportedError: As for :class:`SyntheticExpert`, or if ``initial_evaluations``
                is negative.
        """
        super().__init__(problem, rho_range, seed, value_noise, absence)
        if initial_evaluations < 0:
            raise UnsupportedError(
                f"initial_evaluations must be at least 0, got {initial_evaluations!r}."
            )
        self.schedule = schedule
        self._initial = initial_evaluations
        self._told: set[int] = set()

    def __call__(self, query: Query, t: int) -> float | None:
        """Answer a query as other experts do, and remember the step of a value."""
        answer = super().__call__(query, t)
        if isinstance(query, Evaluate):
            self._told.add(t)
        return answer

    def num_evaluations(self, t: int | None = None) -> int:
        r"""How many values are known.

        Args:
            t: Only those told before this step count; all if ``None``.

        Returns:
            The number, the initial ones included.
        """
        return self._initial + sum(t is None or told < t for told in self._told)

    def accuracy_at(self, t: int | None = None) -> float:
        r"""The accuracy at a step.

        Args:
            t: The step; ``None`` for now.

        Returns:
            What the schedule says.

        Raises:
            UnsupportedError: If that is not finite.
        """
        return checked_accuracy("schedule", self.schedule(self.num_evaluations(t)))
