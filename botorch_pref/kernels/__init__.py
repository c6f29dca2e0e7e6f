r"""GPyTorch kernels over pairs, compared items and rows of tables, over any base kernel."""

from botorch_pref.kernels.comparison_bias import ComparisonBiasKernel
from botorch_pref.kernels.items import dueling_variance
from botorch_pref.kernels.nugget import IndependentKernel, NuggetKernel
from botorch_pref.kernels.pairs import AdditivePairKernel, DuelingKernel, PairKernel
from botorch_pref.kernels.slope import SlopeKernel

__all__ = [
    "AdditivePairKernel",
    "ComparisonBiasKernel",
    "DuelingKernel",
    "IndependentKernel",
    "NuggetKernel",
    "PairKernel",
    "SlopeKernel",
    "dueling_variance",
]
