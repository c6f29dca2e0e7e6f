r"""How likely each of the best items wins against each other one."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from botorch.models.model import Model
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from scipy.special import ndtr
from torch import Tensor

from botorch_pref.data.checks import check_count
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.plotting.posterior import (
    Array,
    as_array,
    check_model,
    checked_items,
    utility_moments,
)
from botorch_pref.plotting.style import (
    BETWEEN,
    BLUE,
    COLUMN,
    LEADING,
    ORANGE,
    SMALL,
    escaped,
    figure_of,
    heading,
    label_size,
    new_panels,
    text_width,
)

# Blue is darker than orange, so that wins and losses differ in grey as well.
_CHANCES = LinearSegmentedColormap.from_list("chances", [ORANGE, "#FFFFFF", BLUE])
_DARK = 0.95  # the chance above which black letters cannot be read
_SHORT = 6  # letters of a name that fits above a column
_LINE = 24  # letters of a line beside a row


def plot_win_probabilities(
    model: Model,
    items: Tensor,
    *,
    top: int = 8,
    labels: Sequence[str] | None = None,
) -> Figure:
    r"""The matrix of win probabilities of the items whose posterior mean is largest.

    Of a :class:`~botorch_pref.models.PreferenceGP` it shows the probability that the row wins a
    duel, which the judge's noise is part of; of other models the posterior probability that its
    utility is larger.

    Args:
        model: A model of one output with a Gaussian posterior.
        items: ``n x d``-dim items.
        top: How many of them have a row, best first.
        labels: ``n`` names of the items; their row numbers, from 0, if omitted. Long names stand
            beside their rows alone, with the number that is their column's.

    Raises:
        ComparisonDataError: If the items have a wrong shape or are not finite, there are fewer
            than two, or ``top`` is below 2.
        UnsupportedError: If the model is a batch, has several outputs or no Gaussian posterior,
            or there are other than ``n`` labels.
    """
    check_model(model)
    check_count("top", top, 2)
    items = checked_items(model, "items", items, "n", "d")
    check_count("len(items)", len(items), 2)
    if labels is not None and (isinstance(labels, str) or len(labels) != len(items)):
        raise UnsupportedError(f"labels must be {len(items)} names, got {labels!r}.")
    order = (-utility_moments(model, items).mean).argsort(kind="stable")[:top]
    names = [f"#{row}" if labels is None else labels[row] for row in order]
    chances = _chances(model, items[torch.from_numpy(order).to(items.device)])
    are_short = max(map(len, names)) <= _SHORT
    width = COLUMN if are_short else 1.4 * COLUMN
    figure, (axes,) = new_panels(1, 1, width=width, height=0.92 * COLUMN, grid=False)
    _draw_matrix(axes, chances)
    _name_cells(axes, names, are_short)
    wins = "the row wins a duel" if isinstance(model, PreferenceGP) else "row's utility is larger"
    heading(axes, f"Chance (%) that {wins}")
    return figure


@torch.no_grad()
def _chances(model: Model, items: Tensor) -> Array:
    """``k x k``-dim probabilities that the row's item beats the column's."""
    if isinstance(model, PreferenceGP):
        pairs = torch.broadcast_tensors(items.unsqueeze(1), items.unsqueeze(0))
        return as_array(model.win_probability(torch.stack(pairs, dim=-2)))
    columns = [utility_moments(model, items, item) for item in items]
    mean, deviation = (np.stack(values, axis=-1) for values in zip(*columns, strict=True))
    chances: Array = ndtr(mean / np.maximum(deviation, np.finfo(float).tiny))
    return chances


def _draw_matrix(axes: Axes, chances: Array) -> None:
    """Cells with their numbers, but for those of an item with itself."""
    itself = np.eye(len(chances), dtype=bool)
    axes.imshow(np.ma.masked_where(itself, chances), cmap=_CHANCES, vmin=0.0, vmax=1.0)
    style: dict[str, Any] = {"ha": "center", "va": "center"}
    style["fontsize"] = SMALL * min(1.0, 10 / len(chances))
    for row, column in zip(*np.nonzero(~itself), strict=True):
        chance = chances[row, column]
        colour = "white" if chance > _DARK else "black"
        axes.text(column, row, _percent(chance), color=colour, **style)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("opponent")
    axes.set_ylabel("item, best first")


def _name_cells(axes: Axes, names: Sequence[str], are_short: bool) -> None:
    """Names, or ranks of long ones above columns, upright and smaller where there is no room."""
    across = beside = [*names]
    if not are_short:
        across = [str(rank) for rank in range(1, len(names) + 1)]
        lines = (textwrap.fill(name, _LINE) for name in names)
        beside = [f"{rank}. {name}" for rank, name in zip(across, lines, strict=True)]
    size, side = label_size(axes), min(axes.get_window_extent().size)
    gap = float(side) * 72.0 / figure_of(axes).dpi / len(names)
    fit = max(text_width(name, size) for name in across) <= gap - BETWEEN * size
    style: dict[str, Any] = {} if fit else {"rotation": 90, "fontsize": min(size, gap / LEADING)}
    axes.set_xticks(range(len(names)), [*map(escaped, across)], **style)
    most = max(name.count("\n") + 1 for name in beside)
    size = min(size, gap / (LEADING * most))
    axes.set_yticks(range(len(names)), [*map(escaped, beside)], fontsize=size)


def _percent(chance: float) -> str:
    """A chance in percent; only certainty is 0 or 100."""
    if 0.0 < chance < 0.01:
        return "<1"
    return ">99" if 0.99 < chance < 1.0 else f"{100.0 * chance:.0f}"
