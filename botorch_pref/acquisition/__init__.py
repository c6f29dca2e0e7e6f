r"""Rules that choose what to ask, as BoTorch acquisition functions."""

from botorch_pref.acquisition import input_constructors  # noqa: F401 (registers the rules)
from botorch_pref.acquisition.advantage_ucb import AdvantageUCB
from botorch_pref.acquisition.dueling_thompson import DuelingThompsonSampling
from botorch_pref.acquisition.max_min_lcb import MaxMinLCB
from botorch_pref.acquisition.optimistic_advantage import OptimisticAdvantage
from botorch_pref.acquisition.optimistic_choice import OptimisticChoice
from botorch_pref.acquisition.pair_as_point import PairAsPoint
from botorch_pref.acquisition.pair_variance import PairVariance

__all__ = [
    "AdvantageUCB",
    "DuelingThompsonSampling",
    "MaxMinLCB",
    "OptimisticAdvantage",
    "OptimisticChoice",
    "PairAsPoint",
    "PairVariance",
]
