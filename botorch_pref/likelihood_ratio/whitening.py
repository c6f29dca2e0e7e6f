r"""Coordinates in which the norm of a function is the length of a vector.

Notation: ``K: n x n`` prior covariance of the items, ``R: n x r`` its root in its numerical
rank, ``f = R u`` with ``|u|`` the norm of the smallest function through the utilities ``f``.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError

FLOOR = 1e-12  # of a squared coefficient: it keeps the slope of the root finite at an item


class Whitening(NamedTuple):
    r"""A root of a covariance and its inverse on the range.

    Attributes:
        root: ``n x r``-dim ``R`` with ``R R^T = K`` up to the cutoff.
        inverse: ``r x n``-dim pseudo-inverse of ``R``.
    """

    root: Tensor
    inverse: Tensor

    def split(self, cross: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        r"""A point's coefficients: ``f(x) = a^T u + s w``, with ``|w|`` a norm of its own.

        Args:
            cross: ``... x n``-dim prior covariance of the points with the items.
            variance: ``...``-dim prior variance of the points.

        Returns:
            ``... x r``-dim ``a`` and ``...``-dim ``s``; Xu et al. (2024), eq. (98).
        """
        coordinates = cross @ self.inverse.T
        left = variance - coordinates.square().sum(-1)
        return coordinates, left.clamp_min(FLOOR).sqrt()


def whiten(covariance: Tensor, *, cutoff: float = 1e-10) -> Whitening:
    r"""Whiten a prior covariance in its numerical rank.

    Args:
        covariance: ``n x n``-dim positive semi-definite matrix; jitter, if any, is in it.
        cutoff: Eigenvalues below this share of the largest are left out.

    Returns:
        The root and its inverse, in float64.

    Raises:
        ComparisonDataError: If ``covariance`` is not a square matrix of finite numbers.
    """
    if covariance.dim() != 2 or covariance.shape[0] != covariance.shape[1]:
        shape = tuple(covariance.shape)
        raise ComparisonDataError(f"`covariance` must be n x n-dim, not {shape}.")
    if not bool(covariance.isfinite().all()):
        raise ComparisonDataError("`covariance` has entries that are not finite.")
    values, vectors = torch.linalg.eigh(covariance.detach().double())
    kept = values > cutoff * values.amax(dim=-1, keepdim=True).clamp_min(0.0) if len(values) else []
    scale, vectors = values[kept].sqrt(), vectors[:, kept]
    return Whitening(vectors * scale, (vectors / scale).T)
