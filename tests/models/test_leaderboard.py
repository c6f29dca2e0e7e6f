"""Items without features: Bradley and Terry's model as a limit, intervals, ties, annotators."""

from __future__ import annotations

from typing import Any

import choix
import numpy as np
import pandas as pd
import pytest
import torch
from botorch.models import SingleTaskGP
from gpytorch.kernels import ScaleKernel
from scipy.special import expit

from botorch_pref.data.tables import named_duels
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.kernels import IndependentKernel
from botorch_pref.models import FullyBayesianPreferenceGP, Leaderboard, PreferenceGP, rank_items


def played(utilities: list[float], number: int, reliability: Any = None) -> pd.DataFrame:
    """Rows ``first,second,answer,annotator`` of simulated duels."""
    generator = np.random.default_rng(number)
    reliability = reliability or {"ann": 1.0}
    rows = []
    for row in range(number):
        i, j = generator.choice(len(utilities), 2, replace=False)
        who = [*reliability][row % len(reliability)]
        wins = generator.random() < expit(reliability[who] * (utilities[i] - utilities[j]))
        rows.append((f"item {i}", f"item {j}", float(wins), who))
    return pd.DataFrame(rows, columns=["first", "second", "answer", "annotator"])


def won(duels: pd.DataFrame) -> pd.DataFrame:
    """The same as ``winner,loser``."""
    first = duels["answer"].eq(1.0)
    columns = {
        "winner": duels["first"].where(first, duels["second"]),
        "loser": duels["second"].where(first, duels["first"]),
    }
    return pd.DataFrame({**columns, "annotator": duels["annotator"]})


def test_a_wide_prior_is_bradley_and_terry() -> None:
    """The utilities are those of choix; the covariance is the inverse of Fisher's information."""
    data = named_duels(played([0.0, 0.5, 1.0, -1.0, -0.2], 300)).data.pooled()
    kernel = ScaleKernel(IndependentKernel())
    kernel.outputscale = 1e4
    model = PreferenceGP(data.datapoints, data, covar_module=kernel)
    posterior = model.posterior(data.datapoints)
    mean = posterior.mean.squeeze(-1)
    expected = torch.from_numpy(choix.opt_pairwise(5, data.comparisons.tolist(), tol=1e-10))
    expected = expected - expected.mean()
    torch.testing.assert_close(mean - mean.mean(), expected, rtol=0, atol=1e-4)

    chance = torch.sigmoid(expected.unsqueeze(-1) - expected)
    met = torch.zeros(5, 5, dtype=torch.double)
    for i, j in data.comparisons.tolist():
        met[i, j] += 1.0
        met[j, i] += 1.0
    weight = met * chance * (1.0 - chance)
    fisher = torch.linalg.pinv(weight.sum(-1).diag() - weight)
    table = rank_items(model, data.datapoints).sort_index()
    half = torch.tensor((table["upper"] - table["lower"]).to_numpy()) / 2.0
    torch.testing.assert_close(half, 1.959964 * fisher.diagonal().sqrt(), rtol=1e-3, atol=0)


def test_items_are_ranked_with_ties() -> None:
    """Two that are alike share a rank; one that lost all is last."""
    rows = [("a", "b")] * 20 + [("b", "a")] * 20 + [("a", "c")] * 20 + [("b", "c")] * 20
    table = Leaderboard(pd.DataFrame(rows, columns=["winner", "loser"])).table
    assert {*table["item"][:2]} == {"a", "b"}
    assert table["item"].iloc[2] == "c"
    assert table["rank"].tolist() == [1, 1, 3]
    assert table["rank_from"].tolist() == [1, 1, 3]
    assert table["rank_to"].tolist() == [2, 2, 3]
    assert table["duels"].tolist() == [60, 60, 40]
    assert (table["lower"] < table["utility"]).all()
    assert table["utility"].sum() == pytest.approx(0.0, abs=1e-9)


@pytest.mark.slow
def test_intervals_cover_the_truth() -> None:
    """Of 95 %, over 40 leaderboards of 8 items whose utilities are drawn from a normal."""
    inside, ranks = [], []
    for seed in range(40):
        utilities = np.random.default_rng(seed).normal(0.0, 1.5, 8)
        duels = played([*utilities], 150 + seed).drop(columns="annotator")
        table = Leaderboard(duels).table.set_index("item")
        utility = {f"item {i}": value - utilities.mean() for i, value in enumerate(utilities)}
        place = {f"item {i}": int((utilities >= value).sum()) for i, value in enumerate(utilities)}
        for name, row in table.iterrows():
            inside.append(row["lower"] <= utility[str(name)] <= row["upper"])
            ranks.append(row["rank_from"] <= place[str(name)] <= row["rank_to"])
    assert 0.91 < np.mean(inside) < 0.99
    assert np.mean(ranks) > 0.92


def test_annotators_are_told_apart() -> None:
    duels = played([2.0, 1.0, 0.0, -1.0], 300, {"good": 2.0, "poor": 0.2})
    board = Leaderboard(duels)
    assert board.items == [*dict.fromkeys(duels[["first", "second"]].to_numpy().flatten())]
    assert board.annotators is not None
    assert board.annotators.index.tolist() == ["good", "poor", "typical"]
    assert board.annotators["reliability"]["good"] > 2.0 * board.annotators["reliability"]["poor"]
    assert "offset" in board.annotators
    # That winners stand first is no liking of annotators for what is shown first.
    other = Leaderboard(won(duels))
    assert other.annotators is not None
    assert "offset" not in other.annotators
    assert other.table["item"].tolist() == board.table["item"].tolist()
    assert np.allclose(other.table["utility"], board.table["utility"], atol=0.15)


def test_a_tie_is_half_a_win_and_a_name_may_be_missing() -> None:
    columns = ["first", "second", "answer", "annotator"]
    rows = [
        ("a", "b", "0.5", "x"),
        ("1", "a", 0, None),
        (" b ", "1", "1.0", ""),
        ("a", "b", 1, "x"),
    ]
    named = named_duels(pd.DataFrame(rows, columns=columns, index=[7, 7, 3, 1]))
    assert named.items == ["a", "b", "1"]
    assert named.annotators == ["x"]
    assert named.data.pairs.tolist() == [[0, 1], [2, 0], [1, 2], [0, 1]]
    assert named.data.wins.tolist() == [0.5, 0.0, 1.0, 1.0]
    assert named.data.annotator is not None
    assert named.data.annotator.tolist() == [0, -1, -1, 0]


@pytest.mark.parametrize(
    ("columns", "rows", "message"),
    [
        (["a", "b"], [("x", "y")], "needs the columns winner, loser or first, second, answer"),
        (["winner", "loser"], [], "has no rows"),
        (["winner", "loser"], [("x", "y"), ("x", None)], "row 2: `loser` is '': there is no name"),
        (["winner", "loser"], [("x", "y"), ("y", "y ")], "row 2: `winner` is 'y': an item cannot"),
        (["first", "second", "answer"], [("x", "y", "yes")], "row 1: `answer` is 'yes': an answer"),
        (["first", "second", "answer"], [("x", "y", None)], "row 1: `answer` is"),
        (["winner", "loser", "first", "second"], [tuple("abcd")], "has columns of both forms"),
    ],
)
def test_tables_that_are_refused(columns: list[str], rows: list[Any], message: str) -> None:
    with pytest.raises(ComparisonDataError, match=f"^`duels` {message}"):
        named_duels(pd.DataFrame(rows, columns=columns))


def test_other_models_are_ranked(monkeypatch: pytest.MonkeyPatch) -> None:
    X = torch.linspace(0.0, 1.0, 5, dtype=torch.double).unsqueeze(-1)
    model = SingleTaskGP(X, -(X - 0.3).square())
    table = rank_items(model, X, labels=[*"abcde"])
    assert table["item"].tolist() == ["b", "c", "a", "d", "e"]
    assert table.equals(rank_items(model, X, labels=[*"abcde"]))
    with pytest.raises(UnsupportedError, match="labels must be 5 names"):
        rank_items(model, X, labels="abcde")
    with pytest.raises(ComparisonDataError, match="at least 2"):
        rank_items(model, X[:1])
    with pytest.raises(UnsupportedError, match="not one Gaussian"):
        rank_items(SingleTaskGP(X, torch.cat([X, X], dim=-1)), X)
    with pytest.raises(UnsupportedError, match="GaussianMixturePosterior"):
        rank_items(FullyBayesianPreferenceGP(X, torch.tensor([[0, 1]])), X)
