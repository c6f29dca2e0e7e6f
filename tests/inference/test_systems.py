"""The two systems of one model: each against dense algebra, and one against the other."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from botorch_pref.inference import DualSystem, PrimalSystem, System, choose_system
from botorch_pref.inference.systems import prior_root
from tests.inference.common import SIDES, assert_equal, design, make, matern, rand, randn

N = 6
X = rand(N, 2)
LOW_RANK = randn(N, 2, seed=3)


def _zero_rows() -> Tensor:
    keep = torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0, 1.0], dtype=torch.float64)
    return matern(X, outputscale=1.0) * keep[:, None] * keep


COVARIANCES: dict[str, Tensor] = {
    "regular": matern(X, outputscale=1.0),
    "duplicated items": matern(X[[0, 1, 1, 2, 0, 0]], outputscale=1.0),
    "low rank": LOW_RANK @ LOW_RANK.T,
    "zero rows": _zero_rows(),
    "all zero": torch.zeros(N, N, dtype=torch.float64),
    "nearly singular": matern(X, lengthscale=100.0, outputscale=1.0),
}


@pytest.mark.parametrize("kind", sorted(COVARIANCES))
def test_prior_root(kind: str) -> None:
    """A singular element of a batch leaves the others alone."""
    batch = torch.stack([COVARIANCES["regular"], COVARIANCES[kind]])
    root = prior_root(batch)
    assert torch.isfinite(root).all()
    assert torch.equal(root[0], root[0].tril())
    assert_equal(root @ root.mT, batch, 1e-13)
    assert_equal(prior_root(batch[1]), root[1], 1e-13)


def test_prior_root_projects_what_rounding_left_indefinite() -> None:
    vectors = torch.linalg.qr(randn(3, 3)).Q
    K = vectors * torch.tensor([2.0, 1.0, -1e-3], dtype=torch.float64) @ vectors.T
    root = prior_root(K)
    expected = vectors * torch.tensor([2.0, 1.0, 0.0], dtype=torch.float64) @ vectors.T
    assert_equal(root @ root.T, expected, 1e-13)


@pytest.mark.parametrize(
    ("num_rows", "expected"),
    [(1, DualSystem), (N, DualSystem), (N + 1, PrimalSystem), (40, PrimalSystem)],
)
def test_the_smaller_system_carries_the_graph(num_rows: int, expected: type[System]) -> None:
    K = matern(X).requires_grad_()
    latent = torch.zeros(num_rows, dtype=torch.float64)
    system = choose_system(K, latent, make(X, num_rows))
    assert type(system) is expected
    assert system.covariance.shape[-1] == min(num_rows, N)
    (grad,) = torch.autograd.grad(system.covariance.sum(), K)
    assert grad.shape == K.shape


@pytest.mark.parametrize("wanted", SIDES)
@pytest.mark.parametrize("kind", sorted(COVARIANCES))
class TestFactor:
    def build(self, wanted: type[System], kind: str) -> tuple[System, Tensor, Tensor]:
        observations = make(X, 7, 3, padding=2)
        system = wanted(COVARIANCES[kind], torch.zeros(10, dtype=torch.float64), observations)
        H = torch.from_numpy(design(observations))
        G = torch.eye(10, dtype=torch.float64) if wanted is DualSystem else H
        return system, H @ COVARIANCES[kind] @ H.T, G

    def test_against_dense_formulas(self, wanted: type[System], kind: str) -> None:
        system, P, G = self.build(wanted, kind)
        curvature, x = 3 * rand(10), randn(10)
        curvature[[2, 8]] = 0.0
        factor = system.factor(curvature)
        inner = torch.eye(10, dtype=torch.float64) + curvature[:, None] * P
        gamma = G.T @ torch.linalg.solve(inner, torch.diag(curvature)) @ G
        assert_equal(factor.log_det, torch.linalg.slogdet(inner).logabsdet, 1e-12)
        assert_equal(factor.gamma(), gamma, 1e-11)
        assert_equal(factor.solve_adjoint(x), torch.linalg.solve(inner, x), 1e-12)

        latent = randn(10).requires_grad_()
        _, curvature = system.observations.derivatives(latent)
        inner = torch.eye(10, dtype=torch.float64) + curvature.weight[:, None] * P
        (expected,) = torch.autograd.grad(-0.5 * torch.logdet(inner), latent)
        _, curvature = system.observations.derivatives(latent.detach())
        factor = system.factor(curvature)
        found = 0.5 * curvature.contract(factor.marginals(factor.gamma()))
        assert_equal(found, expected, 1e-12)

    def test_newton_solves_its_quadratic_model(self, wanted: type[System], kind: str) -> None:
        system, P, _ = self.build(wanted, kind)
        start = randn(10)
        z = system.coordinates(start)
        latent = system.latent(z)
        assert_equal(latent, P @ start, 1e-12)
        assert_equal(system.penalty(z, latent), 0.5 * start @ P @ start, 1e-12)
        score, curvature = system.observations.derivatives(latent)
        system.begin(None)
        state = system.evaluate(z)
        assert_equal(state.curvature.weight, curvature.weight, 1e-12)
        direction, slope = system.newton(state)
        # In latent values: (I + P W) step = P score - (eta - prior).
        inner = torch.eye(10, dtype=torch.float64) + P * curvature.weight
        expected = torch.linalg.solve(inner, P @ score - latent)
        assert_equal(system.latent(direction), expected, 1e-11)
        assert_equal(slope, (score - start) @ expected, 1e-11)
