r"""A utility and how uncertain it is, along lines and on a plane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import torch
from botorch.models.model import Model
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from torch import Tensor

from botorch_pref.data.options import check_count
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.plotting.beliefs import Array, Moments, as_array, as_items, asked_pairs, moved
from botorch_pref.plotting.scene import Scene, UtilityOptions, scene_of
from botorch_pref.plotting.style import (
    BLUE,
    COLUMN,
    FONT,
    GREY,
    SMALL,
    VERMILION,
    figure_of,
    given_or_new,
    grid,
    heading,
    legend,
    legend_below,
    new_panels,
    wrapped,
)

_NORMAL_95 = 1.959964
_YELLOW = "#F0E442"  # of Okabe and Ito, with a black edge
# From white, so that black lines and marks are seen on all of it, and print takes little ink.
_UTILITY = LinearSegmentedColormap.from_list("utility", ["#FFFFFF", "#8FC1E0", BLUE])
_DEVIATION = LinearSegmentedColormap.from_list("deviation", ["#FFFFFF", "#F2BE94", VERMILION])
# Those at the edge are seen whole.
_MARK: dict[str, Any] = {"ms": 4.0, "label": "asked items", "clip_on": False, "zorder": 4}
_STAR: dict[str, Any] = {"mfc": _YELLOW, "mec": "black", "ms": 9.0, "mew": 0.7}
_STAR |= {"clip_on": False, "zorder": 5}
_SLICE_WIDTH, _MAX_COLUMNS = 2.28, 3  # three panels on a page of 17.4 cm


def plot_utility(model: Model, bounds: Tensor, **options: Unpack[UtilityOptions]) -> Figure:
    r"""The utility that a model believes in, by the number of dimensions.

    One dimension has :func:`plot_utility_1d`, two have :func:`plot_utility_2d`, and more have
    :func:`plot_utility_slices` through the recommended item.

    Args:
        model: A model of one output with a Gaussian posterior.
        bounds: ``2 x d``-dim lower and upper bounds of the domain, in the units of the items.
        **options: See :class:`UtilityOptions`.

    Returns:
        The figure.

    Raises:
        ComparisonDataError: If items have a wrong shape or are not finite.
        SearchSpaceError: If the bounds are none.
        UnsupportedError: If the model is a batch, has several outputs or no Gaussian posterior,
            or an option is no such option.

    Example:
        >>> save_figure(plot_utility(model, bounds, names=["milk (ml)", "heat (C)"]), "utility.pdf")
    """
    plots = {1: plot_utility_1d, 2: plot_utility_2d}
    dim = bounds.shape[-1] if isinstance(bounds, Tensor) and bounds.dim() == 2 else 0
    return plots.get(dim, plot_utility_slices)(model, bounds, **options)


def plot_utility_1d(
    model: Model,
    bounds: Tensor,
    *,
    resolution: int = 201,
    ax: Axes | None = None,
    **options: Unpack[UtilityOptions],
) -> Figure:
    r"""Mean and pointwise 95 % band on an interval, asked items and the recommended one.

    Args:
        model: As in :func:`plot_utility`, of one dimension.
        bounds: ``2 x 1``-dim bounds.
        resolution: The number of points of the curve.
        ax: The axes to draw on; those of a new figure if omitted.
        **options: See :class:`UtilityOptions`.

    Returns:
        The figure.

    Raises:
        ComparisonDataError: As in :func:`plot_utility`, or if ``resolution`` is below 2.
        SearchSpaceError: As in :func:`plot_utility`.
        UnsupportedError: As in :func:`plot_utility`, or if there are more dimensions.
    """
    check_count("resolution", resolution, 2)
    scene = scene_of(model, bounds, **options)
    _check_dim(scene, 1)
    axes = given_or_new(ax)
    X = scene.line(0, resolution)
    _draw_line(axes, as_array(X), scene.moments(X.unsqueeze(-1)))
    if scene.asked is not None:
        marks = as_array(scene.asked.squeeze(-1)), scene.moments(scene.asked).mean
        axes.plot(*marks, "o", mfc="white", mec=BLUE, mew=0.9, **_MARK)
    if scene.recommended is not None:
        _draw_item(axes, scene, 0, scene.recommended)
    axes.set_xlabel(scene.names[0])
    axes.set_ylabel(wrapped(scene.label, 2.0, FONT))
    figure = figure_of(axes)
    if ax is None:
        legend_below(figure, axes, 2)
    else:
        legend(axes)
    return figure


def plot_utility_2d(
    model: Model,
    bounds: Tensor,
    *,
    resolution: int = 51,
    **options: Unpack[UtilityOptions],
) -> Figure:
    r"""Mean and standard deviation on a rectangle; asked items, with a line a duel.

    Args:
        model: As in :func:`plot_utility`, of two dimensions.
        bounds: ``2 x 2``-dim bounds.
        resolution: The number of points along each side.
        **options: See :class:`UtilityOptions`. Duels are drawn unless ``asked`` is given.

    Returns:
        The figure of two panels.

    Raises:
        ComparisonDataError: As in :func:`plot_utility`, or if ``resolution`` is below 2.
        SearchSpaceError: As in :func:`plot_utility`.
        UnsupportedError: As in :func:`plot_utility`, or if there are other dimensions.
    """
    check_count("resolution", resolution, 2)
    scene = scene_of(model, bounds, **options)
    _check_dim(scene, 2)
    sides = [scene.line(dimension, resolution) for dimension in range(2)]
    # The first dimension is the abscissa: rows of the image are values of the second.
    mesh = torch.stack(torch.meshgrid(*sides, indexing="xy"), dim=-1)
    moments = scene.moments(mesh.flatten(end_dim=-2))
    title = scene.label[0].upper() + scene.label[1:]
    figure, panels = new_panels(1, 2, height=3.1, title=title)
    pairs = asked_pairs(model) if options.get("asked") is None else None
    for axes, values, colours, name in zip(
        panels, moments, (_UTILITY, _DEVIATION), ("Mean", "Standard deviation"), strict=True
    ):
        _draw_map(axes, sides, values.reshape(resolution, resolution), colours)
        _draw_items(axes, scene, pairs)
        axes.set_xlabel(scene.names[0])
        axes.set_ylabel(scene.names[1])
        heading(axes, name)
    if scene.recommended is not None:
        legend_below(figure, panels[0], 3)
    return figure


def plot_utility_slices(
    model: Model,
    bounds: Tensor,
    *,
    through: Tensor | None = None,
    dimensions: Sequence[int] | None = None,
    resolution: int = 101,
    **options: Unpack[UtilityOptions],
) -> Figure:
    r"""One dimension at a time through an item: mean and pointwise 95 % band.

    Ticks at the foot of a panel are the asked items' values of that dimension; the items
    themselves do not lie on the slice.

    Args:
        model: As in :func:`plot_utility`.
        bounds: ``2 x d``-dim bounds.
        through: The ``d``-dim item that all slices meet at; the recommended one if omitted.
        dimensions: Which dimensions have panels, from 0; all if omitted.
        resolution: The number of points of a curve.
        **options: See :class:`UtilityOptions`.

    Returns:
        The figure, a panel for each dimension, on one scale.

    Raises:
        ComparisonDataError: As in :func:`plot_utility`, or if ``resolution`` is below 2.
        SearchSpaceError: As in :func:`plot_utility`.
        UnsupportedError: As in :func:`plot_utility`, or if there is no item to go through, or
            no such dimension.
    """
    check_count("resolution", resolution, 2)
    scene = scene_of(model, bounds, **options)
    chosen = [*range(len(scene.names))] if dimensions is None else [*dimensions]
    if not chosen or not {*chosen} <= {*range(len(scene.names))}:
        raise UnsupportedError(f"dimensions must be of 0 to {len(scene.names) - 1}, got {chosen}.")
    item, title = _slices_through(scene, through)
    columns = min(_MAX_COLUMNS, len(chosen))
    width = _SLICE_WIDTH if columns > 1 else COLUMN
    size: dict[str, Any] = {"width": width, "height": 1.9, "title": title, "share": True}
    figure, panels = new_panels(-(-len(chosen) // columns), columns, **size)
    for axes, dimension in zip(panels, chosen, strict=False):
        _draw_slice(axes, scene, item, dimension, resolution)
    for axes in panels[len(chosen) :]:
        axes.set_axis_off()
    label = wrapped(scene.label, figure.get_figheight() - 0.7, FONT)
    figure.supylabel(label, fontsize=FONT)
    legend_below(figure, panels[0], 4 if columns > 1 else 2)
    return figure


def _check_dim(scene: Scene, dim: int) -> None:
    """Checks the number of dimensions."""
    if len(scene.names) != dim:
        raise UnsupportedError(f"bounds must be 2 x {dim}, not 2 x {len(scene.names)}.")


def _slices_through(scene: Scene, through: Tensor | None) -> tuple[Tensor, str]:
    """The item that all slices meet at, and their title."""
    if through is not None:
        item = as_items("through", through, len(scene.names))
        return moved(scene.model, item), "Slices through an item"
    if scene.recommended is None:
        raise UnsupportedError("through must be given: `model` knows no asked items.")
    return scene.recommended, "Slices through the recommended item"


def _draw_line(axes: Axes, x: Array, moments: Moments) -> None:
    """A mean and its pointwise 95 % band."""
    mean, half = moments.mean, _NORMAL_95 * moments.deviation
    band: dict[str, Any] = {"color": BLUE, "alpha": 0.2, "lw": 0, "label": "95 % band"}
    axes.fill_between(x, mean - half, mean + half, **band)
    axes.plot(x, mean, color=BLUE, lw=1.5, label="mean")
    axes.set_xlim(x[0], x[-1])
    grid(axes)


def _draw_slice(axes: Axes, scene: Scene, item: Tensor, dimension: int, size: int) -> None:
    """The utility along one dimension through an item."""
    X = item.repeat(size, 1)
    X[:, dimension] = scene.line(dimension, size)
    _draw_line(axes, as_array(X[:, dimension]), scene.moments(X))
    if scene.asked is not None:
        foot = axes.get_xaxis_transform()
        x = as_array(scene.asked[:, dimension])
        ticks = axes.plot(x, [0.0] * len(x), "|", color=GREY, ms=5.0, mew=0.7, transform=foot)
        ticks[0].set_label("asked items")
    _draw_item(axes, scene, dimension, item)
    axes.set_xlabel(scene.names[dimension])


def _draw_item(axes: Axes, scene: Scene, dimension: int, item: Tensor) -> None:
    """A star at the utility of an item."""
    if bool(scene.contains(item)):
        label = "recommended item" if item is scene.recommended else "the item"
        place = [float(item[dimension])], scene.moments(item.unsqueeze(0)).mean
        axes.plot(*place, "*", **_STAR, label=label)


def _draw_map(
    axes: Axes, sides: Sequence[Tensor], values: Array, colours: LinearSegmentedColormap
) -> None:
    """An image of values on a grid, the first dimension along the rows, with contour lines."""
    x, y = (as_array(side) for side in sides)
    half_x, half_y = (0.5 * (side[1] - side[0]) for side in (x, y))
    extent = (x[0] - half_x, x[-1] + half_x, y[0] - half_y, y[-1] + half_y)
    options: dict[str, Any] = {"origin": "lower", "aspect": "auto", "interpolation": "bilinear"}
    image = axes.imshow(values, cmap=colours, extent=extent, **options)
    lines = axes.contour(x, y, values, levels=6, colors=GREY, linewidths=0.6, linestyles="-")
    axes.clabel(lines, fontsize=SMALL - 1.0, fmt="%.3g")
    axes.set_xlim(x[0], x[-1])
    axes.set_ylim(y[0], y[-1])
    bar = figure_of(axes).colorbar(image, ax=axes, pad=0.02)
    bar.ax.tick_params(labelsize=SMALL)


def _draw_items(axes: Axes, scene: Scene, pairs: Tensor | None) -> None:
    """Asked items, a line for each duel, and the recommended item."""
    if pairs is not None and len(pairs):
        duels = LineCollection([*as_array(pairs)], colors="black", linewidths=0.5, alpha=0.25)
        duels.set_label("a duel")
        axes.add_collection(duels, autolim=False)
    if scene.asked is not None:
        x, y = as_array(scene.asked.T)
        axes.plot(x, y, "o", mfc="white", mec="black", mew=0.7, **_MARK)
    item = scene.recommended
    if item is not None and bool(scene.contains(item)):
        axes.plot(*as_array(item.unsqueeze(-1)), "*", **_STAR, label="recommended item")
