r"""Exact inference on a finite set of items, with leading batch dimensions."""

from botorch_pref.finite.engine import (
    FiniteEngine,
    FinitePosterior,
    Regularizer,
    checked_regularizer,
)
from botorch_pref.finite.ties import argmax_with_random_ties
from botorch_pref.finite.variance import PairVarianceTable

__all__ = [
    "FiniteEngine",
    "FinitePosterior",
    "PairVarianceTable",
    "Regularizer",
    "argmax_with_random_ties",
    "checked_regularizer",
]
