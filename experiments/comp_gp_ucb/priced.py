r"""Strategies that ask duels alone, where duels have a price."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from torch import Tensor

from botorch_pref.queries import Query
from botorch_pref.runner.run import StrategyFactory
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import Strategy
from botorch_pref.strategies.budgeted import BudgetSettings, QueryRecord


class PricedDuels:
    r"""Pays for the duels of a strategy that knows no prices, until the budget is spent.

    It is what a simulation needs, not a strategy: who pays for duels alone has nothing to choose.

    Attributes:
        strategy: The strategy.
        settings: Price and budget.
        records: The duels that were paid for, by the number of the query.
    """

    def __init__(
        self,
        kind: Callable[..., Strategy],
        duel_cost: str,
        budget: str,
        *,
        space: SearchSpace,
        seed: int,
    ) -> None:
        r"""Make the strategy.

        Args:
            kind: What makes it of a space and a seed.
            duel_cost: What a duel costs.
            budget: What may be spent.
            space: The domain.
            seed: The seed of the strategy.

        Raises:
            ComparisonDataError: If price or budget is no positive number; names it.
        """
        self.strategy = kind(space=space, seed=seed)
        self.settings = BudgetSettings.checked(duel_cost=duel_cost, budget=budget)
        self.records: list[QueryRecord] = []

    @property
    def spent(self) -> Fraction:
        """What all duels so far cost."""
        return self.settings.costs.spent(len(self.records), 0)

    @property
    def finished(self) -> bool:
        """Whether no duel can be paid any more."""
        costs = self.settings.costs
        return not costs.affords(costs.duel, self.spent)

    def ask(self) -> Query:
        """The open duel, or a new one, which is paid for."""
        query = self.strategy.ask()
        if query.id == len(self.records):
            self.records.append(QueryRecord("duel", "duels"))
        return query

    def tell(self, query: Query, answer: float | None) -> None:
        """Pass the answer on."""
        self.strategy.tell(query, answer)

    def recommend(self) -> Tensor:
        """What the strategy recommends."""
        return self.strategy.recommend()

    def recommend_index(self) -> int:
        """Its row in the choices."""
        return self.strategy.recommend_index()


@dataclass(frozen=True)
class DuelArm:
    r"""A strategy that knows no prices; it has no initial design but its own.

    Attributes:
        kind: Its class.
    """

    kind: Callable[..., Strategy]

    def factory(self, ratio: int, budget: int) -> StrategyFactory:
        r"""What makes the strategy and pays for its duels.

        Args:
            ratio: How many duels cost as much as a value, which costs 1.
            budget: What may be spent.
        """
        return partial(PricedDuels, self.kind, **self.settings(ratio, budget))

    def settings(self, ratio: int, budget: int) -> dict[str, Any]:
        """Price and budget; arguments as of :meth:`factory`."""
        return {"duel_cost": f"1/{ratio}", "budget": str(budget)}
