r"""The style of all figures, drawn without pyplot: no window, backend or global state.

A panel is as wide as a column of a two-column page, but for slices, of which three fill the page;
letters are at least 7 points high, if they fit.
"""

from __future__ import annotations

import math
import os
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from matplotlib.ticker import MaxNLocator, NullFormatter, NullLocator

from botorch_pref.plotting.posterior import Array
from botorch_pref.runner.store import replacing

# Colours of Okabe and Ito, which the colour-blind can tell apart; their yellow is too light.
BLUE, VERMILION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
COLOURS = (BLUE, VERMILION, GREEN, "#CC79A7", ORANGE, "#56B4E9", "#000000")
"""The colours of lines, in the order of the strategies."""
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (6, 1.5, 1.5, 1.5)), (0, (1.5, 1.2)))
"""Their dashes, for print in grey."""
MARKERS = "osD^vPX"
"""Their markers."""
GREY, LIGHT_GREY = "#595959", "#E5E5E5"

NORMAL_95 = 1.959964  # standard deviations to either side
COLUMN = 3.35  # inches: 8.5 cm
FONT, SMALL = 8.0, 7.0  # points
BETWEEN = 0.4  # of labels of ticks, as a share of the size of the font
LEADING = 1.3  # of lines, likewise
_LETTER = 0.54  # the mean width of a letter, likewise
_BESIDE = 0.6  # inches beside a panel, which labels take
_MULTIPLES = (1, 2, 5), (1, 3), (1, 2, 4, 8), (1, 2, 3, 4, 6, 8)  # of powers of ten, to choose from
_ENOUGH_TICKS, _MAX_TICKS = 4, 6


def new_panels(
    rows: int,
    columns: int,
    *,
    width: float = COLUMN,
    height: float = 2.6,
    title: str | None = None,
    share: bool = False,
    grid: bool = True,
) -> tuple[Figure, list[Axes]]:
    """A figure and its panels, row by row, of a size in inches; they may share one ordinate."""
    size = (width * columns, height * rows)
    figure = Figure(figsize=size, dpi=200, layout="constrained")
    FigureCanvasAgg(figure)
    panels: list[Axes] = [*figure.subplots(rows, columns, squeeze=False, sharey=share).flat]
    for axes in panels:
        axes.tick_params(which="both", labelsize=SMALL)
        axes.xaxis.label.set_fontsize(FONT)
        axes.yaxis.label.set_fontsize(FONT)
        axes.spines[["top", "right"]].set_visible(False)
        if grid:
            axes.grid(color=LIGHT_GREY, linewidth=0.8)
            axes.set_axisbelow(True)
    if title:
        figure.suptitle(wrapped(title, size[0], FONT + 1), x=0.01, ha="left", fontsize=FONT + 1)
    return figure, panels


def figure_of(axes: Axes) -> Figure:
    """The figure that axes are in."""
    figure = axes.get_figure()
    assert isinstance(figure, Figure)
    return figure


def heading(axes: Axes, text: str) -> None:
    """Set a title at the left, in lines that fit."""
    place, figure = axes.get_subplotspec(), figure_of(axes)
    assert place is not None
    # The layout is known only when the figure is drawn.
    rows, columns = place.get_gridspec().get_geometry()
    width = figure.get_figwidth() / columns
    if axes.get_aspect() == 1.0:
        width = min(width, figure.get_figheight() / rows)
    axes.set_title(wrapped(text, width - _BESIDE, FONT), fontsize=FONT, loc="left")


def legend(axes: Axes, **options: Any) -> None:
    """Add a legend within axes."""
    axes.legend(fontsize=SMALL, framealpha=0.8, edgecolor="none", title_fontsize=SMALL, **options)


def legend_below(figure: Figure, axes: Axes, columns: int, title: str | None = None) -> None:
    """Add one legend of what is in a panel, below all panels."""
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
    """Text in lines that fit into a width in inches, of a font of a size in points."""
    letters = max(int(72.0 * width / (_LETTER * size)), 1)
    return "\n".join(textwrap.fill(line, letters) for line in text.split("\n"))


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write a figure, all of it or nothing, to a file whose suffix names the format.

    A file that is there is replaced; a PDF has its fonts embedded as TrueType.

    Raises:
        OSError: If the file cannot be written.
        ValueError: If matplotlib does not know the format.
    """
    # TrueType, not Type 3: text can be searched and edited.
    with replacing(path) as temporary, rc_context({"pdf.fonttype": 42, "ps.fonttype": 42}):
        figure.savefig(temporary)
    return Path(path)


# Ticks of an abscissa whose labels do not touch. The layout is known only when a figure is drawn,
# so lengths are those before it, which are a little smaller.


def places(axes: Axes, x: Array) -> Array:
    """Where numbers of the abscissa are on the page, in points."""
    found = axes.get_xaxis_transform().transform(np.stack([x, np.zeros_like(x)], -1))
    points: Array = found[:, 0] * 72.0 / figure_of(axes).dpi
    return points


def label_size(axes: Axes) -> float:
    """The size of the font of the labels of the abscissa, in points."""
    return float(axes.get_xticklabels()[0].get_fontsize())


def text_width(text: str, size: float, formula: bool = False) -> float:
    """The width of a text's widest line in points; in formulae dollars have their meaning."""
    font, lines = FontProperties(size=size), text.split("\n")
    measured = (text_to_path.get_text_width_height_descent(line, font, formula) for line in lines)
    return max(float(width) for width, *_ in measured)


def escaped(name: str) -> str:
    """A name that matplotlib does not read as a formula."""
    return name.replace("$", r"\$")


def log_ticks(axes: Axes, whole: bool) -> None:
    """Label powers of ten, or plain (whole) numbers where there are fewer than three powers."""
    first, last = axes.get_xlim()
    first, last = first * (1.0 - 1e-9), last * (1.0 + 1e-9)  # ends went through a logarithm
    axes.xaxis.set_minor_formatter(NullFormatter())
    lowest, highest = (math.log10(end) for end in (first, last))
    if math.floor(highest) - math.ceil(lowest) >= 2:
        return
    axes.xaxis.set_minor_locator(NullLocator())
    powers, size = range(math.floor(lowest), math.floor(highest) + 1), label_size(axes)
    # Read, not multiplied: 3 times 0.1 is not 0.3.
    known = [[float(f"{m}e{power}") for power in powers for m in group] for group in _MULTIPLES]
    for number in range(_MAX_TICKS, 0, -1):  # even steps, for where the scale hardly bends
        locator = MaxNLocator(number, steps=[1, 2, 5, 10], integer=whole)
        known.append([*map(float, locator.tick_values(first, last))])
    best: list[float] = []
    for ticks in known:
        x = np.array([x for x in ticks if first <= x <= last and (x.is_integer() or not whole)])
        if len(best) >= _ENOUGH_TICKS or not len(best) < len(x) <= _MAX_TICKS:
            continue
        half = np.array([0.5 * text_width(_number(tick), size, formula=True) for tick in x])
        if (np.diff(places(axes, x)) >= half[1:] + half[:-1] + BETWEEN * size).all():
            best = x.tolist()
    axes.set_xticks(best, [*map(_number, best)])


def whole_ticks(axes: Axes) -> None:
    """Label whole numbers, as many as have room."""
    ends, size = np.array(axes.get_xlim()), label_size(axes)
    widest = max(text_width(f"{end:.0f}", size) for end in ends)
    bins = int(np.diff(places(axes, ends))[0] / (widest + BETWEEN * size))
    axes.xaxis.set_major_locator(MaxNLocator(min(max(bins, 1), _MAX_TICKS), integer=True))


def _number(x: float) -> str:
    """In plain digits, or else as a multiple of a power of ten."""
    if 1e-4 <= x < 1e6:
        return f"{x:.10g}"
    multiple, power = f"{x:.9e}".split("e")
    return rf"${float(multiple):g}\times10^{{{int(power)}}}$"
