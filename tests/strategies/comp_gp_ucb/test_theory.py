"""Constants of the theory, and the lemmas behind them on models of this package."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from gpytorch.kernels import RBFKernel, ScaleKernel
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.likelihood_ratio.theory import sequential_deviations
from botorch_pref.models import BordaGP
from botorch_pref.problems import DuelLink
from botorch_pref.strategies.comp_gp_ucb.theory import (
    beta_theory,
    duel_budget_rule,
    information_gain,
    phase1_regret_bound,
)
from tests.models.common import rand


def squared_exponential(items: Tensor, lengthscale: float) -> Tensor:
    return (-0.5 * torch.cdist(items, items).square() / lengthscale**2).exp()


def test_values() -> None:
    assert beta_theory(1.5, 0.1, 4.0) == pytest.approx(3.0 + math.sqrt(2 * (5 + math.log(10))))
    assert phase1_regret_bound(3.0, 0.1, 0.25) == pytest.approx(0.85)
    assert phase1_regret_bound(3.0, 0.0, 0.0) == 0.0
    assert duel_budget_rule(0.25, 2.5, 0.02) == pytest.approx(3906.25)
    assert duel_budget_rule(0.25, 2.5, 0.1) == pytest.approx(156.25)
    assert duel_budget_rule(0.25, 2.5, 0.3) == pytest.approx(17.361, abs=1e-3)


@pytest.mark.parametrize("lengthscale", [0.05, 0.3])
@pytest.mark.parametrize("noise", [0.01, 0.25, 4.0])
def test_the_gain_bounds_the_sum_of_variances(noise: float, lengthscale: float) -> None:
    """Lemma 6, with the gain of the very items that were asked, some of them again and again."""
    items = torch.cat([rand(30, 2, seed=3), rand(4, 2, seed=7).repeat(5, 1)])
    covariance = squared_exponential(items, lengthscale)
    gain = float(information_gain(covariance, noise))
    variances = sequential_deviations(covariance, noise).square()
    eye = torch.eye(len(items), dtype=items.dtype)
    assert gain == pytest.approx(float(0.5 * torch.logdet(eye + covariance / noise)), abs=1e-8)
    assert float(0.5 * (variances / noise).log1p().sum()) == pytest.approx(gain, abs=1e-8)
    bound = 2.0 * gain / math.log(1.0 + 1.0 / noise)
    assert float(variances.sum()) <= bound + 1e-10
    assert 2 * gain / math.log1p(1 / noise) == pytest.approx(bound)


def test_the_bound_is_reached_by_items_far_apart() -> None:
    covariance = torch.eye(20, dtype=torch.float64)
    gain = float(information_gain(covariance, 0.25))
    assert 2 * gain / math.log1p(4.0) == pytest.approx(20.0)


@torch.no_grad()
def test_duels_of_one_item_narrow_the_width_around_it() -> None:
    """Lemma 10, with ``C = v / l^2``: it holds, and not with much less."""
    generator = torch.Generator().manual_seed(1)
    tightest = 0.0
    for _ in range(40):
        draws = torch.rand(4, generator=generator, dtype=torch.float64)
        lengthscale, variance = 0.1 + float(draws[0]), 0.05 + float(draws[1])
        diameter, repeats = 0.5 * float(draws[2]), int(10 ** (3 * float(draws[3])))
        kernel = ScaleKernel(RBFKernel()).double()
        kernel.base_kernel.lengthscale, kernel.outputscale = lengthscale, variance
        centre = torch.full((2,), 0.5, dtype=torch.float64)
        answers = torch.zeros(repeats, dtype=torch.float64)
        model = BordaGP.from_duels(centre.expand(repeats, 2), answers, covar_module=kernel)
        angle = 6.28 * torch.rand(16, generator=generator, dtype=torch.float64)
        radius = diameter * torch.rand(16, 1, generator=generator, dtype=torch.float64)
        near = centre + radius * torch.stack([angle.cos(), angle.sin()], dim=-1)
        lower, upper = model.interval(near, 1.0)
        left = (0.5 * (upper - lower)).square()
        bound = variance / lengthscale**2 * diameter**2 + 0.25 / repeats
        assert (left <= bound + 1e-12).all()
        tightest = max(tightest, float((left / bound).max()))
    assert tightest > 0.5


def test_phase_1_ends_within_the_bound() -> None:
    """``f_r* - f_r(x) <= 2 gamma`` leaves ``f* - f(x)`` at most the bound (Proposition 1)."""
    values, link = torch.linspace(0.0, 4.0, 201, dtype=torch.float64), DuelLink("logistic", 1.3)
    borda = link(values.unsqueeze(-1) - values).mean(dim=-1)
    l1 = link.constants(4.0).l1
    for gamma in (0.01, 0.05, 0.2):
        left = values[borda.max() - borda <= 2.0 * gamma]
        assert float(4.0 - left.min()) <= phase1_regret_bound(l1, gamma, 0.0)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: beta_theory(0.0, 0.1, 1.0), "norm_bound"),
        (lambda: beta_theory(1.0, 1.0, 1.0), "delta"),
        (lambda: beta_theory(1.0, 0.1, -1.0), "info_gain"),
        (lambda: phase1_regret_bound(math.inf, 0.1, 0.1), "l1"),
        (lambda: phase1_regret_bound(1.0, -0.1, 0.1), "gamma"),
        (lambda: phase1_regret_bound(1.0, 0.1, math.nan), "zeta"),
        (lambda: duel_budget_rule(0.0, 1.0, 0.1), "noise"),
        (lambda: duel_budget_rule(0.25, -1.0, 0.1), "beta"),
        (lambda: duel_budget_rule(0.25, 1.0, 0.0), "gamma"),
    ],
)
def test_bad_arguments(call: Callable[[], float], argument: str) -> None:
    with pytest.raises(ComparisonDataError, match=f"`{argument}`"):
        call()
