"""Strategies on spaces of all kinds of parameters, and called in any mode of autograd."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor

from botorch_pref.queries import Duel, Evaluate, Label, Query
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import RandomPairs, Strategy
from botorch_pref.strategies.registry import get_strategy, strategy_names
from tests.common import BOX as UNIT
from tests.space.test_mixed import SPACES, everything, is_feasible
from tests.test_device_strategies import makers

BOX = everything()
TABLE = SearchSpace(BOX.bounds, BOX.sample(20, seed=5), integer=[3, 6], log=[4], categorical=[5])
NUM_ANSWERS = 8  # the horizon of MR-LPF


def utility(items: Tensor) -> Tensor:
    """Of all kinds of parameters."""
    shares, number, level = items[..., 0], items[..., 3], items[..., 5]
    heat = items[..., 4].log10() + 2.0
    return (level == 1).double() - (shares - 0.3) ** 2 - heat**2 - (number - 6.0).abs() / 4.0


def answer(query: Query) -> float:
    values = utility(query.items)
    if isinstance(query, Duel):
        return float(values[0] > values[1])
    return float(values > -1.0) if isinstance(query, Label) else float(values)


def play(strategy: Strategy, space: SearchSpace) -> None:
    for _ in range(NUM_ANSWERS):
        query = strategy.ask()
        assert is_feasible(BOX, query.items)
        assert bool(space.contains(query.items).all())
        strategy.tell(query, answer(query))
    assert bool(space.contains(strategy.recommend()))


@pytest.mark.slow
@pytest.mark.parametrize("space", [BOX, TABLE], ids=["box", "table"])
@pytest.mark.parametrize("name", [*strategy_names(), "cobol"])
def test_every_strategy(name: str, space: SearchSpace) -> None:
    """Nothing but feasible items, and the identical next query after a break."""
    strategy = makers()[name](space)
    play(strategy, space)
    resumed = type(strategy).from_state_dict(json.loads(json.dumps(strategy.state_dict())))
    if name != "mr-lpf":  # whose horizon is reached
        assert resumed.ask() == strategy.ask()
    assert torch.equal(resumed.recommend(), strategy.recommend())


@pytest.mark.usefixtures("short_searches")
@pytest.mark.parametrize(
    ("name", "space"), [("max-min-lcb", "mixed"), ("eubo", "mixed"), ("eubo", "log scales")]
)
def test_kinds_of_numbers_without_constraints(name: str, space: str) -> None:
    """Where BoTorch searches without constraints, whole numbers of each start are its own."""
    strategy = get_strategy(name, SPACES[space], seed=1, horizon=4)
    for number in range(3):
        query = strategy.ask()
        assert bool(SPACES[space].contains(query.items).all())
        strategy.tell(query, float(number % 2))


def test_random_pairs() -> None:
    play(RandomPairs(space=BOX, seed=1), BOX)
    play(RandomPairs(space=TABLE, seed=1), TABLE)


# Strategies fit, maximise and keep what they find in whatever mode they are called.


def asked(name: str, mode: Callable[[], Any]) -> list[Tensor]:
    """The items of the queries and the recommendation, every second call in a mode."""
    strategy, found = makers()[name](SearchSpace(UNIT)), []
    for step in range(4):  # rounds of MR-LPF end on the way
        with mode() if step % 2 else nullcontext():
            query = strategy.ask()
        answer = float(query.items.sum()) if isinstance(query, Evaluate) else 1.0
        with nullcontext() if step % 2 else mode():
            strategy.tell(query, answer)
        found.append(query.items)
    with mode():
        return [*found, strategy.recommend()]


@pytest.mark.usefixtures("short_searches")
@pytest.mark.parametrize("name", [*strategy_names(), "cobol", "cobohl"])
@pytest.mark.parametrize(
    "mode", [torch.inference_mode, pytest.param(torch.no_grad, marks=pytest.mark.slow)]
)
def test_a_mode_changes_nothing(mode: Callable[[], Any], name: str) -> None:
    """Inference mode refuses all that `no_grad` does, and more."""
    for mine, other in zip(asked(name, mode), asked(name, nullcontext), strict=True):
        assert torch.equal(mine, other)
        assert not mine.requires_grad
