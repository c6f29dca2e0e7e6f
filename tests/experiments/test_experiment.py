"""What is measured of a run, and how an experiment is varied."""

from dataclasses import replace
from functools import partial

import pandas as pd
import pytest

from botorch_pref.problems import Ackley, PreferenceProblem
from botorch_pref.strategies import MRLPF, PFTS, Strategy
from experiments.baselines import GPTS
from experiments.claims import Claim, lower
from experiments.experiment import RegretExperiment, fixed


def ackley(seed: int) -> PreferenceProblem:
    return Ackley(num_choices=5 + seed)


SMALL = RegretExperiment(
    name="small",
    title="A small one",
    source="nowhere",
    problem=partial(Ackley, num_choices=6),
    strategies={"pf-ts": PFTS.paper, "mr-lpf": MRLPF.paper, "gp-ts": GPTS.paper},
    horizon=10,
    seeds=2,
    tail=3,
    claims=(Claim("PF-TS is lower", lower("cumulative", "pf-ts", "mr-lpf")),),
)


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return SMALL.play(1, None, False)


def test_measures_of_made_up_runs() -> None:
    regrets = [0.5, 0.4, 0.3, 0.4, 0.2, 0.1, 0.1, 0.1, 0.0, 0.0]
    rows = {"problem": "p", "strategy": "mr-lpf", "seed": 4, "step": range(1, 11)}
    rows |= {"dueling_regret": regrets, "seconds": [0.1] * 9 + [1.1]}
    rows |= {"identical": [False] * 9 + [True], "recommendation_regret": [None] * 9 + [0.7]}
    (row,) = SMALL.measures(pd.DataFrame(rows)).to_dict("records")
    assert (row["strategy"], row["seed"], row["step"]) == ("mr-lpf", 4, 10)
    assert row["cumulative"] == pytest.approx(2.1)
    assert row["final"] == pytest.approx(0.1 / 3)
    assert row["early"] == pytest.approx(0.45)  # the first two, a quarter of ten
    assert row["recommendation"] == 0.7
    assert row["identical"] == pytest.approx(0.1)
    assert row["seconds"] == pytest.approx(0.2)
    # The rounds of ten duels have four and six.
    assert row["round 1"] == pytest.approx(0.4)
    assert row["round 2"] == pytest.approx(0.5 / 6)
    assert "round 3" not in row


def test_measures_of_real_runs(table: pd.DataFrame) -> None:
    measures = SMALL.measures(table)
    assert len(measures) == 6
    assert measures.notna().all(axis=None)
    last = table[table["step"] == 10].set_index(["strategy", "seed"])["cumulative_regret"]
    found = measures.set_index(["strategy", "seed"])["cumulative"]
    pd.testing.assert_series_equal(found, last, check_names=False)
    assert {column.metric for column in SMALL.columns} <= {*measures}
    assert not [name for name in table if str(name).startswith("first_x")]


def test_short_runs_are_measured_whole() -> None:
    short = replace(SMALL, horizon=2, strategies={"pf-ts": PFTS.paper})
    measures = short.measures(short.play(1, None, False))
    assert short.last == 2
    assert measures["final"].tolist() == pytest.approx((measures["cumulative"] / 2).tolist())


def test_ridge_and_regularizer_reach_every_strategy() -> None:
    varied = replace(SMALL, ridge=0.2, regularizer="theta")
    factories = {name: varied._set(name, factory) for name, factory in varied.strategies.items()}
    options = {}
    for name, factory in factories.items():
        horizon = {"horizon": 10} if name == "mr-lpf" else {}
        strategy = factory(choices=ackley(0).choices, **horizon)
        assert isinstance(strategy, Strategy)
        options[name] = strategy.state_dict()["options"]
    for name in ("pf-ts", "mr-lpf"):
        assert options[name]["kappa"] == pytest.approx(4.0)  # times the penalty of 0.05
        assert options[name]["regularizer"] == "theta"
    assert options["gp-ts"]["noise"] == pytest.approx(0.2)
    assert "ridge 0.2, theta predictor" in varied.setting


def test_random_play_of_a_problem_for_each_seed() -> None:
    several = replace(SMALL, problem=lambda: ackley, seeds=2)
    alone = [replace(SMALL, problem=partial(ackley, seed)).random_regret for seed in (0, 1)]
    assert several.random_regret == pytest.approx(sum(alone) / 2)
    assert several.baseline == (f"Random play expects a cumulative regret of {5 * sum(alone):.1f}.")


def test_the_figure_marks_the_rounds(table: pd.DataFrame) -> None:
    def dotted(experiment: RegretExperiment, panel: int) -> list[float]:
        lines = experiment.figure(table).axes[panel].get_lines()
        return [float(line.get_xdata()[0]) for line in lines if line.get_color() == "#909090"]

    assert dotted(SMALL, 0) == dotted(SMALL, 1) == [4.0]
    assert dotted(SMALL, 2) == []
    assert "MR-LPF" in SMALL.figure(table).get_suptitle()
    without = replace(SMALL, strategies={"pf-ts": PFTS.paper})
    assert dotted(without, 0) == []
    assert "MR-LPF" not in without.figure(table).get_suptitle()


def test_fixed_hyperparameters() -> None:
    assert fixed() == {"kernel": "matern", "lengthscale": 0.1, "penalty": 0.05}
    assert fixed("rbf", 0.3)["lengthscale"] == 0.3
