r"""How far PF-TS explores: what multiplies the standard deviation of its draws.

All are stated for the unit kernel, as in Lazzaro et al. (2026): ``v_t`` with penalty
``lambda``. A model's own standard deviation is ``lambda ** -0.5`` times the unit one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from botorch_pref.data.checks import is_positive
from botorch_pref.exceptions import ComparisonDataError


class Schedule(NamedTuple):
    r"""An exploration scale as a function of the round.

    Attributes:
        kind: ``"bayes"``, ``"paper"``, ``"theory"`` or ``"constant"``.
        value: The constant of ``"constant"``; for ``"bayes"`` what the posterior standard
            deviation is multiplied by.
        norm_bound: ``B`` of ``"theory"``, a bound on the norm of the utility.
        delta: The failure probability of ``"theory"``.
    """

    kind: str = "bayes"
    value: float = 1.0
    norm_bound: float = 1.0
    delta: float = 0.05

    def scale(self, step: int, penalty: float, kappa: float, gain: float) -> float:
        r"""``v_t`` for the unit kernel.

        Args:
            step: The round ``t``, from 1.
            penalty: ``lambda``.
            kappa: The inverse curvature of the covariance, for ``"theory"``.
            gain: Realised information gain of the data so far, for ``"theory"``.

        Returns:
            ``value lambda ** -0.5`` for ``"bayes"``; ``(t + 1 + log 40) ** 0.25`` for
            ``"paper"`` (sec. F.1); ``4 B + 2 sqrt(2 kappa / lambda (gain + log 1/delta))``
            for ``"theory"`` (eq. 12); the constant.
        """
        if self.kind == "bayes":
            return self.value * penalty**-0.5
        if self.kind == "paper":
            return (step + 1 + math.log(40)) ** 0.25
        if self.kind == "theory":
            width = 2 * kappa / penalty * (gain + math.log(1 / self.delta))
            return 4 * self.norm_bound + 2 * math.sqrt(width)
        return self.value


def as_schedule(schedule: str | float | Schedule | Mapping[str, Any]) -> Schedule:
    r"""A schedule from its name, a constant, or its fields.

    Raises:
        ComparisonDataError: If ``schedule`` names none, or is not positive and finite.
    """
    found = Schedule("")  # names none
    if isinstance(schedule, Schedule):
        found = schedule
    elif isinstance(schedule, Mapping):
        if set(schedule) - set(Schedule._fields):
            raise ComparisonDataError(f"`schedule` has unknown fields: {dict(schedule)!r}.")
        found = Schedule(**schedule)
    elif isinstance(schedule, str):
        found = Schedule(schedule)
    elif isinstance(schedule, int | float) and not isinstance(schedule, bool):
        found = Schedule("constant", value=float(schedule))
    if found.kind not in ("bayes", "paper", "theory", "constant"):
        raise ComparisonDataError(
            "`schedule` must be bayes, paper, theory, a positive number or a Schedule, got "
            f"{schedule!r}."
        )
    for name, value in zip(Schedule._fields[1:], found[1:], strict=True):
        if not is_positive(value) or (name == "delta" and value > 1):
            raise ComparisonDataError(
                f"`schedule` has {name} {value!r}; all its numbers are positive and finite, and "
                "delta is a probability."
            )
    return found
