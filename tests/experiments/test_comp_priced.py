"""Strategies that know no prices, whose duels are paid for."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.problems import Catalyst, LogisticJudge
from botorch_pref.runner import simulate
from botorch_pref.runner.run import build_strategy
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import RandomPairs
from experiments.comp_gp_ucb.priced import DuelArm, PricedDuels

PROBLEM = Catalyst(dedupe="mean")


def made(ratio: int = 5, budget: int = 1) -> PricedDuels:
    strategy = build_strategy(DuelArm(RandomPairs).factory(ratio, budget), PROBLEM, 3, 100)
    assert isinstance(strategy, PricedDuels)
    return strategy


def test_it_asks_what_the_strategy_asks_until_the_budget_is_spent() -> None:
    priced = made()
    alone = RandomPairs(space=SearchSpace(PROBLEM.bounds, PROBLEM.choices), seed=3)
    asked = 0
    while not priced.finished:
        query, own = priced.ask(), alone.ask()
        assert query == own
        assert priced.ask() is query  # and is paid for once
        asked += 1
        assert priced.spent == Fraction(asked, 5)
        priced.tell(query, 1.0)
        alone.tell(own, 1.0)
    assert asked == 5
    assert priced.recommend_index() == alone.recommend_index()
    assert torch.equal(priced.recommend(), alone.recommend())
    assert [(record.kind, record.phase) for record in priced.records] == [("duel", "duels")] * 5


def test_a_simulation_ends_with_the_budget() -> None:
    table = simulate(made(3, 2), PROBLEM, LogisticJudge(PROBLEM), 100, progress=False).table
    assert len(table) == 6
    assert table["cost"].iloc[-1] == 2.0
    assert table["finished"].tolist() == [False] * 5 + [True]
    assert table["recommendation_regret"].notna().all()


def test_prices_are_checked() -> None:
    space = SearchSpace(PROBLEM.bounds, PROBLEM.choices)
    with pytest.raises(ComparisonDataError, match="`duel_cost`"):
        PricedDuels(RandomPairs, "0", "1", space=space, seed=0)
