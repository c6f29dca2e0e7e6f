"""Both backends draw the same numbers, and plotly's figures tell what items are."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
import torch
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.models import PairwisePredictions, PreferenceGP
from botorch_pref.plotting import (
    plot_calibration,
    plot_experiment,
    plot_ranking,
    plot_regret,
    plot_utility,
    plot_win_probabilities,
    save_figure,
)
from botorch_pref.runner import History
from botorch_pref.space import SearchSpace
from botorch_pref.study import Dimension
from tests.models.common import make_duels, make_kernel

Panel = dict[str, list[np.ndarray]]


def drawn_by_matplotlib(figure: Figure) -> list[Panel]:
    """The numbers of each panel: of points and lines, of ends of bands, intervals and duels."""
    panels = []
    for axes in figure.axes:
        if not axes.axison or axes.get_label() == "<colorbar>":
            continue
        found: Panel = {"points": [], "ends": [], "grids": []}
        bars = [one for one in axes.containers if isinstance(one, ErrorbarContainer)]
        caps = [cap for one in bars for cap in one.lines[1]]
        found["points"] = [
            np.array(line.get_xydata(), float) for line in axes.lines if line not in caps
        ]
        for one in axes.collections:
            if isinstance(one, PolyCollection):
                vertices = one.get_paths()[0].vertices
                found["ends"] += [vertices.min(axis=0), vertices.max(axis=0)]
            elif isinstance(one, LineCollection):
                segments = np.array(one.get_segments())
                found["ends"] += [segments.min(axis=(0, 1)), segments.max(axis=(0, 1))]
        found["grids"] = [np.ma.filled(one.get_array(), np.nan) for one in axes.images]
        panels.append(found)
    return panels


def drawn_by_plotly(figure: go.Figure) -> list[Panel]:
    """Likewise."""
    panels: dict[str, Panel] = {}
    lower = np.empty(0)
    for trace in figure.data:
        found = panels.setdefault(trace.xaxis or "x", {"points": [], "ends": [], "grids": []})
        if trace.type in ("contour", "heatmap"):
            found["grids"].append(np.array(trace.z, float))
            continue
        x, y = (np.array(one, float) for one in (trace.x, trace.y))
        if trace.type == "bar":
            base = np.array(trace.base, float)
            corners = np.stack([[*x, *x], [*base, *(base + y)]], axis=-1)
        elif trace.line.width == 0 and trace.fill is None:
            lower = y
            continue
        elif trace.fill == "tonexty":
            corners = np.stack([[*x, *x], [*lower, *y]], axis=-1)
        elif trace.name == "a duel" and trace.mode == "lines":
            corners = np.stack([x, y], axis=-1)
        else:
            found["points"].append(np.stack([x, y], axis=-1))
            error = trace.error_x if trace.error_x.array is not None else trace.error_y
            if error.array is None:
                continue
            along = 0 if error is trace.error_x else 1
            corners = np.concatenate([found["points"][-1]] * 2)
            corners[:, along] += np.concatenate([-np.array(error.arrayminus), error.array])
        found["ends"] += [np.nanmin(corners, axis=0), np.nanmax(corners, axis=0)]
    return [*panels.values()]


def history() -> History:
    table = pd.DataFrame(
        {
            "step": [1, 2, 3, 4],
            "first_x1": [0.25, 0.5, 0.75, 1.0],
            "second_x1": [0.0, 0.125, 0.75, 0.5],
            "recommended_x1": [None, 0.375, None, 0.625],
            "identical": [False, False, True, False],
            "answer": [1.0, 0.0, 0.5, 1.0],
            "dueling_regret": [0.4, 0.2, 0.3, 0.0],
            "cumulative_regret": [0.4, 0.6, 0.9, 0.9],
            "recommendation_regret": [None, 1.5, None, 0.5],
        }
    )
    return History("catalyst", "pf-ts", 4, 0.45, table)


def experiment() -> pd.DataFrame:
    rows = [(s, seed, t) for s in "ab" for seed in range(3) for t in range(1, 6)]
    table = pd.DataFrame(rows, columns=["strategy", "seed", "step"]).assign(problem="ackley")
    regret = 1.0 / (table["step"] + table["seed"] + (table["strategy"] == "a"))
    sums = regret.groupby([table["strategy"], table["seed"]]).cumsum()
    columns = {"dueling_regret": 0.5 * regret, "cumulative_regret": 0.5 * sums}
    return table.assign(**columns, recommendation_regret=regret)


def ranking() -> pd.DataFrame:
    table = pd.DataFrame({"item": ["<b>Ann", "Bob", "Cy"], "rank": [1, 2, 2]})
    utility = pd.DataFrame({"utility": [1.0, 0.0, -1.0], "lower": [0.5, -1.0, -1.5]})
    upper = pd.DataFrame({"upper": [2.0, 0.5, 0.0], "rank_from": [1, 1, 2], "rank_to": [2, 3, 3]})
    return pd.concat([table, utility, upper], axis=1)


def predictions() -> PairwisePredictions:
    chance, wins, count = torch.tensor([[0.55, 0.45, 0.92], [1, 0, 2], [1, 3, 2]]).double()
    return PairwisePredictions(chance, wins, count)


ENDS = torch.tensor([[0.0, 1.0, 1e-3, 0.0], [80.0, 400.0, 10.0, 2.0]], dtype=torch.float64)
SPACE = SearchSpace(ENDS, integer=[1], log=[2], categorical=[3])
ROAST = ["milk (ml)", "shots", "grind", Dimension("roast", levels=("light", "medium", "dark"))]


def model_of(dim: int) -> PreferenceGP:
    X, comparisons = make_duels(8, 12, dim)
    return PreferenceGP(X, comparisons, covar_module=make_kernel(dim))


def mixed_model() -> PreferenceGP:
    return PreferenceGP(
        SPACE.sample(8, seed=0),
        make_duels(8, 12, 1)[1],
        covar_module=make_kernel(SPACE.num_features),
        input_transform=SPACE.input_transform(),
    )


def box(dim: int) -> torch.Tensor:
    return torch.tensor([[0.0], [1.0]], dtype=torch.float64).expand(2, dim)


ITEMS = make_duels(8, 12, 2)[0]
PLOTS: dict[str, Callable[..., Any]] = {
    "line": lambda **options: plot_utility(model_of(1), box(1), **options),
    "maps": lambda **options: plot_utility(model_of(2), box(2), **options),
    "slices": lambda **options: plot_utility(mixed_model(), SPACE, names=ROAST, **options),
    "matrix": lambda **options: plot_win_probabilities(
        model_of(2), make_duels(8, 12, 2)[0], **options
    ),
    "ranking": lambda **options: plot_ranking(ranking(), **options),
    "calibration": lambda **options: plot_calibration(predictions(), **options),
    "regret": lambda **options: plot_regret(history(), **options),
    "experiment": lambda **options: plot_experiment(experiment(), random_regret=0.4, **options),
}


@pytest.mark.parametrize("name", PLOTS)
def test_the_same_numbers(name: str) -> None:
    figure, interactive = PLOTS[name](), PLOTS[name](backend="plotly")
    assert isinstance(interactive, go.Figure)
    theirs, ours = drawn_by_matplotlib(figure), drawn_by_plotly(interactive)
    assert len(theirs) == len(ours) > 0
    number = 0
    for one, other in zip(theirs, ours, strict=True):
        for kind, expected in one.items():
            assert len(expected) == len(other[kind])
            number += len(expected)
            for a, b in zip(expected, other[kind], strict=True):
                np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-12)
    assert number > 0
    # Every curve, point and cell that is pointed at tells what it is.
    shown = [trace for trace in interactive.data if trace.hoverinfo == "text"]
    for trace in shown:
        assert len(trace.hovertext) == len(
            trace.z if trace.type in ("contour", "heatmap") else trace.x
        )
    assert shown


def test_legends_and_labels() -> None:
    figure, interactive = PLOTS["slices"](), PLOTS["slices"](backend="plotly")
    (legend,) = figure.legends
    names = [trace.name for trace in interactive.data if trace.showlegend]
    assert names == [text.get_text() for text in legend.get_texts()]
    axes = [interactive.layout[f"xaxis{number}"] for number in ("", 2, 3, 4)]
    assert [one.title.text for one in axes] == [one.get_xlabel() for one in figure.axes[:4]]
    assert [one.type for one in axes] == [None, None, "log", None]
    assert axes[3].ticktext == ("light", "medium", "dark")
    assert [text.get_text() for text in figure.axes[3].get_xticklabels()] == [*axes[3].ticktext]


def hovers(figure: go.Figure, name: str) -> tuple[str, ...]:
    return next(trace.hovertext for trace in figure.data if trace.name == name)


def test_an_item_is_told() -> None:
    model = mixed_model()
    figure = plot_utility(model, SPACE, names=ROAST, backend="plotly")
    milk, shots, _, roast = model.items[0].tolist()
    text = hovers(figure, "asked items")[0]
    assert text.startswith(f"milk (ml): {milk:.2f}<br>shots: {shots:.0f}<br>grind: ")
    assert f"<br>roast: {ROAST[3].levels[int(roast)]}<br>mean: " in text
    matrix = plot_win_probabilities(model_of(2), ITEMS, names=["a", "b"], backend="plotly").data[0]
    best = ITEMS[model_of(2).posterior(ITEMS).mean.argmax()].tolist()
    a, b = (f"{x:.4g}" for x in best)
    assert f"a: {a}<br>b: {b}" in matrix.hovertext[0][1]
    assert figure.layout.yaxis.title.text.replace("<br>", " ").startswith("utility minus that")
    regret = PLOTS["regret"](backend="plotly")
    expected = "duel 2<br>first: x1 = 0.5<br>second: x1 = 0.125<br>answer: 0<br>dueling regret: 0.2"
    assert hovers(regret, "a duel")[1] == expected
    recommended = next(trace for trace in regret.data if trace.xaxis == "x3").hovertext
    assert "recommended: x1 = 0.625" in recommended[-1]
    # What stands in a table is text, not HTML.
    assert PLOTS["ranking"](backend="plotly").layout.yaxis.ticktext[0] == "&lt;b&gt;Ann"


@pytest.mark.parametrize(("dim", "told"), [(16, "A<br>x1: "), (17, "A<br><br>against ")])
def test_of_many_columns_a_label_says_enough(dim: int, told: str) -> None:
    X = ITEMS[:2].repeat(1, dim)[:, :dim]
    model = PreferenceGP(X, torch.tensor([[0, 1]]))
    matrix = plot_win_probabilities(model, X, labels=["A", "B"], backend="plotly").data[0]
    assert f"<br><br>{told}" in matrix.hovertext[0][1]


def test_items_are_named_by_their_values() -> None:
    names = [ROAST[0], Dimension("roast", levels=("light", "dark"))]
    X = torch.stack([ITEMS[:, 0], ITEMS[:, 1].round()], dim=-1)
    axes = plot_win_probabilities(model_of(2), X, names=names).axes[0]
    labels = [text.get_text().replace("\n", " ") for text in axes.get_yticklabels()]
    values = X[model_of(2).posterior(X).mean.flatten().argsort(descending=True, stable=True)]
    for number, (label, (milk, roast)) in enumerate(zip(labels, values.tolist(), strict=True), 1):
        expected = f"milk (ml): {milk:.4g}, roast: {('light', 'dark')[int(roast)]}"
        assert label == f"{number}. {expected}"


def test_a_page_is_saved_whole(tmp_path: Path) -> None:
    figure = PLOTS["ranking"](backend="plotly")
    page = save_figure(figure, tmp_path / "figure.html").read_text(encoding="utf-8")
    assert "<script src=" not in page  # it has its script itself
    assert "Plotly.newPlot" in page
    assert len(page) > 1_000_000
    with pytest.raises(ValueError, match=r"saved as \.html, not as '\.png'"):
        save_figure(figure, tmp_path / "figure.png")
    assert [file.name for file in tmp_path.iterdir()] == ["figure.html"]


def test_without_plotly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    monkeypatch.delitem(sys.modules, "botorch_pref.plotting.with_plotly", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'botorch-pref\[plotly\]'"):
        PLOTS["ranking"](backend="plotly")
    assert isinstance(PLOTS["ranking"](), Figure)


def test_what_cannot_be_drawn() -> None:
    with pytest.raises(UnsupportedError, match="backend must be 'matplotlib' or 'plotly', got 'b"):
        PLOTS["ranking"](backend="bokeh")
    wrong = [*ROAST[:3], Dimension("roast", levels=("light", "dark"))]
    with pytest.raises(UnsupportedError, match=r"names\[3\] has the levels .*, the space 3"):
        plot_utility(mixed_model(), SPACE, names=wrong)
