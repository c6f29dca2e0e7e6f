r"""What strategies with a budget are set to, checked."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self, TypedDict, get_args

from botorch_pref.data.checks import (
    check_count,
    checked_positive,
    endless_to_json,
    is_positive,
    plain_options,
)
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.strategies.budgeted.costs import Amount, Costs, exact
from botorch_pref.strategies.budgeted.multiples import BetaWord, LogBeta, named

LEAST_GAMMA = 0.02
_LEAST_NOISE = 1e-6  # GPyTorch's


class BudgetOptions(TypedDict, total=False):
    r"""The options of every strategy with a budget.

    See :class:`~botorch_pref.strategies.budgeted.BudgetSettings`.
    """

    duel_cost: Amount
    value_cost: Amount
    budget: Amount | None
    num_initial_duels: int
    num_initial_values: int


class ModelOptions(BudgetOptions, total=False):
    r"""Those of strategies with a model of duels and one of values.

    See :class:`~botorch_pref.strategies.budgeted.ModelSettings`.
    """

    beta: BetaWord | LogBeta | float
    borda_noise: float
    noise: float
    refit_duels: int
    refit_values: int


class WidthOptions(ModelOptions, total=False):
    r"""Those of strategies that duel what duels know little of.

    See :class:`~botorch_pref.strategies.budgeted.WidthSettings`.
    """

    gamma: float | None
    gamma_factor: float
    gamma_streak: int


@dataclass(frozen=True)
class BudgetSettings:
    r"""Prices, budget and initial design. Subclasses add the settings of their rule.

    Attributes:
        duel_cost: ``lambda_c``, the price of a duel.
        value_cost: ``lambda_l``, the price of a value.
        budget: ``Lambda``, what all queries may cost, the initial design included; None for no
            limit.
        num_initial_duels: Duels of two random items to begin with.
        num_initial_values: Values of random items to begin with.
    """

    duel_cost: str = "1/10"
    value_cost: str = "1"
    budget: str | None = None
    num_initial_duels: int = 50
    num_initial_values: int = 5

    @classmethod
    def checked(cls, **options: Any) -> Self:
        r"""Settings of a user.

        Raises:
            ComparisonDataError: If an option is unknown or out of range; names it.
        """
        names = [field.name for field in fields(cls)]
        if unknown := sorted(options.keys() - set(names)):
            raise ComparisonDataError(f"Unknown options {unknown}; there are {', '.join(names)}.")
        for name in ("duel_cost", "value_cost", "budget"):
            # Only a budget may be left open.
            if name in options and (name != "budget" or options[name] is not None):
                options[name] = str(exact(name, options[name]))
        new = cls(**plain_options(options))
        new._check()
        return new

    def _check(self) -> None:
        """Raises if a setting is out of range; to be extended."""
        for name in ("num_initial_duels", "num_initial_values"):
            check_count(name, getattr(self, name), 0)

    @property
    def costs(self) -> Costs:
        """Prices and budget."""
        exactly = exact("duel_cost", self.duel_cost), exact("value_cost", self.value_cost)
        return Costs(*exactly, None if self.budget is None else exact("budget", self.budget))

    def to_json(self) -> dict[str, Any]:
        """As plain JSON, which :meth:`checked` reads."""
        return endless_to_json(asdict(self))


@dataclass(frozen=True)
class ModelSettings(BudgetSettings):
    r"""Settings of strategies with a model of duels and one of values.

    The defaults are those of Xu, Joshi, Singh and Dubrawski (2020), App. B; both kinds of noise
    are not stated there. Hyperparameters maximise the marginal likelihood with BoTorch's
    dimension-scaled prior of the lengthscale and a log-normal prior of the variance, not, as there,
    the likelihood alone, which after a few duels may be largest at an end of its range.

    Attributes:
        beta: Multiplies standard deviations at step ``t``: ``"log"``, the paper's
            ``0.5 log(2 t)``; ``"dimension"``, ``sqrt(0.2 d log(2 d t))``; another
            :class:`~botorch_pref.strategies.budgeted.LogBeta`, also as a mapping; or a number.
        borda_noise: The variance of an answer, at least 1e-6.
        noise: The variance of the noise of a value, in squared standard deviations of all; at
            least 1e-6.
        refit_duels: After how many more duels their model's hyperparameters are learnt anew.
        refit_values: After how many more values those of the other model are.
    """

    beta: BetaWord | LogBeta | float = "log"
    borda_noise: float = 0.25
    noise: float = 1e-4
    refit_duels: int = 20
    refit_values: int = 5

    @classmethod
    def checked(cls, **options: Any) -> Self:
        """See the base; a schedule may be a mapping."""
        if isinstance(beta := options.get("beta"), Mapping):
            options["beta"] = LogBeta.read(beta)
        return super().checked(**options)

    def _check(self) -> None:
        super()._check()
        for name in ("refit_duels", "refit_values"):
            check_count(name, getattr(self, name), 1)
        for name in ("borda_noise", "noise"):
            check_noise(name, getattr(self, name))
        if not isinstance(self.beta, str | LogBeta):
            checked_positive("beta", self.beta)
        elif isinstance(self.beta, str) and self.beta not in get_args(BetaWord):
            raise ComparisonDataError(
                f"`beta` must be a number, a LogBeta, log or dimension: {self.beta!r}."
            )

    def beta_at(self, t: int, dim: int) -> float:
        """The multiple of standard deviations at step ``t = 1, 2, ...`` in ``dim`` dimensions."""
        if isinstance(self.beta, str):
            return named(self.beta, dim).at(t)
        return self.beta.at(t) if isinstance(self.beta, LogBeta) else float(self.beta)


@dataclass(frozen=True)
class WidthSettings(ModelSettings, ABC):
    r"""Settings of strategies that duel an item for as long as duels know little of it.

    Attributes:
        gamma: Below which width of the Borda function an item is measured; None for a quarter
            of the disagreement of duels and values and at least 0.02.
        gamma_factor: What ``gamma`` is multiplied by after ``gamma_streak`` duels in a row.
        gamma_streak: See there.
    """

    gamma: float | None = None
    gamma_factor: float = 2.0
    gamma_streak: int = 10

    @property
    def first_gamma(self) -> float:
        """``gamma`` before it is multiplied."""
        return max(self._disagreement() / 4, LEAST_GAMMA) if self.gamma is None else self.gamma

    def after_duel(self, gamma: float, streak: int) -> tuple[float, int]:
        """``gamma`` and the duels in a row, after one more."""
        if streak + 1 == self.gamma_streak:
            return gamma * self.gamma_factor, 0
        return gamma, streak + 1

    @abstractmethod
    def _disagreement(self) -> float:
        """By how much duels and values may disagree."""

    def _check(self) -> None:
        super()._check()
        check_count("gamma_streak", self.gamma_streak, 1)
        if self.gamma is not None and self.gamma not in (0, math.inf):
            checked_positive("gamma", self.gamma)
        if not (is_positive(self.gamma_factor) and self.gamma_factor >= 1):
            raise ComparisonDataError(
                f"`gamma_factor` must be at least 1, not {self.gamma_factor!r}."
            )


def check_noise(argument: str, value: object) -> None:
    """Checks the variance of a noise, which GPyTorch would round up.

    Raises:
        ComparisonDataError: If it is too small, or no number; names the argument.
    """
    if checked_positive(argument, value) < _LEAST_NOISE:
        raise ComparisonDataError(f"`{argument}` must be at least {_LEAST_NOISE:g}, not {value!r}.")
