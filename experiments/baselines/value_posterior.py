r"""Exact regression on the choices of a table."""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_pref.inference.finite import argmax_with_random_ties


class ValuePosterior:
    """``n`` utilities, less their prior mean, after ``count`` values each that sum to ``total``.

    In the ``n`` dimensions of the items: of repeated values only the average matters.
    """

    def __init__(
        self, covariance: Tensor, root: Tensor, count: Tensor, total: Tensor, noise: float
    ) -> None:
        self.covariance, self.root = covariance, root
        self.scale = (count / noise).sqrt()
        inner = self.scale.unsqueeze(-1) * covariance * self.scale
        inner.diagonal().add_(1.0)
        self.factor = torch.linalg.cholesky(inner)
        self.observed = count > 0
        self.mean = self._update(total / (noise * count.clamp_min(1.0)).sqrt())

    def _update(self, right: Tensor) -> Tensor:
        solved = torch.cholesky_solve(right.unsqueeze(-1), self.factor).squeeze(-1)
        return self.covariance @ (self.scale * solved)

    def best_of_a_draw(self, scale: float, seed: int) -> int:
        """The row of the maximum of a draw whose standard deviation is multiplied by a scale."""
        generator = torch.Generator().manual_seed(seed)
        size = (2, len(self.mean))
        prior, error = torch.randn(size, generator=generator, dtype=torch.double).to(self.mean)
        ties = torch.rand(len(self.mean), generator=generator, dtype=torch.double)
        path = self.root @ prior
        # Matheron's rule, as it stays exact where the covariance is singular.
        draw = path - self._update(self.scale * path + torch.where(self.observed, error, 0.0))
        return int(argmax_with_random_ties(self.mean + scale * draw, ties))
