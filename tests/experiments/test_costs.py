"""Regrets of duels and values over what they cost."""

import math

import pandas as pd
import pytest

from botorch_pref.exceptions import UnsupportedError
from experiments.costs import cost_regrets, regrets_at


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
    with pytest.raises(UnsupportedError, match="table: its runs must have costs"):
        regrets_at(table.drop(columns="cost").join(found), [1.0])
