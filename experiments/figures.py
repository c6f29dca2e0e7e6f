r"""Figures of experiments: means over the seeds with bands of one standard error, in panels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from botorch_pref.plotting import COLOURS, DASHES, MARKERS

_FEW = 12  # points of a curve, up to which they have markers


class View(NamedTuple):
    r"""A panel.

    Attributes:
        title: Its title.
        rows: The columns ``strategy``, ``seed`` and those named.
        x: The column along the abscissa.
        y: The column that is averaged; infinite where there is nothing yet.
        xlabel: The label of the abscissa.
        log: Whether the ordinate is logarithmic.
    """

    title: str
    rows: pd.DataFrame
    x: str
    y: str
    xlabel: str
    log: bool = False


def plot_views(views: Sequence[View], title: str, ylabel: str = "regret") -> Figure:
    r"""Draw views, in which a strategy has the same style, with one legend below them.

    A run keeps its last value up to the last place of its strategy. A curve starts where all
    of its runs have a value, as a mean over those that have one would jump.
    """
    columns = min(4, len(views))
    lines = -(-len(views) // columns)
    size = (max(7.0, 3.6 * columns), 3.2 * lines + 0.8)
    figure = new_figure(size, title)
    panels = [*figure.subplots(lines, columns, squeeze=False).flat]
    everything = pd.concat([view.rows for view in views])
    strategies = [*everything["strategy"].unique()]
    entries = {}
    for axes, view in zip(panels, views, strict=False):
        for strategy, rows in view.rows.groupby("strategy", sort=False):
            known = rows[np.isfinite(rows[view.y].astype(float))]
            runs = known.groupby([view.x, "seed"])[view.y].last().unstack("seed")
            runs = runs.sort_index().ffill().dropna()
            style = strategies.index(strategy)
            mean, error = runs.mean(axis=1), runs.sem(axis=1).fillna(0.0)
            (entries[strategy],) = axes.plot(
                mean.index,
                mean,
                color=COLOURS[style % len(COLOURS)],
                ls=DASHES[style % len(DASHES)],
                marker=MARKERS[style % len(MARKERS)] if len(mean) <= _FEW else None,
                lw=1.5,
                ms=4.0,
            )
            colour = entries[strategy].get_color()
            axes.fill_between(mean.index, mean - error, mean + error, color=colour, alpha=0.18)
        if view.log:
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0.0)
        axes.set_title(view.title, fontsize="medium", loc="left")
        axes.set_xlabel(view.xlabel)
        axes.grid(color="#E5E5E5", linewidth=0.8)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels[len(views) :]:
        axes.set_axis_off()
    seeds = everything["seed"].nunique()
    meaning = "one seed" if seeds == 1 else f"mean ± standard error of {seeds} seeds"
    style = {"loc": "outside lower left", "frameon": False, "ncols": 6, "alignment": "left"}
    figure.legend([*entries.values()], [*entries], title=meaning, fontsize="small", **style)
    figure.supylabel(ylabel, fontsize="medium")
    return figure


def new_figure(size: tuple[float, float], title: str) -> Figure:
    """A figure that belongs to no window."""
    figure = Figure(figsize=size, dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, x=0.01, ha="left", fontsize="medium")
    return figure
