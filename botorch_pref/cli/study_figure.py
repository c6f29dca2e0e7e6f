r"""The figure that a session ends with."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from botorch_pref.plotting import COLOURS
from botorch_pref.study import Recommendation
from botorch_pref.study.beliefs import Beliefs

_TOP = 8
_BLUE, _VERMILION = COLOURS[:2]


def study_figure(beliefs: Beliefs, found: Recommendation, labels: Sequence[str]) -> Figure:
    r"""How likely the best items win a duel with the recommended one.

    Args:
        beliefs: What the answers say.
        found: The recommendation.
        labels: What the items of the beliefs are called.

    Returns:
        The figure: a bar for each of the items of the largest posterior means, of those that are
        alike for one.
    """
    known, row = beliefs.with_item(found.item)
    names = [*labels, "recommended"][: len(known.items)]
    order = known.distinct(_TOP, row)
    chances = [100.0 * known.win_probability(other, row) for other in order]
    figure = Figure(figsize=(6.0, 0.8 + 0.32 * len(order)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    colours = [_VERMILION, *[_BLUE] * (len(order) - 1)]
    axes.barh(range(len(order)), chances, color=colours)
    axes.axvline(50.0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(order)), [names[other] for other in order])
    axes.invert_yaxis()
    axes.set_xlim(0.0, 100.0)
    axes.set_xlabel("probability of winning against the recommended item (%)")
    axes.set_title(f"Best items after {found.num_answers} answers")
    return figure
