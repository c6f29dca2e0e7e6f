r"""The largest value of a table, ties broken at random."""

from __future__ import annotations

import torch
from torch import Tensor

_TIE = 1e-9


def argmax_with_random_ties(values: Tensor, noise: Tensor) -> Tensor:
    r"""The index of the maximum, drawn uniformly among values that are equal to rounding.

    Items of equal features have equal draws, but for the last digits.

    Args:
        values: ``... x n``-dim values.
        noise: ``... x n``-dim uniform noise in ``[0, 1)``.

    Returns:
        ``...``-dim long tensor.
    """
    best = values.amax(dim=-1, keepdim=True)
    near = values >= best - _TIE * best.abs().clamp_min(1.0)
    return torch.where(near, noise.to(values), -1.0).argmax(dim=-1)
