r"""Likelihood-ratio confidence sets: functions of tensors that know no model."""

from botorch_pref.likelihood_ratio.confidence_set import (
    FINAL,
    SCREENING,
    Bound,
    ConfidenceSet,
    ConstantSlack,
    MaximumLikelihood,
    SlackRule,
    SqrtSlack,
    Whitening,
    slack_rule,
    whiten,
)

__all__ = [
    "FINAL",
    "SCREENING",
    "Bound",
    "ConfidenceSet",
    "ConstantSlack",
    "MaximumLikelihood",
    "SlackRule",
    "SqrtSlack",
    "Whitening",
    "slack_rule",
    "whiten",
]
