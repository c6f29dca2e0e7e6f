r"""Experiments with duels and values that are paid for out of one budget.

References:
.. [Xu2020] Y. Xu, A. Joshi, A. Singh, A. Dubrawski. Zeroth Order Non-convex Optimization
    with Dueling-Choice Bandits. UAI 2020.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from torch import Tensor

from botorch_pref.problems import PreferenceProblem
from botorch_pref.queries import Query
from botorch_pref.runner import cost_regrets, regrets_at, run_experiment
from botorch_pref.runner.run import JudgeFactory, ProblemFactory, StrategyFactory
from botorch_pref.runner.simulation import Record
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import Strategy
from botorch_pref.strategies.budgeted import BudgetedStrategy, QueryRecord, exact
from experiments.experiment import Column, Experiment
from experiments.figures import carried, draw_bands, draw_legend, seeds_of


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
        self.duel_cost, self.budget = exact("duel_cost", duel_cost), exact("budget", budget)
        self.records: list[QueryRecord] = []

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
        r"""What makes the strategy and pays for its duels.

        Args:
            ratio: How many duels cost as much as a value, which costs 1.
            budget: What may be spent.
        """
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
        r"""What makes the strategy.

        Args:
            ratio: How many duels cost as much as a value, which costs 1.
            budget: What may be spent.
        """
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


_COLUMNS = 3
_ROUNDING = 1e-9  # below this share of the largest regret it is that of an optimum
_LABELS = {"cost": "spent, in values", "ratio": "duels for the price of a value"}


class View(NamedTuple):
    r"""A panel.

    Attributes:
        title: Its title.
        rows: The columns ``arm``, ``seed`` and those named.
        x: ``"cost"`` or ``"ratio"``.
        y: A regret, which is infinite before there is one.
    """

    title: str
    rows: pd.DataFrame
    x: str
    y: str


def plot_costs(views: Sequence[View], title: str) -> Figure:
    r"""Means and standard errors of regrets, in every panel in the same colours.

    Args:
        views: The panels.
        title: The title.

    Returns:
        The figure, which belongs to no window.
    """
    columns = 2 if len(views) == 4 else min(_COLUMNS, len(views))
    lines = -(-len(views) // columns)
    figure = Figure(figsize=(4.0 * columns, 3.4 * lines + 0.8), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    panels = [*figure.subplots(lines, columns, squeeze=False).flat]
    arms = pd.concat([view.rows["arm"] for view in views]).unique()
    styles = {name: number for number, name in enumerate(arms)}
    for axes, view in zip(panels, views, strict=False):
        _draw(axes, view, styles)
    for axes in panels[len(views) :]:
        axes.set_axis_off()
    draw_legend(figure, panels, seeds_of(pd.concat([view.rows for view in views])))
    figure.supylabel("regret", fontsize="medium")
    figure.suptitle(title, x=0.01, ha="left", fontsize="medium")
    return figure


def _draw(axes: Axes, view: View, styles: dict[str, int]) -> None:
    known = view.rows[view.rows[view.y] < math.inf].assign(strategy=view.rows["arm"])
    # A mean over the runs that have come so far would jump as others follow.
    regrets = carried(known, view.x, view.y)
    missing = regrets[view.y].isna().groupby([regrets["strategy"], regrets[view.x]])
    regrets = regrets[~missing.transform("any")]
    draw_bands(axes, regrets, view.x, view.y, styles, marked=view.x == "ratio")
    means = regrets.groupby(["strategy", view.x])[view.y].mean()
    positive = means[means > _ROUNDING * means.max()]
    axes.set_yscale("log")
    if len(positive):  # a mean of 0 leaves the panel at its bottom
        axes.set_ylim(0.8 * positive.min(), 1.25 * positive.max())
    axes.set_xlabel(_LABELS[view.x])
    axes.set_title(view.title, fontsize="medium", loc="left")


COSTS = (10, 20, 40, 60, 100)
_RUN = ["strategy", "seed"]
_COUNTS = ("initial", "filtered", "gamma", "empty")
_KEPT = [
    *("panel", "task", "arm", "ratio", "strategy", "seed", "step", "kind", "cost", "regret"),
    *("duel_regret", "value_regret", "recommendation_regret", "seconds", *_COUNTS),
]
_Metric: TypeAlias = "pd.Series[float]"


@dataclass(frozen=True, kw_only=True)
class CostExperiment(Experiment):
    r"""Strategies that pay for duels and values; the horizon is the budget.

    Attributes:
        groups: Who is played where, and with whom.
        references: Whose regrets are subtracted, seed by seed, from those on the same problem.
        settled: Those of them of which it is the regret at the end, at all costs.
    """

    groups: tuple[Group, ...]
    references: tuple[str, ...] = (GP_UCB,)
    settled: tuple[str, ...] = ()

    @property
    def runs_folder(self) -> str:
        """See the base class; these experiments share their runs."""
        return "bench-comp"

    @property
    def unit(self) -> str:
        """See the base class."""
        return "units of cost, the price of a value"

    @property
    def setting(self) -> str:
        """See the base class."""
        return f"a budget of {self.horizon} values"

    @property
    def costs(self) -> tuple[int, ...]:
        """The amounts at which regrets are compared, the budget last."""
        return (*(cost for cost in COSTS if cost < self.horizon), self.horizon)

    @property
    def columns(self) -> tuple[Column, ...]:
        """See the base class."""
        end = Column("recommendation", "recommendation's at the end")
        return (*self._at_costs("regret"), end)

    @property
    def further_columns(self) -> Mapping[str, tuple[Column, ...]]:
        """See the base class."""
        plain: dict[str, Any] = {"error": False}
        return {
            **{
                f"Regret S minus that of {name} under the same seed": self._at_costs(
                    f"minus {name}"
                )
                for name in self.references
            },
            "Regret R_c of the first items of duels": self._at_costs("duel_regret"),
            "Regret R_l of values alone": self._at_costs("value_regret"),
            "What was asked": (
                Column("duels", "duels", **plain),
                Column("values", "values", **plain),
                Column("spent", "spent", **plain),
                Column("gamma", "gamma at the end", **plain),
                Column("filtered", "runs in phase 2, %", scale=100.0, **plain),
                Column("empty", "empty feasible sets", digits=2, **plain),
                Column("seconds", "s a query", digits=2, **plain),
            ),
        }

    def _at_costs(self, metric: str) -> tuple[Column, ...]:
        return tuple(Column(f"{metric} at {cost}", f"at {cost}") for cost in self.costs)

    def play(
        self, jobs: int, directory: str | os.PathLike[str] | None, progress: bool
    ) -> pd.DataFrame:
        """See the base class; a folder for each problem and judge."""
        steps = MOST_DUELS * self.horizon
        tables = []
        for group in self.groups:
            task = group.task
            table = run_experiment(
                task.problem,
                {
                    group.run(arm): task.arms[arm].factory(group.ratio, self.horizon)
                    for arm in group.arms
                },
                steps,
                self.seeds,
                group.judge,
                n_jobs=jobs,
                progress=progress,
                directory=None if directory is None else Path(directory) / group.folder,
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
        """The columns of the table that :meth:`play` returns."""
        return _KEPT

    def record(self, task: Task) -> Record:
        """What is written down of every query on a problem."""
        return recorded

    def measures(self, table: pd.DataFrame) -> pd.DataFrame:
        """See the base class; regrets of what was never asked are infinite."""
        found = self._counts(table)
        at = regrets_at(table, self.costs).set_index([*_RUN, "cost"])
        for metric in at:
            wide = at[metric].unstack("cost")
            for cost in self.costs:
                found[f"{metric} at {cost}"] = wide[cost]
        for name in self.references:
            for cost in self.costs:
                regret, end = found[f"regret at {cost}"], self.costs[-1]
                other = found[f"regret at {end}"] if name in self.settled else regret
                found[f"minus {name} at {cost}"] = self.excess(regret, name, other)
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
            "empty": runs["empty"].sum(),
            # Where nothing but the initial design was paid, of that.
            "seconds": loop["seconds"].mean().reindex(runs.size().index),
        }
        found = pd.DataFrame(columns).fillna({"seconds": runs["seconds"].mean()}).fillna(0.0)
        return found.loc[runs.size().index].rename_axis(_RUN)

    def excess(self, metric: _Metric, name: str, other: _Metric | None = None) -> _Metric:
        r"""By how much a metric exceeds that of another strategy under the same seed.

        Args:
            metric: The metric by row and seed.
            name: The other strategy: that of the same panel, else of the same problem.
            other: That of the other strategy, by row and seed; the same metric if omitted.

        Returns:
            The differences by row and seed; 0 where both are infinite.
        """
        rows, of_run = self._rows_of(name), (metric if other is None else other).to_dict()
        others = [of_run[rows[row], seed] for row, seed in metric.index]
        return (metric - others).where(metric != others, 0.0)

    def _rows_of(self, name: str) -> dict[str, str]:
        """By the rows of all, the row of a strategy in the same panel or on the same problem."""
        of_task: dict[str, str] = {}
        for group in self.groups:
            if name in group.arms:
                of_task.setdefault(group.task.name, group.row(name))
        return {
            group.row(arm): group.row(name) if name in group.arms else of_task[group.task.name]
            for group in self.groups
            for arm in group.arms
        }

    def figure(self, table: pd.DataFrame) -> Figure:
        """See the base class."""
        return plot_costs(self.views(table), f"{self.title}: {self.setting}")

    def views(self, table: pd.DataFrame) -> list[View]:
        """The panels of the figure of the table that :meth:`play` returned."""
        views = []
        for group in self.groups:
            rows = table[table["panel"] == group.panel]
            if group.curves:
                views.append(View(f"{group.panel}: regret S", rows, "cost", "regret"))
            if group.curves == "separate":
                of_duels = View("R_c, of duels alone", rows, "cost", "duel_regret")
                views += [of_duels, View("R_l, of values alone", rows, "cost", "value_regret")]
        return views + self._over_ratios(table)

    def _over_ratios(self, table: pd.DataFrame) -> list[View]:
        """What comes of the budget at every ratio; values cost the same at all of them."""
        varied = [group for group in self.groups if not group.curves]
        if not varied:
            return []
        base = next(group for group in self.groups if group.task.name == varied[0].task.name)
        panels = [base.panel, *(group.panel for group in varied)]
        shown = {*varied[0].arms, *self.references}
        rows = table[table["panel"].isin(panels) & table["arm"].isin(shown)]
        last = rows.drop_duplicates(_RUN, keep="last")
        ratios = {group.ratio for group in (base, *varied)}
        same = last[last["arm"].isin(self.references)]
        rest = last[~last["arm"].isin(self.references)]
        repeated = [same.assign(ratio=ratio) for ratio in sorted(ratios)]
        title = "regret S of the whole budget"
        return [View(title, pd.concat([rest, *repeated]), "ratio", "regret")]


def recorded(strategy: Any, query: Query) -> dict[str, float]:
    r"""What is written down of every query.

    Args:
        strategy: A :class:`~botorch_pref.strategies.budgeted.BudgetedStrategy`.
        query: What it asks.

    Returns:
        ``initial``, whether it belongs to the initial design, and ``filtered``, whether to
        phase 2; of strategies that have them also ``gamma`` and ``empty``, whether nothing
        passed the filter.
    """
    record = strategy.records[query.id]
    found = {"initial": record.phase == "initial", "filtered": record.phase == "filtered"}
    found |= {name: getattr(record, name) for name in ("gamma", "empty") if hasattr(record, name)}
    return {name: float(value) for name, value in found.items()}
