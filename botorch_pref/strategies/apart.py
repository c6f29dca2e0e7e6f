r"""Items that a person can tell from others."""

from __future__ import annotations

import torch
from botorch.acquisition import AcquisitionFunction
from torch import Tensor

from botorch_pref.space import Feasible, Maximum, SearchSpace

_SAME_ITEM = 1e-3  # of the range of every dimension of a box
_SAMPLE = 1024
_CHUNK = 256


def same_item(space: SearchSpace, items: Tensor, other: Tensor) -> Tensor:
    """Which of ``... x d`` items a person could not tell from another."""
    gap = space.normalize(items) - space.normalize(other)
    return gap.abs().amax(-1) <= _SAME_ITEM


@torch.no_grad()
def best_apart(
    space: SearchSpace, rule: AcquisitionFunction, seed: int, asked: Tensor, avoid: Tensor
) -> Tensor:
    r"""Where a rule is largest on a sample, away from some items.

    Args:
        space: A box.
        rule: The rule; takes ``b x 1 x d``.
        seed: Of the sample.
        asked: ``n x d``-dim further items that may be taken.
        avoid: ``k x d``-dim items that a person could not tell the result from, if there is
            any other.

    Returns:
        The ``d``-dim item.
    """
    items = torch.cat([space.sample(_SAMPLE, seed), asked])
    values = rule(items.unsqueeze(-2))
    near = same_item(space, items.unsqueeze(-2), avoid).any(-1)
    return items[int(values.masked_fill(near, -torch.inf).argmax())]


@torch.no_grad()
def apart(
    found: Maximum,
    space: SearchSpace,
    rule: AcquisitionFunction,
    seed: int,
    avoid: Tensor,
    feasible: Feasible | None = None,
) -> Maximum:
    r"""What a search found, or the next best item where that one is to be avoided.

    Args:
        found: One item.
        space: The domain.
        rule: The rule; takes ``b x 1 x d``.
        seed: Of the sample of a box.
        avoid: ``k x d``-dim items.
        feasible: The slack of items, if they are constrained.

    Returns:
        The best of the choices, or of a sample of the box, that is not to be avoided; what was
        found where there is none.
    """
    if not len(avoid) or not bool(same_item(space, found.items[0], avoid).any()):
        return found
    items = space.sample(_SAMPLE, seed) if space.choices is None else space.choices
    barred = same_item(space, items.unsqueeze(-2), avoid).any(-1)
    if feasible is not None:
        barred = barred | (feasible(items) < 0.0)
    if bool(barred.all()):
        return found
    values = torch.cat([rule(part.unsqueeze(-2)) for part in items.split(_CHUNK)])
    row = int(values.masked_fill(barred, -torch.inf).argmax())
    return Maximum(items[row : row + 1], values[row], None if space.choices is None else (row,))
