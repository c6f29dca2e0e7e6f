r"""Exact regression on a row an item of every duel, which grows duel by duel."""

from __future__ import annotations

from typing import NamedTuple

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.sampling.pathwise.features import FeatureMap, gen_kernel_features
from botorch.utils.transforms import t_batch_mode_transform
from gpytorch.kernels import ScaleKernel
from linear_operator import to_dense
from torch import Tensor

from botorch_pref.randomness import seeded
from botorch_pref.space import SearchSpace

_NUM_FEATURES = 2048


class Rows:
    r"""A zero-mean Gaussian process after noisy values, with the factor of their covariance.

    Rows that are added cost ``O(n^2)`` each, so a duel is cheap as long as the kernel stays.

    Args:
        kernel: The prior covariance, of items in the unit cube.
        noise: The variance of a value.
        items: ``n x d``-dim items in the unit cube.
        values: ``n``-dim values.
    """

    @torch.no_grad()
    def __init__(self, kernel: ScaleKernel, noise: float, items: Tensor, values: Tensor) -> None:
        self.kernel, self.noise = kernel, noise
        self.items, self.values = items, values
        self.factor = torch.linalg.cholesky(self._noisy(items))

    @torch.no_grad()
    def add(self, items: Tensor, values: Tensor) -> None:
        """Adds ``k x d``-dim items and their ``k``-dim values."""
        cross = to_dense(self.kernel(self.items, items))
        side = torch.linalg.solve_triangular(self.factor, cross, upper=False)
        corner = torch.linalg.cholesky(self._noisy(items) - side.T @ side)
        above = torch.cat([self.factor, side.new_zeros(side.shape)], dim=1)
        self.factor = torch.cat([above, torch.cat([side.T, corner], dim=1)])
        self.items = torch.cat([self.items, items])
        self.values = torch.cat([self.values, values])

    def mean(self) -> Tensor:
        """The ``n``-dim posterior mean at the rows' items."""
        return self._smoothed(self.values.unsqueeze(-1)).squeeze(-1)

    @torch.no_grad()
    def mean_at(self, items: Tensor) -> Tensor:
        """The ``k``-dim posterior mean at ``k x d``-dim items."""
        weights = torch.cholesky_solve(self.values.unsqueeze(-1), self.factor)
        mean: Tensor = to_dense(self.kernel(items, self.items)) @ weights
        return mean.squeeze(-1)

    @torch.no_grad()
    def draw(self, number: int, seed: int) -> Draws:
        r"""Independent draws of the posterior, by pathwise conditioning.

        Wilson et al. (2021), with random Fourier features for the prior.

        Args:
            number: How many.
            seed: Their seed.
        """
        size, dim = self.items.shape
        with seeded(seed):
            features = gen_kernel_features(self.kernel, dim, _NUM_FEATURES)
            weights = torch.randn(_NUM_FEATURES, number, dtype=torch.double).to(self.items)
            errors = torch.randn(size, number, dtype=torch.double).to(self.items)
        prior = features(self.items) @ weights
        gap = self.values.unsqueeze(-1) - prior - self.noise**0.5 * errors
        update = torch.cholesky_solve(gap, self.factor)
        return Draws(self, features, weights, update, prior + gap - self.noise * update)

    def _smoothed(self, values: Tensor) -> Tensor:
        # K (K + noise I)^-1 v without K.
        return values - self.noise * torch.cholesky_solve(values, self.factor)

    def _noisy(self, items: Tensor) -> Tensor:
        covariance = to_dense(self.kernel(items))
        return covariance + self.noise * torch.eye(len(items)).to(covariance)


class Draws(NamedTuple):
    r"""Draws of the posterior, as functions.

    Attributes:
        rows: The regression.
        features: ``F`` features of the prior.
        weights: ``F x k``-dim weights of ``k`` draws.
        update: ``n x k``-dim weights of the kernel at the rows.
        at_rows: ``n x k``-dim values at the rows.
    """

    rows: Rows
    features: FeatureMap
    weights: Tensor
    update: Tensor
    at_rows: Tensor


class DrawnPath(AcquisitionFunction):
    r"""One draw as a rule for single items of a space.

    Args:
        draws: The draws.
        number: Which.
        space: The domain, whose unit cube the draw is over.
    """

    def __init__(self, draws: Draws, number: int, space: SearchSpace) -> None:
        super().__init__(model=None)  # type: ignore[arg-type]
        self.draws, self.space = draws, space
        self.weights, self.update = draws.weights[:, number], draws.update[:, number]

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """The draw at ``b x 1 x d``-dim items."""
        items, rows = self.space.normalize(X.squeeze(-2)), self.draws.rows
        cross = to_dense(rows.kernel(items, rows.items))
        value: Tensor = self.draws.features(items) @ self.weights + cross @ self.update
        return value
