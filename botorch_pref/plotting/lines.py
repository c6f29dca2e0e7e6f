r"""A utility along one dimension."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from botorch_pref.plotting.beliefs import as_array
from botorch_pref.plotting.scene import Scene
from botorch_pref.plotting.style import BLUE, GREY, grid

_NORMAL_95 = 1.959964
_YELLOW = "#F0E442"  # of Okabe and Ito, with a black edge
_BAND: dict[str, Any] = {"color": BLUE, "label": "95 % band"}
_MARGIN = 0.5  # beside the first and the last whole number
_LOG_MARGIN = 1.2
STAR: dict[str, Any] = {"mfc": _YELLOW, "mec": "black", "ms": 9.0, "mew": 0.7}
STAR |= {"clip_on": False, "zorder": 5}


def draw_along(axes: Axes, scene: Scene, dimension: int, items: Tensor) -> None:
    r"""The mean and its pointwise 95 % band; points with bars where there is nothing between.

    Args:
        axes: What is drawn on.
        scene: What is drawn.
        dimension: The number of the dimension that changes.
        items: ``n x d``-dim items that differ in this dimension alone, in its order.
    """
    x, moments = as_array(items[:, dimension]), scene.moments(items)
    mean, half = moments.mean, _NORMAL_95 * moments.deviation
    if scene.is_discrete(dimension):
        axes.vlines(x, mean - half, mean + half, alpha=0.4, lw=4.0, **_BAND)
        axes.plot(x, mean, "_", color=BLUE, ms=9.0, mew=1.5, label="mean")
    else:
        axes.fill_between(x, mean - half, mean + half, alpha=0.2, lw=0, **_BAND)
        axes.plot(x, mean, color=BLUE, lw=1.5, label="mean")
    first, last = float(x[0]), float(x[-1])
    if scene.is_log(dimension):
        axes.set_xscale("log")
        margin = _LOG_MARGIN if scene.is_discrete(dimension) else 1.0
        axes.set_xlim(first / margin, last * margin)
    else:
        margin = _MARGIN if scene.is_discrete(dimension) else 0.0
        axes.set_xlim(first - margin, last + margin)
    if dimension in scene.levels:
        axes.set_xticks(range(len(scene.levels[dimension])), scene.levels[dimension])
    elif scene.is_discrete(dimension) and not scene.is_log(dimension):
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    grid(axes)
    axes.set_xlabel(scene.names[dimension])


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
