r"""Slacks: how far a set reaches below the largest log likelihood, by the number of answers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from botorch_pref.data.options import endless_from_json, endless_to_json, plain
from botorch_pref.exceptions import ComparisonDataError


@dataclass(frozen=True)
class SqrtSlack:
    r"""``scale sqrt(t + offset)`` after ``t`` answers, times ``kappa B`` if wanted.

    Xu et al. (2024), App. P, with the scale 1. Their scale is ``beta_0``. It is no confidence
    bound: under the true kernel and norm the set contained the truth in about 7 runs of 10 up
    to 40 random duels, and with twice the slack in nearly all.

    Args:
        scale: The slack of one answer, at least 0.
        offset: What is added to the number of answers.
        times_bound: Whether the slack is proportional to ``kappa B``, the bound on the values of
            all functions of the ball.
    """

    rule: ClassVar[str] = "sqrt"

    scale: float = 1.0
    offset: float = 0.0
    times_bound: bool = False

    def __call__(self, num_answers: int, value_bound: float) -> float:
        """The slack, at least 0."""
        slack = self.scale * math.sqrt(num_answers + self.offset)
        return slack * value_bound if self.times_bound else slack


@dataclass(frozen=True)
class ConstantSlack:
    r"""The same slack for any number of answers, as in Figure 1 of Xu et al. (2024).

    Args:
        value: The slack, at least 0.
    """

    rule: ClassVar[str] = "constant"

    value: float = 1.0

    def __call__(self, num_answers: int, value_bound: float) -> float:
        """The slack, at least 0."""
        return self.value


SlackRule = SqrtSlack | ConstantSlack


def slack_rule(slack: float | str | Mapping[str, Any] | SlackRule) -> SlackRule:
    r"""The slack rule of an argument.

    Args:
        slack: A number, at least 0, for a constant slack; ``"sqrt"`` or ``"constant"`` for a rule
            with its defaults; a mapping of ``"rule"`` and its options; or a rule.

    Raises:
        ComparisonDataError: If it is none of these, or an option is out of range.
    """
    if isinstance(slack, SlackRule):
        return slack
    options: Mapping[str, Any] = {}
    if isinstance(slack, str):
        options = {"rule": slack}
    elif isinstance(slack, Mapping):
        options = slack
    elif isinstance(value := plain(slack), int | float) and not isinstance(value, bool):
        options = {"rule": "constant", "value": float(value)}
    options = endless_from_json(options)
    kinds = {kind.rule: kind for kind in (SqrtSlack, ConstantSlack)}
    try:
        rule: SlackRule = kinds[options.pop("rule", "")](**options)
        valid = rule(0, 1.0) >= 0.0 and rule(1, 1.0) >= 0.0
    except (KeyError, TypeError, ValueError) as error:
        raise ComparisonDataError(
            f"`slack` must be a number, one of {', '.join(kinds)}, a mapping of that `rule` and "
            f"its options, or a rule, not {slack!r}."
        ) from error
    if not valid:
        raise ComparisonDataError(f"`slack` must be at least 0, but {rule!r} is not.")
    return rule


def slack_to_json(rule: SlackRule) -> dict[str, Any]:
    r"""A rule as the mapping that :func:`slack_rule` reads."""
    return endless_to_json({"rule": rule.rule, **asdict(rule)})
