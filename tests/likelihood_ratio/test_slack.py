"""Slack rules: values, what a user may mean, and JSON."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.likelihood_ratio.slack import (
    ConstantSlack,
    SlackRule,
    SqrtSlack,
    slack_rule,
    slack_to_json,
)


def test_values() -> None:
    assert SqrtSlack()(9, 3.0) == 3.0
    assert SqrtSlack(0.5, 7.0)(9, 3.0) == 2.0
    assert SqrtSlack(0.01, 1.0, True)(24, 4.0) == pytest.approx(0.2)
    assert ConstantSlack(0.7)(9, 3.0) == 0.7


@pytest.mark.parametrize(
    "rule", [SqrtSlack(0.01, 1.0, True), ConstantSlack(0.0), ConstantSlack(math.inf)]
)
def test_json_round_trip(rule: SlackRule) -> None:
    assert slack_rule(json.loads(json.dumps(slack_to_json(rule)))) == rule
    assert slack_rule(rule) is rule


def test_what_a_user_may_mean() -> None:
    given = {"rule": "sqrt", "scale": 2.0}
    assert slack_rule(given) == SqrtSlack(2.0)
    assert given == {"rule": "sqrt", "scale": 2.0}
    assert slack_rule("sqrt") == SqrtSlack()
    assert slack_rule(2) == ConstantSlack(2.0)


@pytest.mark.parametrize(
    "slack",
    [
        True,
        None,
        "root",
        {},
        {"scale": 1.0},
        {"rule": []},
        {"rule": "sqrt", "slope": 1.0},
        {"rule": "sqrt", "scale": "one"},
        -1.0,
        math.nan,
        {"rule": "sqrt", "scale": -1.0},
        {"rule": "sqrt", "offset": -1.0},
        {"rule": "constant", "value": -0.1},
    ],
)
def test_refuses_what_is_no_slack(slack: Any) -> None:
    with pytest.raises(ComparisonDataError, match="`slack`"):
        slack_rule(slack)
