"""COMP-GP-UCB's simple regret on CurrinExp, next to that of its baselines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.problems import CurrinExp, DuelingChoiceJudge
from botorch_pref.strategies import CompGPUCB
from experiments.baselines import GPUCB, MFGPUCB

NUM_SEEDS = 20
ZETA, RANGE = 0.252, 12.618314  # f(x*) - f_c(x*), and the range of f


def comp(seed: int, budget: int) -> Any:
    return CompGPUCB(bounds=CurrinExp().bounds, seed=seed, budget=budget, borda_slack=ZETA / 4)


def literal_mf(seed: int, budget: int) -> Any:
    """With ``gamma = range(f) zeta``, as printed, which duels of probabilities never reach."""
    options: dict[str, Any] = {"zeta": ZETA, "gamma": RANGE * ZETA}
    return MFGPUCB(bounds=CurrinExp().bounds, seed=seed, budget=budget, **options)


def gp_ucb(seed: int, budget: int) -> Any:
    return GPUCB(bounds=CurrinExp().bounds, seed=seed, budget=budget)


def mean_regret(make: Callable[[int, int], Any], budget: int) -> float:
    """``S``: the best of all items that were asked, opponents included; mean over the seeds."""
    problem, regrets = CurrinExp(), []
    for seed in range(NUM_SEEDS):
        strategy, judge, best = make(seed, budget), DuelingChoiceJudge(problem, seed), -np.inf
        while not strategy.finished:
            try:
                query = strategy.ask()
            except UnsupportedError:  # what was chosen cannot be paid
                break
            best = max(best, float(problem(query.items).max()))
            strategy.tell(query, judge(query, len(strategy.records)))
        regrets.append(problem.optimal_value - best)
    return float(np.mean(regrets))


@pytest.mark.slow
def test_initial_duels_find_good_items() -> None:
    """At cost 10 there is nothing but the initial design, of which opponents are a half."""
    assert mean_regret(comp, 10) <= mean_regret(gp_ucb, 10) / 3.0


@pytest.mark.slow
def test_it_ends_near_the_best_item() -> None:
    found = mean_regret(comp, 100)
    assert found <= 0.01
    assert mean_regret(literal_mf, 100) >= 5.0 * found
