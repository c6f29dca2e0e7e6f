r"""The settings of COMP-GP-UCB, checked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from botorch_pref.data.options import checked_positive, is_positive
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.strategies.budgeted import WidthOptions, WidthSettings

LowerBound = Literal["running", "frozen", "cummax"]
Remainder = Literal["stop", "duel"]


class CompGPUCBOptions(WidthOptions, total=False):
    r"""The options of :class:`~botorch_pref.strategies.CompGPUCB`; see :class:`Settings`."""

    borda_slack: float
    slack_limit: float | None
    slack_factor: float
    gamma_in_phase_1: bool
    lower_bound: LowerBound
    spend_remainder: Remainder


@dataclass(frozen=True)
class Settings(WidthSettings):
    r"""What a COMP-GP-UCB strategy is set to; for ``gamma`` and the others see the bases.

    With a ``gamma`` of 0 there are no values after the initial ones. Slack and ``gamma`` are given
    as probabilities; to have the paper's formulas as printed, give ``borda_slack=L_2 * zeta`` and
    ``gamma=(f_max - f_min) * zeta`` in units of the values.

    Attributes:
        borda_slack: ``L_2 zeta``, at least 0: by how much, as a probability, the best item by
            value may fall short of the best in duels. 0 if duels are judged by the objective.
        slack_limit: Algorithm 2: ``L_2 zeta_max``, up to which the slack is doubled; None for
            Algorithm 1, which takes the slack for known. Needs a ``budget``.
        slack_factor: What Algorithm 2 multiplies each slack by; 2 in the paper, 1 is enough.
        gamma_in_phase_1: Whether ``gamma`` is multiplied in phase 1, which may never end otherwise.
        lower_bound: What the best item in duels is taken to reach: ``"running"``, the largest
            lower bound now; ``"frozen"``, the paper's, the bound at the last item of phase 1;
            ``"cummax"``, the largest so far since the last fit.
        spend_remainder: What happens when a value is chosen that cannot be paid any more:
            ``"stop"``, or ``"duel"`` at that item while there is money.
    """

    borda_slack: float = 0.08
    slack_limit: float | None = None
    slack_factor: float = 2.0
    gamma_in_phase_1: bool = True
    lower_bound: LowerBound = "running"
    spend_remainder: Remainder = "stop"

    def _check(self) -> None:
        super()._check()
        checked_positive("slack_factor", self.slack_factor)
        if self.borda_slack != 0 and self.borda_slack != math.inf:
            checked_positive("borda_slack", self.borda_slack)
        for name, words in (("lower_bound", LowerBound), ("spend_remainder", Remainder)):
            if (value := getattr(self, name)) not in get_args(words):
                raise ComparisonDataError(
                    f"`{name}` must be one of {', '.join(get_args(words))}, not {value!r}."
                )
        if not isinstance(self.gamma_in_phase_1, bool):
            raise ComparisonDataError(
                f"`gamma_in_phase_1` must be True or False, not {self.gamma_in_phase_1!r}."
            )
        limit = self.slack_limit
        if limit is not None and not (is_positive(limit) and limit >= self.borda_slack > 0):
            raise ComparisonDataError(
                "`slack_limit` must be at least `borda_slack`, which must be positive then, not "
                f"{limit!r} and {self.borda_slack!r}."
            )
        if limit is not None and self.budget is None:
            raise ComparisonDataError("A `slack_limit` divides a `budget`, so give one.")

    def _disagreement(self) -> float:
        return self.borda_slack
