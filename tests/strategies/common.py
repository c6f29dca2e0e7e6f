"""What the tests of the strategies share: judges, an oracle posterior, regret over seeds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from botorch_pref.strategies import Strategy, UtilityStrategy
from tests._reference import finite as reference
from tests._reference import kernels

Array = NDArray[np.float64]
FIXED = {"kernel": "matern", "lengthscale": 0.3, "outputscale": 4.0}
PENALTY = 0.25
# No item says anything of another, so the first pair is a tie that the seed breaks.
APART = {"kernel": "matern", "lengthscale": 0.003, "outputscale": 4.0}
GRID = torch.linspace(-2.0, 3.0, 6, dtype=torch.float64).unsqueeze(-1)
LINE = torch.tensor([[-1.0], [2.0]], dtype=torch.float64)


def play_noisily(strategy: Strategy, num_duels: int, seed: int = 0) -> list[Any]:
    """Duels of a judge who likes large items and often errs; never a tie, never a skip."""
    rng = np.random.default_rng(seed)
    queries = []
    for _ in range(num_duels):
        query = strategy.ask()
        first, second = query.items.sum(-1).tolist()
        strategy.tell(query, float(rng.random() < 1 / (1 + math.exp(2 * (second - first)))))
        queries.append(query)
    return queries


def oracle(strategy: UtilityStrategy) -> tuple[Array, Array]:
    """Mean utility, and covariance for the unit kernel, of choices under ``FIXED``."""
    done = [(query.indices, y) for query, y in strategy.history if y is not None]
    done = [(pair, y) for pair, y in done if len(set(pair)) == 2]
    items = strategy.space.normalize(strategy.space.table).numpy()
    K = kernels.gram("matern52", items, items, 0.3)
    if not done:
        return np.zeros(len(K)), K
    pairs, answers = np.array([pair for pair, _ in done]), np.array([y for _, y in done])
    theta = reference.coefficients(K, pairs, answers, PENALTY)
    mean = reference.utilities(K, pairs, theta)
    ridge: Any = strategy.learner.kappa
    if ridge == "laplace":
        h = mean[pairs[:, 0]] - mean[pairs[:, 1]]
        ridge = 2 + np.exp(h) + np.exp(-h)
    return mean, reference.item_covariance(K, pairs, PENALTY * ridge)


def deviation(covariance: Array, i: int, j: int) -> float:
    """The standard deviation of the difference of two items."""
    return math.sqrt(max(covariance[i, i] + covariance[j, j] - 2 * covariance[i, j], 0.0))


def best(values: dict[Any, float], tolerance: float = 1e-7) -> set[Any]:
    """The keys of all values that are maximal."""
    top = max(values.values())
    return {key for key, value in values.items() if value >= top - tolerance}


def line(num: int) -> Tensor:
    """A fine grid of the box ``LINE``, ``num x 1``."""
    return torch.linspace(-1.0, 2.0, num, dtype=torch.float64).unsqueeze(-1)


def joint(strategy: UtilityStrategy, items: Tensor) -> tuple[Tensor, Tensor]:
    """Tables of the mean and the standard deviation of differences, by the model's posterior."""
    with torch.no_grad():
        posterior = strategy.learner.model().posterior(items)
    mean, covariance = posterior.mean.squeeze(-1), posterior.covariance_matrix
    own = covariance.diagonal()
    variance = own.unsqueeze(-1) + own - 2 * covariance
    return mean.unsqueeze(-1) - mean, variance.clamp_min(0.0).sqrt()
