"""The experiments of the POP-BO paper: what strategies are told, and tiny runs."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from botorch_pref.problems import PreferenceProblem, ThermalComfort
from botorch_pref.runner.run import Run, StrategyFactory, build_strategy
from botorch_pref.strategies import POPBO, UtilityStrategy
from experiments.experiment import Experiment
from experiments.papers import experiments
from experiments.pop_bo import table2 as module
from experiments.pop_bo.band import BandExperiment
from experiments.pop_bo.beliefs import fitted_lengthscale
from experiments.pop_bo.table2 import Table2Experiment
from experiments.pop_bo.utility_regret import UtilityExperiment
from experiments.problems import STANDARDISED_FUNCTIONS, GPSample, StandardisedFunction
from experiments.report import claims_table, report, summary

ALL = experiments()
SAMPLES = ("pop-gp", "pop-7d", "pop-12d")
METHODS = ["pop-bo", "eubo", "dts", "sgp", "pf-ts", "random"]


def utility(name: str) -> UtilityExperiment:
    experiment = ALL[name]
    assert isinstance(experiment, UtilityExperiment)
    return experiment


def problem_of(experiment: UtilityExperiment, seed: int) -> PreferenceProblem:
    problem = experiment.problem()
    return problem if isinstance(problem, PreferenceProblem) else problem(seed)


def table2() -> Table2Experiment:
    experiment = ALL["pop-table2"]
    assert isinstance(experiment, Table2Experiment)
    return experiment


def options(factory: StrategyFactory, problem: PreferenceProblem) -> dict[str, Any]:
    made = build_strategy(factory, problem, seed=0, horizon=10)
    assert isinstance(made, UtilityStrategy)
    found = made.state_dict()["options"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("name", "horizon", "seeds"),
    [
        ("pop-gp", 50, 30),
        ("pop-table2", 30, 30),
        ("pop-7d", 100, 20),
        ("pop-12d", 100, 10),
        ("thermal-2d", 30, 30),
        ("thermal-4d", 30, 30),
        ("pop-band", 30, 30),
    ],
)
def test_horizons_and_seeds(name: str, horizon: int, seeds: int) -> None:
    assert (ALL[name].horizon, ALL[name].seeds) == (horizon, seeds)


@pytest.mark.parametrize("name", [*SAMPLES, "thermal-2d", "thermal-4d"])
def test_all_methods_have_one_kernel(name: str) -> None:
    experiment = utility(name)
    assert [*experiment.strategies][:6] == METHODS
    problem = problem_of(experiment, 1)
    kernels = [
        options(factory, problem)["hyperparameters"] for factory in experiment.strategies.values()
    ]
    assert all(kernel == kernels[0] for kernel in kernels)


@pytest.mark.parametrize(("name", "seed"), [*product(SAMPLES, (0, 3))])
def test_samples_have_the_true_kernel_and_norm(name: str, seed: int) -> None:
    experiment = utility(name)
    problem = problem_of(experiment, seed)
    assert isinstance(problem, GPSample)
    dim = {"pop-gp": 1, "pop-7d": 7, "pop-12d": 12}[name]
    assert problem.dim == dim
    assert (problem.choices is None) == (dim > 1)
    found = options(experiment.strategies["pop-bo"], problem)
    lengthscale = (1.0 if dim == 1 else 5 * dim**0.5) / 10 / 2**0.5
    kernel = {"kernel": "rbf", "lengthscale": lengthscale, "outputscale": 9.0}
    assert found["hyperparameters"] == pytest.approx(kernel)
    assert found["norm_bound"] == pytest.approx(1.1 * problem.norm)
    assert found["slack"]["rule"] == "sqrt"
    assert (found["slack"]["scale"], found["slack"]["offset"]) == (1.0, 0.0)
    assert (found["adapt_norm_bound"], found["value_bound"]) == (False, None)


def test_every_sample_knows_its_maximum() -> None:
    for name in SAMPLES[1:]:
        experiment = utility(name)
        # Of the first few seeds: the search takes a tenth of a second each.
        assert all(problem_of(experiment, seed).optimal_value > 0 for seed in range(4))


def test_the_paper_reports_in_two_ways() -> None:
    strategies = utility("pop-gp").strategies
    problem = problem_of(utility("pop-gp"), 0)
    reports = [options(strategies[name], problem)["report"] for name in ("pop-bo", "pop-bo (t*)")]
    assert reports == ["max-mle", "min-sigma"]


def test_comfort() -> None:
    for dim, bound in ((2, 3.0), (4, 6.0)):
        experiment = utility(f"thermal-{dim}d")
        problem = problem_of(experiment, 0)
        assert isinstance(problem, ThermalComfort)
        assert problem.dim == dim
        assert options(experiment.strategies["pop-bo"], problem)["norm_bound"] == bound


def test_the_fitted_lengthscales() -> None:
    # Of the scale on which the functions vary: Branin's valleys are a quarter of the box wide,
    # the egg holder's a twentieth.
    assert 0.15 < fitted_lengthscale("branin") < 0.35
    assert 0.02 < fitted_lengthscale("eggholder") < 0.08
    assert fitted_lengthscale("branin") == fitted_lengthscale.__wrapped__("branin")


def test_the_recipes_of_table_2() -> None:
    strategies = table2().strategies
    assert [*strategies["text"]] == METHODS
    found = options(strategies["text"]["pop-bo"], StandardisedFunction("branin"))
    assert found["norm_bound"] == 6.0
    assert found["hyperparameters"]["kernel"] == "rbf"
    assert found["hyperparameters"]["lengthscale"] == fitted_lengthscale("branin")
    assert found["hyperparameters"]["outputscale"] == 1.0
    ((name, factory),) = strategies["toolbox"].items()
    assert name == "pop-bo (toolbox)"
    problem = StandardisedFunction("bukin", "toolbox")
    found = options(factory, problem)
    assert (found["norm_bound"], found["value_bound"]) == (4.0, 3.0)
    assert (found["slack"]["scale"], found["slack"]["offset"]) == (3.0, 1.0)
    assert found["hyperparameters"]["kernel"] == "matern"
    assert found["hyperparameters"]["lengthscale"] == problem.unit_lengthscale


def test_what_the_paper_prints() -> None:
    printed = table2().printed
    assert [*printed][:4] == ["DTS (paper)", "qEUBO (paper)", "SGP (paper)", "POP-BO (paper)"]
    headings = [column.heading for column in table2().columns[:7]]
    assert {column.metric for column in table2().columns[:7]} == {*STANDARDISED_FUNCTIONS}
    assert all([*row] == headings for row in printed.values())
    uniform = [float(cell) for cell in printed["a uniform point"].values()]
    assert uniform == pytest.approx([0.43, 1.02, 2.53, 2.92, 3.04, 4.51, 1.60], abs=0.011)


def test_claims_compare_what_is_played_and_measured() -> None:
    for name in (*SAMPLES, "thermal-2d", "thermal-4d", "pop-table2"):
        experiment = ALL[name]
        table = made_up(experiment)
        measures = experiment.measures(table)
        assert summary(experiment, measures).notna().all(axis=None)
        rows = claims_table(experiment, measures)
        assert len(rows)
        assert (rows["verdict"] != "unknown").all()
        assert experiment.title in report(experiment, measures)


def made_up(experiment: Experiment) -> pd.DataFrame:
    """Two seeds of three steps of every strategy, without a simulation."""
    if isinstance(experiment, Table2Experiment):
        names = [*experiment.strategies["text"], *experiment.strategies["toolbox"]]
        functions = STANDARDISED_FUNCTIONS
    else:
        assert isinstance(experiment, UtilityExperiment)
        names, functions = [*experiment.strategies], ("",)
    rows = product(functions, enumerate(names), (0, 1), (1, 2, 3))
    return pd.DataFrame(
        {
            "function": function,
            "strategy": name,
            "seed": seed,
            "step": step,
            "first_utility": -float(number),
            "second_utility": -1.0 - seed,
            "utility_regret": 0.5 * (number + 1.0 + seed),
            "recommendation_regret": number + 0.1 * seed if step == 3 else None,
            "seconds": 0.1,
        }
        for function, (number, name), seed, step in rows
    )


def test_table_2_of_made_up_runs() -> None:
    measures = table2().measures(made_up(table2()))
    assert measures["strategy"].tolist()[::2] == [*METHODS, "pop-bo (toolbox)"]
    assert measures["seed"].tolist()[:2] == [0, 1]
    assert measures["beale"].tolist()[:4] == pytest.approx([0.0, 0.1, 1.0, 1.1])
    assert "0.050 ± 0.071" in report(table2(), measures)  # the standard deviation, not the error


def test_a_tiny_run_of_the_line() -> None:
    experiment = replace(utility("pop-gp"), horizon=3, seeds=2)
    table = experiment.play(1, None, False)
    measures = experiment.measures(table)
    assert len(measures) == 14
    assert measures.notna().all(axis=None)
    assert len(experiment.figure(table).axes) == 3
    # The same duels, reported in two ways.
    asked = ["first_index", "second_index", "answer"]
    here, there = (
        table[table["strategy"] == name][asked].reset_index(drop=True)
        for name in ("pop-bo", "pop-bo (t*)")
    )
    pd.testing.assert_frame_equal(here, there)
    # Each item meets the one before.
    runs = table[table["strategy"] == "pop-bo"].set_index("seed")
    for seed in (0, 1):
        assert (
            runs.loc[seed, "second_index"].tolist()[1:]
            == runs.loc[seed, "first_index"][:-1].tolist()
        )


def test_a_tiny_run_of_table_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        module, "_PRINTED", {name: module._PRINTED[name] for name in ("branin", "bukin")}
    )
    random = table2().strategies["text"]["random"]
    experiment = replace(
        table2(),
        horizon=3,
        seeds=2,
        strategies={"text": {"random": random}, "toolbox": {"other": random}},
        claims=(),
    )
    table = experiment.play(1, tmp_path, False)
    folders = [f"{name}-{recipe}" for name in ("branin", "bukin") for recipe in ("text", "toolbox")]
    assert sorted(path.name for path in tmp_path.iterdir()) == folders
    measures = experiment.measures(table)
    assert measures["strategy"].tolist() == ["random", "random", "other", "other"]
    assert measures.notna().all(axis=None)
    assert len(experiment.figure(table).axes) >= 3
    monkeypatch.setattr(Run, "play", lambda self: pytest.fail("is to be read, not played"))
    pd.testing.assert_frame_equal(experiment.play(1, tmp_path, False), table)


def test_the_band() -> None:
    experiment = replace(ALL["pop-band"], horizon=6, seeds=2)
    assert isinstance(experiment, BandExperiment)
    table = experiment.play(1, None, False)
    assert (table["lower"] <= table["estimate"] + 1e-6).all()
    assert (table["estimate"] <= table["upper"] + 1e-6).all()
    assert table.groupby("strategy", sort=False)["duels"].first().tolist() == [2, 4, 6]
    problem = GPSample(num_choices=101, seed=1)
    rows = table[(table["seed"] == 1) & (table["strategy"] == "all duels")]
    assert rows["utility"].tolist() == problem.utilities.tolist()
    assert 3 <= rows["asked"].sum() <= 7
    assert (rows["upper"] <= 1.1 * problem.norm * 3.0 + 1e-6).all()
    measures = experiment.measures(table)
    assert measures.notna().all(axis=None)
    widths = measures[measures["seed"] == 0]["width"].tolist()
    assert widths == sorted(widths, reverse=True)
    assert len(experiment.figure(table).axes) == 3
    assert experiment.title in report(experiment, measures)


def test_pop_bo_plays_on_a_box_of_the_toolbox() -> None:
    problem = StandardisedFunction("holdertable", "toolbox")
    ((_, factory),) = table2().strategies["toolbox"].items()
    strategy = build_strategy(factory, problem, seed=0, horizon=2)
    assert isinstance(strategy, POPBO)
    for answer in (1.0, 0.0):
        strategy.tell(strategy.ask(), answer)
    assert torch.isfinite(strategy.recommend()).all()
