"""Regrets in units of the utility, of made-up runs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

from botorch_pref.problems import Ackley
from botorch_pref.strategies import RandomPairs
from experiments.claims import Claim, lower
from experiments.pop_bo.utility_regret import (
    SHARED,
    UtilityExperiment,
    regret_slope,
    with_first_arm,
)

EXPERIMENT = UtilityExperiment(
    name="made-up",
    title="A made-up experiment",
    source="nowhere",
    problem=partial(Ackley, num_choices=6),
    strategies={"one": RandomPairs, "two": RandomPairs},
    horizon=10,
    seeds=2,
    claims=(Claim("One is lower.", lower("cumulative", "one", "two")),),
)


def made_up(strategy: str, seed: int, first: list[float], second: list[float]) -> pd.DataFrame:
    """Arms of these utilities; the best item has 10."""
    steps = range(1, len(first) + 1)
    table = pd.DataFrame({"strategy": strategy, "seed": seed, "step": steps})
    arms = pd.DataFrame({"first_utility": first, "second_utility": second})
    regret = 10.0 - arms.mean(axis=1)
    table = pd.concat([table, arms.assign(utility_regret=regret, seconds=0.5)], axis=1)
    known = [None] * (len(first) - 1) + [0.25]
    return table.assign(problem="ackley", recommendation_regret=pd.Series(known, dtype=float))


TABLE = pd.concat(
    [
        made_up("one", 0, [9.0] * 10, [5.0] * 10),
        made_up("one", 1, [8.0] * 10, [10.0] * 10),
        made_up("two", 0, [10.0] * 9 + [6.0], [0.0] * 10),
        made_up("two", 1, [4.0] * 10, [4.0] * 10),
    ],
    ignore_index=True,
)


def test_the_first_arm() -> None:
    table = with_first_arm(TABLE)
    assert table["first_regret"].tolist() == pytest.approx((10.0 - TABLE["first_utility"]).tolist())
    last = table[table["step"] == 10]["cumulative_first_regret"]
    assert last.tolist() == pytest.approx([10.0, 20.0, 4.0, 60.0])


def test_measures() -> None:
    measures = EXPERIMENT.measures(TABLE)
    assert measures["strategy"].tolist() == ["one", "one", "two", "two"]
    assert measures["seed"].tolist() == [0, 1, 0, 1]
    assert measures["cumulative"].tolist() == pytest.approx([10.0, 20.0, 4.0, 60.0])
    assert measures[SHARED].tolist() == pytest.approx([4.0, 8.0, 1.6, 24.0])
    assert measures["total"].tolist() == pytest.approx([60.0, 20.0, 104.0, 120.0])
    assert {*measures["recommendation"]} == {0.25}
    assert {*measures["seconds"]} == {0.5}
    # One regret after another, all of them the same.
    assert measures["slope"].tolist() == pytest.approx([1.0, 1.0, measures["slope"][2], 1.0])


@pytest.mark.parametrize("power", [0.5, 0.75, 1.0])
def test_the_slope_of_a_power(power: float) -> None:
    steps = np.arange(1.0, 51.0)
    regret = 3.0 * steps**power
    assert regret_slope(steps, regret) == pytest.approx(power)
    regret[:9] = 17.0  # before a fifth of the steps
    assert regret_slope(steps, regret) == pytest.approx(power)


def test_slopes_where_there_is_none() -> None:
    assert regret_slope(np.array([1.0]), np.array([2.0])) == 0.0
    assert regret_slope(np.arange(1.0, 9.0), np.zeros(8)) == pytest.approx(0.0, abs=1e-12)


def test_columns_and_figures() -> None:
    shown = [column.heading for column in EXPERIMENT.columns]
    assert "log-log slope" not in shown
    assert len(EXPERIMENT.figure(TABLE).axes) == 2
    sloped = replace(EXPERIMENT, slopes=True)
    assert "log-log slope" in [column.heading for column in sloped.columns]
    powers = sloped.figure(TABLE).axes[2]
    assert (powers.get_xscale(), powers.get_yscale()) == ("log", "log")
    guides = [line for line in powers.get_lines() if line.get_color() == "#909090"]
    slopes = []
    for line in guides:
        x, y = (np.log(np.asarray(data, float)) for data in line.get_data())
        slopes.append(float((y[1] - y[0]) / (x[1] - x[0])))
    assert slopes == pytest.approx([0.5, 0.75, 1.0])
