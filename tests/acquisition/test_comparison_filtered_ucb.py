"""COMP-GP-UCB's rule: the bound of values, the filter of duels, and both together."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from botorch.acquisition import UpperConfidenceBound
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.models import ModelListGP
from torch import Tensor

from botorch_pref.acquisition import ComparisonFilteredUCB
from botorch_pref.acquisition.comparison_filtered_ucb import largest_lower_bound
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
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
    instead = "conditioned on what is pending"

    def make(self) -> ComparisonFilteredUCB:
        return made()


@torch.no_grad()
def test_value_is_the_upper_bound() -> None:
    """The multiple is of the deviation; BoTorch's is of its square."""
    expected = UpperConfidenceBound(objective(), beta=4.0)(AT.unsqueeze(-2))
    torch.testing.assert_close(made()(AT.unsqueeze(-2)), expected)


@torch.no_grad()
def test_filter_is_written_out() -> None:
    posterior = duels().posterior(AT.unsqueeze(-2))
    upper = posterior.mean.flatten() + 1.5 * posterior.variance.flatten().sqrt()
    rule = made(borda_beta=1.5, lower_bound=0.61, borda_slack=0.07)
    torch.testing.assert_close(rule.feasibility(AT), upper - 0.61 + 0.07)
    assert rule.feasibility(AT[0]).shape == ()


@torch.no_grad()
def test_there_is_always_something_feasible() -> None:
    """At the item of the largest lower bound there is its own width and the slack."""
    for seed in range(200):
        model = BordaGP.from_duels(rand(9, 2, seed=seed), (rand(9, seed=seed + 1) > 0.5).double())
        rule = ComparisonFilteredUCB(objective(), model, 0.7, borda_slack=0.0)
        assert float(rule.feasibility(model.items).max()) >= 0.0
        further = rand(5, 2, seed=seed + 2)
        alone = largest_lower_bound(model, 0.7)
        assert largest_lower_bound(model, 0.7, further) >= alone - 1e-12


def test_constrained_maximum_is_that_of_a_grid() -> None:
    rule = ComparisonFilteredUCB(objective(), duels(-1.0), 2.0, borda_slack=0.0, borda_beta=0.3)
    axis = torch.linspace(0, 1, 201).double()
    grid = torch.cartesian_prod(axis, axis)
    with torch.no_grad():
        values, slack = rule(grid.unsqueeze(-2)), rule.feasibility(grid)
    assert 0.05 < float((slack >= 0).double().mean()) < 0.8
    free = SearchSpace(BOUNDS).maximize(rule, seed=0)
    found = SearchSpace(BOUNDS).maximize(rule, seed=0, feasible=rule.feasibility)
    with torch.no_grad():
        assert float(rule.feasibility(found.items)) >= -1e-9
    assert float(found.value) >= float(values[slack >= 0].max()) - 1e-3 * float(
        values.max() - values.min()
    )
    assert float(free.value) > float(found.value) + 1e-3


def test_gradient_of_the_filter() -> None:
    rule, at = made(), AT[:3].clone().requires_grad_()
    assert torch.autograd.gradcheck(rule.feasibility, (at,), atol=1e-6)
    edge = torch.cat([X, BOUNDS]).requires_grad_()
    (gradient,) = torch.autograd.grad(
        rule.feasibility(edge).sum() + rule(edge[:, None]).sum(), edge
    )
    assert gradient.isfinite().all()


@torch.no_grad()
def test_copies_and_constructors() -> None:
    rule = made(borda_beta=1.0)
    construct = get_acqf_input_constructor(ComparisonFilteredUCB)
    arguments = construct(
        model=objective(), borda_model=duels(), beta=2.0, borda_slack=0.02, borda_beta=1.0
    )
    for other in (
        copy.deepcopy(rule),
        pickle.loads(pickle.dumps(rule)),
        ComparisonFilteredUCB(**arguments),
    ):
        torch.testing.assert_close(other(AT.unsqueeze(-2)), rule(AT.unsqueeze(-2)))
        torch.testing.assert_close(other.feasibility(AT), rule.feasibility(AT))
    with pytest.raises(UnsupportedError, match="pending"):
        construct(model=objective(), borda_model=duels(), X_pending=AT[:1])


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"borda_slack": -0.1}, "`borda_slack`"),
        ({"borda_beta": -1.0}, "`beta`"),
    ],
)
def test_bad_options(options: Any, match: str) -> None:
    with pytest.raises(ComparisonDataError, match=match):
        made(**options)


def test_other_models_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="`borda_model` must be a BordaGP"):
        ComparisonFilteredUCB(objective(), objective(), 1.0, borda_slack=0.0)  # type: ignore[arg-type]
    both = ModelListGP(objective(), objective())
    with pytest.raises(UnsupportedError, match="one output"):
        ComparisonFilteredUCB(both, duels(), 1.0, borda_slack=0.0)


@pytest.mark.cuda
@torch.no_grad()
def test_cuda() -> None:
    rule = made()
    there = copy.deepcopy(rule).to("cuda")
    at: Tensor = AT.to("cuda")
    torch.testing.assert_close(
        there(at.unsqueeze(-2)).cpu(), rule(AT.unsqueeze(-2)), atol=1e-8, rtol=0
    )
    torch.testing.assert_close(there.feasibility(at).cpu(), rule.feasibility(AT), atol=1e-8, rtol=0)
