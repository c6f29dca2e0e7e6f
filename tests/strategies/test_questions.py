"""Questions of other kinds than duels: what is asked, and what the model learns of the answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy.stats import kendalltau

from botorch_pref.data import Choices, Grades, Rankings
from botorch_pref.exceptions import ComparisonDataError, StudyError, UnsupportedError
from botorch_pref.queries import Choice, Duel, Grade, Query, Ranking, Worst
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import (
    EUBO,
    MRLPF,
    PFTS,
    POPBO,
    DuelingKG,
    MaxMinLCBStrategy,
    MultipleChoicePOPBO,
    RandomPairs,
)
from botorch_pref.study import Study
from tests.contracts.strategy import shorten_searches
from tests.models.common import rand

TABLE = rand(12, 2)
BOUNDS = torch.tensor([[0.0, -1.0], [1.0, 1.0]], dtype=torch.double)
THREE = torch.tensor([[0.0], [2.0]], dtype=torch.double)
KINDS = [DuelingKG, EUBO, PFTS, RandomPairs]
ON_A_BOX = ["rank 3", "best of 4", "worst of 3", "grade 5"]
QUESTIONS = {"best of 4": Choice, "worst of 3": Worst, "rank 3": Ranking, "grade 5": Grade}


def utility(items: torch.Tensor) -> torch.Tensor:
    return -20.0 * (items - 0.4).square().sum(-1)


def likeliest(query: Query) -> Any:
    chances = query.probabilities(utility(query.items), torch.sigmoid)
    return max(chances, key=chances.__getitem__)


@pytest.mark.parametrize(
    ("kind", "question", "domain"),
    [
        *((kind, question, {"choices": TABLE}) for kind in KINDS for question in QUESTIONS),
        *((*one, {"bounds": BOUNDS}) for one in zip(KINDS, ON_A_BOX, strict=True)),
    ],
)
def test_they_are_asked_and_learnt(
    kind: Any, question: str, domain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten_searches(monkeypatch)
    strategy = kind(question=question, seed=3, **domain)
    number = 2 if "bounds" in domain else 5  # searches of a box take their time
    for _ in range(number):
        query = strategy.ask()
        assert type(query) is QUESTIONS[question]
        assert len(query.items) == strategy.asked.num_items
        assert query.is_plain
        assert len(query.items.unique(dim=0)) == len(query.items)
        strategy.tell(query, likeliest(query))
    strategy.tell(strategy.ask(), None)
    skipped = strategy.history[-1].query
    assert not torch.equal(strategy.ask().items, skipped.items)
    again = kind.from_state_dict(json.loads(json.dumps(strategy.state_dict())))
    assert again.ask() == strategy.ask()
    assert torch.equal(again.recommend(), strategy.recommend())
    (told,) = strategy.learner.told.others
    assert strategy.learner.told.size == number
    for row, (query, answer) in enumerate(strategy.history[:number]):
        if isinstance(told, Choices):
            asked = told.datapoints[told.items[row]]
            assert told.favourite[row] == answer
        elif question == "worst of 3":
            asked = told.datapoints[told.items[row]]
            assert (told.num_best, told.num_worst) == (0, 1)
            others = [i for i in range(3) if i != answer]
            query = Choice(0, query.items[[*others, int(answer)]])
        elif isinstance(told, Rankings):
            asked = told.datapoints[told.items[row]]
            query = Choice(0, query.items[[*answer]])
        else:
            assert isinstance(told, Grades)
            asked = told.datapoints[told.pairs[row]]
            assert told.grade[row] == answer
        assert torch.equal(asked, query.items)


@pytest.mark.parametrize("domain", [{"choices": TABLE}, {"bounds": BOUNDS}])
def test_the_smallest_questions_are_duels(domain: Any) -> None:
    found = []
    for question in ("duel", "best of 2", "worst of 2", "rank 2", "grade 2"):
        strategy = RandomPairs(question=question, seed=5, **domain)
        for _ in range(9):
            query = strategy.ask()
            first = bool(utility(query.items).diff() < 0)
            answers = {Duel: float(first), Choice: float(not first), Grade: float(first)}
            answers[Worst] = float(first)
            best_first = (0, 1) if first else (1, 0)
            strategy.tell(query, best_first if question == "rank 2" else answers[type(query)])
        strategy.learner.refit(at_once=True)
        posterior = strategy.learner.model().posterior(TABLE)
        found.append(torch.cat([posterior.mean, posterior.variance], -1))
    for one in found[1:]:
        torch.testing.assert_close(one, found[0], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_larger_questions_tell_more() -> None:
    """Of the order of all choices, by ten random questions that are answered with noise."""
    truth, judge = utility(TABLE), torch.Generator().manual_seed(1)
    told = {}
    for question in ("duel", "grade 5", "best of 4", "rank 4"):
        taus = []
        for seed in range(10):
            strategy = RandomPairs(choices=TABLE, question=question, seed=seed)
            for _ in range(10):
                query = strategy.ask()
                chances = query.probabilities(utility(query.items), torch.sigmoid)
                drawn = torch.multinomial(torch.tensor([*chances.values()]), 1, generator=judge)
                strategy.tell(query, [*chances][int(drawn)])
            strategy.learner.refit(at_once=True)
            taus.append(kendalltau(strategy.learner.posterior().mean, truth).statistic)
        told[question] = sum(taus) / len(taus)
    assert told["duel"] < told["best of 4"] < told["rank 4"]
    assert told["duel"] < told["grade 5"]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: POPBO(choices=TABLE, question="best of 4"), UnsupportedError, "POPBO asks: a due"),
        (
            lambda: MRLPF(choices=TABLE, horizon=9, question="rank 3"),
            UnsupportedError,
            "MRLPF asks",
        ),
        (
            lambda: MaxMinLCBStrategy(choices=TABLE, question="grade 3"),
            UnsupportedError,
            "MaxMinLCBStrategy asks",
        ),
        (
            lambda: MultipleChoicePOPBO(choices=TABLE, question="best of 6"),
            UnsupportedError,
            "`question` of `num_new` 2 is 'best of 4' alone",
        ),
        (
            lambda: PFTS.paper(choices=TABLE, question="best of 3"),
            UnsupportedError,
            "has no `kappa` or `regularizer`",
        ),
        (
            lambda: DuelingKG(choices=TABLE[:3], question="best of 4"),
            ComparisonDataError,
            "A question of 4 items needs as many different `choices`, not 3",
        ),
        (
            lambda: RandomPairs(space=SearchSpace(THREE, integer=[0]), question="best of 4"),
            ComparisonDataError,
            "A question of 4 items needs as many different items, not 3",
        ),
        (
            lambda: PFTS(choices=TABLE, question="best of 3", on_identical="keep"),
            UnsupportedError,
            '"keep" is of duels',
        ),
        (
            lambda: EUBO(choices=TABLE, question="grade 5", hyperparameters="samples"),
            UnsupportedError,
            'has no `hyperparameters` "samples"',
        ),
        (lambda: EUBO(choices=TABLE, question="best"), ComparisonDataError, "`question` must be"),
    ],
)
def test_questions_that_cannot_be_asked(make: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_many_new_items_of_pop_bo() -> None:
    strategy = MultipleChoicePOPBO(choices=TABLE, num_new=5, seed=0)
    assert len(strategy.ask().items) == 10
    assert strategy.question == "best of 10"


def test_choices_that_hardly_differ_are_asked_about() -> None:
    close = torch.tensor([[1.0], [2.0], [3.0], [4.0], [1e4]], dtype=torch.double)
    strategy = EUBO(choices=close, question="best of 4", seed=0)
    for _ in range(3):
        query = strategy.ask()
        assert len({*query.indices}) == 4
        strategy.tell(query, 0.0)
    assert strategy.learner.told.size == 3


def test_the_order_shown_is_stored_and_changes_nothing_else(tmp_path: Path) -> None:
    space = SearchSpace(choices=TABLE)
    histories = []
    for shuffle in (True, False):
        strategy = PFTS(space=space, question="rank 3", seed=2, shuffle=shuffle)
        with Study.create(tmp_path / f"{shuffle}.json", space, strategy) as study:
            for _ in range(6):
                query = study.ask()
                study.tell(query, likeliest(query))
            found = study.recommend()
        with Study.load(tmp_path / f"{shuffle}.json") as study:
            assert [done.query.shown for done in study.strategy.history] == [
                done.query.shown for done in strategy.history
            ]
            histories.append((study.history, found.item))
    (one, best), (other, same) = histories
    assert torch.equal(best, same)
    assert one.drop(columns=["shown", "told"]).equals(other.drop(columns=["shown", "told"]))
    assert set(other["shown"]) == {"1 2 3"}
    assert len(set(one["shown"])) > 2


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_study_of_such_questions(question: str, tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    with Study.create(path, SearchSpace(choices=TABLE), question=question) as study:
        for _ in range(4):
            query = study.ask()
            study.tell(query, likeliest(query))
        study.skip(study.ask())
        before = study.strategy.state_dict()
        query = study.ask()
        study.tell(query, likeliest(query))
        assert study.undo() == query
    with Study.load(path) as study:
        assert study.strategy.state_dict()["history"] == json.loads(json.dumps(before["history"]))
        assert study.ask() == query
        assert study.history["answer"].isna().tolist() == 4 * [False] + [True]
        assert study.recommend().statement
        assert len(study.history.columns) > 8
    if question == "rank 3":
        first = before["history"][0][1]
        assert study.history["answer"][0] == float("".join(str(i + 1) for i in first))


def test_a_question_is_of_a_strategy_that_is_made(tmp_path: Path) -> None:
    space = SearchSpace(choices=TABLE)
    with pytest.raises(StudyError, match="`question` is of a strategy that is made"):
        Study.create(tmp_path / "a.json", space, PFTS(space=space), question="rank 3")
    with Study.create(tmp_path / "b.json", space, EUBO, question="rank 3") as study:
        assert isinstance(study.strategy, EUBO)
        assert study.strategy.question == "rank 3"


def test_states_of_before_are_read() -> None:
    """Version 2 had no order, no `shuffle` and no `question`, and annotators of its own."""
    strategy = RandomPairs(choices=TABLE, seed=1)
    for i in range(8):
        query = strategy.ask(("ann", "bob")[i % 2])
        strategy.tell(query, likeliest(query))
    strategy.recommend()
    state = json.loads(json.dumps(strategy.state_dict()))
    state["version"] = 2
    for name in ("shuffle", "question"):
        del state["options"][name]
    for entry in state["history"]:
        del entry[0]["order"]
    learnt = state["progress"].pop("learnt")
    prefix = "annotators."
    state["progress"]["annotators"] = {k.removeprefix(prefix): v for k, v in learnt.items()}
    again = RandomPairs.from_state_dict(state)
    assert again.state_dict() == strategy.state_dict()
