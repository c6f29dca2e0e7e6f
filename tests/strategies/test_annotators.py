"""Several people answer a strategy, which tells them apart."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import torch

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.likelihoods import LogitLikelihood
from botorch_pref.models import PreferenceGP
from botorch_pref.queries import Duel
from botorch_pref.strategies import PFTS, DuelingKG, RandomPairs
from botorch_pref.study import Study
from tests.contracts.strategy import shorten_searches
from tests.models.common import rand

BOUNDS = torch.tensor([[-1.0, 0.0], [2.0, 5.0]], dtype=torch.float64)
TABLE = BOUNDS[0] + (BOUNDS[1] - BOUNDS[0]) * rand(9, 2)


def play(strategy: Any, number: int, names: tuple[str | None, ...] = ("ann", "bob", None)) -> Any:
    for i in range(number):
        query = strategy.ask(names[i % len(names)])
        strategy.tell(query, float(query.items[0].sum() > query.items[1].sum()))
    return strategy


@pytest.mark.parametrize(
    ("kind", "space"), [(DuelingKG, {"bounds": BOUNDS}), (PFTS, {"choices": TABLE})]
)
def test_people_are_told_apart_and_stored(kind: Any, space: Any, monkeypatch: Any) -> None:
    shorten_searches(monkeypatch)
    strategy = play(kind(seed=1, **space), 8)
    strategy.recommend()
    assert [*strategy.annotators.index] == ["ann", "bob", "typical"]
    again = kind.from_state_dict(json.loads(json.dumps(strategy.state_dict())))
    assert again.learner.effects == strategy.learner.effects != {}
    assert torch.equal(again.ask("ann").items, strategy.ask("ann").items)
    assert torch.equal(again.recommend(), strategy.recommend())
    assert again.annotators.equals(strategy.annotators)


def test_the_model_is_of_pairs_as_they_were_shown() -> None:
    strategy = play(RandomPairs(choices=TABLE, seed=2), 9)
    model, learner = strategy.learner.model(), strategy.learner
    for row, (query, answer) in enumerate(strategy.history):
        order = query.order
        shown = query.items[list(order)]
        assert torch.equal(model.data.datapoints[model.data.pairs[row]], shown)
        assert model.data.wins[row] == (1.0 - answer if order[0] else answer)
        who = -1 if query.annotator is None else ["ann", "bob"].index(query.annotator)
        assert model.data.annotator[row] == who
    assert {done.query.shown for done in strategy.history} == {(0, 1), (1, 0)}
    table = learner.posterior()
    expected = model.posterior(TABLE)
    torch.testing.assert_close(table.mean, expected.mean.squeeze(-1))
    torch.testing.assert_close(table.covariance, expected.covariance_matrix)


def test_the_model_is_of_grades_as_they_were_shown() -> None:
    strategy = RandomPairs(choices=TABLE, seed=2, question="grade 5")
    for i in range(6):
        query = strategy.ask(("ann", "bob")[i % 2])
        strategy.tell(query, float(i % 5))
    [data] = strategy.learner.model().choices
    for row, (query, answer) in enumerate(strategy.history):
        shown = query.items[[*query.shown]]
        assert torch.equal(data.datapoints[data.pairs[row]], shown)
        assert data.grade[row] == (4.0 - answer if query.shown[0] else answer)
    assert {query.shown for query, _ in strategy.history} == {(0, 1), (1, 0)}


@pytest.mark.parametrize("question", ["best of 3", "worst of 3", "rank 3"])
def test_the_model_knows_which_of_several_was_shown_first(question: str) -> None:
    strategy = RandomPairs(choices=TABLE, seed=2, question=question)
    for i in range(8):
        query = strategy.ask(("ann", "bob")[i % 2])
        strategy.tell(query, query.answers[i % len(query.answers)])
    [data] = strategy.learner.model().choices
    first = data.datapoints[data.shown_first]
    for row, (query, answer) in enumerate(strategy.history):
        assert torch.equal(first[row], query.items[query.shown[0]])
        asked = data.datapoints[data.items[row]]
        if question == "best of 3":
            assert torch.equal(asked, query.items[[*query.shown]])
            assert torch.equal(asked[data.favourite[row]], query.items[int(answer)])
        elif question == "worst of 3":
            assert torch.equal(asked[-1], query.items[int(answer)])
        else:
            assert torch.equal(asked, query.items[[*answer]])
    assert len({query.shown[0] for query, _ in strategy.history}) == 3


@pytest.mark.parametrize("question", ["best of 3", "worst of 3", "rank 3", "grade 5"])
def test_people_are_told_apart_by_answers_of_every_kind(question: str, monkeypatch: Any) -> None:
    shorten_searches(monkeypatch)
    strategy = RandomPairs(choices=TABLE, seed=2, question=question)
    for i in range(12):
        query = strategy.ask(("ann", "bob", None)[i % 3])
        chances = query.probabilities(query.items.sum(-1), torch.sigmoid)
        strategy.tell(query, max(chances, key=chances.__getitem__))
    strategy.recommend()
    assert [*strategy.annotators.index] == ["ann", "bob", "typical"]
    assert len(strategy.learner.effects["annotators.log_reliability"]) == 2
    [data] = strategy.learner.model().choices
    assert set(data.annotator.tolist()) <= {0, 1, -1}
    assert strategy.learner.link_of("ann").scale != strategy.learner.link_of("bob").scale
    again = RandomPairs.from_state_dict(json.loads(json.dumps(strategy.state_dict())))
    assert torch.equal(again.ask("ann").items, strategy.ask("ann").items)


def test_one_who_joins_later_is_typical_until_the_next_fit() -> None:
    strategy = play(RandomPairs(choices=TABLE, seed=1), 12)
    strategy.recommend()
    learner, before = strategy.learner, strategy.learner.effects
    assert len(before["annotators.offset"]) == 2
    learner.add(Duel(99, TABLE[:2], (0, 1), "cy"), 1.0)
    effects = learner.model().learnt["annotators"]
    assert effects.offset.tolist() == [*before["annotators.offset"], 0.0]
    assert learner.people == ["ann", "bob", "cy"]


def test_an_unreliable_person_is_found(monkeypatch: Any) -> None:
    shorten_searches(monkeypatch)
    strategy = RandomPairs(choices=TABLE, seed=1)
    for i in range(80):
        name = ("ann", "bob")[i % 2]
        query = strategy.ask(name)
        better = query.items[0].sum() > query.items[1].sum()
        strategy.tell(query, float(better if name == "ann" else i % 4 == 1))
    strategy.recommend()
    table = strategy.annotators
    assert table.loc["ann", "reliability"] > 2.0 * table.loc["bob", "reliability"]


def test_one_person_or_a_published_setting_is_pooled() -> None:
    alone = play(PFTS(choices=TABLE, seed=1), 6, ("ann",))
    paper = play(PFTS.paper(choices=TABLE, seed=1), 6)
    samples = play(RandomPairs(choices=TABLE, seed=1, hyperparameters="samples"), 6)
    for strategy in (alone, paper, samples):
        strategy.recommend()
        assert not strategy.learner.tells_people_apart
        assert strategy.learner.effects == {}
        assert strategy.learner.data.annotator is None
        with pytest.raises(ComparisonDataError, match="annotators"):
            _ = strategy.annotators


@pytest.mark.parametrize(
    "wrong",
    [[0.0], 3, [float("nan"), 0.0], 5 * [0.0], "a"],
)
def test_wrong_stored_people_are_refused(wrong: Any) -> None:
    strategy = play(RandomPairs(choices=TABLE, seed=1), 12)
    strategy.recommend()
    state = copy.deepcopy(strategy.state_dict())
    own, changed = state["progress"]["learnt"], {"annotators.offset": wrong}
    # A list of one is a state that lacks the other entries.
    state["progress"]["learnt"] = changed if wrong == [0.0] else wrong
    if wrong not in ([0.0], 3):
        state["progress"]["learnt"] = {**own, **changed}
    with pytest.raises(ComparisonDataError, match="learnt"):
        RandomPairs.from_state_dict(state)


def test_a_study_shows_what_the_model_takes_for_first(tmp_path: Any) -> None:
    strategy = RandomPairs(choices=TABLE, seed=3)
    with Study.create(tmp_path / "study.json", strategy.space, strategy) as study:
        for name in ("ann", "bob", "ann"):
            query = study.ask(name)
            assert sorted(query.order) == [0, 1]
            study.tell(query, 1.0)
    model = strategy.learner.model()
    assert isinstance(model, PreferenceGP)
    assert isinstance(model.likelihood, LogitLikelihood)
    assert model.data.annotator.tolist() == [0, 1, 0]
