r"""Duels against random opponents alone, of the most promising item or of any."""

from __future__ import annotations

from dataclasses import dataclass

from botorch_pref.strategies.budgeted import Chosen, ModelSettings, TwoModelStrategy, WidthRecord
from botorch_pref.strategies.budgeted.step import row_of


@dataclass(frozen=True)
class DuelSettings(ModelSettings):
    """Settings of a strategy that asks duels: by default all initial queries are duels."""

    num_initial_duels: int = 100
    num_initial_values: int = 0


class BordaUCB(TwoModelStrategy):
    r"""Duels the item that may win most often, against a random one.

    This is phase 1 of :class:`~botorch_pref.strategies.CompGPUCB` for ever, so the control that
    never buys a value: GP-UCB on the Borda function, the algorithm of Theorem 2 of Xu, Joshi,
    Singh and Dubrawski (2020). For the options see
    :class:`~botorch_pref.strategies.budgeted.ModelSettings`.

    Example:
        >>> strategy = BordaUCB(choices=table, duel_cost=0.1, budget=100)
        >>> query = strategy.ask()
    """

    settings_type = DuelSettings
    kinds = ("duel",)
    record_type = WidthRecord

    def _next(self) -> Chosen:
        if not self.beliefs.duels:
            record = WidthRecord("duel", "duels")
            return Chosen(record, *self._uniform("first", len(self.records)))
        step = self._step()
        found = step.to_duel()
        record = WidthRecord("duel", "duels", step.width(found.items[0]))
        return Chosen(record, found.items[0], row_of(found))


class RandomDuels(TwoModelStrategy):
    r"""Duels random items against random ones, whatever was answered.

    It models and recommends as :class:`BordaUCB` does, so a comparison with that one measures the
    rule alone; all its queries are such as the initial design consists of. For the options see
    :class:`~botorch_pref.strategies.budgeted.ModelSettings`.
    """

    settings_type = DuelSettings
    kinds = ("duel",)

    def _next(self) -> Chosen:
        self.beliefs.learn()
        record = self.record_type("duel", "random")
        return Chosen(record, *self._uniform("random", self._num_later()))
