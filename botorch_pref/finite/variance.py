r"""The answer-free variance of all pairs of a finite set, updated duel by duel."""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_pref.data.options import checked_positive


class PairVarianceTable:
    r"""``sigma_t^2(x, x')`` of all pairs of ``n`` items, which no answer moves.

    Eq. (10) of Kayal et al., *Bayesian Optimization from Human Feedback: Near-Optimal
    Regret Bounds* (2025), in their units: a kernel ``k <= 1`` and a ridge
    ``rho = lambda kappa``. A model with output scale ``1 / lambda`` and
    ``variance=kappa`` has ``1 / lambda`` times these variances.

    A duel of ``i`` and ``j`` takes ``a a^T / (rho + a_i - a_j)`` with
    ``a = C[:, i] - C[:, j]`` off the covariance ``C`` of the utility: ``O(n^2)``, without
    a solve, and exact in any order. Leading dimensions are replicates that ask different
    pairs.

    Args:
        covariance: ``... x n x n``-dim kernel of the items, in the units of the papers.
        ridge: ``rho``, positive.

    Attributes:
        covariance: ``... x n x n``-dim covariance of the utility after the duels so far.
        gain: ``...``-dim information gain, ``sum_t log(1 + sigma_{t-1}^2(z_t) / rho) / 2``,
            which is ``log det(I + K_z / rho) / 2`` of the pairs' kernel ``K_z``.

    Raises:
        ComparisonDataError: If ``ridge`` is not positive and finite.

    Example:
        >>> table = PairVarianceTable(kernel, ridge=0.05)
        >>> table.append(torch.tensor([3, 7]))
        >>> table.variance[0, 1], table.gain
    """

    def __init__(self, covariance: Tensor, ridge: float) -> None:
        self.covariance = covariance
        self.ridge = checked_positive("ridge", ridge)
        self.gain = covariance.new_zeros(covariance.shape[:-2])

    @property
    def variance(self) -> Tensor:
        """The ``... x n x n``-dim table of ``sigma^2(x, x')``, squared units of the utility."""
        own = self.covariance.diagonal(dim1=-2, dim2=-1)
        return (own.unsqueeze(-1) + own.unsqueeze(-2) - 2.0 * self.covariance).clamp_min(0.0)

    def append(self, pairs: Tensor) -> Tensor:
        r"""Take one more duel into account in every batch element.

        Args:
            pairs: ``... x 2``-dim long tensor of items. An identical pair changes nothing.

        Returns:
            The ``...``-dim variance that the pair had before.
        """
        batch = torch.broadcast_shapes(self.covariance.shape[:-2], pairs.shape[:-1])
        covariance = self.covariance.expand(*batch, *self.covariance.shape[-2:])
        rows = pairs.expand(*batch, 2)
        columns = covariance.take_along_dim(rows.unsqueeze(-1), dim=-2)
        contrast = columns[..., 0, :] - columns[..., 1, :]
        ends = contrast.take_along_dim(rows, dim=-1)
        variance = (ends[..., 0] - ends[..., 1]).clamp_min(0.0)
        step = contrast / (self.ridge + variance).sqrt().unsqueeze(-1)
        self.covariance = covariance - step.unsqueeze(-1) * step.unsqueeze(-2)
        self.gain = self.gain + 0.5 * torch.log1p(variance / self.ridge)
        return variance
