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

from botorch_pref.data.checks import check_count
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.plotting.beliefs import Array, as_array, as_items, asked_pairs, moved
from botorch_pref.plotting.lines import STAR, draw_along, draw_slice, draw_star
from botorch_pref.plotting.scene import Scene, UtilityOptions, scene_of
from botorch_pref.plotting.style import (
    BLUE,
    COLUMN,
    FONT,
    SMALL,
    VERMILION,
    figure_of,
    given_or_new,
    heading,
    legend,
    legend_below,
    new_panels,
    wrapped,
)
from botorch_pref.plotting.ticks import make_room
from botorch_pref.space import SearchSpace

# From white, so that black lines and marks are seen on all of it, and print takes little ink.
_UTILITY = LinearSegmentedColormap.from_list("utility", ["#FFFFFF", "#8FC1E0", BLUE])
_DEVIATION = LinearSegmentedColormap.from_list("deviation", ["#FFFFFF", "#F2BE94", VERMILION])
# Those at the edge are seen whole.
_MARK: dict[str, Any] = {"ms": 4.0, "label": "asked items", "clip_on": False, "zorder": 4}
_SLICE_WIDTH, _MAX_COLUMNS = 2.28, 3  # three panels on a page of 17.4 cm


def plot_utility(
    model: Model, bounds: Tensor | SearchSpace, **options: Unpack[UtilityOptions]
) -> Figure:
    r"""The utility that a model believes in, by the number of dimensions.

    One dimension has :func:`plot_utility_1d`, two real ones on linear scales have
    :func:`plot_utility_2d`, and all others have :func:`plot_utility_slices` through the
    recommended item.

    Args:
        model: A model of one output with a Gaussian posterior.
        bounds: ``2 x d``-dim lower and upper bounds of the domain, in the units of the items; or a
            :class:`~botorch_pref.space.SearchSpace`, whose whole numbers, categories and
            logarithmic scales are drawn as such.
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
    ends = bounds.bounds if isinstance(bounds, SearchSpace) else bounds
    dim = ends.shape[-1] if isinstance(ends, Tensor) and ends.dim() == 2 else 0
    if dim == 1:
        return plot_utility_1d(model, bounds, **options)
    if dim == 2 and not (isinstance(bounds, SearchSpace) and _is_mixed(bounds)):
        return plot_utility_2d(model, bounds, **options)
    return plot_utility_slices(model, bounds, **options)


def plot_utility_1d(
    model: Model,
    bounds: Tensor | SearchSpace,
    *,
    resolution: int = 201,
    ax: Axes | None = None,
    **options: Unpack[UtilityOptions],
) -> Figure:
    r"""Mean and pointwise 95 % band on an interval, asked items and the recommended one.

    Args:
        model: As in :func:`plot_utility`, of one dimension.
        bounds: ``2 x 1``-dim bounds, or a space.
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
    draw_along(axes, scene, 0, scene.line(0, resolution).unsqueeze(-1))
    if scene.asked is not None:
        marks = as_array(scene.asked.squeeze(-1)), scene.moments(scene.asked).mean
        axes.plot(*marks, "o", mfc="white", mec=BLUE, mew=0.9, **_MARK)
    if scene.recommended is not None:
        draw_star(axes, scene, 0, scene.recommended)
    axes.set_ylabel(wrapped(scene.label, 2.0, FONT))
    figure = figure_of(axes)
    if ax is None:
        make_room(figure, [[axes]])
        legend_below(figure, axes, 2)
    else:
        legend(axes)
    return figure


def plot_utility_2d(
    model: Model,
    bounds: Tensor | SearchSpace,
    *,
    resolution: int = 51,
    **options: Unpack[UtilityOptions],
) -> Figure:
    r"""Mean and standard deviation on a rectangle; asked items, with a line a duel.

    Args:
        model: As in :func:`plot_utility`, of two dimensions.
        bounds: ``2 x 2``-dim bounds, or a space of real numbers on linear scales.
        resolution: The number of points along each side.
        **options: See :class:`UtilityOptions`. Duels are drawn unless ``asked`` is given.

    Returns:
        The figure of two panels.

    Raises:
        ComparisonDataError: As in :func:`plot_utility`, or if ``resolution`` is below 2.
        SearchSpaceError: As in :func:`plot_utility`.
        UnsupportedError: As in :func:`plot_utility`, or if there are other dimensions, or other
            kinds of numbers.
    """
    check_count("resolution", resolution, 2)
    scene = scene_of(model, bounds, **options)
    _check_dim(scene, 2)
    if _is_mixed(scene.space):
        raise UnsupportedError(
            "bounds must be real numbers on linear scales: for others use plot_utility_slices."
        )
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
    bounds: Tensor | SearchSpace,
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
        bounds: ``2 x d``-dim bounds, or a space.
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
        draw_slice(axes, scene, item, dimension, resolution)
    for axes in panels[len(chosen) :]:
        axes.set_axis_off()
    make_room(figure, [panels[i : i + columns] for i in range(0, len(panels), columns)])
    label = wrapped(scene.label, figure.get_figheight() - 0.7, FONT)
    figure.supylabel(label, fontsize=FONT)
    legend_below(figure, panels[0], 4 if columns > 1 else 2)
    return figure


def _is_mixed(space: SearchSpace) -> bool:
    """Whether not all dimensions are real numbers on linear scales."""
    return bool(space.parameters.discrete or space.parameters.log)


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


def _draw_map(
    axes: Axes, sides: Sequence[Tensor], values: Array, colours: LinearSegmentedColormap
) -> None:
    """An image of values on a grid, the first dimension along the rows, with contour lines."""
    x, y = (as_array(side) for side in sides)
    half_x, half_y = (0.5 * (side[1] - side[0]) for side in (x, y))
    extent = (x[0] - half_x, x[-1] + half_x, y[0] - half_y, y[-1] + half_y)
    options: dict[str, Any] = {"origin": "lower", "aspect": "auto", "interpolation": "bilinear"}
    image = axes.imshow(values, cmap=colours, extent=extent, **options)
    lines = axes.contour(x, y, values, levels=6, colors="black", linewidths=0.6, linestyles="-")
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
        axes.plot(*as_array(item.unsqueeze(-1)), "*", **STAR, label="recommended item")
