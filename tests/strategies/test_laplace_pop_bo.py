"""POP-BO on the Laplace posterior: index, previous item, identical pairs, boxes, regret."""

from __future__ import annotations

import statistics
from typing import Any

import pytest
import torch

from botorch_pref.problems import Ackley, Catalyst
from botorch_pref.strategies import POPBO, LaplacePOPBO
from tests.contracts.strategy import play, stored
from tests.models.common import rand
from tests.strategies import common
from tests.strategies.common import FIXED, GRID, LINE, PENALTY, best


def on_items(**kwargs: Any) -> LaplacePOPBO:
    return LaplacePOPBO(**{"choices": rand(8, 2), "hyperparameters": FIXED, **kwargs})


@pytest.mark.parametrize("kappa", ["laplace", 4.0])
@pytest.mark.parametrize("exclude", [True, False])
@pytest.mark.parametrize("beta", [1.0, 3.0])
def test_the_first_arm_maximises_the_index(kappa: Any, exclude: bool, beta: float) -> None:
    """Over the previous first arm, item by item, for the unit kernel."""
    strategy = on_items(kappa=kappa, exclude_identical=exclude, beta=beta)
    previous = None
    for step in range(12):
        mean, covariance = common.oracle(strategy)
        (query,) = common.play_noisily(strategy, 1, seed=step)
        first, second = query.indices
        assert previous is None or second == previous
        index = {
            i: mean[i] - mean[second] + beta * common.deviation(covariance, i, second)
            for i in range(len(mean))
            if i != second or not exclude
        }
        assert first in best(index)
        previous = first


def test_the_first_opponent_is_random() -> None:
    asked = {on_items(seed=seed).ask().indices[1] for seed in range(100)}
    assert asked == set(range(8))
    boxes = torch.stack(
        [
            LaplacePOPBO(bounds=LINE, hyperparameters=FIXED, seed=seed).ask().items[1]
            for seed in range(8)
        ]
    )
    assert float(boxes.max() - boxes.min()) > 1.0


def test_a_skipped_duel_has_a_first_arm_too() -> None:
    strategy = on_items()
    query = strategy.ask()
    strategy.tell(query, None)
    assert strategy.ask().indices[1] == query.indices[0]
    strategy = stored(strategy)
    assert strategy.ask().indices[1] == query.indices[0]


def test_identical_pairs() -> None:
    """Their index, 0, is the largest once nothing better is hoped for."""
    paper = POPBO.paper(choices=GRID, hyperparameters=FIXED, beta=0.0)
    play(paper, 30)
    assert paper.num_identical > 5
    assert paper.learner.data.num_comparisons + paper.num_identical == paper.num_answers
    excluding = on_items(choices=GRID, beta=0.0)
    assert all(query.indices[0] != query.indices[1] for query in play(excluding, 30))
    twins = on_items(choices=torch.cat([GRID, GRID]), beta=0.0)
    assert all(query.indices[0] != query.indices[1] for query in play(twins, 12))


def test_open_duels_are_believed() -> None:
    waiting, answered = on_items(beta=0.1), on_items(beta=0.1)
    for strategy in (waiting, answered):
        common.play_noisily(strategy, 9)
    query = waiting.ask("ann")
    mean, _ = common.oracle(waiting)
    first, second = mean[list(query.indices)]
    answered.tell(answered.ask("ann"), float(first > second))
    found, told = waiting.ask("bob"), answered.ask("bob")
    assert found.indices[1] == told.indices[1] == query.indices[0]
    assert found.indices == told.indices or set(told.indices) == set(query.indices)


# On a box.


@pytest.mark.parametrize("exclude", [True, False])
def test_the_index_on_a_box(exclude: bool) -> None:
    strategy = LaplacePOPBO(
        bounds=LINE,
        hyperparameters=FIXED,
        exclude_identical=exclude,
        beta=2.0,
    )
    common.play_noisily(strategy, 5)
    previous = strategy.history[-1].query.items[0]
    asked = strategy.ask().items
    assert torch.equal(asked[1], previous)
    mean, deviation = common.joint(strategy, torch.cat([asked, common.line(301)]))
    index = (mean + 2.0 * PENALTY**0.5 * deviation)[:, 1]
    assert index[0] >= index[2:].max() - 1e-4


def test_identical_pairs_on_a_box() -> None:
    strategy = LaplacePOPBO(bounds=LINE, hyperparameters=FIXED, beta=0.0)
    for query in play(strategy, 6):
        assert float((query.items[0] - query.items[1]).abs()) > 1e-3 * 3.0
    allowed = LaplacePOPBO(bounds=LINE, hyperparameters=FIXED, beta=0.0, exclude_identical=False)
    queries = play(allowed, 8)
    same = [torch.equal(query.items[0], query.items[1]) for query in queries]
    assert allowed.num_identical == sum(
        same[i] for i, done in enumerate(allowed.history) if done.answer is not None
    )


# Slow: regret.


@pytest.mark.slow
def test_regret_as_in_the_paper() -> None:
    """It hardly beats random play (139 and 316), as the diagonal blocks it."""
    for problem, horizon, least, most in (
        (Ackley(num_choices=40), 300, 80.0, 160.0),
        (Catalyst("keep"), 800, 200.0, 316.0),
    ):
        totals = common.cumulative_regret(
            lambda seed, p=problem: POPBO.paper(choices=p.choices, seed=seed),
            problem,
            horizon,
            num_seeds=20,
        )
        assert least <= statistics.mean(totals) <= most
