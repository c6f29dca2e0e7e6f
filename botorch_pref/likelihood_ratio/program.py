r"""Likelihood-ratio confidence sets over a norm ball, and the maximum likelihood in them.

Notation: ``n`` items with utilities ``f = R u``, where ``K = R R^T`` is their prior covariance,
``R: n x r`` its root in its numerical rank, and ``|u|`` the norm of the smallest function through
``f``; ``eta = H f: m`` the answers' latent values (differences for duels, utilities for labels)
and ``ell`` their log likelihood. A function value off the items is ``a^T u + s w``, where ``w`` is
the part of the function that is orthogonal to all items. The confidence set of Xu et al. (2024),
eq. (9),

``C = {(u, w): |u|^2 + w^2 <= B^2, ell(u) >= ell_MLE - slack}``,

does not depend on the point, only ``(a, s)`` do. So ``max g^T u + s w`` over ``C``, which is
their problem (24), has the gradient ``(u*, w*)`` in ``(g, s)``.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from botorch_pref.data.checks import checked_positive
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.inference.observations import Observations
from botorch_pref.likelihood_ratio.constraints import Constraints
from botorch_pref.likelihood_ratio.interior_point import InteriorPoint

MAX_STEPS = 100
SCREENING = 1e-4
"""The tolerance of bounds that are only ranked."""
FINAL = 1e-9
"""The tolerance of bounds that are reported."""
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


class MaximumLikelihood(NamedTuple):
    r"""The maximum likelihood in the ball, Xu et al. (2024), eq. (8) and (22).

    Attributes:
        coordinates: ``r``-dim ``u``; of all maximisers the one of the smallest norm.
        log_likelihood: 0-dim log likelihood there.
        norm_multiplier: 0-dim ``nu`` with ``grad ell = nu u``; 0 where the ball is inactive.
        gap: 0-dim certified distance to the maximal log likelihood.
        converged: 0-dim boolean.
        num_steps: 0-dim number of Newton steps.
    """

    coordinates: Tensor
    log_likelihood: Tensor
    norm_multiplier: Tensor
    gap: Tensor
    converged: Tensor
    num_steps: Tensor


class LikelihoodProgram:
    r"""Functions within a norm ball, their answers, and optionally a sup-norm box.

    Args:
        root: ``n x r``-dim ``R``, as of :func:`~botorch_pref.likelihood_ratio.whiten`.
        observations: The answers to the items, unbatched; None where there are none.
        norm_bound: ``B``, in the units of the utilities over those of ``R``.
        box: The largest absolute utility of the items; None for no such bound.

    Raises:
        ComparisonDataError: If an argument cannot be used.
        UnsupportedError: If the observations are batched.
    """

    def __init__(
        self,
        root: Tensor,
        observations: Observations | None,
        *,
        norm_bound: float,
        box: float | None = None,
    ) -> None:
        if root.dim() != 2:
            raise ComparisonDataError(f"`root` must be n x r-dim, not {tuple(root.shape)}.")
        self.root = root.detach().double()
        self.observations = _checked_observations(observations, len(root))
        self.norm_bound = checked_positive("norm_bound", norm_bound)
        self.box = None if box is None else checked_positive("box", box)
        rows = [] if self.observations is None else [self.observations.incidence.rows(self.root)]
        if self.box is not None:
            rows.append(self.root)
        stacked = torch.cat([self.root[:0], *rows])
        #: ``r x q``-dim orthonormal basis of the part of ``u`` that answers and box depend on.
        self.basis = _row_space(stacked)
        self.constraints = Constraints(
            self.observations, self.norm_bound * stacked @ self.basis, self.box
        )

    def log_likelihood(self, coordinates: Tensor) -> Tensor:
        """``ell: ...`` at ``u: ... x r``; Xu et al. (2024), eq. (7)."""
        values = self.reduced(coordinates.detach().double()) @ self.constraints.rows.T
        return self.constraints.log_likelihood(values)

    def reduced(self, coordinates: Tensor) -> Tensor:
        """``v: ... x q`` in units of ``B``: the part of ``u: ... x r`` in the basis."""
        return coordinates @ self.basis / self.norm_bound

    def maximum_likelihood(
        self, *, start: Tensor | None = None, max_steps: int = MAX_STEPS
    ) -> MaximumLikelihood:
        r"""The maximum likelihood in the ball and the box.

        Args:
            start: ``r``-dim coordinates to start from; zero by default.
            max_steps: The most Newton steps.

        Returns:
            The maximum and how it was found.
        """
        interior = self.root.new_zeros(self.basis.shape[-1])
        v = interior
        if start is not None:
            v = self.constraints.pull(self.reduced(start), interior, 0.5)
        point = torch.cat([v, v.new_zeros(1)]).unsqueeze(0)
        solver = InteriorPoint(self.constraints, weight=1.0, max_steps=max_steps)
        total = self.constraints.log_likelihood(self.constraints.rows @ interior).abs()
        tolerance = 1e-13 * (1.0 + total)
        found = solver.maximize(torch.zeros_like(point), point, None, tolerance.unsqueeze(0))
        v = found.point[0, :-1]
        gradient = self.constraints.likelihood(self.constraints.rows @ v).gradient
        square = v.square().sum().clamp_min(torch.finfo(v.dtype).tiny)
        gap = (found.upper - found.lower)[0].clamp_min(0.0)
        return MaximumLikelihood(
            coordinates=self.norm_bound * (self.basis @ v),
            log_likelihood=found.lower[0],
            norm_multiplier=(gradient @ v / square).clamp_min(0.0) / self.norm_bound**2,
            gap=gap,
            converged=gap <= FINAL * (1.0 + total),
            num_steps=found.num_steps[0],
        )


def _checked_observations(observations: Observations | None, n: int) -> Observations | None:
    if observations is None or observations.num_rows == 0:
        return None
    if len(observations.batch_shape):
        shape = tuple(observations.batch_shape)
        raise UnsupportedError(f"`observations` must not be batched; their batch is {shape}.")
    if observations.num_items != n:
        raise ComparisonDataError(
            f"`observations` index {observations.num_items} items, but `root` has {n} rows."
        )
    return observations


def _row_space(matrix: Tensor) -> Tensor:
    """An orthonormal basis of the rows of a matrix, as columns."""
    _, values, rows = torch.linalg.svd(matrix, full_matrices=False)
    if not len(values):
        return matrix.new_zeros(matrix.shape[-1], 0)
    noise = torch.finfo(matrix.dtype).eps * max(matrix.shape)
    return rows[values > noise * values[0]].T.contiguous()
