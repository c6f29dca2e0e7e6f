r"""Figures that experiments have beside those of all runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from botorch_pref.plotting import COLOURS, DASHES, MARKERS
from botorch_pref.plotting.style import grid


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
    draw_bands(axes, rows, x, y)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.legend(title=seeds_of(rows), frameon=False, fontsize="small", title_fontsize="small")
    figure.suptitle(title, x=0.01, ha="left", fontsize="medium")
    return figure


def plot_panels(
    rows: pd.DataFrame, *, panel: str, x: str, y: str, title: str, xlabel: str, ylabel: str
) -> Figure:
    r"""As :func:`plot_bands`, with a panel for each value of a column.

    Args:
        rows: A row for each ``strategy``, ``seed``, panel and value of ``x``.
        panel: The column whose values have panels, in the order of the rows.
        x: The column along the abscissas.
        y: The column that is averaged.
        title: The title.
        xlabel: The abscissas' label.
        ylabel: The ordinates' label.

    Returns:
        The figure, which belongs to no window; the last panel is the legend.
    """
    names = rows[panel].unique()
    columns = min(4, len(names) + 1)
    lines = -(-(len(names) + 1) // columns)
    figure = Figure(figsize=(3.4 * columns, 3.0 * lines), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    panels = [*figure.subplots(lines, columns, squeeze=False).flat]
    styles = {strategy: number for number, strategy in enumerate(rows["strategy"].unique())}
    for axes, name in zip(panels, names, strict=False):
        draw_bands(axes, rows[rows[panel] == name], x, y, styles)
        axes.set_title(name, fontsize="medium", loc="left")
    for axes in panels[len(names) :]:
        axes.set_axis_off()
    entries = panels[0].get_legend_handles_labels()
    legend = {"loc": "center left", "frameon": False, "title": seeds_of(rows)}
    panels[len(names)].legend(*entries, **legend, fontsize="small", title_fontsize="small")
    figure.supxlabel(xlabel, fontsize="medium")
    figure.supylabel(ylabel, fontsize="medium")
    figure.suptitle(title, x=0.01, ha="left", fontsize="medium")
    return figure


def draw_utility_band(axes: Axes, rows: pd.DataFrame) -> None:
    r"""A utility on a line, its estimate and what is about as likely ([Xu2024], Fig. 1).

    Args:
        axes: What to draw on.
        rows: The columns ``x``, ``lower``, ``estimate``, ``upper`` and ``utility``, by
            rising ``x``.

    References:
    .. [Xu2024] W. Xu, W. Wang, Y. Jiang, B. Svetozarevic, C. N. Jones. Principled
        Preferential Bayesian Optimization. ICML 2024.
    """
    band = axes.fill_between(rows["x"], rows["lower"], rows["upper"], color=COLOURS[0], lw=0)
    band.set(alpha=0.18, label="confidence band")
    axes.plot(rows["x"], rows["estimate"], color=COLOURS[0], lw=1.8, label="most likely")
    axes.plot(rows["x"], rows["utility"], color=COLOURS[1], lw=1.5, ls="--", label="utility")
    axes.set_xlim(rows["x"].min(), rows["x"].max())
    axes.set_xlabel("item")
    _grid(axes)


def draw_bands(
    axes: Axes,
    rows: pd.DataFrame,
    x: str,
    y: str,
    styles: Mapping[str, int] | None = None,
    marked: bool = True,
) -> None:
    r"""Draw means and standard errors of every strategy.

    Args:
        axes: What to draw on.
        rows: A row for each ``strategy``, ``seed`` and value of ``x``.
        x: The column along the abscissa.
        y: The column that is averaged.
        styles: The number of each strategy's style; in the order of the rows if omitted.
        marked: Whether there are markers.
    """
    for number, strategy in enumerate(rows["strategy"].unique()):
        style = number if styles is None else styles[strategy]
        values = rows[rows["strategy"] == strategy].groupby(x)[y]
        mean, error = values.mean(), values.sem().fillna(0.0)
        colour = COLOURS[style % len(COLOURS)]
        axes.plot(
            mean.index,
            mean,
            color=colour,
            ls=DASHES[style % len(DASHES)],
            marker=MARKERS[style % len(MARKERS)] if marked else None,
            lw=1.5,
            ms=4.0,
            label=strategy,
        )
        axes.fill_between(mean.index, mean - error, mean + error, color=colour, alpha=0.18, lw=0)
    axes.set_ylim(bottom=0.0)
    axes.set_xlim(left=0.0)
    _grid(axes)


def _grid(axes: Axes) -> None:
    grid(axes)
    axes.spines[["top", "right"]].set_visible(False)


def seeds_of(rows: pd.DataFrame) -> str:
    """What the bands are, for the heading of a legend."""
    seeds = rows["seed"].nunique()
    return "one seed" if seeds == 1 else f"mean ± standard error of {seeds} seeds"


def draw_legend(figure: Figure, panels: Iterable[Axes], title: str) -> None:
    r"""One legend of all that is in any panel, below them.

    Args:
        figure: The figure.
        panels: Its panels.
        title: The heading.
    """
    entries = {
        label: line
        for axes in panels
        for line, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        [*entries.values()],
        [*entries],
        title=title,
        loc="outside lower left",
        ncols=6,
        frameon=False,
        fontsize="small",
        title_fontsize="small",
        alignment="left",
    )


def carried(rows: pd.DataFrame, x: str, y: str) -> pd.DataFrame:
    r"""The last value of every run at each place, carried on to the last place of all.

    Args:
        rows: The columns ``strategy``, ``seed`` and those named, in the order of the steps.
        x: The column of places.
        y: The column of values.

    Returns:
        A row for each run and place, with these columns; missing before a run's first value.
    """
    last = rows.groupby(["strategy", "seed", x], sort=False)[y].last().astype(float)
    runs = last.unstack(["strategy", "seed"]).sort_index().ffill()
    return runs.melt(value_name=y, ignore_index=False).reset_index()
