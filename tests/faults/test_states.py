"""Stored states that were altered: they are refused with the entry's name, or they work."""

from __future__ import annotations

import copy
import json
import random
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any

import torch

from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.queries import Query
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import (
    COBOHL,
    COBOL,
    DTS,
    EUBO,
    MRLPF,
    PFTS,
    POPBO,
    CompGPUCB,
    CostAwareKG,
    DuelingKG,
    LaplacePOPBO,
    MaxMinLCBStrategy,
    MultipleChoicePOPBO,
    RandomPairs,
    Strategy,
)
from experiments.baselines import GPTS, MFGPUCB, SGP, CoExBO, KernelSelfSparring
from tests.faults.common import Campaign
from tests.models.common import rand

BOX = {"space": SearchSpace(torch.tensor([[0.0, -2.0], [1.0, 3.0]]).double())}
MIXED = {
    "space": SearchSpace(
        torch.tensor([[0.0, 1.0, 1e-3, 0.0], [1.0, 5.0, 1.0, 2.0]]).double(),
        integer=[1],
        log=[2],
        categorical=[3],
    )
}
TABLE = {"choices": rand(8, 2)}
FEW = {"num_initial_duels": 2, "num_initial_values": 2, "budget": 50}
SUBJECTS: dict[str, tuple[Any, dict[str, Any], int]] = {
    "PFTS": (PFTS, {**BOX, "scale": "paper"}, 5),
    "PFTS, a table": (PFTS, {**TABLE, "question": "rank 3"}, 5),
    "EUBO": (EUBO, MIXED, 4),
    "EUBO, a table": (EUBO, {**TABLE, "own_utilities": True, "anchor": "incumbent"}, 5),
    "DTS, samples": (DTS, {**TABLE, "hyperparameters": "samples"}, 4),
    "DuelingKG": (DuelingKG, {**BOX, "prices": {"a": 1.0, "b": 0.1}}, 12),
    "DuelingKG, a table": (DuelingKG, {**TABLE, "question": "grade 5"}, 5),
    "MRLPF": (MRLPF, {**BOX, "horizon": 12}, 8),
    "MRLPF, a table": (MRLPF, {**TABLE, "horizon": 12}, 8),
    "MaxMinLCB": (MaxMinLCBStrategy, TABLE, 4),
    "RandomPairs": (RandomPairs, MIXED, 4),
    "POPBO": (POPBO, TABLE, 4),
    "POPBO, a box": (POPBO, BOX, 3),
    "MultipleChoicePOPBO": (MultipleChoicePOPBO, TABLE, 4),
    "LaplacePOPBO": (LaplacePOPBO, TABLE, 4),
    "COBOL": (COBOL, {**TABLE, "num_initial_labels": 2}, 8),
    "COBOL, a box": (COBOL, {**BOX, "num_initial_labels": 2, "feedback": "compare"}, 7),
    "COBOHL": (COBOHL, {**TABLE, "num_initial_labels": 2}, 7),
    "CompGPUCB": (CompGPUCB, {**TABLE, **FEW}, 8),
    "CostAwareKG": (CostAwareKG, {**TABLE, **FEW}, 6),
    "SGP": (SGP, TABLE, 4),
    "GPTS": (GPTS, TABLE, 4),
    "MFGPUCB": (MFGPUCB, {**BOX, **FEW}, 7),
    "CoExBO": (CoExBO, {**TABLE, "num_initial_labels": 2}, 8),
    "KernelSelfSparring": (KernelSelfSparring, {**TABLE, **FEW}, 5),
}
NUMBERS = (
    *(0, 1, -1, 2, 7, 2**31, 2**53, 2**63, 2**64, 10**30, -(10**30), 10**400),
    *(0.0, -0.0, 0.5, -0.5, 1.0, 2.0, 1e-3, 1e-9, 1e-30, 1e-160, 5e-324, 1e9, 1e30, 1e160),
    *(1.7e308, -1e9, -1e30, -1.7e308, float("nan"), float("inf"), -float("inf")),
)
OTHERS: tuple[Any, ...] = (
    None,
    True,
    False,
    "",
    "x",
    "nan",
    "inf",
    "-1",
    "1e400",
    "1/0",
    [],
    {},
    [[]],
    [None],
)
OTHERS += ("1/0", [], {}, [[]], [None])
OTHERS += ({"": 0}, [1.0], [0, 1], {"x": 1}, "evidence", "samples", "laplace", "matern", "value")
WEIGHTS = {"options": 5, "history": 3, "open": 2, "progress": 5, "space": 2, "seed": 0.5}
WEIGHTS |= {"next_id": 0.5, "version": 0.1, "strategy": 0.1}


@cache
def stored(name: str) -> str:
    """The state of a strategy with answers, a skip and an open query, as JSON."""
    kind, options, number = SUBJECTS[name]
    strategy: Strategy = kind(**options, seed=3)
    people = ("a", "b") if options.get("prices") or options.get("own_utilities") else (None,)
    for step in range(number):
        query = strategy.ask(people[step % len(people)])
        strategy.tell(query, answer(query, step))
    strategy.tell(strategy.ask(people[0]), None)
    strategy.ask(people[-1] or "ann")
    return json.dumps(strategy.state_dict(), allow_nan=False)


def answer(query: Query, step: int) -> Any:
    return 0.5 + float(query.rows.sum()) if query.measures else (query.answers or ())[step % 2]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to all entries of a tree."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, below in pairs:
        yield (*path, key)
        if isinstance(below, dict | list):
            yield from places(below, (*path, key))


def altered(state: Any, draw: random.Random) -> str:
    """Change one entry; parts are chosen first, so that history does not take all."""
    part = draw.choices([*WEIGHTS], [*WEIGHTS.values()])[0]
    own = state[part]
    paths = [(part, *path) for path in places(own)] if isinstance(own, dict | list) else []
    path = draw.choice(paths) if paths and draw.random() < 0.95 else (part,)
    owner = state
    for key in path[:-1]:
        owner = owner[key]
    key, value = path[-1], owner[path[-1]]
    way = draw.randrange(14)
    if way == 0:
        del owner[key]
    elif way == 1 and isinstance(owner, dict):
        owner[draw.choice(["more", "", "seed", "space"])] = draw.choice(OTHERS)
    elif way == 1:
        owner.insert(draw.randrange(len(owner) + 1), copy.deepcopy(draw.choice(owner)))
    elif way == 2:
        for _ in range(draw.choice([1, 1, 2, 70, 3000])):
            value = [value] if draw.random() < 0.5 else {"x": value}
        owner[key] = value
    elif way == 3:
        owner[key] = copy.deepcopy(draw.choice([*OTHERS]))
    elif way == 4 and isinstance(owner, list):
        draw.shuffle(owner)
    elif way == 5 and isinstance(owner, dict):
        other = draw.choice([*owner])
        owner[key], owner[other] = owner[other], owner[key]
    elif way == 6 and isinstance(value, list) and value:
        owner[key] = draw.choice([value[:-1], value * 2, value[::-1]])
    elif way in (7, 8) and isinstance(value, int | float):
        owner[key] = value * draw.choice([-1, 0.5, 2, 10, 1e6]) + draw.choice([0, 0, 1, 1e-9])
    else:
        owner[key] = draw.choice(NUMBERS)
    return f"{path}, way {way}, {'nested' if way == 2 else str(owner)[:80]}"


def trial(name: str, state: Any) -> str:
    """Refused, or read: then it asks something of its space, and is written as JSON again."""
    kind = SUBJECTS[name][0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            strategy: Strategy = kind.from_state_dict(state)
        except ComparisonDataError as error:
            if not str(error).startswith("`state` "):
                raise RuntimeError("It does not name the entry.") from error
            return "refused"
        json.dumps(strategy.state_dict(), allow_nan=False)
        try:
            query = strategy.ask()
        except UnsupportedError as error:
            if getattr(strategy, "finished", False) or "waits for the answers" in str(error):
                return "finished"
            raise
        assert bool(strategy.space.contains(query.rows.to(strategy.space.bounds)).all())
        json.dumps(strategy.state_dict(), allow_nan=False)
    return "works"


def campaign(number: int, seed: int, subjects: dict[str, Any] = SUBJECTS) -> Campaign:
    found, draw, names = Campaign(), random.Random(seed), [*subjects]
    for i in range(number):
        name = names[i % len(names)]
        state = json.loads(stored(name))
        what = []
        for _ in range(draw.choice([1, 1, 1, 2, 3])):
            with suppress(RecursionError, OverflowError, LookupError):  # of what was altered before
                what.append(altered(state, draw))
        found.run(name, what, lambda name=name, state=state: trial(name, state))
    return found


def test_altered_states() -> None:
    names = "PFTS, a table", "POPBO", "DuelingKG"
    campaign(60, 1, {name: SUBJECTS[name] for name in names}).check()
