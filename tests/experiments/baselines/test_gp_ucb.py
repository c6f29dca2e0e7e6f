"""GP-UCB: its choice against dense algebra, COMP-GP-UCB without a filter, and the contract."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from botorch_pref.queries import Evaluate
from botorch_pref.strategies import BudgetedStrategy, CompGPUCB
from experiments.baselines import GPUCB, BordaUCB, KernelSelfSparring, RandomDuels
from tests.contracts.strategy import StrategyContract
from tests.strategies.budgeted import oracle
from tests.strategies.budgeted.oracle import BOX, TABLE, play


class TestContract(StrategyContract):
    query_type = Evaluate

    def make(self, seed: int = 0) -> GPUCB:
        return GPUCB(choices=TABLE, num_initial_values=3, refit_values=3, seed=seed)


def test_the_choice_is_that_of_dense_algebra() -> None:
    strategy = GPUCB(choices=TABLE, num_initial_values=6)
    play(strategy, 6)
    greedy = 0
    for t in range(1, 15):
        query = strategy.ask()
        mean, deviation = oracle.values_at_choices(strategy)
        assert query.indices == (mean + 0.5 * math.log(2 * t) * deviation).argmax()
        greedy += query.indices == mean.argmax()
        strategy.tell(query, oracle.answer(query))
    assert 0 < greedy < 14
    assert strategy.recommend_index() == oracle.worth(TABLE.numpy()).argmax()
    assert {record.kind for record in strategy.records} == {"value"}


@pytest.mark.parametrize("domain", [{"choices": TABLE}, {"bounds": BOX}])
def test_without_a_filter_comp_gp_ucb_measures_the_same(domain: dict[str, Any]) -> None:
    """Random values and hyperparameters are the same, too, as long as seeds are."""
    shared = {**domain, "num_initial_values": 4, "beta": 1.5, "refit_values": 3}
    comp = CompGPUCB(**shared, num_initial_duels=4, gamma=math.inf, borda_slack=10.0)
    plain = GPUCB(**shared)
    measured = [q.items for q in play(comp, 12) if isinstance(q, Evaluate)]
    expected = [q.items for q in play(plain, len(measured))]
    assert len(measured) == 7  # 4 random duels and one of phase 1
    scale = BOX[1] - BOX[0]
    gaps = [float(((a - b) / scale).abs().max()) for a, b in zip(measured, expected, strict=True)]
    assert max(gaps) < 1e-4


def test_initial_values_may_be_all_there_are() -> None:
    """The control that chooses nothing."""
    strategy = GPUCB(bounds=BOX, num_initial_values=12, budget=12)
    queries = play(strategy)
    assert len(queries) == 12
    assert {record.phase for record in strategy.records} == {"initial"}
    best = max(queries, key=oracle.answer)
    assert torch.equal(strategy.recommend(), best.items)


def test_without_initial_values_the_first_is_random() -> None:
    items = [GPUCB(bounds=BOX, num_initial_values=0, seed=i).ask().items for i in range(3)]
    assert len({tuple(item.tolist()) for item in items}) == 3
    table = GPUCB(choices=TABLE, num_initial_values=0)
    queries = play(table, 4)
    assert len({query.indices for query in queries}) == 4
    assert np.array_equal(queries[0].items, TABLE[queries[0].indices])


@pytest.mark.parametrize("kind", [GPUCB, BordaUCB, RandomDuels, KernelSelfSparring])
def test_it_is_finished_when_its_own_kind_cannot_be_paid(kind: type[BudgetedStrategy]) -> None:
    """So that no ``ask`` of a loop raises."""
    prices = {"duel_cost": "3/4", "value_cost": "1/2"} if kind is not GPUCB else {}
    design = {"num_initial_duels": 2, "num_initial_values": 0}
    strategy = kind(choices=TABLE, budget="5.3", **design, **prices)
    while not strategy.finished:
        query = strategy.ask()
        strategy.tell(query, 1.0)
    assert strategy.spent > 4
