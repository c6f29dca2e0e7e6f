r"""Figures, drawn without pyplot, so that no window, backend or global state is involved."""

from __future__ import annotations

import os
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from botorch_pref.runner import History, replacing

__all__ = ["plot_regret", "save_figure"]

# Three of the colours of Okabe and Ito, which the colour-blind can tell apart.
_BLUE, _VERMILION, _GREEN = "#0072B2", "#D55E00", "#009E73"
_GREY = "#595959"
_WINDOW = 10


def plot_regret(
    history: History,
    *,
    title: str | None = None,
    utility_unit: str = "units of utility",
    utility_scale: float = 1.0,
) -> Figure:
    r"""The regret of each duel, its sum, and the regret of the recommendation.

    Args:
        history: What happened; at least one duel.
        title: The title; the problem's and the strategy's name if omitted.
        utility_unit: The unit of the recommendation's axis.
        utility_scale: How many of those units make one unit of utility.

    Returns:
        The figure, which belongs to no window.
    """
    figure = Figure(figsize=(12.0, 3.9), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    each, total, recommendation = figure.subplots(1, 3)
    _plot_each(each, history)
    _plot_total(total, history)
    _plot_recommendation(recommendation, history, utility_unit, utility_scale)
    for axes in (each, total, recommendation):
        axes.set_xlabel("duels")
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        axes.set_xlim(0, max(history.num_duels, 2))
        axes.grid(color="#E5E5E5", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title or f"{history.problem}, {history.strategy}", x=0.01, ha="left")
    return figure


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> Path:
    r"""Write a figure, all of it or nothing.

    Args:
        figure: The figure.
        path: The file, whose suffix names the format; one that is there is replaced.

    Returns:
        The path.

    Raises:
        OSError: If the file cannot be written.
        ValueError: If matplotlib does not know the format.
    """
    with replacing(path) as temporary:
        figure.savefig(temporary)
    return Path(path)


def _plot_each(axes: Axes, history: History) -> None:
    step, regret = history.table["step"], history.table["dueling_regret"]
    identical = history.table["identical"].astype(bool)
    axes.plot(
        step[~identical],
        regret[~identical],
        "o",
        color=_BLUE,
        alpha=0.4,
        ms=3.5,
        mew=0,
        label="a duel",
    )
    if identical.any():
        axes.plot(
            step[identical],
            regret[identical],
            "x",
            color=_VERMILION,
            alpha=0.7,
            ms=4.0,
            label="an item with itself",
        )
    mean = regret.rolling(_WINDOW, min_periods=1).mean()
    axes.plot(step, mean, color=_BLUE, lw=1.8, label=f"mean of the last {_WINDOW}")
    axes.axhline(history.random_regret, color=_GREY, ls="--", lw=1.2, label="random play")
    axes.set_ylim(-0.01, 0.51)
    axes.set_ylabel("dueling regret\n(probability)")
    axes.set_title("Regret of each duel", fontsize="medium", loc="left")
    axes.legend(framealpha=0.8, edgecolor="none", fontsize="small", loc="lower left")


def _plot_total(axes: Axes, history: History) -> None:
    step = [0, *history.table["step"]]
    axes.plot(
        step,
        [0.0, *history.table["cumulative_regret"]],
        color=_BLUE,
        lw=1.8,
        label=history.strategy,
    )
    random = [history.random_regret * t for t in (0, history.num_duels)]
    axes.plot([0, history.num_duels], random, color=_GREY, ls="--", lw=1.2, label="random play")
    axes.set_ylim(bottom=0.0)
    axes.set_ylabel("cumulative dueling regret\n(sum of probabilities)")
    axes.set_title("Cumulative regret", fontsize="medium", loc="left")
    axes.legend(frameon=False, fontsize="small", loc="upper left")


def _plot_recommendation(axes: Axes, history: History, unit: str, scale: float) -> None:
    known = history.table[history.table["recommendation_regret"].notna()]
    step, regret = known["step"], scale * known["recommendation_regret"]
    axes.step(step, regret, where="post", color=_GREEN, lw=1.8)
    if len(known):
        axes.plot(step.iloc[-1:], regret.iloc[-1:], "o", color=_GREEN, ms=5.0, clip_on=False)
        # A regret of zero throughout is to be seen as well, not to lie on the axis.
        top = max(regret.max(), 0.1 * scale)
        axes.set_ylim(-0.04 * top, 1.08 * top)
    axes.set_ylabel(f"recommendation regret\n({unit})")
    axes.set_title("Best item minus recommended item", fontsize="medium", loc="left")
