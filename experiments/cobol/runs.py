r"""Experiments with an expert who accepts or rejects, over a budget of evaluations.

References:
.. [Xu2024b] W. Xu, M. Adachi, C. N. Jones, M. A. Osborne. Principled Bayesian
    Optimisation in Collaboration with Human Experts. NeurIPS 2024.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd
from matplotlib.figure import Figure

from botorch_pref.problems import ElectrolyteStandIn, PreferenceProblem
from botorch_pref.queries import Query
from botorch_pref.runner.experiment import JudgeFactory, StrategyFactory
from botorch_pref.strategies import COBOL
from experiments.baselines.expert_baselines import ExpertBaseline
from experiments.cobol.candidates import PinpointCOBOL
from experiments.experiment import Column, Experiment
from experiments.figures import View, plot_views
from experiments.problems import ExpertBenchmark

INITIAL_VALUES, INITIAL_LABELS = 3, 10
LCB, LCB_PAPER, PAPER, BOUNDED = "lcb", "lcb-paper", "cobol-paper", "cobol-bounded"
ELECTROLYTE = "electrolyte"  # beside the names of functions
_RUN = ["strategy", "seed"]
_KEPT = (
    *("panel", "function", "arm", "strategy", "seed", "step", "kind", "answer", "first_utility"),
    *("utility_regret", "simple_regret", "num_evaluations", "num_labels", "seconds"),
    *("initial", "trusted", "weight", "norm_bound", "lower", "upper"),
)
_LAST = ("weight", "norm_bound")


@dataclass(frozen=True, kw_only=True)
class Group:
    r"""Strategies that work with one expert on one function.

    Attributes:
        panel: The panel of the figure that they belong to.
        function: A name of :class:`~experiments.problems.ExpertBenchmark`, or ``ELECTROLYTE``.
        key: What the expert is called in the names of folders.
        expert: What makes the expert.
        arms: What the strategies are called in the panel, and their names in the experiment.
        steps: The most steps an evaluation, on average over a run.
    """

    panel: str
    function: str
    key: str
    expert: JudgeFactory
    arms: Mapping[str, str]
    steps: int = 6

    @property
    def folder(self) -> str:
        """Where its runs are kept; the same for the same runs in every experiment."""
        return re.sub(r"[^a-z0-9.+-]+", "_", f"{self.function}-{self.key}-{self.steps}")

    def row(self, arm: str) -> str:
        """What an arm is called in the tables."""
        return f"{self.panel}: {arm}"


@dataclass(frozen=True, kw_only=True)
class ExpertExperiment(Experiment):
    r"""Strategies that ask experts, against one that does not.

    Attributes:
        strategies: Factories by the strategies' names.
        groups: Which of them are run on which function with which expert.
    """

    unit: ClassVar[str] = "evaluations"
    shared_runs: ClassVar[str] = "bench-cobol"

    strategies: Mapping[str, StrategyFactory]
    groups: tuple[Group, ...]

    @property
    def setting(self) -> str:
        return (
            f"{super().setting} after {INITIAL_VALUES} initial values and {INITIAL_LABELS} "
            "initial labels"
        )

    @property
    def columns(self) -> tuple[Column, ...]:
        share: dict[str, Any] = {"scale": 100.0, "digits": 2, "error": False}
        return (
            Column("simple", "simple regret"),
            Column("difference", "minus LCB's"),
            Column("cumulative", "cumulative regret"),
            Column("cumulative difference", "minus LCB's, cumulative"),
            Column("labels", "labels"),
            Column("late labels", "an evaluation, 2nd half", digits=2),
            Column("trusted", "trusted, %", **share),
            Column("asked", "of these asked, %", **share),
            Column("rejected", "rejected, %", **share),
            Column("norm_bound", "norm bound", digits=2, error=False),
            Column("weight", "weight", digits=2, error=False),
            Column("evaluations", "evaluations", error=False),
            Column("seconds", "s a query", digits=2, error=False),
        )

    def run(
        self, jobs: int, directory: str | os.PathLike[str] | None, progress: bool
    ) -> pd.DataFrame:
        """A folder for each function and expert."""
        tables = []
        for group in self.groups:
            steps = INITIAL_VALUES + INITIAL_LABELS + group.steps * self.horizon
            table = self.simulated(
                _problem(group.function),
                {name: self.strategies[name] for name in group.arms.values()},
                jobs,
                directory,
                progress,
                group.folder,
                horizon=steps,
                judge=group.expert,
                recommend_every=steps,
                evaluations=INITIAL_VALUES + self.horizon,
                record=recorded,
            )
            for arm, name in group.arms.items():
                rows = table[table["strategy"] == name].reindex(columns=[*_KEPT])
                names = {"panel": group.panel, "function": group.function, "arm": arm}
                tables.append(rows.assign(**names, strategy=group.row(arm)))
        return pd.concat(tables, ignore_index=True)

    def measures(self, table: pd.DataFrame) -> pd.DataFrame:
        """Of what comes after the initial design."""
        loop = table[table["initial"] == 0.0]
        runs = loop.groupby(_RUN, sort=False)
        evaluated, asked = loop["kind"] == "evaluate", loop["kind"] == "label"
        before = loop["num_evaluations"] - INITIAL_VALUES - evaluated
        late = before >= self.horizon // 2

        def number(rows: pd.Series[bool]) -> pd.Series[float]:
            return rows.groupby([loop[name] for name in _RUN], sort=False).sum().astype(float)

        labels, made = number(asked), number(evaluated)
        simple = runs["simple_regret"].last()
        regrets = loop["simple_regret"].where(evaluated).groupby([loop[name] for name in _RUN])
        accepted = number(asked & loop["answer"].eq(1.0))
        columns: dict[str, Any] = {
            "step": self.horizon,
            "simple": simple,
            # What ended before keeps what it had.
            "average": (regrets.sum() + (self.horizon - made) * simple) / self.horizon,
            # As many evaluations of every run, or to stop early would be to have less of it.
            "cumulative": runs["utility_regret"].mean() * self.horizon,
            "labels": labels,
            "late labels": number(asked & late) / number(evaluated & late).clip(lower=1.0),
            "trusted": runs["trusted"].mean(),
            "asked": labels / runs["trusted"].sum().clip(lower=1.0),
            "rejected": number(asked & loop["answer"].eq(0.0)) / labels.clip(lower=1.0),
            "idle": number(loop["weight"].eq(0.0)) / runs.size(),
            "width": (loop["upper"] - loop["lower"])
            .groupby([loop[name] for name in _RUN], sort=False)
            .median(),
            **{name: runs[name].last() for name in _LAST},
            "evaluations": made,
            # What was accepted is evaluated without a thought.
            "seconds": runs["seconds"].sum() / (runs.size() - accepted),
        }
        found = pd.DataFrame(columns).fillna(0.0).rename_axis(_RUN)
        found.loc[found["trusted"] == 0.0, "asked"] = 0.0
        for name, metric in (("difference", "simple"), ("cumulative difference", "cumulative")):
            found[name] = found[metric] - self._of_lcb(found[metric])
        return found.loc[runs.size().index].reset_index()

    def _of_lcb(self, values: pd.Series[float]) -> list[float]:
        """For every strategy and seed the value of the strategy without an expert."""
        lcb = self._lcb_of()
        of_seed = values.to_dict()
        return [of_seed.get((lcb.get(name), seed), math.nan) for name, seed in values.index]

    def _lcb_of(self) -> dict[str, str]:
        """The row of the strategy without an expert by the rows of all."""
        played = {
            group.row(arm): (group.function, name)
            for group in self.groups
            for arm, name in group.arms.items()
        }
        rows = {key: row for row, key in played.items()}
        return {
            row: rows[function, LCB_PAPER if name in (PAPER, BOUNDED, LCB_PAPER) else LCB]
            for row, (function, name) in played.items()
        }

    def figure(self, table: pd.DataFrame) -> Figure:
        of_lcb = table[table["arm"] == LCB]
        panels = []
        for panel, rows in table.groupby("panel", sort=False):
            if not (rows["arm"] == LCB).any():
                shown = of_lcb[of_lcb["function"] == rows["function"].iloc[0]]
                rows = pd.concat([shown.assign(panel=panel), rows])
            panels.append(rows)
        views = []
        for rows in panels:
            evaluations = rows["num_evaluations"].astype(float) - INITIAL_VALUES
            loop = rows.assign(strategy=rows["arm"], evaluations=evaluations)
            loop, title = loop[evaluations >= 0], str(rows["panel"].iloc[0])
            views.append(View(title, loop, "evaluations", "simple_regret", "evaluations", True))
            views.append(View(f"{title}: labels", loop, "step", "num_labels", "steps"))
        return plot_views(views, f"{self.title}:\n{self.setting}", "simple regret, labels")


def _problem(function: str) -> PreferenceProblem:
    return ElectrolyteStandIn() if function == ELECTROLYTE else ExpertBenchmark(function)


def recorded(strategy: Any, query: Query) -> dict[str, float]:
    """What is written down of every query."""
    if isinstance(strategy, ExpertBaseline):
        return {"initial": float(strategy.is_initial(query))}
    assert isinstance(strategy, COBOL)
    why = strategy.decisions[query.id]
    found = {"initial": float(why.source == "initial")}
    if why.source == "initial" or why.reason == "accepted":
        return found
    if math.isinf(strategy.threshold) and not isinstance(strategy, PinpointCOBOL):
        return found
    values = {name: getattr(why, name) for name in (*_LAST, "lower", "upper")}
    return found | values | {"trusted": float(why.source == "augmented")}
