"""MaxMinLCB: the game by loops over pairs, the last candidate, open duels, boxes, and regret."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from botorch_pref.queries import Duel
from botorch_pref.strategies import MaxMinLCBStrategy
from tests.contracts.strategy import play
from tests.models.common import rand
from tests.strategies import common
from tests.strategies.common import FIXED, LINE, PENALTY, Array, best


def on_items(**kwargs: Any) -> MaxMinLCBStrategy:
    return MaxMinLCBStrategy(**{"choices": rand(8, 2), "hyperparameters": FIXED, **kwargs})


def game(
    mean: Array, covariance: Array, beta: float, candidate_filter: bool, diagonal: str
) -> tuple[set[int], dict[int, set[int]]]:
    """The best leaders, and every leader's best followers, pair by pair."""

    def bound(i: int, j: int, sign: int) -> float:
        if i == j:
            return 0.5
        width = sign * beta * common.deviation(covariance, i, j)
        return 1 / (1 + math.exp(mean[j] - mean[i])) + width

    items = range(len(mean))
    candidates = [
        i for i in items if not candidate_filter or all(bound(i, j, 1) >= 0.5 - 1e-9 for j in items)
    ]
    values, followers = {}, {}
    for i in candidates:
        others = [j for j in candidates if diagonal == "keep" or j != i or len(candidates) == 1]
        lower = {j: -bound(i, j, -1) for j in others}
        values[i], followers[i] = -max(lower.values()), best(lower)
    return best(values), followers


@pytest.mark.parametrize("kappa", ["laplace", 4.0])
@pytest.mark.parametrize("diagonal", ["keep", "exclude"])
@pytest.mark.parametrize(("candidate_filter", "beta"), [(True, 0.3), (True, 0.1), (False, 1.0)])
def test_the_pair_is_the_solution_of_the_game(
    kappa: Any, diagonal: Any, candidate_filter: bool, beta: float
) -> None:
    strategy = on_items(
        kappa=kappa, diagonal=diagonal, candidate_filter=candidate_filter, beta=beta
    )
    found = set()
    for step in range(9):
        mean, covariance = common.oracle(strategy)
        leaders, followers = game(mean, covariance, beta, candidate_filter, diagonal)
        (query,) = common.play_noisily(strategy, 1, seed=step)
        leader, follower = query.indices
        assert leader in leaders
        assert follower in followers[leader]
        found.add(query.indices)
    assert len(found) > 1


def test_the_last_candidate_meets_itself() -> None:
    """With ``beta = 0`` the maximiser of the mean is the only candidate left."""
    strategy = on_items(beta=0.0)
    play(strategy, 6)
    before = strategy.learner.posterior().mean
    query = strategy.ask()
    assert query.indices == (strategy.recommend_index(),) * 2
    rows = strategy.learner.data.num_comparisons
    identical = strategy.num_identical
    strategy.tell(query, 1.0)
    assert strategy.learner.data.num_comparisons == rows
    assert strategy.num_identical == identical + 1
    torch.testing.assert_close(strategy.learner.posterior().mean, before)
    unfiltered = on_items(beta=0.0, candidate_filter=False)
    assert all(query.indices[0] != query.indices[1] for query in play(unfiltered, 12))


# On a box.


@pytest.mark.parametrize("candidate_filter", [True, False])
def test_the_game_on_a_box(candidate_filter: bool) -> None:
    """Both arms are near the solution of the game on a grid of a line."""
    beta = 0.3
    strategy = MaxMinLCBStrategy(
        bounds=LINE, hyperparameters=FIXED, beta=beta, candidate_filter=candidate_filter
    )
    for step in range(6):  # pairs at random: the game itself is what takes time
        items = common.line(301)[[37 * step % 301, (91 * step + 150) % 301]]
        strategy.learner.add(Duel(step, items), float(step % 3 == 0))
    asked = strategy.ask().items
    items = torch.cat([asked, common.line(301)])
    mean, deviation = common.joint(strategy, items)
    lower = torch.sigmoid(mean) - beta * PENALTY**0.5 * deviation
    lower.fill_diagonal_(0.5)
    candidates = (lower.amax(0) <= 0.5 + 1e-9) | torch.tensor(not candidate_filter)
    candidates[:2] = False  # the asked pair is compared with the grid
    worst = lower[:, candidates].amin(-1)
    assert worst[0] >= worst[2:].max() - 0.01
    assert lower[0, 1] <= worst[0] + 1e-4


def test_a_kept_diagonal_on_a_box() -> None:
    """The leader meets itself where it is sure to beat all others."""
    strategy = MaxMinLCBStrategy(bounds=LINE, hyperparameters=FIXED, beta=0.0, diagonal="keep")
    queries = play(strategy, 6)
    assert torch.equal(queries[-1].items[0], queries[-1].items[1])
    assert strategy.num_identical > 0
