"""COMP-GP-UCB against algebra that shares no code, and its guarantees where they are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from botorch_pref.queries import Evaluate, Query
from botorch_pref.strategies import CompGPUCB
from tests.strategies.comp_gp_ucb.test_strategy import BOX, answer, on_a_box, play

Moments = tuple[np.ndarray, np.ndarray]


def regression(items: Any, targets: Any, at: Any, fit: dict[str, Any], noise: float) -> Moments:
    """Mean and variance by the formula (2) of the paper, around a constant."""

    def covariance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        gap = ((a[:, None] - b[None]) ** 2).sum(-1)
        return float(fit["outputscale"]) * np.exp(-0.5 * gap / np.squeeze(fit["lengthscale"]) ** 2)

    noisy = covariance(items, items) + noise * np.eye(len(items))
    cross = covariance(items, at)
    solved = np.linalg.solve(noisy, cross)
    mean = float(fit["mean"]) + solved.T @ (targets - float(fit["mean"]))
    return mean, float(fit["outputscale"]) - (cross * solved).sum(0)


def unit(items: Tensor) -> np.ndarray:
    return np.asarray(((items - BOX[0]) / (BOX[1] - BOX[0])).numpy())


def told(queries: list[Query], kind: type) -> tuple[np.ndarray, np.ndarray]:
    """Items in the unit cube, of duels the first, and answers."""
    known = [query for query in queries if isinstance(query, Evaluate) == (kind is Evaluate)]
    items = torch.stack([query.items.view(-1, 2)[0] for query in known])
    return unit(items), np.array([answer(query) for query in known])


def learnt(strategy: CompGPUCB) -> dict[str, Any]:
    fits: dict[str, Any] = strategy.state_dict()["progress"]["beliefs"]["fitted"]
    return fits


def test_values_are_learnt_as_the_formula_has_it() -> None:
    strategy = on_a_box(num_initial_values=6, budget=9)
    queries = play(strategy, 13)  # the last one after a fit
    items, values = told(queries, Evaluate)
    at = strategy.space.sample(40, 3)
    with torch.no_grad():
        posterior = strategy.beliefs.objective().posterior(at)
    offset, scale = values.mean(), values.std(ddof=1)
    mean, variance = regression(
        items, (values - offset) / scale, unit(at), learnt(strategy)["values"], 1e-4
    )
    np.testing.assert_allclose(posterior.mean.flatten(), offset + scale * mean, atol=1e-8)
    np.testing.assert_allclose(posterior.variance.flatten(), scale**2 * variance, atol=1e-8)


def test_every_choice_is_what_the_formulas_ask_for() -> None:
    """Phase 2: ``phi`` and the width of each item by algebra, from what was known before it."""
    strategy = on_a_box(borda_slack=0.01, gamma=0.2, gamma_factor=1.0, budget=None, beta=1.0)
    queries = play(strategy, 9)
    kinds = []
    while len(kinds) < 8:
        query = strategy.ask()
        record = strategy.records[-1]
        if record.phase == "filtered":
            items, wins = told(queries, Query)
            at = np.concatenate([unit(query.items.view(-1, 2)[:1]), items, unit(pool(strategy))])
            fit = learnt(strategy)["duels"]
            assert fit["mean"] == 0.5
            mean, variance = regression(items, wins, at, fit, 0.25)
            width = np.sqrt(variance)  # beta is 1
            phi = mean[0] + width[0] - record.lower_bound + 0.01
            assert phi >= -1e-6
            assert record.feasibility == pytest.approx(phi, abs=1e-8)
            assert record.width == pytest.approx(width[0], abs=1e-8)
            assert isinstance(query, Evaluate) == (width[0] < 0.2)
            # The bound is the largest one of a sample and what was asked.
            lower = mean - width
            assert lower[1 : 1 + len(items)].max() - 1e-8 <= record.lower_bound
            assert record.lower_bound <= lower[1:].max() + 1e-2
            kinds.append(record.kind)
        strategy.tell(query, answer(query))
        queries.append(query)
    assert {*kinds} == {"duel", "value"}


def pool(strategy: CompGPUCB) -> Tensor:
    return strategy.space.sample(4096, 9)


def test_the_same_seed_asks_the_same_on_a_device(device: torch.device) -> None:
    made = [on_a_box(bounds=BOX.to(device), seed=4, gamma=0.4) for _ in range(2)]
    traces = [[query.items for query in play(strategy, 8)] for strategy in made]
    assert all(items.device == device for trace in traces for items in trace)
    assert all(torch.equal(a, b) for a, b in zip(*traces, strict=True))


# The guarantee. All hyperparameters are known, and the Borda function is of their space.

TABLE = torch.linspace(0.0, 1.0, 24, dtype=torch.float64).unsqueeze(-1)
KNOWN = {"lengthscale": [[0.4]], "outputscale": 0.1, "mean": 0.5, "size": 10**9}
BETA, GAMMA = 3.0, 0.15


def member(seed: int) -> np.ndarray:
    """A function of the kernel's space on the table, between 0.05 and 0.95, which it reaches."""
    rng = np.random.default_rng(seed)
    centres, weights = rng.random(8), rng.standard_normal(8)
    x = TABLE.numpy()
    raw = np.exp(-0.5 * (x - centres) ** 2 / 0.4**2) @ weights
    # About 1/2, so that nothing but the kernel's functions is in it.
    return np.asarray(0.5 + 0.45 * raw / np.abs(raw).max())


def guaranteed(seed: int) -> CompGPUCB:
    """A strategy that knows the hyperparameters, and duels until widths are small."""
    wins, other = member(seed), member(seed + 1000)
    values = wins + 0.2 * other
    slack = float(wins.max() - wins[values.argmax()])
    strategy = CompGPUCB(
        choices=TABLE,
        seed=seed,
        borda_slack=slack,
        gamma=GAMMA,
        gamma_factor=1.0,
        beta=BETA,
        num_initial_duels=2,
        num_initial_values=2,
    )
    state = strategy.state_dict()
    state["progress"]["beliefs"]["fitted"] = {"duels": KNOWN, "values": {**KNOWN, "mean": 0.0}}
    return CompGPUCB.from_state_dict(state)


@pytest.mark.slow
@torch.no_grad()
def test_the_best_item_is_never_filtered_out() -> None:
    """Claim 7 and Lemma 9 hold in every run in which the bounds do, which is nearly every one."""
    held, excluded = 0, 0
    for seed in range(50):
        wins = member(seed)
        values = wins + 0.2 * member(seed + 1000)
        strategy, rng = guaranteed(seed), np.random.default_rng(seed + 5000)
        within, slacks, measured = True, [], []
        while len(measured) < 6:
            query = strategy.ask()
            record = strategy.records[-1]
            if record.phase != "initial":
                lower, upper = (e.numpy() for e in strategy.beliefs.borda().interval(TABLE, BETA))
                within &= bool((lower <= wins).all() and (wins <= upper).all())
            if record.phase == "filtered":
                slacks.append(upper[values.argmax()] - record.lower_bound + record.slack)
                if isinstance(query, Evaluate):
                    measured.append(wins[query.indices])
            if isinstance(query, Evaluate):
                strategy.tell(query, float(values[query.indices]))
            else:
                strategy.tell(query, float(rng.random() < wins[query.indices[0]]))
        if within:
            least = wins.max() - strategy.settings.borda_slack - 4.0 * GAMMA
            held, excluded = held + 1, excluded + int((wins < least).sum())
            assert min(slacks) >= 0.0, seed
            assert min(measured) >= least, seed
    assert held >= 45
    assert excluded > 50  # items that must not be measured
