"""PF-TS: the law of its pairs, identical pairs, schedules, resuming, and regret."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from botorch_pref.strategies import PFTS
from botorch_pref.strategies.pf_ts import paper_scale
from tests.contracts.strategy import play
from tests.strategies import common
from tests.strategies.common import FIXED, GRID, LINE, PENALTY


def on_grid(**kwargs: Any) -> PFTS:
    return PFTS(**{"choices": GRID, "hyperparameters": FIXED, **kwargs})


# The law of the pairs.


@pytest.mark.parametrize(("kappa", "scale"), [(2.0, 1.5), ("laplace", 1.0), ("laplace", 0.5)])
def test_law_of_the_pairs(kappa: Any, scale: float) -> None:
    """Properties 10, 11: each arm is the argmax of ``N(g_t, v_t^2 k_t)``, independently."""
    strategy = on_grid(kappa=kappa, scale=scale, on_identical="keep")
    play(strategy, 12)
    mean, covariance = common.oracle(strategy)
    root, num = np.linalg.cholesky(covariance), 600
    rng = np.random.default_rng(0)
    draws = mean + scale * PENALTY**-0.5 * rng.standard_normal((100_000, 6)) @ root.T
    law = np.bincount(draws.argmax(-1), minlength=6) / 100_000
    # Every annotator's query is a draw of its own from the same posterior.
    asked = np.array([strategy.ask(f"annotator {i}").indices for i in range(num)])
    table = np.zeros((6, 6))
    np.add.at(table, tuple(asked.T), 1)
    frequent = law * num > 8
    assert frequent.sum() >= 3
    for arm in (0, 1):
        counts = table.sum(1 - arm)
        found = np.append(counts[frequent], counts[~frequent].sum())
        expected = np.append(law[frequent], law[~frequent].sum()) * num
        assert stats.chisquare(found[expected > 0], expected[expected > 0]).pvalue > 1e-3
    kept = table[np.ix_(frequent, frequent)]
    assert stats.chi2_contingency(kept).pvalue > 1e-3
    upper = np.triu_indices(6, 1)
    one, two = table[upper], table.T[upper]
    assert (np.abs(one - two) <= 4 * np.sqrt(one + two)).all()


def test_first_round_is_symmetric() -> None:
    """Property 18, on a grid that a reflection leaves as it is."""
    strategy = on_grid(on_identical="keep")
    first, second = zip(*(strategy.ask(str(i)).indices for i in range(1000)), strict=True)
    for arm in (first, second):
        counts = np.bincount(arm, minlength=6)
        assert (counts > 0).all()
        assert stats.chi2_contingency(np.stack([counts, counts[::-1]])).pvalue > 1e-3


def test_scales_of_the_paper() -> None:
    """Property 16."""
    steps = (1, 2, 10, 50, 100, 200, 300, 800)
    scales = [1.5444, 1.6082, 1.9577, 2.7194, 3.1987, 3.7825, 4.1780, 5.3261]
    assert [paper_scale(step) for step in steps] == pytest.approx(scales, abs=5.1e-5)


def test_rounds_of_the_paper_are_counted_from_one() -> None:
    """On a box, where the items move with the scale."""
    strategy = PFTS.paper(bounds=LINE, seed=1)
    play(strategy, 1)
    state, query = strategy.state_dict(), strategy.ask()
    for step, same in ((2, True), (3, False)):  # without data the scale moves nothing
        fixed = {**state["options"], "scale": 0.05**0.5 * paper_scale(step)}
        items = PFTS.from_state_dict({**state, "options": fixed}).ask().items
        assert torch.allclose(items, query.items, atol=1e-6, rtol=0.0) is same


# Identical pairs.

CERTAIN = 1e-6  # both draws then have the maximiser of the mean


def test_kept_identical_pairs_move_nothing() -> None:
    strategy = on_grid(on_identical="keep", scale=CERTAIN)
    play(strategy, 30)
    assert strategy.num_identical > 10
    before = copy.deepcopy(strategy.learner.posterior())
    row = strategy.learner.data.num_comparisons
    query = strategy.ask()
    while query.indices[0] != query.indices[1]:
        strategy.tell(query, None)
        query = strategy.ask()
    strategy.tell(query, 1.0)
    after = strategy.learner.posterior()
    torch.testing.assert_close(after.mean, before.mean, atol=1e-10, rtol=0.0)
    torch.testing.assert_close(after.covariance, before.covariance, atol=1e-10, rtol=0.0)
    assert strategy.learner.data.num_comparisons == row
