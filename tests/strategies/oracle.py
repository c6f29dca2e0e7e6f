"""Both regressions of a strategy with a budget by dense NumPy algebra, and a noisy judge."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.queries import Duel, Evaluate, Query
from botorch_pref.strategies import BudgetedStrategy
from botorch_pref.strategies.comp_gp_ucb import CompGPUCB
from tests._reference import kernels
from tests.models.common import rand

Array = NDArray[np.float64]
TABLE = rand(40, 2, seed=8)
BOX = torch.tensor([[0.0, -0.2], [1.2, 1.0]], dtype=torch.float64)
ANSWER_VARIANCE, VALUE_NOISE = 0.25, 1e-4


def worth(items: Array) -> Array:
    """Two hills, the higher one, of about 1, near (0.7, 0.3)."""
    first = np.exp(-((items - np.array([0.7, 0.3])) ** 2).sum(-1) / 0.1)
    second = np.exp(-((items - np.array([0.2, 0.8])) ** 2).sum(-1) / 0.05)
    return first + 0.8 * second


def answer(query: Query) -> float:
    """Values without noise; duels that err by chance, the same at every call."""
    values = worth(query.items.numpy())
    if isinstance(query, Evaluate):
        return float(values)
    chance = np.random.default_rng(query.id).random()
    return float(chance < 1 / (1 + np.exp(-6 * (values[0] - values[1]))))


def play(strategy: BudgetedStrategy, most: int = 1000) -> list[Query]:
    """Ask and answer until nothing can be paid, or so often."""
    queries: list[Query] = []
    while not strategy.finished and len(queries) < most:
        try:
            queries.append(strategy.ask())
        except UnsupportedError:
            break
        strategy.tell(queries[-1], answer(queries[-1]))
    return queries


def regression(
    found: dict[str, Any], items: Array, targets: Array, noise: float, at: Array
) -> tuple[Array, Array]:
    """Mean and standard deviation of a squared exponential process with a constant mean."""
    length, scale, constant = (
        float(np.ravel(found[name])[0]) for name in ("lengthscale", "outputscale", "mean")
    )
    covariance = scale * kernels.gram("rbf", items, items, length) + noise * np.eye(len(items))
    cross = scale * kernels.gram("rbf", at, items, length)
    weights = np.linalg.solve(covariance, cross.T)
    variance = scale - (cross * weights.T).sum(-1)
    return constant + weights.T @ (targets - constant), np.sqrt(variance)


def unit(strategy: BudgetedStrategy, items: torch.Tensor) -> Array:
    """Items in the unit cube, by hand."""
    lower, upper = strategy.space.bounds.numpy()
    return (items.numpy() - lower) / (upper - lower)


def duels_at_choices(strategy: CompGPUCB, *, mirrored: bool = False) -> tuple[Array, Array]:
    """The regression on answers, a row a duel; or on both items, which differ, one mirrored."""
    known = [(q.items, y) for q, y in strategy.history if isinstance(q, Duel)]
    if mirrored:
        rows = [q.indices for q, _ in strategy.history if isinstance(q, Duel)]
        known = [one for one, pair in zip(known, rows, strict=True) if pair[0] != pair[1]]
    items = [unit(strategy, pair[:1]) for pair, _ in known]
    targets = [y for _, y in known]
    if mirrored:
        items += [unit(strategy, pair[1:]) for pair, _ in known]
        targets += [1.0 - y for _, y in known]
    found = fitted(strategy, "duels")
    at = unit(strategy, strategy.space.table)
    return regression(found, np.concatenate(items), np.array(targets), ANSWER_VARIANCE, at)


def values_at_choices(strategy: CompGPUCB) -> tuple[Array, Array]:
    """The regression on values in units of their deviation, put back into their own."""
    known = [(q.items, y) for q, y in strategy.history if isinstance(q, Evaluate)]
    items = np.stack([unit(strategy, item) for item, _ in known])
    values = np.array([y for _, y in known])
    centre, spread = values.mean(), values.std(ddof=1)
    at = unit(strategy, strategy.space.table)
    mean, deviation = regression(
        fitted(strategy, "values"), items, (values - centre) / spread, VALUE_NOISE, at
    )
    return centre + spread * mean, spread * deviation


def fitted(strategy: BudgetedStrategy, kind: str) -> dict[str, Any]:
    """The hyperparameters of the model of one kind of data."""
    known: Any = strategy
    model = (
        known.regression._model() if hasattr(known, "regression") else getattr(known, kind).model()
    )
    with torch.no_grad():
        return {
            "lengthscale": model.covar_module.base_kernel.lengthscale.numpy(),
            "outputscale": model.covar_module.outputscale.numpy(),
            "mean": model.mean_module.constant.numpy(),
        }
