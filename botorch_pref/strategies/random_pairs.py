r"""Random pairs: the control that every rule must beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.queries import Choice, Duel, Grade, Ranking
from botorch_pref.strategies.base import Pair, UtilityStrategy

_ATTEMPTS = 100  # to draw another item than the first, and another pair than was skipped


@dataclass(kw_only=True, eq=False, repr=False)
class RandomPairs(UtilityStrategy):
    r"""Asks pairs, or more, of distinct items that are drawn uniformly, whatever was answered.

    It models and recommends as :class:`~botorch_pref.strategies.DuelingKG` does where no judge
    hardly errs, so a comparison with that measures the rule alone; but as no query needs the model,
    it is fitted where an item is recommended. For the arguments see
    :class:`~botorch_pref.strategies.UtilityStrategy`.

    Example:
        >>> strategy = RandomPairs(choices=table, seed=0)
        >>> query = strategy.ask()
    """

    _asks: ClassVar = (Duel, Choice, Ranking, Grade)
    _may_fall: ClassVar[bool] = True

    def recommend(self, annotator: str | None = None) -> Tensor:
        self.learner.refit(at_once=True)
        return super().recommend(annotator)

    def recommend_index(self) -> int:
        self.learner.refit(at_once=True)
        return super().recommend_index()

    def _refit(self) -> None:
        """Nothing: pairs are drawn without a model."""

    def _pair(self, annotator: str | None) -> Pair:
        skipped = bool(self.history) and self.history[-1].answer is None
        if self.space.choices is None:
            # One point of a scrambled sequence each: two of one sequence would repel each other.
            item, opponent = (self._item(f"pair {arm}", annotator) for arm in (0, 1))
            if not self.space.parameters.real:  # else an item could meet itself
                opponent = self._apart(item, opponent, skipped, annotator)
            items = torch.stack([item, opponent])
            for attempt in range(_ATTEMPTS):
                if len(items) == self.asked.num_items:
                    break
                drawn = self._item(f"more {attempt}", annotator)
                if not self._same(drawn, items).any():
                    items = torch.cat([items, drawn.unsqueeze(0)])
            if len(items) < self.asked.num_items:
                raise UnsupportedError(
                    f"No {self.asked.num_items} different items were found for a question."
                )
            return items, None
        generator = torch.Generator().manual_seed(self._seed("pair", annotator))
        n, barred = len(self.space.table), self._barred_rows() if skipped else ()
        for _ in range(_ATTEMPTS):
            first = int(torch.randint(n, (), generator=generator))
            second = (first + int(torch.randint(1, n, (), generator=generator))) % n
            alike = torch.equal(self.space.table[first], self.space.table[second])
            if (first, second) not in barred and not alike:
                break
        rows = [first, second]
        more = self.asked.num_items
        if more > 2:
            others = torch.randperm(n, generator=generator)[:more].tolist()
            rows += [row for row in others if row not in rows][: more - 2]
        return self._choices(*rows)

    def _apart(self, item: Tensor, drawn: Tensor, skipped: bool, annotator: str | None) -> Tensor:
        """An opponent not barred, if one is found; else any but the item, if there is one."""
        taken, other = self._taken(item) if skipped else item.unsqueeze(0), drawn
        for attempt in range(_ATTEMPTS):
            if not self._same(drawn, taken).any():
                return drawn
            if self._same(other, item):
                other = drawn
            drawn = self._item(f"pair 1, attempt {attempt}", annotator)
        return other

    def _item(self, stream: str, annotator: str | None) -> Tensor:
        return self.space.sample(1, self._seed(stream, annotator))[0]
