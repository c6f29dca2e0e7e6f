"""Constants and bounds of COBOL's theory: printed numbers, and inequalities that must hold."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.likelihood_ratio.label_theory import (
    alpha1_theory,
    gain_of_factor,
    label_alpha,
    label_width_bound,
    max_labels,
    objective_beta,
    objective_regret_bound,
    regret_ratio,
)
from botorch_pref.likelihood_ratio.theory import information_gain, sequential_deviations
from tests.inference.common import matern, rand, randn


def test_beta_at_the_printed_setting() -> None:
    assert objective_beta(1.0, 0.0, 0.0, 0.01) == 1.0
    assert objective_beta(2.5, 0.0, 30.0, 0.01) == 2.5
    assert objective_beta(1.0, 1e-4, 10.0, 0.01) == pytest.approx(1.00057, abs=1e-5)
    assert objective_beta(1.0, 1e-4, 100.0, 0.01) == pytest.approx(1.0015, abs=5e-5)
    betas = [objective_beta(1.0, 0.5, gain, 0.01) for gain in (0.0, 0.1, 1.0, 10.0, 1e6)]
    assert betas == sorted(betas)
    assert betas[0] == pytest.approx(1 + 0.5 * math.sqrt(2 * (1 + math.log(200))))
    assert objective_beta(1.0, 0.5, 1.0, 0.1) < objective_beta(1.0, 0.5, 1.0, 0.01)


@pytest.mark.parametrize("ridge", [1e-4, 0.3, 1.0, 7.0])
def test_gain_of_a_factor(ridge: float) -> None:
    K = torch.stack([matern(rand(12, 2, seed=k), outputscale=1.0) for k in range(3)])
    eye = torch.eye(12, dtype=torch.double)
    expected = 0.5 * torch.logdet(eye + K / ridge)
    found = gain_of_factor(torch.linalg.cholesky(K + ridge * eye), ridge)
    torch.testing.assert_close(found, expected, atol=1e-8, rtol=0)
    relative = gain_of_factor(torch.linalg.cholesky(K / ridge + eye), 1.0)
    torch.testing.assert_close(relative, expected, atol=1e-8, rtol=0)
    torch.testing.assert_close(information_gain(K, ridge), expected, atol=1e-8, rtol=0)
    assert gain_of_factor(K[0, :0, :0], ridge) == 0.0


def test_slack_at_the_printed_setting() -> None:
    assert round(alpha1_theory(10, 10, 1.0, 0.01, 1 / 50)) == 56
    assert round(alpha1_theory(50, 50, 1.0, 0.01, 1 / 50)) == 146
    assert alpha1_theory(0, 5, 1.0, 0.01, 0.02) == pytest.approx(0.2)
    assert alpha1_theory(0, 0, 1.0, 0.01, 0.02) == 0.0
    base = alpha1_theory(7, 20, 1.3, 0.01, 0.0, 3.0)
    assert base == pytest.approx(
        math.sqrt(32 * 7 * 1.3**2 * (math.log(math.pi**2 * 400 / 0.06) + 3.0))
    )
    assert alpha1_theory(7, 20, 1.3, 0.01, 0.0, 3.0, constant=8.0) == pytest.approx(base / 2)
    assert alpha1_theory(7, 20, 2.6, 0.01, 0.0, 3.0) == pytest.approx(2 * base)


@pytest.mark.parametrize("bound", [0.3, 1.0, 4.0])
def test_alpha_is_the_last_step_of_its_proof(bound: float) -> None:
    latent = np.linspace(-bound, bound, 401)
    chance = 1 / (1 + np.exp(-latent))
    slope = (chance * (1 - chance)).min()
    curvature = 1 / (2 * chance.max() ** 2)
    spread = chance.max() / chance.min() - chance.min() / chance.max()
    # The least slope is what turns differences of probabilities into those of latents.
    p, z = np.subtract.outer(chance, chance), np.subtract.outer(latent, latent)
    assert (p**2 >= slope**2 * z**2 - 1e-15).all()
    n, t, delta, epsilon, covering, slack = 7, 20, 0.01, 0.02, 1.5, 0.8
    union = math.log(math.pi**2 * t**2 / (3 * delta)) + covering
    alpha2 = (
        8 * curvature * 0.25**2 * epsilon**2 * t
        + 4 * epsilon * t
        + math.sqrt(8 * n * spread**2 * union)
    )
    expected = (alpha2 + 2 * slack) / (curvature * slope**2)
    found = label_alpha(n, t, bound, delta, epsilon, covering, slack=slack)
    assert found == pytest.approx(expected, rel=1e-9)


def test_alpha_grows() -> None:
    def alpha(**changed: Any) -> float:
        base = {"num_labels": 5, "t": 10, "norm_bound": 1.0, "delta": 0.05, "epsilon": 0.01}
        return label_alpha(**{**base, "slack": 0.3, **changed})

    larger = {"num_labels": 6, "t": 11, "norm_bound": 1.1, "delta": 0.04, "epsilon": 0.02}
    for name, value in {**larger, "slack": 0.4, "log_covering": 1.0}.items():
        assert alpha(**{name: value}) > alpha()
    assert alpha(num_labels=0, t=0, slack=0.0) == 0.0
    assert alpha(norm_bound=1e5) > 1e100


@pytest.mark.parametrize("ridge", [1e-2, 0.25, 1.0])
def test_width_bound(ridge: float) -> None:
    """Lemma B.2 for functions of the ball whose squared errors are summed."""
    bound, items = 1.5, rand(14, 2, seed=1)
    K = matern(items, outputscale=1.0) + 1e-10 * torch.eye(14, dtype=torch.double)
    u = randn(300, 2, 14, seed=2)
    u = bound * u / u.norm(dim=-1, keepdim=True)
    u[::2, 1] = -u[::2, 0]  # as far apart as can be
    apart = (u[:, 0] - u[:, 1]) @ torch.linalg.cholesky(K).T
    m = 6
    alphas = apart[:, :m].square().sum(-1)
    inner = K[:m, :m] + ridge * torch.eye(m, dtype=torch.double)
    explained = (K[:, :m] * torch.linalg.solve(inner, K[:m]).T).sum(-1)
    sigma = (K.diagonal() - explained).sqrt()
    widths = torch.stack([label_width_bound(sigma, float(a), bound, ridge, 2.0) for a in alphas])
    assert (apart.abs() <= 0.5 * widths + 1e-9).all()
    assert float((2 * apart.abs() / widths).max()) > 0.2
    printed = label_width_bound(sigma, 3.0, bound, ridge)
    torch.testing.assert_close(printed, 4 * (2 * bound + math.sqrt(3.0 / ridge)) * sigma)


@pytest.mark.parametrize("ridge", [1e-4, 0.1, 1.0])
@pytest.mark.parametrize("repeated", [True, False])
def test_deviations_sum_to_less_than_the_bounds_take(ridge: float, repeated: bool) -> None:
    """(40) and (41), at ridges of at most 1."""
    K = matern(rand(60, 1, seed=3), outputscale=1.0)
    K = torch.ones_like(K) if repeated else K
    total = sequential_deviations(K, ridge).sum()
    assert float(total) <= math.sqrt(4 * 62 * float(information_gain(K, ridge)))


@pytest.mark.parametrize("threshold", [0.1, 3.0, 1000.0])
@pytest.mark.parametrize("alpha", [0.0, 5.0])
def test_most_labels(threshold: float, alpha: float) -> None:
    def allowed(q: int, gain: Callable[[int], float]) -> bool:
        width = 4 * (2 * 1.2 + math.sqrt(alpha / 0.5))
        return q <= width / threshold * math.sqrt(4 * (q + 2) * gain(q)) + 1e-9

    gains: list[Callable[[int], float]] = [
        lambda q: 0.0,
        lambda q: 2.5,
        lambda q: math.log1p(q) ** 2,
        lambda q: 0.5 * q,
    ]
    for gain in gains:
        found = max_labels(threshold, alpha, 1.2, 0.5, gain, 400)
        assert found == max(q for q in range(401) if allowed(q, gain))
        assert max_labels(threshold, alpha, 1.2, 0.5, gain(400), 400) >= found
    constant = [max_labels(threshold, alpha, 1.2, 0.5, 2.5, T) for T in (0, 3, 10**9)]
    assert constant[0] == 0
    assert constant == sorted(constant)
    wide = [max_labels(w, alpha, 1.2, 0.5, 2.5, 10**9) for w in (2 * threshold, threshold)]
    assert wide == sorted(wide)


def test_what_trust_costs() -> None:
    assert [regret_ratio(eta) for eta in (1.0, 3.0, 10)] == [2.0, 4.0, 11.0]
    alone = 2 * 1.3 * math.sqrt(4 * 52 * 7.0)
    assert objective_regret_bound(50, 1.3, 7.0, 3.0) == pytest.approx(4.0 * alone)


GOOD: dict[Callable[..., Any], dict[str, Any]] = {
    gain_of_factor: {"factor": torch.eye(2).double(), "ridge": 0.1},
    objective_beta: {"norm_bound": 1.0, "noise": 0.1, "gain": 1.0, "delta": 0.05},
    alpha1_theory: {
        "num_labels": 3, "t": 5, "norm_bound": 1.0, "delta": 0.05, "epsilon": 0.1,
        "log_covering": 0.0, "constant": 32.0,
    },
    label_alpha: {
        "num_labels": 3, "t": 5, "norm_bound": 1.0, "delta": 0.05, "epsilon": 0.1,
        "log_covering": 0.0, "slack": 0.3,
    },
    label_width_bound: {
        "deviation": torch.ones(2), "alpha": 1.0, "norm_bound": 1.0, "ridge": 0.1, "factor": 2.0,
    },
    max_labels: {
        "threshold": 0.1, "alpha": 1.0, "norm_bound": 1.0, "ridge": 0.1, "gain": 1.0,
        "horizon": 9, "factor": 2.0,
    },
    regret_ratio: {"eta": 3.0},
    objective_regret_bound: {"num_evaluations": 3, "beta": 1.0, "gain": 1.0, "eta": 3.0},
}  # fmt: skip
BAD: dict[str, tuple[Any, ...]] = {
    "delta": (0.0, 1.0, math.nan),
    "num_labels": (-1, 6, 2.0, True),
    "eta": (0.99, math.nan, math.inf),
    **dict.fromkeys(("norm_bound", "ridge", "constant", "factor", "threshold"), (0.0, math.nan)),
    **dict.fromkeys(("noise", "gain", "slack", "alpha", "beta"), (-1.0, math.nan, math.inf)),
    **dict.fromkeys(("epsilon", "log_covering"), (-1.0, math.nan, math.inf)),
    **dict.fromkeys(("t", "horizon", "num_evaluations"), (-1, 2.5, True)),
}


@pytest.mark.parametrize("function", GOOD, ids=lambda function: function.__name__)
def test_errors_name_the_argument(function: Callable[..., Any]) -> None:
    good = GOOD[function]
    assert set(good) == set(inspect.signature(function).parameters)
    function(**good)
    for name in good.keys() & BAD.keys():
        if function is gain_of_factor and name == "factor":
            continue  # a matrix, where it is a number elsewhere
        for value in BAD[name]:
            with pytest.raises(ComparisonDataError, match=f"`{name}`"):
                function(**{**good, name: value})


def test_sums_of_deviations_need_small_ridges() -> None:
    with pytest.raises(ComparisonDataError, match="`ridge` must be at most 1"):
        max_labels(0.1, 1.0, 1.0, 1.5, 1.0, 9)
    with pytest.raises(ComparisonDataError, match="`gain`"):
        max_labels(0.1, 1.0, 1.0, 0.5, lambda q: -1.0, 9)
