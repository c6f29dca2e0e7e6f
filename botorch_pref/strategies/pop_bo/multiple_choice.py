r"""POP-BO where a judge picks a favourite of several items, Xu et al. (2024), App. I."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from functools import partial
from typing import Any, Unpack

import torch
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.models import LikelihoodRatioModel
from botorch_pref.queries import Choice, Duel, Query
from botorch_pref.space import SearchSpace
from botorch_pref.strategies.base import Answered
from botorch_pref.strategies.learning import LearningStrategy, ModelOptions
from botorch_pref.strategies.pop_bo.confidence import ChoiceConfidence
from botorch_pref.strategies.pop_bo.search import (
    MostLikelyUtility,
    challenger_among,
    challenger_on_box,
)


class MultipleChoicePOPBO(LearningStrategy):
    r"""New items are shown beside those of the question before; the favourite is named.

    New items are chosen one after the other: each is where an optimist, who has any utility
    of the likelihood-ratio set, sees the largest advantage over all items that are shown
    already (eqs. 100 and 101). With one new item this is
    :class:`~botorch_pref.strategies.POPBO` with choices of two. There is no theorem for the slack
    here. The recommendation is the maximiser of the most likely utility. Where hyperparameters
    are learnt, it is from the duels of the favourite with each of the others.

    Example:
        >>> strategy = MultipleChoicePOPBO(bounds=bounds, num_new=2, seed=0)
        >>> query = strategy.ask()  # of 4 items
        >>> strategy.tell(query, 3)  # the last one is the favourite

    Args:
        bounds: ``2 x d``-dim box, or
        choices: ``n x d``-dim table of items, or
        space: a search space.
        num_new: The number of new items of a question, at least 1.
        norm_bound: As of :class:`~botorch_pref.strategies.POPBO`, like the next three.
        slack: By the number of questions.
        adapt_norm_bound: Whether the norm bound may grow.
        value_bound: The largest absolute utility of an item that was shown, or None.
        **model: ``seed``, ``hyperparameters``; see
            :class:`~botorch_pref.strategies.learning.LearningStrategy`.

    Raises:
        ComparisonDataError: If an option is none of these, or there are fewer than twice
            ``num_new`` choices.
        SearchSpaceError: If the domain cannot be used.
    """

    _asks = (Choice,)

    def __init__(
        self,
        bounds: Tensor | None = None,
        choices: Tensor | None = None,
        space: SearchSpace | None = None,
        *,
        num_new: int = 2,
        norm_bound: float = 6.0,
        slack: float | str | Mapping[str, Any] = "sqrt",
        adapt_norm_bound: bool = True,
        value_bound: float | None = None,
        **model: Unpack[ModelOptions],
    ) -> None:
        super().__init__(bounds, choices, space, **model)
        try:
            self.num_new = operator.index(num_new)
        except TypeError:
            self.num_new = 0
        if self.num_new < 1:
            raise ComparisonDataError(f"`num_new` must be at least 1, not {num_new!r}.")
        choices = self.space.choices
        if choices is not None and len(choices.unique(dim=0)) < 2 * self.num_new:
            raise ComparisonDataError(
                f"`num_new` is {num_new}, but a question of {2 * self.num_new} items needs as many "
                f"different `choices`, not {len(choices.unique(dim=0))}."
            )
        self.set = ChoiceConfidence(self.learner, norm_bound, slack, adapt_norm_bound, value_bound)
        self.num_deadlocks = 0

    def recommend(self) -> Tensor:
        r"""The maximiser of the most likely utility.

        Raises:
            ComparisonDataError: On a box, if nothing was asked yet.
        """
        if self.space.choices is not None:
            return self.space.choices[self.recommend_index()]
        if not self.history:
            raise ComparisonDataError("Nothing was answered yet, so nothing is recommended.")
        return self._best_item(MostLikelyUtility(self.set.model()), self._seed("report"))

    def recommend_index(self) -> int:
        """The row of the recommended item in the choices."""
        return self._best_row(self.set.model().mle(self.space.table))

    def _choose(self, query_id: int, annotator: str | None) -> Query:
        self._refit()
        self.set.adapt()
        self.round += 1
        questions = [query for query in self._open.values() if isinstance(query, Choice)]
        model = self.set.believed_choices(questions)
        last = self._last()
        if self.space.choices is not None:
            old = self._first_rows() if last is None else list(last.indices[: self.num_new])
            rows = (*self._new_rows(model, old), *old)
            return Choice(query_id, self.space.table[list(rows)], rows, annotator)
        if last is None:
            shown = self.space.sample(self.num_new, self._seed("pair"))
        else:
            shown = last.items[: self.num_new].to(self.space.bounds)
        return Choice(query_id, torch.cat([self._new_items(model, shown), shown]), None, annotator)

    def _first_rows(self) -> list[int]:
        """Rows of different items to begin with."""
        generator = torch.Generator().manual_seed(self._seed("pair"))
        rows: dict[tuple[float, ...], int] = {}
        for row in torch.randperm(len(self.space.table), generator=generator).tolist():
            rows.setdefault(tuple(self.space.table[row].tolist()), row)
        return [*rows.values()][: self.num_new]

    def _new_rows(self, model: LikelihoodRatioModel, old: list[int]) -> list[int]:
        """Rows of the new items beside those of the old ones."""
        table, rows = self.space.table, list(old)
        for position in range(self.num_new):
            taken = torch.zeros(len(table), dtype=torch.bool, device=table.device)
            taken[rows] = True
            stream = "tie" if position == 0 else f"tie {position}"
            best_row = partial(self._best_row, stream=stream)
            found = challenger_among(model, table, table[rows], taken, best_row)
            self.num_deadlocks += found.deadlock
            assert found.row is not None
            rows.append(found.row)
        return rows[len(old) :]

    def _new_items(self, model: LikelihoodRatioModel, shown: Tensor) -> Tensor:
        """New items of a box beside those shown."""
        items = shown
        for position in range(self.num_new):
            seed = self._seed("optimizer" if position == 0 else f"optimizer {position}")
            taken = partial(self._is_one_of, items)
            found = challenger_on_box(model, self.space, items, taken, seed)
            self.num_deadlocks += found.deadlock
            items = torch.cat([items, found.item.unsqueeze(0)])
        return items[len(shown) :]

    def _is_one_of(self, shown: Tensor, items: Tensor) -> Tensor:
        """Which of ``... x d`` items a person could not tell from one of those shown."""
        return self._same(items.unsqueeze(-2), shown).any(-1)

    def _learn(self, answered: Answered) -> None:
        query, answer = answered
        assert isinstance(query, Choice)
        if answer is None:
            return
        favourite = int(answer)
        self.set.told.append((query.items.to(self.space.bounds), favourite))
        for other in range(len(query.items)):
            if other != favourite:
                shown = query.indices
                rows = None if shown is None else (shown[favourite], shown[other])
                self.learner.add(Duel(query.id, query.items[[favourite, other]], rows), 1.0)

    def _options(self) -> dict[str, Any]:
        return {**super()._options(), **self.set.options(), "num_new": self.num_new}

    def _progress(self) -> dict[str, Any]:
        own = {"norm_bound": self.set.norm_bound, "num_deadlocks": self.num_deadlocks}
        return {**super()._progress(), **own}

    def _restore(self, progress: dict[str, Any]) -> None:
        super()._restore(progress)
        self.set.norm_bound = progress["norm_bound"]
        self.num_deadlocks = progress["num_deadlocks"]
