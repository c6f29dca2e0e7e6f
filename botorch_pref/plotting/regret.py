r"""Regrets of simulations, of one run or of many."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.plotting.drawing import (
    COLOURS,
    DASHES,
    GREEN,
    GREY,
    MARKERS,
    VERMILION,
    Axis,
    Backend,
    Band,
    Curve,
    Drawing,
    Mark,
    Panel,
    Points,
    Shape,
    draw,
    number_text,
)
from botorch_pref.runner.simulation import History

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


# A query's items, and the recommended one, in a history.
_ITEM = re.compile(r"(?P<which>first|second|item\d+|recommended)_(?P<name>x\d+)")


def plot_regret(
    history: History,
    *,
    title: str | None = None,
    utility_unit: str = "units of utility",
    utility_scale: float = 1.0,
    backend: Backend = "matplotlib",
) -> Figure | Any:
    r"""The regret of each query, its sum, and the regret of the recommendation.

    Args:
        history: What happened; at least one query.
        title: The title; the problem's and the strategy's name if omitted.
        utility_unit: The unit of the recommendation's axis.
        utility_scale: How many of those units make one unit of utility.
        backend: ``"plotly"`` for an interactive figure, whose texts tell what was asked.

    Returns:
        A matplotlib ``Figure``, or a ``plotly.graph_objects.Figure``.
    """
    table, last = history.table, history.num_duels
    asked, texts = _asked(table), _query_texts(table)
    step, regret = table["step"], table["dueling_regret"]
    kinds = table.get("kind", pd.Series("duel", step.index)).mask(table["identical"].astype(bool))
    each: list[Mark] = []
    for kind, (marker, label) in _KINDS.items():
        if (own := kinds.eq(kind)).any():
            style: dict[str, Any] = {"marker": marker, "name": label, "alpha": 0.4, "size": 3.5}
            each.append(Points(**_columns(step[own], regret[own], texts), **style))
    if (own := kinds.isna()).any():
        style = {"marker": "x", "name": "an item with itself", "alpha": 0.7, "colour": VERMILION}
        each.append(Points(**_columns(step[own], regret[own], texts), **style))
    mean = regret.rolling(_WINDOW, min_periods=1).mean()
    each.append(Curve(**_columns(step, mean), name=f"mean of the last {_WINDOW}"))
    each.append(_random(last, history.random_regret, history.random_regret))

    sums = pd.concat([pd.Series([0.0]), table["cumulative_regret"]])
    steps = pd.concat([pd.Series([0]), step])
    hover = [f"{number_text(y)} after {x} {asked}" for x, y in zip(steps, sums, strict=True)]
    total = Curve(**_columns(steps, sums), hover=hover)

    known = table[table["recommendation_regret"].notna()]
    step, regret = known["step"], utility_scale * known["recommendation_regret"]
    texts = _query_texts(known, ("recommended",))
    style = {"colour": GREEN, "shape": "post", "name": "recommended item"}
    curve = Curve(**_columns(step, regret, texts), **style)
    recommended: list[Mark] = [curve]
    limits: tuple[float | None, float | None] = (None, None)
    if len(known):
        end = _columns(step.iloc[-1:], regret.iloc[-1:], texts)
        recommended.append(Points(**end, colour=GREEN, size=5.0, name="recommended at the end"))
        # A curve at zero does not lie on the axis.
        top = max(regret.max(), 0.1 * utility_scale)
        limits = -0.04 * top, 1.08 * top
    panels = [
        Panel(
            marks=each,
            x=_steps(last, asked),
            y=Axis(label=_METRICS[_EACH][1], limits=(-0.01, 0.51)),
            title=f"Regret of each {'duel' if asked == 'duels' else 'query'}",
        ),
        Panel(
            marks=[total, _random(last, 0.0, history.random_regret * last)],
            x=_steps(last, asked),
            y=Axis(label=_METRICS[_SUMS[0]][1], limits=(0.0, None)),
            title=_METRICS[_SUMS[0]][0],
        ),
        Panel(
            marks=recommended,
            x=_steps(last, asked),
            y=Axis(label=f"recommendation regret\n({utility_unit})", limits=limits),
            title=_METRICS["recommendation_regret"][0],
        ),
    ]
    title = title or f"{history.problem}, {history.strategy}"
    return draw(Drawing(panels=panels, columns=3, height=3.1, title=title), backend)


def plot_experiment(
    table: pd.DataFrame,
    *,
    metrics: Sequence[str] = ("dueling_regret", "cumulative_regret", "recommendation_regret"),
    title: str | None = None,
    random_regret: float | None = None,
    window: int = _WINDOW,
    backend: Backend = "matplotlib",
) -> Figure | Any:
    r"""The mean of every strategy over its seeds, with a band of one standard error.

    Args:
        table: What :func:`~botorch_pref.runner.run_experiment` returns. Of runs that end earlier
            than others, as budgets may, the last recommendation stands; sums are drawn as far
            as all runs of a strategy go.
        metrics: A panel each: regrets of duels or of recommendations, or their sums.
        title: The title; the problem's name if omitted.
        random_regret: The mean regret of :func:`~botorch_pref.runner.random_play`, drawn beside.
        window: Of how many duels the regret of each duel is averaged.
        backend: ``"plotly"`` for an interactive figure.

    Returns:
        A matplotlib ``Figure``, or a ``plotly.graph_objects.Figure``.

    Raises:
        UnsupportedError: If the table is empty or of several problems, there is no metric or
            one cannot be drawn, or ``window`` is below 1.
    """
    _check_experiment(table, metrics, window)
    last = int(table["step"].max())
    panels = []
    for name in metrics:
        heading, label = _METRICS[name]
        if name == _EACH and window > 1:
            heading += f", mean of the last {window}"
        marks = _means(table, name, window)
        # A curve at zero does not lie on the axis, and random play, which may be far above all
        # strategies, does not set the scale.
        top = max((float(mark.upper.max()) for mark in marks if isinstance(mark, Band)), default=1)
        if random_regret is not None and name in (_EACH, "cumulative_regret"):
            ends = (random_regret,) * 2 if name == _EACH else (0.0, random_regret * last)
            marks.append(_random(last, *ends))
        y = Axis(label=label, limits=(-0.03 * top, 1.08 * top) if top > 0.0 else (None, None))
        panels.append(Panel(marks=marks, x=_steps(last, _asked(table)), y=y, title=heading))
    seeds = table.groupby("strategy")["seed"].nunique()
    fewest, most = seeds.min(), seeds.max()
    number = str(most) if fewest == most else f"{fewest} to {most}"
    drawing = Drawing(
        panels=panels,
        columns=len(panels),
        height=3.3,
        title=title or str(table["problem"].iloc[0]),
        legend_title="one seed" if most == 1 else f"mean ± standard error of {number} seeds",
    )
    return draw(drawing, backend)


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


def _steps(last: int, asked: str) -> Axis:
    """The abscissa of all that was asked up to the last."""
    beside = _BESIDE * max(last, 2)
    return Axis(label=asked, limits=(-beside, max(last, 2) + beside), whole=True)


def _columns(
    x: pd.Series[Any], y: pd.Series[Any], texts: pd.Series[Any] | None = None
) -> dict[str, Any]:
    """Columns of a table as the numbers of a mark, with the texts of their rows."""
    found: dict[str, Any] = {"x": x.to_numpy(dtype=float), "y": y.to_numpy(dtype=float)}
    return found if texts is None else {**found, "hover": texts[x.index].tolist()}


def _random(last: int, start: float, end: float) -> Curve:
    x, y = (pd.Series(ends, dtype=float) for ends in ((0, last), (start, end)))
    return Curve(**_columns(x, y), name="random play", colour=GREY, dash=1)


def _query_texts(table: pd.DataFrame, which: Sequence[str] | None = None) -> pd.Series[Any]:
    """What each row of a history asked, or only some of its items, and what came of it."""
    columns = {str(name): _ITEM.fullmatch(str(name)) for name in table}
    shown = ("answer", "dueling_regret") if which is None else ("recommendation_regret",)
    texts = []
    for _, row in table.iterrows():
        items: dict[str, list[str]] = {}
        for name, found in columns.items():
            if found is None:
                continue
            item = found["which"]
            is_shown = item != "recommended" if which is None else item in which
            if is_shown and pd.notna(row[name]):
                items.setdefault(item, []).append(f"{found['name']} = {number_text(row[name])}")
        kind = "recommended after" if which else row.get("kind", "duel")
        lines = [f"{kind} {row['step']}"]
        lines += [f"{item}: {', '.join(values)}" for item, values in items.items()]
        numbers = {name: row[name] for name in shown if name in table and pd.notna(row[name])}
        lines += [f"{name.replace('_', ' ')}: {number_text(x)}" for name, x in numbers.items()]
        texts.append("\n".join(lines))
    return pd.Series(texts, table.index, dtype=object)


def _means(table: pd.DataFrame, name: str, window: int) -> list[Mark]:
    """The strategies' means and standard errors of one metric."""
    marks: list[Mark] = []
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
        x = runs.index.to_numpy(dtype=float)
        y, half = mean.to_numpy(dtype=float), error.to_numpy(dtype=float)
        shape: Shape = "post" if stands else "linear"
        colour = COLOURS[number % len(COLOURS)]
        hover = [
            f"{strategy}\n{step:.0f}: {number_text(a)} ± {number_text(b)}"
            for step, a, b in zip(x, y, half, strict=True)
        ]
        style: dict[str, Any] = {"x": x, "colour": colour, "shape": shape}
        dash, marker = number % len(DASHES), MARKERS[number % len(MARKERS)]
        marks.append(Curve(y=y, name=str(strategy), hover=hover, dash=dash, marker=marker, **style))
        marks.append(Band(lower=y - half, upper=y + half, alpha=0.18, **style))
    return marks
