"""Borda-UCB and random duels: dense algebra, COMP-GP-UCB's first phase, the contract."""

from __future__ import annotations

import math

import pytest
import torch

from botorch_pref.strategies import CompGPUCB
from botorch_pref.strategies.budgeted import WidthRecord
from experiments.baselines import BordaUCB, RandomDuels
from tests.contracts.strategy import StrategyContract
from tests.strategies.budgeted import oracle
from tests.strategies.budgeted.oracle import BOX, TABLE, play


class TestContract(StrategyContract):
    def make(self, seed: int = 0) -> BordaUCB:
        return BordaUCB(choices=TABLE, num_initial_duels=3, seed=seed)


class TestContractOfRandomDuels(StrategyContract):
    def make(self, seed: int = 0) -> RandomDuels:
        return RandomDuels(bounds=BOX, num_initial_duels=3, seed=seed)


def test_the_choice_is_that_of_dense_algebra() -> None:
    strategy = BordaUCB(choices=TABLE, num_initial_duels=15)
    play(strategy, 15)
    for t in range(1, 23):
        query = strategy.ask()
        mean, deviation = oracle.duels_at_choices(strategy)
        beta = 0.5 * math.log(2 * t)
        assert query.indices[0] == (mean + beta * deviation).argmax()
        record = strategy.records[-1]
        assert isinstance(record, WidthRecord)
        assert record.width == pytest.approx(beta * deviation[query.indices[0]], rel=1e-8)
        strategy.tell(query, oracle.answer(query))
    assert len({query.indices[0] for query, _ in strategy.history[15:]}) > 3
    mean, _ = oracle.duels_at_choices(strategy)
    chosen = [query.indices[0] for query, _ in strategy.history]
    assert strategy.recommend_index() == max(chosen, key=lambda row: mean[row])


def test_it_is_the_first_phase_for_ever() -> None:
    """With a gamma of zero COMP-GP-UCB never leaves it."""
    shared = {"bounds": BOX, "seed": 4, "num_initial_duels": 6, "num_initial_values": 0}
    queries = play(BordaUCB(**shared), 9)
    assert queries == play(CompGPUCB(**shared, gamma=0.0), 9)


def test_random_duels_are_uniform_whatever_was_answered() -> None:
    strategy = RandomDuels(choices=TABLE, num_initial_duels=0, refit_duels=1000)
    queries = play(strategy, 400)
    for arm in (0, 1):
        rows = torch.tensor([query.indices[arm] for query in queries])
        counts = torch.bincount(rows, minlength=len(TABLE))
        assert counts.min() > 1
        assert counts.max() < 26
    assert all(query.indices[0] != query.indices[1] for query in queries)
    other = RandomDuels(choices=TABLE, num_initial_duels=0)
    for query in queries[:10]:
        assert other.ask() == query
        other.tell(query, 0.0)


def test_random_duels_learn() -> None:
    strategy = RandomDuels(choices=TABLE, num_initial_duels=20, refit_duels=80)
    play(strategy, 201)
    mean, _ = oracle.duels_at_choices(strategy)
    asked = {query.indices[0] for query, _ in strategy.history}
    assert strategy.recommend_index() == max(asked, key=lambda row: mean[row])
    assert oracle.worth(TABLE[strategy.recommend_index()].numpy()) > 0.6
