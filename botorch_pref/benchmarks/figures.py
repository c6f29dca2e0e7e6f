r"""Figures that experiments have beside those of all runs."""

from __future__ import annotations

import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from botorch_pref.plotting import COLOURS, DASHES

MARKERS = "osD^vP"


def plot_bands(
    rows: pd.DataFrame, *, x: str, y: str, title: str, xlabel: str, ylabel: str
) -> Figure:
    r"""Means over the seeds with markers and a band of one standard error.

    Args:
        rows: A row for each ``strategy``, ``seed`` and value of ``x``.
        x: The column along the abscissa.
        y: The column that is averaged.
        title: The title.
        xlabel: The abscissa's label.
        ylabel: The ordinate's label.

    Returns:
        The figure, which belongs to no window.
    """
    figure = Figure(figsize=(7.0, 4.6), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for number, strategy in enumerate(rows["strategy"].unique()):
        values = rows[rows["strategy"] == strategy].groupby(x)[y]
        mean, error = values.mean(), values.sem().fillna(0.0)
        colour = COLOURS[number % len(COLOURS)]
        axes.plot(
            mean.index,
            mean,
            color=colour,
            ls=DASHES[number % len(DASHES)],
            marker=MARKERS[number % len(MARKERS)],
            lw=1.5,
            ms=4.0,
            label=strategy,
        )
        axes.fill_between(mean.index, mean - error, mean + error, color=colour, alpha=0.18, lw=0)
    axes.set_ylim(bottom=0.0)
    axes.set_xlim(left=0.0)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.grid(color="#E5E5E5", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    seeds = rows["seed"].nunique()
    kind = "one seed" if seeds == 1 else f"mean ± standard error of {seeds} seeds"
    axes.legend(title=kind, frameon=False, fontsize="small", title_fontsize="small")
    figure.suptitle(title, x=0.01, ha="left", fontsize="medium")
    return figure
