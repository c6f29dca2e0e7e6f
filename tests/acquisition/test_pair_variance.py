"""The variance of a difference: oracle, papers' units, invariances, pending pairs."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch
from botorch.models.model import Model
from botorch.optim import optimize_acqf_discrete
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, ScaleKernel
from torch import Tensor

from botorch_pref.acquisition import PairAsPoint, PairVariance
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.models import PreferenceGP
from tests._reference import finite as reference
from tests._reference import kernels as reference_kernels
from tests.acquisition.common import make_batched_model, make_botorch_model, make_model, tables
from tests.contracts.acquisition import PairAcquisitionContract
from tests.models.common import make_duels, make_kernel, rand
from tests.models.mixed import oracle


class TestContract(PairAcquisitionContract):
    def make(self) -> PairVariance:
        return PairVariance(make_model(variance=4.0))


@torch.no_grad()
@pytest.mark.parametrize("variance", ["laplace", 4.0])
def test_value_is_that_of_brute_force(variance: str | float) -> None:
    model, items = make_model(variance=variance), rand(9, 2, seed=4)
    _, covariance, _ = oracle(model, items)
    _, deviation = tables(torch.zeros(9).double(), covariance)
    first, second = torch.triu_indices(9, 9, 1)
    values = PairVariance(model)(torch.stack([items[first], items[second]], dim=1))
    torch.testing.assert_close(values, deviation[first, second].square(), atol=1e-9, rtol=1e-9)


def line_model(items: Tensor, duels: Tensor, penalty: float, kappa: float | str) -> PreferenceGP:
    kernel = ScaleKernel(MaternKernel(nu=2.5)).double()
    # A plain float would pass through float32.
    kernel.base_kernel.lengthscale = torch.tensor(0.1, dtype=torch.float64)
    kernel.outputscale = torch.tensor(1.0).double() / penalty
    return PreferenceGP(items, duels, covar_module=kernel, variance=kappa)


@torch.no_grad()
@pytest.mark.parametrize(("penalty", "kappa"), [(0.05, 1.0), (0.05, 6.0), (0.5, 22.1), (2.0, 4.0)])
def test_units_of_the_papers(penalty: float, kappa: float) -> None:
    """``sigma = sqrt(lambda) sd``: eq. (10) with the unit kernel and ridge ``lambda kappa``."""
    items, duels = make_duels(7, 15, 1, seed=2)
    gram = reference_kernels.gram("matern52", items.numpy(), items.numpy(), 0.1)
    sigma2 = np.diag(reference.pair_covariance(gram, duels.numpy(), penalty * kappa))
    rule = PairVariance(line_model(items, duels, penalty, kappa))
    value = rule(items[torch.from_numpy(reference.all_pairs(7))])
    torch.testing.assert_close(
        penalty * value, torch.from_numpy(sigma2.copy()), atol=1e-9, rtol=1e-9
    )


@torch.no_grad()
def test_answers_do_not_matter() -> None:
    """Property 11, bit for bit; for the Laplace variance they do."""
    (items, duels), pairs = make_duels(8, 12, 2), rand(50, 2, 2, seed=9)
    flipped = torch.where(torch.arange(12)[:, None] % 2 == 0, duels.flip(-1), duels)
    for variance, is_same in ((4.0, True), ("laplace", False)):
        options = {"covar_module": make_kernel(2), "variance": variance}
        models = [PreferenceGP(items, answered, **options) for answered in (duels, flipped)]
        assert torch.equal(*(PairVariance(model)(pairs) for model in models)) is is_same


@torch.no_grad()
@pytest.mark.parametrize("variance", ["laplace", 4.0])
def test_symmetric_and_bounded_by_the_prior(variance: str | float) -> None:
    """Property 11."""
    model, pairs = make_model(variance=variance), rand(50, 2, 2, seed=9)
    rule = PairVariance(model)
    values = rule(pairs)
    torch.testing.assert_close(rule(pairs.flip(-2)), values, atol=1e-13, rtol=0.0)
    assert torch.equal(rule(pairs[:, :1].expand_as(pairs)), torch.zeros(50).double())
    prior = model.covar_module(pairs).to_dense()
    bound = prior[:, 0, 0] + prior[:, 1, 1] - 2 * prior[:, 0, 1]
    assert ((values > 0) & (values <= bound + 1e-12)).all()


@torch.no_grad()
def test_repeats_and_time() -> None:
    """Property 12: repeats of one pair in closed form, and monotone in data and kappa."""
    items, kappa = rand(2, 2), 3.0
    prior = 2 * (4.0 - make_kernel(2)(items).to_dense()[0, 1])
    for repeats in (1, 2, 7):
        duels = torch.tensor([[0, 1]]).repeat(repeats, 1)
        model = PreferenceGP(items, duels, covar_module=make_kernel(2), variance=kappa)
        value = PairVariance(model)(items.unsqueeze(0))
        torch.testing.assert_close(value, (prior * kappa / (kappa + repeats * prior)).view(1))
    pairs, (items, duels) = rand(100, 2, 2, seed=9), make_duels(8, 12, 2)

    def values(num: int, kappa: float) -> Tensor:
        model = PreferenceGP(items, duels[:num], covar_module=make_kernel(2), variance=kappa)
        return PairVariance(model)(pairs)

    over_time = torch.stack([values(num, 3.0) for num in range(1, 13)])
    assert (over_time.diff(dim=0) <= 1e-10).all()
    assert (over_time[0] - over_time[-1]).max() > 0.1
    over_kappa = torch.stack([values(12, kappa) for kappa in (0.5, 1.0, 4.0, 100.0)])
    assert (over_kappa.diff(dim=0) >= -1e-10).all()


@torch.no_grad()
def test_root_is_a_pseudo_metric() -> None:
    """Property 13."""
    items = rand(12, 2, seed=3)
    table = items[torch.cartesian_prod(torch.arange(12), torch.arange(12))]
    deviation = PairVariance(make_model(variance=4.0))(table).sqrt().view(12, 12)
    detour = (deviation[:, :, None] + deviation[None, :, :]).amin(dim=1)
    assert (deviation <= detour + 1e-9).all()


@pytest.mark.parametrize(
    ("make", "base"),
    [
        (make_model, MaternKernel(nu=2.5)),
        (make_model, MaternKernel(nu=1.5)),
        (make_botorch_model, MaternKernel(nu=2.5)),
        (make_botorch_model, RBFKernel()),
    ],
)
def test_gradient(make: Callable[..., Model], base: Kernel) -> None:
    """Property 22: exact away from the diagonal, zero on it."""
    rule = PairVariance(make(covar_module=ScaleKernel(base).double()))
    apart = rand(2, 2, 2, seed=5).requires_grad_()
    assert torch.autograd.gradcheck(rule, (apart,), atol=1e-7)
    same = rand(3, 1, 2, seed=5).expand(3, 2, 2).clone().requires_grad_()
    value = rule(same)
    (gradient,) = torch.autograd.grad(value.sum(), same)
    assert torch.equal(value, torch.zeros_like(value))
    assert torch.equal(gradient, torch.zeros_like(gradient))


def test_pending_pairs_are_asked_pairs() -> None:
    model, pairs, pending = make_model(variance=4.0), rand(20, 2, 2, seed=9), rand(3, 2, 2)
    pending[0, 1, 0] = pending[0, 0, 0]  # one column in common makes no identical items
    rule, before = PairVariance(model), PairVariance(model)(pairs)
    rule.set_pending_pairs(pending)
    for answer in (0.0, 0.5, 1.0):  # whichever comes
        told = model.condition_on_pairs(pending, torch.full((3,), answer).double())
        torch.testing.assert_close(rule(pairs), PairVariance(told)(pairs), atol=1e-12, rtol=0.0)
    assert (rule(pairs) < before).all()
    itself = pending[:, :1].expand_as(pending)
    rule.set_pending_pairs(torch.cat([pending, itself]))
    torch.testing.assert_close(rule(pairs), PairVariance(told)(pairs), atol=1e-12, rtol=0.0)
    for nothing in (itself, pending[:0], None):
        rule.set_pending_pairs(nothing)
        assert torch.equal(rule(pairs), before)
    assert rule.model is model
    other = PairVariance(make_botorch_model())
    other.set_pending_pairs(None)
    with pytest.raises(UnsupportedError, match="PairwiseGP has no condition_on_pairs"):
        other.set_pending_pairs(pending)


def test_sequential_choice_is_the_greedy_design() -> None:
    """Several pairs of a table, one by one, against rank-one downdates of a covariance."""
    items, kappa = rand(7, 2, seed=3), 4.0
    model = make_model(variance=kappa)
    rows = list(itertools.combinations(range(7), 2))
    table = torch.stack([items[list(row)].flatten() for row in rows])
    chosen, _ = optimize_acqf_discrete(
        PairAsPoint(PairVariance(model)), q=6, choices=table, unique=False
    )
    _, covariance, _ = oracle(model, items)
    C = covariance.numpy().copy()
    for step in range(6):
        variance = [C[i, i] + C[j, j] - 2 * C[i, j] for i, j in rows]
        best = int(np.argmax(variance))
        assert torch.equal(chosen[step], table[best])
        i, j = rows[best]
        a = C[:, i] - C[:, j]
        C -= np.outer(a, a) / (kappa + a[i] - a[j])


@torch.no_grad()
@pytest.mark.parametrize("variance", ["laplace", 4.0])
def test_batched_model(variance: str | float) -> None:
    model, alone = make_batched_model(variance=variance)
    pairs = rand(5, 1, 2, 2)
    values = PairVariance(model)(pairs.expand(5, 3, 2, 2))
    assert values.shape == (5, 3)
    expected = torch.stack([PairVariance(one)(pairs[:, 0]) for one in alone], dim=-1)
    torch.testing.assert_close(values, expected, atol=1e-8, rtol=1e-8)
    torch.testing.assert_close(PairVariance(model)(pairs), values)
