r"""Items that a person can tell from others, and items that cannot be measured now."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import Self

import torch
from botorch.acquisition import AcquisitionFunction
from torch import Tensor

from botorch_pref.queries import Evaluate
from botorch_pref.space import Feasible, Maximum, SearchSpace

_SAME_ITEM = 1e-3  # of the range of every dimension of a box
_SAMPLE = 1024
_CHUNK = 256
_NEARBY, _SCALES = 128, (0.01, 0.1)  # of the range of every dimension of a box


class Expecting(ABC):
    r"""Beliefs about values, of which some are not to be had for now.

    Attributes:
        space: The domain.
    """

    space: SearchSpace
    _unmeasured: Sequence[Evaluate] = ()

    def without(self, queries: Sequence[Evaluate]) -> Self:
        r"""What is believed while some values are not to be had.

        Args:
            queries: What others are measuring, or nobody could.

        Returns:
            These beliefs, were the values as they are expected.
        """
        if not queries:
            return self
        beliefs = copy(self)
        beliefs._unmeasured = queries
        if self._knows_values():
            beliefs._forget_values()
        return beliefs

    def unmeasured_items(self) -> Tensor:
        """The ``k x d``-dim items that are not to be measured now."""
        like = self.space.bounds
        items = [query.items.unsqueeze(0).to(like) for query in self._unmeasured]
        return torch.cat([like[:0], *items])

    @abstractmethod
    def _knows_values(self) -> bool:
        """Whether there is any value to expect others by."""

    @abstractmethod
    def _forget_values(self) -> None:
        """Let go of the model of values, which is built anew."""


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
            any other; else the first of them alone.

    Returns:
        The ``d``-dim item.
    """
    items = torch.cat([space.sample(_SAMPLE, seed), asked])
    values = rule(items.unsqueeze(-2))
    near = same_item(space, items.unsqueeze(-2), avoid)
    barred = near.any(-1)
    if bool(barred.all()):
        barred = near[:, 0]
    return items[int(values.masked_fill(barred, -torch.inf).argmax())]


def _around(found: Maximum, space: SearchSpace, seed: int) -> Tensor:
    """A sample of a box, and items near what was found, where a narrow filter passes some."""
    generator = torch.Generator().manual_seed(seed)
    moves = torch.randn(_NEARBY, space.dim, generator=generator, dtype=torch.double)
    whole = found.items[:1].expand(_NEARBY, space.dim)
    near = [space.near(whole, moves.to(whole), scale) for scale in _SCALES]
    return torch.cat([space.sample(_SAMPLE, seed), *near])


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
    items = _around(found, space, seed) if space.choices is None else space.choices
    barred = same_item(space, items.unsqueeze(-2), avoid).any(-1)
    if feasible is not None:
        barred = barred | (feasible(items) < 0.0)
    if bool(barred.all()):
        return found
    values = torch.cat([rule(part.unsqueeze(-2)) for part in items.split(_CHUNK)])
    row = int(values.masked_fill(barred, -torch.inf).argmax())
    return Maximum(items[row : row + 1], values[row], None if space.choices is None else (row,))
