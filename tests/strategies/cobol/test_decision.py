"""The tests of Algorithm 1 at their edges, the dual step, and the record."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from botorch_pref.strategies.cobol.decision import (
    Decision,
    is_informative,
    is_promising,
    is_wide,
    next_weight,
)

NUMBER = st.floats(-50, 50)


@given(NUMBER, st.floats(0, 10), st.floats(1, 100))
def test_a_candidate_that_is_the_vanilla_one_is_trusted(
    mean: float, deviation: float, trust: float
) -> None:
    assert is_promising(mean + deviation, mean - deviation)
    assert is_informative(deviation, deviation, trust)


def test_equality_is_trusted_and_not_asked() -> None:
    assert is_promising(1.0, 1.0)
    assert not is_promising(1.0, 1.0 + 1e-12)
    assert is_informative(1.0, 3.0, 3.0)
    assert not is_informative(1.0, 3.0 + 1e-12, 3.0)
    assert not is_wide(0.0, 0.5, 0.5, "logit")
    assert is_wide(0.0, 0.5 + 1e-12, 0.5, "logit")


def test_widths_of_probabilities() -> None:
    """The link is a quarter steep at most."""
    assert is_wide(-0.5, 0.5, 0.2, "probability")
    assert not is_wide(-0.2, 0.2, 0.1, "probability")
    assert not is_wide(4.0, 8.0, 0.1, "probability")
    expected = 1 / (1 + math.exp(-1.3)) - 1 / (1 + math.exp(0.4))
    assert is_wide(-0.4, 1.3, expected - 1e-9, "probability")
    assert not is_wide(-0.4, 1.3, expected + 1e-9, "probability")


@given(NUMBER, NUMBER)
def test_without_a_threshold_it_is_always_asked_and_with_an_infinite_one_never(
    lower: float, width: float
) -> None:
    upper = lower + abs(width)
    assert is_wide(lower, upper, 0.0, "logit") == (upper > lower)
    for scale in ("logit", "probability"):
        assert not is_wide(lower, upper, math.inf, scale)  # type: ignore[arg-type]


@given(st.floats(0, 5), st.floats(0, 1), NUMBER)
def test_the_weight(weight: float, rate: float, upper: float) -> None:
    after = next_weight(weight, rate, upper)
    assert after >= 0
    if after > 0:
        assert after - weight == pytest.approx(-rate * upper, abs=1e-12)
    if upper < 0:
        assert after >= weight


def test_a_record_is_read_back() -> None:
    for decision in (
        Decision(True, "initial", "initial design"),
        Decision(False, "vanilla", "why", 1.0, 2.0, 0.1, 0.2, 0.3, 0.4, -1.0, 1.0),
    ):
        read = Decision.from_json(json.loads(json.dumps(decision.to_json(), allow_nan=False)))
        assert read.to_json() == decision.to_json()
