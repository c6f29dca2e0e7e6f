"""Random pairs: their law, and that nothing moves it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from botorch_pref.space import SearchSpace
from botorch_pref.strategies import RandomPairs
from tests.contracts.strategy import answer
from tests.strategies.common import FIXED, GRID


def on_grid(**kwargs: Any) -> RandomPairs:
    return RandomPairs(**{"choices": GRID, "hyperparameters": FIXED, **kwargs})


@pytest.mark.parametrize("kinds", [{"integer": [0]}, {"categorical": [0]}])
@pytest.mark.parametrize("size", [2, 3])
def test_no_item_meets_itself_where_all_others_are_barred(
    kinds: dict[str, list[int]], size: int
) -> None:
    bounds = torch.tensor([[0.0], [size - 1.0]], dtype=torch.float64)
    for seed in range(2):
        strategy = RandomPairs(space=SearchSpace(bounds, **kinds), seed=seed)
        for _ in range(size + 1):
            query = strategy.ask()
            assert query.items[0] != query.items[1]
            strategy.tell(query, None)


def test_a_space_of_one_item_leaves_no_other() -> None:
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    space = SearchSpace(bounds, integer=[0, 1], inequality_constraints=[([0, 1], [1.0, 1.0], 2.0)])
    assert RandomPairs(space=space).ask().items.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_pairs_of_choices_are_uniform() -> None:
    strategy = on_grid()
    asked = np.array([strategy.ask(str(i)).indices for i in range(3000)])
    table = np.zeros((6, 6))
    np.add.at(table, tuple(asked.T), 1)
    assert (table.diagonal() == 0).all()
    assert stats.chisquare(table[~np.eye(6, dtype=bool)]).pvalue > 1e-3


def test_pairs_of_a_box_are_uniform_and_independent() -> None:
    bounds = torch.tensor([[0.0, -1.0], [1.0, 3.0]], dtype=torch.float64)
    strategy = RandomPairs(bounds=bounds, hyperparameters=FIXED)
    asked = torch.stack([strategy.ask(str(i)).items for i in range(600)])
    unit = ((asked - bounds[0]) / (bounds[1] - bounds[0])).flatten(1).numpy()
    for column in unit.T:
        assert stats.kstest(column, "uniform").pvalue > 1e-3
    correlation = np.corrcoef(unit.T)[np.triu_indices(4, 1)]
    assert (np.abs(correlation) < 4 / np.sqrt(600)).all()


def test_answers_move_nothing_but_the_recommendation() -> None:
    one, other = on_grid(), on_grid()
    for _ in range(30):
        query = one.ask()
        assert other.ask() == query
        one.tell(query, answer(query))
        other.tell(query, 1 - answer(query))
    assert one.recommend_index() == len(GRID) - 1
    assert other.recommend_index() == 0
