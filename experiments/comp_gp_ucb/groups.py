r"""Which strategies spend a budget, on what, with whom, and at which prices.

References:
.. [Xu2020] Y. Xu, A. Joshi, A. Singh, A. Dubrawski. Zeroth Order Non-convex Optimization
    with Dueling-Choice Bandits. UAI 2020.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from botorch_pref.problems import PreferenceProblem
from botorch_pref.runner.run import JudgeFactory, ProblemFactory, StrategyFactory
from botorch_pref.strategies.budgeted import BudgetedStrategy
from experiments.comp_gp_ucb.priced import DuelArm

GP_UCB = "gp-ucb"
INITIAL_COST = 10  # of the initial design ([Xu2020], App. B), and half the budget if that is less
MOST_DUELS = 10  # for the price of a value


@dataclass(frozen=True, kw_only=True)
class Arm:
    r"""A strategy with a budget, and what it spends its initial design on.

    Attributes:
        kind: Its class.
        duels: The share of the initial design's cost that is spent on duels of random items.
        values: That which is spent on values of random items.
        throughout: Whether the shares are of the whole budget, so that all is random.
        options: Its options, but for prices, budget and initial design.
    """

    kind: type[BudgetedStrategy]
    duels: float = 0.0
    values: float = 0.0
    throughout: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)

    def factory(self, ratio: int, budget: int) -> StrategyFactory:
        r"""What makes the strategy; every setting is named, so that runs tell them apart.

        Args:
            ratio: How many duels cost as much as a value, which costs 1.
            budget: What may be spent.
        """
        return partial(self.kind, **self.settings(ratio, budget))

    def settings(self, ratio: int, budget: int) -> dict[str, Any]:
        """All settings of the strategy; arguments as of :meth:`factory`."""
        initial = budget if self.throughout else min(INITIAL_COST, budget // 2)
        prices = {"duel_cost": f"1/{ratio}", "value_cost": "1", "budget": str(budget)}
        numbers = {
            "num_initial_duels": int(initial * self.duels * ratio),
            "num_initial_values": int(initial * self.values),
        }
        return self.kind.settings_type.checked(**prices | numbers | {**self.options}).to_json()


@dataclass(frozen=True, kw_only=True)
class Task:
    r"""A problem, and the strategies that may work on it.

    Attributes:
        name: Its name, also in the names of folders.
        problem: The problem, or what makes it of the seed.
        optimal_value: The largest utility, of every seed.
        arms: The strategies by name.
    """

    name: str
    problem: PreferenceProblem | ProblemFactory
    optimal_value: float
    arms: Mapping[str, Arm | DuelArm]


@dataclass(frozen=True, kw_only=True)
class Group:
    r"""Strategies on one problem with one judge, duels at one price.

    Attributes:
        panel: What the rows of these runs begin with.
        task: The problem.
        key: What the judge is called in the names of folders.
        judge: What makes the judge.
        arms: Which strategies of the task are played.
        ratio: How many duels cost as much as a value.
        curves: Whether the figure has their regrets over the cost spent: with ``"separate"``
            also those of duels and values alone; else what comes of the budget belongs to a
            curve over the ratios.
    """

    panel: str
    task: Task
    key: str
    judge: JudgeFactory
    arms: tuple[str, ...]
    ratio: int = MOST_DUELS
    curves: bool | Literal["separate"] = True

    @property
    def folder(self) -> str:
        """Where its runs are kept; the same for the same runs in every experiment."""
        return re.sub(r"[^a-z0-9.+-]+", "_", f"{self.task.name}-{self.key}")

    def row(self, arm: str) -> str:
        """What an arm is called in the tables."""
        return f"{self.panel}: {arm}"

    def run(self, arm: str) -> str:
        """What the strategy is called where its runs are kept."""
        return f"{arm}, ratio {self.ratio}"
