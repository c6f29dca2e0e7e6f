"""States that no strategy can have written are refused, with the row or the key that is wrong."""

from __future__ import annotations

import json
import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.queries import Choice, Duel, Evaluate, Grade, Label, Query, Ranking
from botorch_pref.strategies import (
    COBOL,
    PFTS,
    POPBO,
    CompGPUCB,
    CostAwareKG,
    MultipleChoicePOPBO,
    RandomPairs,
    Strategy,
)
from experiments.baselines import GPTS
from experiments.baselines.expert_baselines import RandomValues
from tests.models.common import rand
from tests.strategies.common import FIXED, LINE

TABLE = rand(5, 2)
LABEL, VALUE = Label(7, TABLE[0], 0), Evaluate(7, TABLE[0], 0)
CHOICE, DUEL = Choice(7, TABLE[:3], (0, 1, 2)), Duel(7, TABLE[:2], (0, 1))


def state_of(kind: Any = PFTS, **options: Any) -> dict[str, Any]:
    """Of a strategy with one answer, one skip, and one open query, as read from a file."""
    if kind is PFTS:
        options = {"hyperparameters": FIXED, **options}
    strategy: Strategy = kind(choices=TABLE, **options)
    for told in (1.0, None):
        strategy.tell(strategy.ask(), told)
    strategy.ask("ann")
    state: dict[str, Any] = json.loads(json.dumps(strategy.state_dict()))
    return state


def assert_refused(kind: type[Strategy], state: dict[str, Any], match: str) -> None:
    with pytest.raises(ComparisonDataError, match=rf"`state` {match}"):
        kind.from_state_dict(state)


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        (PFTS, 7),
        (PFTS, 10**400),
        (COBOL, 10**400),
        (PFTS, "1"),
        (PFTS, [1]),
        (GPTS, math.nan),
        (GPTS, "x"),
        (CompGPUCB, -1),
    ]
    + [(COBOL, math.inf), (MultipleChoicePOPBO, 0.5), (RandomPairs, math.nan)],
)
def test_stored_answers(kind: type[Strategy], answer: Any) -> None:
    state = state_of(kind)
    state["history"].reverse()
    state["history"][1][1] = answer
    assert_refused(kind, state, re.escape(f"history row 1: `answer` to query 0 is {answer!r}"))


@pytest.mark.parametrize("kind", [COBOL, CompGPUCB, MultipleChoicePOPBO, PFTS, RandomValues])
def test_stored_queries_of_another_kind(kind: type[Strategy]) -> None:
    others: dict[type[Strategy], list[Query]] = {
        COBOL: [CHOICE],
        CompGPUCB: [LABEL, CHOICE],
        MultipleChoicePOPBO: [DUEL, LABEL, VALUE],
        PFTS: [LABEL, VALUE],
        RandomValues: [DUEL, CHOICE],
    }
    state = state_of(kind)
    for query in others[kind]:
        wrong = query.to_json()
        match = f"Query 7 is a {query.kind}, not a "
        assert_refused(kind, {**state, "open": [wrong]}, f"open row 0: {match}")
        assert_refused(kind, {**state, "history": [[wrong, None]]}, f"history row 0: {match}")


@pytest.mark.parametrize(
    ("wrong", "question"),
    [
        (CHOICE, "duel"),
        (CHOICE, "best of 4"),
        (DUEL, "best of 2"),
        (Ranking(7, TABLE[:3], (0, 1, 2)), "best of 3"),
        (Grade(7, TABLE[:2], (0, 1), num_grades=5), "grade 3"),
    ],
)
def test_stored_queries_of_another_question(wrong: Query, question: str) -> None:
    strategy = PFTS(choices=TABLE, question=question, seed=1)
    strategy.tell(strategy.ask(), None)
    state = json.loads(json.dumps(strategy.state_dict()))
    match = f"open row 0: Query 7, a {wrong.kind} of .* none of `question` '{question}'"
    assert_refused(PFTS, {**state, "open": [wrong.to_json()]}, match)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        (Duel(7, rand(2, 3), (0, 1)), "Query 7 has items of 3 dimensions, but the space 2"),
        (Duel(7, TABLE[:2], (0, 5)), "Query 7 has the row 5 of 5 choices"),
        (Duel(7, TABLE[:2]), "Query 7 has the row None of 5 choices"),
    ],
)
def test_stored_queries_of_another_space(wrong: Query, match: str) -> None:
    state = state_of()
    assert_refused(PFTS, {**state, "open": [wrong.to_json()]}, f"open row 0: {match}")
    assert_refused(PFTS, {**state, "history": [[wrong.to_json(), 1.0]]}, f"history row 0: {match}")


@pytest.mark.parametrize(
    ("entries", "match"),
    [
        ({"next_id": "x"}, "next_id: `next_id` must be a whole number, at least 3, not 'x'"),
        ({"next_id": 2}, "next_id: `next_id` must be a whole number, at least 3, not 2"),
        ({"next_id": True}, "next_id: `next_id` must be"),
        ({"progress": {}}, "progress: entries are missing or unknown: .*'round'"),
        ({"progress": None}, "progress"),
        ({"options": {"speed": 1}}, "options cannot be read: .*'speed'"),
        ({"options": {"seed": 1}}, "options cannot be read: .*'seed'"),
        ({"options": {"kappa": -1.0}}, "options: `kappa`"),
        ({"options": None}, "options cannot be read"),
        ({"seed": "x"}, "options: `seed`"),
        ({"space": {"bounds": [[0.0], [1.0]], "size": 1}}, "space cannot be read: .*'size'"),
        ({"space": None}, "space cannot be read"),
        ({"space": {}}, "space: Give `bounds`, `choices`, or both"),
        ({"history": {}}, "history must be a list"),
        ({"history": [1.0]}, "history row 0 cannot be read"),
        ({"history": [[{}, 1.0]]}, "history row 0: `kind` must be one of"),
        ({"open": None}, "open must be a list"),
        ({"open": [3]}, "open row 0: A query is read from a dictionary"),
    ],
)
def test_entries(entries: dict[str, Any], match: str) -> None:
    assert_refused(PFTS, {**state_of(), **entries}, match)


@pytest.mark.parametrize(
    ("entries", "match"),
    [
        ({"round": "x"}, "`round` must be a whole number, 0 to 9,223,372,036,854,775,808, not 'x'"),
        ({"round": -4}, "`round` must be a whole number, 0 to 9,223,372,036,854,775,808, not -4"),
        ({"num_fitted": "a"}, "`num_fitted` must be"),
        ({"num_fitted": 2}, "`num_fitted` must be a whole number, 0 to 1, not 2"),
        ({"hyperparameters": {"lengthscale": "x"}}, "`hyperparameters` must"),
        ({"hyperparameters": {**FIXED, "lengthscale": [-1.0, 2.0]}}, "`lengthscale` must be"),
    ],
)
def test_entries_of_progress(entries: dict[str, Any], match: str) -> None:
    state = state_of(hyperparameters="evidence")
    assert_refused(
        PFTS, {**state, "progress": {**state["progress"], **entries}}, f"progress: {match}"
    )


def test_an_annotator_has_one_open_query() -> None:
    state = state_of()
    state["open"] *= 2
    assert_refused(PFTS, state, "open row 1: 'ann' has another open query")


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (COBOL, {"num_initial_values": np.int64(3), "noise": np.float32(0.5)}),
        (COBOL, {"threshold": math.inf}),
        (POPBO, {"slack": math.inf}),
        (CostAwareKG, {"bias": np.float64(0.5), "budget": Fraction(41, 2)}),
        (CompGPUCB, {"gamma": Fraction(1, 10), "num_initial_duels": np.int64(4)}),
        (CompGPUCB, {"gamma": math.inf}),
    ],
)
def test_a_state_is_plain_json(kind: type[Strategy], options: dict[str, Any]) -> None:
    """Also of options that are not Python's own numbers."""
    strategy = kind(bounds=LINE, seed=np.int64(3), **options)  # type: ignore[call-arg]
    text = json.dumps(strategy.state_dict(), allow_nan=False)
    read = kind.from_state_dict(json.loads(text))
    assert json.dumps(read.state_dict(), allow_nan=False) == text
    assert torch.equal(read.ask().items, strategy.ask().items)


@pytest.mark.parametrize(("dtype", "most"), [(torch.float64, 1e-9), (torch.float32, 1e-6)])
def test_items_may_be_outside_by_rounding_alone(dtype: torch.dtype, most: float) -> None:
    """By how much, as a share of the range, depends on the type in which they were stored."""
    bounds = torch.tensor([[0.0], [1.0]]).double()
    for part in (0.5 * most, 3.0 * most):
        items = torch.tensor([[0.0], [0.25]], dtype=dtype)
        items[0] -= part
        state = {**RandomPairs(bounds=bounds).state_dict(), "next_id": 1}
        stored = Duel(0, items).to_json()
        for entries in ({"open": [stored]}, {"history": [[stored, 1.0]]}):
            if part < most:
                read = RandomPairs.from_state_dict({**state, **entries})
                assert read.state_dict()["next_id"] == 1
            else:
                match = f"{next(iter(entries))} row 0: Query 0 has the item .* outside"
                assert_refused(RandomPairs, {**state, **entries}, match)
