"""Studies that are played: what is shown is the problem's item, and answers arrive."""

from __future__ import annotations

import pytest
import torch

from botorch_pref.benchmarks.optuna.problems import ShownProblem, shown_problems
from botorch_pref.queries import Duel

pytest.importorskip("optuna_dashboard")

from botorch_pref.benchmarks.optuna.study import PlayedStudy, played_study, survivor

BEST = {"x1": 0.55, "x2": 10**-2.8, "x3": 11, "x4": "cedar"}


def mixed() -> ShownProblem:
    return shown_problems()[2]


def enqueued(sampler: str) -> tuple[PlayedStudy, Duel]:
    """A study whose first two trials are the best item and another one."""
    played = played_study(sampler, mixed(), seed=0)
    played.study.enqueue_trial(BEST)
    played.study.enqueue_trial({"x1": 0.0, "x2": 1e-5, "x3": 20, "x4": "birch"})
    return played, played.ask()


def test_items_are_what_is_shown() -> None:
    query = enqueued("random")[1]
    expected = [[0.55, 0.55, 0.55, 0.55], [0.0, 0.0, 1.0, 0.95]]
    torch.testing.assert_close(query.items, torch.tensor(expected, dtype=torch.double))
    problem = mixed()
    assert float(problem(query.items[0])) == pytest.approx(problem.optimal_value)
    assert problem.optimal_value > 0.0


@pytest.mark.parametrize("answer", [1.0, 0.0])
def test_the_worse_one_goes(answer: float) -> None:
    played, query = enqueued("random")
    played.tell(query, answer)
    winner = query.items[0 if answer else 1]
    assert torch.equal(played.recommend(), winner)
    assert survivor(played.study).number == (0 if answer else 1)
    following = played.ask()
    assert following.id == 1
    assert torch.equal(following.items[0], winner)
    assert not torch.equal(following.items[1], query.items[1 if answer else 0])


def test_recommending_changes_no_proposal() -> None:
    played = [enqueued("eubo") for _ in range(2)]
    for study, query in played:
        study.tell(query, 1.0)
    best = played[0][0].recommend()
    assert torch.equal(best, played[0][1].items[0])
    first, second = (study.ask().items for study, _ in played)
    assert torch.equal(first, second)
