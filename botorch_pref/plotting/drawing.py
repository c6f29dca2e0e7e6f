r"""What a figure shows: the data of its panels, which either backend draws.

A plot makes a :class:`Drawing`, and :func:`draw` turns it into a figure of matplotlib or plotly.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.plotting.posterior import Array
from botorch_pref.runner.store import replacing
from botorch_pref.space.search_space import SearchSpace
from botorch_pref.study.dimensions import Dimension, value_text

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
COLUMN = 3.35  # inches: 8.5 cm, a column of a two-column page

_LETTER = 0.54  # the mean width of a letter, as a share of the size of the font

Backend = Literal["matplotlib", "plotly"]
# How the numbers of an abscissa are joined: by lines, by steps behind or about each, or not at all.
Shape = Literal["linear", "post", "mid", "bars"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """A line through points; ``dash`` is an index of ``DASHES``."""

    x: Array
    y: Array
    name: str = ""
    colour: str = BLUE
    shape: Shape = "linear"
    dash: int = 0
    marker: str = ""
    hover: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Band:
    """The area between two curves."""

    x: Array
    lower: Array
    upper: Array
    name: str = ""
    colour: str = BLUE
    shape: Shape = "linear"
    alpha: float = 0.3


@dataclass(frozen=True, kw_only=True, eq=False)
class Points:
    """Marks, each seen whole at the edge as well."""

    x: Array
    y: Array
    name: str = ""
    colour: str = BLUE
    edge: str | None = None
    marker: str = "o"
    size: float = 4.0
    alpha: float = 1.0
    hover: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Intervals:
    """Points with bars from ``lower`` to ``upper``, and notes at the foot of the panel."""

    x: Array
    y: Array
    lower: Array
    upper: Array
    name: str = ""
    colour: str = BLUE
    along_x: bool = False
    size: float = 3.5
    notes: Sequence[str] = ()
    hover: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Segments:
    """Lines between two points each: ``m x 2 x 2``-dim."""

    ends: Array
    name: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Grid:
    """Values over a grid, a row for each ``y``: a map with contours, or cells with texts.

    ``colours`` are those of the lowest to the highest value, ``ends`` these values if they are
    not those of the grid.
    """

    x: Array
    y: Array
    values: Array
    colours: Sequence[str]
    levels: Array | None = None
    texts: Sequence[Sequence[str]] = ()
    ends: tuple[float, float] | None = None
    hover: Sequence[Sequence[str]] = ()


Mark = Curve | Band | Points | Intervals | Segments | Grid


@dataclass(frozen=True, kw_only=True, eq=False)
class Axis:
    """An axis; ``names`` of numbers are its only ticks, limits from high to low turn it round."""

    label: str = ""
    limits: tuple[float | None, float | None] = (None, None)
    log: bool = False
    whole: bool = False
    names: Mapping[float, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class Panel:
    """Marks in the order in which they are drawn, and their axes."""

    marks: Sequence[Mark]
    x: Axis
    y: Axis
    title: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Drawing:
    """Panels, row by row, each of a size in inches; they may share one ordinate and its label."""

    panels: Sequence[Panel]
    columns: int = 1
    width: float = COLUMN
    height: float = 2.6
    title: str = ""
    legend_title: str = ""
    share_y: bool = False


def draw(drawing: Drawing, backend: Backend) -> Any:
    r"""The figure: a matplotlib ``Figure``, or a ``plotly.graph_objects.Figure``.

    Raises:
        ImportError: If plotly is not installed; names the extra.
        UnsupportedError: If there is no such backend.
    """
    if backend not in ("matplotlib", "plotly"):
        raise UnsupportedError(f"backend must be 'matplotlib' or 'plotly', got {backend!r}.")
    return import_module(f"botorch_pref.plotting.with_{backend}").render(drawing)


def save_figure(figure: Any, path: str | os.PathLike[str]) -> Path:
    """Write a figure, all of it or nothing, to a file whose suffix names the format.

    A file that is there is replaced. A figure of matplotlib becomes a picture; a PDF has its fonts
    embedded as TrueType. One of plotly becomes a page, ``.html``, which needs no network.

    Raises:
        OSError: If the file cannot be written.
        ValueError: If matplotlib does not know the format, or plotly's is not ``.html``.
    """
    path = Path(path)
    backend = "matplotlib" if isinstance(figure, Figure) else "plotly"
    if backend == "plotly" and path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"a figure of plotly is saved as .html, not as {path.suffix!r}.")
    with replacing(path) as temporary:
        import_module(f"botorch_pref.plotting.with_{backend}").write(figure, temporary)
    return path


def named_dimensions(
    names: Sequence[str | Dimension] | None, dim: int, space: SearchSpace | None = None
) -> tuple[Dimension, ...]:
    r"""The dimensions of items; ``x1, x2, ...`` if there are no names.

    Raises:
        UnsupportedError: If there are not ``d`` names, or levels do not fit to a category.
    """
    names = names or [f"x{number}" for number in range(1, dim + 1)]
    if isinstance(names, str) or len(names) != dim:
        raise UnsupportedError(f"names must be {dim} names, got {names!r}.")
    dimensions = tuple(one if isinstance(one, Dimension) else Dimension(str(one)) for one in names)
    for i, number in () if space is None else space.parameters.levels.items():
        if len(levels := dimensions[i].levels) not in (0, number):
            raise UnsupportedError(f"names[{i}] has the levels {levels}, the space {number}.")
    return dimensions


def item_texts(
    items: Array, dimensions: Sequence[Dimension], space: SearchSpace | None = None
) -> list[str]:
    """A line ``name: value`` for each of the ``d`` dimensions of ``n x d``-dim items."""
    lines = []
    for item in items.tolist():
        values = [one.value(x) for one, x in zip(dimensions, item, strict=True)]
        if space is None:
            texts = [x if isinstance(x, str) else number_text(x) for x in values]
        else:
            texts = [value_text(x, i, space, fine=True) for i, x in enumerate(values)]
        pairs = zip(dimensions, texts, strict=True)
        lines.append("\n".join(f"{one.label}: {text}" for one, text in pairs))
    return lines


def wrapped(text: str, width: float, size: float) -> str:
    """Text in lines that fit into a width in inches, of a font of a size in points."""
    letters = max(int(72.0 * width / (_LETTER * size)), 1)
    return "\n".join(textwrap.fill(line, letters) for line in text.split("\n"))


def shortened(name: str, letters: int) -> str:
    """The beginning of a name that is too long for an axis."""
    return name if len(name) <= letters else f"{name[: letters - 1]}…"


def number_text(x: float) -> str:
    """A number to four digits, with a minus sign as long as a plus."""
    return f"{x:.4g}".replace("-", "−")


def padded(ends: Sequence[Array], share: float) -> tuple[float, float]:
    """The smallest and the largest of numbers, and a share of their distance beside them."""
    lower, upper = min(float(np.min(one)) for one in ends), max(float(np.max(one)) for one in ends)
    beside = share * (upper - lower) or 1.0
    return lower - beside, upper + beside
