"""Optuna, GPyTorch's classifier, very many duels and the strategies' loops."""

from typing import Any, cast

import pytest
import torch

from botorch_pref.models import PreferenceGP
from botorch_pref.queries import Duel
from botorch_pref.strategies import EUBO
from botorch_pref.strategies.registry import strategy_names
from experiments.speed import ask, million, suggestion, variational
from experiments.speed.duels import DIM, Grid, duels
from experiments.speed.timing import time_cases

CPU = torch.device("cpu")


@pytest.mark.slow
def test_the_classifier_learns_what_we_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variational, "NUM_HELD_OUT", 200)
    monkeypatch.setattr(variational, "NUM_STEPS", 60)
    known, held_out = variational.split(120, 8, CPU)
    assert known.comparisons.shape == (120, 2)
    assert held_out.shape == (200, 2, DIM)
    fits = [variational.ours_fitted(known), variational.other_fitted(known)]
    predict = [cast(variational.Predict, run()) for run in fits]
    ours, other = (variational.mean_log_probability(one, held_out) for one in predict)
    assert ours > -0.6  # a coin has -0.69
    assert other == pytest.approx(ours, abs=0.02)
    swapped = predict[1](held_out.flip(-2))
    assert torch.allclose(predict[1](held_out) + swapped, torch.ones(200).double(), atol=1e-6)


def test_inducing_pairs() -> None:
    X = duels(300).X
    fresh = variational.other_of(duels(300)).variational_strategy.inducing_points
    assert fresh.equal(X[duels(300).comparisons[:256]].flatten(start_dim=-2))
    chain = variational.other_of(duels(300, 50)).variational_strategy.inducing_points
    assert chain.shape == (49, 2 * DIM)
    assert not chain.requires_grad


def test_the_rows_against_the_classifier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variational, "NUM_HELD_OUT", 20)
    monkeypatch.setattr(variational, "NUM_STEPS", 2)
    table = time_cases(
        variational.variational_cases("scaling", Grid((5,)), CPU), progress=False, once=True
    )
    assert table["package"].tolist() == 2 * ["PreferenceGP", "GPyTorch, variational"]
    assert table["note"].iloc[0].startswith("held-out mean log probability: -0.")


def test_a_strategy_was_told_all_answers() -> None:
    known = duels(7)
    run = cast(Any, suggestion.strategy_ask(EUBO, known, CPU))
    strategy = run.__self__
    assert strategy.num_answers == 7
    assert strategy.asked_items().view(7, 2, DIM).equal(known.X[known.comparisons])
    assert isinstance(query := run(), Duel)
    assert query.id == 7
    assert strategy.learner.num_fitted == 7  # hyperparameters are part of what is timed


@pytest.mark.slow
def test_optuna() -> None:
    pytest.importorskip("optuna_dashboard")
    item = cast(torch.Tensor, suggestion.optuna_ask(duels(3))())
    assert item.shape == (DIM,)
    assert ((item >= 0) & (item <= 1)).all()


def test_what_optuna_cannot_do() -> None:
    """Its memory grows with the third power: 800 duels took more than 24 GB."""
    known = suggestion.suggestion_cases("scaling", Grid((400, 800)), CPU)
    assert [bool(case.others[0].obstacle) for case in known] == [False, False, True, True]
    assert known[2].others[0].gigabytes > 24.0

    cases = suggestion.suggestion_cases("scaling", Grid((3,)), torch.device("cuda"))
    assert [case.ours.package for case in cases] == ["PF-TS", "EUBO"]
    assert not any(side.knows_devices for case in cases for side in case.others)
    assert cases[0].others == cases[1].others  # which is timed once


def test_very_many_duels() -> None:
    cases = million.million_cases("million", (40, 60), (40,), 8, CPU)
    table = time_cases(cases, progress=False, once=True)
    assert table["size"].tolist() == [40, 60, 40]
    notes = table["note"].str.extract(r"^peak memory (.*) GB", expand=False).astype(float)
    assert 0.1 < notes.iloc[0] <= notes.iloc[1] < 8
    assert notes.isna().tolist() == [False, False, True]
    model = PreferenceGP(*duels(40), inducing_points=8)
    (mean, _) = cast(tuple[torch.Tensor, torch.Tensor], cases[0].ours.prepare()())
    expected = cast(Any, model.posterior(million.probes(duels(40).X)))
    assert torch.allclose(mean, expected.mean)


@pytest.mark.parametrize("name", ["random", ask.COBOL_NAME, "gp-ucb"])
def test_a_loop_goes_on(name: str) -> None:
    loop = ask.Loop(name, 4, CPU)
    first = loop.prepare()()
    assert loop.strategy is not None
    assert len(loop.strategy.history) == 4
    run = loop.prepare()
    assert len(loop.strategy.history) == 4  # to tell is timed as well
    second = run()
    assert loop.strategy.history[-1].query == first
    assert second != first


def test_the_strategies_are_there() -> None:
    assert {*ask.STRATEGIES} - {ask.COBOL_NAME} < {*strategy_names()}
    cases = ask.ask_cases("ask", 100, CPU)
    assert [case.ours.package for case in cases] == [*ask.STRATEGIES]
