"""The registry of experiments: complete, consistent, and every one of them runs."""

from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd
import pytest
import torch
from linear_operator import to_dense

from botorch_pref.problems import PreferenceProblem
from botorch_pref.runner.run import build_strategy
from botorch_pref.strategies import PFTS, Strategy, UtilityStrategy
from experiments.experiment import Experiment, RegretExperiment, fixed
from experiments.papers import experiments
from experiments.report import claims_table, report, summary
from tests._reference.kernels import gram

ALL = experiments()
PF_TS_PAPER = ("ackley", "catalyst", "rkhs", "hpo")
MR_LPF_PAPER = ("rkhs-se", "rkhs-matern15", "rkhs-matern25", "ackley-2000", "yelp")
# Played in files of their own, on fewer duels.
POP_BO_PAPER = (
    *("pop-gp", "pop-table2", "pop-7d", "pop-12d", "thermal-2d", "thermal-4d"),
    "pop-band",
)
COBOL_PAPER = ("cobol-robustness", "cobol-ablation", "cobol-no-harm", "cobol-variants")
OURS = ("comp-mixed", "optuna")
COMP_PAPER = ("comp-currin", "comp-borehole", "comp-svm", "comp-unbiased")
BOXES = ("mr-lpf-branin", "mr-lpf-hartmann6")


def regret(name: str) -> RegretExperiment:
    experiment = ALL[name]
    assert isinstance(experiment, RegretExperiment)
    return experiment


def problem_of(experiment: RegretExperiment, seed: int = 0) -> PreferenceProblem:
    problem = experiment.problem()
    return problem if isinstance(problem, PreferenceProblem) else problem(seed)


def options_of(name: str, strategy: str) -> dict[str, Any]:
    """The options of a strategy as an experiment makes it."""
    experiment = regret(name)
    factory = experiment._set(strategy, experiment.strategies[strategy])
    made = build_strategy(factory, problem_of(experiment), seed=0, horizon=experiment.horizon)
    assert isinstance(made, Strategy)
    options = made.state_dict()["options"]
    assert isinstance(options, dict)
    return options


def test_all_are_there() -> None:
    papers = (*PF_TS_PAPER, *MR_LPF_PAPER, *POP_BO_PAPER, *COBOL_PAPER, *COMP_PAPER)
    assert {*ALL} == {*papers, *OURS, *BOXES, "cost", "anchor"}
    assert all(experiment.name == name for name, experiment in ALL.items())
    titles = [experiment.title for experiment in ALL.values()]
    assert len({*titles}) == len(titles)


def test_every_experiment_runs_and_reports() -> None:
    elsewhere = (*POP_BO_PAPER, *COBOL_PAPER, *COMP_PAPER, *OURS)
    for experiment in (ALL[name] for name in ALL if name not in elsewhere):
        small = replace(experiment, seeds=2, horizon=5)
        table = small.play(1, None, False)
        measures = small.measures(table)
        assert {*measures["seed"]} == {0, 1}
        assert experiment.title in report(small, measures)
        assert summary(small, measures).notna().all(axis=None)
        check_claims(small, measures)
        assert small.figure(table).axes


def check_claims(experiment: Experiment, measures: pd.DataFrame) -> None:
    """That claims compare what is played and measured."""
    strategies = {*measures["strategy"]}
    if experiment.name == "cost":  # five duels pay for no values
        strategies |= {f"gp-ts, ratio {ratio}" for ratio in (3, 5, 7)}
    assert experiment.claims
    for claim in experiment.claims:
        assert claim.comparisons
        for side in (side for comparison in claim.comparisons for side in comparison[:2]):
            if isinstance(side, tuple):
                assert side[0] in strategies
                assert side[1] in measures or side[1] in ("round 3", "round 4")
    table = claims_table(experiment, measures)
    assert len(table) == sum(len(claim.comparisons) for claim in experiment.claims)


@pytest.mark.parametrize(
    ("name", "choices", "horizon", "spread"),
    [
        ("ackley", 40, 300, 12.97),
        ("catalyst", 63, 800, 6.90),
        ("rkhs", 30, 200, 7.0),
        ("hpo", 40, 200, None),
        ("rkhs-se", 100, 300, 7.21),
        ("rkhs-matern15", 100, 300, 7.18),
        ("rkhs-matern25", 100, 300, 7.21),
        ("ackley-2000", 100, 2000, 3.0),
        ("yelp", 275, 2000, 6.0),
    ],
)
def test_problems(name: str, choices: int, horizon: int, spread: float | None) -> None:
    experiment = regret(name)
    problem = problem_of(experiment)
    assert problem.choices is not None
    assert len(problem.choices) == choices
    assert experiment.horizon == horizon
    if spread is not None:
        utilities = problem.utilities
        assert float(utilities.max() - utilities.min()) == pytest.approx(spread, rel=0.03)


@pytest.mark.parametrize("name", PF_TS_PAPER)
def test_the_methods_of_the_pf_ts_paper(name: str) -> None:
    methods = ["pf-ts", "mr-lpf", "max-min-lcb", "pop-bo", "gp-ts", "random"]
    assert [*regret(name).strategies] == methods
    assert regret(name).seeds == 30
    for method in methods:
        options = options_of(name, method)
        model = options["hyperparameters"]
        assert (model["kernel"], model["lengthscale"]) == ("matern", 0.1)
        if method == "gp-ts":
            assert options["noise"] / model["outputscale"] == pytest.approx(0.05)
        else:
            assert 1 / model["outputscale"] == pytest.approx(0.05)
            assert options["kappa"] == pytest.approx(1.0)
            assert options["regularizer"] == "rkhs"


@pytest.mark.parametrize(
    ("name", "kernel", "lengthscale"),
    [
        ("rkhs-se", "rbf", 0.1),
        ("rkhs-matern15", "matern15", 0.1),
        ("rkhs-matern25", "matern", 0.1),
        ("ackley-2000", "matern", 0.01),
        ("yelp", "rbf", 0.05),
    ],
)
def test_the_methods_of_the_mr_lpf_paper(name: str, kernel: str, lengthscale: float) -> None:
    for method in ("mr-lpf", "max-min-lcb"):
        options = options_of(name, method)
        model = options["hyperparameters"]
        assert (model["kernel"], model["lengthscale"]) == (kernel, pytest.approx(lengthscale))
        assert 1 / model["outputscale"] == pytest.approx(0.05)
        assert (options["kappa"], options["regularizer"]) == (pytest.approx(1.0), "theta_mean")
    betas = options_of(name, "mr-lpf")["beta"]["value"], options_of(name, "max-min-lcb")["beta"]
    assert betas == ((0.1, 2.0) if name == "yelp" else (1.0, 1.0))


@pytest.mark.parametrize(
    ("name", "oracle"),
    [("rkhs-se", "rbf"), ("rkhs-matern15", "matern32"), ("rkhs-matern25", "matern52")],
)
def test_the_model_has_the_kernel_of_the_panel(name: str, oracle: str) -> None:
    experiment = regret(name)
    factory = experiment._set("max-min-lcb", experiment.strategies["max-min-lcb"])
    strategy = build_strategy(factory, problem_of(experiment), seed=0, horizon=300)
    assert isinstance(strategy, UtilityStrategy)
    items = torch.linspace(0.0, 0.5, 5, dtype=torch.double).unsqueeze(-1)
    with torch.no_grad():
        kernel = to_dense(strategy.learner.covar_module().base_kernel(items))
    expected = gram(oracle, items.numpy(), items.numpy(), 0.1)
    torch.testing.assert_close(kernel, torch.as_tensor(expected))


def test_yelp_draws_a_user_for_every_seed() -> None:
    experiment = regret("yelp")
    problems = [problem_of(experiment, seed) for seed in range(30)]
    users = {getattr(problem, "user") for problem in problems}  # noqa: B009
    assert users <= {*range(20)}
    assert len(users) > 10
    first = problems[0].choices
    assert first is not None
    assert all(problem.choices is not None for problem in problems)
    assert all(bool((problem.choices == first).all()) for problem in problems)
    median = options_of("yelp", "mr-lpf (median)")["hyperparameters"]["lengthscale"]
    assert 2 * median == pytest.approx(getattr(problems[0], "median_distance")())  # noqa: B009


def test_stand_ins_are_named_as_such() -> None:
    for name in ("hpo", "yelp"):
        assert "stand-in" in ALL[name].source
        assert any("stand-in" in note for note in ALL[name].notes)


# Cumulative regrets of an independent implementation: mean and standard error of 30 seeds.
REFERENCE = {
    "ackley": {
        "pf-ts": (24.1, 6.4),
        "max-min-lcb": (16.6, 6.9),
        "mr-lpf": (38.6, 4.6),
        "pop-bo": (126.0, 9.0),
        "random": (139.3, 0.3),
    },
    "catalyst": {
        "pf-ts": (109.0, 10.0),
        "max-min-lcb": (162.0, 20.0),
        "mr-lpf": (184.0, 12.0),
        "pop-bo": (287.0, 6.0),
        "random": (316.3, 0.3),
    },
    "rkhs": {
        "pf-ts": (21.0, 2.4),
        "max-min-lcb": (18.6, 1.9),
        "mr-lpf": (24.6, 2.2),
        "pop-bo": (39.1, 5.8),
        "random": (68.7, 0.3),
    },
    "rkhs-se": {"mr-lpf": (24.1, 1.1), "max-min-lcb": (21.3, 2.1)},
    "rkhs-matern15": {"mr-lpf": (39.5, 1.0), "max-min-lcb": (22.0, 2.3)},
    "rkhs-matern25": {"mr-lpf": (31.5, 0.9), "max-min-lcb": (20.5, 2.0)},
}


def cumulative(name: str) -> pd.DataFrame:
    experiment = replace(ALL[name], seeds=30)
    table = summary(experiment, experiment.measures(experiment.play(-1, None, False)))
    return table[table["metric"] == "cumulative"].set_index("strategy")


@pytest.mark.slow
@pytest.mark.parametrize("name", REFERENCE)
def test_reference_values(name: str) -> None:
    table = cumulative(name)
    for strategy, (mean, error) in REFERENCE[name].items():
        row = table.loc[strategy]
        joint = (error**2 + float(row["standard_error"]) ** 2) ** 0.5
        assert abs(float(row["mean"]) - mean) < 3.0 * joint, (strategy, row["mean"], mean)
    if name == "catalyst":
        order = ["gp-ts", "pf-ts", "mr-lpf", "pop-bo", "random"]
        assert table.loc[order, "mean"].is_monotonic_increasing
        assert 70 < table.loc["pf-ts", "mean"] < 150


@pytest.mark.slow
def test_pf_ts_on_raw_inputs_with_a_wider_ridge() -> None:
    experiment = regret("ackley")
    raw = partial(PFTS.paper, hyperparameters=fixed("matern", 0.01))
    raw_only = replace(experiment, strategies={"pf-ts": raw}, ridge=0.2)
    measures = raw_only.measures(raw_only.play(-1, None, False))
    assert 14.0 < measures["cumulative"].mean() < 25.0
