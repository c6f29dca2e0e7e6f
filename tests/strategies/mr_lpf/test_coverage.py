"""Kayal et al. (2025), Theorem 4.7: what a fixed design's interval covers."""

from __future__ import annotations

import math

import pytest
import torch

from botorch_pref.inference.finite import FiniteEngine, PairVarianceTable
from botorch_pref.strategies import MRLPF
from tests._reference.kernels import gram

ITEMS, DUELS, RUNS = 12, 40, 300
PENALTY, DELTA = 0.5, 0.1


def test_the_interval_of_a_fixed_design_covers() -> None:
    generator = torch.Generator().manual_seed(0)
    X = torch.linspace(0.0, 1.0, ITEMS, dtype=torch.float64).unsqueeze(-1)
    kernel = torch.as_tensor(gram("rbf", X.numpy(), X.numpy(), [0.2]))
    weights = torch.randn(ITEMS, generator=generator, dtype=torch.float64)
    norm = (weights @ kernel @ weights).sqrt()
    utility, bound = 2.0 * kernel @ weights / norm, 2.0
    first, second = torch.randint(ITEMS, (2, DUELS), generator=generator)
    second = torch.where(first == second, (first + 1) % ITEMS, second)
    difference = utility.unsqueeze(-1) - utility
    kappa = float((2.0 + 2.0 * torch.cosh(difference)).max())
    table = PairVarianceTable(kernel, PENALTY * kappa)
    engine = FiniteEngine(kernel, penalty=PENALTY, batch_shape=(RUNS,))
    for i, j in zip(first.tolist(), second.tolist(), strict=True):
        pair = torch.tensor([i, j])
        table.append(pair)
        uniform = torch.rand(RUNS, generator=generator, dtype=torch.float64)
        engine.append(pair.expand(RUNS, 2), (uniform < torch.sigmoid(difference[i, j])).double())
    mean = engine.posterior().mean
    error = (
        torch.sigmoid(mean.unsqueeze(-1) - mean.unsqueeze(-2)) - torch.sigmoid(difference)
    ).abs()
    # Theorem 4.7 for one pair, L = 1/4.
    width = 0.25 * (bound + 0.5 * math.sqrt(2.0 * kappa / PENALTY * math.log(2.0 / DELTA)))
    sigma = table.variance.sqrt()
    covered = (error <= width * sigma + 1e-12).double().mean(0)
    assert covered.min() >= 1.0 - DELTA
    # Not because everything is covered: a tenth of the width is too narrow for some pair.
    assert (error <= 0.1 * width * sigma + 1e-12).double().mean(0).min() < 1.0 - DELTA


@pytest.mark.slow  # property 19 again, on another kernel and problem
@pytest.mark.filterwarnings("ignore::botorch_pref.exceptions.ConfidenceWarning")
def test_the_theory_preset_keeps_the_best_item() -> None:
    X = torch.linspace(0.0, 1.0, 8, dtype=torch.float64).unsqueeze(-1)
    utility = 1.5 * torch.exp(-0.5 * ((X.squeeze(-1) - 0.6) / 0.2) ** 2)
    fixed = {"kernel": "rbf", "lengthscale": 0.2, "penalty": 0.05}
    for seed in range(50):
        strategy = MRLPF.theory(
            choices=X, horizon=30, seed=seed, norm_bound=1.5, hyperparameters=fixed
        )
        generator = torch.Generator().manual_seed(seed)
        while not strategy.finished:
            pairs = strategy.plan_round()
            values = utility[torch.cdist(pairs.view(-1, 1), X).argmin(-1)].view(-1, 2)
            chance = torch.sigmoid(values[:, 0] - values[:, 1])
            uniform = torch.rand(len(pairs), generator=generator, dtype=torch.float64)
            strategy.complete_round((uniform < chance).double().tolist())
        assert int(utility.argmax()) in strategy.active.rows.tolist()  # type: ignore[union-attr]
