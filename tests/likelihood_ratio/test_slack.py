"""Slack rules: values, what a user may mean, and JSON."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.likelihood_ratio.slack import (
    ConstantSlack,
    PaperSlack,
    SlackRule,
    SqrtSlack,
    VilleSlack,
    slack_rule,
    slack_to_json,
)

RULES: list[SlackRule] = [
    SqrtSlack(),
    SqrtSlack(0.01, 1.0, True),
    ConstantSlack(),
    ConstantSlack(0.0),
    PaperSlack(0.1, 0.02, 3.0),
    VilleSlack(0.1, 0.0, 1.5),
]


def test_values() -> None:
    assert SqrtSlack()(9, 3.0) == 3.0
    assert SqrtSlack(0.5, 7.0)(9, 3.0) == 2.0
    assert SqrtSlack(0.01, 1.0, True)(24, 4.0) == pytest.approx(0.2)
    assert ConstantSlack(0.7)(9, 3.0) == 0.7
    assert PaperSlack(0.05, 0.01, 5.0)(10, 1.0) == pytest.approx(65.01837, abs=1e-5)
    expected = 5 - math.log(0.05) + 0.01 * 10 * (1 + 2 / (1 + math.exp(-2)))
    assert VilleSlack(0.05, 0.01, 5.0)(10, 1.0) == pytest.approx(expected)


@pytest.mark.parametrize("rule", RULES)
def test_json_round_trip(rule: SlackRule) -> None:
    assert slack_rule(json.loads(json.dumps(slack_to_json(rule)))) == rule
    assert slack_rule(rule) is rule


def test_what_a_user_may_mean() -> None:
    given = {"rule": "sqrt", "scale": 2.0}
    assert slack_rule(given) == SqrtSlack(2.0)
    assert given == {"rule": "sqrt", "scale": 2.0}
    assert slack_rule("sqrt") == SqrtSlack()
    assert slack_rule("constant") == ConstantSlack()
    assert slack_rule("paper") == PaperSlack()
    assert slack_rule("ville") == VilleSlack()
    assert slack_rule(2) == ConstantSlack(2.0)
    assert slack_rule(0.0) == ConstantSlack(0.0)
    assert slack_rule(math.inf)(3, 1.0) == math.inf
    assert slack_rule(lambda t, bound: t * bound)(3, 2.0) == 6.0


@pytest.mark.parametrize(
    "slack",
    [
        True,
        None,
        {},
        {"scale": 1.0},
        {"rule": 3},
        {"rule": "sqrt", "slope": 1.0},
        {"rule": "sqrt", "scale": "one"},
        -1.0,
        math.nan,
        {"rule": "sqrt", "scale": -1.0},
        {"rule": "sqrt", "scale": math.nan},
        {"rule": "sqrt", "offset": -1.0},
        {"rule": "constant", "value": -0.1},
    ],
)
def test_refuses_what_is_no_slack(slack: Any) -> None:
    with pytest.raises(ComparisonDataError, match="`slack`"):
        slack_rule(slack)


def test_errors_name_the_option() -> None:
    for option, value in (("delta", 2.0), ("epsilon", -1.0), ("log_covering", math.nan)):
        with pytest.raises(ComparisonDataError, match=f"`{option}`"):
            slack_rule({"rule": "ville", option: value})


def test_a_function_has_no_json() -> None:
    class Named:
        rule = "sqrt"

        def __call__(self, num_answers: int, value_bound: float) -> float:
            return 1.0

    for rule in (lambda t, bound: 1.0, Named()):
        with pytest.raises(ComparisonDataError, match="`slack`"):
            slack_to_json(rule)
