r"""Random pairs: the control that every rule must beat."""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_pref.strategies.utility import Pair, UtilityStrategy

_ATTEMPTS = 100  # to draw another item than the first, and another pair than was skipped


class RandomPairs(UtilityStrategy):
    r"""Asks pairs of distinct items that are drawn uniformly, whatever was answered.

    It models and recommends as all strategies of this kind do, so a comparison with it
    measures the rule alone. For the arguments see
    :class:`~botorch_pref.strategies.utility.UtilityStrategy`.

    Example:
        >>> strategy = RandomPairs(choices=table, seed=0)
        >>> query = strategy.ask()
    """

    def _pair(self, annotator: str | None) -> Pair:
        skipped = bool(self.history) and self.history[-1].answer is None
        if self.space.choices is None:
            # One point of a scrambled sequence each: two of one sequence would repel each other.
            item, opponent = (self._item(f"pair {arm}", annotator) for arm in (0, 1))
            few = not self.space.parameters.real
            for attempt in range(_ATTEMPTS if few else 0):  # of whole numbers and categories
                taken = self._taken(item) if skipped else item.unsqueeze(0)
                if not self._same(opponent, taken).any():
                    break
                opponent = self._item(f"pair 1, attempt {attempt}", annotator)
            return torch.stack([item, opponent]), None
        generator = torch.Generator().manual_seed(self._seed("pair", annotator))
        n, barred = len(self.space.table), self._barred_table() if skipped else None
        for _ in range(_ATTEMPTS):
            first = int(torch.randint(n, (), generator=generator))
            second = (first + int(torch.randint(1, n, (), generator=generator))) % n
            if barred is None or not barred[first, second]:
                break
        return self._rows(first, second)

    def _item(self, stream: str, annotator: str | None) -> Tensor:
        return self.space.sample(1, self._seed(stream, annotator))[0]
