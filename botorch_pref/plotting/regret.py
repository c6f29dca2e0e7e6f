r"""Regrets of simulations, of one run or of many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.plotting.style import (
    BLUE,
    COLOURS,
    DASHES,
    GREEN,
    GREY,
    MARKERS,
    VERMILION,
    heading,
    legend,
    legend_below,
    new_panels,
)
from botorch_pref.runner.simulation import History

_NUM_MARKERS = 8  # along a curve
_BESIDE = 0.015  # of the abscissa
_WINDOW = 10
# How each kind of query is drawn where it pays regret.
_KINDS = {"duel": ("o", "a duel"), "choice": ("^", "a choice"), "evaluate": ("s", "a value")}
_EACH = "dueling_regret"  # one number a duel, too noisy to be seen without a mean
_SUMS = ("cumulative_regret", "cumulative_first_regret")  # start from 0
# The title and the label of each metric.
_METRICS = {
    _EACH: ("Regret of each duel", "dueling regret\n(probability)"),
    _SUMS[0]: ("Cumulative regret", "cumulative dueling regret\n(sum of probabilities)"),
    _SUMS[1]: (
        "Cumulative regret of the first arm",
        "cumulative regret of the first arm\n(units of utility)",
    ),
    "recommendation_regret": (
        "Best item minus recommended item",
        "recommendation regret\n(units of utility)",
    ),
}


def plot_regret(
    history: History,
    *,
    title: str | None = None,
    utility_unit: str = "units of utility",
    utility_scale: float = 1.0,
) -> Figure:
    r"""The regret of each query, its sum, and the regret of the recommendation.

    Args:
        history: What happened; at least one query.
        title: The title; the problem's and the strategy's name if omitted.
        utility_unit: The unit of the recommendation's axis.
        utility_scale: How many of those units make one unit of utility.
    """
    table, last = history.table, history.num_duels
    asked = _asked(table)
    title = title or f"{history.problem}, {history.strategy}"
    figure, (each, total, recommendation) = _panels(3, last, title, 3.1, asked)

    step, regret = table["step"], table["dueling_regret"]
    kinds = table.get("kind", pd.Series("duel", step.index)).mask(table["identical"].astype(bool))
    style: dict[str, Any] = {"color": BLUE, "alpha": 0.4, "ms": 3.5, "mew": 0}
    for kind, (marker, label) in _KINDS.items():
        own = kinds.eq(kind)
        if own.any():
            each.plot(step[own], regret[own], marker, label=label, **style)
    if (own := kinds.isna()).any():
        style = {"color": VERMILION, "alpha": 0.7, "ms": 4.0, "label": "an item with itself"}
        each.plot(step[own], regret[own], "x", **style)
    mean = regret.rolling(_WINDOW, min_periods=1).mean()
    each.plot(step, mean, color=BLUE, lw=1.5, label=f"mean of the last {_WINDOW}")
    each.axhline(history.random_regret, color=GREY, ls="--", lw=1.2, label="random play")
    each.set_ylim(-0.01, 0.51)
    each.set_ylabel(_METRICS[_EACH][1])
    heading(each, f"Regret of each {'duel' if asked == 'duels' else 'query'}")
    legend(each, loc="lower left")

    sums = [0.0, *table["cumulative_regret"]]
    total.plot([0, *step], sums, color=BLUE, lw=1.5, label=history.strategy)
    _plot_random(total, last, 0.0, history.random_regret * last)
    total.set_ylim(bottom=0.0)
    _name(total, "cumulative_regret")
    legend(total, loc="upper left")

    known = table[table["recommendation_regret"].notna()]
    step, regret = known["step"], utility_scale * known["recommendation_regret"]
    recommendation.step(step, regret, where="post", color=GREEN, lw=1.5)
    if len(known):
        end = step.iloc[-1:], regret.iloc[-1:]
        recommendation.plot(*end, "o", color=GREEN, ms=5.0, clip_on=False)
        # A curve at zero does not lie on the axis.
        top = max(regret.max(), 0.1 * utility_scale)
        recommendation.set_ylim(-0.04 * top, 1.08 * top)
    _name(recommendation, "recommendation_regret")
    recommendation.set_ylabel(f"recommendation regret\n({utility_unit})")
    return figure


def plot_experiment(
    table: pd.DataFrame,
    *,
    metrics: Sequence[str] = ("dueling_regret", "cumulative_regret", "recommendation_regret"),
    title: str | None = None,
    random_regret: float | None = None,
    window: int = _WINDOW,
) -> Figure:
    r"""The mean of every strategy over its seeds, with a band of one standard error.

    Args:
        table: What :func:`~botorch_pref.runner.run_experiment` returns. Of runs that end earlier
            than others, as budgets may, the last recommendation stands; sums are drawn as far
            as all runs of a strategy go.
        metrics: A panel each: regrets of duels or of recommendations, or their sums.
        title: The title; the problem's name if omitted.
        random_regret: The mean regret of :func:`~botorch_pref.runner.random_play`, drawn beside.
        window: Of how many duels the regret of each duel is averaged.

    Raises:
        UnsupportedError: If the table is empty or of several problems, there is no metric or
            one cannot be drawn, or ``window`` is below 1.
    """
    _check_experiment(table, metrics, window)
    last = int(table["step"].max())
    title = title or str(table["problem"].iloc[0])
    figure, panels = _panels(len(metrics), last, title, 3.3, _asked(table))
    for axes, name in zip(panels, metrics, strict=True):
        _plot_metric(axes, table, name, window)
        # A curve at zero does not lie on the axis, and random play, which may be far above all
        # strategies, does not set the scale.
        top = axes.get_ylim()[1]
        axes.set_ylim(-0.03 * top, 1.03 * top)
        if random_regret is not None and name in (_EACH, "cumulative_regret"):
            start, end = (random_regret,) * 2 if name == _EACH else (0.0, random_regret * last)
            _plot_random(axes, last, start, end)
    seeds = table.groupby("strategy")["seed"].nunique()
    fewest, most = seeds.min(), seeds.max()
    number = str(most) if fewest == most else f"{fewest} to {most}"
    bands = "one seed" if most == 1 else f"mean ± standard error of {number} seeds"
    fullest = max(panels, key=lambda axes: len(axes.get_legend_handles_labels()[1]))
    legend_below(figure, fullest, 2 * len(panels), bands)
    return figure


def _check_experiment(table: pd.DataFrame, metrics: Sequence[str], window: int) -> None:
    known = [name for name in _METRICS if name in table]
    if not metrics or not {*metrics} <= {*known}:
        raise UnsupportedError(f"metrics must be of {known}, got {[*metrics]}.")
    if not len(table):
        raise UnsupportedError("table has no rows.")
    if window < 1:
        raise UnsupportedError(f"window must be at least 1, got {window!r}.")
    problems = table["problem"].unique()
    if len(problems) > 1:
        raise UnsupportedError(f"table must be of one problem, got {', '.join(problems)}.")


def _asked(table: pd.DataFrame) -> str:
    """The label of what was asked: labels and values may be among it."""
    return "duels" if "kind" not in table or table["kind"].eq("duel").all() else "queries"


def _panels(
    number: int, last: int, title: str, height: float, asked: str
) -> tuple[Figure, list[Axes]]:
    """A figure of panels in a row, over all that was asked up to the last."""
    figure, panels = new_panels(1, number, height=height, title=title)
    for axes in panels:
        axes.set_xlabel(asked)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        beside = _BESIDE * max(last, 2)  # so that marks at the ends are seen whole
        axes.set_xlim(-beside, max(last, 2) + beside)
    return figure, panels


def _name(axes: Axes, metric: str, further: str = "") -> None:
    title, label = _METRICS[metric]
    heading(axes, title + further)
    axes.set_ylabel(label)


def _plot_random(axes: Axes, last: int, start: float, end: float) -> None:
    axes.plot([0, last], [start, end], color=GREY, ls="--", lw=1.2, label="random play")


def _plot_metric(axes: Axes, table: pd.DataFrame, name: str, window: int) -> None:
    """Draw the strategies' means and standard errors of one metric."""
    _name(axes, name, f", mean of the last {window}" if name == _EACH and window > 1 else "")
    for number, strategy in enumerate(table["strategy"].unique()):
        rows = table[table["strategy"] == strategy]
        runs = rows.pivot(index="step", columns="seed", values=name).dropna(how="all")
        if not len(runs):
            continue
        stands = name != _EACH and name not in _SUMS
        if stands:  # a recommendation stands until the next one
            runs = runs.ffill()
        elif name == _EACH:
            runs = runs.rolling(window, min_periods=1).mean()
        else:  # sums have a mean as far as all runs go
            runs = runs.loc[: runs.apply(pd.Series.last_valid_index).min()]
            runs = pd.concat([pd.DataFrame(0.0, index=[0], columns=runs.columns), runs])
        mean, error = runs.mean(axis=1), runs.sem(axis=1).fillna(0.0)
        colour = COLOURS[number % len(COLOURS)]
        style = DASHES[number % len(DASHES)]
        curve = axes.plot(mean.index, mean, color=colour, ls=style, lw=1.5, label=strategy)[0]
        curve.set_drawstyle("steps-post" if stands else "default")
        curve.set(marker=MARKERS[number % len(MARKERS)], ms=3.5, mew=0)
        gap = -(-len(mean) // _NUM_MARKERS)
        curve.set_markevery((number * gap // 4 % gap, gap))  # not all at one place
        step: Literal["post"] | None = "post" if stands else None
        band = mean - error, mean + error
        axes.fill_between(mean.index, *band, color=colour, alpha=0.18, lw=0, step=step)
