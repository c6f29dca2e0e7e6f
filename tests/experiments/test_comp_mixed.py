"""The cost-aware rule and its peers: who is played, when recommendations are asked for."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from botorch_pref.problems import Catalyst, CurrinExp, DuelingChoiceJudge
from botorch_pref.runner.run import Run, build_strategy
from botorch_pref.strategies import CostAwareKG
from experiments.baselines import GPUCB, RandomDuels
from experiments.comp_gp_ucb.groups import Group
from experiments.comp_gp_ucb.mixed import (
    EVERY,
    MixedExperiment,
    marks_of,
    recorded_with_marks,
)
from experiments.comp_gp_ucb.mixed_claims import MIXED, PANELS, UNBIASED, VALUES
from experiments.comp_gp_ucb.runs import recorded
from experiments.papers import experiments
from experiments.report import claims_table, report


def experiment() -> MixedExperiment:
    found = experiments()["comp-mixed"]
    assert isinstance(found, MixedExperiment)
    return found


def group_of(panel: str) -> Group:
    return next(group for group in experiment().groups if group.panel == panel)


def test_panels() -> None:
    full = experiment()
    assert [group.panel for group in full.groups] == [
        name for row in PANELS.values() for name in row
    ]
    assert (full.horizon, full.seeds, full.costs) == (30, 20, (10, 15, 20, 25, 30))
    assert full.runs_folder == "bench-comp-mixed"  # another budget than that of other experiments
    for problem in ("currinexp", "borehole", "catalyst"):
        assert group_of(f"{problem}, ratio 2").ratio == 2
        first = group_of(f"{problem}, ratio 10")
        assert {"gp-ucb", VALUES, "comp", MIXED} <= {*first.arms}
        assert {"pf-ts", "random duels"} <= {*group_of(f"{problem}, ratio 2").arms}


def test_who_decides() -> None:
    def judge_of(panel: str) -> DuelingChoiceJudge:
        group = group_of(panel)
        judge = group.judge(group.task.problem, seed=0)
        assert isinstance(judge, DuelingChoiceJudge)
        return judge

    assert judge_of("currinexp, ratio 2").link.kind == "deterministic"
    assert judge_of("currinexp, ratio 2").comparison.name == "currinexplow"
    logistic = judge_of("currinexp logistic, ratio 10").link
    assert (logistic.kind, logistic.scale) == ("logistic", 1.0)
    catalyst = judge_of("catalyst, ratio 10")
    assert catalyst.comparison is catalyst.problem
    assert catalyst.link == logistic
    assert len(catalyst.problem.utilities) == 60


def test_arms() -> None:
    def made(panel: str, arm: str, budget: int = 30) -> Any:
        group = group_of(panel)
        problem = group.task.problem
        factory = group.task.arms[arm].factory(group.ratio, budget)
        return build_strategy(factory, problem, seed=0, horizon=300)  # type: ignore[arg-type]

    rule = made("currinexp, ratio 10", MIXED)
    assert isinstance(rule, CostAwareKG)
    settings = rule.settings
    assert (settings.num_initial_duels, settings.num_initial_values) == (50, 5)
    assert settings.bias is None
    assert made("currinexp, ratio 2", UNBIASED).settings.bias == 0
    assert made("currinexp, ratio 2", UNBIASED).settings.num_initial_duels == 10
    alone = made("borehole, ratio 10", VALUES)
    assert isinstance(alone, CostAwareKG)
    assert alone.settings.num_initial_values == 10
    assert not alone._affords("duel")
    comp = made("catalyst, ratio 2", "comp").settings
    assert (comp.borda_slack, comp.gamma, comp.duel_cost) == (0.0, 0.02, "1/2")
    assert made("catalyst, ratio 2", "pf-ts").settings.costs.budget == 30


def played(strategy: Any, problem: Any, steps: int) -> list[tuple[float, float, float]]:
    """What was spent before each query, the mark and its regret."""
    judge, found = DuelingChoiceJudge(problem), []
    for step in range(1, steps + 1):
        before = float(strategy.spent)
        query = strategy.ask()
        row = recorded_with_marks(problem, strategy, query)
        found.append((before, row["mark"], row["mark_regret"]))
        strategy.tell(query, judge(query, step))
    return found


def test_recommendations_rest_on_what_was_paid_so_far() -> None:
    problem = CurrinExp()
    options: dict[str, Any] = {"bounds": problem.bounds, "num_initial_values": 22}
    rows = played(GPUCB(**options), problem, 21)
    assert [(before, mark) for before, mark, _ in rows if not math.isnan(mark)] == [
        (10.0, 10.0),
        (15.0, 15.0),
        (20.0, 20.0),
    ]
    strategy, judge = GPUCB(**options), DuelingChoiceJudge(problem)
    for step in range(1, 16):
        query = strategy.ask()
        strategy.tell(query, judge(query, step))
    expected = problem.optimal_value - float(problem(strategy.recommend()))
    assert rows[15][2] == pytest.approx(expected)
    assert all(math.isnan(row[2]) for row in rows if math.isnan(row[1]))


def test_prices_that_hit_no_mark() -> None:
    problem = Catalyst(dedupe="mean")
    strategy = RandomDuels(
        choices=problem.choices, duel_cost="3/2", num_initial_duels=99, refit_duels=99
    )
    rows = played(strategy, problem, 11)
    # A duel that would cost beyond 10 comes after 9, and one beyond 15 after just that.
    marks = [(before, mark) for before, mark, _ in rows if not math.isnan(mark)]
    assert marks == [(9.0, 10.0), (15.0, 15.0)]
    assert rows[6][2] >= 0.0


def rows_of(group: Group, arm: str, seed: int) -> list[dict[str, Any]]:
    """A run with marks at 10, 15, 20 and 25, or one that ended at 18 after that at 15."""
    short = arm == UNBIASED
    better = 0.5 if arm == MIXED else 1.0
    costs = [5.0, 11.0, 16.0, 18.0] if short else [5.0, 11.0, 16.0, 21.0, 26.0, 30.0]
    duels = arm in ("pf-ts", "random duels")
    rows = []
    for step, cost in enumerate(costs):
        mark = math.nan if step == 0 or cost in (18.0, 30.0) else cost - 1.0
        rows.append(
            {
                "panel": group.panel,
                "task": group.task.name,
                "arm": arm,
                "ratio": group.ratio,
                "strategy": group.row(arm),
                "seed": seed,
                "step": step + 1,
                "kind": "duel" if duels or step == 0 else "evaluate",
                "cost": cost,
                "regret": 8.0 - step,
                "duel_regret": 9.0 - step,
                "value_regret": math.inf if duels or step == 0 else 9.0 - step + 0.1 * seed,
                "recommendation_regret": better if cost == costs[-1] else math.nan,
                "seconds": 0.1,
                "initial": float(step == 0),
                "mark": mark,
                "mark_regret": better * (7.0 - step) + 0.1 * seed if mark == mark else math.nan,
            }
        )
    return rows


@pytest.fixture(name="table", scope="module")
def made_up() -> pd.DataFrame:
    """Two seeds of every arm, without a simulation."""
    return pd.DataFrame(
        row
        for group in experiment().groups
        for arm in group.arms
        for seed in (0, 1)
        for row in rows_of(group, arm, seed)
    ).assign(filtered=0.0, gamma=math.nan, empty=0.0)


def test_what_is_measured(table: pd.DataFrame) -> None:
    measures = experiment().measures(table).set_index(["strategy", "seed"])
    assert measures.notna().all(axis=None)
    found = measures.loc[("currinexp, ratio 10: comp", 1)]
    at = [found[f"recommended at {cost}"] for cost in (10, 15, 20, 25, 30)]
    assert at == pytest.approx([6.1, 5.1, 4.1, 3.1, 1.0])
    # What ended at 18 keeps its last recommendation.
    short = measures.loc[("currinexp, ratio 2: " + UNBIASED, 0)]
    at = [short[f"recommended at {cost}"] for cost in (10, 15, 20, 25, 30)]
    assert at == pytest.approx([6.0, 5.0, 1.0, 1.0, 1.0])
    mixed = measures.loc[("currinexp, ratio 2: " + MIXED, 1)]
    assert mixed["recommended minus comp at 10"] == pytest.approx(3.1 - 6.1)
    assert mixed["recommended minus gp-ucb at 30"] == pytest.approx(-0.5)
    assert mixed["value_regret minus gp-ucb at 20"] == 0.0
    assert math.isinf(measures.loc[("catalyst, ratio 2: pf-ts", 0)]["value_regret at 30"])


def test_differences_are_taken_in_the_panel(table: pd.DataFrame) -> None:
    panel = table["panel"].eq("currinexp logistic, ratio 10")
    table = table.copy()
    table.loc[panel & table["arm"].eq("comp"), "mark_regret"] = 0.0
    measures = experiment().measures(table).set_index(["strategy", "seed"])
    metric = "recommended minus comp at 10"
    name = f"currinexp logistic, ratio 10: {MIXED}"
    assert measures.loc[(name, 0), metric] == 3.0
    assert measures.loc[("currinexp, ratio 10: random duels", 0), metric] == 0.0


def test_aims_compare_what_is_played_and_measured(table: pd.DataFrame) -> None:
    full = experiment()
    measures = full.measures(table)
    claims = claims_table(full, measures)
    assert (claims["verdict"] != "unknown").all()
    assert claims["first"].str.endswith(MIXED).all()
    text = report(full, measures)
    assert "What was aimed at" in text
    assert "paper says" not in text
    assert "∞ ±" not in text


def test_the_figure(table: pd.DataFrame) -> None:
    full = experiment()
    views = full.views(table)
    titles = [view.title for view in views]
    assert titles[:3] == [
        "currinexp, ratio 10: recommended",
        "currinexp, ratio 10: measured",
        "currinexp, ratio 2: recommended",
    ]
    assert len(views) == len(full.groups) + 3
    # Who knows no prices of duels is shown at every one.
    assert {"gp-ucb", VALUES, "pf-ts"} <= {*views[2].rows["arm"]}
    assert not {*views[2].rows["strategy"]} & {"borehole, ratio 10: gp-ucb"}
    marks = marks_of(table, 30)
    run = marks[(marks["strategy"] == "currinexp, ratio 10: comp") & (marks["seed"] == 0)]
    assert run["mark"].tolist() == [10.0, 15.0, 20.0, 25.0, 30.0]
    assert run["last"].tolist() == [False] * 4 + [True]
    assert EVERY == 5


def test_a_tiny_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = experiment()
    arms = ("random duels", "gp-ucb")
    groups = [
        replace(group, arms=arms) for group in full.groups if group.panel == "catalyst, ratio 10"
    ]
    small = replace(full, groups=tuple(groups), horizon=2, seeds=1, references=("gp-ucb",))
    assert small.costs == (2,)
    table = small.play(1, tmp_path, False)
    assert [path.name for path in tmp_path.iterdir()] == ["catalyst-logistic"]
    measures = small.measures(table).set_index(["strategy", "seed"])
    assert measures.notna().all(axis=None)
    assert (measures["recommended at 2"] == measures["recommendation"]).all()
    assert measures.loc[("catalyst, ratio 10: random duels", 0), "duels"] == 20
    assert measures.loc[("catalyst, ratio 10: gp-ucb", 0), "values"] == 2
    monkeypatch.setattr(Run, "play", lambda self: pytest.fail("is to be read, not played"))
    pd.testing.assert_frame_equal(small.play(1, tmp_path, False), table)


def test_recommending_changes_no_query() -> None:
    problem = Catalyst(dedupe="mean")

    def items(record: Any) -> list[Any]:
        strategy = GPUCB(choices=problem.choices, num_initial_values=10)
        judge, asked = DuelingChoiceJudge(problem), []
        for step in range(1, 14):
            query = strategy.ask()
            record(strategy, query)
            asked.append(query.indices)
            strategy.tell(query, judge(query, step))
        return asked

    assert items(recorded) == items(partial(recorded_with_marks, problem))
