r"""Duels or values, whichever is expected to gain more for its price."""

from __future__ import annotations

from typing import Any, Unpack

import torch
from torch import Tensor

from botorch_pref.queries import Duel, Evaluate, Query
from botorch_pref.randomness import derive_seed
from botorch_pref.space import Maximum, SearchSpace
from botorch_pref.strategies.budgeted import BudgetedStrategy, Chosen, Kind
from botorch_pref.strategies.cost_aware_kg.beliefs import Beliefs
from botorch_pref.strategies.cost_aware_kg.options import CostAwareKGOptions, Settings
from botorch_pref.strategies.cost_aware_kg.record import GainRecord
from botorch_pref.strategies.cost_aware_kg.step import Step

KINDS: tuple[Kind, Kind] = ("duel", "value")


class CostAwareKG(BudgetedStrategy):
    r"""Buys the duel or the value with the largest knowledge gradient per cost.

    One model learns from both (:class:`~botorch_pref.models.PreferenceGP`): values tell of the
    utility ``f``, duels of ``f_c = f + delta`` with a bias of learnt size
    (:class:`~botorch_pref.kernels.ComparisonBiasKernel`). What is bought is what lets the
    utility of the recommended item grow most for its price, at the best number of equal answers
    (:class:`~botorch_pref.acquisition.DiscreteKnowledgeGradient`,
    :class:`~botorch_pref.acquisition.DuelingKnowledgeGradient`): duels while they are informative
    for their price, values where only these can tell. With a budget, the price of one value is
    kept to measure what is recommended in the end. Values are maximised.

    ``ask`` returns a :class:`~botorch_pref.queries.Duel` or an
    :class:`~botorch_pref.queries.Evaluate`; ``recommend`` the maximiser of the posterior mean.

    Example:
        >>> strategy = CostAwareKG(bounds=bounds, duel_cost=0.1, value_cost=1, budget=30)
        >>> while not strategy.finished:
        ...     query = strategy.ask()
        ...     strategy.tell(query, answer(query))

    Attributes:
        records: Why each query was asked, by its number.
        beliefs: The data and the model.
    """

    settings_type = Settings
    record_type = GainRecord
    settings: Settings

    def __init__(
        self,
        bounds: Tensor | None = None,
        choices: Tensor | None = None,
        space: SearchSpace | None = None,
        *,
        seed: int = 0,
        **options: Unpack[CostAwareKGOptions],
    ) -> None:
        r"""Set up a strategy without data.

        Args:
            bounds: ``2 x d``-dim box, or
            choices: ``n x d``-dim table of items, or
            space: a search space.
            seed: The seed of all draws.
            **options: See :class:`~botorch_pref.strategies.cost_aware_kg.options.Settings`.

        Raises:
            ComparisonDataError: If an option is unknown or out of range; names it.
            SearchSpaceError: If the domain cannot be used.
        """
        super().__init__(bounds, choices, space, seed=seed, **options)
        self.beliefs = Beliefs(self.space, self.settings, self.seed)

    @property
    def finished(self) -> bool:
        """Whether nothing can be paid any more, or the recommended item was measured."""
        return super().finished or bool(self.records and self.records[-1].phase == "confirm")

    def tell(self, query: Query, answer: float | None) -> None:
        r"""Learn an answer, and after the initial design hyperparameters if it is time to.

        Args:
            query: What :meth:`ask` returned.
            answer: Of a duel, 1 the first won, 0 the second, 0.5 no preference; of an evaluation,
                the value. ``None`` to skip.

        Raises:
            StaleQueryError: If the query is unknown, or was told already.
            ComparisonDataError: If it is no such answer; the query then stays open.
        """
        super().tell(query, answer)
        if self._initial() is None:
            self.beliefs.learn()

    def _next(self) -> Chosen:
        self.beliefs.learn()  # others may be at the last of the initial design
        duels = [query for query in self._open.values() if isinstance(query, Duel)]
        step = self._step(len(self.records), [*duels, *self._unmeasured()])
        kinds = [kind for kind in KINDS if self._affords(kind)]
        if not kinds:
            return _chosen(GainRecord("value", "confirm"), step.confirmed())
        searches = {"duel": step.duel, "value": step.value}
        found = {kind: searches[kind]() for kind in kinds}
        gains = {kind: self._gain_per_cost(kind, found[kind]) for kind in kinds}
        best = max(kinds, key=gains.__getitem__)
        numbers = {f"{kind}_gain": gain for kind, gain in gains.items()}
        return _chosen(GainRecord(best, "gain", **numbers), found[best])

    def _gain_per_cost(self, kind: Kind, best: Maximum) -> float:
        costs = self.settings.costs
        price = costs.duel if kind == "duel" else costs.value
        return self.beliefs.units.spread * float(best.value) / float(price)

    def _affords(self, kind: Kind) -> bool:
        """Whether a query can be paid, and the value that is kept to the end as well."""
        costs, spent = self.settings.costs, self.spent
        price = costs.duel if kind == "duel" else costs.value
        if self.settings.confirm and costs.affords(costs.value, spent):
            price += costs.value
        return costs.affords(price, spent)

    def _step(self, number: int, pending: list[Query]) -> Step:
        beliefs, like = self.beliefs, self.space.bounds
        seed = derive_seed(self.seed, "optimizer", number)
        model = beliefs.believed(pending)
        values = [q.items.unsqueeze(0).to(like) for q in pending if isinstance(q, Evaluate)]
        asked, avoid = beliefs.asked(), torch.cat([like[:0], *values])
        return Step(model, self.space, asked, avoid, self.settings, beliefs.noise, seed)

    def _add(self, query: Duel | Evaluate, answer: float) -> None:
        self.beliefs.add(query, answer)

    def _recommended(self) -> tuple[Tensor, int | None] | None:
        """The maximiser of the posterior mean of the utility, over the whole domain."""
        if not self.num_answers:
            return None
        found = self._step(self.num_answers, []).recommended
        return found.items[0], None if found.indices is None else found.indices[0]

    def _progress(self) -> dict[str, Any]:
        return super()._progress() | {"beliefs": self.beliefs.progress()}

    def _restore(self, progress: dict[str, Any]) -> None:
        super()._restore(progress)
        self.beliefs.restore(progress["beliefs"])


def _chosen(record: GainRecord, found: Maximum) -> Chosen:
    rows = found.indices or (None, None)
    if record.kind == "value":
        return Chosen(record, found.items[0], rows[0])
    return Chosen(record, found.items[0], rows[0], (found.items[1], rows[1]))
