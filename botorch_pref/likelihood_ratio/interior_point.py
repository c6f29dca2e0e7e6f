r"""A primal-dual interior-point method for many objectives over one convex set.

Notation of :mod:`botorch_pref.likelihood_ratio.constraints`; ``E`` elements, and for each an
objective ``c^T p + weight * ell``, where ``weight`` is 0 (a bound) or 1 (maximum likelihood).
A step is Mehrotra's: a predictor aims at the solution, a corrector at the central path as
close to it as the predictor promises. Both share a factored matrix, and the corrector also
foresees how the two curved margins bend along the predicted step.

Every iterate is strictly inside the set, so each gives a lower bound of the maximum; the
upper bounds of :mod:`botorch_pref.likelihood_ratio.certificate` hold at any iterate. Once a step,
the number of unfinished elements leaves the device, and nothing else does.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from botorch_pref.likelihood_ratio.certificate import lagrangian_bound, tangent_bound
from botorch_pref.likelihood_ratio.constraints import Constraints
from botorch_pref.likelihood_ratio.newton import Direction, Newton, State

_TO_THE_BOUNDARY = (0.99, 1 - 1e-5)  # of the way there, at first and in the end
_KEPT_MARGIN = 0.1  # of the smaller of a margin and what the linear model makes of it
_CLOSER = 0.9  # a corrector never aims farther from the solution than where it is
_LAG = 0.001  # of the gap: products below it are far ahead of the point
_RECENTRE = 0.03  # of the gap: where such products are put back to
_RESERVE = 0.1  # of the tolerance: products below it are rounding
_FIRST_MULTIPLIER = 0.7  # of the ball; a linear function alone has 1
_DUAL_LEAD = 5.0  # multipliers that run ahead of a blocked point leave the central path


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


class InteriorPoint:
    r"""The method, for one set and one kind of objective.

    Args:
        constraints: The set.
        weight: 1 where the log likelihood is the objective, else 0.
        max_steps: The most Newton steps of an element.
    """

    patience = 20  # steps in which the gap is not halved
    # The first of these shares of a step that is good is taken. All are tried at once: to ask for
    # one after the other is to wait for the device each time. The last one stays where it is.
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
        found = Solution(
            torch.zeros_like(state.point),
            torch.zeros_like(state.lower),
            torch.zeros_like(state.upper),
            torch.zeros_like(state.multipliers),
            torch.zeros_like(state.element),
        )
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
        """Both bounds at the iterate, kept where they are better than before."""
        v = state.point[:, :-1]
        last = (1.0 - v.square().sum(-1, keepdim=True)).clamp_min(0.0).sqrt()
        point = torch.cat([v, last], dim=-1)
        lower = (state.linear * point).sum(-1) + self.weight * state.likelihood.value
        better = lower > state.lower
        state.best = torch.where(better.unsqueeze(-1), point, state.best)
        state.lower = torch.where(better, lower, state.lower)
        level, box = self.constraints.level, self.constraints.box
        if level is not None and box is None:
            upper = tangent_bound(state.linear, v, state.likelihood, level)
        else:
            rows = self.constraints.box_rows
            sides = (
                None
                if box is None
                else (box, rows, state.multipliers[:, self.constraints.first_box :])
            )
            weight = state.weight
            upper = lagrangian_bound(state.linear, v, state.likelihood, level, weight, sides)
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
        # On the central path the gap is the sum of the products. Products far ahead of the gap
        # leave a point to crawl along the boundary; far below the tolerance, only rounding.
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
        inside = (margins >= _KEPT_MARGIN * torch.minimum(linear, before)).all(-1)
        primal = state.land(self.constraints, direction.point, lengths, inside)
        dual = torch.minimum(dual, _DUAL_LEAD * primal)
        state.multipliers = state.multipliers + dual * direction.multipliers
        if self.constraints.level is not None:
            state.weight = state.multipliers[:, 1]
