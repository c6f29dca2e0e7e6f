r"""Experiments with duels and values that are paid for out of one budget.

References:
.. [Xu2020] Y. Xu, A. Joshi, A. Singh, A. Dubrawski. Zeroth Order Non-convex Optimization
    with Dueling-Choice Bandits. UAI 2020.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, Literal, TypeAlias

import pandas as pd
from matplotlib.figure import Figure
from torch import Tensor

from botorch_pref.problems import PreferenceProblem
from botorch_pref.queries import Query
from botorch_pref.runner.experiment import JudgeFactory, ProblemFactory, StrategyFactory
from botorch_pref.runner.simulation import Record
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import Strategy
from botorch_pref.strategies.budgeted import BudgetedStrategy, QueryRecord, exact
from botorch_pref.strategies.comp_gp_ucb import FilterRecord
from experiments.costs import cost_regrets, regrets_at
from experiments.experiment import Column, Experiment
from experiments.figures import View, plot_views


class PricedDuels:
    r"""Pays for the duels of a strategy that knows no prices, until the budget is spent.

    It is what a simulation needs, not a strategy: who pays for duels alone has nothing to choose.

    Attributes:
        strategy: The strategy.
        duel_cost: What a duel costs.
        budget: What may be spent.
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
        """Make the strategy.

        Raises:
            ComparisonDataError: If price or budget is no positive number; names it.
        """
        self.strategy = kind(space=space, seed=seed)
        self.duel_cost, self.budget = exact("duel_cost", duel_cost), exact("budget", budget)
        self.records: list[QueryRecord] = []

    def price(self, kind: str) -> Fraction:
        """What a query costs; all are duels."""
        return self.duel_cost

    @property
    def spent(self) -> Fraction:
        """What all duels so far cost."""
        return len(self.records) * self.duel_cost

    @property
    def finished(self) -> bool:
        """Whether no duel can be paid any more."""
        return self.spent + self.duel_cost > self.budget

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
        """What makes the strategy and pays for its duels."""
        return partial(PricedDuels, self.kind, **self.settings(ratio, budget))

    def settings(self, ratio: int, budget: int) -> dict[str, Any]:
        """Price and budget; arguments as of :meth:`factory`."""
        return {"duel_cost": f"1/{ratio}", "budget": str(budget)}


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
        """What makes the strategy."""
        return partial(self.kind, **self.settings(ratio, budget))

    def settings(self, ratio: int, budget: int) -> dict[str, Any]:
        """What it is made with; arguments as of :meth:`factory`."""
        initial = budget if self.throughout else min(INITIAL_COST, budget // 2)
        prices = {"duel_cost": f"1/{ratio}", "value_cost": "1", "budget": str(budget)}
        numbers = {
            "num_initial_duels": int(initial * self.duels * ratio),
            "num_initial_values": int(initial * self.values),
        }
        return prices | numbers | {**self.options}


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
        arms: Which strategies of the task are run.
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


COSTS = (10, 20, 40, 60, 100)
_RUN = ["strategy", "seed"]
_COUNTS = ("initial", "filtered", "gamma")
_KEPT = [
    *("panel", "task", "arm", "ratio", "strategy", "seed", "step", "kind", "cost", "regret"),
    *("duel_regret", "value_regret", "recommendation_regret", "seconds", *_COUNTS),
]
_Metric: TypeAlias = "pd.Series[float]"


@dataclass(frozen=True, kw_only=True)
class CostExperiment(Experiment):
    r"""Strategies that pay for duels and values; the horizon is the budget.

    Attributes:
        groups: The panels: which strategies are run on which problem with which judge.
    """

    unit: ClassVar[str] = "units of cost, the price of a value"
    shared_runs: ClassVar[str] = "bench-comp"

    groups: tuple[Group, ...]

    @property
    def setting(self) -> str:
        return f"a budget of {self.horizon} values"

    @property
    def costs(self) -> tuple[int, ...]:
        """The amounts at which regrets are compared, the budget last."""
        return (*(cost for cost in COSTS if cost < self.horizon), self.horizon)

    @property
    def columns(self) -> tuple[Column, ...]:
        end = Column("recommendation", "recommendation's at the end")
        return (*self._at_costs("regret"), end)

    @property
    def further_columns(self) -> Mapping[str, tuple[Column, ...]]:
        plain: dict[str, Any] = {"error": False}
        return {
            "Regret R_c of the first items of duels": self._at_costs("duel_regret"),
            "Regret R_l of values alone": self._at_costs("value_regret"),
            "What was asked": (
                Column("duels", "duels", **plain),
                Column("values", "values", **plain),
                Column("spent", "spent", **plain),
                Column("gamma", "gamma at the end", **plain),
                Column("filtered", "runs in phase 2, %", scale=100.0, **plain),
                Column("seconds", "s a query", digits=2, **plain),
            ),
        }

    def _at_costs(self, metric: str) -> tuple[Column, ...]:
        return tuple(Column(f"{metric} at {cost}", f"at {cost}") for cost in self.costs)

    def run(
        self, jobs: int, directory: str | os.PathLike[str] | None, progress: bool
    ) -> pd.DataFrame:
        """A folder for each problem and judge."""
        steps = MOST_DUELS * self.horizon
        tables = []
        for group in self.groups:
            task = group.task
            table = self.simulated(
                task.problem,
                {
                    group.run(arm): task.arms[arm].factory(group.ratio, self.horizon)
                    for arm in group.arms
                },
                jobs,
                directory,
                progress,
                group.folder,
                horizon=steps,
                judge=group.judge,
                recommend_every=steps,
                record=self.record(task),
            )
            table = table.join(cost_regrets(table, task.optimal_value))
            for arm in group.arms:
                rows = table[table["strategy"] == group.run(arm)].reindex(columns=self.kept)
                names = {"panel": group.panel, "task": task.name, "arm": arm}
                tables.append(rows.assign(**names, ratio=group.ratio, strategy=group.row(arm)))
        return pd.concat(tables, ignore_index=True)

    @property
    def kept(self) -> list[str]:
        """The columns of the table that :meth:`run` returns."""
        return _KEPT

    def record(self, task: Task) -> Record:
        """What is written down of every query on a problem."""
        return recorded

    def measures(self, table: pd.DataFrame) -> pd.DataFrame:
        """Regrets of what was never asked are infinite."""
        found = self._counts(table)
        at = regrets_at(table, self.costs).set_index([*_RUN, "cost"])
        for metric in at:
            wide = at[metric].unstack("cost")
            for cost in self.costs:
                found[f"{metric} at {cost}"] = wide[cost]
        return found.reset_index()

    def _counts(self, table: pd.DataFrame) -> pd.DataFrame:
        """What was asked in each run, in the order of the table."""
        runs = table.groupby(_RUN, sort=False)
        loop = table[table["initial"] == 0.0].groupby(_RUN, sort=False)
        of_run = [table[name] for name in _RUN]
        columns: dict[str, Any] = {
            "step": self.horizon,
            "recommendation": runs["recommendation_regret"].last(),
            "duels": table["kind"].eq("duel").groupby(of_run, sort=False).sum().astype(float),
            "values": table["kind"].eq("evaluate").groupby(of_run, sort=False).sum().astype(float),
            "spent": runs["cost"].last(),
            "gamma": runs["gamma"].last(),
            "filtered": runs["filtered"].last(),
            # Where nothing but the initial design was paid, of that.
            "seconds": loop["seconds"].mean().reindex(runs.size().index),
        }
        found = pd.DataFrame(columns).fillna({"seconds": runs["seconds"].mean()}).fillna(0.0)
        return found.loc[runs.size().index].rename_axis(_RUN)

    def figure(self, table: pd.DataFrame) -> Figure:
        return plot_views(self.views(table), f"{self.title}: {self.setting}")

    def views(self, table: pd.DataFrame) -> list[View]:
        """The panels of the figure of the table that :meth:`run` returned."""
        label = "spent, in values"
        views = []
        for group in self.groups:
            rows = table[table["panel"] == group.panel].assign(strategy=lambda rows: rows["arm"])
            if group.curves:
                title = f"{group.panel}: regret S"
                views.append(View(title, rows, "cost", "regret", label, True))
            if group.curves == "separate":
                views.append(View("R_c, of duels", rows, "cost", "duel_regret", label, True))
                views.append(View("R_l, of values", rows, "cost", "value_regret", label, True))
        return views + self._over_ratios(table)

    def _over_ratios(self, table: pd.DataFrame) -> list[View]:
        """What comes of the budget at every ratio; GP-UCB asks for no duels."""
        varied = [group for group in self.groups if not group.curves]
        if not varied:
            return []
        base = next(group for group in self.groups if group.task.name == varied[0].task.name)
        panels, arms = [group.panel for group in (base, *varied)], {*varied[0].arms, GP_UCB}
        rows = table[table["panel"].isin(panels) & table["arm"].isin(arms)]
        last = rows.drop_duplicates(_RUN, keep="last")
        alone = last[last["arm"] == GP_UCB]
        repeated = [alone.assign(ratio=group.ratio) for group in (base, *varied)]
        known = pd.concat([last[last["arm"] != GP_UCB], *repeated])
        known = known.assign(strategy=known["arm"])
        label = "duels for the price of a value"
        return [View("regret S of the whole budget", known, "ratio", "regret", label, True)]


def recorded(strategy: Any, query: Query) -> dict[str, float]:
    """What is written down of every query."""
    record = strategy.records[query.id]
    found = {"initial": record.phase == "initial", "filtered": record.phase == "filtered"}
    if isinstance(record, FilterRecord):
        found["gamma"] = record.gamma
    return {name: float(value) for name, value in found.items()}
