r"""Items, best first, with intervals of their utilities and ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from botorch_pref.data.checks import check_count
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.plotting.drawing import (
    BLUE,
    COLUMN,
    GREEN,
    Axis,
    Backend,
    Drawing,
    Intervals,
    Panel,
    draw,
    number_text,
    shortened,
)

_COLUMNS = ("item", "rank", "rank_from", "rank_to", "utility", "lower", "upper")
_ROW = 0.19  # inches
_LETTERS = 28  # of a name


def plot_ranking(
    ranking: pd.DataFrame, *, top: int = 30, backend: Backend = "matplotlib"
) -> Figure | Any:
    r"""Items with 95 % intervals of utility and of rank, best first.

    Args:
        ranking: What :func:`~botorch_pref.models.rank_items` returns, or the table of a
            :class:`~botorch_pref.models.Leaderboard`.
        top: How many of the items are drawn.
        backend: ``"plotly"`` for an interactive figure.

    Returns:
        A matplotlib ``Figure``, or a ``plotly.graph_objects.Figure``.

    Raises:
        ComparisonDataError: If ``top`` is below 1.
        UnsupportedError: If the table has no rows or lacks a column.
    """
    check_count("top", top, 1)
    if missing := [name for name in _COLUMNS if name not in ranking]:
        raise UnsupportedError(f"ranking lacks the columns {', '.join(missing)}.")
    if not len(ranking):
        raise UnsupportedError("ranking has no rows.")
    best = ranking.iloc[:top]
    rows = np.arange(len(best), dtype=float)
    columns = {name: best[name].to_numpy(dtype=float) for name in _COLUMNS[1:]}
    hover = [
        f"{item}\nutility: {number_text(mean)} ({number_text(low)} to {number_text(high)})\n"
        f"rank: {rank:.0f} ({first:.0f} to {last:.0f})"
        for item, rank, first, last, mean, low, high in zip(
            best["item"], *columns.values(), strict=True
        )
    ]
    names = {float(row): shortened(str(name), _LETTERS) for row, name in enumerate(best["item"])}
    y = Axis(names=names, limits=(len(best) - 0.4, -0.6))  # the best is at the top
    most = max(int(ranking["rank_to"][: len(best)].max()), len(best)) + 0.5
    style: dict[str, Any] = {"y": rows, "along_x": True, "hover": hover}
    return draw(
        Drawing(
            panels=[
                Panel(
                    title=title,
                    marks=[Intervals(x=centre, lower=lower, upper=upper, colour=colour, **style)],
                    x=x,
                    y=y,
                )
                for title, centre, lower, upper, colour, x in (
                    (
                        "Utility, 95 % interval",
                        columns["utility"],
                        columns["lower"],
                        columns["upper"],
                        BLUE,
                        Axis(label="utility above the mean of all"),
                    ),
                    (
                        "Order, and 95 % interval of the rank",
                        rows + 1.0,
                        columns["rank_from"],
                        columns["rank_to"],
                        GREEN,
                        Axis(label=f"rank among {len(ranking)}", limits=(0.5, most), whole=True),
                    ),
                )
            ],
            columns=2,
            width=0.9 * COLUMN,
            height=0.9 + _ROW * max(len(best), 4),
            share_y=True,
        ),
        backend,
    )
