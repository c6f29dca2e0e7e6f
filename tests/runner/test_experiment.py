from __future__ import annotations

import math
import os
import pickle
import select
import signal
import statistics
from functools import partial
from typing import Any

import joblib
import pandas as pd
import pytest
import torch
from joblib.parallel import ThreadingBackend

from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.problems import Ackley, Catalyst, LogisticJudge, PreferenceProblem, get_problem
from botorch_pref.queries import Duel
from botorch_pref.runner import (
    RunError,
    experiment,
    num_threads,
    run_experiment,
    simulate,
    summarise,
)
from botorch_pref.runner.experiment import _end_with, build_strategy
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import PFTS
from tests.models.common import ONE_THREAD, Limits
from tests.runner.common import Failing, RandomPairs, RandomValues, assert_same, catalyst_of
from tests.terminal import on_terminal

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
    for seed in range(4):
        rows = table[table["seed"] == seed]
        utilities = catalyst_of(seed).utilities[rows["first_index"].to_numpy(int)]
        assert rows["first_utility"].tolist() == utilities.tolist()


def test_a_run_is_a_simulation() -> None:
    made: dict[str, set[int]] = {"judge": set(), "strategy": set()}

    def judge(problem: PreferenceProblem, seed: int) -> LogisticJudge:
        made["judge"].add(seed)
        return LogisticJudge(problem, seed=seed)

    def factory(space: Any, seed: int) -> RandomPairs:
        made["strategy"].add(seed)
        return RandomPairs(space, seed)

    problem = Catalyst()
    table = play([factory], 12, [3], problem, judge=judge, recommend_every=5)
    (judge_seed,), (seed,) = made.values()
    assert judge_seed != seed
    strategy = build_strategy(RandomPairs, problem, seed, 12)
    own = LogisticJudge(problem, seed=judge_seed)
    history = simulate(strategy, problem, own, 12, progress=False, recommend_every=5)
    assert_same(table.drop(columns=["problem", "strategy", "seed"]), history.table)
    play([factory], 2, 3, judge=judge)
    assert len(made["judge"]) == 4


def test_a_run_uses_one_thread_and_gives_the_others_back(monkeypatch: pytest.MonkeyPatch) -> None:
    used = []

    class Watching(RandomPairs):
        def recommend_index(self) -> int:
            used.append(torch.get_num_threads())
            return 0

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        play([Watching])
        with pytest.raises(RunError):
            play([Failing])
        assert torch.get_num_threads() == 3
        monkeypatch.setattr(experiment, "threadpool_limits", Limits)
        with num_threads():
            assert torch.get_num_threads() == 1
            assert Limits.active == [ONE_THREAD]
        assert not Limits.active
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert {*used} == {1}


def test_an_error_names_the_run() -> None:
    message = r"strategy 's', seed 0: ZeroDivisionError: on purpose"
    with pytest.raises(RunError, match=message) as caught:
        play({"s": Failing})
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    with pytest.raises(RunError, match="unexpected keyword"):
        play({"s": partial(RandomPairs, wrong=1)})


def test_the_progress_bar(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_experiment(Ackley(num_choices=5), [RandomPairs], 2, 3)
    assert capsys.readouterr() == ("", "")  # no bar in a file
    terminal = on_terminal(monkeypatch)
    run_experiment(Ackley(num_choices=5), [RandomPairs], 2, 3)
    assert "ackley" in terminal.getvalue()
    assert "3/3" in terminal.getvalue()
    assert capsys.readouterr().out == ""
    shown = len(terminal.getvalue())
    play([RandomPairs], 2, 3)
    assert len(terminal.getvalue()) == shown


def test_seeds_come_in_any_form_and_names_from_factories() -> None:
    for seeds in ((1, 0), torch.arange(2), iter([0, 1]), pd.Series([0, 1]), 2):
        table = play([RandomPairs, partial(RandomValues, seed=1)], 1, seeds)
        assert table["seed"].tolist() == [0, 1, 0, 1]
        assert table["strategy"].unique().tolist() == ["RandomPairs", "RandomValues"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"horizon": 0}, "`horizon` must be a whole number"),
        ({"recommend_every": 0}, "`recommend_every` must be"),
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
    with pytest.raises((ComparisonDataError, UnsupportedError), match=message):
        play(**wrong)


@pytest.mark.slow
def test_two_workers_of_dask_make_the_same_table() -> None:
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=":0")
    with cluster, distributed.Client(cluster), joblib.parallel_config(backend="dask"):
        found = play({"pf-ts": PFTS.paper}, 8, 4)
    assert_same(play({"pf-ts": PFTS.paper}, 8, 4), found)


# What a factory is given.


class Base:
    def __init__(self, space: Any, *, seed: int = 0, horizon: int | None = None) -> None:
        self.got = (len(space.table), seed, horizon)

    @classmethod
    def preset(cls, **kwargs: Any) -> Base:
        return cls(**kwargs)


class Passing(Base):
    def __init__(self, extra: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)


class WithoutHorizon(Passing):
    def __init__(self, space: Any, seed: int) -> None:
        super().__init__(space=space, seed=seed)


def build(factory: Any) -> Any:
    return build_strategy(factory, Ackley(num_choices=5), 11, 20)


def test_a_factory_gets_what_it_takes() -> None:
    for factory in (Base, Base.preset, Passing, Passing.preset, partial(Passing)):
        assert build(factory).got == (5, 11, 20)
    for factory in (WithoutHorizon, WithoutHorizon.preset):
        assert build(factory).got == (5, 11, None)
    assert build(lambda: "made") == "made"
    assert build(lambda seed: seed) == 11
    assert {*build(lambda **kwargs: kwargs)} == {"space", "seed", "horizon"}
    assert build(lambda problem, seed: (problem.name, seed)) == ("ackley", 11)


def test_a_partial_keeps_what_it_sets() -> None:
    assert build(partial(Base, seed=5, horizon=7)).got == (5, 5, 7)
    assert build(partial(partial(Base, seed=5), horizon=7)).got == (5, 5, 7)
    choices = torch.tensor([[0.0], [1.0], [2.0]])
    assert build(partial(Base, SearchSpace(choices=choices))).got == (3, 11, 20)
    for factory in (partial(PFTS, choices=choices), partial(PFTS.paper, choices=choices)):
        strategy = build(factory)
        assert (len(strategy.space.table), strategy.seed) == (3, 11)
    assert build(partial(PFTS, choices[:2])).space.choices is None  # by position, as bounds
    assert build(partial(lambda problem: problem.name, problem=Catalyst())) == "catalyst"


# The summary of a table.

VALUES = {"b": [4.0, 1.0, 2.0, 9.0], "a": [3.0]}


@pytest.fixture
def two_steps() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "strategy": name,
            "seed": seed,
            "step": step,
            "cumulative_regret": value * step,
            "recommendation_regret": math.nan if step == 1 else value,
            "answer": "text",
        }
        for name, values in VALUES.items()
        for seed, value in enumerate(values)
        for step in (1, 2)
    )


def test_the_numbers_of_a_summary(two_steps: pd.DataFrame) -> None:
    summary = summarise(two_steps)
    assert summary["strategy"].tolist() == ["b", "a"]
    assert summary["seeds"].tolist() == [4, 1]
    assert summary["step"].tolist() == [2, 2]
    row, doubled = summary.iloc[0], [2 * value for value in VALUES["b"]]
    assert row["mean"] == pytest.approx(statistics.mean(doubled))
    assert row["standard_error"] == pytest.approx(statistics.stdev(doubled) / 2)
    assert row["median"] == pytest.approx(statistics.median(doubled))
    low, *_, high = statistics.quantiles(doubled, n=10, method="inclusive")
    assert (row["quantile_10"], row["quantile_90"]) == pytest.approx((low, high))
    single = summary.iloc[1]
    assert single[["mean", "median", "quantile_10", "quantile_90"]].tolist() == [6.0] * 4
    assert math.isnan(single["standard_error"])
    assert summarise(two_steps, at=1)[["step", "mean"]].to_numpy().tolist() == [[1, 4], [1, 3]]
    assert summarise(two_steps, "recommendation_regret")["mean"].tolist() == [4.0, 3.0]


def test_runs_that_ended_earlier_count(two_steps: pd.DataFrame) -> None:
    in_b = (two_steps["strategy"] == "b") & (two_steps["seed"] > 0)
    for at in (None, 2):
        summary = summarise(two_steps[(two_steps["step"] == 1) | in_b], at=at)
        assert summary["seeds"].tolist() == [4, 1]
        assert summary["mean"].tolist() == [(4.0 + 2 * (1.0 + 2.0 + 9.0)) / 4, 3.0]


def test_what_cannot_be_summarised(two_steps: pd.DataFrame) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"metric": "regret"}, "metric must be a column of numbers"),
        ({"metric": "answer"}, "metric must be a column of numbers"),
        ({"at": 3}, "at must be a step of the table, got 3"),
        ({"metric": "recommendation_regret", "at": 1}, "recommendation_regret was not recorded"),
    ]
    for options, message in wrong:
        with pytest.raises(UnsupportedError, match=message):
            summarise(two_steps, **options)
    with pytest.raises(UnsupportedError, match="at must be a step"):
        summarise(two_steps[:0])


@pytest.mark.skipif(os.name != "posix", reason="forks and kills")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_worker_ends_with_its_parent() -> None:
    ended, living = os.pipe()
    parent = os.fork()
    if not parent:
        if not os.fork():  # which alone has the end of the pipe, and so tells when it ends
            _end_with(os.getppid())
            signal.alarm(60)
            os.write(living, b".")
            signal.pause()
        signal.pause()
    os.close(living)
    assert os.read(ended, 1) == b"."
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    assert select.select([ended], [], [], 20.0)[0]
    assert os.read(ended, 1) == b""
    os.close(ended)
