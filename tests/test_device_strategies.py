"""All strategies ask the same on another device, where what they ask is."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from botorch.acquisition.preference import AnalyticExpectedUtilityOfBestOption
from torch import Tensor

from botorch_pref.models import PreferenceGP
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import COBOHL, COBOL, Strategy
from botorch_pref.strategies.budgeted import BudgetedStrategy
from botorch_pref.strategies.registry import get_strategy, strategy_names
from experiments.baselines.expert_baselines import CoExBO, ExpertOverride
from tests.common import BOX, CPU, answer, same

TABLE = torch.cartesian_prod(*[torch.linspace(0, 1, 4, dtype=torch.float64)] * 2)
ENDS = torch.tensor([[0.0, 0.0, 1e-2, 0.0], [1.0, 3.0, 1.0, 1.0]], dtype=torch.float64)
KINDS: dict[str, Any] = {"integer": [1], "log": [2], "categorical": [3]}
LIMIT = [([0, 1], [-2.0, -1.0], -3.0)]  # on a real and a whole number together
SHARES = [([0, 1], [1.0, 1.0], 1.0)]


def mixed(device: torch.device) -> SearchSpace:
    """All kinds of parameters, and a constraint."""
    return SearchSpace(ENDS.to(device), inequality_constraints=LIMIT, **KINDS)


def shares(device: torch.device) -> SearchSpace:
    """Real numbers alone, two of them with a given sum."""
    bounds = BOX[:, :1].expand(2, 3).to(device)
    return SearchSpace(bounds, equality_constraints=SHARES)


def table(device: torch.device) -> SearchSpace:
    """A table of such items."""
    return SearchSpace(ENDS.to(device), mixed(CPU).sample(12, seed=5).to(device), **KINDS)


def asked(strategy: Strategy, device: torch.device, number: int) -> list[Tensor]:
    """The items of the queries, and the recommendation."""
    items = []
    for step in range(number):
        if step == number // 2:
            state = json.loads(json.dumps(strategy.state_dict()))
            strategy = type(strategy).from_state_dict(state, device)
        query = strategy.ask()
        assert query.items.device == device
        items.append(query.items.cpu())
        strategy.tell(query, answer(query))
    return [*items, strategy.recommend().cpu()]


EXPERTS: dict[str, Callable[..., Strategy]] = {
    "cobol": COBOL,
    "cobol of the paper": COBOL.paper,
    "cobol that compares": partial(COBOL, feedback="compare"),
    "cobohl": COBOHL,
    "override": ExpertOverride,
    "coexbo": CoExBO,
}


def makers() -> dict[str, Callable[[SearchSpace], Strategy]]:
    """All strategies, with next to no initial design."""

    def of_name(name: str) -> Callable[[SearchSpace], Strategy]:
        kind = type(get_strategy(name, SearchSpace(BOX), seed=0, horizon=8))
        if issubclass(kind, BudgetedStrategy):
            initial = {"num_initial_duels": 2, "num_initial_values": 1}
            return lambda space: kind(space=space, **initial)
        return lambda space: get_strategy(name, space, seed=0, horizon=8)

    return {
        **{name: of_name(name) for name in strategy_names()},
        **{
            name: lambda space, kind=kind: kind(
                space=space, num_initial_labels=1, num_initial_values=2
            )
            for name, kind in EXPERTS.items()
        },
    }


def choices(device: torch.device) -> SearchSpace:
    return SearchSpace(choices=TABLE.to(device))


def box(device: torch.device) -> SearchSpace:
    return SearchSpace(BOX.to(device))


CASES = [(name, space) for space in (choices, box) for name in makers()]
FEW = ("eubo", "pf-ts", "comp-gp-ucb", "cobol")
CASES += [(name, space) for space in (mixed, shares, table) for name in FEW]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "space"), CASES)
def test_strategies(
    device: torch.device, name: str, space: Callable[[torch.device], SearchSpace]
) -> None:
    make = makers()[name]
    found = asked(make(space(device)), device, 6)
    for items, wanted in zip(found, asked(make(space(CPU)), CPU, 6), strict=True):
        assert bool(space(CPU).contains(items).all())
        # Searches that end elsewhere by rounding are as good; on one device they do not.
        tolerance = 0.0 if space is choices else 1e-4
        torch.testing.assert_close(items, wanted, rtol=0.0, atol=tolerance)


@pytest.mark.parametrize("space", [mixed, shares])
def test_a_search_in_a_space(
    device: torch.device, space: Callable[[torch.device], SearchSpace]
) -> None:
    """Where it ends the rule has the same value as on the CPU, and no smaller one than there."""
    items = space(CPU).sample(8, seed=1)
    rows = torch.tensor([[0, 1], [2, 3], [5, 4], [6, 7], [0, 2], [5, 7]])

    def rule(device: torch.device) -> AnalyticExpectedUtilityOfBestOption:
        model = PreferenceGP(items.to(device), rows.to(device))
        return AnalyticExpectedUtilityOfBestOption(pref_model=model)

    options: dict[str, Any] = {"q": 2, "seed": 3, "raw_samples": 16, "num_restarts": 1}
    options["options"] = {"maxiter": 5}
    found = space(device).maximize(rule(device), **options)
    wanted = space(CPU).maximize(rule(CPU), **options)
    assert found.items.device == found.value.device == device
    pair = found.items.cpu()
    assert bool(space(CPU).contains(pair).all())
    same(found.value, rule(CPU)(pair).squeeze())
    # A search ends where a step gains 2e-9 of the value; its items are known to the root of that.
    torch.testing.assert_close(found.value.cpu(), wanted.value, rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(pair, wanted.items, rtol=0.0, atol=1e-4)
