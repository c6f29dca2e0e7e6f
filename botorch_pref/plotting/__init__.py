r"""Figures for print, drawn without pyplot.

Every function returns a :class:`matplotlib.figure.Figure`, which
:func:`~botorch_pref.plotting.save_figure` writes. Those of a single panel take ``ax=None``, the
axes to draw on, and then return the figure that these are in.
"""

from botorch_pref.plotting.predictions import (
    plot_accuracy,
    plot_calibration,
    plot_cross_validation,
    wilson_interval,
)
from botorch_pref.plotting.regret import plot_experiment, plot_regret
from botorch_pref.plotting.scene import UtilityOptions
from botorch_pref.plotting.style import COLOURS, DASHES, MARKERS, save_figure
from botorch_pref.plotting.utility import (
    plot_utility,
    plot_utility_1d,
    plot_utility_2d,
    plot_utility_slices,
)
from botorch_pref.plotting.winners import plot_win_probabilities

__all__ = [
    "COLOURS",
    "DASHES",
    "MARKERS",
    "UtilityOptions",
    "plot_accuracy",
    "plot_calibration",
    "plot_cross_validation",
    "plot_experiment",
    "plot_regret",
    "plot_utility",
    "plot_utility_1d",
    "plot_utility_2d",
    "plot_utility_slices",
    "plot_win_probabilities",
    "save_figure",
    "wilson_interval",
]
