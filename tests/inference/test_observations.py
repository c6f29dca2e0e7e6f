"""The sparse map and the stacked blocks against dense algebra."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from botorch_pref.inference.observations import Block, Incidence, Observations
from botorch_pref.likelihoods import LogitLikelihood, ProbitLikelihood
from tests.inference.common import DUEL, assert_equal, design, duels, labels, rand, randn

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


class TestStackedBlocks:
    X = rand(N, 2)

    @pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 0, 1)])
    def test_map_is_the_rows_of_all_blocks(self, order: tuple[int, ...]) -> None:
        triple = Block(
            indices(3, 3, seed=4),
            (1.0, -0.5, -0.5),
            rand(3),
            torch.ones(3, dtype=torch.float64),
            LogitLikelihood(),
        )
        blocks = [duels(self.X, 6), labels(self.X, 4), triple]
        observations = Observations([blocks[i] for i in order], N)
        H = torch.from_numpy(design(observations))
        K, w = self.X @ self.X.T, rand(13)
        assert observations.num_rows == 13
        assert_equal(observations.incidence.apply(self.X[:, 0]), H @ self.X[:, 0], 1e-14)
        assert_equal(observations.incidence.gram(K), H @ K @ H.T, 1e-13)
        assert_equal(observations.incidence.adjoint(w), H.T @ w, 1e-13)
        assert_equal(observations.incidence.laplacian(w), H.T @ (w[:, None] * H), 1e-13)
        assert_equal(observations.incidence.diagonal(K), (H @ K @ H.T).diagonal(), 1e-13)
        C = rand(13, 2, seed=2)
        assert_equal(observations.incidence.spread(C), H.T @ C, 1e-13)

    def test_derivatives_are_those_of_the_log_probability(self) -> None:
        observations = Observations(
            [
                duels(self.X, 6, link=ProbitLikelihood(2.0)),
                labels(self.X, 4, link=LogitLikelihood(0.5)),
            ],
            N,
        )
        latent = randn(10).requires_grad_()
        score, of_block = observations.derivatives(latent)
        curvature, third = of_block.weight, of_block.contract(torch.ones_like(latent))
        (slope,) = torch.autograd.grad(observations.log_prob(latent).sum(), latent)
        assert_equal(score, slope, 1e-12)
        (slope,) = torch.autograd.grad(score.sum(), latent, retain_graph=True)
        assert_equal(-curvature, slope, 1e-12)
        (slope,) = torch.autograd.grad(-curvature.sum(), latent)
        assert_equal(third, slope, 1e-12)

    @pytest.mark.parametrize("shared_items", [False, True])
    def test_select(self, shared_items: bool) -> None:
        X = rand(5, 2, N, 2)
        block = duels(X, 6)
        if shared_items:
            block = Block(block.items[0, 0], DUEL, block.answer, block.weight, block.likelihood)
            whole = Observations([block], N)
        else:
            whole = Observations([block, labels(X, 4)], N)
        pieces = [whole.select(slice(i, i + 2)) for i in (0, 2, 4)]
        latent = randn(5, 2, whole.num_rows)
        assert [piece.batch_shape for piece in pieces] == [(2, 2), (2, 2), (1, 2)]
        together = torch.cat(
            [p.log_prob(part) for p, part in zip(pieces, latent.split(2), strict=True)]
        )
        assert torch.equal(together, whole.log_prob(latent))
        f = randn(5, 2, N)
        applied = [p.incidence.apply(part) for p, part in zip(pieces, f.split(2), strict=True)]
        assert torch.equal(torch.cat(applied), whole.incidence.apply(f))
        some, one = whole.select(torch.tensor([3, 1])), whole.select(3)
        assert torch.equal(some.incidence.apply(f[[3, 1]]), whole.incidence.apply(f)[[3, 1]])
        assert one.batch_shape == (2,)
        assert torch.equal(one.log_prob(latent[3]), whole.log_prob(latent)[3])
