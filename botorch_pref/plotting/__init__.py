r"""Figures for print, drawn without pyplot, or interactive ones.

Every function returns a :class:`matplotlib.figure.Figure` or, with ``backend="plotly"``, a
``plotly.graph_objects.Figure`` of the same data, whose texts under the mouse tell an item's
parameters; :func:`~botorch_pref.plotting.save_figure` writes either. Plotly is installed by the
extra ``plotly``.
"""

from botorch_pref.plotting.drawing import COLOURS, DASHES, MARKERS, save_figure
from botorch_pref.plotting.predictions import plot_calibration
from botorch_pref.plotting.ranking import plot_ranking
from botorch_pref.plotting.regret import plot_experiment, plot_regret
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
