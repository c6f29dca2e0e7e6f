r"""COMP-GP-UCB: cheap duels say where dear values are worth their price."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any, Unpack

import torch
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.queries import Duel, Evaluate, Query
from botorch_pref.randomness import derive_seed
from botorch_pref.space import SearchSpace
from botorch_pref.strategies.base import Answered, Strategy
from botorch_pref.strategies.comp_gp_ucb.beliefs import Beliefs
from botorch_pref.strategies.comp_gp_ucb.options import CompGPUCBOptions, Settings
from botorch_pref.strategies.comp_gp_ucb.record import QueryRecord
from botorch_pref.strategies.comp_gp_ucb.step import Chosen, Schedule, Step


class CompGPUCB(Strategy):
    r"""Optimisation with duels against random opponents and with values, Xu et al. (2020).

    A duel of an item against a uniformly random one is an unbiased sample of how often the item
    wins. First only duels are asked, of the item that may win most often, until that is known
    well enough. Then the item is taken that may have the largest value of all that may win nearly
    as often as the best; where duels know it well it is measured, else it is duelled (Algorithm
    1; with ``slack_limit`` Algorithm 2). ``ask`` returns a :class:`~botorch_pref.queries.Duel`,
    whose first item is the chosen one, or an :class:`~botorch_pref.queries.Evaluate`. Values are
    maximised. Every query that was chosen counts as paid, skipped or not.

    In a table an opponent is any other choice, so an item never meets itself.

    Example:
        >>> strategy = CompGPUCB(bounds=bounds, duel_cost=0.1, value_cost=1, budget=100)
        >>> while not strategy.finished:
        ...     query = strategy.ask()
        ...     strategy.tell(query, answer(query))

    Attributes:
        records: Why each query was asked, by its number.
        schedule: Phase, ``gamma``, slack and step.
    """

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
        super().__init__(bounds, choices, space, seed=seed)
        self.settings = Settings.checked(**options)
        self.beliefs = Beliefs(self.space, self.settings, self.seed)
        self.schedule = Schedule(self.settings.first_gamma, self.settings.borda_slack)
        self.records: list[QueryRecord] = []
        self._ended = False  # what was chosen cannot be paid

    @property
    def spent(self) -> Fraction:
        """What all queries that were chosen cost."""
        kinds = [record.kind for record in self.records]
        return self.settings.costs.spent(kinds.count("duel"), kinds.count("value"))

    @property
    def finished(self) -> bool:
        """Whether nothing can be paid any more, or what was chosen cannot."""
        costs = self.settings.costs
        return self._ended or not costs.affords(min(costs.duel, costs.value), self.spent)

    def recommend(self) -> Tensor:
        r"""The measured item with the largest posterior mean; without values, that in duels.

        Raises:
            ComparisonDataError: If nothing was answered yet.
        """
        items = self._best_query().items
        return (items[0] if items.dim() == 2 else items).to(self.space.bounds)

    def recommend_index(self) -> int:
        """Its row in the choices."""
        _ = self.space.table  # a box has none, and raises
        found = self._best_query().indices
        return int(found[0] if isinstance(found, tuple) else found)

    def _choose(self, query_id: int, annotator: str | None) -> Query:
        if not self.finished:
            chosen = self._initial() or self._next()
            if chosen is not None:
                self.records.append(chosen.record)
                return self._query(query_id, annotator, chosen)
            self._ended = True
        raise UnsupportedError(
            f"The budget of {self.settings.budget} is spent: the next query cannot be paid."
        )

    def _initial(self) -> Chosen | None:
        """The next query of the initial design, duels first."""
        kinds = [record.kind for record in self.records if record.phase == "initial"]
        if kinds.count("duel") < self.settings.num_initial_duels:
            kind, number = "duel", kinds.count("duel")
        elif kinds.count("value") < self.settings.num_initial_values:
            kind, number = "value", kinds.count("value")
        else:
            return None
        record = QueryRecord("duel" if kind == "duel" else "value", "initial")
        if not self._can_pay(record):
            return None
        item, row = self._uniform(f"initial {kind}", number)
        return Chosen(record, item, row)

    def _next(self) -> Chosen | None:
        if not self.beliefs.duels:
            record = QueryRecord("duel", "duels")
            return Chosen(record, *self._uniform("first", len(self.records)))
        self.beliefs.learn()
        chosen = Step(self.beliefs, self.schedule, self.seed).choose()
        if self._can_pay(chosen.record):
            return chosen
        duel = replace(chosen.record, kind="duel")
        if self.settings.spend_remainder == "duel" and self._can_pay(duel):
            return chosen._replace(record=duel)
        return None

    def _can_pay(self, record: QueryRecord) -> bool:
        costs = self.settings.costs
        return costs.affords(costs.duel if record.kind == "duel" else costs.value, self.spent)

    def _query(self, query_id: int, annotator: str | None, chosen: Chosen) -> Query:
        if chosen.record.kind == "value":
            return Evaluate(query_id, chosen.item, chosen.row, annotator)
        other, row = self._uniform("opponent", query_id, chosen.row)
        rows = None if chosen.row is None or row is None else (chosen.row, row)
        return Duel(query_id, torch.stack([chosen.item.to(other), other]), rows, annotator)

    def _uniform(self, stream: str, step: int, but: int | None = None) -> tuple[Tensor, int | None]:
        """An item drawn at random, of choices another one than ``but``."""
        generator = torch.Generator().manual_seed(derive_seed(self.seed, stream, step))
        if self.space.choices is None:
            lower, upper = self.space.bounds
            unit = torch.rand(self.space.dim, generator=generator, dtype=torch.double)
            return lower + (upper - lower) * unit.to(lower), None
        table = self.space.table
        row = int(torch.randint(len(table) - (but is not None), (), generator=generator))
        row += but is not None and row >= but
        return table[row], row

    def _best_query(self) -> Query:
        found = self.beliefs.best()
        if found is None:
            raise ComparisonDataError("Nothing was answered yet, so nothing is recommended.")
        return found

    def _learn(self, answered: Answered) -> None:
        query, answer = answered
        if not isinstance(query, Duel | Evaluate):
            raise ComparisonDataError(f"Query {query.id} asks neither for a duel nor a value.")
        if answer is not None:
            self.beliefs.add(query, answer)

    def _options(self) -> dict[str, Any]:
        return self.settings.to_json()

    def _progress(self) -> dict[str, Any]:
        return {
            "records": [record.to_json() for record in self.records],
            "schedule": self.schedule.to_json(),
            "ended": self._ended,
            "beliefs": self.beliefs.progress(),
        }

    def _restore(self, progress: dict[str, Any]) -> None:
        self.records = [QueryRecord.from_json(entry) for entry in progress["records"]]
        self.schedule = Schedule.from_json(progress["schedule"])
        self._ended = progress["ended"]
        self.beliefs.restore(progress["beliefs"])
