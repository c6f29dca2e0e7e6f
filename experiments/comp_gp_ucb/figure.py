r"""The figure of experiments with a budget: regrets on logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from experiments.figures import carried, draw_bands, draw_legend, seeds_of

_COLUMNS = 3
_ROUNDING = 1e-9  # below this share of the largest regret it is that of an optimum
_LABELS = {"cost": "spent, in values", "ratio": "duels for the price of a value"}


class View(NamedTuple):
    r"""A panel.

    Attributes:
        title: Its title.
        rows: The columns ``arm``, ``seed`` and those named.
        x: ``"cost"`` or ``"ratio"``.
        y: A regret, which is infinite before there is one.
    """

    title: str
    rows: pd.DataFrame
    x: str
    y: str


def plot_costs(views: Sequence[View], title: str) -> Figure:
    r"""Means and standard errors of regrets, in every panel in the same colours.

    Args:
        views: The panels.
        title: The title.

    Returns:
        The figure, which belongs to no window.
    """
    columns = 2 if len(views) == 4 else min(_COLUMNS, len(views))
    lines = -(-len(views) // columns)
    figure = Figure(figsize=(4.0 * columns, 3.4 * lines + 0.8), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    panels = [*figure.subplots(lines, columns, squeeze=False).flat]
    arms = pd.concat([view.rows["arm"] for view in views]).unique()
    styles = {name: number for number, name in enumerate(arms)}
    for axes, view in zip(panels, views, strict=False):
        _draw(axes, view, styles)
    for axes in panels[len(views) :]:
        axes.set_axis_off()
    draw_legend(figure, panels, seeds_of(pd.concat([view.rows for view in views])))
    figure.supylabel("regret", fontsize="medium")
    figure.suptitle(title, x=0.01, ha="left", fontsize="medium")
    return figure


def _draw(axes: Axes, view: View, styles: dict[str, int]) -> None:
    known = view.rows[view.rows[view.y] < math.inf].assign(strategy=view.rows["arm"])
    # A mean over the runs that have come so far would jump as others follow.
    regrets = carried(known, view.x, view.y)
    missing = regrets[view.y].isna().groupby([regrets["strategy"], regrets[view.x]])
    regrets = regrets[~missing.transform("any")]
    draw_bands(axes, regrets, view.x, view.y, styles, marked=view.x == "ratio")
    means = regrets.groupby(["strategy", view.x])[view.y].mean()
    positive = means[means > _ROUNDING * means.max()]
    axes.set_yscale("log")
    if len(positive):  # a mean of 0 leaves the panel at its bottom
        axes.set_ylim(0.8 * positive.min(), 1.25 * positive.max())
    axes.set_xlabel(_LABELS[view.x])
    axes.set_title(view.title, fontsize="medium", loc="left")
