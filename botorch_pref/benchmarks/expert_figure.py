r"""The figure of experiments with an expert: simple regrets above, labels below."""

from __future__ import annotations

import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from botorch_pref.benchmarks.figures import carried, draw_bands, draw_legend, seeds_of


def plot_advice(rows: pd.DataFrame, initial_values: int, title: str) -> Figure:
    r"""Simple regrets over evaluations, and numbers of labels over steps, a column a panel.

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
    figure = Figure(figsize=(max(7.0, 3.0 * len(names)), 6.0), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    above, below = figure.subplots(2, len(names), squeeze=False)
    counted = rows.assign(evaluations=rows["num_evaluations"].astype(float) - initial_values)
    for column, name in enumerate(names):
        panel = counted[counted["panel"] == name]
        regrets = carried(panel[panel["evaluations"] >= 0], "evaluations", "simple_regret")
        draw_bands(above[column], regrets, "evaluations", "simple_regret", styles, marked=False)
        above[column].set_yscale("log")
        above[column].set_ylim(_lowest(regrets["simple_regret"]), None)
        above[column].set_title(name, fontsize="medium", loc="left")
        labels = carried(panel, "step", "num_labels")
        draw_bands(below[column], labels, "step", "num_labels", styles, marked=False)
        above[column].set_xlabel("evaluations")
        below[column].set_xlabel("steps")
    above[0].set_ylabel("simple regret")
    below[0].set_ylabel("labels, initial ones included")
    draw_legend(figure, above, seeds_of(rows))
    figure.suptitle(title, x=0.01, ha="left", fontsize="medium")
    return figure


def _lowest(regrets: pd.Series[float]) -> float:
    """Where a logarithmic axis may start: a bit below the least regret that is not zero."""
    positive = regrets[regrets > 0.0]
    return 0.5 * float(positive.min()) if len(positive) else 1e-9
