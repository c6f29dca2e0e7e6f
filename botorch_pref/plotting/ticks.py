r"""Ticks of an abscissa whose labels do not run into each other.

The layout is known only when a figure is drawn, so lengths are those before it, which are a
little smaller.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from matplotlib.ticker import MaxNLocator, NullFormatter, NullLocator

from botorch_pref.plotting.beliefs import Array
from botorch_pref.plotting.style import SMALL, figure_of

BETWEEN = 0.4  # of labels, as a share of the size of the font
LEADING = 1.3  # of lines, likewise
_MAX_LINES = 3  # of a label that is not turned
_MULTIPLES = (1, 2, 5), (1, 3), (1, 2, 4, 8), (1, 2, 3, 4, 6, 8)  # of powers of ten, to choose from
_ENOUGH_TICKS, _MAX_TICKS = 4, 6
_UPRIGHT = 16  # letters of a name that stands upright in one line


def places(axes: Axes, x: Array) -> Array:
    r"""Where numbers of the abscissa are on the page, in points."""
    found = axes.get_xaxis_transform().transform(np.stack([x, np.zeros_like(x)], -1))
    points: Array = found[:, 0] * 72.0 / figure_of(axes).dpi
    return points


def label_size(axes: Axes) -> float:
    r"""The size of the font of the labels of the abscissa, in points."""
    return float(axes.get_xticklabels()[0].get_fontsize())


def text_width(text: str, size: float, formula: bool = False) -> float:
    r"""The width of a text's widest line, in points.

    Args:
        text: The text.
        size: Of the font in points.
        formula: Whether dollars begin formulae.

    Returns:
        The width.
    """
    font, lines = FontProperties(size=size), text.split("\n")
    measured = (text_to_path.get_text_width_height_descent(line, font, formula) for line in lines)
    return max(float(width) for width, *_ in measured)


def plainly(name: str) -> str:
    r"""So that it stands there as it is: dollars begin formulae."""
    return name.replace("$", r"\$")


def name_ticks(axes: Axes, names: Sequence[str]) -> None:
    r"""Names of 0, 1, ..., in lines that fit between them, or else upright.

    Args:
        axes: Whose abscissa has its limits.
        names: The names.
    """
    size, ticks = label_size(axes), np.arange(len(names), dtype=float)
    gap = float(np.diff(places(axes, np.array([0.0, 1.0])))[0])
    for lines in range(1, _MAX_LINES + 1):
        shown = [_in_lines(name, lines) for name in names]
        if max(text_width(name, size) for name in shown) <= gap - BETWEEN * size:
            axes.set_xticks(ticks, [*map(plainly, shown)])
            return
    size = min(size, gap / LEADING)
    shown = [_in_lines(name, int(gap / (LEADING * size)), _UPRIGHT) for name in names]
    axes.set_xticks(ticks, [*map(plainly, shown)], rotation=90, fontsize=size)


def log_ticks(axes: Axes, whole: bool) -> None:
    r"""Powers of ten, or plain numbers where there are fewer than three powers.

    Args:
        axes: Whose abscissa is logarithmic and has its limits.
        whole: Whether there are whole numbers alone.
    """
    first, last = axes.get_xlim()
    first, last = first * (1.0 - 1e-9), last * (1.0 + 1e-9)  # ends went through a logarithm
    axes.xaxis.set_minor_formatter(NullFormatter())
    if math.floor(math.log10(last)) - math.ceil(math.log10(first)) >= 2:
        return
    axes.xaxis.set_minor_locator(NullLocator())
    # Even steps come last, for where the scale hardly bends.
    even = (MaxNLocator(n, steps=[1, 2, 5, 10], integer=whole) for n in range(_MAX_TICKS, 0, -1))
    known = [_round_numbers(first, last, multiples) for multiples in _MULTIPLES]
    known += [np.asarray(locator.tick_values(first, last)) for locator in even]
    inside = [x[(first <= x) & (x <= last) & ((x == x.round()) | (not whole))] for x in known]
    fit = [x for x in inside if len(x) <= _MAX_TICKS and _are_apart(axes, x)]
    chosen = next((x for x in fit if len(x) >= _ENOUGH_TICKS), max(fit, key=len))
    axes.set_xticks(chosen, [*map(_number, chosen)])


def whole_ticks(axes: Axes) -> None:
    r"""Whole numbers, as many as have room.

    Args:
        axes: Whose abscissa has its limits.
    """
    ends, size = np.array(axes.get_xlim()), label_size(axes)
    widest = max(text_width(f"{end:.0f}", size) for end in ends)
    bins = int(np.diff(places(axes, ends))[0] / (widest + BETWEEN * size))
    axes.xaxis.set_major_locator(MaxNLocator(min(max(bins, 1), _MAX_TICKS), integer=True))


def make_room(figure: Figure, rows: Sequence[Sequence[Axes]]) -> None:
    r"""Grow a figure by the heights of labels of more than a line, so that panels keep theirs.

    Args:
        figure: The figure.
        rows: Its panels.
    """
    line = 1.5 * SMALL
    for row in rows:
        texts = [text for axes in row for text in axes.get_xticklabels()]
        height = max(text.get_window_extent().height for text in texts) * 72.0 / figure.dpi
        figure.set_figheight(figure.get_figheight() + max(height - line, 0.0) / 72.0)


def _in_lines(name: str, lines: int, letters: int = 1) -> str:
    """In so many lines at most, of so many letters or more; words stay whole."""
    for most in range(max(letters, len(name) // lines), len(name)):
        text = textwrap.fill(name, most, break_long_words=False)
        if text.count("\n") < lines:
            return text
    return name


def _round_numbers(first: float, last: float, multiples: Sequence[int]) -> Array:
    """Multiples of powers of ten from the first to the last number's decade."""
    powers = range(math.floor(math.log10(first)), math.floor(math.log10(last)) + 1)
    # Read, not multiplied: 3 times 0.1 is not 0.3.
    return np.array([float(f"{multiple}e{power}") for power in powers for multiple in multiples])


def _are_apart(axes: Axes, x: Array) -> bool:
    """Whether the labels of numbers do not touch."""
    size = label_size(axes)
    half = np.array([0.5 * text_width(_number(number), size, formula=True) for number in x])
    return bool((np.diff(places(axes, x)) >= half[1:] + half[:-1] + BETWEEN * size).all())


def _number(x: float) -> str:
    """In plain digits, or else as a multiple of a power of ten."""
    if 1e-4 <= x < 1e6:
        return f"{x:.10g}"
    multiple, power = f"{x:.9e}".split("e")
    return rf"${float(multiple):g}\times10^{{{int(power)}}}$"
