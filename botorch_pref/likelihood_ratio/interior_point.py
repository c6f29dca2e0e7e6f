r"""Interior-point methods for many objectives over one convex set.

Notation of :mod:`botorch_pref.likelihood_ratio.constraints`; ``E`` elements, and for each an
objective ``c^T p + weight * ell``, where ``weight`` is 0 (a bound) or 1 (maximum likelihood).
With multipliers ``nu`` of the ball, ``mu`` of the level and ``lambda`` of the box, stationarity is

``c + mu grad ell(v) - nu p - Z_box^T (lambda_above - lambda_below) = 0``,

and every product of a margin and its multiplier is brought to a given value. The matrix
``H = mu A^T W A + nu I + box terms: q x q`` is factored once an element; the ball and the level,
whose gradients are ``-p`` and ``grad ell``, leave a system in two unknowns.

Every iterate is strictly inside the set, so each gives a lower bound of the maximum; the upper
bounds hold at any iterate, as ``ell`` is concave: ``ell(v') <= ell(v) + grad^T (v' - v)``. Once a
step, the number of unfinished elements leaves the device, and nothing else does.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_pref.inference.observations import as_curvature
from botorch_pref.inference.systems import matvec
from botorch_pref.likelihood_ratio.constraints import Constraints, Likelihood

_TO_THE_BOUNDARY = (0.99, 1 - 1e-5)  # of the longest step, at first and in the end
_LEAST_MARGIN = 0.1  # of the smaller of a margin before the step and its linear model after
_CLOSER = 0.9  # of the mean product: the largest target of a corrector
_LAG = 0.001  # of the gap: products below it are far ahead of the point
_RECENTRE = 0.03  # of the gap: where such products are put back to
_RESERVE = 0.1  # of the tolerance: products below it are rounding
_FIRST_MULTIPLIER = 0.7  # of the ball; a linear function alone has 1
_DUAL_LEAD = 5.0  # of the primal step: the longest dual step, to stay near the central path
_CENTRED = 0.1  # of ``mu``: the promised gain below which a point is near the central one
_SHRINK = 0.1  # of ``mu`` there
_SHARE = 0.1  # of the tolerance: the smallest sum of products
_HALVINGS = 39
_LEAST_LEFT = 1e-3  # of a margin, so that rounding does not carry a point outside
_ARMIJO = 0.1


class Solution(NamedTuple):
    """The maximum of every element, between two certified values.

    Attributes:
        point: ``E x (q + 1)``-dim points of the set.
        lower: ``E``-dim objectives there.
        upper: ``E``-dim values that no point of the set exceeds.
        multipliers: ``E x k``-dim multipliers of the ball, the level and the box.
        num_steps: ``E``-dim numbers of Newton steps.
    """

    point: Tensor
    lower: Tensor
    upper: Tensor
    multipliers: Tensor
    num_steps: Tensor

    def improved(self, elements: Tensor, other: Solution) -> Solution:
        """The same, where another solution of some elements is better, with its bounds."""
        new = Solution(*(part.clone() for part in self))
        better = other.lower > self.lower[elements]
        rows = elements[better]
        for name in ("point", "lower", "multipliers"):
            getattr(new, name)[rows] = getattr(other, name)[better]
        new.upper[elements] = torch.fmin(self.upper[elements], other.upper)
        new.num_steps[elements] += other.num_steps
        return new


@dataclass
class State:
    """The unfinished elements; shapes are ``E`` unless said."""

    element: Tensor  # indices of the elements
    linear: Tensor  # coefficients ``c: E x (q + 1)``
    tolerance: Tensor  # gaps to stop at
    point: Tensor  # ``p: E x (q + 1)``
    values: Tensor  # ``Z v: E x (m + b)``
    likelihood: Likelihood  # at the point
    weight: Tensor  # of the log likelihood in the Lagrangian
    margins: Tensor  # of the ball, the level and the box, ``E x k``
    multipliers: Tensor  # of these, ``E x k``
    best: Tensor  # the best points so far, ``E x (q + 1)``
    lower: Tensor  # objectives there
    upper: Tensor  # the smallest upper bounds so far
    goal: Tensor  # gaps when they last were halved
    idle: Tensor  # numbers of steps since

    def select(self, keep: Tensor) -> State:
        """Some of the elements."""
        names = [f.name for f in fields(self) if f.name != "likelihood"]
        parts = {name: getattr(self, name)[keep] for name in names}
        value, gradient, curvature = self.likelihood
        likelihood = Likelihood(value[keep], gradient[keep], curvature[keep])
        return replace(self, likelihood=likelihood, **parts)

    def tried(
        self, constraints: Constraints, move: Tensor, lengths: Tensor
    ) -> tuple[Tensor, Tensor]:
        """``E x t x (q + 1)`` points along a direction and their margins; ``E x t x 1`` lengths."""
        point = self.point.unsqueeze(-2) + lengths * move.unsqueeze(-2)
        along = move[:, :-1] @ constraints.columns
        values = self.values.unsqueeze(-2) + lengths * along.unsqueeze(-2)
        return point, constraints.margins(point, values, constraints.log_likelihood(values))

    def land(self, constraints: Constraints, move: Tensor, lengths: Tensor, good: Tensor) -> Tensor:
        """Go the first of the lengths that is good, or the last; returned as ``E x 1``."""
        first = torch.nn.functional.pad(good[:, :-1], (0, 1), value=True).byte().argmax(-1)
        length = lengths.squeeze(-1).gather(-1, first.unsqueeze(-1))
        self.point = self.point + length * move
        # Not updated step by step, which would drift away from the point.
        self.values = self.point[:, :-1] @ constraints.columns
        self.likelihood = constraints.likelihood(self.values)
        self.margins = constraints.margins(self.point, self.values, self.likelihood.value)
        return length


class Direction(NamedTuple):
    """Changes of the point, of the margins and of the multipliers."""

    point: Tensor
    margins: Tensor
    multipliers: Tensor


class Newton:
    """The factored system at a state."""

    def __init__(self, constraints: Constraints, state: State) -> None:
        self.constraints, self.state = constraints, state
        self.num_curved = constraints.first_box
        nu = state.multipliers[:, :1]
        self.cholesky = torch.linalg.cholesky_ex(self._hessian(nu)).L
        # E x (q + 1) x (1 or 2)-dim gradients of the curved margins, those of ball and level.
        gradients = [-state.point]
        if constraints.level is not None:
            gradients.append(torch.nn.functional.pad(state.likelihood.gradient, (0, 1)))
        self.slopes = torch.stack(gradients, dim=-1)
        #: ``E x (q + 1)``-dim gradient of the Lagrangian.
        self.residual = state.linear - nu * state.point
        self.residual[:, :-1] += state.weight.unsqueeze(-1) * state.likelihood.gradient
        if constraints.box is not None:
            self.residual[:, :-1] -= constraints.box_adjoint(state.multipliers)
        right = torch.cat([self.residual.unsqueeze(-1), self.slopes], dim=-1)
        solved = torch.cholesky_solve(right[:, :-1], self.cholesky)
        solved = torch.cat([solved, right[:, -1:] / nu.unsqueeze(-1)], dim=-2)
        # A matrix that could not be factored gives no direction; the element stays where it is.
        self.solved = torch.nan_to_num(solved, nan=0.0, posinf=0.0, neginf=0.0)
        self.products = self.slopes.mT @ self.solved
        self.own = (state.margins / state.multipliers)[:, : self.num_curved]
        curved = self.products[..., 1:] + torch.diag_embed(self.own)
        self.curved = torch.linalg.cholesky_ex(curved).L

    def direction(self, change: Tensor, bend: Tensor | None = None) -> Direction:
        """Newton's direction for ``E x k``-dim wanted changes of the products.

        ``bend`` are the ``E x (1 or 2)``-dim changes of the curved margins beyond linear ones.
        """
        count = self.num_curved
        move, along = self.solved[..., 0], self.products[..., 0]
        if self.constraints.box is not None:
            push = self.constraints.box_adjoint(change / self.state.margins).unsqueeze(-1)
            solved = torch.cholesky_solve(push, self.cholesky).squeeze(-1)
            push = torch.nn.functional.pad(solved, (0, 1))
            move, along = move - push, along - matvec(self.slopes.mT, push)
        wanted = change[:, :count] / self.state.multipliers[:, :count]
        right = wanted - along if bend is None else wanted - along - bend
        multipliers = torch.cholesky_solve(right.unsqueeze(-1), self.curved).squeeze(-1)
        multipliers = torch.nan_to_num(multipliers, nan=0.0, posinf=0.0, neginf=0.0)
        point = move + matvec(self.solved[..., 1:], multipliers)
        margins = wanted - self.own * multipliers
        if self.constraints.box is not None:
            utilities = point[:, :-1] @ self.constraints.box_rows.T
            sides = torch.cat([-utilities, utilities], dim=-1)
            weight = change[:, count:] - self.state.multipliers[:, count:] * sides
            margins = torch.cat([margins, sides], dim=-1)
            multipliers = torch.cat([multipliers, weight / self.state.margins[:, count:]], dim=-1)
        return Direction(point, margins, multipliers)

    def _hessian(self, nu: Tensor) -> Tensor:
        """``H: E x q x q``."""
        state, rows = self.state, self.constraints.answer_rows
        hessian = state.weight[:, None, None] * state.likelihood.curvature.quadratic(rows)
        if self.constraints.box is not None:
            sides = (state.multipliers / state.margins)[:, self.num_curved :]
            above, below = sides.chunk(2, dim=-1)
            hessian = hessian + as_curvature(above + below).quadratic(self.constraints.box_rows)
        hessian.diagonal(dim1=-2, dim2=-1).add_(nu)
        return hessian


class InteriorPoint:
    r"""Mehrotra's primal-dual method, for one set and one kind of objective.

    A predictor aims at the solution, a corrector at the central path as close to it as the
    predictor promises. Both share a factored matrix, and the corrector also foresees how the two
    curved margins bend along the predicted step.

    Args:
        constraints: The set.
        weight: 1 where the log likelihood is the objective, else 0.
        max_steps: The most Newton steps of an element.
    """

    patience = 20  # steps in which the gap is not halved
    # The first good one of these shares of a step is taken. All are tried at once, as each
    # decision would wait for the device. The last one stays where it is.
    trial_lengths: tuple[float, ...] = (
        *(1.0, 0.9, 0.81, 0.73, 0.66, 0.59, 0.53, 0.25, 0.1, 0.01, 1e-4, 1e-6),
        0.0,
    )

    def __init__(self, constraints: Constraints, *, weight: float = 0.0, max_steps: int) -> None:
        self.constraints, self.weight, self.max_steps = constraints, weight, max_steps
        self.trials = constraints.rows.new_tensor(self.trial_lengths)

    @torch.no_grad()
    def maximize(
        self, linear: Tensor, start: Tensor, multipliers: Tensor | None, tolerance: Tensor
    ) -> Solution:
        r"""Maximise ``c^T p + weight * ell`` for every element.

        Args:
            linear: ``E x (q + 1)``-dim coefficients ``c``, the last one not negative.
            start: ``E x (q + 1)``-dim points strictly inside the set.
            multipliers: ``E x 2``-dim multipliers of ball and level; NaN to choose them here.
            tolerance: ``E``-dim gaps between the two bounds to stop at.

        Returns:
            The solution.
        """
        state = self._initial(linear, start, multipliers, tolerance)
        parts = (state.point, state.lower, state.upper, state.multipliers, state.element)
        found = Solution(*(torch.zeros_like(part) for part in parts))
        for step in range(self.max_steps + 1):
            self._certify(state)
            keep = torch.nonzero(self._unfinished(state)).squeeze(-1)
            last = len(keep) == 0 or step == self.max_steps
            if last or len(keep) < len(state.element):
                done = (state.best, state.lower, state.upper, state.multipliers)
                for whole, part in zip(found, done, strict=False):
                    whole[state.element] = part
                found.num_steps[state.element] = step
                state = state.select(keep)
            if last:
                break
            self._advance(state)
        return found

    def _initial(
        self, linear: Tensor, start: Tensor, multipliers: Tensor | None, tolerance: Tensor
    ) -> State:
        size = len(linear)
        values = start[:, :-1] @ self.constraints.columns
        likelihood = self.constraints.likelihood(values)
        margins = self.constraints.margins(start, values, likelihood.value)
        # All products of margin and multiplier the same: a start on the central path.
        own = _FIRST_MULTIPLIER * margins[:, :1] / margins
        if multipliers is not None:
            curved = own[:, : self.constraints.first_box]
            given = multipliers[:, : self.constraints.first_box]
            curved.copy_(torch.where(given.isnan(), curved, given))
        level = self.constraints.level
        best, lower, upper = self._at_the_pole(linear, start)
        return State(
            element=torch.arange(size, device=linear.device),
            linear=linear,
            tolerance=tolerance,
            point=start,
            values=values,
            likelihood=likelihood,
            weight=torch.full_like(own[:, 0], self.weight) if level is None else own[:, 1],
            margins=margins,
            multipliers=own,
            best=best,
            lower=lower,
            upper=upper,
            goal=torch.full_like(upper, torch.inf),
            idle=torch.zeros(size, dtype=torch.long, device=linear.device),
        )

    def _at_the_pole(self, linear: Tensor, start: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The ball's own maximum, which is the set's where the point is in the set."""
        nothing = torch.full_like(linear[:, 0], -torch.inf)
        if self.weight > 0:
            return start, nothing, -nothing
        length = linear.norm(dim=-1, keepdim=True)
        pole = linear / length.clamp_min(torch.finfo(linear.dtype).tiny)
        inside = self.constraints.contains(pole[:, :-1])
        best = torch.where(inside.unsqueeze(-1), pole, start)
        return best, torch.where(inside, length[:, 0], nothing), length[:, 0]

    def _certify(self, state: State) -> None:
        """Both bounds at the iterate, where they are better than before."""
        v = state.point[:, :-1]
        last = (1.0 - v.square().sum(-1, keepdim=True)).clamp_min(0.0).sqrt()
        point = torch.cat([v, last], dim=-1)
        lower = (state.linear * point).sum(-1) + self.weight * state.likelihood.value
        better = lower > state.lower
        state.best = torch.where(better.unsqueeze(-1), point, state.best)
        state.lower = torch.where(better, lower, state.lower)
        level = self.constraints.level
        if level is not None and self.constraints.box is None:
            upper = _tangent_bound(state, level)
        else:
            upper = _lagrangian_bound(state, self.constraints)
        state.upper = torch.fmin(state.upper, upper)

    def _unfinished(self, state: State) -> Tensor:
        """Which elements have a gap to close, and do close it."""
        gap = state.upper - state.lower
        closing = gap <= 0.5 * state.goal
        state.goal = torch.where(closing, gap, state.goal)
        state.idle = torch.where(closing, 0, state.idle + 1)
        return (gap > state.tolerance) & (state.idle < self.patience)

    def _advance(self, state: State) -> None:
        """One Newton step of every element."""
        newton = Newton(self.constraints, state)
        product = state.margins * state.multipliers
        ahead = newton.direction(-product)
        primal, dual = self._step_lengths(state, ahead, 1.0)
        shift, turn = primal * ahead.margins, dual * ahead.multipliers
        mean = product.mean(-1, keepdim=True)
        after = ((state.margins + shift) * (state.multipliers + turn)).mean(-1, keepdim=True)
        target = (after / mean).clamp_max(_CLOSER) ** 3 * mean
        # On the central path the gap is the sum of the products. With products far below the gap
        # a point crawls along the boundary; far below the tolerance they are only rounding.
        count = product.shape[-1]
        share = (state.upper - state.lower).unsqueeze(-1) / count
        lagging = mean < _LAG * share
        target = torch.where(lagging, _RECENTRE * share, target)
        target = torch.maximum(target, _RESERVE / count * state.tolerance.unsqueeze(-1))
        change = target - product - torch.where(lagging, 0.0, shift * turn)
        direction = newton.direction(change, self._bend(state, ahead, primal))
        fraction = (1.0 - target).clamp(*_TO_THE_BOUNDARY)
        primal, dual = self._step_lengths(state, direction, fraction)
        self._move(state, direction, primal, dual)

    def _bend(self, state: State, ahead: Direction, length: Tensor) -> Tensor:
        """How far the margins of the ball and the level fall below their tangents."""
        move = length * ahead.point
        bends = [-0.5 * move.square().sum(-1, keepdim=True)]
        if self.constraints.level is not None:
            values = state.values + move[:, :-1] @ self.constraints.columns
            gain = self.constraints.log_likelihood(values) - state.likelihood.value
            bends.append(gain.unsqueeze(-1) - length * ahead.margins[:, 1:2])
        return torch.cat(bends, dim=-1)

    def _step_lengths(
        self, state: State, direction: Direction, fraction: Tensor | float
    ) -> tuple[Tensor, Tensor]:
        """The longest steps, up to 1, that keep margins and multipliers positive, ``E x 1``.

        They go ``fraction`` of the way to where the first of them would vanish.
        """
        primal = -(direction.margins / state.margins).amin(-1, keepdim=True)
        dual = -(direction.multipliers / state.multipliers).amin(-1, keepdim=True)
        if self.weight > 0:
            primal = dual = torch.maximum(primal, dual)
        return fraction / primal.clamp_min(fraction), fraction / dual.clamp_min(fraction)

    def _move(self, state: State, direction: Direction, primal: Tensor, dual: Tensor) -> None:
        """Take the step, shortened until the point is well inside."""
        lengths = (primal * self.trials).unsqueeze(-1)
        _, margins = state.tried(self.constraints, direction.point, lengths)
        before = state.margins.unsqueeze(-2)
        linear = before + lengths * direction.margins.unsqueeze(-2)
        inside = (margins >= _LEAST_MARGIN * torch.minimum(linear, before)).all(-1)
        primal = state.land(self.constraints, direction.point, lengths, inside)
        dual = torch.minimum(dual, _DUAL_LEAD * primal)
        state.multipliers = state.multipliers + dual * direction.multipliers
        if self.constraints.level is not None:
            state.weight = state.multipliers[:, 1]


class Barrier(InteriorPoint):
    r"""A barrier method in the primal alone, for bounds: slower, but it does not get stuck.

    Where the answers are explained so well that the log likelihood is flat, its tangent does not
    reach the level, and a primal-dual method's multipliers diverge. With
    every multiplier at ``mu`` over its margin, the same linear system is that of Newton's method
    for ``c^T p + mu sum log margins``, which allows a line search. Arguments as of the base class.
    """

    patience = 1000  # the gap shrinks by stages, of which one can be long
    # In the end, no step: the point stays where it is, strictly inside.
    trial_lengths = (*(0.5**k for k in range(_HALVINGS + 1)), 0.0)

    def _advance(self, state: State) -> None:
        """One Newton step of every element towards its central point, and on once it is near."""
        mu = (state.margins * state.multipliers).mean(-1, keepdim=True)
        self._set_multipliers(state, mu)
        newton = Newton(self.constraints, state)
        move = newton.direction(torch.zeros_like(state.margins)).point
        slope = (newton.residual * move).sum(-1, keepdim=True)
        self._climb(state, move, slope, mu)
        count = state.margins.shape[-1]
        least = _SHARE / count * state.tolerance.unsqueeze(-1)
        mu = torch.where(slope <= _CENTRED * mu, torch.maximum(_SHRINK * mu, least), mu)
        self._set_multipliers(state, mu)

    def _set_multipliers(self, state: State, mu: Tensor) -> None:
        state.multipliers = mu / state.margins
        if self.constraints.level is not None:
            state.weight = state.multipliers[:, 1]

    def _climb(self, state: State, move: Tensor, slope: Tensor, mu: Tensor) -> None:
        """Step along a direction, halved until the barrier function has risen."""
        before = self._height(state.linear, state.point, state.margins, mu)
        lengths = self.trials.expand(len(slope), -1).unsqueeze(-1)
        point, margins = state.tried(self.constraints, move, lengths)
        linear, mu, slope = (x.unsqueeze(-2) for x in (state.linear, mu, slope))
        gain = self._height(linear, point, margins, mu) - before.unsqueeze(-2)
        inside = (margins > _LEAST_LEFT * state.margins.unsqueeze(-2)).all(-1, keepdim=True)
        # Outside, the height is not a number, and the comparison fails.
        risen = inside & (gain >= _ARMIJO * lengths * slope)
        state.land(self.constraints, move, lengths, risen.squeeze(-1))

    @staticmethod
    def _height(linear: Tensor, point: Tensor, margins: Tensor, mu: Tensor) -> Tensor:
        barrier = mu * margins.log().sum(-1, keepdim=True)
        return (linear * point).sum(-1, keepdim=True) + barrier


def _tangent_bound(state: State, level: Tensor) -> Tensor:
    """The largest ``c^T p``, ``E``-dim, over the ball and the half-space of the tangent at ``v``.

    The half-space is ``normal^T v' >= depth``; ``c`` splits into its part along the normal and
    the rest.
    """
    linear, v, gradient = state.linear, state.point[:, :-1], state.likelihood.gradient
    slope = gradient.norm(dim=-1).clamp_min(torch.finfo(linear.dtype).tiny)
    normal = gradient / slope.unsqueeze(-1)
    depth = (level - state.likelihood.value + (gradient * v).sum(-1)) / slope
    along = (linear[..., :-1] * normal).sum(-1)
    across = linear.clone()
    across[..., :-1] -= along.unsqueeze(-1) * normal
    length = linear.norm(dim=-1)
    chord = (1.0 - depth.square()).clamp_min(0.0).sqrt()
    cut = depth * along + chord * across.norm(dim=-1)
    return torch.where(along >= depth * length, length, cut)


def _lagrangian_bound(state: State, constraints: Constraints) -> Tensor:
    """The largest Lagrangian, ``E``-dim, over the ball, with the tangent for the likelihood."""
    level, likelihood = constraints.level, state.likelihood
    tangent = likelihood.value - (likelihood.gradient * state.point[:, :-1]).sum(-1)
    constant = state.weight * (tangent if level is None else tangent - level)
    slope = state.linear.clone()
    slope[:, :-1] += state.weight.unsqueeze(-1) * likelihood.gradient
    if constraints.box is not None:
        slope[:, :-1] -= constraints.box_adjoint(state.multipliers)
        sides = state.multipliers[:, constraints.first_box :]
        constant = constant + constraints.box * sides.sum(-1)
    return slope.norm(dim=-1) + constant
