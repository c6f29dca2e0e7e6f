r"""The settings of COBOL, checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, Self, TypedDict, get_args

from botorch_pref.acquisition.log_human_constrained_ei import Acceptance
from botorch_pref.data.checks import (
    check_count,
    checked_positive,
    endless_to_json,
    is_positive,
    plain_options,
)
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.likelihood_ratio.slack import slack_rule, slack_to_json
from botorch_pref.strategies.cobol.decision import Scale

Candidate = Literal["primal-dual", "constrained", "hcei", "belief", "pinpoint"]
Feedback = Literal["accept", "compare"]
_WORDS = {
    "feedback": Feedback,
    "candidate": Candidate,
    "acceptance": Acceptance,
    "threshold_scale": Scale,
}
PAPER: dict[str, Any] = {
    "candidate": "primal-dual",
    "norm_bound_limit": None,
    "value_bound": None,
    "threshold": 0.1,
    "threshold_scale": "logit",
    "label_lengthscale": 1.0,
    "label_intercept": 0.0,
    "max_rejections": None,
    "lengthscale_prior": False,
    "beta": None,
}
"""Where the paper's preset differs from the practical one."""

_SLACK = {"rule": "sqrt", "scale": 0.01, "offset": 1.0, "times_bound": True}


class CobolOptions(TypedDict, total=False):
    r"""The options of :class:`~botorch_pref.strategies.COBOL`; see :class:`Settings`."""

    feedback: Feedback
    candidate: Candidate
    acceptance: Acceptance
    trust_weight: float
    rate: float
    trust: float
    beta: float | None
    threshold: float
    threshold_scale: Scale
    norm_bound: float
    norm_bound_limit: float | None
    value_bound: float | None
    label_window: int | None
    label_lengthscale: float
    label_intercept: float
    slack: float | str | Mapping[str, Any]
    max_rejections: int | None
    num_initial_values: int
    num_initial_labels: int
    noise: float
    lengthscale_prior: bool


@dataclass(frozen=True)
class Settings:
    r"""What a COBOL strategy is set to; the defaults are the practical preset.

    Attributes:
        feedback: What the expert is asked: ``"accept"``, whether he accepts an item; or
            ``"compare"``, App. H, whether he prefers it to the measured item with the largest
            posterior mean. Then all that is said here of his belief is of its difference to
            that item, a label is a duel, and to reject is to prefer the measured item.
        candidate: How the augmented candidate is found: ``"primal-dual"``, eq. (5);
            ``"constrained"``, the vanilla rule where the upper end is not negative; ``"hcei"``,
            eq. (70), expected improvement times the probability of acceptance;
            ``"belief"``, the largest upper end alone; ``"pinpoint"``, App. H.2, what a person
            named, of whom no labels are asked.
        acceptance: Whose probability ``"hcei"`` takes: that of the most likely belief,
            ``"mle"``, or of the upper end, ``"upper"``.
        trust_weight: ``lambda_0``, in standard deviations of the values per logit.
        rate: ``zeta``, of the dual step.
        trust: ``eta``, at least 1.
        beta: Multiplies the standard deviation of the objective; None for Lemma 3.1 with the
            paper's constants, which is 1 to two digits, and with what the values have told.
        threshold: ``g_thr``: the expert is asked where his interval is wider.
        threshold_scale: Whether widths are of probabilities or of logits.
        norm_bound: The bound on the norm of the belief to begin with, of unit kernels.
        norm_bound_limit: What it may be doubled to; None for no limit.
        value_bound: The largest absolute logit, where items are compared of either side of the
            difference; None for no bound.
        label_window: Only so many last labels count, of experts who change; None for all.
        label_lengthscale: The lengthscales of the belief, in those of the objective.
        label_intercept: The share of a constant in the variance of the belief, at least 0 and
            below 1. With one, rejections all over the domain also speak of items far from
            all labels, which without one are accepted or not with even chances.
        slack: See :func:`~botorch_pref.likelihood_ratio.slack.slack_rule`.
        max_rejections: After so many in a row the vanilla item is evaluated; None for no
            limit.
        num_initial_values: Values of a space-filling sample to begin with, at least 1.
        num_initial_labels: Labels of another.
        noise: The variance of the noise of a value, in squared standard deviations of all.
        lengthscale_prior: Whether BoTorch's prior is put on lengthscales.
    """

    feedback: Feedback = "accept"
    candidate: Candidate = "hcei"
    acceptance: Acceptance = "mle"
    trust_weight: float = 1.0
    rate: float = 0.02
    trust: float = 3.0
    beta: float | None = 1.0
    threshold: float = 0.1
    threshold_scale: Scale = "probability"
    norm_bound: float = 1.0
    norm_bound_limit: float | None = 4.0
    value_bound: float | None = 3.0
    label_window: int | None = None
    label_lengthscale: float = 2.0
    label_intercept: float = 0.3
    slack: Any = None
    max_rejections: int | None = 5
    num_initial_values: int = 3
    num_initial_labels: int = 10
    noise: float = 1e-4
    lengthscale_prior: bool = True

    @classmethod
    def checked(cls, **options: Any) -> Self:
        r"""Settings of a user.

        Raises:
            ComparisonDataError: If an option is unknown or out of range; names it.
        """
        names = [field.name for field in fields(cls)]
        if unknown := sorted(options.keys() - set(names)):
            raise ComparisonDataError(f"Unknown options {unknown}; there are {', '.join(names)}.")
        options = plain_options(options)
        new = cls(**{**options, "slack": slack_to_json(slack_rule(options.get("slack", _SLACK)))})
        for name, words in _WORDS.items():
            if (value := getattr(new, name)) not in get_args(words):
                raise ComparisonDataError(
                    f"`{name}` must be one of {', '.join(get_args(words))}, got {value!r}."
                )
        for name in ("norm_bound", "label_lengthscale", "noise"):
            checked_positive(name, getattr(new, name))
        for name in ("beta", "norm_bound_limit", "value_bound"):
            if (value := getattr(new, name)) is not None:
                checked_positive(name, value)
        for name in ("trust_weight", "rate"):
            if not (is_positive(value := getattr(new, name)) or value == 0):
                raise ComparisonDataError(f"`{name}` must be at least 0 and finite, not {value!r}.")
        share = new.label_intercept
        if not ((is_positive(share) and share < 1) or share == 0):
            raise ComparisonDataError(
                f"`label_intercept` must be at least 0 and below 1, not {share!r}."
            )
        if not (is_positive(new.trust) and new.trust >= 1):
            raise ComparisonDataError(f"`trust` must be at least 1 and finite, not {new.trust!r}.")
        if not (is_positive(new.threshold) or new.threshold in (0, math.inf)):
            raise ComparisonDataError(f"`threshold` must be at least 0, not {new.threshold!r}.")
        check_count("num_initial_values", new.num_initial_values, 1)
        check_count("num_initial_labels", new.num_initial_labels, 0)
        for name in ("max_rejections", "label_window"):
            if (value := getattr(new, name)) is not None:
                check_count(name, value, 1)
        if not isinstance(new.lengthscale_prior, bool):
            raise ComparisonDataError(
                f"`lengthscale_prior` must be True or False, not {new.lengthscale_prior!r}."
            )
        return new

    def to_json(self) -> dict[str, Any]:
        """As plain JSON, which :meth:`checked` reads."""
        return endless_to_json(asdict(self))
