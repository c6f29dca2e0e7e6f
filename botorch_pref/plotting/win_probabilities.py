r"""How likely each of the best items wins against each other one."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from botorch.models.model import Model
from matplotlib.figure import Figure
from scipy.special import ndtr
from torch import Tensor

from botorch_pref.data.checks import check_count
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.plotting.drawing import (
    BLUE,
    COLUMN,
    ORANGE,
    Axis,
    Backend,
    Drawing,
    Grid,
    Panel,
    draw,
    item_texts,
    named_dimensions,
)
from botorch_pref.plotting.posterior import (
    Array,
    as_array,
    check_model,
    checked_items,
    utility_moments,
)
from botorch_pref.study.dimensions import Dimension

# Blue is darker than orange, so that wins and losses differ in grey as well.
_COLOURS = (ORANGE, "#FFFFFF", BLUE)
_SHORT = 6  # letters of a name that fits above a column
_LETTER = 0.056  # inches
_LINE = 24  # letters of a line beside a row
_MOST_LINES = 16  # parameters of an item that are told beside its label


def plot_win_probabilities(
    model: Model,
    items: Tensor,
    *,
    top: int = 8,
    labels: Sequence[str] | None = None,
    names: Sequence[str | Dimension] | None = None,
    backend: Backend = "matplotlib",
) -> Figure | Any:
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
        names: The names of the ``d`` dimensions, with their units, or a study's ``dimensions``;
            without ``labels`` they name the items, as in ``"milk (ml): 40, shots: 2"``.
        backend: ``"plotly"`` for an interactive figure, whose texts tell the items' parameters
            too, where these are at most 16 or there are no labels.

    Returns:
        A matplotlib ``Figure``, or a ``plotly.graph_objects.Figure``.

    Raises:
        ComparisonDataError: If the items have a wrong shape or are not finite, there are fewer
            than two, or ``top`` is below 2.
        UnsupportedError: If the model is a batch, has several outputs or no Gaussian posterior,
            or there are other than ``n`` labels or ``d`` names.
    """
    check_model(model)
    check_count("top", top, 2)
    items = checked_items(model, "items", items, "n", "d")
    check_count("len(items)", len(items), 2)
    if labels is not None and (isinstance(labels, str) or len(labels) != len(items)):
        raise UnsupportedError(f"labels must be {len(items)} names, got {labels!r}.")
    order = (-utility_moments(model, items).mean).argsort(kind="stable")[:top]
    items = items[torch.from_numpy(order).to(items.device)]
    chances = _chances(model, items)
    texts = item_texts(as_array(items), named_dimensions(names, items.shape[-1]))
    if labels is not None:
        shown = [labels[row] for row in order]
    elif names is not None:
        shown = [text.replace("\n", ", ") for text in texts]
    else:
        shown = [f"#{row}" for row in order]
    across, beside = _cell_names(shown)
    wins = "the row wins a duel" if isinstance(model, PreferenceGP) else "row's utility is larger"
    places = np.arange(len(items), dtype=float)
    ends = -0.5, len(items) - 0.5
    columns, rows = (dict(zip(places.tolist(), own, strict=True)) for own in (across, beside))
    hover = [f"{name}\n{text}" for name, text in zip(shown, texts, strict=True)]
    if labels is not None and items.shape[-1] > _MOST_LINES:
        hover = shown
    panel = Panel(
        marks=[_cells(places, chances, hover)],
        x=Axis(label="opponent", names=columns, limits=ends),
        y=Axis(label="item, best first", names=rows, limits=ends[::-1]),
        title=f"Chance (%) that {wins}",
    )
    longest = max(len(line) for name in beside for line in name.split("\n"))
    width = COLUMN + _LETTER * max(longest - _SHORT, 0)
    return draw(Drawing(panels=[panel], width=width, height=0.92 * COLUMN), backend)


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


def _cells(places: Array, chances: Array, texts: Sequence[str]) -> Grid:
    """Cells with their numbers, but for those of an item with itself."""
    itself = np.eye(len(chances), dtype=bool)
    percent = [
        ["" if is_same else _percent(chance) for chance, is_same in zip(*row, strict=True)]
        for row in zip(chances, itself, strict=True)
    ]
    hover = [
        [f"{percent[i][j]} %\n\n{row}\n\nagainst {column}" for j, column in enumerate(texts)]
        for i, row in enumerate(texts)
    ]
    values = np.where(itself, np.nan, chances)
    style: dict[str, Any] = {"colours": _COLOURS, "ends": (0.0, 1.0)}
    return Grid(x=places, y=places, values=values, texts=percent, hover=hover, **style)


def _cell_names(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Names for columns and rows; ranks of long ones for columns, in lines for rows."""
    if max(map(len, names)) <= _SHORT:
        return [*names], [*names]
    across = [str(rank) for rank in range(1, len(names) + 1)]
    return across, [f"{rank}. {_lines(name)}" for rank, name in zip(across, names, strict=True)]


def _lines(name: str) -> str:
    """A name in lines, which end behind a comma where that is possible."""
    lines = [""]
    for part in name.split(", "):
        joined = f"{lines[-1]}, {part}" if lines[-1] else part
        if len(joined) <= _LINE or not lines[-1]:
            lines[-1] = joined
        else:
            lines[-1] += ","
            lines.append(part)
    return "\n".join(textwrap.fill(line, _LINE) for line in lines)


def _percent(chance: float) -> str:
    """A chance in percent; only certainty is 0 or 100."""
    if 0.0 < chance < 0.01:
        return "<1"
    return ">99" if 0.99 < chance < 1.0 else f"{100.0 * chance:.0f}"
