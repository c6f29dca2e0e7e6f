r"""Prices, budget and initial design, checked."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Self, TypedDict

from botorch_pref.data.options import check_count
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.strategies.budgeted.costs import Amount, Costs, exact


class BudgetOptions(TypedDict, total=False):
    r"""The options of every strategy with a budget; see :class:`BudgetSettings`."""

    duel_cost: Amount
    value_cost: Amount
    budget: Amount | None
    num_initial_duels: int
    num_initial_values: int


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
        new = cls(**options)
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
        return asdict(self)
