"""The experiments with an expert: who is played, what is counted, and a tiny run."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from botorch_pref.problems import Expert, SyntheticExpert
from botorch_pref.runner.run import Run, build_strategy
from botorch_pref.strategies import COBOL
from experiments.baselines.expert_baselines import CoExBO, ExpertSampling, RandomValues
from experiments.cobol.pinpoint import PinpointCOBOL
from experiments.cobol.runs import ExpertExperiment, Group, recorded
from experiments.cobol.settings import strategies, synthetic
from experiments.papers import experiments
from experiments.problems import EXPERT_BENCHMARKS, ExpertBenchmark
from experiments.report import claims_table, report, summary

NAMES = ("cobol-robustness", "cobol-ablation", "cobol-no-harm", "cobol-variants")
BOX = torch.tensor([[0.0] * 2, [1.0] * 2], dtype=torch.float64)


def experiment_of(name: str) -> ExpertExperiment:
    experiment = experiments()[name]
    assert isinstance(experiment, ExpertExperiment)
    return experiment


def made(name: str) -> Any:
    return build_strategy(strategies()[name], ExpertBenchmark("holder2"), seed=0, horizon=9)


@pytest.mark.parametrize("name", NAMES)
def test_budgets(name: str) -> None:
    experiment = experiment_of(name)
    assert (experiment.horizon, experiment.seeds, experiment.unit) == (50, 20, "evaluations")
    assert experiment.runs_folder == "bench-cobol"
    # Runs in one folder are of one expert, and have as many steps.
    folders: dict[str, Any] = {}
    for group in experiment.groups:
        same = (repr(group.expert), group.steps, group.function)
        assert folders.setdefault(group.folder, same) == same


def test_strategies_name_all_their_settings() -> None:
    assert made("lcb").settings.threshold == math.inf
    assert made("lcb").settings.trust_weight == made("lcb").settings.rate == 0.0
    assert made("lcb").settings.num_initial_labels == 0
    assert made("cobol").settings == COBOL(bounds=BOX).settings
    assert made("cobol-paper").settings == COBOL.paper(bounds=BOX).settings
    assert made("lcb-paper").settings.lengthscale_prior is False
    assert made("cobol, eta = 100").settings.trust == 100.0
    assert made("constrained").settings.candidate == "constrained"
    assert type(made("random")) is RandomValues
    for factory in strategies().values():
        assert isinstance(factory, partial)
        assert {"trust", "slack", "norm_bound"} <= factory.keywords.keys()


def test_lcb_asks_nobody_and_takes_the_vanilla_item() -> None:
    strategy = made("lcb")
    for _ in range(5):
        query = strategy.ask()
        assert query.kind == "evaluate"
        strategy.tell(query, -float(query.items.sum()))
    assert strategy.weight == 0.0


def test_experts() -> None:
    key, make = synthetic("rosenbrock3", -2.0)
    problem = ExpertBenchmark("rosenbrock3")
    expert = make(problem, seed=1)
    assert isinstance(expert, SyntheticExpert)
    assert expert.accuracy == -2.0
    assert expert.rho_range == problem.ranges["authors"] == (-15000.0, 0.0)
    other_key, make = synthetic("rosenbrock3", -2.0, "true")
    assert make(problem, seed=1).rho_range == problem.ranges["true"]
    assert key != other_key
    for group in (group for name in NAMES for group in experiment_of(name).groups):
        assert isinstance(group.expert(ExpertBenchmark(group.function), seed=0), Expert)


def test_who_is_played_where() -> None:
    ablation = experiment_of("cobol-ablation")
    panels = {group.panel for group in ablation.groups}
    differ = ("ackley4", "rastrigin2", "rosenbrock3")
    assert panels == {*EXPERT_BENCHMARKS, *(f"{name}, true range" for name in differ)}
    lcb = ablation._lcb_of()
    assert lcb["ackley4, true range: cobol"] == "ackley4: lcb"
    assert lcb["holder2: cobol (paper)"] == "holder2: lcb (paper)"
    assert lcb["holder2: random"] == "holder2: lcb"
    assert {group.function for group in experiment_of("cobol-no-harm").groups} == {
        *EXPERT_BENCHMARKS
    }


@pytest.mark.parametrize("name", NAMES)
def test_claims_compare_what_is_played_and_measured(name: str) -> None:
    experiment = replace(experiment_of(name), horizon=2, seeds=2)
    table = made_up(experiment)
    measures = experiment.measures(table)
    assert summary(experiment, measures).notna().all(axis=None)
    rows = claims_table(experiment, measures)
    assert len(rows)
    assert (rows["verdict"] != "unknown").all()
    assert experiment.title in report(experiment, measures)
    if name != "cobol-no-harm":  # which has the panels of the ablation
        assert len(experiment.figure(table).axes) == 2 * table["panel"].nunique()


def steps_of(start: int, answers: str) -> list[dict[str, Any]]:
    """The steps of a run of three initial values: ``e`` values, ``a`` accepted, ``r`` rejected."""
    rows, values, labels, best = [], 0, 0, math.inf
    for step, letter in enumerate("eee" + answers, start=1):
        regret = float(start + 10 - step) if letter == "e" else None
        values, labels = values + (letter == "e"), labels + (letter != "e")
        best = min(best, regret or math.inf)
        rows.append(
            {
                "step": step,
                "kind": "evaluate" if letter == "e" else "label",
                "answer": {"e": regret, "a": 1.0, "r": 0.0}[letter],
                "utility_regret": regret,
                "simple_regret": best,
                "num_evaluations": values,
                "num_labels": labels,
                "seconds": 0.5,
                "initial": float(step <= 3),
                "trusted": float(letter != "e") if step > 3 else None,
                "weight": 0.5,
                "norm_bound": 2.0,
                "lower": -1.0,
                "upper": 2.0,
            }
        )
    return rows


def made_up(experiment: ExpertExperiment, answers: str = "raere") -> pd.DataFrame:
    """Two seeds of a few steps of every arm, without a simulation."""
    return pd.DataFrame(
        {
            "panel": group.panel,
            "function": group.function,
            "arm": arm,
            "strategy": group.row(arm),
            "seed": seed,
            **row,
        }
        for group in experiment.groups
        for arm in group.arms
        for seed in (0, 1)
        for row in steps_of(seed, answers if arm != "lcb" else "ee")
    )


def test_what_is_counted() -> None:
    experiment = replace(experiment_of("cobol-variants"), horizon=4, seeds=2)
    table = made_up(experiment, "raereere")
    measures = experiment.measures(table).set_index(["strategy", "seed"])
    found = measures.loc[("candidates: belief", 0)]
    # Regrets 4, 2, 1 and... the steps of evaluations are 6, 8, 9 and 11.
    assert found["simple"] == -1.0
    assert found["average"] == pytest.approx((4 + 2 + 1 - 1) / 4)
    assert found["cumulative"] == pytest.approx(4 + 2 + 1 - 1)
    assert (found["labels"], found["evaluations"]) == (4, 4)
    assert found["late labels"] == pytest.approx(1 / 2)  # before the third and the fourth
    assert found["rejected"] == pytest.approx(3 / 4)
    assert found["trusted"] == pytest.approx(4 / 8)
    assert found["asked"] == 1.0
    assert (found["width"], found["weight"], found["norm_bound"]) == (3.0, 0.5, 2.0)
    assert found["seconds"] == pytest.approx(8 * 0.5 / 7)  # the accepted one is no choice
    # LCB ended after two of four: it keeps 5.
    lcb = measures.loc[("candidates: lcb", 0)]
    assert (lcb["simple"], lcb["evaluations"], lcb["labels"]) == (5.0, 2.0, 0.0)
    assert lcb["average"] == pytest.approx((6 + 5 + 5 + 5) / 4)
    assert found["difference"] == found["simple"] - lcb["simple"]
    # Its two regrets, 6 and 5, would be twice as many.
    assert found["cumulative difference"] == found["cumulative"] - 22.0
    assert lcb["difference"] == 0.0


def test_what_is_recorded() -> None:
    strategy = COBOL(bounds=BOX, num_initial_values=1, num_initial_labels=1, threshold=0.0)
    seen = []
    for answer in (1.0, 0.0, 1.0, 2.0):
        query = strategy.ask()
        seen.append((query.kind, recorded(strategy, query)))
        strategy.tell(query, answer)
    assert seen[0] == ("evaluate", {"initial": 1.0})
    assert seen[1] == ("label", {"initial": 1.0})
    kind, asked = seen[2]
    assert kind == "label"
    assert (asked["initial"], asked["trusted"], asked["weight"]) == (0.0, 1.0, 1.0)
    assert asked["lower"] < asked["upper"]
    assert seen[3] == ("evaluate", {"initial": 0.0})
    for cls, initial in ((ExpertSampling, 3), (CoExBO, 13)):
        other = cls(bounds=BOX)
        query = other.ask()
        assert recorded(other, query) == {"initial": 1.0}
        assert other._num_initial == initial


def test_a_tiny_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = experiment_of("cobol-ablation")
    arms = {"lcb", "cobol", "random", "expert sampling"}
    # One who accepts nearly everything, as it is bad.
    key, expert = synthetic("holder2", -2)
    groups = [
        replace(
            group,
            arms={name: name for name in group.arms if name in arms},
            key=key,
            expert=expert,
        )
        for group in full.groups
        if group.panel == "holder2"
    ]
    experiment = replace(full, groups=tuple(groups), horizon=1, seeds=2)
    table = experiment.play(1, tmp_path, False)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "holder2-a-2-authors-200",
        "holder2-a-2-authors-6",
    ]
    manifest = json.loads((tmp_path / "holder2-a-2-authors-6" / "experiment.json").read_text())
    assert (manifest["evaluations"], manifest["horizon"]) == (4, 19)
    assert "accuracy=-2.0" in manifest["judge"]
    measures = experiment.measures(table)
    assert measures.notna().all(axis=None)
    assert len(measures) == 8
    assert measures["evaluations"].tolist() == [1.0] * 8
    labels = measures.set_index(["strategy", "seed"])["labels"]
    assert labels["holder2: lcb"].tolist() == labels["holder2: random"].tolist() == [0, 0]
    assert (labels["holder2: expert sampling"] >= 1).all()
    # All begin with the same values.
    first = table[(table["step"] <= 3) & (table["seed"] == 1)]
    values = first.pivot(index="step", columns="strategy", values="answer")
    assert values.nunique(axis=1).tolist() == [1, 1, 1]
    monkeypatch.setattr(Run, "play", lambda self: pytest.fail("is to be read, not played"))
    pd.testing.assert_frame_equal(experiment.play(1, tmp_path, False), table)
    assert len(experiment.figure(table).axes) == 2


def test_folders_of_groups() -> None:
    group = Group(panel="a panel", function="holder2", key="x y", expert=SyntheticExpert, arms={})
    assert group.folder == "holder2-x_y-6"
    assert group.row("arm") == "a panel: arm"


def test_the_expert_names_what_he_accepts() -> None:
    """In the proportion of his probabilities; what he names is measured, or dropped."""
    bounds = ExpertBenchmark("ackley4").bounds
    strategy = PinpointCOBOL(bounds=bounds, function="ackley4", accuracy=1.0, seed=3)
    expert = synthetic("ackley4", 1)[1](ExpertBenchmark("ackley4"), seed=0)
    named = torch.stack([strategy._drawn(seed) for seed in range(400)])
    uniform = torch.rand(20_000, 4, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    likely = expert.probability(torch.lerp(bounds[0], bounds[1], uniform))
    # Under a density in proportion to p the mean of p is E[p^2] / E[p].
    wanted = float(likely.square().mean() / likely.mean())
    found = expert.probability(named)
    assert abs(float(found.mean()) - wanted) < 4 * float(found.std()) / 20
    for _ in range(20):
        query = strategy.ask()
        strategy.tell(query, float(-query.items.abs().sum() > -3.0))
    kinds = {decision.source for decision in strategy.decisions[13:]}
    assert "augmented" in kinds
    assert not any(decision.asks for decision in strategy.decisions[13:])
