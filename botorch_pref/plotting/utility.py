r"""A utility and how uncertain it is: along a line, on a plane, and along slices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from botorch.models.model import Model
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.plotting.drawing import (
    BLUE,
    COLUMN,
    GREY,
    NORMAL_95,
    VERMILION,
    Axis,
    Backend,
    Band,
    Curve,
    Drawing,
    Grid,
    Mark,
    Panel,
    Points,
    Segments,
    Shape,
    draw,
    item_texts,
    named_dimensions,
    number_text,
    padded,
    shortened,
)
from botorch_pref.plotting.posterior import (
    Array,
    Moments,
    as_array,
    asked_items,
    asked_pairs,
    check_model,
    checked_items,
    is_relative,
    like_model,
    utility_moments,
)
from botorch_pref.space.search_space import SearchSpace
from botorch_pref.study.dimensions import Dimension

# From white: black lines and marks are seen on all of it.
_UTILITY = ("#FFFFFF", "#8FC1E0", BLUE)
_DEVIATION = ("#FFFFFF", "#F2BE94", VERMILION)
_YELLOW = "#F0E442"  # of Okabe and Ito, with a black edge
_CLOSE = 6.0  # points between numbers that bars do not fit into
_MARGIN, _LOG_MARGIN = 0.5, 1.2  # beside the first and the last whole number
_LINE_POINTS, _SIDE_POINTS, _SLICE_POINTS = 201, 51, 101
_CONTOURS = MaxNLocator(7, steps=[1, 2, 2.5, 5, 10], min_n_ticks=1)
_SEEN = 0.02  # the least share of a map within a contour, so that it has room for its label
_SLICE_WIDTH, _MAX_COLUMNS = 2.28, 3  # three panels on a page of 17.4 cm
_SLICE_HEIGHT = 1.9
_LETTERS, _SHORT = 14, 4  # of the name of a level; that need no room of their own
_LETTER = 0.055  # inches
_INNER = 0.8  # of the width of a panel, without labels


def plot_utility(
    model: Model,
    bounds: Tensor | SearchSpace,
    *,
    recommended: Tensor | None = None,
    names: Sequence[str | Dimension] | None = None,
    unit: str | None = None,
    backend: Backend = "matplotlib",
) -> Figure | Any:
    r"""The utility of a model and how uncertain it is.

    One dimension is drawn as a curve with its pointwise 95 % band, two real ones on linear scales
    as maps of mean and standard deviation, and all others as slices through the recommended item,
    one dimension at a time. Ticks at the foot of a slice are the asked items' values of that
    dimension; the items themselves do not lie on the slice.

    Comparisons alone tell a utility up to a constant: of a model that has seen nothing else the
    utility of the recommended item is subtracted. Items are marked that a model of comparisons
    knows; other models do not tell.

    Args:
        model: A model of one output with a Gaussian posterior.
        bounds: ``2 x d``-dim lower and upper bounds of the domain, in the units of the items; or a
            :class:`~botorch_pref.space.SearchSpace`, whose whole numbers, categories and
            logarithmic scales are drawn as such.
        recommended: The ``d``-dim recommended item; by default the one of the asked items whose
            posterior mean is largest.
        names: The names of the ``d`` dimensions, with their units, or a study's ``dimensions``,
            which also name the levels of categories; ``x1, x2, ...`` if omitted.
        unit: The unit of the utility, such as ``"logits"``.
        backend: ``"plotly"`` for an interactive figure, whose texts tell an item's parameters.

    Returns:
        A matplotlib ``Figure``, or a ``plotly.graph_objects.Figure``.

    Raises:
        ComparisonDataError: If items have a wrong shape or are not finite.
        SearchSpaceError: If the bounds are none.
        UnsupportedError: If the model is a batch, has several outputs, items of another dimension
            or no Gaussian posterior; if ``names`` do not fit; or if the item for slices to go
            through is not known.

    Example:
        >>> save_figure(plot_utility(model, bounds, names=["milk (ml)", "heat (C)"]), "utility.pdf")
    """
    check_model(model)
    space = bounds if isinstance(bounds, SearchSpace) else SearchSpace(bounds=bounds)
    box, dim, asked = like_model(model, space.bounds), space.dim, asked_items(model)
    if asked is not None and asked.shape[-1] != dim:
        raise UnsupportedError(f"bounds must be 2 x {asked.shape[-1]}, not 2 x {dim}.")
    if recommended is not None:
        recommended = checked_items(model, "recommended", recommended, dim)
    elif asked is not None:
        recommended = asked[int(utility_moments(model, asked).mean.argmax())]
    relative, label = is_relative(model), "utility"
    if relative:
        known = recommended is not None
        label += " minus that of the recommended item" if known else ", known up to a constant"
    context = _Context(
        model=model,
        space=space,
        bounds=box,
        asked=None if asked is None else asked[_inside(asked, box)],
        recommended=recommended,
        reference=recommended if relative else None,
        dimensions=named_dimensions(names, dim, space),
        label=label + (f" ({unit})" if unit else ""),
    )
    if dim == 1:
        return draw(_line(context), backend)
    if dim == 2 and not space.parameters.discrete and not space.parameters.log:
        return draw(_maps(context), backend)
    return draw(_slices(context), backend)


@dataclass
class _Context:
    """What all panels of a figure need: checked arguments and what follows from them."""

    model: Model
    space: SearchSpace
    bounds: Tensor
    asked: Tensor | None
    recommended: Tensor | None
    reference: Tensor | None
    dimensions: Sequence[Dimension]
    label: str

    def moments(self, items: Tensor) -> Moments:
        """Those of the utility, less that of the reference, of ``n x d``-dim items."""
        return utility_moments(self.model, items, self.reference)

    def texts(self, items: Tensor, moments: Moments) -> list[str]:
        """What items are, and their utilities."""
        numbers = zip(moments.mean, moments.deviation, strict=True)
        texts = item_texts(as_array(items), self.dimensions, self.space)
        return [
            f"{text}\nmean: {number_text(mean)}\nstandard deviation: {number_text(deviation)}"
            for text, (mean, deviation) in zip(texts, numbers, strict=True)
        ]

    @property
    def star(self) -> Tensor | None:
        """The recommended item, if it is in the box."""
        item = self.recommended
        return item if item is not None and bool(_inside(item, self.bounds)) else None

    def line(self, dimension: int, size: int) -> Tensor:
        """``size`` even steps of a dimension's scale at most; whole numbers are whole."""
        lower, upper = self.space.bounds[:, dimension].tolist()
        discrete = dimension in self.space.parameters.discrete
        if discrete and upper - lower < size:
            steps = torch.arange(lower, upper + 1.0, dtype=torch.double)
        elif dimension in self.space.parameters.log:
            ends = math.log(lower), math.log(upper)
            steps = torch.linspace(*ends, size, dtype=torch.double).exp().clamp(lower, upper)
        else:
            steps = torch.linspace(lower, upper, size, dtype=torch.double)
        return (steps.round().unique() if discrete else steps).to(self.bounds)


def _inside(items: Tensor, bounds: Tensor) -> Tensor:
    return ((bounds[0] <= items) & (items <= bounds[1])).all(-1)


def _line(context: _Context) -> Drawing:
    curve = _curve(context, 0, context.line(0, _LINE_POINTS).unsqueeze(-1), COLUMN)
    marks = [*curve.marks]
    if context.asked is not None:
        moments = context.moments(context.asked)
        hover = context.texts(context.asked, moments)
        x = as_array(context.asked.squeeze(-1))
        style: dict[str, Any] = {"colour": "white", "edge": BLUE, "name": "asked items"}
        marks.append(Points(x=x, y=moments.mean, hover=hover, **style))
    y = Axis(label=context.label)
    return Drawing(panels=[Panel(marks=[*marks, *_star(context, 0)], x=curve.x, y=y)])


def _maps(context: _Context) -> Drawing:
    """Maps of mean and standard deviation, with a line for each of the duels."""
    sides = [context.line(dimension, _SIDE_POINTS) for dimension in range(2)]
    # The first dimension is the abscissa: rows of the image are values of the second.
    mesh = torch.stack(torch.meshgrid(*sides, indexing="xy"), dim=-1)
    items = mesh.flatten(end_dim=-2)
    moments = context.moments(items)
    texts = context.texts(items, moments)
    hover = [texts[i : i + _SIDE_POINTS] for i in range(0, len(texts), _SIDE_POINTS)]
    x, y = (as_array(side) for side in sides)
    (across, upright), (first, second) = context.dimensions, context.bounds.T.tolist()
    panels = []
    for numbers, colours, title in zip(
        moments, (_UTILITY, _DEVIATION), ("Mean", "Standard deviation"), strict=True
    ):
        values = numbers.reshape(_SIDE_POINTS, _SIDE_POINTS)
        ends = float(values.min()), float(values.max())
        levels = _levels(values)
        style: dict[str, Any] = {"colours": colours, "levels": levels, "ends": ends}
        grid = Grid(x=x, y=y, values=values, hover=hover, **style)
        panels.append(
            Panel(
                marks=[grid, *_items(context)],
                x=Axis(label=across.label, limits=(first[0], first[1])),
                y=Axis(label=upright.label, limits=(second[0], second[1])),
                title=title,
            )
        )
    title = context.label[0].upper() + context.label[1:]
    return Drawing(panels=panels, columns=2, height=3.1, title=title)


def _levels(values: Array) -> Array:
    """Round numbers for the contours of a map, none of them about a point."""
    levels = np.array(_CONTOURS.tick_values(values.min(), values.max()))
    above = (values > levels[:, None, None]).mean((-1, -2))
    return levels[(above > _SEEN) & (above < 1.0 - _SEEN)]


def _slices(context: _Context) -> Drawing:
    item, number = context.recommended, len(context.dimensions)
    if item is None:
        raise UnsupportedError("recommended must be given: `model` knows no asked items.")
    columns = min(_MAX_COLUMNS, number)
    width = _SLICE_WIDTH if columns > 1 else COLUMN
    curves = []
    for dimension in range(number):
        steps = context.line(dimension, _SLICE_POINTS)
        items = item.repeat(len(steps), 1)
        items[:, dimension] = steps
        curves.append(_curve(context, dimension, items, width))
    bands = [mark for curve in curves for mark in curve.marks if isinstance(mark, Band)]
    limits = padded([end for band in bands for end in (band.lower, band.upper)], 0.08)
    foot = limits[0] + 0.02 * (limits[1] - limits[0])
    asked: list[str] = []
    if context.asked is not None:
        asked = context.texts(context.asked, context.moments(context.asked))
    panels = []
    for dimension, curve in enumerate(curves):
        marks = [*curve.marks]
        if context.asked is not None:
            x = as_array(context.asked[:, dimension])
            style: dict[str, Any] = {"colour": GREY, "marker": "|", "size": 5.0}
            style |= {"name": "asked items", "hover": asked}
            marks.append(Points(x=x, y=np.full_like(x, foot), **style))
        y = Axis(label=context.label, limits=limits)
        panels.append(Panel(marks=[*marks, *_star(context, dimension)], x=curve.x, y=y))
    # Names of levels stand upright where they are long.
    longest = max((len(name) for curve in curves for name in curve.x.names.values()), default=0)
    return Drawing(
        panels=panels,
        columns=columns,
        width=width,
        height=_SLICE_HEIGHT + _LETTER * max(longest - _SHORT, 0),
        title="Slices through the recommended item",
        share_y=True,
    )


class _Curve(NamedTuple):
    """A mean with its band, and the abscissa of both."""

    marks: list[Mark]
    x: Axis


def _curve(context: _Context, dimension: int, items: Tensor, width: float) -> _Curve:
    """Mean and pointwise 95 % band of items that differ in one dimension, in its order.

    Whole numbers have points with bars, or steps where they are too close for bars on a panel of a
    width in inches. Levels of a category, which have no order, never have steps.
    """
    x, moments = as_array(items[:, dimension]), context.moments(items)
    half = NORMAL_95 * moments.deviation
    parameters, own = context.space.parameters, context.dimensions[dimension]
    discrete, log = dimension in parameters.discrete, dimension in parameters.log
    shape: Shape = "linear"
    limits = float(x[0]), float(x[-1])
    if discrete:
        limits = _beside(x, log)
        scaled = np.log(x) if log else x
        ends = np.log(limits) if log else np.array(limits)
        gap = float(np.diff(scaled).min()) / (ends[1] - ends[0]) * 72.0 * _INNER * width
        shape = "bars" if dimension in parameters.categorical or gap >= _CLOSE else "mid"
        if shape == "mid":
            limits = float(x[0]), float(x[-1])
    style: dict[str, Any] = {"x": x, "shape": shape}
    texts = context.texts(items, moments)
    names = {float(level): shortened(one, _LETTERS) for level, one in enumerate(own.levels)}
    return _Curve(
        [
            Band(lower=moments.mean - half, upper=moments.mean + half, name="95 % band", **style),
            Curve(y=moments.mean, name="mean", hover=texts, **style),
        ],
        Axis(label=own.label, limits=limits, log=log, whole=discrete, names=names),
    )


def _beside(x: Array, log: bool) -> tuple[float, float]:
    """A little beside the first and the last number on its scale."""
    if log:
        return float(x[0]) / _LOG_MARGIN, float(x[-1]) * _LOG_MARGIN
    return float(x[0]) - _MARGIN, float(x[-1]) + _MARGIN


def _star(context: _Context, *dimensions: int) -> list[Mark]:
    """The recommended item, over one dimension or over two."""
    if (item := context.star) is None:
        return []
    moments, place = context.moments(item.unsqueeze(0)), as_array(item)
    y = moments.mean if len(dimensions) == 1 else place[[dimensions[1]]]
    style: dict[str, Any] = {"colour": _YELLOW, "edge": "black", "marker": "*", "size": 9.0}
    texts = context.texts(item.unsqueeze(0), moments)
    return [Points(x=place[[dimensions[0]]], y=y, name="recommended item", hover=texts, **style)]


def _items(context: _Context) -> list[Mark]:
    """Asked items, a line for each duel, and the recommended item, on a plane."""
    marks: list[Mark] = []
    pairs = asked_pairs(context.model)
    if pairs is not None and len(pairs):
        marks.append(Segments(ends=as_array(pairs), name="a duel"))
    if context.asked is not None:
        x, y = as_array(context.asked.T)
        hover = context.texts(context.asked, context.moments(context.asked))
        style: dict[str, Any] = {"colour": "white", "edge": "black", "name": "asked items"}
        marks.append(Points(x=x, y=y, hover=hover, **style))
    return [*marks, *_star(context, 0, 1)]
