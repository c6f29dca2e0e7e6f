r"""Judgement data, validated once."""

from botorch_pref.data.checks import UNKNOWN_ANNOTATOR
from botorch_pref.data.comparisons import Comparisons
from botorch_pref.data.labels import Labels

__all__ = ["UNKNOWN_ANNOTATOR", "Comparisons", "Labels"]
