r"""GP-UCB: values alone, where the bound of the objective is largest."""

from __future__ import annotations

from dataclasses import dataclass

from botorch_pref.strategies.budgeted import Chosen, ModelSettings, TwoModelStrategy
from botorch_pref.strategies.budgeted.step import row_of


@dataclass(frozen=True)
class ValueSettings(ModelSettings):
    """Settings of a strategy that asks for values: by default all initial queries are values."""

    num_initial_duels: int = 0
    num_initial_values: int = 10


class GPUCB(TwoModelStrategy):
    r"""Measures the item with the largest ``mean + beta sd`` of the objective.

    Srinivas, Krause, Kakade and Seeger (2010), Algorithm 1, as the baseline of Xu, Joshi, Singh
    and Dubrawski (2020), Algorithm 3 and App. B: the model, the multiple ``beta`` and the times at
    which hyperparameters are learnt are those of :class:`~botorch_pref.strategies.CompGPUCB`. Of
    duels, if the initial design has any, nothing is learnt but where searches start.

    With ``num_initial_values`` of what the budget pays for, all values are of random items: the
    control that chooses nothing. For the options see
    :class:`~botorch_pref.strategies.budgeted.ModelSettings`.

    Example:
        >>> strategy = GPUCB(bounds=bounds, value_cost=1, budget=100)
        >>> while not strategy.finished:
        ...     query = strategy.ask()
        ...     strategy.tell(query, measure(query.items))
    """

    settings_type = ValueSettings
    kinds = ("value",)

    def _next(self) -> Chosen:
        record = self.record_type("value", "values")
        if not self.beliefs.values:
            return Chosen(record, *self._uniform("first", len(self.records)))
        step = self._step()
        found = step.maximum(step.of_values())
        return Chosen(record, found.items[0], row_of(found))
