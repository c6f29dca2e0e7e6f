"""The rivals: their choices against dense algebra."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from botorch.acquisition.preference import AnalyticExpectedUtilityOfBestOption
from botorch.models import PairwiseGP
from gpytorch.kernels import RBFKernel, ScaleKernel
from scipy import stats
from torch import Tensor

from botorch_pref.queries import Duel, Evaluate, Label, Query
from botorch_pref.randomness import derive_seed
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import COBOL, Strategy
from experiments.baselines import (
    GPTS,
    MFGPUCB,
    AlternatingExpert,
    CoExBO,
    ExpertOverride,
    ExpertSampling,
    RandomValues,
)
from experiments.baselines.kernel_self_sparring import Rows
from experiments.baselines.pairwise_gp import PairwiseEUBO
from experiments.baselines.skew_gp import believed_values
from experiments.cobol.candidates import BeliefCOBOL, ConstrainedCOBOL, PinpointCOBOL
from experiments.problems import ExpertBenchmark
from tests._reference import kernels

TABLE = torch.rand(40, 2, generator=torch.Generator().manual_seed(8), dtype=torch.double)
BOX = torch.tensor([[0.0, -0.2], [1.2, 1.0]], dtype=torch.double)
GRID = torch.linspace(-2.0, 3.0, 6, dtype=torch.double).unsqueeze(-1)
FIXED = {"kernel": "matern", "lengthscale": 0.3, "outputscale": 4.0}


def worth(items: Tensor) -> Tensor:
    """Two hills, the higher one near (0.7, 0.3)."""
    hills = ((items[..., None, :] - items.new_tensor([[0.7, 0.3], [0.2, 0.8]])) ** 2).sum(-1)
    return (items.new_tensor([1.0, 0.8]) * (-hills / items.new_tensor([0.1, 0.05])).exp()).sum(-1)


def answer(query: Query) -> float:
    """Values without noise; duels that err by chance, the same at every call."""
    values = worth(query.items)
    if not isinstance(query, Duel):
        return float(values) if isinstance(query, Evaluate) else float(values > 0.3)
    chance = np.random.default_rng(query.id).random()
    return float(chance < torch.sigmoid(6 * (values[0] - values[1])))


def play(strategy: Any, number: int) -> list[Any]:
    queries = []
    for _ in range(number):
        queries.append(strategy.ask())
        strategy.tell(queries[-1], answer(queries[-1]))
    return queries


@torch.no_grad()
def moments(model: Any, X: Tensor = TABLE) -> tuple[Tensor, Tensor]:
    posterior = model.posterior(X)
    return posterior.mean.squeeze(-1), posterior.variance.sqrt().squeeze(-1)


# ------------------------------------------------------------------ duels and values with prices


def test_item_and_kind_of_two_fidelities() -> None:
    strategy = MFGPUCB(
        choices=TABLE,
        **{"borda_slack": 0.05, "gamma": 0.15},
        **{"num_initial_duels": 12, "num_initial_values": 4},
    )
    play(strategy, 16)
    gamma, streak, kinds = 0.15, 0, []
    for t in range(1, 17):
        query, beta = strategy.ask(), 0.5 * math.log(2 * t)
        mean, deviation = moments(strategy.values.model())
        mean_r, deviation_r = moments(strategy.duels.model())
        row = torch.minimum(mean_r + beta * deviation_r + 0.05, mean + beta * deviation).argmax()
        kinds.append(isinstance(query, Duel))
        assert (query.indices[0] if kinds[-1] else query.indices) == row
        assert kinds[-1] == bool(beta * deviation_r[row] >= gamma)
        streak = streak + 1 if kinds[-1] else 0
        if streak == 10:
            gamma, streak = 2 * gamma, 0
        strategy.tell(query, answer(query))
    assert 0 < sum(kinds) < 16


# ------------------------------------------------------------------ KernelSelfSparring


def test_rows_and_draws_against_dense_algebra() -> None:
    """Rows may come one after the other; draws have the law of the posterior."""
    items, values, noise = TABLE[:12], worth(TABLE[:12]) - 0.5, 0.25
    prior = ScaleKernel(RBFKernel()).double().requires_grad_(False).eval()
    prior.outputscale = torch.tensor(0.5, dtype=torch.double)
    prior.base_kernel.lengthscale = torch.tensor(0.3, dtype=torch.double)
    rows = Rows(prior, noise, items[:3], values[:3])
    for start in range(3, 12, 3):
        rows.add(items[start : start + 3], values[start : start + 3])
    gram = 0.5 * kernels.gram("rbf", items.numpy(), items.numpy(), 0.3)
    solved = np.linalg.solve(gram + noise * np.eye(12), gram)
    mean, covariance = solved.T @ values.numpy(), gram - gram @ solved
    np.testing.assert_allclose(rows.mean().numpy(), mean, atol=1e-12)
    draws = rows.draw(4_000, seed=3).at_rows.numpy()
    deviation = np.sqrt(np.diag(covariance))
    assert (abs(draws.mean(1) - mean) < 5 * deviation / np.sqrt(4_000)).all()
    np.testing.assert_allclose(np.cov(draws), covariance, atol=0.02)


# ------------------------------------------------------------------ GP-TS and SGP


def test_law_of_thompson_sampling_on_values() -> None:
    """The argmax of ``N(f_t, v_t^2 k_t)``, eq. (5) of Lazzaro et al. (2026)."""
    strategy = GPTS(choices=GRID, hyperparameters=FIXED, noise=0.5, scale=0.5)
    rng = np.random.default_rng(0)
    for _ in range(5):
        query = strategy.ask()
        strategy.tell(query, math.sin(float(query.items)) + rng.standard_normal())
    unit = strategy.space.normalize(GRID).numpy()
    K = kernels.gram("matern52", unit, unit, 0.3)
    rows = [done.query.indices for done in strategy.history]
    gram = K[np.ix_(rows, rows)] + 0.5 / 4.0 * np.eye(5)
    mean = K[:, rows] @ np.linalg.solve(gram, [done.answer for done in strategy.history])
    root = np.linalg.cholesky(K - K[:, rows] @ np.linalg.solve(gram, K[rows]) + 1e-12 * np.eye(6))
    draws = mean + rng.standard_normal((100_000, 6)) @ root.T
    law = np.bincount(draws.argmax(-1), minlength=6) / 100_000
    asked = [strategy.ask(f"annotator {i}").indices for i in range(800)]
    counts, frequent = np.bincount(asked, minlength=6), law * 800 > 8
    found = np.append(counts[frequent], counts[~frequent].sum())
    expected = np.append(law[frequent], law[~frequent].sum()) * 800
    assert stats.chisquare(found[expected > 0], expected[expected > 0]).pvalue > 1e-3


def test_draws_of_skew_gp_are_of_the_truncated_prior() -> None:
    items = np.array([[0.0], [0.5], [1.2]])
    covariance, duels, noise = kernels.gram("rbf", items, items, 0.8), [(0, 1), (2, 1)], 0.01
    rng = np.random.default_rng(0)
    values = rng.multivariate_normal(np.zeros(3), covariance, 100_000)
    right = np.ones(len(values), dtype=bool)
    for winner, loser in duels:
        errors = math.sqrt(noise) * rng.standard_normal(len(values))
        right &= values[:, winner] - values[:, loser] + errors > 0.0
    expected, prior = values[right], torch.from_numpy(covariance)
    pairs = torch.tensor(duels)
    draws = np.array([believed_values(prior, pairs, noise, seed).numpy() for seed in range(1500)])
    for i in range(3):
        assert stats.ks_2samp(draws[:, i], expected[:, i]).pvalue > 1e-4


# ------------------------------------------------------------------ experts


def test_pairs_of_choices_by_eubo_of_each_with_the_fitted_model() -> None:
    rival = PairwiseEUBO(SearchSpace(choices=TABLE), seed=4)
    for _ in range(6):
        rival.tell(query := rival.ask(), answer(query))
    rows, model = rival.ask().row_indices, rival.fitted()
    assert rows is not None
    start = PairwiseGP(rival.items, torch.tensor(rival.comparisons)).covar_module
    assert not torch.equal(model.covar_module.outputscale, start.outputscale)
    rule = AnalyticExpectedUtilityOfBestOption(pref_model=model)
    pairs = torch.combinations(torch.arange(len(TABLE)))
    with torch.no_grad():
        values = rule(TABLE[pairs])
        torch.testing.assert_close(rule(TABLE[list(rows)]), values.amax(dim=0, keepdim=True))


@pytest.mark.parametrize(
    ("kind", "answers", "expected"),
    [
        (RandomValues, "", "eeeeee"),
        (ExpertSampling, "0011", "eelllele"),
        (ExpertOverride, "0001", "eelllle"),
        (AlternatingExpert, "011", "eelleelee"),
    ],
)
def test_who_proposes_and_who_decides(kind: Any, answers: str, expected: str) -> None:
    strategy, told = kind(bounds=BOX, num_initial_values=2), iter(answers)
    kinds = ""
    for _ in range(len(expected)):
        query = strategy.ask()
        kinds += query.kind[0]
        said = float(next(told)) if isinstance(query, Label) else answer(query)
        strategy.tell(query, said)
    assert kinds == expected


@pytest.mark.parametrize(
    ("kind", "number"), [(ExpertSampling, 2), (ExpertOverride, 2), (CoExBO, 5)]
)
def test_experts_share_the_design_of_cobol_and_are_resumed(kind: Any, number: int) -> None:
    design = {"num_initial_values": 2, "num_initial_labels": 3, "seed": 3}
    strategy, cobol = kind(choices=TABLE, **design), COBOL(choices=TABLE, **design)
    assert play(strategy, number) == play(cobol, 5)[:number]
    play(strategy, 3)
    read: Strategy = kind.from_state_dict(strategy.state_dict())
    assert play(read, 3) == play(strategy, 3)
    assert torch.equal(read.recommend(), strategy.recommend())


@pytest.mark.parametrize(("kind", "accepts"), [(ConstrainedCOBOL, False), (BeliefCOBOL, True)])
def test_other_candidates(kind: Any, accepts: bool) -> None:
    """Where nothing is feasible, the least infeasible item is as good as any."""
    strategy = kind(bounds=BOX, num_initial_values=3, num_initial_labels=4, seed=1)
    for _ in range(9):
        query = strategy.ask()
        said = float(accepts) if isinstance(query, Label) else answer(query)
        strategy.tell(query, said)
    uppers = [decision.upper for decision in strategy.decisions[7:]]
    assert all((upper >= -1e-6) == accepts for upper in uppers)


def test_a_named_item_is_measured_unless_the_objective_speaks_against_it() -> None:
    bounds = ExpertBenchmark("ackley4").bounds
    strategy = PinpointCOBOL(bounds=bounds, function="ackley4", accuracy=1.0, num_initial_values=4)
    for number in range(7):
        query = strategy.ask()
        decision, seed = strategy.decisions[query.id], derive_seed(0, "named", number)
        named = torch.equal(query.items, strategy._drawn(seed))
        assert isinstance(query, Evaluate)
        assert named == (decision.source == "augmented")
        strategy.tell(query, -float(query.items.norm()))
    assert PinpointCOBOL.from_state_dict(strategy.state_dict()).ask() == strategy.ask()
    assert not strategy.labelled
