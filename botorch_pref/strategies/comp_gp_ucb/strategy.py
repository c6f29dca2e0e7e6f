r"""COMP-GP-UCB: cheap duels say where dear values are worth their price."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Unpack

import torch
from torch import Tensor

from botorch_pref.space import SearchSpace
from botorch_pref.strategies.budgeted import Chosen, TwoModelStrategy
from botorch_pref.strategies.comp_gp_ucb.options import CompGPUCBOptions, Settings
from botorch_pref.strategies.comp_gp_ucb.record import FilterRecord
from botorch_pref.strategies.comp_gp_ucb.step import Schedule, Step


class CompGPUCB(TwoModelStrategy):
    r"""Optimisation with duels against random opponents and with values, Xu et al. (2020).

    A duel of an item against a uniformly random one is an unbiased sample of how often the item
    wins. First only duels are asked, of the item that may win most often, until that is known
    well enough. Then the item is taken that may have the largest value of all that may win nearly
    as often as the best; where duels know it well it is measured, else it is duelled (Algorithm
    1; with ``slack_limit`` Algorithm 2). ``ask`` returns a :class:`~botorch_pref.queries.Duel`,
    whose first item is the chosen one, or an :class:`~botorch_pref.queries.Evaluate`. Values are
    maximised. Every query that was chosen counts as paid, skipped or not. With a ``gamma`` of 0,
    where duels are judged by the objective and no value is ever chosen, the recommendation is the
    best item in duels.

    An opponent is any other item, in a table any other choice, so an item never meets itself.

    Example:
        >>> options = {"duel_cost": 0.1, "value_cost": 1, "budget": 100}
        >>> strategy = CompGPUCB(bounds=bounds, spend_remainder="duel", **options)
        >>> while not strategy.finished:
        ...     query = strategy.ask()
        ...     strategy.tell(query, answer(query))

    Attributes:
        records: Why each query was asked, by its number.
        schedule: Phase, ``gamma``, slack and step.
    """

    settings_type = Settings
    record_type = FilterRecord
    settings: Settings

    def __init__(
        self,
        bounds: Tensor | None = None,
        choices: Tensor | None = None,
        space: SearchSpace | None = None,
        *,
        seed: int = 0,
        **options: Unpack[CompGPUCBOptions],
    ) -> None:
        r"""Set up a strategy without data.

        Args:
            bounds: ``2 x d``-dim box, or
            choices: ``n x d``-dim table of items, or
            space: a search space.
            seed: The seed of all draws.
            **options: See :class:`~botorch_pref.strategies.comp_gp_ucb.options.Settings`.

        Raises:
            ComparisonDataError: If an option is unknown or out of range; names it.
            SearchSpaceError: If the domain cannot be used.
        """
        super().__init__(bounds, choices, space, seed=seed, **options)
        self.schedule = Schedule(self.settings.first_gamma, self.settings.first_slack)

    def _next(self) -> Chosen:
        self.beliefs.learn()
        beliefs = self.beliefs.without(self._unmeasured())
        # A search that fails, or is interrupted, moves nothing on.
        step = Step(beliefs, self.settings, replace(self.schedule), self.seed)
        if self.beliefs.duels:
            chosen = step.choose(self._can_pay("value"))
        else:
            chosen = Chosen(step.first(), *self._uniform("first", len(self.records)))
        self.schedule = step.schedule
        return chosen

    @torch.no_grad()
    def _recommended(self) -> tuple[Tensor, int | None] | None:
        if self.settings.first_gamma == 0 and self.beliefs.duels:
            return self.beliefs.best("duels")
        return super()._recommended()

    def _progress(self) -> dict[str, Any]:
        return super()._progress() | {"schedule": self.schedule.to_json()}

    def _restore(self, progress: dict[str, Any]) -> None:
        super()._restore(progress)
        self.schedule = Schedule.from_json(progress["schedule"])
