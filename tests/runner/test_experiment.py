from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import joblib
import pandas as pd
import pytest
import torch
from joblib.parallel import ThreadingBackend

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.problems import Ackley, PreferenceProblem, get_problem
from botorch_pref.queries import Duel
from botorch_pref.runner import RunError, run_experiment
from botorch_pref.strategies import PFTS
from tests.runner.common import Failing, RandomPairs, RandomValues, assert_same, catalyst_of

STRATEGIES = {
    "pf-ts": PFTS.paper,
    "pf-ts, wide": partial(PFTS.paper, kappa=4.0),
    "random": RandomPairs,
    "values": RandomValues,
}


def play(
    strategies: Any = STRATEGIES,
    horizon: int = 6,
    seeds: Any = 3,
    problem: Any = None,
    **options: Any,
) -> pd.DataFrame:
    problem = problem or Ackley(num_choices=12)
    return run_experiment(problem, strategies, horizon, seeds, progress=False, **options)


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return play()


def test_the_table_is_tidy(table: pd.DataFrame) -> None:
    assert [*table][:4] == ["problem", "strategy", "seed", "step"]
    keys = table[["strategy", "seed", "step"]].to_numpy().tolist()
    assert keys == [[s, i, t] for s in STRATEGIES for i in range(3) for t in range(1, 7)]
    assert table.index.equals(pd.RangeIndex(len(table)))
    assert {*table["problem"]} == {"ackley"}
    assert table.loc[table["strategy"] == "values", "second_index"].isna().all()
    assert (table.loc[table["strategy"] != "values", "second_index"] >= 0).all()


def test_strategies_of_one_seed_meet_the_same_labels() -> None:
    class Stubborn(RandomPairs):
        """Asks one pair all the time, so that its answers are the labels' noise."""

        def ask(self) -> Duel:
            return Duel(self.step, self.space.table[[0, 0]], (0, 0))

    class Other(Stubborn):
        def recommend_index(self) -> int:
            torch.rand(3)
            return 1

    table = play([Stubborn, Other], horizon=60)
    answers = table.pivot(index="step", columns=["strategy", "seed"], values="answer")
    assert answers["Stubborn"].equals(answers["Other"])
    assert not answers["Stubborn"][0].equals(answers["Stubborn"][1])


class AllAtOnce(ThreadingBackend):
    """Like Ray's: hands over the results at the end, not one by one."""

    supports_return_generator = False


joblib.register_parallel_backend("all-at-once", AllAtOnce)


@pytest.mark.parametrize("backend", ["loky", "all-at-once"])
def test_joblib_says_how_the_runs_are_spread(backend: str, table: pd.DataFrame) -> None:
    threads = torch.get_num_threads()
    with joblib.parallel_config(backend=backend, n_jobs=2):
        assert_same(play(), table)
    assert torch.get_num_threads() == threads


def test_a_run_depends_on_nothing_but_itself(table: pd.DataFrame) -> None:
    part = play({"random": RandomPairs, "pf-ts": PFTS.paper}, seeds=[2, 0])
    assert part["seed"].unique().tolist() == [0, 2]
    for name in ("random", "pf-ts"):
        both = [t[(t["strategy"] == name) & (t["seed"] != 1)] for t in (part, table)]
        assert_same(*(t[[*part]].reset_index(drop=True) for t in both))


def test_a_problem_for_each_seed() -> None:
    table = play([RandomPairs], problem=catalyst_of, seeds=4, horizon=40)
    largest = table.groupby("seed")["first_index"].max()
    assert (largest < 63).all()
    for seed in range(4):
        rows = table[table["seed"] == seed]
        utilities = catalyst_of(seed).utilities[rows["first_index"].to_numpy(int)]
        assert rows["first_utility"].tolist() == utilities.tolist()


def test_judge_and_recommendations() -> None:
    made = []

    def judge(problem: PreferenceProblem, seed: int) -> Callable[[Duel, int], float]:
        made.append(seed)
        return lambda query, step: 0.0

    table = play([RandomPairs], judge=judge, recommend_every=4)
    assert len({*made}) == 3
    assert (table["answer"] == 0.0).all()
    known = table["recommendation_regret"].notna()
    assert table["step"][known].unique().tolist() == [4, 6]
    gap = torch.tensor(-1.0 * table[["first_utility", "second_utility"]].to_numpy())
    gap = gap + Ackley(num_choices=12).optimal_value
    expected = torch.sigmoid(gap).mean(-1) - 0.5
    assert table["dueling_regret"].tolist() == pytest.approx(expected.tolist())


def test_the_progress_bar(capsys: pytest.CaptureFixture[str]) -> None:
    run_experiment(Ackley(num_choices=5), [RandomPairs], 2, 3)
    shown = capsys.readouterr()
    assert "ackley" in shown.err
    assert "3/3" in shown.err
    assert shown.out == ""
    play([RandomPairs], 2, 3)
    assert capsys.readouterr().err == ""


def test_seeds_come_in_any_form_and_names_from_factories() -> None:
    for seeds in ((1, 0), torch.arange(2), iter([0, 1]), pd.Series([0, 1]), 2):
        table = play([RandomPairs, partial(RandomValues, seed=1)], 1, seeds)
        assert table["seed"].tolist() == [0, 1, 0, 1]
        assert table["strategy"].unique().tolist() == ["RandomPairs", "RandomValues"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"horizon": 0}, "horizon must be a whole number"),
        ({"recommend_every": 0}, "recommend_every must be"),
        ({"n_jobs": 0}, "n_jobs must be a whole number but 0, or None"),
        ({"seeds": 0}, "seeds must be different whole numbers"),
        ({"seeds": [1, 1]}, "seeds must be"),
        ({"seeds": None}, "seeds must be"),
        ({"strategies": 3}, "strategies must make strategies"),
        ({"strategies": [RandomPairs, RandomPairs]}, "strategies: .* are not different"),
        ({"strategies": {"": PFTS}}, "strategies must make strategies"),
        ({"strategies": {"a": PFTS(choices=torch.rand(3, 1))}}, "strategies must make strategies"),
        ({"problem": "ackley"}, "problem must be a problem"),
        ({"problem": get_problem("michalewicz", dim=3)}, "michalewicz with dim=3 does not know"),
        ({"judge": 3}, "judge must make a judge"),
    ],
)
def test_bad_arguments(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        play(**wrong)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_failing_run(n_jobs: int) -> None:
    strategies = {"good": RandomPairs, "bad": Failing}
    with pytest.raises(
        RunError, match=r"strategy 'bad', seed [0-2]: ZeroDivisionError: on purpose"
    ):
        play(strategies, n_jobs=n_jobs)
