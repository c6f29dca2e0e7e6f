from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import pytest
import torch

from botorch_pref.problems import Ackley, Catalyst, LogisticJudge, PreferenceProblem
from botorch_pref.runner import RunError, experiment, num_threads, simulate
from botorch_pref.runner.experiment import Run, build_strategy
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import PFTS
from tests.models.common import ONE_THREAD, Limits
from tests.runner.common import Failing, RandomPairs, assert_same


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


def test_a_partial_keeps_what_it_sets() -> None:
    assert build(partial(Base, seed=5, horizon=7)).got == (5, 5, 7)
    assert build(partial(partial(Base, seed=5), horizon=7)).got == (5, 5, 7)
    choices = torch.tensor([[0.0], [1.0], [2.0]])
    assert build(partial(Base, SearchSpace(choices=choices))).got == (3, 11, 20)
    for factory in (partial(PFTS, choices=choices), partial(PFTS.paper, choices=choices)):
        strategy = build(factory)
        assert (len(strategy.space.table), strategy.seed) == (3, 11)
    assert build(partial(PFTS, choices[:2])).space.choices is None  # by position, as bounds


def test_a_function_that_names_the_problem_gets_it() -> None:
    def told(extra: int, problem: PreferenceProblem, seed: int) -> tuple[int, str, int]:
        return extra, problem.name, seed

    assert build(partial(told, 3)) == (3, "ackley", 11)
    assert build(partial(told, 3, problem=Catalyst())) == (3, "catalyst", 11)


def run_of(factory: Any = RandomPairs, seed: int = 3, **options: Any) -> Run:
    defaults = {
        "problem": Catalyst(),
        "strategy": "s",
        "factory": factory,
        "seed": seed,
        "horizon": 12,
        "recommend_every": 5,
        "judge": LogisticJudge,
    }
    return Run(**(defaults | options))


def test_a_run_is_a_simulation() -> None:
    seeds = {}

    def judge(problem: PreferenceProblem, seed: int) -> LogisticJudge:
        seeds["judge"] = seed
        return LogisticJudge(problem, seed=seed)

    def factory(space: Any, seed: int) -> RandomPairs:
        seeds["strategy"] = seed
        return RandomPairs(space, seed)

    table = run_of(factory, judge=judge).simulate()
    columns = ["problem", "strategy", "seed"]
    assert {*table[columns].itertuples(index=False, name=None)} == {("catalyst", "s", 3)}
    assert seeds["judge"] != seeds["strategy"]
    problem = Catalyst()
    strategy = build_strategy(RandomPairs, problem, seeds["strategy"], 12)
    own = LogisticJudge(problem, seed=seeds["judge"])
    history = simulate(strategy, problem, own, 12, progress=False, recommend_every=5)
    assert_same(table.drop(columns=columns), history.table)


def test_an_error_names_the_run() -> None:
    message = r"strategy 's', seed 3: ZeroDivisionError: on purpose"
    with pytest.raises(RunError, match=message) as caught:
        run_of(Failing).simulate()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    with pytest.raises(RunError, match="unexpected keyword"):
        run_of(partial(RandomPairs, wrong=1)).simulate()


def test_a_run_uses_one_thread_and_gives_the_others_back(monkeypatch: pytest.MonkeyPatch) -> None:
    used = []

    class Watching(RandomPairs):
        def recommend_index(self) -> int:
            used.append(torch.get_num_threads())
            return 0

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        run_of(Watching).simulate()
        with pytest.raises(RunError):
            run_of(Failing).simulate()
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
