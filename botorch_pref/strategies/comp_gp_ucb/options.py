r"""The settings of COMP-GP-UCB, checked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from botorch_pref.data.checks import checked_positive, is_positive
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.strategies.budgeted import WidthOptions, WidthSettings
from botorch_pref.strategies.budgeted.options import LEAST_GAMMA

LowerBound = Literal["running", "frozen", "cummax"]
Remainder = Literal["stop", "duel"]
_SLACK = 0.08
_STEEPEST = 0.25  # the slope of the logistic link


class CompGPUCBOptions(WidthOptions, total=False):
    r"""The options of :class:`~botorch_pref.strategies.CompGPUCB`; see :class:`Settings`."""

    borda_slack: float | None
    zeta: float | None
    l2: float | None
    value_range: float | None
    literal: bool
    slack_limit: float | None
    slack_factor: float
    gamma_in_phase_1: bool
    lower_bound: LowerBound
    spend_remainder: Remainder


@dataclass(frozen=True)
class Settings(WidthSettings):
    r"""What a COMP-GP-UCB strategy is set to; for ``gamma`` and the others see the bases.

    With a ``gamma`` of 0 there are no values after the initial ones. Slack and ``gamma`` are
    probabilities. They are given as such, or follow from ``zeta``: the paper's ``L_2 zeta`` and
    ``range(f) zeta``, after both functions were divided by the range of the objective, as the
    product ``range(f) zeta`` is no probability otherwise.

    Attributes:
        borda_slack: ``L_2 zeta``, at least 0: by how much, as a probability, the best item by
            value may fall short of the best in duels. 0 if duels are judged by the objective. None
            for what follows from ``zeta``, or for 0.08 without that.
        zeta: The bias of duels in units of the values, Assumption 1; at least 0. Sets the slack
            and, where that is None, ``gamma``, to at least 0.02; needs ``value_range``. Of a test
            problem see :meth:`~botorch_pref.problems.FidelityProblem.zeta`.
        l2: ``L_2``, by how much at most, as a probability, an item wins more often that is better
            by one unit of the values; see :meth:`~botorch_pref.problems.DuelLink.constants`. None
            for 1/4, that of logistic duels, per ``value_range``, or per unit if ``literal``.
        value_range: The largest minus the smallest value of the objective.
        literal: Whether ``gamma`` is ``range(f) zeta`` as printed, without a division. With a large
            range no width reaches it. For the paper's lower bound see there.
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

    borda_slack: float | None = None
    zeta: float | None = None
    l2: float | None = None
    value_range: float | None = None
    literal: bool = False
    slack_limit: float | None = None
    slack_factor: float = 2.0
    gamma_in_phase_1: bool = True
    lower_bound: LowerBound = "running"
    spend_remainder: Remainder = "stop"

    @property
    def first_slack(self) -> float:
        """``L_2 zeta`` before Algorithm 2 raises it."""
        if self.borda_slack is not None:
            return self.borda_slack
        if self.zeta is None:
            return _SLACK
        return self.l2 * self.zeta if self.l2 is not None else _STEEPEST * self.zeta / self._unit

    @property
    def first_gamma(self) -> float:
        """``gamma`` before it is multiplied."""
        if self.gamma is not None or self.zeta is None or self.value_range is None:
            return super().first_gamma
        gamma = self.value_range / self._unit * self.zeta / self._unit
        return gamma if self.literal else max(gamma, LEAST_GAMMA)

    @property
    def _unit(self) -> float:
        """What values are divided by before the paper's formulas."""
        return 1.0 if self.literal or self.value_range is None else self.value_range

    def _check(self) -> None:
        super()._check()
        checked_positive("slack_factor", self.slack_factor)
        if self.borda_slack not in (None, 0, math.inf):
            checked_positive("borda_slack", self.borda_slack)
        self._check_bias()
        for name, words in (("lower_bound", LowerBound), ("spend_remainder", Remainder)):
            if (value := getattr(self, name)) not in get_args(words):
                raise ComparisonDataError(
                    f"`{name}` must be one of {', '.join(get_args(words))}, not {value!r}."
                )
        for name in ("gamma_in_phase_1", "literal"):
            if not isinstance(value := getattr(self, name), bool):
                raise ComparisonDataError(f"`{name}` must be True or False, not {value!r}.")
        limit = self.slack_limit
        if limit is not None and not (is_positive(limit) and limit >= self.first_slack > 0):
            raise ComparisonDataError(
                "`slack_limit` must be at least the slack, which must be positive then, not "
                f"{limit!r} and {self.first_slack!r}."
            )
        if limit is not None and self.budget is None:
            raise ComparisonDataError("A `slack_limit` divides a `budget`, so give one.")

    def _check_bias(self) -> None:
        """Raises unless ``zeta`` comes with what it needs, and what needs it with ``zeta``."""
        if self.l2 is not None:
            checked_positive("l2", self.l2)
        if self.zeta is None:
            if self.literal or self.value_range is not None or self.l2 is not None:
                raise ComparisonDataError(
                    "`l2`, `value_range` and `literal` say what `zeta` amounts to, so give that."
                )
            return
        if self.zeta != 0:
            checked_positive("zeta", self.zeta)
        checked_positive("value_range", self.value_range)
        if self.borda_slack is not None:
            raise ComparisonDataError("Give `zeta` or `borda_slack`, of which one sets the other.")

    def _disagreement(self) -> float:
        return self.first_slack
