r"""What a study says of itself."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from torch import Tensor

from botorch_pref.space import SearchSpace
from botorch_pref.strategies import Strategy
from botorch_pref.study.beliefs import Beliefs
from botorch_pref.study.dimensions import Dimension, item_text, item_values
from botorch_pref.study.recommendation import Recommendation, recommendation
from botorch_pref.study.record import Record
from botorch_pref.study.stopping import StoppingRule
from botorch_pref.study.table import history_table


class StudyView:
    r"""A study as it is read.

    Args:
        record: Its content and file.
    """

    def __init__(self, record: Record) -> None:
        self._record = record
        self._beliefs: tuple[object, Beliefs | None] | None = None

    @property
    def path(self) -> Path:
        """The file."""
        return self._record.file.path

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """Name and unit of each dimension of an item."""
        return self._record.content.dimensions

    @property
    def description(self) -> str:
        """What the study is about."""
        return self._record.content.description

    @property
    def strategy(self) -> Strategy:
        """The strategy; look it up anew after :meth:`undo`, and tell answers to the study."""
        return self._record.content.strategy

    @property
    def space(self) -> SearchSpace:
        """The domain."""
        return self.strategy.space

    @property
    def history(self) -> pd.DataFrame:
        r"""One row for every answer.

        =================  ===============================================================
        step               1, 2, ...
        kind               of the query: duel, choice, label or evaluate
        milk, ...          the item of a label or an evaluation, by the names of dimensions
        first_milk, ...    the items of a duel or a choice: first, second, item3, ...
        index, ...         likewise their rows in the choices, if there are choices
        answer             as in :meth:`tell`; missing where it was skipped
        annotator          who was asked
        told               when the answer was told
        =================  ===============================================================
        """
        return history_table(self.strategy.history, self._record.content.told, self.dimensions)

    @property
    def stopping(self) -> StoppingRule:
        """When enough is asked."""
        return self._record.content.stopping

    def beliefs(self) -> Beliefs | None:
        """A model of all answers, for figures; None while there is neither a duel nor a value."""
        answers = self.strategy.num_answers, len(self.strategy.history)
        if self._beliefs is None or self._beliefs[0] != answers:
            self._beliefs = answers, Beliefs.of(self.strategy)
        return self._beliefs[1]

    def recommend(self) -> Recommendation:
        r"""The best item so far, as the strategy sees it, and how sure the answers make that.

        Raises:
            ComparisonDataError: If nothing was answered yet and the strategy has no item then.
        """
        item = self.strategy.recommend()
        return recommendation(
            item,
            item_values(item, self.dimensions),
            self.strategy.num_answers,
            self.beliefs(),
            self.stopping,
            self.describe,
        )

    def describe(self, item: Tensor) -> str:
        """A ``d``-dim item with names and units, as in ``"milk 34.48 ml, sugar 2.10 g"``."""
        return item_text(item, self.dimensions, self.space)
