r"""The constraints of a confidence set, in coordinates in which the norm ball is the unit ball.

Notation: ``q`` coordinates ``v`` with ``|v| <= 1``, and one more, ``w``, for the part of a function
that no answer depends on; a point is ``p = (v, w): ... x (q + 1)``. ``Z: (m + b) x q`` takes
``v`` to the ``m`` latent values of the answers and to the ``b`` utilities in the box.
Each constraint has a margin, which is positive inside:

* ball: ``(1 - |p|^2) / 2``;
* level: ``ell(Z v) - c``;
* box: ``M - f_i`` and ``M + f_i`` for every utility.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_pref.inference.observations import Curvature, Observations, as_curvature


class Likelihood(NamedTuple):
    """The log likelihood at a point."""

    value: Tensor  # ``ell: ...``
    gradient: Tensor  # in ``v``, ``... x q``
    curvature: Curvature  # minus the Hessian in the answers' latent values


@dataclass(frozen=True, eq=False)
class Constraints:
    """The ball, the likelihood and the box, which all elements of a batch share."""

    observations: Observations | None
    rows: Tensor  # ``Z: (m + b) x q``
    box: float | None = None  # the bound ``M`` on the absolute utilities
    level: Tensor | None = None  # the smallest log likelihood ``c``

    @property
    def num_answers(self) -> int:
        """The number ``m`` of rows that are answers."""
        return 0 if self.observations is None else self.observations.num_rows

    @property
    def answer_rows(self) -> Tensor:
        """The ``m x q``-dim map to the answers' latent values."""
        return self.rows[: self.num_answers]

    @cached_property
    def columns(self) -> Tensor:
        """``q x (m + b)``-dim transpose of the rows."""
        return self.rows.T.contiguous()

    @property
    def first_box(self) -> int:
        """The column of the first margin of the box, after the ball and the level."""
        return 1 if self.level is None else 2

    @property
    def box_rows(self) -> Tensor:
        """The ``b x q``-dim map to the utilities in the box."""
        return self.rows[self.num_answers :]

    def log_likelihood(self, values: Tensor) -> Tensor:
        """``ell: ...`` at the values ``Z v: ... x (m + b)``."""
        if self.observations is None:
            return values.new_zeros(values.shape[:-1])
        return self.observations.log_prob(values[..., : self.num_answers]).sum(-1)

    def likelihood(self, values: Tensor, log_likelihood: Tensor | None = None) -> Likelihood:
        """The log likelihood, if not given, and its derivatives at ``Z v: ... x (m + b)``."""
        if log_likelihood is None:
            log_likelihood = self.log_likelihood(values)
        latent = values[..., : self.num_answers]
        if self.observations is None:
            gradient = values.new_zeros(*values.shape[:-1], self.rows.shape[-1])
            return Likelihood(log_likelihood, gradient, as_curvature(latent))
        score, curvature = self.observations.derivatives(latent)
        return Likelihood(log_likelihood, score @ self.answer_rows, curvature)

    def margins(self, point: Tensor, values: Tensor, log_likelihood: Tensor) -> Tensor:
        """``... x k``-dim margins of ball, level and box at ``... x (q + 1)``-dim points."""
        parts = [0.5 * (1.0 - point.square().sum(-1, keepdim=True))]
        if self.level is not None:
            parts.append((log_likelihood - self.level).unsqueeze(-1))
        if self.box is not None:
            parts.append(self.box_margin(values))
        return torch.cat(parts, dim=-1)

    def box_margin(self, values: Tensor) -> Tensor:
        """``M - f`` and ``M + f``, ``... x 2b``, at ``Z v: ... x (m + b)``."""
        utilities = values[..., self.num_answers :]
        bound = torch.inf if self.box is None else self.box
        return torch.cat([bound - utilities, bound + utilities], dim=-1)

    def box_adjoint(self, sides: Tensor) -> Tensor:
        """``Z_box^T (above - below): ... x q`` of ``... x k`` numbers, one a margin."""
        above, below = sides[..., self.first_box :].chunk(2, dim=-1)
        return (above - below) @ self.box_rows

    def contains(self, v: Tensor) -> Tensor:
        """Whether ``v: ... x q``, in the ball, is within the level and the box."""
        values = v @ self.rows.T
        inside = (self.box_margin(values) >= 0).all(-1)
        if self.level is not None:
            inside = inside & (self.log_likelihood(values) >= self.level)
        return inside

    def pull(self, v: Tensor, interior: Tensor, fraction: float) -> Tensor:
        """Points of the set, ``... x q``: part of the way from an interior point to ``v``.

        Margins are concave, so on the segment they are not below the chords between its ends.
        The way ends at the first zero of a chord, and ``fraction`` of it is gone.
        """
        values, own = v @ self.rows.T, self.rows @ interior
        ball = 0.5 * (1.0 - v.square().sum(-1))
        way = _zero_of_chord(0.5 * (1.0 - interior.square().sum()), ball)
        if self.level is not None:
            inner, outer = (self.log_likelihood(z) - self.level for z in (own, values))
            way = torch.minimum(way, _zero_of_chord(inner, outer))
        if len(self.box_rows):
            sides = _zero_of_chord(self.box_margin(own), self.box_margin(values))
            way = torch.minimum(way, sides.amin(-1))
        return interior + fraction * way.unsqueeze(-1) * (v - interior)


def _zero_of_chord(inner: Tensor, outer: Tensor) -> Tensor:
    """Where a line from ``inner > 0`` at 0 to ``outer`` at 1 meets zero, or 1."""
    return torch.where(outer < 0, inner / (inner - outer), 1.0)
