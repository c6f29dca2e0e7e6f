r"""The smallest and the largest value of a linear function on a confidence set.

Notation of :mod:`botorch_pref.likelihood_ratio.program`.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from botorch_pref.data.checks import common_batch_shape
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.likelihood_ratio.interior_point import Barrier, InteriorPoint, Solution
from botorch_pref.likelihood_ratio.program import FINAL, MAX_STEPS, LikelihoodProgram

_FINEST = 1e-13  # of the largest value in the ball: the smallest gap above rounding
_NOISE = 1e-14  # of the coefficients that are seen: rounding of those that are not
_STUCK = 1e-6  # of the largest value in the ball: a gap that rounding does not explain
_HANDOVER = 1e-8  # of the same: what the barrier's rounding allows
_PATIENCE = 6  # how many times as many steps the barrier may take
_NEAR = 0.5  # of the coefficients: the largest residual of optimality of a usable start
_LEAST_SLACK = 1e-9  # of the ellipsoid
_WARM = 0.999  # of the way to a nearby solution, from where a warm start departs


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
        program: The ball, the answers and the box.
        slack: By how much a function may be below the maximal log likelihood; 0 to infinity.

    Raises:
        ComparisonDataError: If ``slack`` is negative or not a number.
    """

    def __init__(self, program: LikelihoodProgram, slack: float) -> None:
        if not slack >= 0:
            raise ComparisonDataError(f"`slack` must not be negative, but is {slack!r}.")
        self.program = program
        self.slack = float(slack)
        self.mle = program.maximum_likelihood()
        level = None
        if math.isfinite(slack) and program.observations is not None:
            level = self.mle.log_likelihood - slack
        self.constraints = program.constraints.at_level(level)
        # Strictly inside: by concavity it keeps half the slack.
        v = program.reduced(self.mle.coordinates)
        drop = self.mle.log_likelihood - program.log_likelihood(0.0 * self.mle.coordinates)
        inwards = 0.5 * self.slack / drop.clamp_min(torch.finfo(v.dtype).tiny)
        self.centre = (1.0 - inwards.clamp_max(0.5)) * v

    def upper(
        self,
        g: Tensor,
        s: Tensor,
        *,
        tolerance: float = FINAL,
        start: Bound | None = None,
        max_steps: int = MAX_STEPS,
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

        Returns:
            The bounds.

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
            ball = found.multipliers[:, 0] / self.program.norm_bound**2
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
        left out.

        Args:
            g: As in :meth:`upper`.
            s: As in :meth:`upper`.

        Returns:
            ``...``-dim values, without gradients.
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
        constraints, alpha = self.program.constraints, max(self.slack, _LEAST_SLACK)
        v = self.program.reduced(self.mle.coordinates)
        likelihood = constraints.likelihood(constraints.rows @ v)
        rows = constraints.answer_rows
        quadratic = likelihood.curvature.quadratic(rows) / (2.0 * alpha)
        linear = quadratic @ v + 0.5 * likelihood.gradient / alpha
        factor = torch.linalg.cholesky_ex(quadratic + torch.eye(len(v)).to(v)).L
        centre = torch.cholesky_solve(linear.unsqueeze(-1), factor).squeeze(-1)
        constant = v @ quadratic @ v + likelihood.gradient @ v / alpha
        return factor, centre, (2.0 - constant + centre @ linear).clamp_min(0.0).sqrt()

    def _objective(self, g: Tensor, s: Tensor) -> tuple[_Objective, torch.Size]:
        rank = self.program.root.shape[-1]
        if g.shape[-1:] != (rank,):
            raise ComparisonDataError(f"`g` must be ... x {rank}-dim, not {tuple(g.shape)}.")
        shape = common_batch_shape(g=g.shape[:-1], s=s.shape)
        rows = g.double().expand(*shape, rank).reshape(shape.numel(), rank)
        return _Objective(rows, s.double().expand(shape).reshape(-1), self.program), shape

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
        if start is None or start.coordinates.device != cold.device:
            return cold, None
        if start.coordinates.shape != (*shape, self.program.root.shape[-1]):
            return cold, None
        v = self.program.reduced(start.coordinates.reshape(size, -1))
        v = self.constraints.pull(v, self.centre, _WARM)
        last = _WARM * (1.0 - v.square().sum(-1, keepdim=True)).clamp_min(0.0).sqrt()
        warm = torch.cat([v, last], dim=-1)
        multipliers = start.multipliers.reshape(size, 2) / objective.scale.unsqueeze(-1)
        multipliers[:, 0] *= self.program.norm_bound**2
        # From an end that is far away it takes longer than from the middle.
        gradient = self.constraints.likelihood(v @ self.constraints.columns).gradient
        slope = objective.linear - multipliers[:, :1] * warm
        slope[:, :-1] += multipliers[:, 1:] * gradient
        near = slope.norm(dim=-1, keepdim=True) <= _NEAR
        multipliers = torch.where(near, multipliers.clamp_min(_FINEST), torch.nan)
        return torch.where(near, warm, cold), multipliers


class _Objective:
    """Linear functions, scaled, in the coordinates in which the ball is the unit ball."""

    def __init__(self, g: Tensor, s: Tensor, program: LikelihoodProgram) -> None:
        self.program = program
        tiny = torch.finfo(g.dtype).tiny
        inner = g @ program.basis
        # Of the part that neither answers nor box see, only the length matters. The difference of
        # nearly equal numbers is orthogonal only when projected twice.
        rest = g - inner @ program.basis.T
        rest = rest - rest @ program.basis @ program.basis.T
        unseen = torch.cat([rest, s.unsqueeze(-1)], dim=-1)
        length = unseen.norm(dim=-1, keepdim=True)
        length = length.masked_fill(length <= _NOISE * inner.norm(dim=-1, keepdim=True), 0.0)
        linear = torch.cat([inner, length], dim=-1)
        size = linear.norm(dim=-1).clamp_min(tiny)
        self.unseen = torch.where(length > 0, unseen / length.clamp_min(tiny), 0.0)
        self.linear = linear / size.unsqueeze(-1)
        #: The largest value in the ball, which is 1 in the scaled problem.
        self.scale = program.norm_bound * size

    def original(self, point: Tensor) -> tuple[Tensor, Tensor]:
        """``u: E x r`` and ``w: E`` of scaled points ``E x (q + 1)``."""
        outer = point[:, -1:] * self.unseen
        u = point[:, :-1] @ self.program.basis.T + outer[:, :-1]
        return self.program.norm_bound * u, self.program.norm_bound * outer[:, -1]


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
