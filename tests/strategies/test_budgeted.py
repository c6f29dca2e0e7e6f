"""What every strategy with a budget owes: prices, the initial design, opponents, the end, state."""

from __future__ import annotations

import math
from fractions import Fraction
from math import ceil, floor
from typing import Any

import pytest
import torch

from botorch_pref.exceptions import ComparisonDataError, SearchSpaceError, UnsupportedError
from botorch_pref.queries import Duel, Label, Query
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import BudgetedStrategy, CompGPUCB, CostAwareKG
from botorch_pref.strategies.base import Candidate, Chosen
from botorch_pref.strategies.budgeted import QueryRecord, exact
from tests.contracts.strategy import StrategyContract, stored
from tests.strategies.budget import BOX, TABLE, play

ALL = (CompGPUCB, CostAwareKG)
DESIGN: dict[str, Any] = {"num_initial_duels": 6, "num_initial_values": 3}


class Turns(BudgetedStrategy):
    """Duels the first choice against the second, and measures the third, in turn."""

    def _next(self) -> Chosen:
        if self._num_later() % 2:
            return Chosen(QueryRecord("value", "turns"), Candidate(self.space.table[2], 2))
        pair = (Candidate(self.space.table[row], row) for row in (0, 1))
        return Chosen(QueryRecord("duel", "turns"), *pair)

    def _add(self, query: Query, answer: float) -> None:
        self.last = query

    def _recommended(self) -> Candidate:
        return Candidate(self.space.table[0], 0)


class TestContract(StrategyContract):
    def make(self, seed: int = 0) -> Turns:
        return Turns(choices=TABLE, num_initial_duels=99, seed=seed)


def test_amounts_are_what_was_written() -> None:
    assert exact("budget", 0.3) / exact("duel_cost", 0.1) == 3  # 2.9999999999999996 in floats
    assert exact("duel_cost", "1/3") == Fraction(1, 3)
    for wrong in (0, -1, "x", None, True, math.nan, math.inf):
        with pytest.raises(ComparisonDataError, match="`duel_cost` must be a positive"):
            Turns(choices=TABLE, duel_cost=wrong)
    assert Turns(choices=TABLE).affords(Fraction(10**9))


def test_a_rule_may_choose_both_items() -> None:
    strategy = Turns(choices=TABLE, num_initial_duels=0, num_initial_values=0)
    duel, value, again = play(strategy, 3)
    assert duel.indices == again.indices == (0, 1)
    assert torch.equal(duel.items, TABLE[:2])
    assert value.indices == 2
    assert [record.phase for record in strategy.records] == ["turns"] * 3
    assert strategy.last == again


def test_what_cannot_be_paid_ends_it() -> None:
    """A value is due and a duel could be paid, but was not chosen."""
    options = {"num_initial_duels": 1, "num_initial_values": 0, "budget": "1.25"}
    strategy = Turns(choices=TABLE, **options)
    play(strategy, 4)
    assert [record.kind for record in strategy.records] == ["duel", "duel", "value"]
    assert strategy.spent == Fraction("1.2")
    strategy = Turns(choices=TABLE, **{**options, "budget": "1.15"})
    play(strategy, 2)
    assert not strategy.finished
    for _ in range(2):
        with pytest.raises(UnsupportedError, match="budget of 23/20 is spent"):
            strategy.ask()
        assert strategy.finished
    assert stored(strategy).finished
    assert strategy.spent == Fraction("0.2")
    assert not Turns(choices=TABLE).finished


@pytest.mark.parametrize("cls", ALL)
def test_the_initial_design_is_the_same(cls: type[BudgetedStrategy]) -> None:
    """Whatever the strategy: with one seed the same random duels and values."""
    for domain in ({"bounds": BOX}, {"choices": TABLE}):
        strategy = cls(**domain, **DESIGN, seed=5)
        queries = play(strategy, 9)
        assert queries == play(CompGPUCB(**domain, **DESIGN, seed=5), 9)
        assert [query.kind for query in queries] == ["duel"] * 6 + ["evaluate"] * 3
        assert {record.phase for record in strategy.records} == {"initial"}
        assert len({tuple(item.tolist()) for q in queries for item in q.items.view(-1, 2)}) > 10
    assert play(cls(choices=TABLE, **DESIGN, seed=6), 9) != queries


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("kinds", [{"integer": [0, 1]}, {"integer": [0], "categorical": [1]}])
def test_no_random_item_meets_itself(
    cls: type[BudgetedStrategy], kinds: dict[str, list[int]]
) -> None:
    """Nor on a box of a few items; all of them are asked."""
    space = SearchSpace(torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64), **kinds)
    strategy = cls(space=space, num_initial_duels=40, seed=1)
    queries = play(strategy, 40)
    assert all(not torch.equal(*query.items) for query in queries)
    assert len({tuple(query.items[1].tolist()) for query in queries}) == 4


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize(("duel_cost", "value_cost", "budget"), [(0.1, 0.3, 3), ("1/3", 1, 7)])
def test_costs_add_up(
    cls: type[BudgetedStrategy], duel_cost: Any, value_cost: Any, budget: int
) -> None:
    """In floats 0.1 + 0.1 + 0.1 > 0.3, and a budget would be missed by a cent."""
    options = {"duel_cost": duel_cost, "value_cost": value_cost, "budget": budget, **DESIGN}
    strategy = cls(choices=TABLE[:8], **options)
    queries = play(strategy)
    duels = sum(isinstance(query, Duel) for query in queries)
    prices = Fraction(str(duel_cost)), Fraction(str(value_cost))
    assert strategy.spent == duels * prices[0] + (len(queries) - duels) * prices[1] <= budget
    assert floor(budget / prices[1]) <= len(queries) <= ceil(budget / prices[0])
    assert budget - strategy.spent < prices[1]
    assert [record.kind == "duel" for record in strategy.records] == [
        isinstance(query, Duel) for query in queries
    ]


@pytest.mark.parametrize("cls", ALL)
def test_skipped_queries_are_paid_and_not_learnt(cls: type[BudgetedStrategy]) -> None:
    strategy = cls(choices=TABLE, num_initial_duels=1, num_initial_values=1)
    for _ in range(4):
        strategy.tell(strategy.ask(), None)
    kinds = [record.kind for record in strategy.records]
    assert strategy.spent == kinds.count("duel") * Fraction(1, 10) + kinds.count("value")
    for recommend in (strategy.recommend, strategy.recommend_index):
        with pytest.raises(ComparisonDataError, match="Nothing was answered"):
            recommend()
    strategy.tell(strategy.ask(), 1.0)
    strategy.recommend()
    with pytest.raises(SearchSpaceError):
        cls(bounds=BOX).recommend_index()


@pytest.mark.parametrize("kind", ALL)
def test_what_is_known_before_costs_nothing(kind: Any) -> None:
    """It is learnt, counts as a part of the initial design, and is in the state."""
    first = kind(bounds=BOX, **DESIGN, seed=1)
    play(first, 9)
    known = first.history
    strategy = kind(bounds=BOX, **DESIGN, budget=4, known=known, seed=2)
    assert strategy.spent == 0
    assert BOX[0, 0] <= strategy.recommend()[0] <= BOX[1, 0]
    assert len(strategy.duels if kind is CostAwareKG else strategy.duels.answers) == 6
    query = strategy.ask()
    assert strategy.records[query.id].phase != "initial"
    read = stored(strategy)
    assert read.known == strategy.known == tuple(known)
    assert play(read, 2) == play(strategy, 2)
    partly = kind(bounds=BOX, **DESIGN, known=known[:5], seed=2)
    play(partly, 4)
    assert [(r.kind, r.phase) for r in partly.records] == [
        ("duel", "initial"),
        *[("value", "initial")] * 3,
    ]
    with pytest.raises(ComparisonDataError, match="`known` row 0: it is a label, not a duel or"):
        kind(bounds=BOX, known=[(Label(0, BOX[0]), 1.0)])
