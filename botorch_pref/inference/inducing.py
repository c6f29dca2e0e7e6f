r"""Inference through inducing items: linear in the number of rows, which come in blocks.

Notation: ``Z`` inducing items (``p``), ``L L^T = K_zz``, ``C = H K_xz: m x p``,
``D = C L^-T``, so that ``Q = D D^T`` stands for ``P = H K_xx H^T`` (Quinonero-Candela and
Rasmussen 2005); ``rho = diag(P - Q)`` is the prior variance that is lost. Newton's
coordinates are ``z ~ N(0, I_p)`` with ``eta = prior_latent + D z``, the Hessian is
``M = I + D^T W D``. Where there are many rows neither ``C`` nor ``D`` is stored: every look at the
objective is a pass over the data, a Hessian another, and memory grows by vectors of length ``m``
alone. As a look then costs a fraction of a Hessian, several steps are taken by the same one.

The utility itself keeps the variance that inducing items do not explain,
``cov(x, w) = k(x, w) - a(x)^T (I - M^-1) a(w)`` with ``a(x) = L^-1 k(Z, x)``.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import cast

import torch
from torch import Tensor
from torch.linalg import solve_triangular

from botorch_pref.inference.base import Look, Side
from botorch_pref.inference.factors import Factor, solve_vector
from botorch_pref.inference.inducing_rows import (
    KEPT_ENTRIES,
    InducingRows,
    ItemKernel,
    RowBlock,
    some_rows,
    spans,
)
from botorch_pref.inference.maps import others
from botorch_pref.inference.mode import locate
from botorch_pref.inference.observations import Observations

JITTER = 1e-10  # of the mean prior variance of the inducing items; more in single precision
_JITTER_A_POINT = 4  # times the precision, by which a factorisation rounds
_DEAR_TOLERANCE = 1e-6  # of the mode, in posterior standard deviations, where a step follows
_TIGHT_TOLERANCE = 1e-7  # likewise, where none does
_START_TOLERANCE = 1.0  # likewise, of that of a part of the rows
_FLOOR = 1000  # roundings, below which a decrement need not fall
_SLOW = 0.3  # the share of its distance that a step may leave before there is a new Hessian
_FEW_ROWS = 2**14  # below which no subsample is worth its mode
_SUBSAMPLE = 8  # one row in so many
_PANELS = 4  # of a symmetric matrix, of which 3 / 8 are not computed
_SEED = 719_206_511


class InducingSide(Side):
    r"""Coordinates are whitened utilities of the inducing items; no batches.

    Attributes:
        kernel: The covariances, with the graphs of their inputs.
        cholesky: ``p x p``-dim ``L``.
        jitter_share: The jitter of ``K_zz``, relative to the mean of its diagonal.
        rows: The rows in blocks.
    """

    @torch.no_grad()
    def __init__(
        self, kernel: ItemKernel, prior_latent: Tensor, observations: Observations
    ) -> None:
        super().__init__(kernel.inducing(), prior_latent, observations)
        self.kernel = kernel
        self.jitter_share = jitter_share(self.covariance)
        self.cholesky = inducing_root(self.covariance)
        self._set_rows(InducingRows(kernel, observations))

    def _set_rows(self, rows: InducingRows) -> None:
        self._held: Tensor | None = None
        self._last = self.covariance.new_full((), torch.inf)
        self.rows = rows
        self._is_stored = self.observations.num_rows * len(self.covariance) <= KEPT_ENTRIES
        self._keeps = not self._is_stored
        self._whitened: Tensor | None = None
        self.is_dear = not self._is_stored
        self._tolerance = self._at_least(_DEAR_TOLERANCE) if self.is_dear else super().tolerance

    def grown(
        self,
        kernel: ItemKernel,
        prior_latent: Tensor,
        observations: Observations,
        rows: Tensor,
        items: Tensor,
    ) -> InducingSide:
        r"""The side of further observations, by the same inducing items.

        Args:
            kernel: The covariances of all items.
            prior_latent: ``m``-dim prior mean of the latent values.
            observations: All observations.
            rows: Where the former rows are among the rows.
            items: Where the former items are among the items, in order.
        """
        side = copy.copy(self)
        side.kernel, side.prior_latent, side.observations = kernel, prior_latent, observations
        side._set_rows(self.rows.grown(kernel, observations, items))
        if self._whitened is not None and side._is_stored:
            new = others(rows, observations.num_rows)
            side._whitened = self._whitened.new_empty(observations.num_rows, len(self.covariance))
            side._whitened[rows] = self._whitened
            if len(new):
                side._whitened[new] = side.some_design(new)
        return side

    def hold(self, cholesky: Tensor | None) -> None:
        """Take steps by a factored Hessian near the mode, until they prove slow."""
        self._held, self._keeps = cholesky, True

    @property
    def held(self) -> Tensor | None:
        """The factored Hessian that is held."""
        return self._held

    def tighten(self) -> None:
        """Find the mode where no Hessian of its own is factored that it could be improved by."""
        self._tolerance = min(self._tolerance, self._at_least(_TIGHT_TOLERANCE))

    def _at_least(self, tolerance: float) -> float:
        """A decrement does not fall below some hundred roundings, which single precision shows."""
        return max(tolerance, _FLOOR * float(torch.finfo(self.covariance.dtype).eps))

    @property
    def tolerance(self) -> float:
        """See the base class; the distance is Newton's decrement."""
        return self._tolerance

    def whiten(self, columns: Tensor) -> Tensor:
        """``... x p`` rows ``c L^-T`` of covariances with, or values at, the inducing items."""
        flat = columns.reshape(-1, columns.shape[-1])
        found = solve_triangular(self.cholesky, flat.mT, upper=False).mT
        return cast(Tensor, found.reshape(columns.shape))

    def unwhiten(self, z: Tensor) -> Tensor:
        """``... x p`` rows ``L^-T z``, weights of the kernel at the inducing items."""
        flat = z.reshape(-1, z.shape[-1])
        found = solve_triangular(self.cholesky.mT, flat.mT, upper=True).mT
        return cast(Tensor, found.reshape(z.shape))

    def columns(self, cross_covariance: Tensor) -> Tensor:
        """``a(x)``, from the covariance of points with the inducing items."""
        return self.whiten(cross_covariance)

    def design(self) -> Iterator[tuple[RowBlock, Tensor]]:
        """The blocks of rows and ``D`` there, which is stored only where it is small."""
        if not self._is_stored:
            yield from ((block, self.whiten(rows)) for block, rows in self.rows)
            return
        if self._whitened is None:
            size = self.observations.num_rows, len(self.covariance)
            self._whitened = self.covariance.new_empty(size)
            for block, rows in self.rows:
                self._whitened[block.rows] = self.whiten(rows)
        yield from ((block, self._whitened[block.rows]) for block in self.rows.blocks)

    def some_design(self, rows: Tensor) -> Tensor:
        """``k x p``-dim rows of ``D``, by ascending index."""
        return self.whiten(self.rows.some(some_rows(self.observations, rows).map))

    def begin(self, start: Tensor | None) -> Tensor:
        """See the base class: the mode of a part of the rows where there are many.

        The Hessian of that part, scaled up, serves until steps by it prove slow.
        """
        self._last = torch.full_like(self._last, torch.inf)
        if start is not None:
            return start
        self._held = None
        if self._is_stored or self.observations.num_rows <= _FEW_ROWS:
            return self.covariance.new_zeros(len(self.covariance))
        part = self._part()
        mode, look = locate(part)
        hessian = part.factor_at(look).hessian() * _SUBSAMPLE
        hessian.diagonal().sub_(_SUBSAMPLE - 1)
        self._held = torch.linalg.cholesky_ex(hessian).L
        return mode.weights

    def look(self, z: Tensor) -> Look:
        """See the base class; the distance is Newton's decrement."""
        latent, curvature = torch.empty_like(self.prior_latent), torch.empty_like(self.prior_latent)
        objective, total = -0.5 * z.square().sum(), torch.zeros_like(z)
        stored = self._is_stored
        point = z if stored else self.unwhiten(z)
        for (rows, observations), matrix in self.design() if stored else self.rows:
            eta = self.prior_latent[rows] + matrix @ point
            score, weight, _ = observations.derivatives(eta)
            objective = objective + observations.log_prob(eta).sum()
            total += score @ matrix
            latent[rows], curvature[rows] = eta, weight
        gradient = (total if stored else self.whiten(total)) - z
        held = self._held
        cholesky = self.factor(curvature).cholesky if held is None else held
        distance = _decrement(cholesky, gradient)
        slow = None if held is None else distance > _SLOW * self._last
        # What is stored is cheap to look at, and each step is Newton's own as a rule.
        self._held = cholesky if self._keeps else None
        return Look(latent, z, objective, curvature, gradient, distance, cholesky, slow)

    def newton(self, look: Look, slow: bool = False) -> tuple[Tensor, Tensor]:
        """See the base class."""
        cholesky, self._last = look.cholesky, look.distance
        assert cholesky is not None  # every look of this side has one
        if slow:
            cholesky = self.factor(look.curvature).cholesky
            self._held, self._last = cholesky, _decrement(cholesky, look.gradient)
        direction = solve_vector(cholesky, look.gradient)
        return direction, look.gradient @ direction

    def factor(self, curvature: Tensor) -> InducingFactor:
        """See the base class; one pass over the data."""
        hessian = identity(self.covariance)
        for (rows, _), design in self.design():
            _add_gram(hessian, design, curvature[rows])
        return InducingFactor(torch.linalg.cholesky_ex(hessian).L)

    def factor_at(self, look: Look) -> InducingFactor:
        """That of the Hessian where a look was taken."""
        if not self._keeps and look.cholesky is not None:
            return InducingFactor(look.cholesky)
        return self.factor(look.curvature)

    def forget(self) -> None:
        """Let go of what can be computed anew from the kernel."""
        self._whitened = self._held = None

    def _part(self) -> InducingSide:
        """The same side for a part of the rows, chosen at random."""
        generator = torch.Generator().manual_seed(_SEED)
        order = torch.randperm(self.observations.num_rows, generator=generator)
        chosen = order[: len(order) // _SUBSAMPLE].sort().values.to(self.prior_latent.device)
        part = copy.copy(self)
        part.observations = some_rows(self.observations, chosen)
        part.prior_latent = self.prior_latent[chosen]
        part._set_rows(InducingRows(self.kernel, part.observations, self.rows.kept))
        part.is_dear, part._tolerance = True, _START_TOLERANCE
        return part


class InducingFactor(Factor):
    """Cholesky of ``M = I + D^T W D``."""

    def __init__(self, cholesky: Tensor) -> None:
        self.cholesky = cholesky

    def solve(self, x: Tensor) -> Tensor:
        """``M^-1 x`` for ``x: p``."""
        return solve_vector(self.cholesky, x)

    def hessian(self) -> Tensor:
        """``M``."""
        return self.cholesky @ self.cholesky.mT

    def gamma(self) -> Tensor:
        """``I - M^-1``, which is ``Gamma`` in whitened coordinates."""
        one = identity(self.cholesky)
        return one - torch.cholesky_solve(one, self.cholesky)


def identity(like: Tensor) -> Tensor:
    """``p x p``-dim, for a matrix of that size."""
    return torch.eye(len(like), dtype=like.dtype, device=like.device)


def jitter_share(covariance: Tensor) -> float:
    """The jitter of ``K_zz``, relative to the mean of its diagonal."""
    eps, size = torch.finfo(covariance.dtype).eps, len(covariance)
    return max(JITTER, max(100, _JITTER_A_POINT * size) * eps)


def inducing_root(covariance: Tensor) -> Tensor:
    """``L`` with ``L L^T = K_zz``, whose diagonal carries a jitter; NaN if there is none."""
    covariance = covariance.clone()
    covariance.diagonal().add_(jitter_share(covariance) * covariance.diagonal().mean())
    root, info = torch.linalg.cholesky_ex(covariance)
    return torch.where(info > 0, torch.nan, root)


def _decrement(cholesky: Tensor, gradient: Tensor) -> Tensor:
    """Newton's, of a factored Hessian."""
    return solve_triangular(cholesky, gradient.unsqueeze(-1), upper=False).norm()


def _add_gram(total: Tensor, design: Tensor, weight: Tensor) -> None:
    """Adds ``D^T diag(w) D``, which is symmetric, to the lower triangle of ``p x p``."""
    scaled = weight.unsqueeze(-1) * design
    for columns in spans(len(total), -(-len(total) // _PANELS)):
        total[columns, : columns.stop] += design[:, columns].mT @ scaled[:, : columns.stop]
