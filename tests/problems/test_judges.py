"""Judges and the expert: the laws of their answers, and what these follow from."""

import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch

from botorch_pref.exceptions import ComparisonDataError, SearchSpaceError, UnsupportedError
from botorch_pref.likelihoods import LogitLikelihood, ProbitLikelihood
from botorch_pref.problems import (
    Ackley,
    Catalyst,
    ElectrolyteStandIn,
    ItemError,
    LogisticJudge,
    SyntheticExpert,
)
from botorch_pref.queries import Choice, Duel, Evaluate, Label, Query
from tests.models.common import rand

CATALYST, ELECTROLYTE = Catalyst(), ElectrolyteStandIn()
BEST = torch.tensor([1.0, 0.7, 0.3], dtype=torch.double)  # of the electrolytes
MIDDLING = torch.tensor([0.5, 0.2, 0.6], dtype=torch.double)
REPEATED = [i for i, name in enumerate(CATALYST.names) if name == "Ag-1.0"]


def pair_of(first: int, second: int) -> Duel:
    return Duel(0, CATALYST.choices[[first, second]], (first, second))


def choice_of(problem: Any, *rows: int) -> Choice:
    return Choice(0, problem.choices[[*rows]], rows)


# ------------------------------------------------------------------ judges


def test_probability_is_the_link_of_the_difference() -> None:
    difference = CATALYST.utilities[4] - CATALYST.utilities[0]
    query, judge = pair_of(4, 0), LogisticJudge(CATALYST)
    expected = torch.sigmoid(difference).item()
    assert judge.probability(query) == pytest.approx(expected, rel=1e-14)
    probit = LogisticJudge(CATALYST, likelihood=ProbitLikelihood(scale=0.5))
    expected = torch.special.ndtr(0.5 * difference).item()
    assert probit.probability(query) == pytest.approx(expected, rel=1e-12)
    bare = LogisticJudge(CATALYST, likelihood=torch.sigmoid)
    assert bare.probability(query) == pytest.approx(judge.probability(query))
    forms = [query, query.items, Duel(7, query.items), (4, 0), [4, 0], torch.tensor([4, 0])]
    assert len({judge.probability(form) for form in forms}) == 1


def answers_of(make: Callable[[int], Any], query: Query | torch.Tensor, runs: int) -> list[float]:
    """The answers of one seed, which follow from it alone."""
    state = torch.get_rng_state()
    answers = [make(5)(query, t) for t in range(runs)]
    again = pickle.loads(pickle.dumps(make(5)))
    assert [again(query, t) for t in reversed(range(100))] == answers[:100][::-1]
    other = make(6)
    assert [other(query, t) for t in range(100)] != answers[:100]
    assert torch.equal(torch.get_rng_state(), state)
    return answers


def test_answers_are_repeatable_and_their_noise_is_shared() -> None:
    problem = Ackley(dim=2)
    items = torch.tensor([[0.4, 0.6], [0.3, 0.5]], dtype=torch.double)
    judge = LogisticJudge(problem, seed=5)
    answers = answers_of(lambda seed: LogisticJudge(problem, seed=seed), items, 200)
    assert set(answers) == {0.0, 1.0}
    # Common noise: a better first item at step t does no worse.
    better = torch.tensor([[0.5, 0.5], [0.3, 0.5]], dtype=torch.double)
    assert judge.probability(better) > judge.probability(items)
    assert all(judge(better, t) >= answer for t, answer in enumerate(answers))


@pytest.mark.parametrize("indices", [(10, 0), (0, 10), (3, 40)])
def test_duels_have_the_right_frequency(indices: tuple[int, int]) -> None:
    judge, runs = LogisticJudge(CATALYST), 2000
    probability = judge.probability(indices)
    share = sum(judge(indices, t) for t in range(runs)) / runs
    assert abs(share - probability) < 4.0 * (probability * (1.0 - probability) / runs) ** 0.5


def test_duels_answer_as_they_always_did() -> None:
    # Pinned: a study that is resumed in a later version meets the same answers.
    judge = LogisticJudge(CATALYST, seed=3)
    answers = "".join(str(int(judge((1, 30), t))) for t in range(1, 33))
    assert answers == "11000101010001100100110111000100"


def test_values_are_normal_around_the_utility() -> None:
    """By seed, step and annotator: strategies share the noise, whatever they evaluate."""
    items = Evaluate(0, CATALYST.choices[0]), Evaluate(1, CATALYST.choices[4], 4)

    def noise(query: Evaluate, t: int, seed: int = 1, scale: float = 0.5) -> float:
        value = LogisticJudge(CATALYST, seed=seed, value_noise=scale)(query, t)
        return value - float(CATALYST.utilities[0 if query.indices is None else query.indices])

    first, second = (torch.tensor([noise(query, t) for t in range(3000)]) for query in items)
    assert torch.allclose(first, second, atol=1e-5)
    unit = first / 0.5
    assert unit.mean().abs() < 4.0 / 3000**0.5
    assert unit.var().sub(1.0).abs() < 4.0 * (2.0 / 3000) ** 0.5
    inside = [(unit.abs() < width).double().mean().item() for width in (1.0, 2.0)]
    assert inside == pytest.approx([0.6827, 0.9545], abs=0.035)
    asked = [Evaluate(0, items[0].items, annotator=name) for name in (None, "ann", "bob")]
    keys = [(query, t, seed) for query in asked for t in range(4) for seed in range(3)]
    assert len({noise(*key) for key in keys}) == len(keys)
    doubled = [2.0 * noise(*key) for key in keys]
    assert [noise(*key, scale=1.0) for key in keys] == pytest.approx(doubled)
    assert noise(items[0], 0, scale=0.0) == 0.0


def test_a_choice_of_two_is_a_duel() -> None:
    for likelihood in (LogitLikelihood(scale=0.7), torch.sigmoid):
        judge = LogisticJudge(CATALYST, seed=3, likelihood=likelihood)
        choice = choice_of(CATALYST, 1, 30)
        assert all(judge(choice, t) == 1.0 - judge((1, 30), t) for t in range(300))


def test_favourites_have_the_right_frequencies() -> None:
    problem, rows, runs = Ackley(num_choices=9), (4, 0, 8, 1), 4000
    judge = LogisticJudge(problem, seed=1, likelihood=LogitLikelihood(scale=2.0))
    weights = (2.0 * problem.utilities[[*rows]]).exp()
    expected = weights / weights.sum()
    answers = torch.tensor([judge(choice_of(problem, *rows), t) for t in range(runs)])
    share = torch.stack([(answers == r).double().mean() for r in range(4)])
    assert ((share - expected).abs() < 4.0 * (expected * (1.0 - expected) / runs).sqrt()).all()
    assert share.sum() == 1.0


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        (Duel(0, CATALYST.choices[:2], (0, 63)), ItemError, r"lie in \[0, 63\), got 63"),
        (pair_of(*REPEATED).items, ItemError, "measured more than once"),
        (torch.zeros(3, 3), ComparisonDataError, "`items` must have shape 2 x d"),
        (torch.zeros(2, 2), ItemError, "x 3`, got"),
        (Label(0, CATALYST.choices[0]), UnsupportedError, "do not tell the answer to a label"),
        (choice_of(CATALYST, 0, 1, 2), UnsupportedError, "logistic link only"),
    ],
)
def test_bad_queries(query: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        LogisticJudge(CATALYST, likelihood=ProbitLikelihood())(query, 1)


# ------------------------------------------------------------------ the expert


@pytest.mark.parametrize(
    ("accuracy", "accepts"),
    [(2.0, 0.9975), (1.0, 0.9526), (0.0, 0.5), (-1.0, 0.0474), (-2.0, 0.0025)],
)
def test_the_best_item(accuracy: float, accepts: float) -> None:
    expert = SyntheticExpert(ELECTROLYTE, accuracy)
    assert expert.rho_range == ELECTROLYTE.rho_range
    found = float(expert.probability(BEST))
    assert found == pytest.approx(accepts, abs=5e-5)
    assert found == pytest.approx(1.0 / (1.0 + math.exp(-3.0 * accuracy)), rel=1e-12)


def test_definition_of_the_expert() -> None:
    """As in the paper: f is minimised, and a label is 1 to reject."""
    items = torch.lerp(*ELECTROLYTE.bounds, rand(3, 50, 3))
    cost = -ELECTROLYTE(items)
    rho = -3.0 + 6.0 * (cost + 13.0) / (13.0 - 4.0)
    expert = SyntheticExpert(ELECTROLYTE, 1.5, rho_range=(4.0, 13.0))
    found = expert.probability(items)
    assert found.shape == (3, 50)
    assert torch.allclose(1.0 - found, torch.sigmoid(1.5 * rho), rtol=1e-10)
    assert torch.allclose(expert.rho(-cost), -rho)
    assert (rho > 3.0).any()  # not cut off at the ends


@pytest.mark.parametrize("query", [Label(0, MIDDLING), Duel(0, torch.stack([MIDDLING, BEST]))])
@pytest.mark.parametrize("accuracy", [0.5, -0.2])
def test_advice_has_the_right_frequency(query: Any, accuracy: float) -> None:
    rho = SyntheticExpert(ELECTROLYTE).rho(ELECTROLYTE(query.items))
    expected = float(torch.sigmoid(accuracy * (rho if rho.dim() == 0 else rho[0] - rho[1])))
    assert 0.02 < expected < 0.98
    answers = answers_of(
        lambda seed: SyntheticExpert(ELECTROLYTE, accuracy, seed=seed), query, 1000
    )
    assert {*answers} == {0.0, 1.0}
    assert abs(sum(answers) / 1000 - expected) < 4.0 * (expected * (1.0 - expected) / 1000) ** 0.5
    expert = SyntheticExpert(ELECTROLYTE, accuracy, seed=5)
    ann = type(query)(0, query.items, annotator="ann")
    assert [expert(ann, t) for t in range(100)] != answers[:100]
    assert expert(Evaluate(0, MIDDLING), 3) == float(ELECTROLYTE(MIDDLING))


def test_an_expert_on_choices() -> None:
    expert, utilities = SyntheticExpert(CATALYST, 2.0), CATALYST.utilities
    assert expert.rho_range == (float(utilities.min()), float(utilities.max()))
    for index in REPEATED:  # measurements of one item are told apart by their index
        query = Label(0, CATALYST.choices[index], index)
        share = sum(expert(query, t) for t in range(1000)) / 1000
        expected = torch.sigmoid(2.0 * expert.rho(utilities[index]))
        assert share == pytest.approx(float(expected), abs=0.06)
    with pytest.raises(ItemError, match="measured more than once"):
        expert(Label(0, CATALYST.choices[REPEATED[0]]), 1)
    with pytest.raises(UnsupportedError, match="answers no choice"):
        expert(choice_of(CATALYST, 0, 1), 1)


@pytest.mark.parametrize(
    ("kind", "options", "error", "message"),
    [
        (LogisticJudge, {"value_noise": -0.1}, UnsupportedError, "value_noise must be a finite"),
        (SyntheticExpert, {"accuracy": math.nan}, UnsupportedError, "accuracy must be finite"),
        (SyntheticExpert, {"rho_range": (1.0, 0.0)}, SearchSpaceError, "rho_range must be a lower"),
        (SyntheticExpert, {"rho_range": "authors"}, SearchSpaceError, "rho_range must be a lower"),
        (SyntheticExpert, {"rho_range": (14.0, 15.0)}, SearchSpaceError, "rho_range must start"),
        (SyntheticExpert, {"problem": Ackley(dim=2)}, UnsupportedError, "rho_range has to be"),
    ],
)
def test_bad_options(kind: Any, options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        kind(**({"problem": ELECTROLYTE} | options))
