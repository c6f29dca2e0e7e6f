r"""GPyTorch kernels over pairs of items and over compared ones, over any GPyTorch base kernel."""

from botorch_pref.kernels.comparison_bias import ComparisonBiasKernel
from botorch_pref.kernels.items import dueling_variance
from botorch_pref.kernels.pairs import AdditivePairKernel, DuelingKernel, PairKernel

__all__ = [
    "AdditivePairKernel",
    "ComparisonBiasKernel",
    "DuelingKernel",
    "PairKernel",
    "dueling_variance",
]
