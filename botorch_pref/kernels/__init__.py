r"""GPyTorch kernels over pairs of items and over judged ones, over any GPyTorch base kernel."""

from botorch_pref.kernels.additive_pair import AdditivePairKernel
from botorch_pref.kernels.base import PairKernel
from botorch_pref.kernels.comparison_bias import ComparisonBiasKernel
from botorch_pref.kernels.dueling import DuelingKernel, dueling_variance

__all__ = [
    "AdditivePairKernel",
    "ComparisonBiasKernel",
    "DuelingKernel",
    "PairKernel",
    "dueling_variance",
]
