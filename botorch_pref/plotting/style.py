r"""One look for all figures, drawn without pyplot: no window, backend or global state.

Colours are told apart by the colour-blind, and line styles and markers differ as well, for
those who print in grey. A panel is as wide as a column of a two-column page, but for slices, of
which three fill the page; letters are 7 points high there or more, if they fit.
"""

from __future__ import annotations

import os
import textwrap
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from botorch_pref.runner import replacing

# Colours of Okabe and Ito, which the colour-blind can tell apart; their yellow is too light.
BLUE, VERMILION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
COLOURS = (BLUE, VERMILION, GREEN, "#CC79A7", ORANGE, "#56B4E9", "#000000")
"""The colours of lines, in the order of the strategies."""
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (6, 1.5, 1.5, 1.5)), (0, (1.5, 1.2)))
"""Their dashes, which tell them apart in grey."""
MARKERS = "osD^vPX"
"""Their markers."""
GREY, LIGHT_GREY = "#595959", "#E5E5E5"

COLUMN = 3.35  # inches: 8.5 cm
FONT, SMALL = 8.0, 7.0  # points
_LETTER = 0.54  # the mean width of a letter, as a share of the size of the font
_BESIDE = 0.6  # inches beside a panel, which labels take


def new_panels(
    rows: int,
    columns: int,
    *,
    width: float = COLUMN,
    height: float = 2.6,
    title: str | None = None,
    share: bool = False,
) -> tuple[Figure, list[Axes]]:
    r"""A figure of panels, which belongs to no window and is freed with its last reference.

    Args:
        rows: The number of rows of panels.
        columns: The number of columns.
        width: Of a panel in inches.
        height: Of a panel in inches.
        title: Of the whole figure, if it has one; broken into lines that fit.
        share: Whether all panels have one ordinate.

    Returns:
        The figure and its panels, row by row.
    """
    size = (width * columns, height * rows)
    figure = Figure(figsize=size, dpi=200, layout="constrained")
    FigureCanvasAgg(figure)
    panels: list[Axes] = [*figure.subplots(rows, columns, squeeze=False, sharey=share).flat]
    for axes in panels:
        axes.tick_params(which="both", labelsize=SMALL)
        axes.xaxis.label.set_fontsize(FONT)
        axes.yaxis.label.set_fontsize(FONT)
        axes.spines[["top", "right"]].set_visible(False)
    if title:
        figure.suptitle(wrapped(title, size[0], FONT + 1), x=0.01, ha="left", fontsize=FONT + 1)
    return figure, panels


def given_or_new(ax: Axes | None, *, width: float = COLUMN, height: float = 2.6) -> Axes:
    r"""The axes that a caller gave, or the only ones of a new figure.

    Args:
        ax: What the caller gave.
        width: Of a new panel in inches.
        height: Of a new panel in inches.

    Returns:
        The axes; on given ones nothing is set yet.
    """
    return new_panels(1, 1, width=width, height=height)[1][0] if ax is None else ax


def figure_of(axes: Axes) -> Figure:
    r"""The figure, the outermost one, that axes are in."""
    figure = axes.get_figure()
    assert figure is not None
    return figure if isinstance(figure, Figure) else figure.figure


def grid(axes: Axes) -> None:
    r"""Light lines behind all that is drawn."""
    axes.grid(color=LIGHT_GREY, linewidth=0.8)
    axes.set_axisbelow(True)


def heading(axes: Axes, text: str) -> None:
    r"""A title at the left, of the size of the axes' labels, in lines that fit.

    Args:
        axes: What it stands above.
        text: The title.
    """
    size = float(axes.xaxis.label.get_fontsize())
    place, figure = axes.get_subplotspec(), figure_of(axes)
    # The layout is known only when the figure is drawn.
    rows, columns = (1, 1) if place is None else place.get_gridspec().get_geometry()
    width = figure.get_figwidth() / columns
    if axes.get_aspect() == 1.0:
        width = min(width, figure.get_figheight() / rows)
    axes.set_title(wrapped(text, width - _BESIDE, size), fontsize=size, loc="left")


def legend(axes: Axes, **options: Any) -> None:
    r"""A legend of letters a little smaller than the axes' labels.

    Args:
        axes: What it is in.
        **options: As of matplotlib's.
    """
    size = float(axes.xaxis.label.get_fontsize()) * SMALL / FONT
    look = {"framealpha": 0.8, "edgecolor": "none", "title_fontsize": size, **options}
    axes.legend(fontsize=size, **look)


def legend_below(figure: Figure, axes: Axes, columns: int, title: str | None = None) -> None:
    r"""One legend of what is in a panel, below all panels.

    Args:
        figure: The figure, in its own layout.
        axes: The panel.
        columns: The number of columns of the legend.
        title: Its heading, if it has one.
    """
    figure.legend(
        *axes.get_legend_handles_labels(),
        title=title,
        loc="outside lower left",
        ncols=columns,
        frameon=False,
        fontsize=SMALL,
        title_fontsize=SMALL,
        alignment="left",
    )


def wrapped(text: str, width: float, size: float) -> str:
    r"""Text in lines that fit.

    Args:
        text: The text.
        width: What they are to fit into, in inches.
        size: Of the font in points.

    Returns:
        The text with line breaks.
    """
    letters = max(int(72.0 * width / (_LETTER * size)), 1)
    return "\n".join(textwrap.fill(line, letters) for line in text.split("\n"))


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> Path:
    r"""Write a figure, all of it or nothing; a PDF has its fonts embedded as TrueType.

    Args:
        figure: The figure.
        path: The file, whose suffix names the format; one that is there is replaced.

    Returns:
        The path.

    Raises:
        OSError: If the file cannot be written.
        ValueError: If matplotlib does not know the format.
    """
    # Letters stay letters, which can be searched and edited, in place of Type 3 outlines.
    with replacing(path) as temporary, rc_context({"pdf.fonttype": 42, "ps.fonttype": 42}):
        figure.savefig(temporary)
    return Path(path)
