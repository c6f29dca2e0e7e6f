r"""Comparisons and measured values of one utility by brute force, in NumPy and SciPy float64.

Utilities :math:`f \sim N(m, K)` at ``n`` items; rows ``(i, j, wins, count)`` with
:math:`P(i \text{ beats } j) = \mathrm{link}(s (f_i - f_j))`, and values
:math:`y \sim N(f_r, v)`. Everything is in the units of the utility: nothing here scales items.
Functions of the whitened utilities ``u`` with :math:`f = m + L u`, ``K = L L^T``.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from tests._reference.laplace import _LINKS, incidence

Array = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Data:
    """Comparisons by dense rows, values by the rows of the items that were measured."""

    pairs: NDArray[np.int64]
    wins: Array
    count: Array
    rows: NDArray[np.int64]
    targets: Array
    variances: Array
    scale: float
    link: str = "logit"

    def log_likelihood(self, f: Array) -> Array:
        """The log likelihood of ``... x n`` utilities."""
        h = self.scale * (f[..., self.pairs[:, 0]] - f[..., self.pairs[:, 1]])
        link = _LINKS[self.link]
        duels = self.wins * link(h)[0] + (self.count - self.wins) * link(-h)[0]
        normal = stats.norm.logpdf(self.targets, f[..., self.rows], np.sqrt(self.variances))
        return duels.sum(-1) + normal.sum(-1)

    def slopes(self, f: Array) -> tuple[Array, Array, Array]:
        """Gradient in ``n`` utilities; minus the Hessian of duels, and of values."""
        A = self.scale * incidence(self.pairs, len(f))
        _, up1, up2 = _LINKS[self.link](A @ f)
        _, down1, down2 = _LINKS[self.link](-(A @ f))
        lost = self.count - self.wins
        gradient = A.T @ (self.wins * up1 - lost * down1)
        np.add.at(gradient, self.rows, (self.targets - f[self.rows]) / self.variances)
        duels = A.T @ np.diag(-(self.wins * up2 + lost * down2)) @ A
        return gradient, duels, self.precision(len(f))

    def precision(self, num_items: int) -> Array:
        """That of the values."""
        found = np.zeros((num_items, num_items))
        np.add.at(found, (self.rows, self.rows), 1 / self.variances)
        return found


def fit(mean: Array, covariance: Array, data: Data) -> tuple[Array, Array, float]:
    """The mode, the curvature of all data there (``n x n``) and the Laplace log evidence."""
    values, vectors = np.linalg.eigh(covariance)
    keep = values > 1e-14 * values.max()
    root = vectors[:, keep] * np.sqrt(values[keep])
    u = np.zeros(root.shape[1])

    def objective(u: Array) -> float:
        return float(data.log_likelihood(mean + root @ u) - u @ u / 2)

    for _ in range(100):
        gradient, duels, measured = data.slopes(mean + root @ u)
        slope = root.T @ gradient - u
        hessian = np.eye(len(u)) + root.T @ (duels + measured) @ root
        step = np.linalg.solve(hessian, slope)
        size = 1.0
        while objective(u + size * step) < objective(u) - 1e-9 and size > 1e-6:
            size /= 2
        u = u + size * step
        if np.abs(step).max() < 1e-13:
            break
    assert np.abs(slope).max() < 1e-8
    _, log_det = np.linalg.slogdet(hessian)
    return mean + root @ u, duels + measured, objective(u) - log_det / 2


def predict(
    prior_mean: Array, prior: Array, cross: Array, covariance: Array, deviation: Array, W: Array
) -> tuple[Array, Array]:
    """Mean and covariance at points, from the mode's deviation from the prior mean at items."""
    weights = np.linalg.lstsq(covariance, deviation, rcond=1e-14)[0]
    inner = np.linalg.solve(np.eye(len(W)) + W @ covariance, W)
    return prior_mean + cross @ weights, prior - cross @ inner @ cross.T
