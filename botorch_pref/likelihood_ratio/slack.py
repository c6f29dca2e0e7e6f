r"""Slacks: how far a set reaches below the largest log likelihood, by the number of answers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Protocol

from botorch_pref.data.checks import endless_from_json, endless_to_json, plain
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.likelihood_ratio.theory import beta1, beta_ville


class SlackRule(Protocol):
    r"""A slack for every number of answers."""

    def __call__(self, num_answers: int, value_bound: float) -> float:
        """The slack, at least 0.

        Args:
            num_answers: The number of answers so far.
            value_bound: ``kappa B``, a bound on the values of all functions of the ball.
        """


@dataclass(frozen=True)
class SqrtSlack:
    r"""``scale sqrt(t + offset)``, times ``kappa B`` if wanted.

    Xu et al. (2024), App. P, with the scale 1. Their scale is ``beta_0``. It is no confidence
    bound: under the true kernel and norm the set contained the truth in about 7 runs of 10 up
    to 40 random duels, and with twice the slack in nearly all.

    Args:
        scale: The slack of one answer, at least 0.
        offset: What is added to the number of answers.
        times_bound: Whether the slack is proportional to the bound on values.
    """

    rule: ClassVar[str] = "sqrt"

    scale: float = 1.0
    offset: float = 0.0
    times_bound: bool = False

    def __call__(self, num_answers: int, value_bound: float) -> float:
        """See :class:`SlackRule`."""
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
        """See :class:`SlackRule`."""
        return self.value


@dataclass(frozen=True)
class PaperSlack:
    r"""Theorem 3.1 of Xu et al. (2024); see :func:`~botorch_pref.likelihood_ratio.theory.beta1`.

    Args:
        delta: The probability of failure.
        epsilon: The radius of the cover.
        log_covering: The logarithm of the cover's size.
    """

    rule: ClassVar[str] = "paper"

    delta: float = 0.05
    epsilon: float = 0.01
    log_covering: float = 0.0

    def __call__(self, num_answers: int, value_bound: float) -> float:
        """See :class:`SlackRule`."""
        return beta1(self.epsilon, self.delta, num_answers, value_bound, self.log_covering)


@dataclass(frozen=True)
class VilleSlack(PaperSlack):
    r"""See :func:`~botorch_pref.likelihood_ratio.theory.beta_ville`; arguments as of the base."""

    rule: ClassVar[str] = "ville"

    def __call__(self, num_answers: int, value_bound: float) -> float:
        """See :class:`SlackRule`."""
        return beta_ville(self.epsilon, self.delta, num_answers, value_bound, self.log_covering)


_RULES: dict[str, Any] = {
    kind.rule: kind for kind in (SqrtSlack, ConstantSlack, PaperSlack, VilleSlack)
}


def slack_rule(slack: float | str | Mapping[str, Any] | SlackRule) -> SlackRule:
    r"""The slack rule of an argument.

    Args:
        slack: A number, at least 0, for a constant slack; ``"sqrt"``, ``"constant"``,
            ``"paper"`` or ``"ville"`` for a rule with its defaults; a mapping of ``"rule"`` and its
            options; or a rule.

    Returns:
        The rule.

    Raises:
        ComparisonDataError: If it is none of these, or an option is out of range.
    """
    if callable(slack):
        return slack
    if isinstance(slack, str):
        slack = {"rule": slack}
    elif isinstance(slack := plain(slack), int | float) and not isinstance(slack, bool):
        slack = {"rule": "constant", "value": float(slack)}
    options = endless_from_json(slack) if isinstance(slack, Mapping) else {}
    name = options.pop("rule", None)
    unknown = ComparisonDataError(
        f"`slack` must be a number, one of {', '.join(_RULES)}, a mapping of that `rule` and its "
        f"options, or a rule, not {slack!r}."
    )
    if not isinstance(name, str) or name not in _RULES:
        raise unknown
    try:
        rule: SlackRule = _RULES[name](**options)
        valid = rule(0, 1.0) >= 0.0 and rule(1, 1.0) >= 0.0
    except (TypeError, ValueError) as error:
        raise unknown from error
    if not valid:
        raise ComparisonDataError(f"`slack` must be at least 0, but {rule!r} is not.")
    return rule


def slack_to_json(rule: SlackRule) -> dict[str, Any]:
    r"""A rule as the mapping that :func:`slack_rule` reads.

    Raises:
        ComparisonDataError: If it is none of this module's.
    """
    kind = _RULES.get(str(getattr(rule, "rule", None)))
    if kind is None or not isinstance(rule, kind):
        raise ComparisonDataError(f"`slack` {rule!r} cannot be written as JSON; use a named rule.")
    return endless_to_json({"rule": kind.rule, **asdict(rule)})
