"""Items that a person names: kept until a step, tested like any candidate, never asked about."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from botorch_pref.exceptions import ComparisonDataError, SearchSpaceError, UnsupportedError
from botorch_pref.queries import Evaluate, Query
from botorch_pref.strategies import COBOHL, COBOL

BOX = torch.tensor([[-1.0, 0.0], [2.0, 4.0]], dtype=torch.float64)
BEST = torch.tensor([0.6, 0.4], dtype=torch.float64)


def made(steps: int = 4, **options: Any) -> COBOL:
    kwargs = {"bounds": BOX, "candidate": "pinpoint", "num_initial_values": 4, **options}
    strategy = COBOL(**kwargs)
    for _ in range(steps):
        asked(strategy)
    return strategy


def asked(strategy: COBOL) -> Query:
    query = strategy.ask()
    assert isinstance(query, Evaluate)
    strategy.tell(query, -float((query.items - BEST).square().sum()))
    return query


def test_a_named_item_is_measured_without_a_label() -> None:
    strategy = made(2)
    item = BEST.clone()
    strategy.suggest(torch.zeros(2))
    strategy.suggest(item)  # the last one counts
    item += 1.0
    strategy = COBOL.from_state_dict(json.loads(json.dumps(strategy.state_dict())))
    for _ in range(2):
        assert strategy.decisions[asked(strategy).id].source == "initial"
    query = asked(strategy)
    assert torch.equal(query.items, BEST)
    decision = strategy.decisions[query.id]
    assert (decision.source, decision.reason) == ("augmented", "the expert named it")
    assert decision.bound >= decision.best_lower
    assert strategy.beliefs.labelled == []
    assert strategy.weight == 1.0
    query = asked(strategy)  # it was used
    assert strategy.decisions[query.id].reason == "no item was named"
    assert strategy.decisions[query.id].source == "vanilla"


def test_a_named_item_is_not_trusted_where_the_objective_is_known() -> None:
    strategy, vanilla = made(8), made(8)
    known = strategy.beliefs.measured[0][0].items
    strategy.suggest(known)
    query = asked(strategy)
    decision = strategy.decisions[query.id]
    assert decision.source == "vanilla"
    assert decision.reason in (
        "its bound is below what is certain elsewhere",
        "the objective is too well known there",
    )
    assert torch.equal(query.items, asked(vanilla).items)


def test_a_choice_is_named_by_its_row() -> None:
    choices = torch.tensor([[0.0, 0.0], [0.0, 1.0], [2.0, 0.0], [1.0, 1.0], [3.0, 0.5], [1.0, 1.0]])
    strategy = made(3, bounds=None, choices=choices, num_initial_values=3)
    strategy.suggest(torch.tensor([1.0, 1.0]))
    named = strategy.state_dict()["progress"]["named"]
    assert named == [[1.0, 1.0], 3]
    query = strategy.ask()
    assert (query.indices == 3) == (strategy.decisions[query.id].source == "augmented")
    with pytest.raises(SearchSpaceError, match="none of the choices"):
        strategy.suggest(torch.tensor([1.0, 0.9]))


@pytest.mark.parametrize(
    "item", [torch.zeros(3), torch.tensor([0.0, 4.5]), torch.tensor([0.0, torch.nan]), "here"]
)
def test_what_is_no_item_is_refused(item: Any) -> None:
    with pytest.raises(SearchSpaceError, match="`item`"):
        made(0).suggest(item)


def test_items_are_named_of_this_candidate_only() -> None:
    with pytest.raises(UnsupportedError, match="pinpoint"):
        COBOL(bounds=BOX).suggest(BEST)
    with pytest.raises(ComparisonDataError, match="pinpoint"):
        COBOHL(bounds=BOX, candidate="pinpoint")
