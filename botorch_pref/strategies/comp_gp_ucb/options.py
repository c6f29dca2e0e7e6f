r"""The settings of COMP-GP-UCB, checked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from botorch_pref.data.options import check_count, checked_positive, is_positive
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.strategies.budgeted import BudgetOptions, BudgetSettings

LowerBound = Literal["running", "frozen", "cummax"]
Remainder = Literal["stop", "duel"]
Schedule = Literal["log", "dimension"]
_LEAST_GAMMA = 0.02
_COUNTS = {
    "gamma_streak": 1,
    "refit_duels": 1,
    "refit_values": 1,
}


class CompGPUCBOptions(BudgetOptions, total=False):
    r"""The options of :class:`~botorch_pref.strategies.CompGPUCB`; see :class:`Settings`."""

    borda_slack: float
    slack_limit: float | None
    slack_factor: float
    gamma: float | None
    gamma_factor: float
    gamma_streak: int
    gamma_in_phase_1: bool
    lower_bound: LowerBound
    beta: Schedule | float
    borda_noise: float
    noise: float
    refit_duels: int
    refit_values: int
    spend_remainder: Remainder


@dataclass(frozen=True)
class Settings(BudgetSettings):
    r"""What a COMP-GP-UCB strategy is set to; prices, budget and initial design as in the base.

    Attributes:
        borda_slack: ``L_2 zeta``, at least 0: by how much, as a probability, the best item by
            value may fall short of the best in duels. 0 if duels are judged by the objective.
        slack_limit: Algorithm 2: ``L_2 zeta_max``, up to which the slack is doubled; None for
            Algorithm 1, which takes the slack for known. Needs a ``budget``.
        slack_factor: What Algorithm 2 multiplies each slack by; 2 in the paper, 1 is enough.
        gamma: Below which width of the Borda function an item is measured; None for a quarter
            of ``borda_slack`` and at least 0.02. With 0 there are no values after the initial ones.
        gamma_factor: What ``gamma`` is multiplied by after ``gamma_streak`` duels in a row.
        gamma_streak: See there.
        gamma_in_phase_1: Whether that is done in phase 1, which may never end otherwise.
        lower_bound: What the best item in duels is taken to reach: ``"running"``, the largest
            lower bound now; ``"frozen"``, the paper's, the bound at the last item of phase 1;
            ``"cummax"``, the largest so far since the last fit.
        beta: Multiplies standard deviations at step ``t``: ``"log"``, the paper's
            ``0.5 log(2 t)``; ``"dimension"``, ``sqrt(0.2 d log(2 d t))``; or a number.
        borda_noise: The variance of an answer.
        noise: The variance of the noise of a value, in squared standard deviations of all.
        refit_duels: After how many more duels their model's hyperparameters are learnt anew.
        refit_values: After how many more values those of the other model are.
        spend_remainder: What happens when a value is chosen that cannot be paid any more:
            ``"stop"``, or ``"duel"`` at that item while there is money.
    """

    borda_slack: float = 0.08
    slack_limit: float | None = None
    slack_factor: float = 2.0
    gamma: float | None = None
    gamma_factor: float = 2.0
    gamma_streak: int = 10
    gamma_in_phase_1: bool = True
    lower_bound: LowerBound = "running"
    beta: Schedule | float = "log"
    borda_noise: float = 0.25
    noise: float = 1e-4
    refit_duels: int = 20
    refit_values: int = 5
    spend_remainder: Remainder = "stop"

    def _check(self) -> None:
        super()._check()
        self._check_numbers()
        for name, words in (("lower_bound", LowerBound), ("spend_remainder", Remainder)):
            if (value := getattr(self, name)) not in get_args(words):
                raise ComparisonDataError(
                    f"`{name}` must be one of {', '.join(get_args(words))}, not {value!r}."
                )
        if self.slack_limit is not None and self.budget is None:
            raise ComparisonDataError("A `slack_limit` divides a `budget`, so give one.")

    def _check_numbers(self) -> None:
        for name, least in _COUNTS.items():
            check_count(name, getattr(self, name), least)
        for name in ("borda_noise", "noise", "slack_factor"):
            checked_positive(name, getattr(self, name))
        for name in ("borda_slack", "gamma"):
            value = getattr(self, name)
            if value is not None and value != math.inf and value != 0:
                checked_positive(name, value)
        if not isinstance(self.beta, str):
            checked_positive("beta", self.beta)
        elif self.beta not in get_args(Schedule):
            raise ComparisonDataError(f"`beta` must be a number, log or dimension: {self.beta!r}.")
        if not (is_positive(self.gamma_factor) and self.gamma_factor >= 1):
            raise ComparisonDataError(
                f"`gamma_factor` must be at least 1, not {self.gamma_factor!r}."
            )
        limit = self.slack_limit
        if limit is not None and not (is_positive(limit) and limit >= self.borda_slack > 0):
            raise ComparisonDataError(
                "`slack_limit` must be at least `borda_slack`, which must be positive then, not "
                f"{limit!r} and {self.borda_slack!r}."
            )

    @property
    def first_gamma(self) -> float:
        """``gamma`` before it is multiplied."""
        return max(self.borda_slack / 4, _LEAST_GAMMA) if self.gamma is None else self.gamma

    def beta_at(self, t: int, dim: int) -> float:
        """The multiple of standard deviations at step ``t = 1, 2, ...`` in ``dim`` dimensions."""
        if not isinstance(self.beta, str):
            return float(self.beta)
        if self.beta == "log":
            return 0.5 * math.log(2 * t)
        return math.sqrt(0.2 * dim * math.log(2 * dim * t))
