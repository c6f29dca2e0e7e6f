from __future__ import annotations

import math
import statistics

import pandas as pd
import pytest

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.runner import summarise

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
