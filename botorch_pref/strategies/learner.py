r"""See :mod:`botorch_pref.strategies.utility`."""

from botorch_pref.strategies.utility import (
    UtilityLearner,
    fitted_values,
    fixed_values,
    kernel_of,
    last_refit,
    refit_is_due,
)

__all__ = [
    "UtilityLearner",
    "fitted_values",
    "fixed_values",
    "kernel_of",
    "last_refit",
    "refit_is_due",
]
