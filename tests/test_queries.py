import copy
import json
import math
import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.likelihoods import LogitLikelihood, ProbitLikelihood
from botorch_pref.queries import (
    Answered,
    Choice,
    Duel,
    Evaluate,
    Grade,
    Label,
    Query,
    Question,
    Ranking,
    Worst,
    shown_order,
)

PAIR = torch.tensor([[0.1, 0.2], [0.3, 1 / 3]], dtype=torch.float64)
QUERIES: list[Query] = [
    Duel(0, PAIR),
    Duel(7, PAIR, (3, 1), "ann"),
    Duel(8, PAIR[[0, 0]], (3, 3)),
    Label(1, PAIR[0]),
    Label(2, PAIR[1], 4, "bob"),
    Evaluate(3, PAIR[0]),
    Evaluate(4, PAIR[1].float(), 0, ""),
    Choice(5, PAIR),
    Choice(6, PAIR[[0, 1, 0]].float(), (3, 1, 3), "ann"),
    Worst(11, PAIR[[0, 1, 0]], (3, 1, 2)),
    Ranking(9, PAIR[[0, 1, 0]], (3, 1, 2), None, (2, 0, 1)),
    Grade(10, PAIR, (3, 1), "ann", (1, 0), num_grades=7),
]


@pytest.mark.parametrize("query", QUERIES)
def test_json_round_trip(query: Query) -> None:
    written = json.loads(json.dumps(query.to_json()))
    for reader in (type(query), Query):
        read = reader.from_json(written)
        assert type(read) is type(query)
        assert read == query
        assert hash(read) == hash(query)
        assert read.items.dtype == query.items.dtype
        assert read.indices == query.indices
        assert isinstance(read.indices, type(query.indices))
    assert copy.deepcopy(query) == query
    assert pickle.loads(pickle.dumps(query)) == query


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5),
    st.sampled_from([torch.float64, torch.float32]),
)
def test_floats_are_read_back_exactly(values: list[float], dtype: torch.dtype) -> None:
    items = torch.tensor(values, dtype=torch.float64).clamp(-1e38, 1e38).to(dtype)
    read = Label.from_json(json.loads(json.dumps(Label(0, items).to_json())))
    assert read.items.dtype == dtype
    assert torch.equal(read.items, items)
    assert torch.equal(read.items.signbit(), items.signbit())


def test_equality_and_hash() -> None:
    duel = Duel(1, PAIR, (0, 1), "ann")
    others = [
        Duel(2, PAIR, (0, 1), "ann"),
        Duel(1, PAIR.flip(0), (0, 1), "ann"),
        Duel(1, PAIR, (1, 0), "ann"),
        Duel(1, PAIR, (0, 1)),
        Duel(1, PAIR.float().double().float(), (0, 1), "ann"),
        Label(1, PAIR[0]),
    ]
    assert duel == Duel(1, PAIR.clone(), (0, 1), "ann")
    assert all(duel != other for other in others)
    assert Label(1, PAIR[0]) != Evaluate(1, PAIR[0])
    assert Choice(1, PAIR, (0, 1), "ann") != duel
    assert duel != "duel"
    assert len({duel, Duel(1, PAIR, (0, 1), "ann"), *others}) == 1 + len(others)


def test_a_query_is_frozen_and_owns_its_items() -> None:
    items = PAIR.clone().requires_grad_()
    duel = Duel(0, items)
    with pytest.raises(FrozenInstanceError):
        duel.id = 1  # type: ignore[misc]
    with torch.no_grad():
        items.zero_()
    assert torch.equal(duel.items, PAIR)
    assert not duel.items.requires_grad


@pytest.mark.parametrize(
    ("kind", "items", "message"),
    [
        (Duel, PAIR[0], r"`items` must have shape 2 x d, but has shape \(2,\)"),
        (Duel, PAIR[[0, 0, 1]], r"`items` must have shape 2 x d"),
        (Label, PAIR, r"`items` must have shape d, but has shape \(2, 2\)"),
        (Evaluate, PAIR, r"`items` must have shape d"),
        (Choice, PAIR[0], r"`items` must have shape k x d, but has shape \(2,\)"),
        (Choice, PAIR[:1], r"`items` of a choice are at least 2, not 1"),
        (Label, [0.1], r"`items` must be a tensor, not list"),
        (Duel, PAIR[:, :0], r"`items` must be floating point of at least one dimension"),
        (Duel, PAIR.long(), r"`items` must be floating point .* torch.int64"),
        (Duel, PAIR.log10() / 0.0, r"`items` row 0 is \[-inf, -inf\]: NaN or infinite"),
        (Label, PAIR[0] * float("nan"), r"`items` row 0 is \[nan, nan\]"),
    ],
)
def test_items_are_checked(kind: type[Any], items: Tensor, message: str) -> None:
    with pytest.raises(ComparisonDataError, match=message):
        kind(0, items)


def test_other_arguments_are_checked() -> None:
    wrong = {
        (Duel, PAIR): (3, (1,), (1, 2, 3), [1, 2], (1, -2), (1.0, 2)),
        (Choice, PAIR): (1, (1,), (1, 2, 3), (0, -1)),
        (Label, PAIR[0]): ((1, 2), -1, True),
        (Evaluate, PAIR[0]): (1.5,),
    }
    for (kind, items), indices in wrong.items():
        for each in indices:
            with pytest.raises(ComparisonDataError, match="`indices` must be"):
                kind(0, items, each)
    for number in (-1, True, 1.0, "1", None):
        with pytest.raises(ComparisonDataError, match="`id` must be a whole number"):
            Duel(number, PAIR)  # type: ignore[arg-type]
    with pytest.raises(ComparisonDataError, match="`annotator` must be a string, not 3"):
        Duel(0, PAIR, None, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "label"}, r"`kind` must be one of \['duel'\], not 'label'"),
        ({"kind": ["duel"]}, r"`kind` must be one of"),
        ({"dtype": "int64"}, r"`dtype` must be in .* not 'int64'"),
        ({"items": [[0.1], [0.2, 0.3]]}, r"`items` cannot be read"),
        ({"items": None}, r"`items` cannot be read"),
        ({"items": [["a"], ["b"]]}, r"`items` cannot be read"),
        ({"items": [[10**400], [0.0]]}, r"`items` cannot be read"),
        ({"items": [[0.1], [float("nan")]]}, r"`items` row 1 is \[nan\]"),
        ({"id": "0"}, r"`id` must be a whole number"),
        ({"indices": [0, "1"]}, r"`indices` must be a tuple of 2 indices"),
        ({"colour": 1}, r"unknown entries of a query: \['colour'\]"),
    ],
)
def test_foreign_json_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ComparisonDataError, match=message):
        Duel.from_json(Duel(0, PAIR).to_json() | change)


def test_json_of_another_form_is_refused() -> None:
    written = Duel(0, PAIR).to_json()
    del written["items"]
    with pytest.raises(ComparisonDataError, match=r"Missing .* \['items'\]"):
        Query.from_json(written)
    with pytest.raises(ComparisonDataError, match="read from a dictionary"):
        Query.from_json([])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("query", "words", "answers"),
    [
        (Duel(0, PAIR), "1 2 = 3 y", [1.0, 0.0, 0.5]),
        (Choice(0, PAIR[[0, 1, 0]]), "1 2 3 4 0 -1 1.0 " + 5000 * "1", [0.0, 1.0, 2.0]),
        (Duel(0, PAIR, order=(1, 0)), "2 1 =", [1.0, 0.0, 0.5]),
        (Choice(0, PAIR[[0, 1, 0]], order=(2, 0, 1)), "2 3 1", [0.0, 1.0, 2.0]),
        (Grade(0, PAIR, num_grades=3), "3 2 1 0 4 = x " + 5000 * "1", [0.0, 1.0, 2.0]),
        (Grade(0, PAIR, order=(1, 0), num_grades=4), "1 2 3 4", [0.0, 1.0, 2.0, 3.0]),
        (Ranking(0, PAIR), "12 21 11 1 123 13 ab", [(0, 1), (1, 0)]),
        (Ranking(0, PAIR, order=(1, 0)), "2>1 1,2", [(0, 1), (1, 0)]),
        (Label(0, PAIR[0]), "y yes n no 1", [1.0, 1.0, 0.0, 0.0]),
        (Evaluate(0, PAIR[0]), "3.5 -2e1 7 nan inf 1e999 1,5 y", [3.5, -20.0, 7.0]),
    ],
)
def test_what_is_typed_is_an_answer(query: Query, words: str, answers: list[Any]) -> None:
    read = [query.read(word) for word in words.split()]
    assert read[: len(answers)] == answers
    assert read[len(answers) :] == [None] * (len(read) - len(answers))
    assert [query.checked(answer) for answer in answers] == answers
    assert query.answers is None or set(query.answers) == set(answers)


def test_a_ranking_is_typed_with_or_without_blanks() -> None:
    ranking = Ranking(0, PAIR[[0, 1, 0]], order=(1, 2, 0))
    for text in ("3 1 2", "312", "3, 1, 2", "3 > 1 > 2"):
        assert ranking.read(text) == (0, 1, 2)
    for answer in ([2, 0, 1], torch.tensor([2, 0, 1]), (2.0, 0.0, 1.0)):
        assert ranking.checked(answer) == (2, 0, 1)
        assert all(type(place) is int for place in ranking.checked(answer))
    for wrong in (
        [0, 1],
        [0, 0, 1],
        [0.5, 1, 2],
        [0, 0.5, 1, 2],
        3,
        "201",
        [3, 1, 2],
        [[0], [1], [2]],
    ):
        with pytest.raises(ComparisonDataError, match="is the positions of all 3 items"):
            ranking.checked(wrong)


def test_comparisons_that_an_answer_makes() -> None:
    duel, choice = Duel(0, PAIR), Choice(0, PAIR[[0, 1, 0, 1]])
    assert duel.comparisons(0.5) == [(duel.items, 0.5)]
    assert Duel(0, PAIR[[1, 1]]).comparisons(1.0) == []
    pairs = choice.comparisons(1.0)
    assert [answer for _, answer in pairs] == [1.0, 1.0]
    assert all(torch.equal(pair, PAIR.flip(0)) for pair, _ in pairs)
    (pair,) = Ranking(0, PAIR).comparisons((1, 0))
    assert torch.equal(pair[0], PAIR.flip(0))
    assert pair[1] == 1.0
    assert Ranking(0, PAIR[[1, 1]]).comparisons((1, 0)) == []
    grades = Grade(0, PAIR, num_grades=5)
    assert [grades.comparisons(g)[0][1] for g in range(5)] == [0.0, 0.0, 0.5, 1.0, 1.0]
    assert Grade(0, PAIR[[1, 1]]).comparisons(1.0) == []
    assert Label(0, PAIR[0]).comparisons(1.0) == Evaluate(0, PAIR[0]).comparisons(1.0) == []


def test_probabilities_of_answers() -> None:
    """A choice of two is a duel; of more it is the softmax."""
    utilities = torch.tensor([0.3, -1.1, 2.0], dtype=torch.float64)
    link = LogitLikelihood(scale=0.7)
    first = float(link(utilities[0] - utilities[1]))
    duel = Duel(0, PAIR).probabilities(utilities[:2], link)
    assert duel == {1.0: first, 0.0: 1.0 - first}
    two = Choice(0, PAIR).probabilities(utilities[:2], link)
    assert two == pytest.approx({0.0: first, 1.0: 1.0 - first})
    three = Choice(0, PAIR[[0, 1, 0]]).probabilities(utilities, torch.sigmoid)
    assert [*three.values()] == pytest.approx(utilities.softmax(-1).tolist())
    with pytest.raises(UnsupportedError, match="logistic link only"):
        Choice(0, PAIR).probabilities(utilities[:2], ProbitLikelihood())
    with pytest.raises(UnsupportedError, match="do not tell the answer to a label"):
        Label(0, PAIR[0]).probabilities(utilities[:1], link)


@pytest.mark.parametrize("link", [LogitLikelihood(scale=0.7), ProbitLikelihood(), torch.sigmoid])
def test_probabilities_of_grades(link: Any) -> None:
    """Of two grades they are a duel's, and swapping both items turns the grades around."""
    utilities = torch.tensor([0.3, -1.1], dtype=torch.float64)
    first = float(link(utilities[0] - utilities[1]))
    two = Grade(0, PAIR, num_grades=2).probabilities(utilities, link)
    assert two == pytest.approx({1.0: first, 0.0: 1.0 - first})
    for number in (3, 5, 8):
        grade = Grade(0, PAIR, num_grades=number)
        chances = grade.probabilities(utilities, link)
        assert sum(chances.values()) == pytest.approx(1.0)
        swapped = [*grade.probabilities(utilities.flip(0), link).values()]
        assert swapped[::-1] == pytest.approx([*chances.values()])
        upper = [p for g, p in chances.items() if 2 * g > number - 1]
        assert sum(upper) < first + 1e-9


def test_the_worst_is_the_best_of_what_is_turned_around() -> None:
    utilities = torch.tensor([0.3, -1.1, 2.0], dtype=torch.float64)
    worst, best = Worst(0, PAIR[[0, 1, 0]]), Choice(0, PAIR[[0, 1, 0]])
    link = LogitLikelihood(scale=0.7)
    assert worst.probabilities(utilities, link) == best.probabilities(-utilities, link)
    ((pair, won),) = Worst(0, PAIR).comparisons(1.0)
    assert torch.equal(pair, PAIR)
    assert won == 1.0
    with pytest.raises(ComparisonDataError, match="is the position of the worst"):
        Worst(0, PAIR).checked(2)


def test_probabilities_of_rankings() -> None:
    """Of two they are a duel's; the best of a ranking is a choice."""
    utilities = torch.tensor([0.3, -1.1, 2.0, 0.4], dtype=torch.float64)
    link = LogitLikelihood(scale=0.7)
    first = float(link(utilities[0] - utilities[1]))
    two = Ranking(0, PAIR).probabilities(utilities[:2], link)
    assert two == pytest.approx({(0, 1): first, (1, 0): 1.0 - first})
    items = PAIR[[0, 1, 0, 1]]
    chances = Ranking(0, items).probabilities(utilities, link)
    assert len(chances) == 24
    best = Choice(0, items).probabilities(utilities, link)
    for favourite, chance in best.items():
        same = [p for order, p in chances.items() if order[0] == favourite]
        assert sum(same) == pytest.approx(chance)
    weights = (0.7 * utilities).exp().tolist()
    left, by_hand = sum(weights), 1.0
    for place in (2, 0, 3, 1):
        by_hand *= weights[place] / left
        left -= weights[place]
    assert chances[2, 0, 3, 1] == pytest.approx(by_hand)
    with pytest.raises(UnsupportedError, match="logistic link only"):
        Ranking(0, PAIR).probabilities(utilities[:2], ProbitLikelihood())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Duel(0, PAIR, order=(0, 0)), "`order` must have each position of 2 items once"),
        (lambda: Duel(0, PAIR, order=(0, 1, 2)), "`order` must have"),
        (lambda: Choice(0, PAIR[[0, 1, 0]], order=(1, 0)), "each position of 3 items"),
        (lambda: Ranking(0, PAIR[[0] * 8]), "`items` of a ranking are 2 to 7, not 8"),
        (lambda: Ranking(0, PAIR[:1]), "`items` of a ranking are 2 to 7, not 1"),
        (lambda: Grade(0, PAIR, num_grades=1), "`num_grades` must be 2 to 9, not 1"),
        (lambda: Grade(0, PAIR, num_grades=True), "`num_grades` must be 2 to 9, not True"),
    ],
)
def test_orders_and_numbers_are_checked(make: Any, message: str) -> None:
    with pytest.raises(ComparisonDataError, match=message):
        make()


def test_questions() -> None:
    assert Question.parse("duel") == (Duel, 2, None)
    assert Question.parse("best of 4") == (Choice, 4, None)
    assert Question.parse("best of 12") == (Choice, 12, None)
    assert Question.parse("worst of 4") == (Worst, 4, None)
    assert Question.parse("rank 3") == (Ranking, 3, None)
    assert Question.parse("grade 5") == (Grade, 2, 5)
    for wrong in (
        "",
        "best of",
        "best of 1",
        "best of 31",
        "worst of 31",
        "best of 100",
        "rank 8",
        "grade 1",
        "duel 2",
        "rank  3",
        4,
        None,
    ):
        with pytest.raises(ComparisonDataError, match="`question` must be"):
            Question.parse(wrong)


def test_orders_shown_are_permutations_that_vary() -> None:
    for number in (2, 3, 5):
        orders = [shown_order(number, 4, i) for i in range(60)]
        assert orders == [shown_order(number, 4, i) for i in range(60)]
        assert all(sorted(order) == [*range(number)] for order in orders)
        assert {order[0] for order in orders} == {*range(number)}


def test_answers_as_numbers() -> None:
    assert Answered(Duel(0, PAIR), 0.5).number == 0.5
    assert Answered(Ranking(0, PAIR), (1, 0)).number == 21.0
    assert math.isnan(Answered(Duel(0, PAIR), None).number)
