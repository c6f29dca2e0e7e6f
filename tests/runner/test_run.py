from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import pandas as pd
import pytest
import torch

from botorch_pref.problems import Ackley, Catalyst, LogisticJudge, PreferenceProblem
from botorch_pref.runner import RunError, num_threads, run, simulate
from botorch_pref.runner.run import Run, build_strategy
from botorch_pref.strategies import PFTS
from tests.models.common import ONE_THREAD, Limits
from tests.runner.common import Failing, RandomPairs


class Base:
    def __init__(self, space: Any, *, seed: int = 0, horizon: int | None = None) -> None:
        self.got = {"space": space, "seed": seed, "horizon": horizon}

    @classmethod
    def preset(cls, **kwargs: Any) -> Base:
        return cls(**kwargs)


class Passing(Base):
    def __init__(self, extra: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)


class WithoutHorizon(Passing):
    def __init__(self, space: Any, seed: int) -> None:
        super().__init__(space=space, seed=seed)


def got(factory: Any, problem: PreferenceProblem | None = None) -> dict[str, Any]:
    return build_strategy(factory, problem or Ackley(num_choices=5), 11, 20).got


@pytest.mark.parametrize("factory", [Base, Base.preset, Passing, Passing.preset, partial(Passing)])
def test_a_factory_gets_what_it_takes(factory: Any) -> None:
    found = got(factory)
    assert (found["seed"], found["horizon"]) == (11, 20)
    assert len(found["space"].table) == 5


@pytest.mark.parametrize("factory", [WithoutHorizon, WithoutHorizon.preset])
def test_a_factory_gets_no_more_than_it_takes(factory: Any) -> None:
    assert got(factory)["horizon"] is None


def test_a_partial_keeps_what_it_sets() -> None:
    assert got(partial(Base, seed=5, horizon=7))["seed"] == 5
    assert got(partial(Base, seed=5, horizon=7))["horizon"] == 7
    assert got(partial(partial(Base, seed=5), horizon=7))["seed"] == 5
    assert got(partial(Base, "mine"))["space"] == "mine"
    choices = torch.tensor([[0.0], [1.0], [2.0]])
    for factory in (partial(PFTS, choices=choices), partial(PFTS.paper, choices=choices)):
        strategy = build_strategy(factory, Ackley(num_choices=5), 11, 20)
        assert len(strategy.space.table) == 3
        assert strategy.seed == 11
    strategy = build_strategy(partial(PFTS, choices[:2]), Ackley(num_choices=5), 11, 20)
    assert strategy.space.choices is None


def test_any_callable_is_a_factory() -> None:
    def nothing() -> str:
        return "made"

    def all_of_it(**kwargs: Any) -> dict[str, Any]:
        return kwargs

    assert build_strategy(nothing, Ackley(num_choices=5), 1, 2) == "made"
    assert {*build_strategy(all_of_it, Ackley(), 1, 2)} == {"space", "seed", "horizon"}
    assert build_strategy(lambda seed: seed, Ackley(), 1, 2) == 1
    assert build_strategy(PFTS.paper, Ackley(dim=2), 1, 2).space.dim == 2


def test_a_function_that_names_the_problem_gets_it() -> None:
    def told(extra: int, problem: PreferenceProblem, seed: int) -> tuple[int, Any, int]:
        return extra, problem, seed

    problem, other = Ackley(num_choices=5), Ackley(num_choices=6)
    assert build_strategy(partial(told, 3), problem, 1, 2) == (3, problem, 1)
    assert build_strategy(partial(told, 3, problem=other), problem, 1, 2) == (3, other, 1)


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

    problem = Catalyst()
    table = run_of(factory, judge=judge).simulate()
    assert table[["problem", "strategy", "seed"]].drop_duplicates().to_numpy().tolist() == [
        ["catalyst", "s", 3]
    ]
    # Draws and labels are seeded apart.
    assert seeds["judge"] != seeds["strategy"]
    strategy = build_strategy(RandomPairs, problem, seeds["strategy"], 12)
    own = LogisticJudge(problem, seed=seeds["judge"])
    history = simulate(strategy, problem, own, 12, progress=False, recommend_every=5)
    pd.testing.assert_frame_equal(
        table.drop(columns=["problem", "strategy", "seed", "seconds"]),
        history.table.drop(columns="seconds"),
    )


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
        monkeypatch.setattr(run, "threadpool_limits", Limits)
        with num_threads():
            assert torch.get_num_threads() == 1
            assert Limits.active == [ONE_THREAD]
        assert not Limits.active
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert {*used} == {1}
