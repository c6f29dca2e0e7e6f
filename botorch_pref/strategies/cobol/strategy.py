r"""COBOL: measured values, and an expert who accepts or rejects items before they are measured."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Self, Unpack, cast

from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.queries import Duel, Evaluate, Label, Query
from botorch_pref.space import SearchSpace
from botorch_pref.strategies.base import Answered, Strategy
from botorch_pref.strategies.cobol.beliefs import Beliefs
from botorch_pref.strategies.cobol.candidates import Candidate, named_item
from botorch_pref.strategies.cobol.decision import Decision, next_weight
from botorch_pref.strategies.cobol.initial import initial_query
from botorch_pref.strategies.cobol.memory import Memory, Named, candidates
from botorch_pref.strategies.cobol.options import PAPER, CobolOptions, Settings
from botorch_pref.strategies.cobol.step import Asked, Step


class COBOL(Strategy):
    r"""Bayesian optimisation with an expert's advice, Xu et al. (2024b), Algorithm 1.

    At every step there are two candidates. The vanilla one maximises ``mean + beta sd`` of the
    objective; the augmented one also looks at what the expert may believe, a likelihood-ratio
    set of his labels: by default it maximises expected improvement times his likely chance of
    accepting, in :meth:`paper` the vanilla rule plus ``lambda`` times the set's upper end. It is
    taken while the objective alone gives no reason against it (no harm), and the expert is
    asked only while his belief there is uncertain (handover). What he rejects is not measured,
    what he accepts is next; where he does not answer, the vanilla candidate is. ``ask`` returns
    :class:`~botorch_pref.queries.Label` or :class:`~botorch_pref.queries.Evaluate`; or, with
    ``feedback="compare"``, a :class:`~botorch_pref.queries.Duel` of the candidate and the best
    measured item in place of a label, where no preference is no objection.

    Values are maximised, a label of 1 accepts. :attr:`decisions` says why each was asked. Values
    that others are measuring, or that were skipped, are taken as expected meanwhile, and not asked
    for again.

    Example:
        >>> strategy = COBOL(bounds=bounds, seed=0)
        >>> query = strategy.ask()
        >>> strategy.tell(query, 1.0 if isinstance(query, Label) else measure(query.items))

    Attributes:
        weight: ``lambda``, which begins at the initial trust.
        decisions: Why each query was asked, by its number.
    """

    _asks = (Label, Duel, Evaluate)
    measures_accepted = True

    def __init__(
        self,
        bounds: Tensor | None = None,
        choices: Tensor | None = None,
        space: SearchSpace | None = None,
        *,
        seed: int = 0,
        **options: Unpack[CobolOptions],
    ) -> None:
        r"""Set up a strategy without data.

        Args:
            bounds: ``2 x d``-dim box, or
            choices: ``n x d``-dim table of items, or
            space: a search space.
            seed: The seed of all draws.
            **options: See :class:`~botorch_pref.strategies.cobol.options.Settings`.

        Raises:
            ComparisonDataError: If an option is unknown or out of range; names it.
            SearchSpaceError: If the domain cannot be used.
        """
        super().__init__(bounds, choices, space, seed=seed)
        self.settings = Settings.checked(**options)
        if self.settings.candidate == "pinpoint" and not self.measures_accepted:
            raise ComparisonDataError('`candidate` must not be "pinpoint": only labels count here.')
        self.beliefs = Beliefs(self.space, self.settings, self.seed)
        self.weight = self.settings.trust_weight
        self.decisions: list[Decision] = []
        self._memory = Memory()

    @classmethod
    def paper(cls, **kwargs: Any) -> Self:
        r"""The paper's settings, as far as it has one of each.

        No cap on the norm bound, no bound on logits, a threshold of 0.1 on the width of the
        interval of logits, no limit of rejections in a row, no prior on lengthscales, ``beta``
        of Lemma 3.1.

        Args:
            **kwargs: Passed to the constructor.

        Returns:
            The strategy.
        """
        return cls(**{**PAPER, **kwargs})

    def recommend(self) -> Tensor:
        r"""The evaluated item with the largest posterior mean of the objective.

        Raises:
            ComparisonDataError: If nothing was evaluated yet.
        """
        return self._best_query().items.to(self.space.bounds)

    def recommend_index(self) -> int:
        """Its row in the choices."""
        _ = self.space.table  # a box has none, and raises
        return int(self._best_query().indices)

    def tell(self, query: Query, answer: float | None) -> None:
        r"""Learn a label or a value.

        Args:
            query: What :meth:`ask` returned.
            answer: Of a label, 1 accept or 0 reject; of a duel, 1 the candidate, 0 the measured
                item, 0.5 no preference; of an evaluation, the value; or ``None``.

        Raises:
            StaleQueryError: If the query is unknown, or was told already.
            ComparisonDataError: If it is no such answer; the query then stays open.
        """
        super().tell(query, answer)
        memory, told = self._memory, self.history[-1].answer
        if isinstance(query, Evaluate):
            memory.rejections = 0
        elif self.decisions[query.id].source != "initial":
            memory.unanswered = told is None
            if told is not None:
                memory.rejections = 0 if told else memory.rejections + 1
            if told and self.measures_accepted:
                others = (*self._open.values(), *(past.query for past in self.history))
                memory.plan(query, self.space, others)

    def suggest(self, item: Tensor) -> None:
        r"""Name the next augmented candidate, with ``candidate="pinpoint"``.

        The next step that makes a choice looks at it, after the initial design: it is measured
        if the objective gives no reason against it, and dropped otherwise, as its entry in
        ``decisions`` says. Where several were named, the last one counts.

        Args:
            item: ``d``-dim item within the bounds, or one of the choices.

        Raises:
            UnsupportedError: If ``candidate`` is another.
            SearchSpaceError: If it is no item of the space.
        """
        if self.settings.candidate != "pinpoint":
            raise UnsupportedError('Items are named with candidate="pinpoint" only.')
        named = named_item(self.space, item)
        self._memory.named = Named(named.item.tolist(), named.row)

    def _choose(self, query_id: int, annotator: str | None) -> Query:
        if self._memory.due:
            due = self._memory.due.pop(0)
            why = self.decisions[due.query_id]
            self.decisions.append(replace(why, asks=False, reason="accepted"))
            return due.evaluation(query_id, self.space.bounds, annotator)
        self.round += 1
        measured, plan = bool(self.beliefs.measured), (self.space, self.settings, self.seed)
        if initial := initial_query(*plan, self.decisions, measured=measured):
            asks, item, row = initial
            decision = Decision(asks, "initial", "initial design", self.weight)
        else:
            self.beliefs.learn(self.round)
            memory, beliefs = self._memory, self.beliefs.without(self._unmeasured())
            kept = memory.kept if beliefs is self.beliefs else None  # it is of the values alone
            step = Step(beliefs, self.weight, self.asked_items(), self.round, kept)
            decision, item, row = self._decide(step)
            memory.kept = step.kept if beliefs is self.beliefs else None
            memory.unanswered, memory.named = False, None
            if not math.isnan(decision.upper):
                self.weight = next_weight(self.weight, self.settings.rate, decision.upper)
        self.decisions.append(decision)
        kind: Any = Evaluate
        if decision.asks:
            kind = Label if item.dim() == 1 else Duel
        return cast(Query, kind(query_id, item, row, annotator))

    def _unmeasured(self) -> list[Evaluate]:
        """See the base class; what others are asked about may be measured next."""
        return [*super()._unmeasured(), *candidates(self._open.values(), self.decisions)]

    def _decide(self, step: Step) -> Asked:
        if self.settings.candidate != "pinpoint":
            return step.decide(self._memory.rejections, self._memory.unanswered)
        if (named := self._memory.named) is None:
            return step.decide_on(None)
        return step.decide_on(Candidate(self.space.bounds.new_tensor(named.item), named.row))

    def _best_query(self) -> Query:
        if not self.beliefs.measured:
            raise ComparisonDataError("Nothing was evaluated yet, so nothing is recommended.")
        return self.beliefs.incumbent()

    def _learn(self, answered: Answered) -> None:
        query, answer = answered
        assert isinstance(query, Label | Duel | Evaluate)
        if answer is not None:
            self.beliefs.add(query, answer)

    def _options(self) -> dict[str, Any]:
        return self.settings.to_json()

    def _progress(self) -> dict[str, Any]:
        return {
            "weight": self.weight,
            "round": self.round,
            "decisions": [decision.to_json() for decision in self.decisions],
            "beliefs": self.beliefs.progress(),
            **self._memory.to_json(),
        }

    def _restore(self, progress: dict[str, Any]) -> None:
        self.weight, self.round = progress["weight"], progress["round"]
        self.decisions = [Decision.from_json(entry) for entry in progress["decisions"]]
        self.beliefs.restore(progress["beliefs"])
        self._memory = Memory.from_json(progress)
