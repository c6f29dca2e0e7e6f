"""A regression that grows by rows, and the law of its draws, against dense algebra."""

from __future__ import annotations

import numpy as np
import torch
from gpytorch.kernels import RBFKernel, ScaleKernel

from botorch_pref.space import SearchSpace
from experiments.baselines.kernel_self_sparring.rows import DrawnPath, Rows
from tests._reference import kernels
from tests.models.common import rand

ITEMS, VALUES, NOISE, SCALE, LENGTH = rand(12, 2, seed=1), rand(12, seed=2) - 0.5, 0.25, 0.5, 0.3


def prior() -> ScaleKernel:
    kernel = ScaleKernel(RBFKernel()).double()
    # GPyTorch makes a number a tensor of single precision.
    kernel.outputscale = torch.tensor(SCALE, dtype=torch.float64)
    kernel.base_kernel.lengthscale = torch.tensor(LENGTH, dtype=torch.float64)
    return kernel.requires_grad_(False).eval()


def posterior() -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance at the rows."""
    items = ITEMS.numpy()
    prior = SCALE * kernels.gram("rbf", items, items, LENGTH)
    solved = np.linalg.solve(prior + NOISE * np.eye(len(items)), prior)
    return solved.T @ VALUES.numpy(), prior - prior @ solved


def test_rows_may_come_one_after_the_other() -> None:
    whole = Rows(prior(), NOISE, ITEMS, VALUES)
    grown = Rows(prior(), NOISE, ITEMS[:3], VALUES[:3])
    for row in range(3, 12, 3):
        grown.add(ITEMS[row : row + 3], VALUES[row : row + 3])
    torch.testing.assert_close(grown.factor, whole.factor, rtol=0.0, atol=1e-12)
    assert torch.equal(grown.items, ITEMS)
    expected, _ = posterior()
    np.testing.assert_allclose(grown.mean().numpy(), expected, atol=1e-12)


def test_draws_have_the_law_of_the_posterior() -> None:
    """The covariance is that of the features, which are close to the kernel but not it."""
    at_rows = Rows(prior(), NOISE, ITEMS, VALUES).draw(4_000, seed=3).at_rows.numpy()
    mean, covariance = posterior()
    deviation = np.sqrt(np.diag(covariance))
    assert (abs(at_rows.mean(1) - mean) < 5 * deviation / np.sqrt(4_000)).all()
    np.testing.assert_allclose(np.cov(at_rows), covariance, atol=0.04 * SCALE)
    # What the posterior would be without data is far from it.
    assert abs(covariance - SCALE * np.eye(12)).max() > 0.1 * SCALE


def test_draws_are_independent() -> None:
    rows = Rows(prior(), NOISE, ITEMS, VALUES)
    mean = torch.from_numpy(posterior()[0])
    draws = torch.stack([rows.draw(2, seed).at_rows - mean[:, None] for seed in range(150)])
    both = np.corrcoef(draws[..., 0].flatten(), draws[..., 1].flatten())[0, 1]
    assert abs(both) < 0.12
    assert torch.equal(rows.draw(2, 7).at_rows, rows.draw(2, 7).at_rows)


def test_a_path_goes_through_its_values_at_the_rows() -> None:
    """In the space's own units, and differentiable."""
    box = torch.tensor([[1.0, 0.0], [3.0, 5.0]], dtype=torch.float64)
    draws = Rows(prior(), NOISE, ITEMS, VALUES).draw(2, seed=0)
    items = box[0] + (box[1] - box[0]) * ITEMS
    for number in (0, 1):
        path = DrawnPath(draws, number, SearchSpace(box))
        found = path(items.unsqueeze(-2))
        torch.testing.assert_close(found, draws.at_rows[:, number], rtol=0.0, atol=1e-10)
        at = items[:1].clone().requires_grad_()
        (slope,) = torch.autograd.grad(path(at.unsqueeze(0)), at)
        step = torch.tensor([[1e-5, 0.0]], dtype=torch.float64)
        with torch.no_grad():
            numerical = path((at + step).unsqueeze(0)) - path((at - step).unsqueeze(0))
        torch.testing.assert_close(slope[0, :1], numerical / 2e-5, rtol=1e-6, atol=1e-8)
