r"""One model of duels and values against two, and against either alone, at equal costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import pandas as pd

from botorch_pref.likelihoods import LogitLikelihood
from botorch_pref.problems import Catalyst, LogisticJudge, PreferenceProblem
from botorch_pref.queries import Query
from botorch_pref.runner.experiment import JudgeFactory
from botorch_pref.runner.simulation import Record
from botorch_pref.strategies import PFTS, CompGPUCB, CostAwareKG, RandomPairs
from experiments.baselines import GPUCB
from experiments.claims import Claim, Comparison, lower
from experiments.comp_gp_ucb.runs import (
    GP_UCB,
    INITIAL_COST,
    Arm,
    CostExperiment,
    DuelArm,
    Group,
    Task,
    View,
    recorded,
)
from experiments.comp_gp_ucb.settings import synthetic_task
from experiments.experiment import Column
from experiments.problems import Borehole, CurrinExp, DuelingChoiceJudge, FidelityProblem

MIXED, COMP, PF_TS = "cost-aware-kg", "comp", "pf-ts"
VALUES, UNBIASED = f"{MIXED}, values only", f"{MIXED}, no bias"
PANELS = {
    "CurrinExp": ("currinexp, ratio 10", "currinexp, ratio 2", "currinexp logistic, ratio 10"),
    "Borehole": ("borehole, ratio 10", "borehole, ratio 2"),
    "catalyst": ("catalyst, ratio 10", "catalyst, ratio 5", "catalyst, ratio 2"),
}
"""The panels of each problem, the first with those who know no prices of duels."""

_MIXED_COSTS = (20, 30)
_OF_DUELS = {
    "CurrinExp": ("currinexp, ratio 2",),
    "Borehole": ("borehole, ratio 2",),
    "catalyst": PANELS["catalyst"],
}  # where PF-TS is run
_BIASED = ("currinexp, ratio 10", "currinexp, ratio 2")


def mixed_claims() -> tuple[Claim, ...]:
    """The aims."""
    claims = []
    for problem, panels in PANELS.items():
        for name in (GP_UCB, COMP):
            text = f"On {problem} it recommends better items than {name} (at 20 and at 30)."
            claims.append(Claim(text, _better("recommended", panels, name)))
        ratios = ", ".join(panel.rsplit(maxsplit=1)[-1] for panel in _OF_DUELS[problem])
        text = (
            f"On {problem} it recommends better ones than {PF_TS} (ratio {ratios}; at 20 and 30)."
        )
        claims.append(Claim(text, _better("recommended", _OF_DUELS[problem], PF_TS)))
        for name in (GP_UCB, COMP):
            text = f"On {problem} the best value that it buys is better than {name}'s (at 30)."
            claims.append(Claim(text, _better("value_regret", panels, name, (30,))))
        text = f"On {problem} duels help it to recommend better items than values alone (at 20)."
        claims.append(Claim(text, _better("recommended", panels, VALUES, (20,))))
    text = "On CurrinExp, whose duels are biased, it helps to learn the bias (at 20 and at 30)."
    return (*claims, Claim(text, _better("recommended", _BIASED, UNBIASED)))


def _better(
    metric: str, panels: Sequence[str], name: str, costs: Sequence[int] = _MIXED_COSTS
) -> tuple[Comparison, ...]:
    """In every panel, of those who know no prices with their row in the first."""
    others = [panels[0] if name in (GP_UCB, VALUES) else panel for panel in panels]
    return tuple(
        comparison
        for panel, other in zip(panels, others, strict=True)
        for cost in costs
        for comparison in lower(f"{metric} at {cost}", f"{panel}: {MIXED}", f"{other}: {name}")
    )


BUDGET = 30
EVERY = 5  # units of cost, after which what is recommended is asked for
RANDOM = "random duels"
_RUN = ["strategy", "seed"]
DETERMINISTIC, LOGISTIC = "deterministic", "logistic"
_NOTES = (
    "A value costs 1 and has no noise. Whoever buys both begins with duels of random items for 5 "
    "and values of random items for 5; GP-UCB and the same rule for values alone begin with 10 "
    "random values; PF-TS and random duels choose from the first duel on.",
    f"A recommendation is asked for whenever {EVERY} more were spent, from {INITIAL_COST} on, and "
    "its regret is that of the noiseless utility, measured or not. It is the measure that is fair "
    "to those who never measure. The cost-aware rule recommends the maximiser of its posterior "
    "mean over the whole domain; it measures that with its last value, and may then recommend "
    "another one. GP-UCB and comp recommend the measured item of the largest posterior mean, PF-TS "
    "and random duels the item that was asked, or any of catalyst's.",
    "GP-UCB and values alone do not depend on the price of duels nor on who decides them: their "
    "rows are those of the problem's first panel.",
    "On CurrinExp and Borehole the item with the larger f_c wins for certain, or, logistic, with "
    "the probability 1 / (1 + exp(-(f_c - f_c'))). comp is that of the other experiments, with "
    "the paper's zeta, of which the other strategies know nothing.",
    "Catalyst: 60 compositions, those measured more than once with their mean yield, as the best "
    "of exact values is otherwise not defined. 60 values would end all questions, so the budget "
    "pays for half of them. Duels are logistic in the yield itself (of 0 to 10): there is no bias "
    "that comp would have to allow for, and gamma is 0.02 at first.",
    "Left out for their time: PF-TS on CurrinExp and Borehole with duels at a tenth of a value, "
    "where it asks 300 and finds the maxima of two draws for each: on both it is compared where "
    "duels cost half a value, which is not its best case. Likewise other ratios on both, the rule "
    "without bias on Borehole, and all but two arms of CurrinExp's logistic duels.",
)


def mixed_experiment() -> CostExperiment:
    """The comparison."""
    return MixedExperiment(
        name="comp-mixed",
        title="Duels and values by their knowledge gradient per cost",
        source="ours",
        horizon=BUDGET,
        seeds=20,
        groups=_groups(),
        claims=mixed_claims(),
        notes=_NOTES,
    )


@dataclass(frozen=True, kw_only=True)
class MixedExperiment(CostExperiment):
    """Strategies of which some never measure, compared by what they recommend."""

    claims_heading: ClassVar[str] = "What was aimed at, and whether it was seen"
    shared_runs: ClassVar[str] = ""  # with this budget the runs are no other experiment's

    @property
    def costs(self) -> tuple[int, ...]:
        marks = range(INITIAL_COST, self.horizon, EVERY)
        return (*marks, self.horizon)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self._at_costs("recommended")

    @property
    def further_columns(self) -> Mapping[str, tuple[Column, ...]]:
        plain: dict[str, Any] = {"error": False}
        return {
            "Regret R_l of values alone": self._at_costs("value_regret"),
            "Regret S of all that was asked": self._at_costs("regret"),
            "What was asked": (
                Column("duels", "duels", **plain),
                Column("values", "values", **plain),
                Column("spent", "spent", **plain),
                Column("seconds", "s a query", digits=2, **plain),
            ),
        }

    @property
    def kept(self) -> list[str]:
        return [*super().kept, "mark", "mark_regret"]

    def record(self, task: Task) -> Record:
        """With what is recommended now and then."""
        assert isinstance(task.problem, PreferenceProblem)
        return partial(recorded_with_marks, task.problem)

    def measures(self, table: pd.DataFrame) -> pd.DataFrame:
        """``recommended`` is the regret of recommendations."""
        found = super().measures(table).set_index(_RUN)
        marks = marks_of(table, self.horizon)
        ends = marks[marks["last"]].set_index(_RUN)["mark_regret"]
        for cost in self.costs:
            at = marks[(marks["mark"] == cost) & ~marks["last"]].set_index(_RUN)["mark_regret"]
            # What ended before so much was spent keeps what it had in the end.
            found[f"recommended at {cost}"] = at.reindex(ends.index).fillna(ends)
        return found.reset_index()

    def views(self, table: pd.DataFrame) -> list[View]:
        """Regrets of what is recommended, and of what was measured."""
        marks = marks_of(table, self.horizon).rename(columns={"mark": "cost"})
        views = []
        for group in self.groups:
            shown = {f"{group.panel}: recommended": (marks, "mark_regret")}
            if group.curves == "separate":
                shown[f"{group.panel}: measured"] = (table, "value_regret")
            for title, (rows, regret) in shown.items():
                seen = self._seen(group, rows).assign(strategy=lambda rows: rows["arm"])
                views.append(View(title, seen, "cost", regret, "spent, in values", True))
        return views

    def _seen(self, group: Group, rows: pd.DataFrame) -> pd.DataFrame:
        """The rows of a panel, and those of its problem that know no prices of duels."""
        panels = [one.panel for one in self.groups if one.task.name == group.task.name]
        alone = rows["arm"].isin([GP_UCB, VALUES]) & rows["panel"].isin(panels)
        return rows[alone | (rows["panel"] == group.panel)]


def recorded_with_marks(
    problem: PreferenceProblem, strategy: Any, query: Query
) -> dict[str, float]:
    """What is written down of every query, and what would be recommended without it."""
    found = recorded(strategy, query) | {"mark": math.nan, "mark_regret": math.nan}
    spent, price = strategy.spent, strategy.price(strategy.records[query.id].kind)
    mark = EVERY * (math.ceil(spent / EVERY) - 1)
    if mark >= max(spent - price, INITIAL_COST):
        if problem.choices is None:
            utility = problem(strategy.recommend().to(problem.bounds))
        else:
            utility = problem.utilities[strategy.recommend_index()]
        found |= {"mark": float(mark), "mark_regret": problem.optimal_value - float(utility)}
    return found


def marks_of(table: pd.DataFrame, budget: int) -> pd.DataFrame:
    """The regrets of recommendations, by the costs of what they rest on."""
    ends = table.drop_duplicates(_RUN, keep="last")
    ends = ends.assign(mark=float(budget), mark_regret=ends["recommendation_regret"], last=True)
    marks = table[table["mark"].notna()].assign(last=False)
    columns = ["panel", "arm", *_RUN, "mark", "mark_regret", "last"]
    return pd.concat([marks[columns], ends[columns]], ignore_index=True)


def _tasks() -> tuple[Task, ...]:
    """The problems; comp differs by what is known of their duels."""
    mixed = Arm(kind=CostAwareKG, duels=0.5, values=0.5)
    shared: Mapping[str, Arm | DuelArm] = {
        MIXED: mixed,
        UNBIASED: replace(mixed, options={"bias": 0}),
        # Whose price is beyond the budget is never bought.
        VALUES: Arm(kind=CostAwareKG, values=1.0, options={"duel_cost": "1000"}),
        GP_UCB: Arm(kind=GPUCB, values=1.0),
        PF_TS: DuelArm(PFTS),
        RANDOM: DuelArm(RandomPairs),
    }
    catalyst = Catalyst(dedupe="mean")
    unbiased: Mapping[str, Any] = {"borda_slack": 0.0, "gamma": 0.02}
    comp = Arm(kind=CompGPUCB, duels=0.5, values=0.5, options=unbiased)
    synthetic = (synthetic_task(problem) for problem in (CurrinExp(), Borehole()))
    return (
        *(replace(task, arms={**task.arms, **shared}) for task in synthetic),
        Task(
            name=catalyst.name,
            problem=catalyst,
            optimal_value=catalyst.optimal_value,
            arms={**shared, COMP: comp},
        ),
    )


def _groups() -> tuple[Group, ...]:
    """The panels; with values alone, which know no ratio, in the first of each problem."""
    currin, borehole, catalyst = _tasks()
    both = (MIXED, UNBIASED, COMP)
    duels = (PF_TS, RANDOM)
    alone = (VALUES, GP_UCB)
    return (
        _group(currin, DETERMINISTIC, 10, (*both, RANDOM, *alone)),
        _group(currin, DETERMINISTIC, 2, (*both, *duels)),
        _group(currin, LOGISTIC, 10, (MIXED, COMP)),
        _group(borehole, DETERMINISTIC, 10, (MIXED, COMP, RANDOM, *alone)),
        _group(borehole, DETERMINISTIC, 2, (MIXED, COMP, *duels)),
        _group(catalyst, LOGISTIC, 10, (MIXED, COMP, *duels, *alone)),
        _group(catalyst, LOGISTIC, 5, (MIXED, COMP, *duels)),
        _group(catalyst, LOGISTIC, 2, (MIXED, COMP, *duels)),
    )


def _judge(task: Task, duels: str) -> JudgeFactory:
    """Values without noise, and duels by the low fidelity where there is one."""
    if not isinstance(task.problem, FidelityProblem):
        return partial(LogisticJudge, value_noise=0.0)
    if duels == DETERMINISTIC:
        return DuelingChoiceJudge
    return partial(DuelingChoiceJudge, link=LogitLikelihood())


def _group(task: Task, duels: str, ratio: int, arms: tuple[str, ...]) -> Group:
    told = task.name == "currinexp" and duels == LOGISTIC
    return Group(
        panel=f"{task.name}{' logistic' if told else ''}, ratio {ratio}",
        task=task,
        key=duels,
        judge=_judge(task, duels),
        arms=arms,
        ratio=ratio,
        curves="separate" if GP_UCB in arms else True,
    )
