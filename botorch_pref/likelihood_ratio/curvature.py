r"""How the maximiser over a confidence set moves with the linear function.

At ``p = (u, w)`` with ``(g, s) + mu (grad ell, 0) = nu p``, the multipliers ``nu`` of the ball and
``mu`` of the level, the Lagrangian has minus the Hessian ``M = nu I + mu A^T W A``. The maximiser
moves by ``M^-1`` times the change of ``g``, less what would leave the boundaries that it is on.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from botorch_pref.inference.observations import Curvature, as_curvature
from botorch_pref.likelihood_ratio.bounds import Bound, ConfidenceSet

_TINY = 1e-12  # what rounding leaves of a multiplier, or of a boundary's hold


def upper_curvature(
    confidence: ConfidenceSet, bound: Bound, g: Tensor, s: Tensor, directions: Tensor
) -> Tensor:
    r"""Second derivatives of :meth:`ConfidenceSet.upper` in ``g``; a box is not seen.

    Args:
        confidence: The set.
        bound: The ``E`` upper bounds.
        g: Their ``E x r``-dim coefficients.
        s: Their ``E``-dim coefficients.
        directions: ``E x J x r``-dim changes of ``g``.

    Returns:
        ``E x J x J``-dim derivatives along the directions, zero where they cannot be told.
    """
    u, w = bound.coordinates, bound.beyond
    level = _level_at(confidence, u)
    nu, mu = _multipliers(torch.cat([g, s.unsqueeze(-1)], -1), u, w, level.gradient)
    hessian = mu[:, None, None] * level.curvature.quadratic(level.rows)
    hessian.diagonal(dim1=-2, dim2=-1).add_(nu.unsqueeze(-1))
    of_level = mu.sqrt().unsqueeze(-1) * level.gradient
    normals = torch.stack([nu.sqrt().unsqueeze(-1) * u, of_level], dim=-1)
    right = torch.cat([directions.mT, normals], dim=-1)
    products = right.mT @ torch.cholesky_solve(right, torch.linalg.cholesky_ex(hessian).L)
    num = directions.shape[-2]
    free, across = products[:, :num, :num], products[:, :num, num:]
    # As in Newton's equations of margins and multipliers, a boundary holds the point the less
    # the farther it is.
    room = confidence.program.norm_bound**2 - u.square().sum(-1) - w.square()
    margin = torch.stack([0.5 * room.clamp_min(0.0) + w.square(), level.margin], dim=-1)
    hold = products[:, num:, num:]
    largest = hold.diagonal(dim1=-2, dim2=-1).amax(-1, keepdim=True)
    hold = hold + torch.diag_embed(margin + _TINY * largest)
    held = across @ torch.cholesky_solve(across.mT, torch.linalg.cholesky_ex(hold).L)
    return torch.nan_to_num(free - 0.5 * (held + held.mT), nan=0.0, posinf=0.0, neginf=0.0)


class _Level(NamedTuple):
    """The level at some points: nothing where there is none."""

    rows: Tensor
    curvature: Curvature
    gradient: Tensor
    margin: Tensor


def _level_at(confidence: ConfidenceSet, u: Tensor) -> _Level:
    program, level = confidence.program, confidence.constraints.level
    if level is None or program.observations is None:
        nothing = program.root[:0]
        return _Level(
            nothing, as_curvature(u[:, :0]), torch.zeros_like(u), torch.ones_like(u[:, 0])
        )
    rows = program.observations.map.rows(program.root)
    latent = u @ rows.T
    score, curvature = program.observations.derivatives(latent)
    margin = program.observations.log_prob(latent).sum(-1) - level
    return _Level(rows, curvature, score @ rows, margin.clamp_min(0.0))


def _multipliers(linear: Tensor, u: Tensor, w: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """``nu`` and ``mu``, none negative, of ``(g, s) + mu (grad ell, 0) = nu (u, w)``, by squares.

    Those of a :class:`Bound` are no better than its gap, and none where it was found at once.
    """
    tiny = torch.finfo(u.dtype).tiny
    ball, level = u.square().sum(-1) + w.square(), gradient.square().sum(-1)
    both = (u * gradient).sum(-1)
    of_ball = (linear[:, :-1] * u).sum(-1) + linear[:, -1] * w
    of_level = (linear[:, :-1] * gradient).sum(-1)
    determinant = (ball * level - both.square()).clamp_min(tiny)
    mu = (both * of_ball - ball * of_level) / determinant
    nu = (level * of_ball - both * of_level) / determinant
    nu = torch.where(mu > 0, nu, of_ball / ball.clamp_min(tiny))
    mu = torch.where(nu > 0, mu, -of_level / level.clamp_min(tiny)).clamp_min(0.0)
    least = _TINY * linear.norm(dim=-1) / ball.sqrt().clamp_min(tiny)
    return torch.maximum(nu, least), mu
