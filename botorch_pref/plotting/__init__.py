r"""Figures for print, drawn without pyplot.

Every function returns a :class:`matplotlib.figure.Figure`, which
:func:`~botorch_pref.plotting.save_figure` writes. Those of a single panel take ``ax=None``, the
axes to draw on, and then return the figure that these are in.
"""

from botorch_pref.plotting.regret import plot_experiment, plot_regret
from botorch_pref.plotting.style import COLOURS, DASHES, MARKERS, save_figure

__all__ = [
    "COLOURS",
    "DASHES",
    "MARKERS",
    "plot_experiment",
    "plot_regret",
    "save_figure",
]
