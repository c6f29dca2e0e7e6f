"""Constants and bounds of POP-BO's theory: printed numbers, and inequalities that must hold."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.likelihood_ratio.theory import (
    beta,
    beta1,
    beta2,
    beta_ville,
    bt_constants,
    deviation_sum_bound,
    duel_error_bound,
    information_gain,
    objective_beta,
    regret_bound,
    sequential_deviations,
)
from tests.inference.common import matern, rand, randn

PENALTIES = [1.0, 0.1, 0.01]
SLACKS = [beta1, beta2, beta, beta_ville]


def pair_covariance(pairs: Tensor, kind: str) -> Tensor:
    """Of ``m x 2 x d`` pairs under a kernel of unit variance, by its definition."""
    first, second = pairs.unbind(dim=-2)
    own = matern(first, first, outputscale=1.0) + matern(second, second, outputscale=1.0)
    if kind == "additive":
        return own
    cross = matern(first, second, outputscale=1.0)
    return own - cross - cross.T


def test_constants() -> None:
    found = bt_constants(1.0)
    assert found.least_probability == pytest.approx(0.1192029, abs=1e-7)
    assert found.largest_probability == pytest.approx(0.8807971, abs=1e-7)
    assert found.least_slope == pytest.approx(0.1049936, abs=1e-7)
    assert found.largest_slope == 0.25
    assert found.likelihood_range == pytest.approx(7.2537208, abs=1e-7)
    assert found.curvature == pytest.approx(0.6444931, abs=1e-7)
    assert found.lipschitz == pytest.approx(2.7615942, abs=1e-7)


@pytest.mark.parametrize("bound", [1e-3, 0.5, 3.0, 20.0])
def test_constants_are_extremes_of_the_link(bound: float) -> None:
    found, differences = bt_constants(bound), np.linspace(-2 * bound, 2 * bound, 1001)
    chance = 1.0 / (1.0 + np.exp(-differences))
    slope = chance * (1.0 / (1.0 + np.exp(differences)))
    assert found.least_probability == pytest.approx(chance.min())
    assert found.largest_probability == pytest.approx(chance.max())
    assert found.least_slope == pytest.approx(slope.min())
    assert found.largest_slope == pytest.approx(slope.max())
    assert found.likelihood_range == pytest.approx(2 * math.sinh(2 * bound))


def test_slacks_at_the_printed_setting() -> None:
    assert beta1(0.01, 0.05, 10, 1.0) == pytest.approx(51.18346, abs=1e-5)
    assert beta1(0.01, 0.05, 10, 1.0, 5.0) == pytest.approx(65.01837, abs=1e-5)
    assert beta(0.01, 0.05 / 2, 10, 1.0) == pytest.approx(42163.81, abs=1e-2)
    assert beta_ville(0.01, 0.05, 10, 1.0, 5.0) == pytest.approx(5 + math.log(20) + 0.27615942)
    assert [round(beta1(0.0, 0.05, t, 3.0)) for t in (5, 10, 20, 40, 80)] == [
        98,
        153,
        234,
        354,
        531,
    ]


def test_the_parts_of_beta() -> None:
    found, given = bt_constants(0.7), (0.02, 0.1, 30, 0.7, 2.0)
    union = math.log(math.pi**2 * 900 / 0.6) + 2.0
    near = 0.5 * found.curvature * 0.02**2 * 30
    spread = math.sqrt(8 * 30 * found.likelihood_range**2 * union)
    assert beta2(*given) == pytest.approx(near + 2 * found.lipschitz * 0.02 * 30 + spread)
    total = beta2(*given) + 2 * beta1(*given)
    assert beta(*given) == pytest.approx(total / (found.curvature * found.least_slope**2))


@pytest.mark.parametrize("slack", SLACKS)
def test_slacks_grow(slack: Callable[..., float]) -> None:
    base = slack(0.01, 0.05, 10, 1.0, 1.0)
    assert slack(0.02, 0.05, 10, 1.0, 1.0) > base
    assert slack(0.01, 0.04, 10, 1.0, 1.0) > base
    assert slack(0.01, 0.05, 11, 1.0, 1.0) > base
    assert slack(0.01, 0.05, 10, 1.1, 1.0) > base
    assert slack(0.01, 0.05, 10, 1.0, 1.1) > base
    assert slack(0.01, 0.05, 0, 1.0, 1.0) == 0.0


@pytest.mark.parametrize("bound", [100.0, 200.0, 349.0, 400.0, 1e200])
def test_huge_norms(bound: float) -> None:
    """No overflow but infinity, and only where the value itself is as large."""
    found = bt_constants(bound)
    assert 0 <= found.least_slope < 1e-80 < 0.5 <= found.curvature
    assert found.lipschitz == pytest.approx(3.0)
    values = [slack(0.01, 0.05, 10, bound) for slack in SLACKS]
    assert all(value > 0 for value in values)
    assert math.isfinite(values[0])
    assert math.isfinite(values[3])
    assert beta(0.01, 0.05, 0, bound) == 0.0
    exponent = 2 * bound
    assert math.isfinite(values[1]) == (exponent < 700)
    assert math.isfinite(values[2]) == (3 * exponent < 700)


def test_lemma_on_the_log_ratio() -> None:
    """Lemma D.1: ``log p' - log p <= (p' - p) / p - H (p' - p)^2``."""
    for bound in (0.3, 1.0, 3.0):
        found = bt_constants(bound)
        p = np.linspace(found.least_probability, found.largest_probability, 201)
        other = p[:, None]
        right = (other - p) / p - found.curvature * (other - p) ** 2
        assert (np.log(other) - np.log(p) <= right + 1e-12).all()


def test_lipschitz_constant() -> None:
    """Lemma C.3 for one answer: utilities off by at most ``epsilon`` each."""
    bound, epsilon = 1.0, 0.1
    h = np.linspace(-2 * bound + 2 * epsilon, 2 * bound - 2 * epsilon, 101)
    change = np.abs(np.logaddexp(0, -(h + 2 * epsilon)) - np.logaddexp(0, -h))
    assert change.max() <= bt_constants(bound).lipschitz * epsilon


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("kind", ["additive", "difference"])
def test_deviations_sum_to_the_information_gain(kind: str, penalty: float) -> None:
    K = pair_covariance(rand(40, 2, 2, seed=3), kind)
    sigma = sequential_deviations(K, penalty)
    gain = information_gain(K, penalty)
    eye = torch.eye(len(K), dtype=K.dtype)
    assert float(gain) == pytest.approx(float(0.5 * torch.logdet(eye + K / penalty)), abs=1e-10)
    total = 0.5 * torch.log1p(sigma.square() / penalty).sum()
    assert float(total) == pytest.approx(float(gain), abs=1e-10)
    assert float(sigma.sum()) <= deviation_sum_bound(40, float(gain), penalty)
    # By eq. (16), one after the other.
    for t in (0, 1, 17, 39):
        left = K[t, t] - K[t, :t] @ torch.linalg.solve(K[:t, :t] + penalty * eye[:t, :t], K[:t, t])
        assert float(sigma[t]) == pytest.approx(float(left.sqrt()), abs=1e-8)


def test_bound_on_the_sum_is_needed() -> None:
    """At a small penalty the printed one does not hold for pairs, whose variances reach 2."""
    K = 2.0 * torch.eye(40, dtype=torch.float64)
    sigma, gain = sequential_deviations(K, 100.0).sum(), float(information_gain(K, 100.0))
    assert float(sigma) > math.sqrt(4 * 42 * gain)
    assert float(sigma) <= deviation_sum_bound(40, gain, 100.0)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize(("kind", "factor"), [("additive", 2.0), ("difference", 1.0)])
def test_error_bound(kind: str, factor: float, penalty: float) -> None:
    """Theorem 3.6 for functions of the ball whose squared errors are summed."""
    B, items = 1.5, rand(12, 2, seed=1)
    K = matern(items, outputscale=1.0) + 1e-10 * torch.eye(12, dtype=torch.float64)
    root = torch.linalg.cholesky(K)
    u = randn(200, 2, 12, seed=2)
    u = B * u / u.norm(dim=-1, keepdim=True)
    u[::2, 1] = -u[::2, 0]  # as far apart as can be
    error = (u[:, 0] - u[:, 1]) @ root.T
    rows = torch.tensor([[0, 1], [2, 3], [4, 0], [5, 6], [6, 7], [1, 8]])
    summed = (error[:, rows[:, 0]] - error[:, rows[:, 1]]).square().sum(-1)
    pairs = torch.combinations(torch.arange(12))
    asked = torch.cat([items[rows], items[pairs]])
    joint, m = pair_covariance(asked, kind), len(rows)
    inner = joint[:m, :m] + penalty * torch.eye(m, dtype=torch.float64)
    explained = (joint[m:, :m] * torch.linalg.solve(inner, joint[:m, m:]).T).sum(-1)
    sigma = (joint[m:, m:].diagonal() - explained).sqrt()
    off = (error[:, pairs[:, 0]] - error[:, pairs[:, 1]]).abs()
    bounds = torch.stack([duel_error_bound(sigma, float(b), B, penalty, factor) for b in summed])
    assert (off <= bounds + 1e-9).all()
    assert float((off / bounds).max()) > 0.2
    given = duel_error_bound(sigma, 2.0, B, penalty, factor)
    expected = factor * (2 * B + math.sqrt(2.0 / penalty)) * sigma
    torch.testing.assert_close(given, expected)


def test_regret_bound() -> None:
    expected = 2 * (2 * 1.5 + math.sqrt(80.0 / 0.1)) * math.sqrt(4 * 52 * 7.0)
    assert regret_bound(50, 1.5, 80.0, 7.0, 0.1) == pytest.approx(expected)


@pytest.mark.parametrize("slack", SLACKS)
def test_errors_name_the_argument(slack: Callable[..., float]) -> None:
    good = {"epsilon": 0.01, "delta": 0.05, "t": 10, "norm_bound": 1.0, "log_covering": 0.0}
    bad = {
        "epsilon": (-0.1, math.nan, math.inf),
        "delta": (0.0, 1.0, -1.0, math.nan),
        "t": (-1, 2.0, True),
        "norm_bound": (0.0, -1.0, math.nan, math.inf),
        "log_covering": (-1.0, math.nan),
    }
    for name, values in bad.items():
        for value in values:
            with pytest.raises(ComparisonDataError, match=f"`{name}`"):
                slack(**{**good, name: value})


def test_beta_of_the_objective_at_the_printed_setting() -> None:
    assert objective_beta(1.0, 0.0, 0.0, 0.01) == 1.0
    assert objective_beta(2.5, 0.0, 30.0, 0.01) == 2.5
    assert objective_beta(1.0, 1e-4, 10.0, 0.01) == pytest.approx(1.00057, abs=1e-5)
    assert objective_beta(1.0, 1e-4, 100.0, 0.01) == pytest.approx(1.0015, abs=5e-5)
    betas = [objective_beta(1.0, 0.5, gain, 0.01) for gain in (0.0, 0.1, 1.0, 10.0, 1e6)]
    assert betas == sorted(betas)
    assert betas[0] == pytest.approx(1 + 0.5 * math.sqrt(2 * (1 + math.log(200))))
    assert objective_beta(1.0, 0.5, 1.0, 0.1) < objective_beta(1.0, 0.5, 1.0, 0.01)


def test_arguments_of_the_objectives_beta() -> None:
    for name, given in {
        "norm_bound": (0.0, 0.0, 0.0, 0.01),
        "noise": (1.0, -1.0, 0.0, 0.01),
        "gain": (1.0, 0.0, math.inf, 0.01),
        "delta": (1.0, 0.0, 0.0, 1.0),
    }.items():
        with pytest.raises(ComparisonDataError, match=f"`{name}`"):
            objective_beta(*given)
