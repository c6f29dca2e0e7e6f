"""Strategies by name."""

from __future__ import annotations

import inspect
import re

import pytest
import torch

from botorch_pref import strategies
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import EUBO, PFTS, DuelingKG, Strategy
from botorch_pref.strategies.registry import (
    DEFAULT_STRATEGY,
    get_strategy,
    strategy_class,
    strategy_name,
    strategy_names,
)

TABLE = torch.linspace(0.0, 1.0, 5, dtype=torch.float64).unsqueeze(-1)


WITH_PAPER = {"pf-ts", "mr-lpf", "max-min-lcb", "pop-bo", "pop-bo-laplace"}


@pytest.mark.parametrize("name", strategy_names())
@pytest.mark.parametrize("preset", ["practical", "paper"])
def test_every_strategy_asks(name: str, preset: str) -> None:
    space = SearchSpace(choices=TABLE)
    if preset == "paper" and name not in WITH_PAPER:
        with pytest.raises(UnsupportedError, match=re.escape(f"{name!r} has no preset 'paper'")):
            get_strategy(name, space, seed=0, horizon=3, preset=preset)
        return
    strategy = get_strategy(name, space, seed=7, horizon=3, preset=preset)
    assert isinstance(strategy, Strategy)
    assert strategy.seed == 7
    assert strategy.space is space
    query = strategy.ask()
    strategy.tell(query, 1.0)
    assert strategy.recommend().shape == (1,)


def test_horizon_and_preset_reach_the_strategy() -> None:
    space = SearchSpace(choices=TABLE)
    assert get_strategy("mr-lpf", space, seed=0, horizon=17).horizon == 17
    assert get_strategy("pf-ts", space, seed=0, horizon=17, preset="paper").scale == "paper"


@pytest.mark.parametrize("name", strategy_names())
def test_a_strategy_knows_its_name(name: str) -> None:
    assert strategy_name(get_strategy(name, SearchSpace(choices=TABLE), seed=0, horizon=3)) == name


def test_the_default_is_one_of_them() -> None:
    strategy = get_strategy(DEFAULT_STRATEGY, SearchSpace(choices=TABLE), seed=5, horizon=1)
    assert isinstance(strategy, DuelingKG)
    assert strategy.seed == 5
    assert strategy_name(strategy) == DEFAULT_STRATEGY
    assert strategy_name(EUBO(choices=TABLE)) == "eubo"


def test_unknown_names() -> None:
    with pytest.raises(UnsupportedError, match="unknown strategy 'annealing'; there are duel"):
        get_strategy("annealing", SearchSpace(choices=TABLE), seed=0, horizon=3)


def test_classes_by_their_names() -> None:
    for name in strategies.__all__:
        kind = getattr(strategies, name)
        if isinstance(kind, type) and issubclass(kind, Strategy) and not inspect.isabstract(kind):
            assert strategy_class(name) is kind
    for name in ("Strategy", "UtilityStrategy", "Nobody"):
        with pytest.raises(UnsupportedError, match=f"unknown class of strategies '{name}'; .*PFTS"):
            strategy_class(name)


def test_classes_of_ones_own() -> None:
    """The last one of a name counts, as a notebook's cell is run again; never for one of ours."""
    older = type("Homemade", (PFTS,), {})
    newer = type("Homemade", (PFTS,), {})
    namesake = type("PFTS", (PFTS,), {})
    assert strategy_class("Homemade") is newer is not older
    assert strategy_class("PFTS") is PFTS is not namesake
