"""What every ask/tell strategy owes its caller."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import random
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import pytest
import torch
from botorch.acquisition import AcquisitionFunction
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError, StaleQueryError, UnsupportedError
from botorch_pref.queries import Duel, Evaluate, Query
from botorch_pref.space import Maximum, SearchSpace
from botorch_pref.strategies import Strategy
from tests.contracts.generators import global_states

SKIP, TIE = None, 0.5


def answer(query: Query) -> float:
    """A judge that likes large items, wherever they stand, and values them by their size."""
    if isinstance(query, Evaluate):
        return float(query.items.sum())
    first, second = query.items.sum(-1).tolist()
    return float(first > second)


def play(strategy: Strategy, num_duels: int, annotator: str | None = None) -> list[Any]:
    """Ask and answer, with a tie and a skip now and then."""
    queries = []
    for step in range(num_duels):
        query = strategy.ask(annotator)
        strategy.tell(query, {3: TIE, 4: SKIP}.get(step % 6, answer(query)))
        queries.append(query)
    return queries


def stored(strategy: Strategy) -> Strategy:
    """The strategy, written as JSON text and read again."""
    text = json.dumps(strategy.state_dict(), allow_nan=False)
    return type(strategy).from_state_dict(json.loads(text))


class StrategyContract(ABC):
    """Subclass, name ``Test...`` and say how to make the strategy."""

    name = ""  # of a strategy, where a fixture makes the class's tests for several
    num_duels = 7
    query_type: type[Query] = Duel
    required: ClassVar[dict[str, Any]] = {}  # arguments without a default
    _played: ClassVar[dict[Any, tuple[Strategy, list[Any]]]] = {}

    @abstractmethod
    def make(self, seed: int = 0) -> Strategy:
        """A strategy without data."""

    def played(self) -> tuple[Strategy, list[Any]]:
        """A strategy with ``num_duels`` answers and its queries; played once, then copied."""
        key = type(self), self.name
        if key not in self._played:
            strategy = self.make()
            self._played[key] = strategy, play(strategy, self.num_duels)
        return copy.deepcopy(self._played[key])

    def test_a_query_is_of_the_space(self) -> None:
        strategy, queries = self.played()
        space = strategy.space
        for query in queries:
            assert type(query) is self.query_type
            assert query.rows.shape == (1 + (self.query_type is Duel), space.dim)
            assert query.items.dtype == torch.float64
            assert space.contains(query.items).all()
            assert (query.indices is None) == (space.choices is None)
            if space.choices is not None:
                assert torch.equal(query.rows, space.choices[list(query.row_indices)])

    def test_annotators_have_queries_of_their_own(self) -> None:
        strategy = self.make()
        queries = {name: strategy.ask(name) for name in (None, "ann", "bob")}
        for name, query in queries.items():
            assert query.annotator == name
            assert strategy.ask(name) is query
        assert len({query.id for query in queries.values()}) == 3
        for name, told in (("bob", 0.0), (None, SKIP)):
            strategy.tell(queries[name], told)
            assert strategy.history[-1] == (queries[name], told)
        assert strategy.ask("ann") is queries["ann"]
        assert strategy.ask("bob").id != queries["bob"].id
        strategy.tell(queries["ann"], 0.5)
        assert [done.query.annotator for done in strategy.history] == ["bob", None, "ann"]
        assert strategy.num_answers == 2
        with pytest.raises(ComparisonDataError, match="`annotator`"):
            strategy.ask(3)  # type: ignore[arg-type]

    def test_stale_queries(self) -> None:
        strategy, other = self.make(), self.make(seed=1)
        told = strategy.ask()
        strategy.tell(told, 1.0)
        query = strategy.ask("ann")
        foreign = other.ask("ann")
        before = json.dumps(strategy.state_dict())
        with pytest.raises(StaleQueryError, match=f"{told.id} .*already told"):
            strategy.tell(told, 1.0)
        moved = dataclasses.replace(query, items=query.items.flip(0) + 1e-9)
        for unknown in (
            foreign,
            moved,
            dataclasses.replace(query, id=query.id + 1),
            dataclasses.replace(query, annotator="bob"),
            dataclasses.replace(query, annotator=None),
        ):
            with pytest.raises(StaleQueryError, match="not open"):
                strategy.tell(unknown, 1.0)
        assert json.dumps(strategy.state_dict()) == before
        copy = Query.from_json(json.loads(json.dumps(query.to_json())))
        strategy.tell(copy, 1.0)
        assert strategy.num_answers == 2

    def test_an_invalid_answer_keeps_the_query_open(self) -> None:
        strategy = self.make()
        query = strategy.ask()
        before = json.dumps(strategy.state_dict())
        values = [2, -1, 0.25] if self.query_type is Evaluate else []  # any finite number is one
        for wrong in (2, -1, 0.25, math.nan, math.inf, "1", [1], 1j):
            if wrong in values:
                continue
            with pytest.raises(ComparisonDataError, match=f"`answer` to query {query.id}"):
                strategy.tell(query, wrong)  # type: ignore[arg-type]
            assert json.dumps(strategy.state_dict()) == before, wrong
            assert strategy.ask() is query, wrong
        for right in (1, *values):
            strategy.tell(strategy.ask(), right)
            assert strategy.history[-1].answer == right

    def test_another_seed_asks_others(self) -> None:
        _, one = self.played()
        other = play(self.make(4), self.num_duels)
        assert [query.items.tolist() for query in one] != [query.items.tolist() for query in other]

    def test_global_generators_are_left_alone(self) -> None:
        strategy = self.make()
        torch.manual_seed(0)
        states = global_states()
        one = play(strategy, 2)
        strategy.recommend()
        assert global_states() == states
        torch.manual_seed(1)
        random.seed(1)
        assert play(self.make(), 2) == one

    def test_resumes_with_open_queries(self) -> None:
        strategy = self.make()
        play(strategy, 1, "ann")
        queries = {name: strategy.ask(name) for name in ("bob", None)}
        strategy.tell(queries["bob"], 1.0)
        queries["bob"] = strategy.ask("bob")
        read = stored(strategy)
        for name, query in queries.items():
            assert read.ask(name) == query
            for side in (strategy, read):
                side.tell(query, 0.0)
        assert read.ask("ann") == strategy.ask("ann")

    def test_resumed_at_every_step_is_the_same_trajectory(self) -> None:
        (steady, queries), broken = self.played(), self.make()
        for query in queries:
            broken = stored(broken)
            assert broken.ask() == query
            broken = stored(broken)
            broken.tell(query, {3: TIE, 4: SKIP}.get(query.id % 6, answer(query)))
        broken = stored(broken)
        assert broken.state_dict() == steady.state_dict()
        assert broken.num_answers == steady.num_answers
        assert torch.equal(broken.recommend(), steady.recommend())
        assert play(broken, 2) == play(steady, 2)

    def test_a_state_is_a_snapshot(self) -> None:
        strategy = self.make()
        play(strategy, 1)
        cls, state = type(strategy), strategy.state_dict()
        text = json.dumps(state)
        for one in (strategy, cls.from_state_dict(state)):
            play(one, 1)
            assert json.dumps(state) == text
        for wrong in ({**state, "strategy": "Other"}, {**state, "version": 99}, {}):
            with pytest.raises(ComparisonDataError, match="`state`"):
                cls.from_state_dict(wrong)

    def test_recommends_an_item_of_the_space(self) -> None:
        strategy, _ = self.played()
        item: Tensor = strategy.recommend()
        assert item.shape == (strategy.space.dim,)
        assert not item.requires_grad
        assert strategy.space.contains(item).all()
        query = strategy.ask()
        assert torch.equal(strategy.recommend(), item)
        assert strategy.ask() is query

    def test_the_domain_is_given_once(self) -> None:
        cls, space = type(self.make()), self.make().space
        with pytest.raises((ComparisonDataError, UnsupportedError), match="`space`"):
            cls(space=space, bounds=space.bounds, **self.required)


def shorten_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches of a box end after a few steps."""
    full = SearchSpace.maximize

    def short(space: SearchSpace, rule: AcquisitionFunction, **kwargs: Any) -> Maximum:
        fewer = min(8, kwargs.pop("raw_samples", 8))
        options = {**(kwargs.pop("options", None) or {}), "maxiter": 2}
        return full(space, rule, raw_samples=fewer, options=options, **kwargs)

    monkeypatch.setattr(SearchSpace, "maximize", short)


class BoxContract(StrategyContract):
    """On a box, with searches cut short: none of the promises depends on how far they go."""

    num_duels = 2

    @pytest.fixture(autouse=True)
    def _short_searches(self, monkeypatch: pytest.MonkeyPatch) -> None:
        shorten_searches(monkeypatch)
