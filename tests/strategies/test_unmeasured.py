"""Values that others are measuring, and values that nobody can measure."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

from botorch_pref.exceptions import ComparisonDataError, SearchSpaceError
from botorch_pref.queries import Evaluate, Label
from botorch_pref.strategies import COBOL, CompGPUCB, CostAwareKG, Strategy
from experiments.baselines import GPUCB, MFGPUCB
from experiments.baselines.expert_baselines import (
    AlternatingExpert,
    CoExBO,
    ExpertOverride,
    ExpertSampling,
    RandomValues,
)
from tests.common import BOX
from tests.models.common import rand
from tests.strategies.budget import reply

TABLE = rand(12, 2)
Make = Callable[..., Strategy]

_PRICES: dict[str, Any] = {"budget": 40, "value_cost": 1, "duel_cost": "1/10"}
_BOTH = {**_PRICES, "num_initial_duels": 4, "num_initial_values": 3}
EXPERT: dict[str, Make] = {
    "cobol": COBOL,
    "paper": COBOL.paper,
    "compare": partial(COBOL, feedback="compare"),
    "override": ExpertOverride,
    "coexbo": CoExBO,
}
PRICED: dict[str, Make] = {
    "gp-ucb": partial(GPUCB, **_PRICES, num_initial_values=3),
    "mf-gp-ucb": partial(MFGPUCB, **_BOTH, borda_slack=0.1, gamma=9.0),
    "comp": partial(CompGPUCB, **_BOTH, borda_slack=0.1, gamma=9.0),
    "cost-aware": partial(CostAwareKG, **_BOTH),
}


def next_evaluation(strategy: Strategy, annotator: str | None = None) -> Evaluate:
    """All else is answered on the way."""
    for _ in range(40):
        query = strategy.ask(annotator)
        if isinstance(query, Evaluate):
            return query
        strategy.tell(query, reply(query))
    raise AssertionError("nothing is ever measured")


@pytest.mark.parametrize("kind", [CompGPUCB, MFGPUCB])
def test_nor_while_no_value_is_known(kind: type[CompGPUCB | MFGPUCB]) -> None:
    design: dict[str, Any] = {"num_initial_duels": 8, "num_initial_values": 0, "gamma": 9.0}
    strategy = kind(choices=TABLE, beta=2.0, **design)
    asked = [next_evaluation(strategy, "ann").items]
    for _ in range(3):
        query = next_evaluation(strategy)
        strategy.tell(query, None)
        asked.append(query.items)
    assert torch.pdist(torch.stack(asked)).min() > 1e-3


@pytest.mark.usefixtures("short_searches")
@pytest.mark.parametrize(
    ("name", "domain"),
    [
        *((name, {"choices": TABLE}) for name in (*EXPERT, *PRICED)),
        *((name, {"bounds": BOX}) for name in ("cobol", "gp-ucb")),
    ],
)
def test_nobody_is_asked_for_the_same_value_again(name: str, domain: dict[str, Any]) -> None:
    """Not after it was skipped, nor while another one is at it; and a state has all of that."""
    strategy = (EXPERT | PRICED)[name](seed=1, **domain)
    for _ in range(9):
        query = strategy.ask()
        strategy.tell(query, reply(query))
    asked = []
    for _ in range(2):
        skipped = next_evaluation(strategy)
        strategy.tell(skipped, None)
        asked.append(skipped.items)
    before = strategy.recommend()
    asked += [next_evaluation(strategy, annotator).items for annotator in ("ann", "bob")]
    if name in ("cobol", "gp-ucb"):  # of values alone, of which none is known that was not
        assert torch.equal(strategy.recommend(), before)
    assert torch.pdist(torch.stack(asked)).min() > 1e-3
    again = type(strategy).from_state_dict(strategy.state_dict())
    assert torch.equal(again.ask("eve").items, strategy.ask("eve").items)
    assert torch.equal(again.recommend(), strategy.recommend())


@pytest.mark.parametrize("kind", [RandomValues, ExpertSampling, COBOL])
def test_rows_that_look_alike_are_items_of_their_own(kind: type[Strategy]) -> None:
    strategy = kind(choices=torch.tensor([[0.0], [0.0], [1.0]], dtype=torch.float64), seed=0)
    rows = set()
    for _ in range(8):
        query = strategy.ask()
        rows.add(query.indices)
        strategy.tell(query, 1.0)
    assert rows == {0, 1, 2}


@pytest.mark.parametrize("kind", [COBOL, ExpertOverride, AlternatingExpert, CoExBO, RandomValues])
def test_an_initial_design_without_a_value_goes_on(kind: type[Strategy]) -> None:
    strategy = kind(bounds=BOX, num_initial_values=1, num_initial_labels=0)  # type: ignore[call-arg]
    items = []
    for told in (None, None, 1.0):
        with pytest.raises(ComparisonDataError, match=r"Nothing was .* yet"):
            strategy.recommend()
        query = strategy.ask()
        assert isinstance(query, Evaluate)
        items.append(query.items)
        strategy.tell(query, told)
    assert not torch.equal(items[0], items[1])
    strategy.ask()
    with pytest.raises(SearchSpaceError):
        strategy.recommend_index()


@pytest.mark.usefixtures("short_searches")
def test_a_value_in_the_midst_of_the_initial_design() -> None:
    """The model learns the units of values before it is asked what to buy."""
    strategy = CostAwareKG(
        bounds=BOX, **_PRICES, num_initial_duels=0, num_initial_values=2, noise=None
    )
    first = strategy.ask("ann")
    strategy.ask("bob")
    strategy.tell(first, 5000.0)
    strategy.ask("eve")
    assert strategy.units.offset == 5000.0


@pytest.mark.usefixtures("short_searches")
@pytest.mark.parametrize("domain", [{"choices": torch.linspace(0, 1, 21).double()[:, None]}, {}])
def test_two_experts_are_not_asked_the_same(domain: dict[str, Any]) -> None:
    """Nor is an item measured twice at once, if both accept."""
    space = domain or {"bounds": BOX}
    strategy = COBOL(**space, num_initial_values=3, num_initial_labels=0, threshold=0.01)
    for _ in range(3):
        query = strategy.ask()
        strategy.tell(query, -float((query.items - 0.37).square().sum()))
    first, second = strategy.ask("a"), strategy.ask("b")
    assert isinstance(first, Label)
    assert (first.items - second.items).abs().max() > 1e-3
    if isinstance(second, Label):
        strategy.tell(second, 1.0)
    strategy.tell(first, 1.0)
    one, two = strategy.ask("a"), strategy.ask("b")
    assert (one.items - two.items).abs().max() > 1e-3
