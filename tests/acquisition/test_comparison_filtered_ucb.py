"""COMP-GP-UCB's rule: the bound of values, the filter of duels, and both together."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from botorch.acquisition import UpperConfidenceBound
from botorch.models import SingleTaskGP
from gpytorch.kernels import RBFKernel, ScaleKernel
from torch import Tensor

from botorch_pref.acquisition import ComparisonFilteredUCB
from botorch_pref.models import BordaGP
from botorch_pref.space import SearchSpace
from tests.acquisition.expert import objective
from tests.contracts.acquisition import BOUNDS, ItemAcquisitionContract
from tests.models.common import rand, utility

X, AT = rand(25, 2, seed=3), rand(40, 2, seed=4)


def duels(sign: float = 1.0) -> BordaGP:
    """Items win where the utility is large, or else where it is small."""
    worth = sign * utility(X)
    return BordaGP.from_duels(X, (worth > worth.median()).double())


def made(**options: Any) -> ComparisonFilteredUCB:
    return ComparisonFilteredUCB(objective(), duels(), 2.0, **{"borda_slack": 0.02, **options})


class TestContract(ItemAcquisitionContract):
    def make(self) -> ComparisonFilteredUCB:
        return made()


@torch.no_grad()
def test_value_and_filter_are_written_out() -> None:
    # BoTorch's multiple is of the variance.
    expected = UpperConfidenceBound(objective(), beta=4.0)(AT.unsqueeze(-2))
    torch.testing.assert_close(made()(AT.unsqueeze(-2)), expected)
    posterior = duels().posterior(AT.unsqueeze(-2))
    upper = posterior.mean.flatten() + 2.0 * posterior.variance.flatten().sqrt()
    rule = made(lower_bound=0.61, borda_slack=0.07)
    torch.testing.assert_close(rule.feasibility(AT), upper - 0.61 + 0.07)
    assert rule.feasibility(AT[0]).shape == ()


@torch.no_grad()
def test_there_is_always_something_feasible() -> None:
    """At the item of the largest lower bound there is its own width, twice, and the slack."""
    values = objective()
    for seed in range(40):
        model = BordaGP.from_duels(rand(9, 2, seed=seed), (rand(9, seed=seed + 1) > 0.5).double())
        slack = 0.001 * (seed % 5)
        rule = ComparisonFilteredUCB(values, model, 0.7, borda_slack=slack)
        posterior = model.posterior(model.items.unsqueeze(-2))
        deviation = posterior.variance.flatten().sqrt()
        surest = int((posterior.mean.flatten() - 0.7 * deviation).argmax())
        phi = float(rule.feasibility(model.items[surest]))
        assert phi == pytest.approx(2 * 0.7 * float(deviation[surest]) + slack, abs=1e-10)
        assert phi >= 0.0


def a_filter(seed: int) -> ComparisonFilteredUCB:
    """Values and duels of smooth functions that agree for even seeds and do not for odd ones."""
    size = 15 + seed % 3 * 15
    items, measured = rand(size, 2, seed=seed), rand(4 + seed % 13, 2, seed=seed + 50)

    def wave(X: Tensor, number: int) -> Tensor:
        turns = 6 * rand(2, 4, seed=number) - 3
        return torch.sin(X @ turns + 6 * rand(4, seed=number + 1)).sum(-1)

    worth = wave(items, seed)
    answers = (worth > worth.median() + rand(size, seed=seed + 2) - 0.5).double()
    model = SingleTaskGP(
        measured,
        wave(measured, seed + 7 * (seed % 2)).unsqueeze(-1),
        torch.full((len(measured), 1), 1e-4).double(),
        covar_module=rbf(0.15 + 0.05 * (seed % 4), 1.0),
        outcome_transform=None,
    )
    borda = BordaGP.from_duels(items, answers, covar_module=rbf(0.2 + 0.1 * (seed % 3), 0.1))
    return ComparisonFilteredUCB(model.eval(), borda, 0.2 + seed % 4 * 0.3, borda_slack=0.01)


def rbf(lengthscale: float, variance: float) -> ScaleKernel:
    kernel = ScaleKernel(RBFKernel()).double()
    kernel.base_kernel.lengthscale, kernel.outputscale = lengthscale, variance
    return kernel


@torch.no_grad()
def test_constrained_maximum_is_that_of_a_grid() -> None:
    axis, shares = torch.linspace(0, 1, 201).double(), []
    grid = torch.cartesian_prod(axis, axis)
    for seed in range(3):
        rule = a_filter(seed)
        slack = rule.feasibility(grid)
        values = torch.cat([rule(part) for part in grid.unsqueeze(-2).split(4096)])
        with torch.enable_grad():
            found = SearchSpace(BOUNDS).maximize(rule, seed=seed, feasible=rule.feasibility)
        assert float(rule.feasibility(found.items)) >= -1e-6
        assert float(found.value) == pytest.approx(float(rule(found.items)), abs=1e-9)
        least = float(values[slack >= 0].max()) - 1e-3 * float(values.max() - values.min())
        assert float(found.value) >= least, seed
        shares.append(float((slack >= 0).double().mean()))
    assert min(shares) < 0.5  # the filter does cut


def test_gradient_of_the_filter() -> None:
    rule, at = made(), AT[:3].clone().requires_grad_()
    assert torch.autograd.gradcheck(rule.feasibility, (at,), atol=1e-6, rtol=1e-6)
    assert torch.autograd.gradcheck(rule, (at.unsqueeze(-2),), atol=1e-6, rtol=1e-6)
    edge = torch.cat([X, BOUNDS, rule.model.train_inputs[0]]).detach().requires_grad_()
    (gradient,) = torch.autograd.grad(
        rule.feasibility(edge).sum() + rule(edge[:, None]).sum(), edge
    )
    assert gradient.isfinite().all()
