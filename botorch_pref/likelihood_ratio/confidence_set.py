r"""Likelihood-ratio confidence sets over a norm ball, and bounds of linear functions on them.

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

import math
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from botorch_pref.data.checks import checked_positive, common_batch_shape
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.inference.observations import Observations
from botorch_pref.likelihood_ratio.constraints import Constraints
from botorch_pref.likelihood_ratio.interior_point import Barrier, InteriorPoint, Solution

SCREENING = 1e-4
"""The tolerance of bounds that are only ranked."""
FINAL = 1e-9
"""The tolerance of bounds that are reported."""
FLOOR = 1e-12  # of a squared coefficient: it keeps the slope of the root finite at an item

_MAX_STEPS = 100
_FINEST = 1e-13  # of the largest value in the ball: the smallest gap above rounding
_NOISE = 1e-14  # of the coefficients that are seen: rounding of those that are not
_STUCK = 1e-6  # of the largest value in the ball: a gap that rounding does not explain
_HANDOVER = 1e-8  # of the same: what the barrier's rounding allows
_PATIENCE = 6  # how many times as many steps the barrier may take
_NEAR = 0.5  # of the coefficients: the largest residual of optimality of a usable start
_LEAST_SLACK = 1e-9  # of the ellipsoid
_WARM = 0.999  # of the way to a nearby solution, where a warm start begins


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
        converged: 0-dim boolean: whether it is certified to be within rounding of the maximum.
    """

    coordinates: Tensor
    log_likelihood: Tensor
    norm_multiplier: Tensor
    converged: Tensor


class Bound(NamedTuple):
    r"""A bound of ``g^T u + s w`` over the set, one an element.

    Attributes:
        value: ``...``-dim bounds, attained in the set: never wider than the exact bound.
            Differentiable once in ``g`` and ``s``.
        coordinates: ``... x r``-dim ``u*``.
        beyond: ``...``-dim ``w*``.
        gap: ``...``-dim certified distance to the exact bound.
        converged: ``...``-dim booleans: whether the gap is within the tolerance.
        num_steps: ``...``-dim number of Newton steps.
        multipliers: ``... x 2``-dim multipliers of ``(B^2 - |u|^2 - w^2) / 2`` and of ``ell``.
    """

    value: Tensor
    coordinates: Tensor
    beyond: Tensor
    gap: Tensor
    converged: Tensor
    num_steps: Tensor
    multipliers: Tensor


class ConfidenceSet:
    r"""``{(u, w): |u|^2 + w^2 <= B^2, ell(u) >= ell_MLE - slack}``, within the box if any.

    Xu et al. (2024), eq. (9); their ``beta_1`` is the slack.

    Args:
        root: ``n x r``-dim ``R``, as of :func:`~botorch_pref.likelihood_ratio.whiten`.
        observations: The answers to the items, unbatched; None where there are none.
        norm_bound: ``B``, in the units of the utilities over those of ``R``.
        slack: By how much a function may be below the maximal log likelihood; 0 to infinity,
            which it is where there are no answers.
        box: The largest absolute utility of the items; None for no such bound.

    Attributes:
        mle: The maximum likelihood in the ball and the box.

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
        slack: float = math.inf,
        box: float | None = None,
    ) -> None:
        if root.dim() != 2:
            raise ComparisonDataError(f"`root` must be n x r-dim, not {tuple(root.shape)}.")
        if not slack >= 0:
            raise ComparisonDataError(f"`slack` must not be negative, but is {slack!r}.")
        self.root = root.detach().double()
        self.observations = _checked_observations(observations, len(root))
        self.norm_bound = checked_positive("norm_bound", norm_bound)
        self.slack = math.inf if self.observations is None else float(slack)
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
        self.mle = self._maximum_likelihood()
        if math.isfinite(self.slack):
            level = self.mle.log_likelihood - self.slack
            self.constraints = replace(self.constraints, level=level)
        # Strictly inside: by concavity it keeps half the slack.
        v = self.reduced(self.mle.coordinates)
        drop = self.mle.log_likelihood - self.log_likelihood(0.0 * self.mle.coordinates)
        inwards = 0.5 * self.slack / drop.clamp_min(torch.finfo(v.dtype).tiny)
        self.centre = (1.0 - inwards.clamp_max(0.5)) * v

    def log_likelihood(self, coordinates: Tensor) -> Tensor:
        """``ell: ...`` at ``u: ... x r``; Xu et al. (2024), eq. (7)."""
        values = self.reduced(coordinates.detach().double()) @ self.constraints.rows.T
        return self.constraints.log_likelihood(values)

    def reduced(self, coordinates: Tensor) -> Tensor:
        """``v: ... x q`` in units of ``B``: the part of ``u: ... x r`` in the basis."""
        return coordinates @ self.basis / self.norm_bound

    def upper(
        self,
        g: Tensor,
        s: Tensor,
        *,
        tolerance: float = FINAL,
        start: Bound | None = None,
        max_steps: int = _MAX_STEPS,
    ) -> Bound:
        r"""``max g^T u + s w`` over the set; Xu et al. (2024), problem (24).

        Args:
            g: ``... x r``-dim coefficients: of a function value ``a(x)``, of an advantage
                ``a(x) - a(x')``.
            s: ``...``-dim coefficients of the part of the function off the items.
            tolerance: The gap to stop at, in the units of the value.
            start: Bounds of elements of the same shape, of this set or another; used where
                they are near, and ignored if they are of another shape or device.
            max_steps: The most Newton steps; six times as many where the method gets stuck
                and another takes over.

        Raises:
            ComparisonDataError: If a shape does not fit.
        """
        with torch.no_grad():
            objective, shape = self._objective(g, s)
            point, multipliers = self._start(objective, start, shape)
            limit = (tolerance / objective.scale).clamp_min(_FINEST)
            # Without slack the set is the maximum likelihood itself.
            steps = max_steps if self.slack else 0
            found = self._solve(objective.linear, point, multipliers, limit, steps)
            u, w = objective.original(found.point)
            gap = (found.upper - found.lower).clamp_min(0.0)
            ball = found.multipliers[:, 0] / self.norm_bound**2
            level = self.constraints.level
            of_level = torch.zeros_like(gap) if level is None else found.multipliers[:, 1]
            both = objective.scale.unsqueeze(-1) * torch.stack([ball, of_level], dim=-1)
        u, w = u.view(*shape, u.shape[-1]), w.view(shape)
        return Bound(
            value=Envelope.apply(g, s, u, w),
            coordinates=u,
            beyond=w,
            gap=(gap * objective.scale).view(shape),
            converged=(gap <= limit).view(shape),
            num_steps=found.num_steps.view(shape),
            multipliers=both.view(*shape, 2),
        )

    def lower(self, g: Tensor, s: Tensor, **options: Any) -> Bound:
        """``min g^T u + s w`` over the set; arguments as of :meth:`upper`."""
        found = self.upper(-g, -s, **options)
        return found._replace(value=-found.value)

    @torch.no_grad()
    def rough_upper(self, g: Tensor, s: Tensor) -> Tensor:
        r"""An estimate of :meth:`upper` for ranking, without a solve for every element.

        It is the largest value on an ellipsoid around the set that one gets with a quadratic for
        the log likelihood: with the maximum ``v``, the gradient ``b`` and the Hessian ``-H``
        there, a slack ``alpha`` leaves ``d = p - v`` with ``d^T H d / 2 - b^T d <= alpha`` and
        ``|p|^2 <= 1``, which is inside ``(d^T H d / 2 - b^T d) / alpha + |p|^2 <= 2``. The box is
        left out. Arguments as of :meth:`upper`; the ``...``-dim values have no gradients.
        """
        objective, shape = self._objective(g, s)
        factor, centre, radius = self._ellipsoid
        inner, outer = objective.linear[:, :-1], objective.linear[:, -1]
        solved = torch.linalg.solve_triangular(factor, inner.mT, upper=False)
        largest = inner @ centre + radius * (solved.square().sum(0) + outer.square()).sqrt()
        return (objective.scale * largest).view(shape)

    @cached_property
    def _ellipsoid(self) -> tuple[Tensor, Tensor, Tensor]:
        """Cholesky factor, centre and radius of the ellipsoid of :meth:`rough_upper`."""
        constraints, alpha = self.constraints, max(self.slack, _LEAST_SLACK)
        v = self.reduced(self.mle.coordinates)
        likelihood = constraints.likelihood(constraints.rows @ v)
        rows = constraints.answer_rows
        quadratic = likelihood.curvature.quadratic(rows) / (2.0 * alpha)
        linear = quadratic @ v + 0.5 * likelihood.gradient / alpha
        factor = torch.linalg.cholesky_ex(quadratic + torch.eye(len(v)).to(v)).L
        centre = torch.cholesky_solve(linear.unsqueeze(-1), factor).squeeze(-1)
        constant = v @ quadratic @ v + likelihood.gradient @ v / alpha
        return factor, centre, (2.0 - constant + centre @ linear).clamp_min(0.0).sqrt()

    def _maximum_likelihood(self) -> MaximumLikelihood:
        constraints, v = self.constraints, self.root.new_zeros(self.basis.shape[-1])
        total = constraints.log_likelihood(constraints.rows @ v).abs()
        point = torch.nn.functional.pad(v, (0, 1)).unsqueeze(0)
        solver = InteriorPoint(constraints, weight=1.0, max_steps=_MAX_STEPS)
        tolerance = (1e-13 * (1.0 + total)).unsqueeze(0)
        found = solver.maximize(torch.zeros_like(point), point, None, tolerance)
        v = found.point[0, :-1]
        gradient = constraints.likelihood(constraints.rows @ v).gradient
        square = v.square().sum().clamp_min(torch.finfo(v.dtype).tiny)
        return MaximumLikelihood(
            coordinates=self.norm_bound * (self.basis @ v),
            log_likelihood=found.lower[0],
            norm_multiplier=(gradient @ v / square).clamp_min(0.0) / self.norm_bound**2,
            converged=(found.upper - found.lower)[0] <= FINAL * (1.0 + total),
        )

    def _objective(self, g: Tensor, s: Tensor) -> tuple[_Objective, torch.Size]:
        rank = self.root.shape[-1]
        if g.shape[-1:] != (rank,):
            raise ComparisonDataError(f"`g` must be ... x {rank}-dim, not {tuple(g.shape)}.")
        shape = common_batch_shape(g=g.shape[:-1], s=s.shape)
        rows = g.double().expand(*shape, rank).reshape(shape.numel(), rank)
        s = s.double().expand(shape).reshape(-1)
        return _Objective(rows, s, self.basis, self.norm_bound), shape

    def _solve(
        self,
        linear: Tensor,
        start: Tensor,
        multipliers: Tensor | None,
        limit: Tensor,
        max_steps: int,
    ) -> Solution:
        """By the primal-dual method, and by the barrier alone where that got stuck."""
        solver = InteriorPoint(self.constraints, max_steps=max_steps)
        found = solver.maximize(linear, start, multipliers, limit)
        gap = found.upper - found.lower
        stuck = (gap > limit.clamp_min(_STUCK)) & (found.num_steps < max_steps)
        stuck = torch.nonzero(stuck).squeeze(-1)
        if not len(stuck):
            return found
        slow, c = Barrier(self.constraints, max_steps=_PATIENCE * max_steps), linear[stuck]
        middle = torch.nn.functional.pad(self.centre, (0, 1)).expand(len(stuck), -1)
        near = slow.maximize(c, middle, None, limit[stuck].clamp_min(_HANDOVER))
        return found.improved(stuck, near)

    def _start(
        self, objective: _Objective, start: Bound | None, shape: torch.Size
    ) -> tuple[Tensor, Tensor | None]:
        """Points strictly inside, and multipliers of the ball and the level."""
        size = len(objective.linear)
        cold = torch.nn.functional.pad(self.centre, (0, 1)).expand(size, -1)
        usable = (*shape, self.root.shape[-1]), cold.device
        if start is None or (start.coordinates.shape, start.coordinates.device) != usable:
            return cold, None
        v = self.reduced(start.coordinates.reshape(size, -1))
        v = self.constraints.pull(v, self.centre, _WARM)
        last = _WARM * (1.0 - v.square().sum(-1, keepdim=True)).clamp_min(0.0).sqrt()
        warm = torch.cat([v, last], dim=-1)
        multipliers = start.multipliers.reshape(size, 2) / objective.scale.unsqueeze(-1)
        multipliers[:, 0] *= self.norm_bound**2
        # From an end that is far away it takes longer than from the middle.
        gradient = self.constraints.likelihood(v @ self.constraints.columns).gradient
        slope = objective.linear - multipliers[:, :1] * warm
        slope[:, :-1] += multipliers[:, 1:] * gradient
        near = slope.norm(dim=-1, keepdim=True) <= _NEAR
        multipliers = torch.where(near, multipliers.clamp_min(_FINEST), torch.nan)
        return torch.where(near, warm, cold), multipliers


class _Objective:
    """Linear functions, scaled, in the coordinates in which the ball is the unit ball."""

    def __init__(self, g: Tensor, s: Tensor, basis: Tensor, norm_bound: float) -> None:
        self.basis, self.norm_bound = basis, norm_bound
        tiny = torch.finfo(g.dtype).tiny
        inner = g @ basis
        # Of the part that neither answers nor box see, only the length matters. The difference of
        # nearly equal numbers is orthogonal only when projected twice.
        rest = g - inner @ basis.T
        rest = rest - rest @ basis @ basis.T
        unseen = torch.cat([rest, s.unsqueeze(-1)], dim=-1)
        length = unseen.norm(dim=-1, keepdim=True)
        length = length.masked_fill(length <= _NOISE * inner.norm(dim=-1, keepdim=True), 0.0)
        linear = torch.cat([inner, length], dim=-1)
        size = linear.norm(dim=-1).clamp_min(tiny)
        self.unseen = torch.where(length > 0, unseen / length.clamp_min(tiny), 0.0)
        self.linear = linear / size.unsqueeze(-1)
        #: The largest value in the ball, which is 1 in the scaled problem.
        self.scale = norm_bound * size

    def original(self, point: Tensor) -> tuple[Tensor, Tensor]:
        """``u: E x r`` and ``w: E`` of scaled points ``E x (q + 1)``."""
        outer = point[:, -1:] * self.unseen
        u = point[:, :-1] @ self.basis.T + outer[:, :-1]
        return self.norm_bound * u, self.norm_bound * outer[:, -1]


class Envelope(torch.autograd.Function):
    """``g^T u* + s w*``; its gradient is ``(u*, w*)``, as the set does not depend on ``g, s``."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, s: Tensor, u: Tensor, w: Tensor) -> Tensor:
        """The ``...``-dim values at the maximisers ``u`` and ``w``."""
        ctx.save_for_backward(u, w)
        ctx.shapes = g.shape, s.shape
        return (g * u).sum(-1) + s * w

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        """The gradients in ``g`` and ``s``."""
        u, w = ctx.saved_tensors
        of_g, of_s = grad.unsqueeze(-1) * u, grad * w
        return of_g.sum_to_size(ctx.shapes[0]), of_s.sum_to_size(ctx.shapes[1]), None, None


def _checked_observations(observations: Observations | None, n: int) -> Observations | None:
    if observations is None or observations.num_rows == 0:
        return None
    if shape := tuple(observations.batch_shape):
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
