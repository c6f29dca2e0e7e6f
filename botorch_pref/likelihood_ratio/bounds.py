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

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.likelihood_ratio.barrier import Barrier
from botorch_pref.likelihood_ratio.ellipsoid import Ellipsoid
from botorch_pref.likelihood_ratio.interior_point import InteriorPoint, Solution
from botorch_pref.likelihood_ratio.program import (
    FINAL,
    MAX_STEPS,
    LikelihoodProgram,
    MaximumLikelihood,
)

_FINEST = 1e-13  # of the largest value in the ball: what rounding leaves to tell
_NOISE = 1e-14  # of the coefficients that are seen: what rounding leaves of them elsewhere
_STUCK = 1e-6  # of the largest value in the ball: a gap that rounding does not explain
_HANDOVER = 1e-8  # of the same: what the barrier's rounding allows
_PATIENCE = 6  # how many times as many steps the barrier may take
_NEAR = 0.5  # of the coefficients: what a start may leave of the optimality condition
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
        slack: What a function may lack of the maximal log likelihood; 0 to infinity.
        mle: The maximum likelihood, where it is known.

    Raises:
        ComparisonDataError: If ``slack`` is negative or not a number.
    """

    def __init__(
        self,
        program: LikelihoodProgram,
        slack: float,
        *,
        mle: MaximumLikelihood | None = None,
    ) -> None:
        if not slack >= 0:
            raise ComparisonDataError(f"`slack` must not be negative, but is {slack!r}.")
        self.program = program
        self.slack = float(slack)
        self.mle = program.maximum_likelihood() if mle is None else mle
        level = None
        if math.isfinite(slack) and program.observations is not None:
            level = self.mle.log_likelihood - slack
        self.constraints = program.constraints.at_level(level)
        self.centre = self._centre()

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
            s: ``...``-dim coefficients of what the function has beyond the items.
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
        return self._bound((g, s), 1.0, tolerance, start, max_steps)

    def lower(
        self,
        g: Tensor,
        s: Tensor,
        *,
        tolerance: float = FINAL,
        start: Bound | None = None,
        max_steps: int = MAX_STEPS,
    ) -> Bound:
        """``min g^T u + s w`` over the set; arguments as of :meth:`upper`."""
        return self._bound((g, s), -1.0, tolerance, start, max_steps)

    @torch.no_grad()
    def rough_upper(self, g: Tensor, s: Tensor) -> Tensor:
        r"""About what :meth:`upper` finds, without a solve for every element.

        It is the largest value on an ellipsoid around the set, where the log likelihood is as its
        quadratic at the maximum: for ranking, as it says nothing for certain.

        Args:
            g: As in :meth:`upper`.
            s: As in :meth:`upper`.

        Returns:
            ``...``-dim values, without gradients.
        """
        objective, shape = self._objective(g, s, 1.0)
        return (objective.scale * self._ellipsoid.upper(objective.linear)).view(shape)

    @cached_property
    def _ellipsoid(self) -> Ellipsoid:
        v = self.program.reduced(self.mle.coordinates)
        return Ellipsoid(self.program.constraints, v, self.slack)

    def _objective(self, g: Tensor, s: Tensor, sign: float) -> tuple[_Objective, torch.Size]:
        shape, rank = self._checked_shape(g, s), self.program.root.shape[-1]
        objective = _Objective(
            sign * g.double().expand(*shape, rank).reshape(shape.numel(), rank),
            sign * s.double().expand(shape).reshape(-1),
            self.program,
        )
        return objective, shape

    def _centre(self) -> Tensor:
        """``q``-dim point strictly inside: by concavity it keeps half the slack."""
        v = self.program.reduced(self.mle.coordinates)
        drop = self.mle.log_likelihood - self.program.log_likelihood(0.0 * self.mle.coordinates)
        inwards = 0.5 * self.slack / drop.clamp_min(torch.finfo(v.dtype).tiny)
        return (1.0 - inwards.clamp_max(0.5)) * v

    def _bound(
        self,
        coefficients: tuple[Tensor, Tensor],
        sign: float,
        tolerance: float,
        start: Bound | None,
        max_steps: int,
    ) -> Bound:
        g, s = coefficients
        with torch.no_grad():
            objective, shape = self._objective(g, s, sign)
            start = start if self._is_usable(start, shape) else None
            point, multipliers = self._start(objective, start)
            # Without slack there is no way to go: the set is the maximum likelihood itself.
            limit = (tolerance / objective.scale).clamp_min(_FINEST)
            steps = max_steps if self.slack else 0
            found = self._solve(objective.linear, point, multipliers, limit, steps)
            u, w = objective.original(found.point)
            gap = (found.upper - found.lower).clamp_min(0.0)
            own = [found.multipliers[:, 0] / self.program.norm_bound**2]
            own.append(
                torch.zeros_like(gap) if self.constraints.level is None else found.multipliers[:, 1]
            )
        u, w = u.view(*shape, u.shape[-1]), w.view(shape)
        return Bound(
            value=Envelope.apply(g, s, u, w),
            coordinates=u,
            beyond=w,
            gap=(gap * objective.scale).view(shape),
            converged=(gap <= limit).view(shape),
            num_steps=found.num_steps.view(shape),
            multipliers=(objective.scale.unsqueeze(-1) * torch.stack(own, dim=-1)).view(*shape, 2),
        )

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

    def _checked_shape(self, g: Tensor, s: Tensor) -> torch.Size:
        rank = self.program.root.shape[-1]
        if g.shape[-1:] != (rank,):
            raise ComparisonDataError(f"`g` must be ... x {rank}-dim, not {tuple(g.shape)}.")
        try:
            return torch.broadcast_shapes(g.shape[:-1], s.shape)
        except RuntimeError as error:
            shapes = f"{tuple(g.shape)} and {tuple(s.shape)}"
            raise ComparisonDataError(f"`g` and `s` do not fit: {shapes}.") from error

    def _is_usable(self, start: Bound | None, shape: torch.Size) -> bool:
        if start is None or start.coordinates.device != self.centre.device:
            return False
        return start.coordinates.shape == (*shape, self.program.root.shape[-1])

    def _start(self, objective: _Objective, start: Bound | None) -> tuple[Tensor, Tensor | None]:
        """Points strictly inside, and multipliers of the ball and the level."""
        size = len(objective.linear)
        cold = torch.nn.functional.pad(self.centre, (0, 1)).expand(size, -1)
        if start is None:
            return cold, None
        v = self.program.reduced(start.coordinates.reshape(size, -1))
        v = self.constraints.pull(v, self.centre, _WARM)
        last = _WARM * (1.0 - v.square().sum(-1, keepdim=True)).clamp_min(0.0).sqrt()
        warm = torch.cat([v, last], dim=-1)
        multipliers = start.multipliers.reshape(size, 2) / objective.scale.unsqueeze(-1)
        multipliers[:, 0] *= self.program.norm_bound**2
        # From the end of another way it is farther than from the middle.
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
        # Of what neither answers nor box see, only the length matters. What is left of a
        # difference of nearly equal numbers is orthogonal only when projected again.
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
