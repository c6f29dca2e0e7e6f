r"""The largest advantage over several opponents at once: a maximum of a smallest value.

Notation: ``E`` elements, each with ``J`` linear functions ``h_j = g_j^T u + s w`` of the points of
a confidence set ``C``: Xu et al. (2024), eq. (101), with ``g_j = a(x) - l_j``. Both sides of

``max_C min_j h_j = min_weights phi(weights)``, ``phi(weights) = max_C sum_j weights_j h_j``,

weights in the simplex, are convex programs. The right one is in few variables, and ``phi`` is
:meth:`~botorch_pref.likelihood_ratio.ConfidenceSet.upper`, whose maximiser holds the gradient:
the ``h_j`` there. Newton's method on the simplex, damped where its model promises too much,
takes the few rounds that are left. The maximisers of all rounds and what lies between them are
in the set, and each ``phi`` is an upper bound: together they certify the result, whatever the
model of the curvature.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.inference.systems import matvec
from botorch_pref.likelihood_ratio.bounds import Bound, ConfidenceSet, Envelope
from botorch_pref.likelihood_ratio.curvature import upper_curvature
from botorch_pref.likelihood_ratio.program import FINAL

MAX_ROUNDS = 40
_INNER = 0.01  # of the tolerance: the gap of each round's own maximum
_TINY = 1e-12  # what rounding leaves of a curvature, or of a value
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
        num_steps: ``...``-dim number of Newton steps of all bounds taken.
        weights: ``... x J``-dim weights of the functions: how much each one matters.
    """

    value: Tensor
    coordinates: Tensor
    beyond: Tensor
    gap: Tensor
    converged: Tensor
    num_steps: Tensor
    weights: Tensor


def least_advantage(
    confidence: ConfidenceSet,
    g: Tensor,
    s: Tensor,
    *,
    tolerance: float = FINAL,
    max_rounds: int = MAX_ROUNDS,
) -> LeastAdvantage:
    r"""``max min_j g_j^T u + s w`` over the set; Xu et al. (2024), problem (101).

    Args:
        confidence: The set. With a box ``phi`` has edges, at which the method is slow: there
            the gap may stay open.
        g: ``... x J x r``-dim coefficients, ``a(x) - l_j`` for opponents that are items.
        s: ``...``-dim coefficients of what the function has beyond the items.
        tolerance: The gap to stop at, in the units of the value.
        max_rounds: The most rounds, each one a bound of every element that is not done.

    Returns:
        The advantages; with one opponent those of :meth:`ConfidenceSet.upper`.

    Raises:
        ComparisonDataError: If a shape does not fit.
    """
    shape, rank = _checked_shape(confidence, g, s), g.shape[-1]
    with torch.no_grad():
        rows = g.double().expand(*shape, *g.shape[-2:]).reshape(shape.numel(), *g.shape[-2:])
        beyond = s.double().expand(shape).reshape(-1, 1, 1).expand(*rows.shape[:-1], 1)
        functions = torch.cat([rows, beyond], dim=-1)
        found = _Descent(confidence, functions, tolerance).run(max_rounds)
        payoffs = matvec(functions, found.point)
        # In the optimum those with a weight are equal; what is left of that is in the gap.
        excess = (found.weights * payoffs).sum(-1) - payoffs.amin(-1)
    u, w = found.point[:, :-1].reshape(*shape, rank), found.point[:, -1].reshape(shape)
    weights = found.weights.view(*shape, g.shape[-2])
    combined = (weights.unsqueeze(-1) * g).sum(-2)
    return LeastAdvantage(
        value=Envelope.apply(combined, s, u, w) - excess.view(shape),
        coordinates=u,
        beyond=w,
        gap=found.gap.view(shape),
        converged=(found.gap <= tolerance).view(shape),
        num_steps=found.num_steps.view(shape),
        weights=weights,
    )


def _checked_shape(confidence: ConfidenceSet, g: Tensor, s: Tensor) -> torch.Size:
    rank = confidence.program.root.shape[-1]
    if g.dim() < 2 or g.shape[-1] != rank or not g.shape[-2]:
        raise ComparisonDataError(f"`g` must be ... x J x {rank}-dim, not {tuple(g.shape)}.")
    try:
        return torch.broadcast_shapes(g.shape[:-2], s.shape)
    except RuntimeError as error:
        shapes = f"{tuple(g.shape)} and {tuple(s.shape)}"
        raise ComparisonDataError(f"`g` and `s` do not fit: {shapes}.") from error


class _Found(NamedTuple):
    """What is known of all elements."""

    lower: Tensor
    upper: Tensor
    point: Tensor
    weights: Tensor
    num_steps: Tensor

    @property
    def gap(self) -> Tensor:
        return (self.upper - self.lower).clamp_min(0.0)


class _Descent:
    """Newton's method for the weights, in the elements that are not done yet."""

    def __init__(self, confidence: ConfidenceSet, functions: Tensor, tolerance: float) -> None:
        self.confidence, self.functions, self.tolerance = confidence, functions, tolerance
        nothing = torch.zeros_like(functions[:, 0, 0])
        self.element = torch.arange(len(functions), device=functions.device)
        self.damping = nothing
        # All weight on the opponent that is the strongest so far.
        strongest = matvec(functions[..., :-1], confidence.mle.coordinates).argmin(-1)
        self.weights = torch.nn.functional.one_hot(strongest, functions.shape[-2]).to(functions)
        self.found = _Found(
            nothing - torch.inf,
            nothing + torch.inf,
            torch.zeros_like(functions[:, 0]),
            self.weights.clone(),
            torch.zeros_like(self.element),
        )
        self.bound, self.payoffs = self._maximum(self.weights, None)

    def run(self, max_rounds: int) -> _Found:
        """Rounds until all gaps are closed."""
        for _ in range(max_rounds):
            keep = torch.nonzero(self.found.gap[self.element] > self.tolerance).squeeze(-1)
            if not len(keep):
                break
            if len(keep) < len(self.element):
                self.bound = Bound(*(part[keep] for part in self.bound))
                for name in ("functions", "element", "damping", "weights", "payoffs"):
                    setattr(self, name, getattr(self, name)[keep])
            self._advance()
        return self.found

    def _maximum(self, weights: Tensor, start: Bound | None) -> tuple[Bound, Tensor]:
        """``phi`` and its gradient, noted where they are better than before."""
        combined = (weights.unsqueeze(-1) * self.functions).sum(-2)
        tolerance = self.tolerance * (_INNER if weights.shape[-1] > 1 else 1.0)
        bound = self.confidence.upper(
            combined[:, :-1], combined[:, -1], tolerance=tolerance, start=start
        )
        point = torch.cat([bound.coordinates, bound.beyond.unsqueeze(-1)], dim=-1)
        payoffs = matvec(self.functions, point)
        found, element = self.found, self.element
        if start is not None:
            # The set is convex; where its boundary has edges, the maximum lies between rounds.
            before = found.point[element]
            share = _best_mixture(matvec(self.functions, before), payoffs)
            point = torch.lerp(before, point, share.unsqueeze(-1))
        found.point[element] = point
        found.lower[element] = matvec(self.functions, point).amin(-1)
        above = bound.value + bound.gap
        better = above < found.upper[element]
        found.upper[element] = torch.where(better, above, found.upper[element])
        found.weights[element] = torch.where(better.unsqueeze(-1), weights, found.weights[element])
        found.num_steps[element] += bound.num_steps
        return bound, payoffs

    def _advance(self) -> None:
        """One round: to the minimum of the quadratic model, if it keeps what it promises."""
        combined = (self.weights.unsqueeze(-1) * self.functions).sum(-2)
        # Weights sum to one, so what the functions have in common does not matter.
        apart = (self.functions - self.functions.mean(-2, keepdim=True))[..., :-1]
        curvature = upper_curvature(
            self.confidence, self.bound, combined[:, :-1], combined[:, -1], apart
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
    # Somewhere between, two of the payoffs meet, or an end is the best.
    gap, turn = (
        before.unsqueeze(-1) - before.unsqueeze(-2),
        change.unsqueeze(-2) - change.unsqueeze(-1),
    )
    shares = torch.where(turn != 0, gap / turn, 0.0).flatten(-2).clamp(0.0, 1.0)
    shares = torch.nn.functional.pad(shares, (0, 1), value=1.0)
    least = (before.unsqueeze(-2) + shares.unsqueeze(-1) * change.unsqueeze(-2)).amin(-1)
    return shares.gather(-1, least.argmax(-1, keepdim=True)).squeeze(-1)
