"""Who proposes and who decides, in every baseline; the initial design, silence, the state."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.queries import Evaluate, Label, Query
from botorch_pref.strategies import COBOL, Strategy
from experiments.baselines.expert_baselines import (
    AlternatingExpert,
    CoExBO,
    ExpertBaseline,
    ExpertOverride,
    ExpertSampling,
    RandomValues,
)
from tests.contracts.strategy import StrategyContract
from tests.models.common import rand

BOX = torch.tensor([[-1.0, 0.0], [2.0, 4.0]], dtype=torch.float64)
ALL = (RandomValues, ExpertSampling, ExpertOverride, AlternatingExpert, CoExBO)
Expert = Callable[[Query], float | None]


def value(items: Tensor) -> float:
    """Largest, 0, inside the box."""
    return -float(((items - torch.tensor([0.6, 0.4], dtype=torch.float64)) ** 2).sum())


def never(query: Query) -> float:
    return 0.0


def always(query: Query) -> float:
    return 1.0


def silent(query: Query) -> None:
    return None


def play(strategy: Strategy, steps: int, expert: Expert) -> list[Query]:
    queries = []
    for _ in range(steps):
        query = strategy.ask()
        strategy.tell(query, expert(query) if isinstance(query, Label) else value(query.items))
        queries.append(query)
    return queries


def kinds(queries: list[Query]) -> str:
    return "".join(query.kind[0] for query in queries)


def made(cls: type[ExpertBaseline], **kwargs: Any) -> ExpertBaseline:
    return cls(**{"bounds": BOX, "num_initial_values": 2, "num_initial_labels": 3, **kwargs})


class TestRandomValues(StrategyContract):
    query_type = Evaluate

    def make(self, seed: int = 0) -> RandomValues:
        return RandomValues(choices=rand(12, 2), seed=seed)


@pytest.mark.parametrize("cls", ALL)
def test_the_initial_design_is_that_of_cobol(cls: type[ExpertBaseline]) -> None:
    strategy = made(cls, seed=3)
    start = play(strategy, 5, always)
    cobol = COBOL(bounds=BOX, seed=3, num_initial_values=2, num_initial_labels=3)
    expected = play(cobol, 5, always)
    number = 5 if cls is CoExBO else 2
    assert kinds(start[:number]) == "eelll"[:number]
    for query, same in zip(start[:number], expected, strict=False):
        assert query.items.tolist() == same.items.tolist()
    assert [strategy.is_initial(query) for query in start] == [i < number for i in range(5)]


def test_random_values_ask_nobody() -> None:
    queries = play(made(RandomValues), 6, never)
    assert kinds(queries) == "eeeeee"
    assert len({tuple(query.items.tolist()) for query in queries}) == 6


def test_the_expert_names_what_he_accepts() -> None:
    answers = iter([0.0, None, 1.0, 1.0])
    queries = play(made(ExpertSampling), 8, lambda query: next(answers))
    assert kinds(queries) == "eelllele"
    assert torch.equal(queries[5].items, queries[4].items)
    assert torch.equal(queries[7].items, queries[6].items)
    assert len({tuple(query.items.tolist()) for query in queries}) == 6


def test_an_override() -> None:
    strategy = made(ExpertOverride)
    play(strategy, 2, never)
    proposal = strategy.ask()
    assert isinstance(proposal, Label)
    assert torch.equal(proposal.items, strategy._optimistic(asks=True).item)
    answers = iter([0.0, 0.0, 1.0])
    queries = play(strategy, 4, lambda query: next(answers))
    assert kinds(queries) == "llle"
    assert torch.equal(queries[3].items, queries[2].items)
    assert not torch.equal(queries[1].items, queries[0].items)
    # Nothing was learnt of the rejections, and what is accepted is the machine's.
    queries = play(strategy, 2, always)
    assert kinds(queries) == "le"
    assert strategy.round == 6
    assert strategy.beliefs.labelled == []


def test_turns() -> None:
    strategy = made(AlternatingExpert)
    answers = iter([0.0, 1.0, 1.0])
    queries = play(strategy, 9, lambda query: next(answers))
    assert kinds(queries) == "eelleelee"
    assert torch.equal(queries[4].items, queries[3].items)
    assert torch.equal(queries[7].items, queries[6].items)


def test_the_picks_decay() -> None:
    strategy = made(CoExBO, num_initial_labels=6)
    queries = play(strategy, 8 + 2, lambda query: float(value(query.items) > -1.0))
    assert kinds(queries)[:9] == "eelllllll"
    # What is rejected is not evaluated, but the other one.
    strategy = made(CoExBO, num_initial_labels=6)
    expert = (float(one) for one in (0, 1, 0, 1, 0, 1, 0))
    queries = play(strategy, 10, lambda query: next(expert))
    assert kinds(queries) == "eellllllle"
    assert not torch.equal(queries[9].items, queries[8].items)
    assert torch.equal(queries[9].items, made_again(strategy, 9)._optimistic(asks=False).item)
    assert len(strategy.beliefs.labelled) == 7
    # In time the two candidates coincide.
    weightless = made(CoExBO, trust_weight=0.0)
    assert kinds(play(weightless, 8, always)) == "eellleee"


def made_again(strategy: ExpertBaseline, number: int) -> ExpertBaseline:
    """The strategy, as it was before its query of a number was told."""
    again = type(strategy)(space=strategy.space, seed=strategy.seed, **strategy._options())
    for query, answer in strategy.history[:number]:
        again.tell(again.ask(), answer)
        assert again.history[-1].query == query
    again.round += 1
    return again


@pytest.mark.parametrize("cls", ALL[2:])
def test_without_answers_the_machine_goes_on(cls: type[ExpertBaseline]) -> None:
    strategy = made(cls)
    number = strategy._num_initial
    queries = play(strategy, number + 5, silent)
    later = kinds(queries)[number:]
    # No two questions in a row go without an answer and without an evaluation.
    assert "ll" not in later
    assert later.count("e") >= 2


@pytest.mark.parametrize("cls", ALL)
def test_a_stored_strategy_goes_on(cls: type[ExpertBaseline]) -> None:
    def expert(query: Query) -> float:
        return float(value(query.items) > -4.0)

    strategy = made(cls, choices=rand(20, 2), bounds=None)
    play(strategy, strategy._num_initial + 3, expert)
    text = json.dumps(strategy.state_dict(), allow_nan=False)
    read = cls.from_state_dict(json.loads(text))
    assert play(read, 3, expert) == play(strategy, 3, expert)
    assert read.state_dict() == strategy.state_dict()
    assert strategy.recommend_index() == read.recommend_index()
    best = max(
        (answered for answered in strategy.history if isinstance(answered.query, Evaluate)),
        key=lambda answered: answered.answer or -torch.inf,
    )
    assert torch.equal(strategy.recommend(), best.query.items)


def test_nothing_to_recommend() -> None:
    with pytest.raises(ComparisonDataError, match="Nothing was evaluated yet"):
        made(ExpertSampling).recommend()
