r"""A utility along one dimension."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from torch import Tensor

from botorch_pref.plotting.beliefs import Array, as_array
from botorch_pref.plotting.scene import Scene
from botorch_pref.plotting.style import BLUE, GREY, grid
from botorch_pref.plotting.ticks import log_ticks, name_ticks, places, whole_ticks

_NORMAL_95 = 1.959964
_YELLOW = "#F0E442"  # of Okabe and Ito, with a black edge
# One shade for bars and bands: a figure of both has one legend.
_BAND: dict[str, Any] = {"color": BLUE, "alpha": 0.3, "label": "95 % band"}
_MEAN: dict[str, Any] = {"color": BLUE, "label": "mean"}
_CLOSE = 6.0  # points between numbers that bars do not fit into
_MARGIN = 0.5  # beside the first and the last whole number
_LOG_MARGIN = 1.2
STAR: dict[str, Any] = {"mfc": _YELLOW, "mec": "black", "ms": 9.0, "mew": 0.7}
STAR |= {"clip_on": False, "zorder": 5}


def draw_along(axes: Axes, scene: Scene, dimension: int, items: Tensor) -> None:
    r"""The mean and its pointwise 95 % band; points with bars where there is nothing between.

    Whole numbers that are too close for bars have steps. Levels of a category, which have no
    order, never do.

    Args:
        axes: What is drawn on.
        scene: What is drawn.
        dimension: The number of the dimension that changes.
        items: ``n x d``-dim items that differ in this dimension alone, in its order.
    """
    x, moments = as_array(items[:, dimension]), scene.moments(items)
    mean, half = moments.mean, _NORMAL_95 * moments.deviation
    ends = mean - half, mean + half
    discrete, named = scene.is_discrete(dimension), dimension in scene.levels
    _set_limits(axes, scene, dimension, x, discrete)
    gap = float(np.diff(places(axes, x)).min())
    if discrete and (named or gap >= _CLOSE):
        axes.vlines(x, *ends, lw=min(4.0, 0.4 * gap), **_BAND)
        axes.plot(x, mean, "_", ms=min(9.0, 0.8 * gap), mew=1.5, **_MEAN)
    else:
        _set_limits(axes, scene, dimension, x, False)
        step: Literal["mid"] | None = "mid" if discrete else None
        axes.fill_between(x, *ends, lw=0, step=step, **_BAND)
        style: Literal["steps-mid", "default"] = "steps-mid" if discrete else "default"
        axes.plot(x, mean, lw=1.5, drawstyle=style, **_MEAN)
    if named:
        name_ticks(axes, scene.levels[dimension])
    elif scene.is_log(dimension):
        log_ticks(axes, discrete)
    elif discrete:
        whole_ticks(axes)
    grid(axes)
    axes.set_xlabel(scene.names[dimension])


def _set_limits(axes: Axes, scene: Scene, dimension: int, x: Array, beside: bool) -> None:
    """From the first to the last number on its scale, and maybe a little beside them."""
    if scene.is_log(dimension):
        axes.set_xscale("log")
        margin = _LOG_MARGIN if beside else 1.0
        axes.set_xlim(x[0] / margin, x[-1] * margin)
    else:
        margin = _MARGIN if beside else 0.0
        axes.set_xlim(x[0] - margin, x[-1] + margin)


def draw_slice(axes: Axes, scene: Scene, item: Tensor, dimension: int, size: int) -> None:
    r"""The utility along one dimension through an item, and where items were asked.

    Args:
        axes: What is drawn on.
        scene: What is drawn.
        item: The ``d``-dim item.
        dimension: The number of the dimension.
        size: The number of steps at most.
    """
    steps = scene.line(dimension, size)
    items = item.repeat(len(steps), 1)
    items[:, dimension] = steps
    draw_along(axes, scene, dimension, items)
    if scene.asked is not None:
        foot = axes.get_xaxis_transform()
        x = as_array(scene.asked[:, dimension])
        ticks = axes.plot(x, [0.0] * len(x), "|", color=GREY, ms=5.0, mew=0.7, transform=foot)
        ticks[0].set_label("asked items")
    draw_star(axes, scene, dimension, item)


def draw_star(axes: Axes, scene: Scene, dimension: int, item: Tensor) -> None:
    r"""A star at the utility of an item, if it is in the box.

    Args:
        axes: What is drawn on.
        scene: What is drawn.
        dimension: The number of the dimension of the abscissa.
        item: The ``d``-dim item.
    """
    if bool(scene.contains(item)):
        label = "recommended item" if item is scene.recommended else "the item"
        place = [float(item[dimension])], scene.moments(item.unsqueeze(0)).mean
        axes.plot(*place, "*", **STAR, label=label)
