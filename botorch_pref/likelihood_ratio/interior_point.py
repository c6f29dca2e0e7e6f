r"""Interior-point methods for many objectives over one convex set.

Notation: points ``p: d`` of the unit ball, and ``Z: (m + b) x d`` that takes a point to the ``m``
latent values of the answers, of log likelihood ``ell``, and to ``b`` utilities in a box. ``E``
elements, each with an objective ``c^T p + weight * ell + z``, where ``weight`` is 0 (a bound) or 1
(maximum likelihood), and ``z`` is the smallest of ``J`` linear functions ``h_j^T p``, if there are
any. Each constraint has a margin, which is positive inside:

* ball: ``(1 - |p|^2) / 2``, multiplier ``nu``;
* level: ``ell(Z p)`` minus the smallest allowed one, multiplier ``mu``;
* functions: ``h_j^T p - z``, multipliers ``lambda_j``, which sum to one in the optimum;
* box: the bound minus and plus every utility.

Stationarity is ``c + sum_j lambda_j h_j + mu grad ell - nu p - Z_box^T (above - below) = 0``, and
every product of a margin and its multiplier is brought to a given value. The matrix
``H = mu A^T W A + nu I + box terms: d x d`` is factored once an element, or by Woodbury's identity
one of the rows of ``Z`` that differ, where these are few; the ball, the level and the functions,
whose gradients are ``-p``, ``grad ell`` and ``h_j``, leave a system in a few unknowns.

Every iterate is strictly inside the set, so each gives a lower bound of the maximum; the upper
bounds hold at any iterate, as ``ell`` is concave: ``ell(p') <= ell(p) + grad^T (p' - p)``. Once a
step, the number of unfinished elements leaves the device, and nothing else does.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_pref.inference.observations import (
    BlockCurvature,
    Curvature,
    Observations,
    as_curvature,
    matvec,
)
from botorch_pref.inference.systems import solve_columns, solve_vector

MAX_STEPS = 100
"""The most Newton steps of an element; six times as many where the first method gets stuck."""

_TO_THE_BOUNDARY = (0.99, 1 - 1e-5)  # of the longest step, at first and in the end
_LEAST_MARGIN = 0.1  # of the smaller of a margin before the step and its linear model after
_CLOSER = 0.9  # of the mean product: the largest target of a corrector
_LAG = 0.001  # of the gap: products below it are far ahead of the point
_RECENTRE = 0.03  # of the gap: where such products are put back to
_RESERVE = 0.1  # of the tolerance: products below it are rounding
_FIRST_MULTIPLIER = 0.7  # of the nearest of ball and box; a linear function of a ball has 1
_DUAL_LEAD = 5.0  # of the primal step: the longest dual step, to stay near the central path
_CENTRED = 0.1  # of ``mu``: the promised gain below which a point is near the central one
_SHRINK = 0.1  # of ``mu`` there
_SHARE = 0.1  # of the tolerance: the smallest sum of products
_HALVINGS = 39
_LEAST_LEFT = 1e-3  # of a margin, so that rounding does not carry a point outside
_ARMIJO = 0.1
_STUCK = 1e-6  # of the largest value in the ball: a gap that rounding does not explain
_HANDOVER = 1e-8  # of the same: what the barrier's rounding allows
_PATIENCE = 6  # how many times as many steps the barrier may take


class Distinct(NamedTuple):
    """Rows ``q x d``, which of them each row of a program is, and their products ``q x q``."""

    rows: Tensor
    which: Tensor
    gram: Tensor


@dataclass(frozen=True, eq=False)
class Program:
    """The set, which all elements of a batch share, and the weight of the log likelihood."""

    observations: Observations | None
    rows: Tensor  # ``Z: (m + b) x d``
    box: float | None = None  # the bound on the absolute utilities
    level: Tensor | None = None  # the smallest log likelihood
    weight: float = 0.0  # of the log likelihood in the objective

    @property
    def num_answers(self) -> int:
        """The number ``m`` of rows that are answers."""
        return 0 if self.observations is None else self.observations.num_rows

    @property
    def answer_rows(self) -> Tensor:
        """The ``m x d``-dim map to the answers' latent values."""
        return self.rows[: self.num_answers]

    @property
    def box_rows(self) -> Tensor:
        """The ``b x d``-dim map to the utilities in the box."""
        return self.rows[self.num_answers :]

    @cached_property
    def distinct(self) -> Distinct:
        """The rows without repetitions: labels are of the utilities that are in the box."""
        rows, which = self.rows.unique(dim=0, return_inverse=True)
        return Distinct(rows, which, rows @ rows.mT)

    @cached_property
    def has_few_rows(self) -> bool:
        """Whether rows repeat, and no more of them differ than there are columns."""
        return len(self.distinct.rows) <= min(self.rows.shape[-1], len(self.rows) - 1)

    @cached_property
    def _columns(self) -> Tensor:
        """The transpose of the rows that :meth:`values` multiplies with."""
        rows = self.distinct.rows if self.has_few_rows else self.rows
        return rows.T.contiguous()

    def values(self, point: Tensor) -> Tensor:
        """``Z p: ... x (m + b)`` of points ``... x d``."""
        values = point @ self._columns
        return values[..., self.distinct.which] if self.has_few_rows else values

    @property
    def num_curved(self) -> int:
        """The number of margins that are not linear: of the ball, and of the level if any."""
        return 1 if self.level is None else 2

    def log_likelihood(self, values: Tensor) -> Tensor:
        """``ell: ...`` at the values ``Z p: ... x (m + b)``."""
        if self.observations is None:
            return values.new_zeros(values.shape[:-1])
        return self.observations.log_prob(values[..., : self.num_answers]).sum(-1)

    def derivatives(self, values: Tensor) -> tuple[Tensor, Curvature]:
        """Of ``ell``: the gradient ``... x d``, and minus the Hessian in the latent values."""
        latent = values[..., : self.num_answers]
        if self.observations is None:
            none = values.new_zeros(*values.shape[:-1], self.rows.shape[-1])
            return none, as_curvature(latent)
        score, curvature = self.observations.derivatives(latent)
        return score @ self.answer_rows, curvature

    def box_margins(self, values: Tensor) -> Tensor:
        """The bound minus and plus the utilities, ``... x 2b``, at ``Z p: ... x (m + b)``."""
        utilities = values[..., self.num_answers :]
        bound = torch.inf if self.box is None else self.box
        return torch.cat([bound - utilities, bound + utilities], dim=-1)

    def box_adjoint(self, sides: Tensor) -> Tensor:
        """``Z_box^T (above - below): ... x d`` of ``... x 2b`` numbers, one a side."""
        above, below = sides.chunk(2, dim=-1)
        return (above - below) @ self.box_rows

    def room(self, point: Tensor) -> Tensor:
        """The smaller of the margin of the ball and the distance to the box, of a point ``d``."""
        sizes = self.box_rows.norm(dim=-1).repeat(2).clamp_min(torch.finfo(point.dtype).tiny)
        ball = 0.5 * (1.0 - point.square().sum(-1, keepdim=True))
        return torch.cat([ball, self.box_margins(self.values(point)) / sizes]).amin()

    def contains(self, point: Tensor) -> Tensor:
        """Whether points ``... x d`` of the ball are within the level and the box."""
        values = self.values(point)
        inside = (self.box_margins(values) >= 0).all(-1)
        if self.level is not None:
            inside = inside & (self.log_likelihood(values) >= self.level)
        return inside


class Solution(NamedTuple):
    """The maximum of every element, between two certified values.

    Attributes:
        point: ``E x d``-dim points of the set.
        lower: ``E``-dim objectives there.
        upper: ``E``-dim values that no point of the set exceeds.
        weights: ``E x J``-dim multipliers of the functions; they sum to one.
        num_steps: ``E``-dim numbers of Newton steps.
    """

    point: Tensor
    lower: Tensor
    upper: Tensor
    weights: Tensor
    num_steps: Tensor


@dataclass
class State:
    """The unfinished elements; shapes are ``E`` unless said."""

    element: Tensor  # indices of the elements
    linear: Tensor  # coefficients ``c: E x d``
    functions: Tensor  # coefficients ``h: E x J x d``
    tolerance: Tensor  # gaps to stop at
    enough: Tensor  # objectives to stop at
    point: Tensor  # ``p: E x d``
    least: Tensor  # ``z: E x 1``
    values: Tensor  # ``Z p: E x (m + b)``
    log_likelihood: Tensor
    gradient: Tensor  # of the log likelihood, ``E x d``
    curvature: Curvature  # minus its Hessian in the latent values
    margins: Tensor  # of the ball, the level, the functions and the box, ``E x k``
    multipliers: Tensor  # of these, ``E x k``
    best: Tensor  # the best points so far, ``E x d``
    lower: Tensor  # objectives there
    upper: Tensor  # the smallest upper bounds so far
    goal: Tensor  # gaps when they last were halved
    idle: Tensor  # numbers of steps since

    def select(self, keep: Tensor) -> State:
        """Some of the elements."""
        return State(*(getattr(self, field.name)[keep] for field in fields(self)))

    def objective(self, point: Tensor) -> Tensor:
        """``c^T p + min_j h_j^T p: E`` at ``E x d``-dim points."""
        value = (self.linear * point).sum(-1)
        if self.functions.shape[-2]:
            value = value + matvec(self.functions, point).amin(-1)
        return value


class Direction(NamedTuple):
    """Changes of the point, of ``Z p``, of ``z``, of the margins and of the multipliers."""

    point: Tensor
    values: Tensor
    least: Tensor
    margins: Tensor
    multipliers: Tensor


class Dense:
    """``H: E x d x d`` itself, factored."""

    def __init__(self, matrix: Tensor) -> None:
        self.cholesky = torch.linalg.cholesky_ex(matrix).L

    def solve(self, right: Tensor) -> Tensor:
        """``H^-1 x`` of ``E x d x k``."""
        return solve_columns(self.cholesky, right)


class FewRows:
    r"""``H = Z^T D Z + nu I`` for a diagonal ``D``, where rows ``Z: q x d`` are few and repeated.

    By Woodbury's identity only ``D^(1/2) Z Z^T D^(1/2) + nu I: q x q`` is factored, for which
    ``Z Z^T`` is multiplied once a program, where ``Z^T D Z`` would be once a step.
    """

    def __init__(self, program: Program, weight: Tensor, nu: Tensor) -> None:
        self.rows, self.nu, self.root = program.distinct.rows, nu.unsqueeze(-1), weight.sqrt()
        inner = (self.root.unsqueeze(-1) * program.distinct.gram).mul_(self.root.unsqueeze(-2))
        inner.diagonal(dim1=-2, dim2=-1).add_(nu)
        self.cholesky = torch.linalg.cholesky_ex(inner).L
        self.root = self.root.unsqueeze(-1)

    def solve(self, right: Tensor) -> Tensor:
        """``H^-1 x`` of ``E x d x k``."""
        seen = self.root * (right.mT @ self.rows.mT).mT
        seen = self.root * solve_columns(self.cholesky, seen)
        return (right - (seen.mT @ self.rows).mT) / self.nu


def _hessian(
    program: Program, curvature: Curvature, nu: Tensor, mu: Tensor | float, sides: Tensor
) -> Dense | FewRows:
    """``mu A^T W A + Z_box^T diag(sides) Z_box + nu I``, the matrix of a Newton step."""
    if program.has_few_rows and not isinstance(curvature, BlockCurvature):
        weight = torch.cat([mu * curvature.weight, sides], dim=-1)
        total = weight.new_zeros(len(weight), len(program.distinct.rows))
        return FewRows(program, total.index_add(1, program.distinct.which, weight), nu)
    matrix = curvature.quadratic(program.answer_rows)
    matrix = (mu if isinstance(mu, float) else mu.unsqueeze(-1)) * matrix
    if program.box is not None:
        matrix = matrix + as_curvature(sides).quadratic(program.box_rows)
    matrix.diagonal(dim1=-2, dim2=-1).add_(nu)
    return Dense(matrix)


class Newton:
    """The factored system at a state."""

    def __init__(self, program: Program, state: State) -> None:
        self.program, self.state = program, state
        #: The number of margins of the ball, the level and the functions.
        self.count = program.num_curved + state.functions.shape[-2]
        slopes = [-state.point] if program.level is None else [-state.point, state.gradient]
        #: ``E x d x count``-dim gradients of these margins.
        self.slopes = torch.cat([torch.stack(slopes, dim=-1), state.functions.mT], dim=-1)
        own = state.multipliers[:, : self.count]
        #: ``E x d``-dim gradient of the Lagrangian but for the box, whose part is a direction's.
        self.pull = state.linear + matvec(self.slopes, own) + program.weight * state.gradient
        mu = program.weight if program.level is None else own[:, 1, None]
        sides = state.multipliers[:, :0]
        if program.box is not None:
            above, below = (state.multipliers / state.margins)[:, self.count :].chunk(2, dim=-1)
            sides = above + below
        self.hessian = _hessian(program, state.curvature, own[:, :1], mu, sides)
        solved = self._solve(torch.cat([self.pull.unsqueeze(-1), self.slopes], dim=-1))
        self.pulled, self.sloped = solved[..., 0], solved[..., 1:]
        self.own = state.margins[:, : self.count] / own
        few = self.slopes.mT @ self.sloped + torch.diag_embed(self.own)
        self.few = torch.linalg.cholesky_ex(few).L
        self.is_function = torch.zeros_like(own)
        self.is_function[:, program.num_curved :] = 1.0
        self.lack = 1.0 - (self.is_function * own).sum(-1, keepdim=True)

    def direction(self, aim: Tensor | None = None, bend: Tensor | None = None) -> Direction:
        """Newton's direction to products ``aim: E x k`` of margins and multipliers; None for 0.

        ``bend`` are the changes of the curved margins beyond linear ones.
        """
        count, state, program = self.count, self.state, self.program
        products = torch.zeros_like(state.margins) if aim is None else aim
        margins, box_margins = state.margins[:, :count], state.margins[:, count:]
        multipliers, box_multipliers = state.multipliers[:, :count], state.multipliers[:, count:]
        push = products[:, count:] / box_margins
        move = self.pulled
        if program.box is not None and aim is not None:
            move = self._solve((self.pull - program.box_adjoint(push)).unsqueeze(-1)).squeeze(-1)
        wanted = products[:, :count] / multipliers - margins
        right = wanted - matvec(self.slopes.mT, move)
        if bend is not None:
            right[:, : bend.shape[-1]] -= bend
        least = torch.zeros_like(state.least)
        turn = self._solve_few(right)
        if state.functions.shape[-2]:
            per_least = self._solve_few(self.is_function)
            missing = self.lack - (self.is_function * turn).sum(-1, keepdim=True)
            least = missing / (self.is_function * per_least).sum(-1, keepdim=True)
            least = torch.nan_to_num(least, nan=0.0, posinf=0.0, neginf=0.0)
            turn = turn + least * per_least
        point = move + matvec(self.sloped, turn)
        values, shift = program.values(point), wanted - self.own * turn
        if program.box is not None:
            utilities = values[:, program.num_answers :]
            sides = torch.cat([-utilities, utilities], dim=-1)
            shift = torch.cat([shift, sides], dim=-1)
            box_turn = push - box_multipliers * (1.0 + sides / box_margins)
            turn = torch.cat([turn, box_turn], dim=-1)
        return Direction(point, values, least, shift, turn)

    def _solve(self, right: Tensor) -> Tensor:
        """``H^-1 x`` of ``E x d x k``, and 0 where it could not be factored: no step then."""
        solved = self.hessian.solve(right)
        return torch.nan_to_num(solved, nan=0.0, posinf=0.0, neginf=0.0)

    def _solve_few(self, right: Tensor) -> Tensor:
        return torch.nan_to_num(solve_vector(self.few, right), nan=0.0, posinf=0.0, neginf=0.0)


class InteriorPoint:
    r"""Mehrotra's primal-dual method, for one set and one kind of objective.

    A predictor aims at the solution, a corrector at the central path as close to it as the
    predictor promises. Both share a factored matrix, and the corrector also foresees how the two
    curved margins bend along the predicted step.
    """

    patience = 20  # steps in which the gap is not halved
    # The first good one of these shares of a step is taken. All are tried at once, as each
    # decision would wait for the device. The last one stays where it is.
    trial_lengths: tuple[float, ...] = (
        *(1.0, 0.87, 0.75, 0.6, 0.4, 0.2, 0.1, 0.05, 0.02, 0.005, 0.001, 1e-4),
        0.0,
    )

    def __init__(self, program: Program, max_steps: int = MAX_STEPS) -> None:
        self.program, self.max_steps = program, max_steps
        self.trials = program.rows.new_tensor(self.trial_lengths)

    @torch.no_grad()
    def maximize(
        self,
        linear: Tensor,
        functions: Tensor,
        start: Tensor,
        tolerance: Tensor,
        enough: Tensor | None = None,
    ) -> Solution:
        r"""Maximise ``c^T p + weight * ell + min_j h_j^T p`` for every element.

        Args:
            linear: ``E x d``-dim coefficients ``c``.
            functions: ``E x J x d``-dim coefficients ``h``. With the last coordinate of a point
                no objective falls, and nothing but the ball depends on it.
            start: ``d``-dim point strictly inside the set.
            tolerance: ``E``-dim gaps between the two bounds to stop at.
            enough: ``E``-dim objectives to stop at, however much larger the maximum may be.
        """
        enough = torch.full_like(tolerance, torch.inf) if enough is None else enough
        state = self._initial(linear, functions, start, tolerance, enough)
        weights = self._weights(state)
        parts = (state.point, state.lower, state.upper, weights, state.element)
        found = Solution(*(torch.zeros_like(part) for part in parts))
        for step in range(self.max_steps + 1):
            self._certify(state)
            keep = torch.nonzero(self._unfinished(state)).squeeze(-1)
            last = len(keep) == 0 or step == self.max_steps
            if last or len(keep) < len(state.element):
                done = (state.best, state.lower, state.upper, self._weights(state))
                for whole, part in zip(found, done, strict=False):
                    whole[state.element] = part
                found.num_steps[state.element] = step
                state = state.select(keep)
            if last:
                break
            self._advance(state)
        return found

    def _initial(
        self,
        linear: Tensor,
        functions: Tensor,
        start: Tensor,
        tolerance: Tensor,
        enough: Tensor,
    ) -> State:
        program, point = self.program, start.expand_as(linear)
        values = program.values(point)
        payoffs, nothing = matvec(functions, point), torch.full_like(tolerance, torch.inf)
        # All products of margin and multiplier the same: a start on the central path.
        product = _FIRST_MULTIPLIER * program.room(start)
        least = torch.zeros_like(linear[:, :1])
        if payoffs.shape[-1]:
            least = payoffs.amin(-1, keepdim=True) - payoffs.shape[-1] * product
        log_likelihood = program.log_likelihood(values)
        gradient, curvature = program.derivatives(values)
        margins = self._margins(point, values, log_likelihood, payoffs - least)
        state = State(
            element=torch.arange(len(linear), device=linear.device),
            linear=linear,
            functions=functions,
            tolerance=tolerance,
            enough=enough,
            point=point,
            least=least,
            values=values,
            log_likelihood=log_likelihood,
            gradient=gradient,
            curvature=curvature,
            margins=margins,
            multipliers=product / margins,
            best=point,
            lower=-nothing,
            upper=nothing,
            goal=nothing,
            idle=torch.zeros_like(tolerance, dtype=torch.long),
        )
        if program.weight == 0.0:
            # The ball's own maximum is the set's where the point is in the set.
            combined = self._combined(state)
            state.upper = combined.norm(dim=-1)
            tiny = torch.finfo(linear.dtype).tiny
            pole = combined / state.upper.clamp_min(tiny).unsqueeze(-1)
            inside = program.contains(pole)
            state.best = torch.where(inside.unsqueeze(-1), pole, point)
            state.lower = torch.where(inside, state.objective(pole), state.lower)
        return state

    def _margins(
        self, point: Tensor, values: Tensor, log_likelihood: Tensor, functions: Tensor
    ) -> Tensor:
        """``E x k``-dim margins of the ball, the level, the functions (as given) and the box."""
        program = self.program
        parts = [0.5 * (1.0 - point.square().sum(-1, keepdim=True)), functions]
        if program.level is not None:
            parts.insert(1, (log_likelihood - program.level).unsqueeze(-1))
        return torch.cat([*parts, program.box_margins(values)], dim=-1)

    def _weights(self, state: State) -> Tensor:
        """The multipliers of the functions, ``E x J``, scaled to a sum of one."""
        first = self.program.num_curved
        own = state.multipliers[:, first : first + state.functions.shape[-2]]
        return own / own.sum(-1, keepdim=True)

    def _combined(self, state: State) -> Tensor:
        """``c + sum_j lambda_j h_j: E x d``, with weights whose sum is one."""
        return state.linear + matvec(state.functions.mT, self._weights(state))

    def _certify(self, state: State) -> None:
        """Both bounds at the iterate, where they are better than before."""
        point = state.point.clone()
        point[:, -1] = (1.0 - point[:, :-1].square().sum(-1)).clamp_min(0.0).sqrt()
        lower = state.objective(point) + self.program.weight * state.log_likelihood
        better = lower > state.lower
        state.best = torch.where(better.unsqueeze(-1), point, state.best)
        state.lower = torch.where(better, lower, state.lower)
        linear = self._combined(state)
        if self.program.level is not None and self.program.box is None:
            upper = _tangent_bound(state, linear, self.program.level)
        else:
            upper = _lagrangian_bound(state, linear, self.program)
        state.upper = torch.fmin(state.upper, upper)

    def _unfinished(self, state: State) -> Tensor:
        """Which elements have a gap to close, and do close it."""
        gap = state.upper - state.lower
        closing = gap <= 0.5 * state.goal
        state.goal = torch.where(closing, gap, state.goal)
        state.idle = torch.where(closing, 0, state.idle + 1)
        open_ = (gap > state.tolerance) & (state.lower < state.enough)
        return open_ & (state.idle < self.patience)

    def _advance(self, state: State) -> None:
        """One Newton step of every element."""
        newton = Newton(self.program, state)
        product = state.margins * state.multipliers
        ahead = newton.direction()
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
        aim = target - torch.where(lagging, 0.0, shift * turn)
        direction = newton.direction(aim, self._bend(state, ahead, primal))
        fraction = (1.0 - target).clamp(*_TO_THE_BOUNDARY)
        primal, dual = self._step_lengths(state, direction, fraction)
        # The step is shortened until the point is well inside.
        lengths = primal * self.trials
        num_curved = self.program.num_curved
        before = state.margins[:, :num_curved].unsqueeze(-2)
        promised = lengths.unsqueeze(-1) * direction.margins[:, :num_curved].unsqueeze(-2)
        least = _LEAST_MARGIN * before + _LEAST_MARGIN * promised.clamp_max(0.0)
        inside = (self._curved_margins(state, direction, lengths) >= least).all(-1)
        primal = self._land(state, direction, lengths, inside)
        dual = torch.minimum(dual, _DUAL_LEAD * primal)
        state.multipliers = state.multipliers + dual * direction.multipliers

    def _bend(self, state: State, ahead: Direction, length: Tensor) -> Tensor:
        """How far the margins of the ball and the level fall below their tangents."""
        move = length * ahead.point
        bends = [-0.5 * move.square().sum(-1, keepdim=True)]
        if self.program.level is not None:
            values = state.values + length * ahead.values
            gain = self.program.log_likelihood(values) - state.log_likelihood
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
        if self.program.weight > 0:
            primal = dual = torch.maximum(primal, dual)
        return fraction / primal.clamp_min(fraction), fraction / dual.clamp_min(fraction)

    def _curved_margins(self, state: State, move: Direction, lengths: Tensor) -> Tensor:
        """Those of the ball and the level, ``E x t x (1 or 2)``, after ``E x t`` lengths."""
        lengths, level = lengths.unsqueeze(-1), self.program.level
        point = state.point.unsqueeze(-2) + lengths * move.point.unsqueeze(-2)
        parts = [0.5 * (1.0 - point.square().sum(-1))]
        if level is not None:
            values = state.values.unsqueeze(-2) + lengths * move.values.unsqueeze(-2)
            parts.append(self.program.log_likelihood(values) - level)
        return torch.stack(parts, dim=-1)

    def _land(self, state: State, direction: Direction, lengths: Tensor, good: Tensor) -> Tensor:
        """Go the first of the lengths that is good, or the last; returned as ``E x 1``.

        Where rounding would carry it out of the box, the element stays where it is.
        """
        first = torch.nn.functional.pad(good[:, :-1], (0, 1), value=True).byte().argmax(-1)
        length = lengths.gather(-1, first.unsqueeze(-1))
        point = state.point + length * direction.point
        least = state.least + length * direction.least
        # Not updated step by step, which would drift away from the point.
        values = self.program.values(point)
        inside = (self.program.box_margins(values) > 0.0).all(-1, keepdim=True)
        state.point = torch.where(inside, point, state.point)
        state.least = torch.where(inside, least, state.least)
        state.values = torch.where(inside, values, state.values)
        state.log_likelihood = self.program.log_likelihood(state.values)
        state.gradient, state.curvature = self.program.derivatives(state.values)
        functions = matvec(state.functions, state.point) - state.least
        state.margins = self._margins(state.point, state.values, state.log_likelihood, functions)
        return torch.where(inside, length, 0.0)


class Barrier(InteriorPoint):
    r"""A barrier method in the primal alone, for bounds: slower, but it does not get stuck.

    Where the answers are explained so well that the log likelihood is flat, its tangent does not
    reach the level, and a primal-dual method's multipliers diverge. With every multiplier at
    ``mu`` over its margin, the same linear system is that of Newton's method for
    ``c^T p + z + mu sum log margins``, which allows a line search.
    """

    patience = 1000  # the gap shrinks by stages, of which one can be long
    # In the end, no step: the point stays where it is, strictly inside.
    trial_lengths = (*(0.5**k for k in range(_HALVINGS + 1)), 0.0)

    @torch.no_grad()
    def centre(self, start: Tensor) -> Tensor:
        """The ``d``-dim point near which the product of all margins is largest."""
        nothing = torch.zeros_like(start).unsqueeze(0)
        zero = start.new_zeros(1)
        state = self._initial(nothing, nothing[:, None][:, :0], start, zero, zero)
        for _ in range(self.max_steps):
            before = (state.margins * state.multipliers).mean()
            self._advance(state)  # near the centre it makes the products smaller
            if bool((state.margins * state.multipliers).mean() <= 0.5 * before):
                break
        return state.point[0]

    def _advance(self, state: State) -> None:
        """One Newton step of every element towards its central point, and on once it is near."""
        mu = (state.margins * state.multipliers).mean(-1, keepdim=True)
        state.multipliers = mu / state.margins
        newton = Newton(self.program, state)
        move = newton.direction(mu.expand_as(state.margins))
        residual = newton.pull - self.program.box_adjoint(state.multipliers[:, newton.count :])
        slope = (residual * move.point).sum(-1, keepdim=True) + newton.lack * move.least
        # Step along the direction, halved until the barrier function has risen.
        lengths = self.trials.expand(len(slope), -1)
        before = state.margins.unsqueeze(-2)
        after = before + lengths.unsqueeze(-1) * move.margins.unsqueeze(-2)
        after[..., : self.program.num_curved] = self._curved_margins(state, move, lengths)
        gain = lengths * ((state.linear * move.point).sum(-1, keepdim=True) + move.least)
        gain = gain + mu * (after / before).log().sum(-1)
        # Outside, the gain is not a number, and the comparison fails.
        inside = (after > _LEAST_LEFT * before).all(-1)
        self._land(state, move, lengths, inside & (gain >= _ARMIJO * lengths * slope))
        # Where margins are small, ``mu`` over them is rounding; Newton's multipliers are not.
        state.multipliers = (state.multipliers + move.multipliers).clamp_min(0.0)
        self._certify(state)
        least = _SHARE / state.margins.shape[-1] * state.tolerance.unsqueeze(-1)
        mu = torch.where(slope <= _CENTRED * mu, torch.maximum(_SHRINK * mu, least), mu)
        state.multipliers = mu / state.margins


def solve(
    program: Program,
    linear: Tensor,
    functions: Tensor,
    start: Tensor,
    tolerance: Tensor,
    max_steps: int = MAX_STEPS,
    enough: Tensor | None = None,
) -> Solution:
    """By the primal-dual method, and by the barrier alone where that got stuck.

    Arguments as of :meth:`InteriorPoint.maximize`.
    """
    enough = torch.full_like(tolerance, torch.inf) if enough is None else enough
    found = InteriorPoint(program, max_steps).maximize(linear, functions, start, tolerance, enough)
    stuck = (found.upper - found.lower > tolerance.clamp_min(_STUCK)) & (found.lower < enough)
    stuck = torch.nonzero(stuck & (found.num_steps < max_steps)).squeeze(-1)
    if len(stuck):
        slow = Barrier(program, _PATIENCE * max_steps).maximize(
            linear[stuck],
            functions[stuck],
            start,
            tolerance[stuck].clamp_min(_HANDOVER),
            enough[stuck],
        )
        better = slow.lower > found.lower[stuck]
        rows = stuck[better]
        for name in ("point", "lower", "weights"):
            getattr(found, name)[rows] = getattr(slow, name)[better]
        found.upper[stuck] = torch.fmin(found.upper[stuck], slow.upper)
        found.num_steps[stuck] += slow.num_steps
    return found


def _tangent_bound(state: State, linear: Tensor, level: Tensor) -> Tensor:
    """The largest ``c^T p``, ``E``-dim, over the ball and the half-space of the tangent at ``p``.

    The half-space is ``normal^T p' >= depth``; ``c`` splits into its part along the normal and
    the rest.
    """
    slope = state.gradient.norm(dim=-1).clamp_min(torch.finfo(linear.dtype).tiny)
    normal = state.gradient / slope.unsqueeze(-1)
    depth = (level - state.log_likelihood + (state.gradient * state.point).sum(-1)) / slope
    along = (linear * normal).sum(-1)
    across = linear - along.unsqueeze(-1) * normal
    length = linear.norm(dim=-1)
    chord = (1.0 - depth.square()).clamp_min(0.0).sqrt()
    cut = depth * along + chord * across.norm(dim=-1)
    return torch.where(along >= depth * length, length, cut)


def _lagrangian_bound(state: State, linear: Tensor, program: Program) -> Tensor:
    """The largest Lagrangian, ``E``-dim, over the ball, with the tangent for the likelihood."""
    tangent = state.log_likelihood - (state.gradient * state.point).sum(-1)
    if program.level is None:
        slope, constant = linear + program.weight * state.gradient, program.weight * tangent
    else:
        mu = state.multipliers[:, 1]
        slope, constant = linear + mu.unsqueeze(-1) * state.gradient, mu * (tangent - program.level)
    if program.box is not None:
        sides = state.multipliers[:, program.num_curved + state.functions.shape[-2] :]
        slope = slope - program.box_adjoint(sides)
        constant = constant + program.box * sides.sum(-1)
    return slope.norm(dim=-1) + constant
