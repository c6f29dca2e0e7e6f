r"""By how much the largest of several expectations is expected to grow."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def expected_gain(intercepts: Tensor, slopes: Tensor) -> Tensor:
    r"""``E[max_j (a_j + b_j Z)] - max_j a_j`` for a standard normal ``Z``, exactly.

    The upper envelope of Frazier, Powell and Dayanik, *The Knowledge-Gradient Policy for
    Correlated Normal Beliefs* (2009), without their sequential search: line ``j`` is the largest
    between the last crossing with a flatter line and the first one with a steeper line. The
    gradient is exact, as by the envelope theorem these ends need none.

    Args:
        intercepts: ``... x M``-dim ``a``.
        slopes: ``... x M``-dim ``b``.

    Returns:
        ``...``-dim gains, not negative.
    """
    a, b = less_the_best(intercepts, slopes)
    with torch.no_grad():
        lower, upper = _intervals(a, b)
        # Of an interval beyond 0 the other tail has all digits.
        flip = lower > 0
        near, far = torch.where(flip, -upper, lower), torch.where(flip, -lower, upper)
        probability = (_normal_cdf(far) - _normal_cdf(near)).clamp_min(0.0)
        density = torch.where(upper > lower, _density(lower) - _density(upper), 0.0)
    return (probability * a + density * b).sum(-1).clamp_min(0.0)


def less_the_best(intercepts: Tensor, slopes: Tensor) -> tuple[Tensor, Tensor]:
    r"""Lines less the line with the largest intercept: no gain is lost, and no digits."""
    best = intercepts.argmax(dim=-1, keepdim=True)
    return intercepts - intercepts.gather(-1, best), slopes - slopes.gather(-1, best)


def _intervals(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Where each line is above all others; ``(inf, -inf)`` or the like where nowhere."""
    fall = a.unsqueeze(-2) - a.unsqueeze(-1)  # a_k - a_j at [j, k]
    rise = b.unsqueeze(-1) - b.unsqueeze(-2)  # b_j - b_k
    crossing = fall / torch.where(rise == 0, 1.0, rise)
    lower = torch.where(rise > 0, crossing, -torch.inf).amax(-1)
    upper = torch.where(rise < 0, crossing, torch.inf).amin(-1)
    # Of parallel lines the highest one is left, of equal ones the first.
    index = torch.arange(a.shape[-1], device=a.device)
    earlier = index < index.unsqueeze(-1)  # k before j
    beaten = (rise == 0) & ((fall > 0) | ((fall == 0) & earlier))
    nowhere = beaten.any(-1) | (upper <= lower)
    # An empty interval at 0.
    return lower.masked_fill(nowhere, 0.0), upper.masked_fill(nowhere, 0.0)


def _normal_cdf(value: Tensor) -> Tensor:
    return 0.5 * torch.special.erfc(-value / math.sqrt(2))


def _density(value: Tensor) -> Tensor:
    return torch.exp(-0.5 * value.square()) / math.sqrt(2 * math.pi)
