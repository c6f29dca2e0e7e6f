r"""Newton's directions for the optimality conditions of many objectives over one set.

Notation of :mod:`botorch_pref.likelihood_ratio.constraints`; multipliers ``nu`` of the ball,
``mu`` of the level, ``lambda`` of the box. Stationarity is

``c + mu grad ell(v) - nu p - Z_box^T (lambda_above - lambda_below) = 0``,

and every product of a margin and its multiplier is brought to a given value. The matrix
``H = mu A^T W A + nu I + box terms: q x q`` is factored once an element; the ball and the level,
whose gradients are ``-p`` and ``grad ell``, leave a system in two unknowns.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_pref.inference.observations import as_curvature
from botorch_pref.inference.systems import matvec
from botorch_pref.likelihood_ratio.constraints import Constraints, Likelihood


@dataclass
class State:
    """The elements that are not done yet; margins and multipliers are ``E x k``-dim.

    Attributes:
        element: ``E``-dim indices of the elements.
        linear: ``E x (q + 1)``-dim coefficients ``c``.
        tolerance: ``E``-dim gaps to stop at.
        point: ``E x (q + 1)``-dim points ``p``.
        values: ``E x (m + b)``-dim values ``Z v``.
        likelihood: The log likelihood there.
        weight: ``E``-dim weights of the log likelihood in the Lagrangian.
        margins: Margins of the ball, the level and the box.
        multipliers: Their multipliers.
        best: ``E x (q + 1)``-dim best points so far.
        lower: ``E``-dim objectives there.
        upper: ``E``-dim smallest upper bounds so far.
        goal: ``E``-dim gaps when they last were halved.
        idle: ``E``-dim numbers of steps since.
    """

    element: Tensor
    linear: Tensor
    tolerance: Tensor
    point: Tensor
    values: Tensor
    likelihood: Likelihood
    weight: Tensor
    margins: Tensor
    multipliers: Tensor
    best: Tensor
    lower: Tensor
    upper: Tensor
    goal: Tensor
    idle: Tensor

    def select(self, keep: Tensor) -> State:
        """Some of the elements."""
        names = [f.name for f in fields(self) if f.name != "likelihood"]
        parts = {name: getattr(self, name)[keep] for name in names}
        return replace(self, likelihood=self.likelihood.select(keep), **parts)

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
        # Anew, as what is added step by step would drift away from the point.
        self.values = self.point[:, :-1] @ constraints.columns
        self.likelihood = constraints.likelihood(self.values)
        self.margins = constraints.margins(self.point, self.values, self.likelihood.value)
        return length


class Direction(NamedTuple):
    """A direction of the point, and what it does to the margins and the multipliers."""

    point: Tensor
    margins: Tensor
    multipliers: Tensor


class Newton:
    r"""The factored system at a state.

    Args:
        constraints: The set.
        state: The elements.
    """

    def __init__(self, constraints: Constraints, state: State) -> None:
        self.constraints, self.state = constraints, state
        self.num_curved = constraints.first_box
        nu = state.multipliers[:, :1]
        self.cholesky = torch.linalg.cholesky_ex(self._hessian(nu)).L
        #: ``E x (q + 1) x (1 or 2)``-dim gradients of the curved margins.
        self.slopes = self._slopes()
        #: ``E x (q + 1)``-dim gradient of the Lagrangian.
        self.residual = self._residual(nu)
        right = torch.cat([self.residual.unsqueeze(-1), self.slopes], dim=-1)
        solved = torch.cholesky_solve(right[:, :-1], self.cholesky)
        solved = torch.cat([solved, right[:, -1:] / nu.unsqueeze(-1)], dim=-2)
        # A matrix that could not be factored gives no direction; the element stays put.
        self.solved = torch.nan_to_num(solved, nan=0.0, posinf=0.0, neginf=0.0)
        self.products = self.slopes.mT @ self.solved
        self.own = (state.margins / state.multipliers)[:, : self.num_curved]
        curved = self.products[..., 1:] + torch.diag_embed(self.own)
        self.curved = torch.linalg.cholesky_ex(curved).L

    def direction(self, change: Tensor, bend: Tensor | None = None) -> Direction:
        r"""Newton's direction.

        Args:
            change: ``E x k``-dim wanted changes of the products.
            bend: ``E x (1 or 2)``-dim changes of the curved margins beyond the linear ones.

        Returns:
            The direction.
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
            sides = self._box_change(point)
            weight = change[:, count:] - self.state.multipliers[:, count:] * sides
            margins = torch.cat([margins, sides], dim=-1)
            multipliers = torch.cat([multipliers, weight / self.state.margins[:, count:]], dim=-1)
        return Direction(point, margins, multipliers)

    def _residual(self, nu: Tensor) -> Tensor:
        state = self.state
        residual = state.linear - nu * state.point
        residual[:, :-1] += state.weight.unsqueeze(-1) * state.likelihood.gradient
        if self.constraints.box is not None:
            residual[:, :-1] -= self.constraints.box_adjoint(state.multipliers)
        return residual

    def _slopes(self) -> Tensor:
        ball = -self.state.point
        if self.constraints.level is None:
            return ball.unsqueeze(-1)
        level = torch.nn.functional.pad(self.state.likelihood.gradient, (0, 1))
        return torch.stack([ball, level], dim=-1)

    def _hessian(self, nu: Tensor) -> Tensor:
        """``H: E x q x q``."""
        state, rows = self.state, self.constraints.answer_rows
        hessian = state.weight[:, None, None] * state.likelihood.curvature.quadratic(rows)
        if self.constraints.box is not None:
            above, below = self.constraints.box_sides(state.multipliers / state.margins)
            hessian = hessian + as_curvature(above + below).quadratic(self.constraints.box_rows)
        hessian.diagonal(dim1=-2, dim2=-1).add_(nu)
        return hessian

    def _box_change(self, point: Tensor) -> Tensor:
        utilities = point[:, :-1] @ self.constraints.box_rows.T
        return torch.cat([-utilities, utilities], dim=-1)
