"""Posteriors through inducing items that rows are added to."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from botorch_pref.inference import (
    Block,
    InducingSystem,
    LaplacePosterior,
    Observations,
    inducing,
    laplace_posterior,
)
from botorch_pref.inference.inducing_extension import extend_through_inducing_items
from botorch_pref.likelihoods import LogitLikelihood
from tests.inference.common import DUEL, LABEL, assert_equal, rand, randn
from tests.inference.inducing import MaternItems, inducing_side, kernel_inputs

X, Z = rand(12, 2, seed=1), rand(5, 2, seed=5)
MEAN, FACTORS = randn(12, seed=3), 0.5 + rand(12, seed=4)
PAIRS = torch.tensor([[0, 1], [2, 3], [1, 3], [0, 2], [4, 5], [3, 4], [8, 9], [10, 2]])
both_weights = pytest.mark.parametrize("kappa", [None, 0.4])


def some(num_rows: int, num_items: int, count: Tensor) -> Observations:
    """Duels, and labels behind them."""
    answer = (0.5 + 0.5 * (-1.0) ** torch.arange(num_rows)).to(count)
    duels = Block(PAIRS[:num_rows], DUEL, answer, count, LogitLikelihood())
    told = torch.tensor([[0.0, 1.0], [1.0, 2.0]], dtype=torch.float64)
    labels = Block(torch.tensor([[1], [0]]), LABEL, *told, LogitLikelihood())
    return Observations([duels, labels], num_items)


def system_of(num_items: int, observations: Observations) -> InducingSystem:
    rows = slice(0, num_items)
    return inducing_side(X[rows], Z, observations, MEAN[rows], FACTORS[rows])


def weight_of(observations: Observations, kappa: float | None) -> Tensor | None:
    return None if kappa is None else observations.weight / kappa


def add(
    former: LaplacePosterior, before: tuple[int, int], after: InducingSystem, kappa: float | None
) -> LaplacePosterior:
    """Rows behind the duels and items behind the items."""
    observations = after.observations
    rows = torch.arange(before[0] + 2)
    rows[before[0] :] += observations.num_rows - 2 - before[0]
    weight, items = weight_of(observations, kappa), torch.arange(before[1])
    return extend_through_inducing_items(
        former, after.kernel, after.prior_latent, observations, rows, items, weight
    )


def assert_same(found: LaplacePosterior, expected: LaplacePosterior) -> None:
    assert bool(found.mode.converged)
    assert_equal(found.weights, expected.weights, 1e-10)
    assert_equal(found.gamma, expected.gamma, 1e-10)
    assert_equal(found.mode.latent, expected.mode.latent, 1e-10)


@both_weights
@pytest.mark.parametrize("blocks", ["whole", "in pieces", "not kept", "streamed"])
@pytest.mark.parametrize(
    ("before", "after"),
    [((5, 12), (8, 12)), ((4, 6), (6, 6)), ((3, 6), (6, 8)), ((8, 12), (8, 12)), ((4, 6), (7, 11))],
)
def test_rows_and_items(
    before: tuple[int, int],
    after: tuple[int, int],
    blocks: str,
    kappa: float | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows behind each kind of observation, and one that is answered once more."""
    if blocks != "whole":
        monkeypatch.setattr(inducing, "_BLOCK_ENTRIES", 3 * len(Z))
        monkeypatch.setattr(inducing, "_CHUNK_ENTRIES", 2 * len(Z))
    if blocks in ("not kept", "streamed"):
        monkeypatch.setattr(inducing, "_KEPT_ENTRIES", 0)
    if blocks == "streamed":
        monkeypatch.setattr(inducing, "_STORED_ENTRIES", 0)
        monkeypatch.setattr(inducing, "_EXPENSIVE_TOLERANCE", 1e-12)
    count = 1.0 + torch.arange(before[0], dtype=torch.float64) % 2
    observations = some(*before, count)
    former = laplace_posterior(system_of(before[1], observations), weight_of(observations, kappa))
    kept = former.weights.clone(), former.gamma.clone()
    more = torch.cat([count, torch.ones(after[0] - before[0]).double()])
    more[1] += 1.0
    observations = some(*after, more)
    grown = system_of(after[1], observations)
    found = add(former, before, grown, kappa)
    assert_same(found, laplace_posterior(grown, weight_of(observations, kappa)))
    assert torch.equal(former.weights, kept[0])
    assert torch.equal(former.gamma, kept[1])


@both_weights
def test_nothing_new_and_more_than_a_few(kappa: float | None) -> None:
    count = torch.ones(8, dtype=torch.float64)
    observations = some(8, 12, count)
    former = laplace_posterior(system_of(12, observations), weight_of(observations, kappa))
    assert_same(add(former, (8, 12), system_of(12, observations), kappa), former)
    observations = Observations(
        [*some(8, 12, count + 1.0).blocks[:1], *some(8, 12, 2.0 * count).blocks[1:]], 12
    )
    first = some(1, 12, count[:1])
    former = laplace_posterior(system_of(12, first), weight_of(first, kappa))
    grown = system_of(12, observations)
    assert_same(
        add(former, (1, 12), grown, kappa), laplace_posterior(grown, weight_of(observations, kappa))
    )


class CountedItems(MaternItems):
    """Counts the entries of the kernel that are evaluated."""

    entries = 0

    def cross(self, items: Tensor | None) -> Tensor:
        found = super().cross(items)
        CountedItems.entries += found.numel()
        return found

    def inducing(self) -> Tensor:
        CountedItems.entries += len(Z) ** 2
        return super().inducing()


def test_entries_of_new_items_alone_are_evaluated() -> None:
    count = torch.ones(6, dtype=torch.float64)

    def kernel(num_items: int) -> CountedItems:
        return CountedItems(kernel_inputs(X[:num_items], Z))

    def latent(observations: Observations) -> Tensor:
        return torch.zeros_like(observations.weight)

    first = some(4, 6, count[:4])
    former = laplace_posterior(InducingSystem(kernel(6), latent(first), first))
    CountedItems.entries = 0
    rows, items = torch.tensor([0, 1, 2, 3, 6, 7]), torch.arange(6)
    told = some(6, 8, count)
    found = extend_through_inducing_items(former, kernel(8), latent(told), told, rows, items)
    assert CountedItems.entries == 2 * len(Z)
    assert_same(found, laplace_posterior(InducingSystem(kernel(8), latent(told), told)))
