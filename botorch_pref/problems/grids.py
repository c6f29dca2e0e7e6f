r"""Grids over boxes of any dimension."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from botorch_pref.exceptions import SearchSpaceError


def product_grid(bounds: Sequence[tuple[float, float]], per_side: int) -> Tensor:
    r"""The product of evenly spaced points on every side of a box, the corners included.

    Args:
        bounds: ``d`` pairs of a lower and an upper bound.
        per_side: The number of points on a side.

    Returns:
        A ``per_side^d x d``-dim tensor; the last column changes fastest.

    Raises:
        SearchSpaceError: If ``per_side`` is below 2.
    """
    if per_side < 2:
        raise SearchSpaceError(f"a grid needs at least 2 points on a side, got {per_side}.")
    sides = [torch.linspace(*side, per_side, dtype=torch.double) for side in bounds]
    return torch.stack(torch.meshgrid(*sides, indexing="ij"), dim=-1).flatten(end_dim=-2)
