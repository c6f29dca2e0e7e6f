from __future__ import annotations

import math
import statistics

import numpy as np
import pandas as pd
import pytest

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.problems import Catalyst, DuelingChoiceJudge
from botorch_pref.runner import cost_regrets, regrets_at, run_experiment, summarise
from tests.runner.common import Budgeted, RandomPairs

RUN = ["strategy", "seed"]

VALUES = {"b": [4.0, 1.0, 2.0, 9.0], "a": [3.0]}


@pytest.fixture
def table() -> pd.DataFrame:
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


def test_the_numbers(table: pd.DataFrame) -> None:
    summary = summarise(table)
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


def test_another_metric_and_step(table: pd.DataFrame) -> None:
    assert summarise(table, at=1)["mean"].tolist() == [4.0, 3.0]
    assert summarise(table, at=1)["step"].tolist() == [1, 1]
    assert summarise(table, "recommendation_regret")["mean"].tolist() == [4.0, 3.0]


def test_runs_that_ended_earlier_count(table: pd.DataFrame) -> None:
    ended = table[(table["step"] == 1) | ((table["strategy"] == "b") & (table["seed"] > 0))]
    for at in (None, 2):
        summary = summarise(ended, at=at)
        assert summary["strategy"].tolist() == ["b", "a"]
        assert summary["seeds"].tolist() == [4, 1]
        assert summary["mean"].tolist() == [(4.0 + 2 * (1.0 + 2.0 + 9.0)) / 4, 3.0]


def test_what_cannot_be_summarised(table: pd.DataFrame) -> None:
    for metric in ("regret", "answer"):
        with pytest.raises(UnsupportedError, match="metric must be a column of numbers"):
            summarise(table, metric)
    with pytest.raises(UnsupportedError, match="at must be a step of the table, got 3"):
        summarise(table, at=3)
    with pytest.raises(UnsupportedError, match="recommendation_regret was not recorded"):
        summarise(table, "recommendation_regret", at=1)
    with pytest.raises(UnsupportedError, match="at must be a step"):
        summarise(table[:0])


# Regrets of duels and values over what they cost.


def table_of(*rows: tuple[str, float | None, float, float, float]) -> pd.DataFrame:
    columns = ["kind", "answer", "first_utility", "second_utility", "cost"]
    table = pd.DataFrame(rows, columns=columns)
    return table.assign(problem="p", strategy="s", seed=0)


def test_cost_regrets_by_hand() -> None:
    nan, inf = math.nan, math.inf
    table = table_of(
        ("label", 1.0, 9.5, nan, 0.5),
        ("duel", 1.0, 4.0, 7.0, 1.0),
        ("duel", None, 10.0, 9.0, 2.0),  # skipped
        ("evaluate", 3.0, 5.0, nan, 4.0),
        ("duel", 0.0, 6.0, 1.0, 5.0),
        ("evaluate", 9.0, 9.0, nan, 7.0),
    )
    found = cost_regrets(table, 10.0)
    assert found["regret"].tolist() == [inf, 3.0, 3.0, 3.0, 3.0, 1.0]
    assert found["duel_regret"].tolist() == [inf, 6.0, 6.0, 6.0, 4.0, 4.0]
    assert found["value_regret"].tolist() == [inf, inf, inf, 5.0, 5.0, 1.0]
    at = regrets_at(table.join(found), [0.1, 4.0, 4.5, 100.0])
    assert at["cost"].tolist() == [0.1, 4.0, 4.5, 100.0]
    assert at["regret"].tolist() == [inf, 3.0, 3.0, 1.0]
    assert at["duel_regret"].tolist() == [inf, 6.0, 6.0, 4.0]
    assert at["value_regret"].tolist() == [inf, 5.0, 5.0, 1.0]
    # One history alone does not say whose it is.
    alone = cost_regrets(table[["kind", "answer", "first_utility", "second_utility"]], 10.0)
    pd.testing.assert_frame_equal(alone, found)


def test_they_fall_with_the_cost() -> None:
    problem = Catalyst()
    table = run_experiment(
        problem, {"a": Budgeted}, 40, 30, DuelingChoiceJudge, progress=False, recommend_every=40
    )
    found = cost_regrets(table, problem.optimal_value)
    assert (found["regret"] <= found[["duel_regret", "value_regret"]].min(axis=1)).all()
    assert (found >= 0.0).all(axis=None)
    for _, rows in found.groupby([table[name] for name in RUN]):
        before, after = rows.to_numpy()[:-1], rows.to_numpy()[1:]
        assert ((after < before) | (after == before)).all()
        assert np.isinf(before[:2, 2]).all()  # two duels come before the first value
        assert np.isfinite(rows["value_regret"].iloc[2:]).all()
    # Some opponent was the best item so far.
    assert (found["regret"] < found[["duel_regret", "value_regret"]].min(axis=1)).any()
    at = regrets_at(table.join(found), [2.0, 7.0])
    assert len(at) == 60
    end = found.groupby([table[name] for name in RUN]).last()
    last = at[at["cost"] == 7.0].set_index(RUN)[[*end.columns]]
    pd.testing.assert_frame_equal(last, end)


def test_without_costs() -> None:
    table = run_experiment(Catalyst(), {"a": RandomPairs}, 2, 1, progress=False)
    with pytest.raises(UnsupportedError, match="table: its runs must have costs"):
        regrets_at(table.join(cost_regrets(table, 0.0)), [1.0])
