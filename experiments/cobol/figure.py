r"""The figure of experiments with an expert: simple regrets, labels below them."""

from __future__ import annotations

import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from experiments.figures import carried, draw_bands, draw_legend, seeds_of

_COLUMNS = 4


def plot_advice(rows: pd.DataFrame, initial_values: int, title: str) -> Figure:
    r"""Simple regrets over evaluations, and below them labels over steps, for every panel.

    Runs that end before others keep their last numbers.

    Args:
        rows: A row for each ``panel``, ``strategy``, ``seed`` and ``step``, with the columns
            ``simple_regret``, ``num_evaluations`` and ``num_labels`` of
            :class:`~botorch_pref.runner.History`.
        initial_values: How many evaluations belong to the initial design.
        title: The title.

    Returns:
        The figure, which belongs to no window.
    """
    names = [*rows["panel"].unique()]
    styles = {name: number for number, name in enumerate(rows["strategy"].unique())}
    columns, blocks = min(_COLUMNS, len(names)), -(-len(names) // _COLUMNS)
    size = (max(7.0, 3.0 * columns), 5.4 * blocks + 0.6)
    figure = Figure(figsize=size, dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    places = figure.subplots(2 * blocks, columns, squeeze=False)
    above, below = places[::2].ravel(), places[1::2].ravel()
    counted = rows.assign(evaluations=rows["num_evaluations"].astype(float) - initial_values)
    for column, name in enumerate(names):
        panel = counted[counted["panel"] == name]
        regrets = carried(panel[panel["evaluations"] >= 0], "evaluations", "simple_regret")
        draw_bands(above[column], regrets, "evaluations", "simple_regret", styles, marked=False)
        above[column].set_yscale("log")
        above[column].set_ylim(_lowest(regrets), None)
        above[column].set_title(name, fontsize="medium", loc="left")
        labels = carried(panel, "step", "num_labels")
        draw_bands(below[column], labels, "step", "num_labels", styles, marked=False)
        above[column].set_xlabel("evaluations")
        below[column].set_xlabel("steps")
    for axes in (*above[len(names) :], *below[len(names) :]):
        axes.set_axis_off()
    for first in range(0, len(names), columns):
        above[first].set_ylabel("simple regret")
        below[first].set_ylabel("labels, initial ones included")
    draw_legend(figure, [*above[: len(names)]], seeds_of(rows))
    figure.suptitle(title, x=0.01, ha="left", fontsize="medium")
    return figure


def _lowest(regrets: pd.DataFrame) -> float:
    """Where a logarithmic axis may start: a bit below the least mean that is not zero."""
    means = regrets.groupby(["strategy", "evaluations"])["simple_regret"].mean()
    positive = means[means > 0.0]
    return 0.5 * float(positive.min()) if len(positive) else 1e-9
