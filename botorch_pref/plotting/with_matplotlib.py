r"""Figures for print, drawn with matplotlib but without pyplot: no window, backend or global state.

A panel is as wide as a column of a two-column page, but for slices, of which three fill the page;
letters are at least 7 points high, if they fit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from matplotlib.ticker import MaxNLocator, NullFormatter, NullLocator

from botorch_pref.plotting.drawing import (
    COLUMN,
    DASHES,
    LIGHT_GREY,
    Axis,
    Band,
    Curve,
    Drawing,
    Grid,
    Intervals,
    Panel,
    Points,
    Segments,
    number_text,
    wrapped,
)
from botorch_pref.plotting.posterior import Array

FONT, SMALL = 8.0, 7.0  # points
BETWEEN = 0.4  # of labels of ticks, as a share of the size of the font
LEADING = 1.3  # of lines, likewise
_BESIDE = 0.6  # inches beside a panel, which labels take
_MULTIPLES = (1, 2, 5), (1, 3), (1, 2, 4, 8), (1, 2, 3, 4, 6, 8)  # of powers of ten, to choose from
_ENOUGH_TICKS, _MAX_TICKS = 4, 6
_HANDLE = 4.0  # the room of a line of the legend beside its text, as a multiple of the font's size
_NUM_MARKERS = 8  # along a curve
_DARK = 0.95  # the share of a scale above which black letters cannot be read
_ROOM = 0.07  # about a label of a contour, as a share of a panel
_SHORT_CONTOUR = 0.2  # likewise, below which the label would hide it


def render(drawing: Drawing) -> Figure:
    """The figure of a drawing."""
    number, columns = len(drawing.panels), min(drawing.columns, len(drawing.panels))
    figure, panels = new_panels(
        -(-number // columns),
        columns,
        width=drawing.width,
        height=drawing.height,
        title=drawing.title,
        share=drawing.share_y,
    )
    handles: dict[str, Any] = {}
    for axes, panel in zip(panels, drawing.panels, strict=False):
        _draw_panel(axes, panel)
        own = zip(*axes.get_legend_handles_labels(), strict=True)
        handles |= {label: handle for handle, label in own if label not in handles}
        if panel.y.label and not drawing.share_y:
            axes.set_ylabel(wrapped(panel.y.label, drawing.height - _BESIDE, FONT))
    for axes in panels[number:]:
        axes.set_axis_off()
    if drawing.share_y and (label := drawing.panels[0].y.label):
        figure.supylabel(wrapped(label, figure.get_figheight() - 0.7, FONT), fontsize=FONT)
    if handles:
        longest = max(text_width(label, SMALL) for label in handles) + _HANDLE * SMALL
        figure.legend(
            [*handles.values()],
            [*map(escaped, handles)],
            title=drawing.legend_title or None,
            loc="outside lower center",
            ncols=max(int(72.0 * figure.get_figwidth() / longest), 1),
            frameon=False,
            fontsize=SMALL,
            title_fontsize=SMALL,
            alignment="left",
        )
    return figure


def write(figure: Figure, path: Path) -> None:
    """Save a figure; its fonts are TrueType, not Type 3: text can be searched and edited."""
    with rc_context({"pdf.fonttype": 42, "ps.fonttype": 42}):
        figure.savefig(path)


def _draw_panel(axes: Axes, panel: Panel) -> None:
    if panel.x.log:
        axes.set_xscale("log")
    if panel.x.limits != (None, None):  # before all that asks where its numbers are
        axes.set_xlim(*panel.x.limits)
    curves = [mark for mark in panel.marks if isinstance(mark, Curve)]
    for mark in panel.marks:
        label = mark.name or None if not isinstance(mark, Grid) else None
        match mark:
            case Curve():
                _draw_curve(axes, mark, label, curves.index(mark))
            case Band():
                _draw_band(axes, mark, label)
            case Points():
                axes.plot(
                    mark.x,
                    mark.y,
                    mark.marker,
                    label=label,
                    color=mark.colour,
                    mec=mark.edge or mark.colour,
                    mew=0.0 if mark.edge is None and mark.marker not in "|x" else 0.8,
                    ms=mark.size,
                    alpha=mark.alpha,
                    clip_on=False,
                    zorder=4,
                )
            case Intervals():
                _draw_intervals(axes, mark, label)
            case Segments():
                style: dict[str, Any] = {"colors": "black", "linewidths": 0.5, "alpha": 0.25}
                axes.add_collection(LineCollection([*mark.ends], label=label, **style), False)
            case Grid():
                _draw_grid(axes, mark)
    axes.set_ylim(*panel.y.limits)
    _set_ticks(axes, panel)
    if panel.title:
        heading(axes, panel.title)
    for mark in panel.marks:
        if isinstance(mark, Grid) and mark.levels is not None and len(mark.levels):
            _draw_contours(axes, mark, mark.levels)


def _set_ticks(axes: Axes, panel: Panel) -> None:
    """Label the axes and their ticks, none of which touch."""
    axes.set_xlabel(escaped(panel.x.label))
    if panel.x.names:
        _name_columns(axes, panel.x)
    elif panel.x.log:
        log_ticks(axes, panel.x.whole)
    elif panel.x.whole:
        whole_ticks(axes)
    if panel.y.names:
        _name_rows(axes, panel.y)


def _draw_curve(axes: Axes, mark: Curve, label: str | None, number: int) -> None:
    if mark.shape == "bars":
        size = min(9.0, 0.8 * float(np.diff(places(axes, mark.x)).min()))
        axes.plot(mark.x, mark.y, "_", ms=size, mew=1.5, color=mark.colour, label=label)
        return
    style = {"linear": "default", "post": "steps-post", "mid": "steps-mid"}[mark.shape]
    (line,) = axes.plot(mark.x, mark.y, color=mark.colour, lw=1.5, label=label, drawstyle=style)
    line.set_linestyle(DASHES[mark.dash])
    if mark.marker:
        gap = -(-len(mark.x) // _NUM_MARKERS)
        # Not those of all curves at one place.
        line.set(marker=mark.marker, ms=3.5, mew=0, markevery=(number * gap // 4 % gap, gap))


def _draw_band(axes: Axes, mark: Band, label: str | None) -> None:
    style: dict[str, Any] = {"color": mark.colour, "alpha": mark.alpha, "label": label}
    if mark.shape == "bars":
        gap = float(np.diff(places(axes, mark.x)).min())
        axes.vlines(mark.x, mark.lower, mark.upper, lw=min(4.0, 0.4 * gap), **style)
    else:
        step: Any = None if mark.shape == "linear" else mark.shape
        axes.fill_between(mark.x, mark.lower, mark.upper, lw=0, step=step, **style)


def _draw_intervals(axes: Axes, mark: Intervals, label: str | None) -> None:
    centre = mark.x if mark.along_x else mark.y
    errors = np.maximum([centre - mark.lower, mark.upper - centre], 0.0)  # against rounding
    style: dict[str, Any] = {"fmt": "o", "ms": mark.size, "lw": 1.2, "capsize": 2.0}
    style["xerr" if mark.along_x else "yerr"] = errors
    axes.errorbar(mark.x, mark.y, color=mark.colour, label=label, **style)
    if mark.along_x:
        axes.grid(visible=False, axis="y")
    foot = axes.get_xaxis_transform()
    for x, note in zip(mark.x, mark.notes, strict=False):
        axes.text(x, 0.02, note, transform=foot, ha="center", fontsize=SMALL)


def _draw_grid(axes: Axes, mark: Grid) -> None:
    """Draw an image of values, each pixel about its number, and texts in it."""
    half_x, half_y = (0.5 * (side[1] - side[0]) for side in (mark.x, mark.y))
    extent = (mark.x[0] - half_x, mark.x[-1] + half_x, mark.y[0] - half_y, mark.y[-1] + half_y)
    colours = LinearSegmentedColormap.from_list("values", [*mark.colours])
    limits = (axes.get_xlim(), axes.get_ylim())
    is_map = mark.levels is not None
    image = axes.imshow(
        np.ma.masked_invalid(mark.values),
        cmap=colours,
        extent=extent,
        origin="lower",
        aspect="auto" if is_map else "equal",
        interpolation="bilinear" if is_map else "nearest",
        vmin=None if mark.ends is None else mark.ends[0],
        vmax=None if mark.ends is None else mark.ends[1],
    )
    axes.set(xlim=limits[0], ylim=limits[1])
    axes.grid(visible=False)
    if is_map:
        figure_of(axes).colorbar(image, ax=axes, pad=0.02).ax.tick_params(labelsize=SMALL)
        return
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    style: dict[str, Any] = {"ha": "center", "va": "center"}
    style["fontsize"] = SMALL * min(1.0, 10 / len(mark.x))
    for y, row, numbers in zip(mark.y, mark.texts, mark.values, strict=False):
        for x, text, number in zip(mark.x, row, numbers, strict=True):
            colour = "white" if number > _DARK else "black"
            if text:
                axes.text(x, y, text, color=colour, **style)


def _draw_contours(axes: Axes, mark: Grid, levels: Array) -> None:
    """Draw the contours that have room for a label, where it is farthest from all else."""
    style: dict[str, Any] = {"colors": "black", "linewidths": 0.6, "linestyles": "-"}
    lines = axes.contour(mark.x, mark.y, mark.values, levels=levels, **style)
    lower, upper = np.array([axes.get_xlim(), axes.get_ylim()]).T
    marks = [line.get_xydata() for line in axes.lines if line.get_marker() != "None"]
    taken = [(np.asarray(mark) - lower) / (upper - lower) for mark in marks]
    found = [
        _free_place(path.to_polygons(closed_only=False), lower, upper, taken)
        for path in lines.get_paths()
    ]
    lines.set_linewidth([0.0 if place is None else 0.6 for place in found])
    axes.clabel(
        lines,
        manual=[place for place in found if place is not None],
        fmt=number_text,
        fontsize=SMALL - 1.0,
        inline_spacing=2,
    )


def _free_place(
    lines: Sequence[Any], lower: Array, upper: Array, taken: list[Any]
) -> tuple[float, float] | None:
    """The place on a contour's lines that is farthest from marks, labels and sides, if any."""
    best, place = _ROOM, None
    for line in map(np.asarray, lines):
        shares = (line - lower) / (upper - lower)
        if np.ptp(shares, axis=0).max() < _SHORT_CONTOUR:
            continue
        room = np.minimum(shares, 1.0 - shares).min(-1)
        for others in taken:
            room = np.minimum(room, np.linalg.norm(shares[:, None] - others, axis=-1).min(-1))
        if room.max() > best:
            best, place = float(room.max()), int(room.argmax())
            found, share = line[place], shares[place]
    if place is None:
        return None
    taken.append(share[None])
    return float(found[0]), float(found[1])


def _name_columns(axes: Axes, axis: Axis) -> None:
    """Names below an axis, upright and smaller where there is no room."""
    x, names, size = np.array([*axis.names]), [*axis.names.values()], label_size(axes)
    width, height = axes.get_window_extent().size
    gap = float(np.diff(places(axes, x)).min()) if len(x) > 1 else width
    if axes.get_aspect() == 1.0:
        gap *= min(1.0, height / width)
    fit = max(text_width(name, size) for name in names) <= gap - BETWEEN * size
    style: dict[str, Any] = {} if fit else {"rotation": 90, "fontsize": min(size, gap / LEADING)}
    axes.set_xticks(x, [*map(escaped, names)], **style)


def _name_rows(axes: Axes, axis: Axis) -> None:
    """Names beside an axis, smaller where their lines have no room."""
    names, size, area = [*axis.names.values()], label_size(axes), axes.get_window_extent()
    side = min(area.size) if axes.get_aspect() == 1.0 else area.height
    gap = float(side) * 72.0 / figure_of(axes).dpi / len(names)
    most = max(name.count("\n") + 1 for name in names)
    size = min(size, gap / (LEADING * most))
    axes.set_yticks([*axis.names], [*map(escaped, names)], fontsize=size)


def new_panels(
    rows: int,
    columns: int,
    *,
    width: float = COLUMN,
    height: float = 2.6,
    title: str = "",
    share: bool = False,
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
