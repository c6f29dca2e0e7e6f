r"""The largest advantage over several opponents at once: a maximum of a smallest value.

Notation: ``E`` elements, each with ``J`` linear functions ``h_j = g_j^T u + s w`` of the points of
a confidence set ``C``: Xu et al. (2024), eq. (101), with ``g_j = a(x) - l_j``. Both sides of

``max_C min_j h_j = min_weights phi(weights)``, ``phi(weights) = max_C sum_j weights_j h_j``,

weights in the simplex, are convex programs. The right one is in few variables, and ``phi`` is
:meth:`~botorch_pref.likelihood_ratio.ConfidenceSet.upper`, whose gradient are the ``h_j`` at its
maximiser. Newton's method on the simplex, damped where its model promises too much, takes a few
rounds. The maximisers of all rounds and the segments between them are in the set, and each ``phi``
is an upper bound: together they certify the result, whatever the model of the curvature.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor

from botorch_pref.data.checks import common_batch_shape
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.inference.observations import Observations, as_curvature
from botorch_pref.inference.systems import matvec
from botorch_pref.likelihood_ratio.confidence_set import FINAL, Bound, ConfidenceSet, Envelope

_MAX_ROUNDS = 40  # each one a bound of every element that is not done
_INNER = 0.01  # of the tolerance: the gap of each round's own maximum
_TINY = 1e-12  # relative rounding of a curvature or a value
_STEPS, _CENTRING, _INSIDE = 25, 0.1, 0.99  # of the quadratic programs
_TRUSTED, _GOOD = 0.1, 0.7  # of the promised descent: enough to go, and to damp less
_DAMPING = (0.1, 4.0, 1e-6)  # of the curvature: where it starts, how it grows, and ends


class LeastAdvantage(NamedTuple):
    r"""The largest smallest value over the set, one an element.

    Attributes:
        value: ``...``-dim ``min_j h_j`` at a point of the set: never more than the exact
            maximum. Differentiable once in ``g`` and ``s``.
        coordinates: ``... x r``-dim ``u*``.
        beyond: ``...``-dim ``w*``.
        gap: ``...``-dim certified distance to the exact maximum.
        converged: ``...``-dim booleans: whether the gap is within the tolerance.
        weights: ``... x J``-dim weights of the functions: how much each one matters.
    """

    value: Tensor
    coordinates: Tensor
    beyond: Tensor
    gap: Tensor
    converged: Tensor
    weights: Tensor


def least_advantage(
    confidence: ConfidenceSet, g: Tensor, s: Tensor, *, tolerance: float = FINAL
) -> LeastAdvantage:
    r"""``max min_j g_j^T u + s w`` over the set; Xu et al. (2024), problem (101).

    Args:
        confidence: The set. With a box ``phi`` has edges, at which the method is slow: there
            the gap may stay open.
        g: ``... x J x r``-dim coefficients, ``a(x) - l_j`` for opponents that are items.
        s: ``...``-dim coefficients of the part of the function off the items.
        tolerance: The gap to stop at, in the units of the value.

    Returns:
        The advantages; with one opponent those of :meth:`ConfidenceSet.upper`.

    Raises:
        ComparisonDataError: If a shape does not fit.
    """
    rank = confidence.root.shape[-1]
    if g.dim() < 2 or g.shape[-1] != rank or not g.shape[-2]:
        raise ComparisonDataError(f"`g` must be ... x J x {rank}-dim, not {tuple(g.shape)}.")
    shape = common_batch_shape(g=g.shape[:-2], s=s.shape)
    with torch.no_grad():
        rows = g.double().expand(*shape, *g.shape[-2:]).reshape(shape.numel(), *g.shape[-2:])
        beyond = s.double().expand(shape).reshape(-1, 1, 1).expand(*rows.shape[:-1], 1)
        functions = torch.cat([rows, beyond], dim=-1)
        found = _Descent(confidence, functions, tolerance)
        found.run()
        gap = (found.upper - found.lower).clamp_min(0.0)
        payoffs = matvec(functions, found.point)
        # In the optimum those with a weight are equal; their difference here is in the gap.
        excess = (found.best * payoffs).sum(-1) - payoffs.amin(-1)
    u, w = found.point[:, :-1].reshape(*shape, rank), found.point[:, -1].reshape(shape)
    weights = found.best.view(*shape, g.shape[-2])
    combined = (weights.unsqueeze(-1) * g).sum(-2)
    return LeastAdvantage(
        value=Envelope.apply(combined, s, u, w) - excess.view(shape),
        coordinates=u,
        beyond=w,
        gap=gap.view(shape),
        converged=(gap <= tolerance).view(shape),
        weights=weights,
    )


class _Descent:
    """Newton's method for the weights, in the elements that are not done yet.

    Of all elements there are the bounds ``lower`` and ``upper``, the point of the former and the
    weights ``best`` of the latter.
    """

    def __init__(self, confidence: ConfidenceSet, functions: Tensor, tolerance: float) -> None:
        self.confidence, self.functions, self.tolerance = confidence, functions, tolerance
        self.element = torch.arange(len(functions), device=functions.device)
        self.damping = torch.zeros_like(functions[:, 0, 0])
        # All weight on the opponent that is the strongest so far.
        strongest = matvec(functions[..., :-1], confidence.mle.coordinates).argmin(-1)
        self.weights = torch.nn.functional.one_hot(strongest, functions.shape[-2]).to(functions)
        self.lower, self.upper = self.damping - torch.inf, self.damping + torch.inf
        self.point, self.best = torch.zeros_like(functions[:, 0]), self.weights.clone()
        self.bound, self.payoffs = self._maximum(self.weights, None)

    def run(self) -> None:
        """Rounds until all gaps are closed."""
        for _ in range(_MAX_ROUNDS):
            gap = (self.upper - self.lower)[self.element]
            keep = torch.nonzero(gap > self.tolerance).squeeze(-1)
            if not len(keep):
                break
            if len(keep) < len(self.element):
                self.bound = Bound(*(part[keep] for part in self.bound))
                for name in ("functions", "element", "damping", "weights", "payoffs"):
                    setattr(self, name, getattr(self, name)[keep])
            self._advance()

    def _maximum(self, weights: Tensor, start: Bound | None) -> tuple[Bound, Tensor]:
        """``phi`` and its gradient; bounds are replaced where these are better."""
        combined = (weights.unsqueeze(-1) * self.functions).sum(-2)
        tolerance = self.tolerance * (_INNER if weights.shape[-1] > 1 else 1.0)
        bound = self.confidence.upper(
            combined[:, :-1], combined[:, -1], tolerance=tolerance, start=start
        )
        point = torch.cat([bound.coordinates, bound.beyond.unsqueeze(-1)], dim=-1)
        payoffs = matvec(self.functions, point)
        element = self.element
        if start is not None:
            # The set is convex; where its boundary has edges, the maximum lies between rounds.
            before = self.point[element]
            share = _best_mixture(matvec(self.functions, before), payoffs)
            point = torch.lerp(before, point, share.unsqueeze(-1))
        self.point[element] = point
        self.lower[element] = matvec(self.functions, point).amin(-1)
        above = bound.value + bound.gap
        better = above < self.upper[element]
        self.upper[element] = torch.where(better, above, self.upper[element])
        self.best[element] = torch.where(better.unsqueeze(-1), weights, self.best[element])
        return bound, payoffs

    def _advance(self) -> None:
        """One round: to the minimum of the quadratic model, if the actual descent is near to it."""
        combined = (self.weights.unsqueeze(-1) * self.functions).sum(-2)
        # Weights sum to one, so what the functions have in common does not matter.
        centred = (self.functions - self.functions.mean(-2, keepdim=True))[..., :-1]
        curvature = upper_curvature(
            self.confidence, self.bound, combined[:, :-1], combined[:, -1], centred
        )
        top = curvature.diagonal(dim1=-2, dim2=-1).amax(-1)
        top = torch.where(top > 0, top, self.payoffs.amax(-1) - self.payoffs.amin(-1))
        damped = curvature.clone()
        damped.diagonal(dim1=-2, dim2=-1).add_((top * (self.damping + _TINY)).unsqueeze(-1))
        weights = _simplex_minimum(damped, self.payoffs - matvec(damped, self.weights))
        bound, payoffs = self._maximum(weights, self.bound)
        step = weights - self.weights
        promised = -((self.payoffs + 0.5 * matvec(curvature, step)) * step).sum(-1)
        gained = self.bound.value - bound.value
        noise = self.bound.gap + bound.gap + _TINY * bound.value.abs()
        taken = gained >= _TRUSTED * promised - noise
        good = gained >= _GOOD * promised - noise
        first, growth, last = _DAMPING
        more = torch.where(taken, self.damping, (growth * self.damping).clamp_min(first))
        damping = torch.where(good, first * self.damping, more)
        self.damping = damping.masked_fill(damping < last, 0.0)
        self.weights = torch.where(taken.unsqueeze(-1), weights, self.weights)
        self.payoffs = torch.where(taken.unsqueeze(-1), payoffs, self.payoffs)
        # Masks in indices would wait for the device, one after the other.
        for old, new in zip(self.bound, bound, strict=True):
            old.copy_(torch.where(taken.view(-1, *[1] * (new.dim() - 1)), new, old))


def _simplex_minimum(quadratic: Tensor, linear: Tensor) -> Tensor:
    """The least ``c^T x + x^T Q x / 2`` over the simplex, by a few interior-point steps."""
    tiny = torch.finfo(linear.dtype).tiny
    scale = linear.abs().amax(-1, keepdim=True).clamp_min(tiny)
    quadratic, linear = quadratic / scale.unsqueeze(-1), linear / scale
    x = torch.full_like(linear, 1.0 / linear.shape[-1])
    z, y, one = torch.ones_like(x), torch.zeros_like(scale), torch.ones_like(x)
    for _ in range(_STEPS):
        target = _CENTRING * (x * z).mean(-1, keepdim=True)
        residual = target / x - matvec(quadratic, x) - linear + y
        cholesky = torch.linalg.cholesky_ex(quadratic + torch.diag_embed(z / x)).L
        solved = torch.cholesky_solve(torch.stack([residual, one], dim=-1), cholesky)
        turn = -solved[..., 0].sum(-1, keepdim=True) / solved[..., 1].sum(-1, keepdim=True)
        move = solved[..., 0] + turn * solved[..., 1]
        lift = (target - z * move) / x - z
        shrink = torch.maximum(-move / x, -lift / z).amax(-1, keepdim=True)
        length = _INSIDE / shrink.clamp_min(_INSIDE)
        x, z, y = x + length * move, z + length * lift, y + length * turn
    x = torch.where(x.isfinite().all(-1, keepdim=True), x, one)
    return x / x.sum(-1, keepdim=True)


def _best_mixture(before: Tensor, after: Tensor) -> Tensor:
    """The share of the second of two ``E x J``-dim payoffs that lifts the smallest one most."""
    change = after - before
    # The best share is where two of the payoffs meet, or an end.
    gap = before.unsqueeze(-1) - before.unsqueeze(-2)
    turn = change.unsqueeze(-2) - change.unsqueeze(-1)
    shares = torch.where(turn != 0, gap / turn, 0.0).flatten(-2).clamp(0.0, 1.0)
    shares = torch.nn.functional.pad(shares, (0, 1), value=1.0)
    least = (before.unsqueeze(-2) + shares.unsqueeze(-1) * change.unsqueeze(-2)).amin(-1)
    return shares.gather(-1, least.argmax(-1, keepdim=True)).squeeze(-1)


def upper_curvature(
    confidence: ConfidenceSet, bound: Bound, g: Tensor, s: Tensor, directions: Tensor
) -> Tensor:
    r"""Second derivatives of :meth:`ConfidenceSet.upper` in ``g``; a box is left out.

    At ``p = (u, w)`` with ``(g, s) + mu (grad ell, 0) = nu p``, the multipliers ``nu`` of the ball
    and ``mu`` of the level, the Lagrangian has minus the Hessian ``M = nu I + mu A^T W A``. The
    maximiser moves by ``M^-1`` times the change of ``g``, minus the part that would leave the
    boundaries that it is on. ``g: E x r`` and ``s: E`` are the coefficients of the bounds, the
    derivatives ``E x J x J`` are along ``directions: E x J x r``, and 0 where they are not known.
    """
    u, w = bound.coordinates, bound.beyond
    # A set without a level has no multiplier of one, and no rows.
    gradient, margin = torch.zeros_like(u), torch.ones_like(w)
    rows, curvature = confidence.root[:0], as_curvature(u[:, :0])
    if confidence.constraints.level is not None:
        observations = cast(Observations, confidence.observations)
        rows = observations.incidence.rows(confidence.root)
        latent = u @ rows.T
        score, curvature = observations.derivatives(latent)
        gradient = score @ rows
        margin = observations.log_prob(latent).sum(-1) - confidence.constraints.level
    nu, mu = _multipliers(torch.cat([g, s.unsqueeze(-1)], -1), u, w, gradient)
    hessian = mu[:, None, None] * curvature.quadratic(rows)
    hessian.diagonal(dim1=-2, dim2=-1).add_(nu.unsqueeze(-1))
    of_level = mu.sqrt().unsqueeze(-1) * gradient
    normals = torch.stack([nu.sqrt().unsqueeze(-1) * u, of_level], dim=-1)
    right = torch.cat([directions.mT, normals], dim=-1)
    products = right.mT @ torch.cholesky_solve(right, torch.linalg.cholesky_ex(hessian).L)
    num = directions.shape[-2]
    free, across = products[:, :num, :num], products[:, :num, num:]
    # As in Newton's equations of margins and multipliers, a boundary that is farther away holds
    # the point less.
    room = confidence.norm_bound**2 - u.square().sum(-1) - w.square()
    room = 0.5 * room.clamp_min(0.0) + w.square()
    margin = torch.stack([room, margin.clamp_min(0.0)], dim=-1)
    hold = products[:, num:, num:]
    largest = hold.diagonal(dim1=-2, dim2=-1).amax(-1, keepdim=True)
    hold = hold + torch.diag_embed(margin + _TINY * largest)
    held = across @ torch.cholesky_solve(across.mT, torch.linalg.cholesky_ex(hold).L)
    return torch.nan_to_num(free - 0.5 * (held + held.mT), nan=0.0, posinf=0.0, neginf=0.0)


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
