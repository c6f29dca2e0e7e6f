"""The maximisers against anchors, of a draw and of an upper confidence bound."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from experiments.claims import judged
from experiments.pf_ts.anchor import (
    NUM_ANCHORS,
    NUM_ITEMS,
    SETTINGS,
    AnchorExperiment,
    Setting,
    _duelled,
)
from tests._reference import finite
from tests._reference.kernels import gram

SMALL = replace(AnchorExperiment(), seeds=3, horizon=15)


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return SMALL.play(1, None, False)


def test_the_table(table: pd.DataFrame) -> None:
    assert len(table) == 2 * len(SETTINGS) * 3 * NUM_ANCHORS
    assert table["choice"].between(0.0, 5.0).all()
    one = table[(table["strategy"] == "UCB, long") & (table["seed"] == 1)]
    assert one["anchor"].tolist() == pytest.approx(np.linspace(0.0, 5.0, NUM_ANCHORS).tolist())


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_the_bound_by_brute_force(setting: Setting, table: pd.DataFrame) -> None:
    grid, anchors = np.linspace(0.0, 5.0, NUM_ITEMS), np.linspace(0.0, 5.0, NUM_ANCHORS)
    items = np.concatenate([grid, anchors])
    engine = _duelled(setting, torch.as_tensor(items), seed=2, num_pairs=15)
    pairs = engine.pairs.numpy().repeat(engine.count.long().numpy(), axis=0)
    answers = (engine.wins / engine.count).numpy().repeat(engine.count.long().numpy())
    assert len(pairs) == 15
    assert pairs.max() < NUM_ITEMS
    kernel = gram("matern52", items[:, None], items[:, None], setting.lengthscale)
    theta = finite.coefficients(kernel, pairs, answers, 0.05, setting.regularizer)
    mean = finite.utilities(kernel, pairs, theta)
    incidence = np.eye(len(items))[pairs[:, 0]] - np.eye(len(items))[pairs[:, 1]]
    cross = incidence @ kernel
    inner = cross @ incidence.T + 0.05 * np.eye(len(pairs))
    covariance = kernel - cross.T @ np.linalg.solve(inner, cross)
    own = np.diag(covariance)
    deviation = np.sqrt(np.maximum(own[:, None] + own - 2 * covariance, 0.0))
    bound = mean[:, None] - mean + deviation
    best = bound[:NUM_ITEMS, NUM_ITEMS:].max(axis=0)
    rows = table[(table["strategy"] == f"UCB, {setting.name}") & (table["seed"] == 2)]
    chosen = np.searchsorted(grid, rows["choice"].to_numpy() - 1e-9)
    assert bound[chosen, np.arange(NUM_ITEMS, len(items))] == pytest.approx(best, abs=1e-5)


def test_the_utilities_are_scaled_where_they_are_said_to_be() -> None:
    # Ackley's own differences are so large on [0, 5] that nearly every better item wins.
    items = torch.linspace(0.0, 5.0, NUM_ITEMS, dtype=torch.double)
    upsets = []
    for setting in SETTINGS:
        engine = _duelled(setting, items, seed=0, num_pairs=300)
        first_is_nearer = engine.pairs[:, 0] < engine.pairs[:, 1]  # to the maximum at 0
        losses = torch.where(first_is_nearer, engine.count - engine.wins, engine.wins)
        upsets.append(float(losses.sum()))
    assert upsets[0] < 0.75 * upsets[1]


def test_measures_and_claims() -> None:
    rows = {"seed": 0, "step": range(1, 26), "anchor": 0.0}
    tables = [
        pd.DataFrame(rows | {"strategy": f"{kind}, {setting.name}", "seed": seed, "choice": choice})
        for setting in SETTINGS
        for seed in (0, 1)
        for kind, choice in (
            ("draw", [1.0] * 25),
            ("UCB", [1.0] * 20 + [2.0] * (5 - seed) + [3.0] * seed),
        )
    ]
    measures = SMALL.measures(pd.concat(tables))
    found = measures.set_index(["strategy", "seed"])["maximisers"]
    assert found["draw, short", 0] == 1
    assert [found["UCB, long", seed] for seed in (0, 1)] == [2, 3]
    assert measures.groupby("strategy")["varies"].mean().to_dict() == {
        "draw, short": 0.0,
        "UCB, short": 1.0,
        "draw, long": 0.0,
        "UCB, long": 1.0,
    }
    flat, varies = SMALL.claims
    assert judged(measures, flat)[0] == "seen"
    assert judged(measures, varies)[0] == "seen"
    moving = measures.assign(maximisers=measures["maximisers"] + 1)
    assert judged(moving, flat)[0] == "opposite seen"


def test_a_draw_never_varies(table: pd.DataFrame) -> None:
    measures = SMALL.measures(table)
    draws = measures[measures["strategy"].str.startswith("draw")]
    assert (draws["maximisers"] == 1).all()
    # What is drawn differs from seed to seed.
    assert table[table["strategy"] == "draw, short"]["choice"].nunique() > 1


def test_the_figure(table: pd.DataFrame) -> None:
    figure = SMALL.figure(table)
    for axes, setting in zip(figure.axes, SETTINGS, strict=True):
        bound, draw = axes.get_lines()
        rows = table[(table["strategy"] == f"UCB, {setting.name}") & (table["seed"] == 0)]
        assert [*bound.get_ydata()] == rows["choice"].tolist()
        assert len({*draw.get_ydata()}) == 1
    legend = figure.axes[-1].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == [
        "upper confidence bound",
        "one Thompson draw",
    ]
