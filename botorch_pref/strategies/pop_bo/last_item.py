r"""Duels in which every item meets the one before it."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from botorch_pref.queries import Query
from botorch_pref.strategies.utility import Pair, UtilityStrategy


class LastItemStrategy(UtilityStrategy):
    """The second arm is the first arm of the query before, answered or not, whoever won.

    At first it is drawn at random. For the arguments see
    :class:`~botorch_pref.strategies.utility.UtilityStrategy`.
    """

    @abstractmethod
    def _among_choices(self, row: int) -> int:
        """The row of the first arm beside that of the second."""

    @abstractmethod
    def _on_a_box(self, reference: Tensor) -> Tensor:
        """The ``d``-dim first arm beside the second."""

    def _pair(self, annotator: str | None) -> Pair:
        last = self._last()
        if last is not None:
            reference = last.items[0].to(self.space.bounds)
        else:
            reference = self.space.sample(1, self._seed("pair"))[0]
        if self.space.choices is None:
            item = self._on_a_box(reference)
            return torch.stack([item, reference]), None
        row = self._reference_row(last)
        return self._rows(self._among_choices(row), row)

    def _reference_row(self, last: Query | None) -> int:
        if last is not None:
            return int(last.indices[0])
        generator = torch.Generator().manual_seed(self._seed("pair"))
        return int(torch.randint(len(self.space.table), (), generator=generator))
