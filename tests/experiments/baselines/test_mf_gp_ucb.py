"""MF-GP-UCB: item, kind and gamma against dense algebra; costs; the contract."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.queries import Duel
from botorch_pref.strategies.budgeted.step import OptimisticStep
from experiments.baselines import MFGPUCB, MultiFidelityUCB
from tests.contracts.strategy import StrategyContract, stored
from tests.strategies.budgeted import oracle
from tests.strategies.budgeted.oracle import BOX, TABLE, play

QUICK: dict[str, Any] = {"num_initial_duels": 12, "num_initial_values": 4}
SELDOM = {"refit_duels": 12, "refit_values": 12}


class TestContract(StrategyContract):
    """Duels alone, as no width is below a gamma of zero."""

    def make(self, seed: int = 0) -> MFGPUCB:
        return MFGPUCB(choices=TABLE, num_initial_duels=2, num_initial_values=0, gamma=0, seed=seed)


def test_item_and_kind_are_those_of_dense_algebra() -> None:
    strategy = MFGPUCB(choices=TABLE, zeta=0.05, gamma=0.15, gamma_streak=3, **SELDOM, **QUICK)
    play(strategy, 16)
    gamma, streak, cheap, kinds = 0.15, 0, [], []
    for t in range(1, 31):
        query = strategy.ask()
        beta = 0.5 * math.log(2 * t)
        mean_r, deviation_r = oracle.duels_at_choices(strategy)
        mean, deviation = oracle.values_at_choices(strategy)
        terms = np.stack([mean_r + beta * deviation_r + 0.05, mean + beta * deviation])
        row = terms.min(0).argmax()
        is_duel = isinstance(query, Duel)
        assert (query.indices[0] if is_duel else query.indices) == row
        assert is_duel == (beta * deviation_r[row] >= gamma)
        assert strategy.records[-1].gamma == gamma
        streak = streak + 1 if is_duel else 0
        if streak == 3:
            gamma, streak = 2 * gamma, 0
        cheap.append(terms[:, row].argmin() == 0)
        kinds.append(is_duel)
        strategy.tell(query, oracle.answer(query))
    # Either bound is the smaller one at times, and either kind of query is chosen.
    assert 0 < sum(cheap) < 30
    assert 0 < sum(kinds) < 30
    assert gamma > 0.15


def test_a_budget_is_kept_and_a_run_resumed() -> None:
    options = {"choices": TABLE, "zeta": 0.1, "gamma": 0.15, "budget": "8.5", **SELDOM, **QUICK}
    whole, part = MFGPUCB(**options), MFGPUCB(**options)
    queries = play(whole)
    for number, query in enumerate(queries):
        if number in (3, 18, 22):
            part = stored(part)
        assert part.ask() == query
        part.tell(query, oracle.answer(query))
    assert repr(part.records) == repr(whole.records)
    assert (part.gamma, part.streak) == (whole.gamma, whole.streak)
    kinds = [record.kind for record in whole.records]
    assert whole.spent * 10 == kinds.count("duel") + 10 * kinds.count("value") <= 85
    assert {record.kind for record in whole.records if record.phase != "initial"} == {
        "duel",
        "value",
    }


def test_a_box() -> None:
    """The maximum lies on the kink, or beside it."""
    strategy = MFGPUCB(bounds=BOX, zeta=0.1, **QUICK)
    play(strategy, 16)
    query, step = strategy.ask(), OptimisticStep(strategy.beliefs, 1, 0)
    rule = MultiFidelityUCB(
        strategy.beliefs.objective(), strategy.beliefs.borda(), step.beta, zeta=0.1
    )
    with torch.no_grad():
        values = rule(strategy.space.sample(4096, 1).unsqueeze(-2))
        found = rule(query.items.view(-1, 1, 2)[:1])
    assert float(found) >= float(values.max())


def test_an_endless_gamma_is_written_and_read() -> None:
    strategy = MFGPUCB(choices=TABLE, gamma=math.inf, **QUICK)
    play(strategy, 20)
    assert {record.kind for record in strategy.records[-4:]} == {"value"}
    read = stored(strategy)
    assert read.gamma == read.settings.gamma == math.inf
    assert repr(read.records) == repr(strategy.records)


def test_without_data_of_a_kind() -> None:
    """A random duel first; without values the most promising item in duels."""
    strategy = MFGPUCB(choices=TABLE, num_initial_duels=0, num_initial_values=0, gamma=0.0)
    assert isinstance(play(strategy, 5)[0], Duel)
    query = strategy.ask()
    mean, deviation = oracle.duels_at_choices(strategy)
    assert query.indices[0] == (mean + 0.5 * math.log(10) * deviation).argmax()


def test_bad_options() -> None:
    with pytest.raises(ComparisonDataError, match="`zeta`"):
        MFGPUCB(bounds=BOX, zeta=-0.1)
    assert MFGPUCB(bounds=BOX, zeta=0.0).gamma == 0.02
    assert MFGPUCB(bounds=BOX, zeta=2.0).gamma == 0.5
