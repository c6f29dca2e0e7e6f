"""Exploration scales against the tables and formulas of the paper."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.strategies import Schedule
from botorch_pref.strategies.pf_ts import as_schedule


@pytest.mark.parametrize(
    ("step", "scale"),
    [
        (1, 1.5444),
        (2, 1.6082),
        (10, 1.9577),
        (50, 2.7194),
        (100, 3.1987),
        (200, 3.7825),
        (300, 4.1780),
        (800, 5.3261),
    ],
)
def test_table_of_the_paper(step: int, scale: float) -> None:
    found = as_schedule("paper").scale(step, penalty=0.05, kappa=1.0, gain=3.0)
    assert found == pytest.approx(scale, abs=5.1e-5)
    assert found**4 == pytest.approx(step + 1 + math.log(2 / 0.05), rel=1e-12)


def test_theory_by_hand() -> None:
    """Eq. (12) at B = 2, delta = 0.1, kappa = 22.1, lambda = 0.05, Gamma = 3."""
    width = 4 * 2 + 2 * math.sqrt(2 * 22.1 / 0.05 * (3 + math.log(10)))
    found = Schedule("theory", norm_bound=2.0, delta=0.1).scale(7, 0.05, 22.1, 3.0)
    assert found == pytest.approx(width, rel=1e-12)
    assert found == pytest.approx(144.93, abs=5e-3)


@given(
    norm=st.floats(0.1, 10.0),
    kappa=st.floats(4.0, 1e3),
    penalty=st.floats(1e-3, 1.0),
    delta=st.floats(1e-6, 0.5),
    gain=st.floats(0.0, 50.0),
)
def test_theory_grows(norm: float, kappa: float, penalty: float, delta: float, gain: float) -> None:
    def width(**changed: float) -> float:
        known = {"norm": norm, "kappa": kappa, "penalty": penalty, "delta": delta, "gain": gain}
        v = {**known, **changed}
        schedule = Schedule("theory", norm_bound=v["norm"], delta=v["delta"])
        return schedule.scale(1, v["penalty"], v["kappa"], v["gain"])

    base = width()
    assert width(norm=1.1 * norm) > base
    assert width(kappa=1.1 * kappa) > base
    assert width(penalty=penalty / 1.1) > base
    assert width(delta=delta / 1.1) > base
    assert width(gain=gain + 0.1) > base


def test_others() -> None:
    for step in (1, 100):
        assert as_schedule("bayes").scale(step, 0.25, 0.0, 0.0) == pytest.approx(2.0)
        half = Schedule("bayes", value=0.5)
        assert half.scale(step, 0.25, 0.0, 0.0) == pytest.approx(1.0)
        assert as_schedule(1.7).scale(step, 0.05, 1.0, 9.0) == 1.7
    assert as_schedule(3).scale(1, 0.05, 1.0, 0.0) == 3.0


@pytest.mark.parametrize("schedule", ["paper", "bayes", 0.3, Schedule("theory", delta=0.01)])
def test_fields_are_plain_json(schedule: str | float | Schedule) -> None:
    one = as_schedule(schedule)
    assert as_schedule(json.loads(json.dumps(one._asdict()))) == one
    assert as_schedule(one) == one


@pytest.mark.parametrize(
    "schedule",
    [
        "",
        "Paper",
        0,
        -1.0,
        math.nan,
        math.inf,
        True,
        None,
        [1.0],
        Schedule("theory", norm_bound=0.0),
        Schedule("theory", delta=-0.1),
        Schedule("theory", delta=1.5),
        Schedule("constant", value=math.inf),
        Schedule("constant", value="1"),
        {"kind": "cubic"},
        {"kindd": "paper"},
    ],
)
def test_bad_schedules(schedule: object) -> None:
    with pytest.raises(ComparisonDataError, match="`schedule`"):
        as_schedule(schedule)
