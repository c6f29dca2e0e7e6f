"""Posteriors that rows are added to, as functions of tensors."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from botorch_pref.inference import (
    DualSystem,
    LaplacePosterior,
    Observations,
    PrimalSystem,
    System,
    choose_system,
    extend,
    laplace_posterior,
)
from botorch_pref.inference.extension import _grown_root, bordered
from botorch_pref.inference.incidence import complement
from botorch_pref.inference.observations import Block
from botorch_pref.inference.systems import prior_root
from botorch_pref.likelihoods import LogitLikelihood
from tests.inference.common import DUEL, LABEL, assert_equal, matern, rand

X = rand(12, 2)
PAIRS = torch.tensor([[0, 1], [2, 3], [1, 3], [0, 2], [4, 5], [3, 4], [8, 9], [10, 2]])


def some(num_rows: int, num_items: int, count: Tensor) -> Observations:
    """Duels, and labels behind them."""
    answer = (0.5 + 0.5 * (-1.0) ** torch.arange(num_rows)).to(count)
    duels = Block(PAIRS[:num_rows], DUEL, answer, count, LogitLikelihood())
    labels = Block(
        torch.tensor([[1], [0]]),
        LABEL,
        *torch.tensor([[0.0, 1.0], [1, 2]]).to(count),
        LogitLikelihood(),
    )
    return Observations([duels, labels], num_items)


def joint(num_rows: int, num_items: int, count: Tensor) -> tuple[Tensor, Tensor, Observations]:
    observations = some(num_rows, num_items, count)
    items = X[:num_items]
    return matern(items), observations.map.apply(items.sum(-1)), observations


def assert_same(found: LaplacePosterior, expected: LaplacePosterior) -> None:
    assert type(found.system) is type(expected.system)
    assert_equal(found.weights, expected.weights, 1e-10)
    assert_equal(found.gamma, expected.gamma, 1e-10)
    assert_equal(found.mode.latent, expected.mode.latent, 1e-10)
    assert_equal(found.mode.weights, expected.mode.weights, 1e-10)
    assert_equal(found.system.covariance, expected.system.covariance, 1e-14)
    assert bool(found.mode.converged)


@pytest.mark.parametrize("kappa", [None, 0.4])
@pytest.mark.parametrize(
    ("before", "after"),
    [((5, 12), (8, 12)), ((4, 5), (5, 6)), ((3, 6), (6, 6)), ((8, 12), (8, 12)), ((4, 9), (4, 9))],
)
def test_rows_behind_each_kind(
    before: tuple[int, int], after: tuple[int, int], kappa: float | None
) -> None:
    """On either system, from one to the other, and rows that are answered once more."""
    count = 1.0 + torch.arange(before[0], dtype=torch.float64) % 2
    (K, mean, observations), weight = joint(*before, count), None
    weight = None if kappa is None else observations.weight / kappa
    former = laplace_posterior(choose_system(K, mean, observations), weight)
    more = torch.cat([count, torch.ones(after[0] - before[0]).double()])
    more[1] += 1.0
    K, mean, observations = joint(*after, more)
    weight = None if kappa is None else observations.weight / kappa
    rows = torch.arange(before[0] + 2)
    rows[before[0] :] += after[0] - before[0]
    items = torch.arange(before[1])
    found = extend(former, K, mean, observations, rows, items, weight)
    assert_same(found, laplace_posterior(choose_system(K, mean, observations), weight))
    again = laplace_posterior(
        choose_system(*joint(*before, count)),
        None if kappa is None else joint(*before, count)[2].weight / kappa,
    )
    assert_same(former, again)  # it is left as it was


@pytest.mark.parametrize("wanted", [DualSystem, PrimalSystem])
def test_the_hessian_is_let_go_of(wanted: type[System]) -> None:
    size = (4, 12) if wanted is DualSystem else (6, 6)
    ones = torch.ones(size[0], dtype=torch.float64)
    former = laplace_posterior(choose_system(*joint(*size, ones)))
    grown = joint(*size, ones + torch.eye(size[0])[0])
    found = extend(former, *grown, torch.arange(size[0] + 2), torch.arange(size[1]))
    assert isinstance(found.system, wanted)
    assert found.system._kept is None
    assert found.system.patience == 0


def test_bordered() -> None:
    whole = matern(X)
    for kept in (torch.arange(9), torch.tensor([0, 1, 2, 5, 6, 7, 8, 11])):
        new = complement(kept, 12)
        former = whole[kept][:, kept]
        found = bordered(former, kept, new, whole[new][:, kept], whole[new][:, new])
        assert torch.equal(found, whole)
    everything = torch.arange(12)
    assert bordered(whole, everything, complement(everything, 12), whole, whole) is whole


def test_a_root_gets_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    K, first = matern(X), torch.arange(9)
    root = prior_root(K[:9, :9])
    with monkeypatch.context() as patch:
        patch.setattr("botorch_pref.inference.extension._pivoted_root", None)
        grown, order = _grown_root(root, first, K, first)
        assert _grown_root(grown, order, K, torch.arange(12))[0] is grown
    assert torch.equal(order, torch.arange(12))
    assert torch.equal(grown, grown.tril())
    assert torch.equal(grown[:9, :9], root)
    assert_equal(grown @ grown.mT, K, 1e-14)


@pytest.mark.parametrize(
    "items",
    [
        torch.tensor([0, 1, 2, 3, 3, 5, 6]),  # singular before
        torch.tensor([0, 1, 2, 3, 4, 1, 6]),  # singular now
    ],
)
def test_a_singular_covariance_has_a_root_all_the_same(items: Tensor) -> None:
    K = matern(X[items])
    root, order = _grown_root(prior_root(K[:5, :5]), torch.arange(5), K, torch.arange(5))
    assert_equal(root @ root.mT, K, 1e-13)
    assert root.shape == (7, 6)
    assert torch.equal(root[order], root[order].tril())


def test_a_singular_root_gets_rows_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A smooth kernel: of many items few are independent, time and again."""
    points = rand(60, 1)
    K, size = torch.exp(-2.0 * (points - points.mT).square()), 20
    with pytest.raises(torch.linalg.LinAlgError):
        torch.linalg.cholesky(K[:size, :size])
    root, order = prior_root(K[:size, :size]), torch.arange(size)
    for now in range(size + 2, 61, 2):
        root, order = _grown_root(root, order, K[:now, :now], torch.arange(now - 2))
        assert_equal(root @ root.mT, K[:now, :now], 1e-12)
        assert torch.equal(root[order], root[order].tril())
        assert root.shape[-1] < 20
        monkeypatch.setattr("torch.linalg.eigh", None)


def smooth(points: Tensor, lengthscale: float) -> Tensor:
    """A squared exponential covariance, whose numerical rank is low."""
    return torch.exp(-0.5 * (torch.cdist(points, points) / lengthscale).square())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("fresh", [1, 3])
@pytest.mark.parametrize("kind", ["smooth", "many", "near", "twice", "units", "flat", "rank one"])
def test_a_grown_root_is_one(kind: str, fresh: int, dtype: torch.dtype) -> None:
    """Whatever rounding leaves of new items, in correlations; again and again."""
    for seed in range(12):
        size = 170 if kind == "many" else 9 + seed
        points = rand(size + 15, 1 + seed % 2, seed=seed)
        for i in range(1, size + 15, 2):
            if kind in ("near", "twice"):
                points[i] = points[i - 1] + (1e-7 if kind == "near" else 0.0)
        whole = smooth(points, 3.0 if kind == "many" else 0.25)
        units = torch.ones_like(points[:, 0])
        if kind == "units":
            units[::3] = 1e5
        if kind == "flat":
            whole = torch.zeros_like(whole)
        if kind == "rank one":
            units[:-5] = 0.0
            whole = torch.ones_like(whole)
        scale = 10.0 * units * units.unsqueeze(-1)
        whole = (scale * whole).to(dtype)
        root, order = prior_root(whole[:size, :size]), torch.arange(size)
        for now in range(size + fresh, size + 16, fresh):
            root, order = _grown_root(root, order, whole[:now, :now], torch.arange(now - fresh))
            error = (root @ root.mT - whole[:now, :now]).abs()
            rounding = 20 * now * torch.finfo(dtype).eps
            assert bool((error <= rounding * scale[:now, :now]).all()), (seed, now)
            assert root.shape[-1] > 0


def test_a_root_of_what_is_not_finite_is_not_finite() -> None:
    K = matern(X)
    root = prior_root(K[:9, :9])
    K[10, 10] = torch.nan
    assert not bool(_grown_root(root, torch.arange(9), K, torch.arange(9))[0].isfinite().all())


def test_new_items_between_former_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time and again, without another factorisation of the whole."""
    K, known = matern(X), torch.tensor([1, 4, 6, 7])
    root, order = prior_root(K[known][:, known]), torch.arange(4)
    monkeypatch.setattr("botorch_pref.inference.extension._pivoted_root", None)
    for now in ([0, 1, 2, 4, 6, 7], [0, 1, 2, 3, 4, 6, 7, 9], list(range(12))):
        whole = torch.tensor(now)
        items = torch.searchsorted(whole, known)
        root, order = _grown_root(root, order, K[whole][:, whole], items)
        assert_equal(root @ root.mT, K[whole][:, whole], 1e-13)
        assert torch.equal(root[order], root[order].tril())
        known = whole
