r"""Items, best first, with intervals of their utilities and ranks."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from botorch_pref.data.checks import check_count
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.plotting.style import BLUE, COLUMN, GREEN, escaped, heading, new_panels

_COLUMNS = ("item", "rank", "rank_from", "rank_to", "utility", "lower", "upper")
_ROW = 0.19  # inches
_LETTERS = 28  # of a name


def plot_ranking(ranking: pd.DataFrame, *, top: int = 30) -> Figure:
    r"""Items with 95 % intervals of utility and of rank, best first.

    Args:
        ranking: What :func:`~botorch_pref.models.rank_items` returns, or the table of a
            :class:`~botorch_pref.models.Leaderboard`.
        top: How many of the items are drawn.

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
    places = range(len(best))
    height = 0.9 + _ROW * max(len(best), 4)
    figure, (left, right) = new_panels(1, 2, width=0.9 * COLUMN, height=height, share=True)
    style: dict[str, Any] = {"fmt": "o", "ms": 3.5, "lw": 1.2, "capsize": 2.0}
    place = pd.Series(range(1, len(best) + 1), index=best.index)
    for axes, centre, lower, upper, colour in (
        (left, best["utility"], "lower", "upper", BLUE),
        (right, place, "rank_from", "rank_to", GREEN),
    ):
        errors = [(centre - best[lower]).clip(0), (best[upper] - centre).clip(0)]
        axes.errorbar(centre, places, xerr=errors, color=colour, **style)
        axes.grid(visible=False, axis="y")
    names = [name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}…" for name in best["item"]]
    left.set_yticks(places, [*map(escaped, names)])
    left.set_ylim(len(best) - 0.4, -0.6)  # the best is at the top
    left.set_xlabel("utility above the mean of all")
    right.set_xlabel(f"rank among {len(ranking)}")
    right.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    right.set_xlim(0.5, max(best["rank_to"].max(), len(best)) + 0.5)
    heading(left, "Utility, 95 % interval")
    heading(right, "Rank, 95 % interval")
    return figure
