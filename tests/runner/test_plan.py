from __future__ import annotations

from functools import partial
from typing import Any

import pandas as pd
import pytest
import torch

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.problems import Ackley, LogisticJudge, get_problem
from botorch_pref.runner.plan import planned_runs, shared_settings
from botorch_pref.runner.run import Run
from botorch_pref.strategies import PFTS
from tests.runner.common import RandomPairs, RandomValues, catalyst_of


def planned(**options: Any) -> list[Run]:
    defaults = {
        "problem": Ackley(num_choices=12),
        "strategies": {"pf-ts": PFTS, "random": RandomPairs},
        "horizon": 6,
        "seeds": 3,
        "judge": None,
        "recommend_every": 1,
        "link": torch.sigmoid,
    }
    runs = planned_runs(**(defaults | options))
    shared_settings(runs[0])
    return runs


def test_every_strategy_runs_under_every_seed() -> None:
    runs = planned(seeds=[5, 0])
    keys = [(run.strategy, run.seed) for run in runs]
    assert keys == [("pf-ts", 0), ("pf-ts", 5), ("random", 0), ("random", 5)]
    assert {run.judge for run in runs} == {LogisticJudge}
    assert {run.factory for run in runs} == {PFTS, RandomPairs}


def test_seeds_come_in_any_form() -> None:
    for seeds in (range(3), (2, 1, 0), torch.arange(3), iter([0, 1, 2]), pd.Series([0, 1, 2]), 3):
        runs = planned(strategies=[PFTS], seeds=seeds)
        assert [run.seed for run in runs] == [0, 1, 2]
        assert {type(run.seed) for run in runs} == {int}


def test_a_sequence_is_named_after_its_factories() -> None:
    runs = planned(strategies=[RandomPairs, PFTS, partial(RandomValues, seed=1)], seeds=1)
    assert [run.strategy for run in runs] == ["RandomPairs", "PFTS", "RandomValues"]


def test_settings_tell_experiments_apart() -> None:
    settings = [
        shared_settings(planned(**options)[0])
        for options in (
            {},
            {"horizon": 7},
            {"recommend_every": 2},
            {"problem": Ackley(num_choices=13)},
            {"problem": Ackley(num_choices=12, utility_scale=3.0)},
            {"problem": catalyst_of},
            {"judge": partial(LogisticJudge, value_noise=2.0)},
            {"link": torch.special.ndtr},
        )
    ]
    assert all(settings.count(one) == 1 for one in settings)
    assert shared_settings(planned(seeds=[8])[0]) == settings[0]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"horizon": 0}, "horizon must be a whole number"),
        ({"horizon": 2.5}, "horizon must be a whole number"),
        ({"recommend_every": 0}, "recommend_every must be"),
        ({"seeds": 0}, "seeds must be different whole numbers"),
        ({"seeds": []}, "seeds must be"),
        ({"seeds": [1, 1]}, "seeds must be"),
        ({"seeds": [0, -1]}, "seeds must be"),
        ({"seeds": [0.5]}, "seeds must be"),
        ({"seeds": "12"}, "seeds must be"),
        ({"seeds": None}, "seeds must be"),
        ({"strategies": {}}, "strategies must be factories"),
        ({"strategies": []}, "strategies must be factories"),
        ({"strategies": 3}, "strategies must be factories"),
        (
            {"strategies": [RandomPairs, RandomPairs]},
            "strategies: .* is not the only 'RandomPairs'",
        ),
        ({"strategies": "pf-ts"}, "strategies: 'p' has no name"),
        ({"strategies": {"": PFTS}}, "strategies: a name must be a string"),
        ({"strategies": {1: PFTS}}, "strategies: a name must be a string"),
        ({"strategies": {"a": PFTS(choices=torch.rand(3, 1))}}, "'a' must make a strategy"),
        ({"problem": "ackley"}, "problem must be a problem"),
        ({"problem": get_problem("michalewicz", dim=3)}, "michalewicz with dim=3 does not know"),
        ({"judge": 3}, "judge must make a judge"),
    ],
)
def test_bad_arguments(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        planned(**wrong)
