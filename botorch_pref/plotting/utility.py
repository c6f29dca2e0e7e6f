r"""A utility and how uncertain it is: along a line, on a plane, and along slices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from botorch.models.model import Model
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.contour import QuadContourSet
from matplotlib.figure import Figure
from torch import Tensor

from botorch_pref.exceptions import UnsupportedError
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
from botorch_pref.plotting.style import (
    BLUE,
    COLUMN,
    FONT,
    GREY,
    NORMAL_95,
    SMALL,
    VERMILION,
    figure_of,
    heading,
    legend_below,
    log_ticks,
    new_panels,
    places,
    whole_ticks,
    wrapped,
)
from botorch_pref.space.search_space import SearchSpace

# From white: black lines and marks are seen on all of it.
_UTILITY = LinearSegmentedColormap.from_list("utility", ["#FFFFFF", "#8FC1E0", BLUE])
_DEVIATION = LinearSegmentedColormap.from_list("deviation", ["#FFFFFF", "#F2BE94", VERMILION])
_YELLOW = "#F0E442"  # of Okabe and Ito, with a black edge
# One shade for bars and bands: a figure of both has one legend.
_BAND: dict[str, Any] = {"color": BLUE, "alpha": 0.3, "label": "95 % band"}
_MEAN: dict[str, Any] = {"color": BLUE, "label": "mean"}
# Marks at the edge are seen whole.
_MARK: dict[str, Any] = {"ms": 4.0, "label": "asked items", "clip_on": False, "zorder": 4}
_STAR: dict[str, Any] = {"mfc": _YELLOW, "mec": "black", "ms": 9.0, "mew": 0.7}
_STAR |= {"label": "recommended item", "clip_on": False, "zorder": 5}
_CLOSE = 6.0  # points between numbers that bars do not fit into
_MARGIN, _LOG_MARGIN = 0.5, 1.2  # beside the first and the last whole number
_LINE_POINTS, _SIDE_POINTS, _SLICE_POINTS = 201, 51, 101
_ROOM = 0.04  # about a label of a contour, as a share of a panel
_SLICE_WIDTH, _MAX_COLUMNS = 2.28, 3  # three panels on a page of 17.4 cm


def plot_utility(
    model: Model,
    bounds: Tensor | SearchSpace,
    *,
    recommended: Tensor | None = None,
    names: Sequence[str] | None = None,
    unit: str | None = None,
) -> Figure:
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
        names: The names of the ``d`` dimensions, with their units; ``x1, x2, ...`` if omitted.
        unit: The unit of the utility, such as ``"logits"``.

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
    names = names or [f"x{number}" for number in range(1, dim + 1)]
    if isinstance(names, str) or len(names) != dim:
        raise UnsupportedError(f"names must be {dim} names, got {names!r}.")
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
        names=names,
        label=label + (f" ({unit})" if unit else ""),
    )
    if dim == 1:
        return _plot_line(context)
    if dim == 2 and not space.parameters.discrete and not space.parameters.log:
        return _plot_maps(context)
    return _plot_slices(context)


@dataclass
class _Context:
    """What all panels of a figure need: checked arguments and what follows from them."""

    model: Model
    space: SearchSpace
    bounds: Tensor
    asked: Tensor | None
    recommended: Tensor | None
    reference: Tensor | None
    names: Sequence[str]
    label: str

    def moments(self, items: Tensor) -> Moments:
        """Those of the utility, less that of the reference, of ``n x d``-dim items."""
        return utility_moments(self.model, items, self.reference)

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


def _plot_line(context: _Context) -> Figure:
    figure, (axes,) = new_panels(1, 1)
    _draw_curve(axes, context, 0, context.line(0, _LINE_POINTS).unsqueeze(-1))
    if context.asked is not None:
        marks = as_array(context.asked.squeeze(-1)), context.moments(context.asked).mean
        axes.plot(*marks, "o", mfc="white", mec=BLUE, mew=0.9, **_MARK)
    _draw_star(axes, context, 0)
    axes.set_ylabel(wrapped(context.label, 2.0, FONT))
    legend_below(figure, axes, 2)
    return figure


def _plot_maps(context: _Context) -> Figure:
    """Maps of mean and standard deviation, with a line for each of the duels."""
    sides = [context.line(dimension, _SIDE_POINTS) for dimension in range(2)]
    # The first dimension is the abscissa: rows of the image are values of the second.
    mesh = torch.stack(torch.meshgrid(*sides, indexing="xy"), dim=-1)
    moments = context.moments(mesh.flatten(end_dim=-2))
    title = context.label[0].upper() + context.label[1:]
    figure, panels = new_panels(1, 2, height=3.1, title=title, grid=False)
    for axes, values, colours, name in zip(
        panels, moments, (_UTILITY, _DEVIATION), ("Mean", "Standard deviation"), strict=True
    ):
        lines = _draw_map(axes, sides, values.reshape(_SIDE_POINTS, _SIDE_POINTS), colours)
        _draw_items(axes, context)
        _label_contours(axes, lines)
        axes.set_xlabel(context.names[0])
        axes.set_ylabel(context.names[1])
        heading(axes, name)
    if context.recommended is not None:
        legend_below(figure, panels[0], 3)
    return figure


def _plot_slices(context: _Context) -> Figure:
    item = context.recommended
    if item is None:
        raise UnsupportedError("recommended must be given: `model` knows no asked items.")
    number = len(context.names)
    columns = min(_MAX_COLUMNS, number)
    figure, panels = new_panels(
        -(-number // columns),
        columns,
        width=_SLICE_WIDTH if columns > 1 else COLUMN,
        height=1.9,
        title="Slices through the recommended item",
        share=True,
    )
    for dimension, axes in enumerate(panels[:number]):
        steps = context.line(dimension, _SLICE_POINTS)
        items = item.repeat(len(steps), 1)
        items[:, dimension] = steps
        _draw_curve(axes, context, dimension, items)
        if context.asked is not None:
            foot, x = axes.get_xaxis_transform(), as_array(context.asked[:, dimension])
            ticks = axes.plot(x, [0.0] * len(x), "|", color=GREY, ms=5.0, mew=0.7, transform=foot)
            ticks[0].set_label("asked items")
        _draw_star(axes, context, dimension)
    for axes in panels[number:]:
        axes.set_axis_off()
    label = wrapped(context.label, figure.get_figheight() - 0.7, FONT)
    figure.supylabel(label, fontsize=FONT)
    legend_below(figure, panels[0], 4 if columns > 1 else 2)
    return figure


def _draw_curve(axes: Axes, context: _Context, dimension: int, items: Tensor) -> None:
    """Draw mean and pointwise 95 % band of items that differ in one dimension, in its order.

    Whole numbers have points with bars, or steps where they are too close for bars. Levels of a
    category, which have no order, never have steps.
    """
    x, moments = as_array(items[:, dimension]), context.moments(items)
    mean, half = moments.mean, NORMAL_95 * moments.deviation
    ends = mean - half, mean + half
    parameters = context.space.parameters
    discrete, log = dimension in parameters.discrete, dimension in parameters.log
    _set_limits(axes, x, log, discrete)
    gap = float(np.diff(places(axes, x)).min())
    if discrete and (dimension in parameters.categorical or gap >= _CLOSE):
        axes.vlines(x, *ends, lw=min(4.0, 0.4 * gap), **_BAND)
        axes.plot(x, mean, "_", ms=min(9.0, 0.8 * gap), mew=1.5, **_MEAN)
    else:
        _set_limits(axes, x, log, False)
        step: Literal["mid"] | None = "mid" if discrete else None
        axes.fill_between(x, *ends, lw=0, step=step, **_BAND)
        style: Literal["steps-mid", "default"] = "steps-mid" if discrete else "default"
        axes.plot(x, mean, lw=1.5, drawstyle=style, **_MEAN)
    if log:
        log_ticks(axes, discrete)
    elif discrete:
        whole_ticks(axes)
    axes.set_xlabel(context.names[dimension])


def _draw_star(axes: Axes, context: _Context, dimension: int) -> None:
    if (item := context.star) is not None:
        place = [float(item[dimension])], context.moments(item.unsqueeze(0)).mean
        axes.plot(*place, "*", **_STAR)


def _set_limits(axes: Axes, x: Array, log: bool, margin: bool) -> None:
    """Set limits from the first to the last number on its scale, or a little beside them."""
    if log:
        axes.set_xscale("log")
        factor = _LOG_MARGIN if margin else 1.0
        axes.set_xlim(x[0] / factor, x[-1] * factor)
    else:
        beside = _MARGIN if margin else 0.0
        axes.set_xlim(x[0] - beside, x[-1] + beside)


def _draw_map(
    axes: Axes, sides: Sequence[Tensor], values: Array, colours: LinearSegmentedColormap
) -> QuadContourSet:
    """Draw an image of values on a grid, the first dimension along the rows, with contours."""
    x, y = (as_array(side) for side in sides)
    half_x, half_y = (0.5 * (side[1] - side[0]) for side in (x, y))
    extent = (x[0] - half_x, x[-1] + half_x, y[0] - half_y, y[-1] + half_y)
    options: dict[str, Any] = {"origin": "lower", "aspect": "auto", "interpolation": "bilinear"}
    image = axes.imshow(values, cmap=colours, extent=extent, **options)
    lines = axes.contour(x, y, values, levels=6, colors="black", linewidths=0.6, linestyles="-")
    axes.set_xlim(x[0], x[-1])
    axes.set_ylim(y[0], y[-1])
    bar = figure_of(axes).colorbar(image, ax=axes, pad=0.02)
    bar.ax.tick_params(labelsize=SMALL)
    return lines


def _label_contours(axes: Axes, lines: QuadContourSet) -> None:
    """Label contours where they are farthest from marks, labels and sides, if there is room."""
    lower, upper = np.array([axes.get_xlim(), axes.get_ylim()]).T
    marks = [line.get_xydata() for line in axes.lines if line.get_marker() != "None"]
    taken = [(np.asarray(mark) - lower) / (upper - lower) for mark in marks]
    places = []
    for line in (np.asarray(path.vertices) for path in lines.get_paths()):
        if not len(line):
            continue
        found = (line - lower) / (upper - lower)
        room = np.minimum(found, 1.0 - found).min(-1)
        for others in taken:
            room = np.minimum(room, np.linalg.norm(found[:, None] - others, axis=-1).min(-1))
        best = int(room.argmax())
        if room[best] < _ROOM:
            continue
        taken.append(found[best : best + 1])
        places.append(tuple(line[best].tolist()))
    style: dict[str, Any] = {"fontsize": SMALL - 1.0, "inline_spacing": 2}
    axes.clabel(lines, manual=places, fmt=lambda level: f"{level:.3g}".replace("-", "−"), **style)


def _draw_items(axes: Axes, context: _Context) -> None:
    """Draw asked items, a line for each duel, and the recommended item."""
    pairs = asked_pairs(context.model)
    if pairs is not None and len(pairs):
        duels = LineCollection([*as_array(pairs)], colors="black", linewidths=0.5, alpha=0.25)
        duels.set_label("a duel")
        axes.add_collection(duels, autolim=False)
    if context.asked is not None:
        x, y = as_array(context.asked.T)
        axes.plot(x, y, "o", mfc="white", mec="black", mew=0.7, **_MARK)
    if (item := context.star) is not None:
        axes.plot(*as_array(item.unsqueeze(-1)), "*", **_STAR)
