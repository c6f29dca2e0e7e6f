"""The ask/tell contract on a strategy that only counts wins."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError, SearchSpaceError, StaleQueryError
from botorch_pref.likelihoods import ProbitLikelihood
from botorch_pref.queries import Answered, Choice, Duel, Query
from botorch_pref.randomness import derive_seed
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import (
    DTS,
    EUBO,
    MRLPF,
    PFTS,
    POPBO,
    LaplacePOPBO,
    MaxMinLCBStrategy,
    RandomPairs,
    Strategy,
    UtilityStrategy,
)
from botorch_pref.strategies.base import Candidate, Pair
from experiments.baselines import SGP
from tests.common import BOX
from tests.contracts.strategy import StrategyContract, play, stored
from tests.models.common import rand
from tests.strategies.common import APART


class RandomDuels(Strategy):
    """Asks two random items; recommends the last winner."""

    def __init__(self, *, tries: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.tries = tries
        self.best = self.space.sample(1, 0)[0]

    def _recommended(self) -> Candidate:
        return Candidate(self.best, None)

    def _choose(self, query_id: int, annotator: str | None) -> Query:
        self.round += self.tries
        seed = derive_seed(self.seed, "pair", self.round, annotator)
        if self.space.choices is None:
            return Duel(query_id, self.space.sample(2, seed), None, annotator)
        generator = torch.Generator().manual_seed(seed)
        first, second = torch.randperm(len(self.space.table), generator=generator)[:2].tolist()
        return Duel(query_id, self.space.table[[first, second]], (first, second), annotator)

    def _learn(self, answered: Answered) -> None:
        if answered.answer is not None:
            self.best = answered.query.items[int(answered.answer < 0.5)]


class TestContractOnABox(StrategyContract):
    def make(self, seed: int = 0) -> RandomDuels:
        return RandomDuels(bounds=torch.tensor([[-1.0, 0.0], [2.0, 3.0]]), seed=seed, tries=2)


class TestContractOnASpace(StrategyContract):
    def make(self, seed: int = 0) -> RandomDuels:
        space = SearchSpace(torch.tensor([[0.0] * 2, [5.0] * 2]), rand(7, 2))
        return RandomDuels(space=space, seed=seed)


@dataclass  # as an outsider may write it
class Incumbents(UtilityStrategy):
    """The incumbent against the item of the largest variance."""

    power: float = 1.0

    def _pair(self, annotator: str | None) -> Pair:
        posterior = self._posterior()
        first = self._best_row(posterior.mean, "tie of the first arm")
        values = posterior.covariance.diagonal() ** self.power
        values[first] = -torch.inf
        return self._rows(first, self._best_row(self._unbarred(values, first)))


class TestContractOfAnOutsider(StrategyContract):
    def make(self, seed: int = 0) -> Incumbents:
        return Incumbents(choices=rand(9, 2), hyperparameters=APART, seed=seed, power=2.0)

    def test_its_options_are_stored(self) -> None:
        assert stored(self.make()).power == 2.0  # type: ignore[attr-defined]


def test_asked_items() -> None:
    strategy = RandomDuels(bounds=BOX)
    assert strategy.asked_items().shape == (0, 2)
    queries = play(strategy, 3)
    strategy.ask()
    assert torch.equal(strategy.asked_items(), torch.cat([query.items for query in queries]))


def test_an_answer_that_cannot_be_learnt_is_not_recorded() -> None:
    class Broken(RandomDuels):
        def _learn(self, answered: Answered) -> None:
            raise RuntimeError("no room")

    strategy = Broken(choices=rand(4, 2))
    query = strategy.ask()
    with pytest.raises(RuntimeError, match="no room"):
        strategy.tell(query, 1.0)
    assert strategy.history == []
    assert strategy.ask() is query


def test_a_question_is_handed_to_another_and_asked_again() -> None:
    strategy = RandomDuels(bounds=BOX, seed=1)
    ahead, other = strategy.ask("next 1"), strategy.ask("next 2")
    own = strategy.hand(ahead, "ann")
    assert (own.id, own.annotator) == (ahead.id, "ann")
    assert strategy.ask("ann") is own
    with pytest.raises(StaleQueryError, match="'ann' has another open query"):
        strategy.hand(other, "ann")
    strategy.tell(own, 1.0)
    with pytest.raises(StaleQueryError, match=f"{ahead.id} of 'ann' was already told"):
        strategy.hand(ahead, "ann")
    strategy.tell(strategy.hand(ahead, "bob"), 0.0)  # a second opinion of the same question
    assert [(q.id, q.annotator, a) for q, a in strategy.history] == [(0, "ann", 1), (0, "bob", 0)]
    assert strategy.ask("next 1").id == 2
    assert strategy.ask("next 2") is other
    moved = Duel(other.id, other.items + 0.1)
    for unknown in (moved, Duel(9, other.items)):
        with pytest.raises(StaleQueryError, match="not known"):
            strategy.hand(unknown, "cid")
    assert stored(strategy).state_dict() == strategy.state_dict()


def test_domains_that_are_none() -> None:
    with pytest.raises(SearchSpaceError):
        RandomDuels()
    with pytest.raises(ComparisonDataError, match="`space` must be a SearchSpace"):
        RandomDuels(space=BOX)


def test_state_names_everything() -> None:
    strategy = RandomDuels(choices=rand(4, 2), seed=5)
    (query,) = play(strategy, 1)
    waiting = strategy.ask("ann")
    assert strategy.state_dict() == {
        "strategy": "RandomDuels",
        "version": 3,
        "space": strategy.space.state_dict(),
        "seed": 5,
        "options": {"tries": 1, "shuffle": True},
        "history": [[query.to_json(), strategy.history[0].answer]],
        "open": [waiting.to_json()],
        "next_id": 2,
        "progress": {"round": 2},
    }


def test_answers_to_a_choice() -> None:
    class Favourites(RandomDuels):
        def _choose(self, query_id: int, annotator: str | None) -> Choice:
            items = self.space.sample(3, derive_seed(self.seed, "pair", query_id))
            return Choice(query_id, items, None, annotator)

        def _learn(self, answered: Answered) -> None:
            if answered.answer is not None:
                self.best = answered.query.items[int(answered.answer)]

    strategy = Favourites(bounds=BOX)
    for wrong in (-1, 3, 0.5, float("nan"), float("inf"), "1", torch.zeros(2), "first"):
        with pytest.raises(ComparisonDataError, match="favourite, a whole number from 0 to 2"):
            strategy.tell(strategy.ask(), wrong)  # type: ignore[arg-type]
    for told in (0, 2.0, torch.tensor(1), None):
        query = strategy.ask()
        strategy.tell(query, told)  # type: ignore[arg-type]
        assert strategy.history[-1].answer == told
        if told is not None:
            assert torch.equal(strategy.recommend(), query.items[int(told)].double())
    assert strategy.num_answers == 3
    assert strategy.asked_items().shape == (12, 2)


@pytest.mark.usefixtures("short_searches")
@pytest.mark.parametrize("kind", [EUBO, MaxMinLCBStrategy, PFTS])
@pytest.mark.parametrize("domain", [{"choices": rand(6, 2)}, {"bounds": BOX}])
def test_what_was_skipped_is_not_asked_again_at_once(
    kind: Callable[..., Strategy], domain: dict[str, Tensor]
) -> None:
    strategy = kind(**domain, seed=1)
    for answer in (1.0, 0.0, 1.0):
        strategy.tell(strategy.ask(), answer)
    pairs = []
    for _ in range(3):
        query = strategy.ask()
        pairs.append(query.items.unique(dim=0))
        strategy.tell(query, None)
    assert all((a - b).abs().max() > 1e-6 for a, b in itertools.combinations(pairs, 2))


@pytest.mark.parametrize("kind", [PFTS, RandomPairs])
def test_draws_do_not_bring_back_what_was_skipped(kind: Callable[..., Strategy]) -> None:
    """Of three items there are three pairs, whatever the posterior favours."""
    for seed in range(2):
        strategy = kind(choices=rand(3, 2), seed=seed)
        for _ in range(4):
            strategy.tell(strategy.ask(), 1.0)
        pairs = set()
        for _ in range(3):
            query = strategy.ask()
            pairs.add(frozenset(map(tuple, query.items.tolist())))
            strategy.tell(query, None)
        assert len(pairs) == 3


def test_a_failed_ask_counts_no_round() -> None:
    strategy = MRLPF(choices=rand(8, 2), horizon=20)
    for _ in range(3):
        strategy.tell(strategy.ask(), 1.0)
    with pytest.raises(ComparisonDataError, match="`annotator` must be a string"):
        strategy.ask(3)  # type: ignore[arg-type]
    for _ in range(17):
        strategy.tell(strategy.ask(), 1.0)
    assert strategy.num_answers == 20


def test_a_recommendation_where_all_was_skipped() -> None:
    strategy = MRLPF(bounds=BOX, horizon=20)
    strategy.tell(strategy.ask(), None)
    assert strategy.space.contains(strategy.recommend())


@pytest.mark.parametrize("kind", [EUBO, DTS, SGP, POPBO, MaxMinLCBStrategy])
def test_an_item_meets_another_where_two_are_all(kind: Callable[..., Strategy]) -> None:
    space = SearchSpace(torch.tensor([[0.0], [1.0]], dtype=torch.float64), integer=[0])
    strategy = kind(space=space)
    for annotator in ("ann", "bob", "eve"):
        first, second = strategy.ask(annotator).items
        assert not torch.equal(first, second)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (PFTS, {"scale": "paper", "kappa": 3.0}),
        (PFTS, {"scale": 0.7, "on_identical": "keep", "regularizer": "theta"}),
        (EUBO, {"anchor": "incumbent", "kappa": 3.0}),
        (DTS, {"kappa": 3.0, "regularizer": "theta", "likelihood": ProbitLikelihood(2.0)}),
        (MaxMinLCBStrategy, {"beta": 0.7, "candidate_filter": False, "diagonal": "keep"}),
        (LaplacePOPBO, {"beta": 0.7, "exclude_identical": False}),
        (POPBO, {"slack": {"rule": "sqrt", "scale": 0.5, "offset": 1.0, "times_bound": False}}),
        (POPBO, {"report": "min-sigma", "value_bound": 3.0, "adapt_norm_bound": False}),
        (MRLPF, {"horizon": 30, "kappa": 3.0, "beta": 0.5}),
        (MRLPF, {"horizon": 30, "ci_scale": "probability", "regularizer": "theta"}),
        (MRLPF, {"horizon": 30, "recommendation": "last_round", "epsilon": 0.01}),
    ],
)
def test_a_state_keeps_every_option(kind: type[Strategy], options: dict[str, Any]) -> None:
    fixed = {"kernel": "matern", "lengthscale": [0.2, 0.5], "penalty": 0.1}
    strategy = kind(choices=rand(6, 2), seed=7, hyperparameters=fixed, **options)
    play(strategy, 4)
    read = stored(strategy)
    assert read.state_dict() == strategy.state_dict()
    for name, value in options.items():
        kept = getattr(read, name)
        assert kept.scale == value.scale if name == "likelihood" else kept == value
    assert (read.seed, read.round) == (7, strategy.round)
    assert read.learner.penalty == strategy.learner.penalty == pytest.approx(0.1)  # type: ignore[attr-defined]
