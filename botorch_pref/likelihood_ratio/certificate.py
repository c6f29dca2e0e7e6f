r"""Upper bounds that hold at any point, however far from the maximum it is.

The log likelihood is concave, so the set lies within a half-space that any point gives:
``ell(v') <= ell(v) + grad^T (v' - v)``. Notation of
:mod:`botorch_pref.likelihood_ratio.constraints`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_pref.likelihood_ratio.constraints import Likelihood


def tangent_bound(linear: Tensor, v: Tensor, likelihood: Likelihood, level: Tensor) -> Tensor:
    r"""The largest ``c^T p`` over the unit ball and the half-space of the tangent at ``v``.

    Args:
        linear: ``E x (q + 1)``-dim coefficients ``c``.
        v: ``E x q``-dim points.
        likelihood: The log likelihood there.
        level: 0-dim smallest log likelihood in the set.

    Returns:
        ``E``-dim bounds.
    """
    gradient = likelihood.gradient
    slope = gradient.norm(dim=-1).clamp_min(torch.finfo(linear.dtype).tiny)
    normal = gradient / slope.unsqueeze(-1)
    # The half-space is normal^T v' >= depth; c splits into its part along the normal and the rest.
    depth = (level - likelihood.value + (gradient * v).sum(-1)) / slope
    along = (linear[..., :-1] * normal).sum(-1)
    across = linear.clone()
    across[..., :-1] -= along.unsqueeze(-1) * normal
    length = linear.norm(dim=-1)
    chord = (1.0 - depth.square()).clamp_min(0.0).sqrt()
    cut = depth * along + chord * across.norm(dim=-1)
    return torch.where(along >= depth * length, length, cut)


def lagrangian_bound(
    linear: Tensor,
    v: Tensor,
    likelihood: Likelihood,
    level: Tensor | None,
    weight: Tensor,
    box: tuple[float, Tensor, Tensor] | None = None,
) -> Tensor:
    r"""The largest Lagrangian over the unit ball, with the tangent at ``v`` for the likelihood.

    Args:
        linear: ``E x (q + 1)``-dim coefficients ``c``.
        v: ``E x q``-dim points.
        likelihood: The log likelihood there.
        level: 0-dim smallest log likelihood in the set; None where it is the objective.
        weight: ``E``-dim multipliers of the level, or the weight in the objective.
        box: The bound ``M``, its ``b x q``-dim rows, and ``E x 2b``-dim multipliers, none
            negative, of ``M - f`` and of ``M + f``.

    Returns:
        ``E``-dim bounds.
    """
    tangent = likelihood.value - (likelihood.gradient * v).sum(-1)
    constant = weight * (tangent if level is None else tangent - level)
    slope = linear.clone()
    slope[..., :-1] += weight.unsqueeze(-1) * likelihood.gradient
    if box is not None:
        bound, rows, multipliers = box
        above, below = multipliers.chunk(2, dim=-1)
        slope[..., :-1] -= (above - below) @ rows
        constant = constant + bound * multipliers.sum(-1)
    return slope.norm(dim=-1) + constant
