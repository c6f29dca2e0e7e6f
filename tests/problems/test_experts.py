import math
import pickle
from typing import Any

import pytest
import torch

from botorch_pref.exceptions import SearchSpaceError, UnsupportedError
from botorch_pref.problems import (
    Ackley,
    Catalyst,
    ElectrolyteStandIn,
    ItemError,
    SyntheticExpert,
)
from botorch_pref.queries import Choice, Duel, Evaluate, Label
from tests.models.common import rand

PROBLEM = ElectrolyteStandIn()
BEST = torch.tensor([1.0, 0.7, 0.3], dtype=torch.double)
MIDDLING = torch.tensor([0.5, 0.2, 0.6], dtype=torch.double)


@pytest.mark.parametrize(
    ("accuracy", "accepts"),
    [(2.0, 0.9975), (1.0, 0.9526), (0.0, 0.5), (-1.0, 0.0474), (-2.0, 0.0025)],
)
def test_the_best_item(accuracy: float, accepts: float) -> None:
    expert = SyntheticExpert(PROBLEM, accuracy)
    assert expert.rho_range == PROBLEM.rho_range
    found = float(expert.probability(BEST))
    assert found == pytest.approx(accepts, abs=5e-5)
    assert found == pytest.approx(1.0 / (1.0 + math.exp(-3.0 * accuracy)), rel=1e-12)


def test_definition() -> None:
    """As in the paper: f is minimised, and a label is 1 to reject."""
    items = torch.lerp(*PROBLEM.bounds, rand(3, 50, 3))
    cost = -PROBLEM(items)
    rho = -3.0 + 6.0 * (cost + 13.0) / (13.0 - 4.0)
    expert = SyntheticExpert(PROBLEM, 1.5, rho_range=(4.0, 13.0))
    found = expert.probability(items)
    assert found.shape == (3, 50)
    assert torch.allclose(1.0 - found, torch.sigmoid(1.5 * rho), rtol=1e-10)
    assert torch.allclose(expert.rho(-cost), -rho)
    assert (rho > 3.0).any()  # not cut off at the ends
    opposite = SyntheticExpert(PROBLEM, -1.5, rho_range=(4.0, 13.0)).probability(items)
    assert torch.allclose(opposite, 1.0 - found)


@pytest.mark.parametrize("query", [Label(0, MIDDLING), Duel(0, torch.stack([MIDDLING, BEST]))])
@pytest.mark.parametrize("accuracy", [0.5, -0.2])
def test_answers_have_the_right_frequency(query: Any, accuracy: float) -> None:
    expert = SyntheticExpert(PROBLEM, accuracy, seed=4)
    rho = expert.rho(PROBLEM(query.items))
    logit = accuracy * (rho if rho.dim() == 0 else rho[0] - rho[1])
    expected, runs = float(torch.sigmoid(logit)), 2000
    assert 0.02 < expected < 0.98
    answers = [expert(query, t) for t in range(runs)]
    assert {*answers} == {0.0, 1.0}
    share = sum(answer == 1.0 for answer in answers) / runs
    assert abs(share - expected) < 4.0 * (expected * (1.0 - expected) / runs) ** 0.5


def test_answers_follow_from_seed_step_and_annotator() -> None:
    state = torch.get_rng_state()

    def answers(seed: int, annotator: str | None = None) -> list[float]:
        expert = SyntheticExpert(PROBLEM, 0.4, seed=seed)
        expert = pickle.loads(pickle.dumps(expert))
        queries = (Evaluate(0, MIDDLING, None, annotator), Label(1, MIDDLING, None, annotator))
        return [expert(query, t) for t in range(40) for query in queries]

    first = answers(1)
    assert answers(1) == first
    assert {*first[::2]} == {float(PROBLEM(MIDDLING))}
    assert {*first[1::2]} == {0.0, 1.0}
    assert first not in (answers(2), answers(1, "ann"))
    assert torch.equal(torch.get_rng_state(), state)


def test_choices() -> None:
    problem = Catalyst()
    expert = SyntheticExpert(problem, 2.0)
    utilities = problem.utilities
    assert expert.rho_range == (float(utilities.min()), float(utilities.max()))
    # Replicates are told apart by their index.
    first, second = (i for i, name in enumerate(problem.names) if name == "Ag-1.0")
    for index in (first, second):
        query = Label(0, problem.choices[index], index)
        share = sum(expert(query, t) for t in range(1000)) / 1000
        expected = torch.sigmoid(2.0 * expert.rho(utilities[index]))
        assert share == pytest.approx(float(expected), abs=0.06)
    with pytest.raises(ItemError, match="measured more than once"):
        expert(Label(0, problem.choices[first]), 1)


def test_bad_items_and_queries() -> None:
    expert = SyntheticExpert(PROBLEM)
    with pytest.raises(ItemError, match=r"`X` to have shape .* x 3`, got \(4, 2\)"):
        expert.probability(torch.zeros(4, 2))
    with pytest.raises(ItemError, match=r"`X` to be within the bounds.*\n?.*Row \[1\]"):
        expert.probability(torch.tensor([[0.5, 0.5, 0.5], [0.5, 1.5, 0.5]]))
    with pytest.raises(ItemError, match="within the bounds"):
        expert(Label(0, torch.full((3,), 3.0)), 1)
    with pytest.raises(UnsupportedError, match="answers no choice"):
        expert(Choice(0, torch.zeros(2, 3)), 1)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"accuracy": math.nan}, UnsupportedError, "accuracy must be finite"),
        ({"rho_range": (1.0, 0.0)}, SearchSpaceError, "rho_range must be a lower"),
        ({"rho_range": "authors"}, SearchSpaceError, "rho_range must be a lower"),
        ({"rho_range": (14.0, 15.0)}, SearchSpaceError, "rho_range must start below"),
        ({"problem": Ackley(dim=2)}, UnsupportedError, "rho_range has to be given: ackley has"),
    ],
)
def test_bad_options(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        SyntheticExpert(**({"problem": PROBLEM} | options))
