r"""Rules that choose what to ask, as BoTorch acquisition functions."""

from botorch_pref.acquisition.dueling_thompson import DuelingThompsonSampling
from botorch_pref.acquisition.pair_as_point import PairAsPoint

__all__ = ["DuelingThompsonSampling", "PairAsPoint"]
