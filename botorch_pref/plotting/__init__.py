r"""Figures for print, drawn without pyplot.

Every function returns a :class:`matplotlib.figure.Figure`, which
:func:`~botorch_pref.plotting.save_figure` writes.
"""

from botorch_pref.plotting.predictions import plot_calibration
from botorch_pref.plotting.ranking import plot_ranking
from botorch_pref.plotting.regret import plot_experiment, plot_regret
from botorch_pref.plotting.style import COLOURS, DASHES, MARKERS, save_figure
from botorch_pref.plotting.utility import plot_utility
from botorch_pref.plotting.win_probabilities import plot_win_probabilities

__all__ = [
    "COLOURS",
    "DASHES",
    "MARKERS",
    "plot_calibration",
    "plot_experiment",
    "plot_ranking",
    "plot_regret",
    "plot_utility",
    "plot_win_probabilities",
    "save_figure",
]
