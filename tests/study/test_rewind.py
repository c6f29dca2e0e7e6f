"""Differences of plain JSON, and the states that they lead to."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from botorch_pref.study.rewind import apply, difference

LEAVES = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.text(max_size=2)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=1), inner),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(new=VALUES, old=VALUES)
@example(new=[1, {"a": True}], old=[1.0, {"a": 1}])
@example(new={"a": 0.0}, old={"a": -0.0})
def test_a_difference_leads_back(new: Any, old: Any) -> None:
    text = json.dumps(new)
    change = json.loads(json.dumps(difference(new, old)))
    assert json.dumps(apply(new, change), sort_keys=True) == json.dumps(old, sort_keys=True)
    assert json.dumps(new) == text


def test_lists_that_grow_cost_nothing() -> None:
    old = {"widths": [*range(1000)], "round": 3}
    change = difference({"widths": [*range(1001)], "round": 4}, old)
    assert change == {
        "drop": [],
        "change": {"widths": {"keep": 1000, "add": []}, "round": {"set": 3}},
    }
