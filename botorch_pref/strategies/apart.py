r"""Beliefs about values, some of which are pending."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import Self

import torch
from torch import Tensor

from botorch_pref.queries import Evaluate
from botorch_pref.space import SearchSpace
from botorch_pref.strategies.base import best_of_sample, next_best, same_item

__all__ = ["Expecting", "apart", "best_apart", "same_item"]

apart, best_apart = next_best, best_of_sample


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
