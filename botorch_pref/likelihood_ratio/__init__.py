r"""Likelihood-ratio confidence sets: functions of tensors that know no model."""

from botorch_pref.likelihood_ratio.bounds import Bound, ConfidenceSet
from botorch_pref.likelihood_ratio.minimax import LeastAdvantage, least_advantage
from botorch_pref.likelihood_ratio.program import (
    FINAL,
    SCREENING,
    LikelihoodProgram,
    MaximumLikelihood,
    Whitening,
    whiten,
)

__all__ = [
    "FINAL",
    "SCREENING",
    "Bound",
    "ConfidenceSet",
    "LeastAdvantage",
    "LikelihoodProgram",
    "MaximumLikelihood",
    "Whitening",
    "least_advantage",
    "whiten",
]
