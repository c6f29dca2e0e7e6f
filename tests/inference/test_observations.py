"""The sparse map and the stacked blocks against dense algebra."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest
import torch
from torch import Tensor
from torch.autograd.functional import hessian, jacobian

from botorch_pref.inference import Block, Incidence, Observations
from botorch_pref.likelihoods import LogitLikelihood, ProbitLikelihood
from tests.inference.common import (
    DUEL,
    assert_equal,
    design,
    duels,
    labels,
    mixed,
    questions,
    rand,
    randn,
)

N, M = 5, 7
COEFFICIENTS: dict[str, list[float | Tensor]] = {
    "duel": [1.0, -1.0],
    "label": [1.0],
    "two signs": [-1.0, 1.0],
    "contrast of three": [1.0, -0.5, -0.5],
    "one factor a row": [torch.linspace(-2.0, 1.0, M, dtype=torch.float64), -1.0],
}


def indices(*shape: int, seed: int = 0) -> Tensor:
    return (rand(*shape, seed=seed) * N).long()


def dense(items: Tensor, coefficients: list[float | Tensor]) -> Tensor:
    """The map as a matrix; an item that a row names twice counts twice."""
    total = torch.zeros(*items.shape[:-1], N, dtype=torch.float64)
    for j, factor in enumerate(coefficients):
        one_hot = torch.nn.functional.one_hot(items[..., j], N).double()
        total = total + (factor.unsqueeze(-1) if isinstance(factor, Tensor) else factor) * one_hot
    return total


@pytest.mark.parametrize("kind", sorted(COEFFICIENTS))
@pytest.mark.parametrize(
    ("items_shape", "batch"),
    [((), ()), ((), (2, 3)), ((3,), (3,)), ((2, 3), ()), ((2, 1), (3,)), ((3,), (2, 3))],
)
def test_sparse_map(kind: str, items_shape: tuple[int, ...], batch: tuple[int, ...]) -> None:
    coefficients = COEFFICIENTS[kind]
    items = indices(*items_shape, M, len(coefficients))
    found, H = Incidence(items, coefficients, N), dense(items, coefficients)
    f, v, C = randn(*batch, N), randn(*batch, M, seed=1), randn(*batch, N, 4, seed=2)
    assert_equal(found.apply(f), (H @ f.unsqueeze(-1)).squeeze(-1), 1e-13)
    assert_equal(found.adjoint(v), (H.mT @ v.unsqueeze(-1)).squeeze(-1), 1e-13)
    assert_equal(found.rows(C), H @ C, 1e-13)
    assert_equal(found.columns(C.mT), C.mT @ H.mT, 1e-13)
    D = randn(*batch, M, 3, seed=3)
    assert_equal(found.spread(D), H.mT @ D, 1e-13)
    K = randn(*batch, N, N).requires_grad_()
    grad = randn(*torch.broadcast_shapes(batch, items_shape), M, M, seed=1)
    (ours,) = torch.autograd.grad(found.gram(K), K, grad)
    (expected,) = torch.autograd.grad(H @ K @ H.mT, K, grad)
    assert_equal(ours, expected, 1e-13)
    G, w = randn(*batch, N, N), rand(*batch, M, seed=1)
    assert_equal(found.gram(G), H @ G @ H.mT, 1e-13)
    assert_equal(found.laplacian(w), H.mT @ (w.unsqueeze(-1) * H), 1e-13)
    assert_equal(found.diagonal(G), (H @ G @ H.mT).diagonal(dim1=-2, dim2=-1), 1e-13)


def test_no_rows() -> None:
    """In a batch, too, whose matrices then have no entries."""
    empty = Incidence(torch.empty(2, 0, 2, dtype=torch.long), DUEL, N)
    K = randn(N, N).requires_grad_()
    assert empty.gram(K).shape == (2, 0, 0)
    assert torch.equal(torch.autograd.grad(empty.gram(K).sum(), K)[0], torch.zeros(N, N).double())
    assert empty.spread(randn(2, 0, 3)).shape == (2, N, 3)


X = rand(N, 2)


def triple() -> Block:
    one = torch.ones(3, dtype=torch.float64)
    return Block(indices(3, 3, seed=4), (1.0, -0.5, -0.5), rand(3), one, LogitLikelihood())


BLOCKS: dict[str, Callable[[], list[Block]]] = {
    "duels": lambda: [duels(X, 6, link=ProbitLikelihood(2.0))],
    "several": lambda: [duels(X, 6), labels(X, 4, link=LogitLikelihood(0.5)), triple()],
    "several, in another order": lambda: [triple(), duels(X, 6), labels(X, 4)],
    "choices": lambda: [questions(2, 3, N)],
    "choices of two": lambda: [questions(6, 2, N)],
    "mixed": lambda: [*mixed(5, N + 1).blocks],
}


@pytest.mark.parametrize("kind", BLOCKS)
def test_blocks_are_their_rows_and_derivatives(kind: str) -> None:
    """The map of all rows by dense algebra, and derivatives by autograd."""
    observations = Observations(BLOCKS[kind](), N + 1)
    latent = randn(observations.num_rows, seed=2)

    def log_prob(eta: Tensor) -> Tensor:
        return observations.log_prob(eta).sum()

    score, curvature = observations.derivatives(latent)
    expected = -hessian(log_prob, latent)
    assert_equal(score, jacobian(log_prob, latent), 1e-12)
    identity = torch.eye(len(latent), dtype=torch.float64)
    assert_equal(curvature.unscale(identity), expected, 1e-12)
    assert_equal(curvature.weight, expected.diagonal(), 1e-12)
    assert_equal(curvature.apply(score), expected @ score, 1e-12)
    found, H = observations.incidence, torch.from_numpy(design(observations))
    f, C, w = rand(N + 1), randn(len(latent), 2, seed=3), rand(len(latent))
    assert_equal(found.dense(latent), H, 0.0)
    assert_equal(found.apply(f), H @ f, 1e-13)
    assert_equal(found.adjoint(w), H.T @ w, 1e-13)
    assert_equal(found.spread(C), H.T @ C, 1e-13)
    assert_equal(found.laplacian(w), H.T @ (w[:, None] * H), 1e-13)
    assert_equal(curvature.laplacian(found), H.T @ expected @ H, 1e-12)
    assert_equal(curvature.quadratic(C), C.T @ expected @ C, 1e-12)
    moment = C @ C.T

    def trace(eta: Tensor) -> Tensor:
        return (hessian(log_prob, eta, create_graph=True) * moment).sum()

    assert_equal(curvature.contract(curvature.marginals(C, C)), jacobian(trace, latent), 1e-12)


def test_batches_and_large_utilities() -> None:
    observations = mixed(5, N + 1)
    latent = randn(2, 3, observations.num_rows, seed=4)
    value = observations.log_prob(latent)
    score, curvature = observations.derivatives(latent)
    for i, j in product(range(2), range(3)):
        one, own = observations.derivatives(latent[i, j])
        assert_equal(value[i, j], observations.log_prob(latent[i, j]), 1e-14)
        assert_equal(score[i, j], one, 1e-14)
        assert_equal(curvature.weight[i, j], own.weight, 1e-14)
    score, curvature = observations.derivatives(1e3 * latent)
    for found in (observations.log_prob(1e3 * latent), score, curvature.weight):
        assert found.isfinite().all()


@pytest.mark.parametrize("shared_items", [False, True])
def test_select(shared_items: bool) -> None:
    X = rand(5, 2, N, 2)
    block = duels(X, 6)
    blocks = [replace(block, items=block.items[0, 0])] if shared_items else [block, labels(X, 4)]
    whole = Observations(blocks, N)
    latent, f = randn(5, 2, whole.num_rows), randn(5, 2, N)
    for elements in (slice(0, 2), slice(4, 6), torch.tensor([3, 1]), 3):
        part = whole.select(elements)
        assert part.batch_shape == latent[elements].shape[:-1]
        assert torch.equal(part.log_prob(latent[elements]), whole.log_prob(latent)[elements])
        applied = part.incidence.apply(f[elements])
        assert torch.equal(applied, whole.incidence.apply(f)[elements])
