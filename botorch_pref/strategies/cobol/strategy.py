r"""COBOL: measured values, and an expert who accepts or rejects items before they are measured."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Self, Unpack

import torch
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.queries import Evaluate, Label, Query
from botorch_pref.randomness import derive_seed
from botorch_pref.space import SearchSpace
from botorch_pref.strategies.base import Answered, Strategy
from botorch_pref.strategies.cobol.beliefs import Beliefs
from botorch_pref.strategies.cobol.decision import Decision, next_weight
from botorch_pref.strategies.cobol.options import CobolOptions, Settings
from botorch_pref.strategies.cobol.step import Asked, Step


class COBOL(Strategy):
    r"""Bayesian optimisation with an expert's advice, Xu et al. (2024b), Algorithm 1.

    At every step there are two candidates. The vanilla one maximises ``mean + beta sd`` of the
    objective; the augmented one maximises the same plus ``lambda`` times the upper end of
    what the expert may believe, a likelihood-ratio set of his labels. The augmented one is
    taken while the objective alone gives no reason against it (no harm), and the expert is
    asked only while his belief there is uncertain (handover). What he rejects is not measured,
    what he accepts is next; where he does not answer, the vanilla candidate is. ``ask`` returns
    :class:`~botorch_pref.queries.Label` or :class:`~botorch_pref.queries.Evaluate`.

    Values are maximised, a label of 1 accepts. :attr:`decisions` says why each was asked.

    Example:
        >>> strategy = COBOL(bounds=bounds, seed=0)
        >>> query = strategy.ask()
        >>> strategy.tell(query, 1.0 if isinstance(query, Label) else measure(query.items))

    Attributes:
        weight: ``lambda``, which begins at the initial trust.
        decisions: Why each query was asked, by its number.
    """

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
        self.beliefs = Beliefs(self.space, self.settings, self.seed)
        self.weight = self.settings.trust_weight
        self.round = 0
        self.decisions: list[Decision] = []
        self._due: list[tuple[list[float], int | None]] = []  # accepted, to be evaluated
        self._rejections = 0
        self._unanswered = False

    @classmethod
    def paper(cls, **kwargs: Any) -> Self:
        r"""The paper's settings, as far as it has one of each.

        No cap on the norm bound, no bound on logits, a threshold of 0.1 on the width of the
        interval of logits, no limit of rejections in a row, no prior on lengthscales.

        Args:
            **kwargs: Passed to the constructor.

        Returns:
            The strategy.
        """
        literal = {
            "norm_bound_limit": None,
            "value_bound": None,
            "threshold": 0.1,
            "threshold_scale": "logit",
            "max_rejections": None,
            "lengthscale_prior": False,
        }
        return cls(**{**literal, **kwargs})

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
            answer: Of a label, 1 accept or 0 reject; of an evaluation, the value; or ``None``.

        Raises:
            StaleQueryError: If the query is unknown, or was told already.
            ComparisonDataError: If it is no such answer; the query then stays open.
        """
        super().tell(query, answer)
        decision = self.decisions[query.id]
        if isinstance(query, Label) and decision.source != "initial":
            told = self.history[-1].answer
            self._unanswered = told is None
            if told == 1.0 and self.measures_accepted:
                self._due.append((query.items.tolist(), query.indices))
            if told is not None:
                self._rejections = 0 if told == 1.0 else self._rejections + 1
        elif isinstance(query, Evaluate):
            self._rejections = 0

    def _choose(self, query_id: int, annotator: str | None) -> Query:
        if self._due:
            values, row = self._due.pop(0)
            item = torch.tensor(values, dtype=torch.double)
            self.decisions.append(replace(self._why_asked(item), asks=False, reason="accepted"))
            return Evaluate(query_id, item, row, annotator)
        self.round += 1
        if initial := self._initial():
            asks, item, row = initial
            self.decisions.append(Decision(asks, "initial", "initial design", self.weight))
        else:
            self.beliefs.learn(self.round)
            step = Step(self.beliefs, self.weight, self.asked_items(), self._seed)
            decision, item, row = self._decide(step)
            self._unanswered = False
            if not math.isnan(decision.upper):
                self.weight = next_weight(self.weight, self.settings.rate, decision.upper)
            self.decisions.append(decision)
            asks = decision.asks
        kind = Label if asks else Evaluate
        return kind(query_id, item, row, annotator)

    def _decide(self, step: Step) -> Asked:
        return step.decide(self._rejections, self._unanswered)

    def _why_asked(self, item: Tensor) -> Decision:
        """The decision by which the expert was asked about an item."""
        for answered in reversed(self.history):
            if isinstance(answered.query, Label) and torch.equal(answered.query.items, item):
                return self.decisions[answered.query.id]
        raise AssertionError("an accepted item was asked about")

    def _initial(self) -> tuple[bool, Tensor, int | None] | None:
        """The next query of the initial design: whether it is a label, its item and its row."""
        started = [decision.asks for decision in self.decisions if decision.source == "initial"]
        values, labels = started.count(False), started.count(True)
        if values < self.settings.num_initial_values or not self.beliefs.measured:
            asks, number = False, values  # also where all others were skipped
        elif labels < self.settings.num_initial_labels:
            asks, number = True, labels
        else:
            return None
        item = self.space.sample(number + 1, derive_seed(self.seed, f"initial {asks}", 0))[number]
        if self.space.choices is None:
            return asks, item, None
        return asks, item, int((self.space.choices == item).all(-1).nonzero()[0])

    def _seed(self, stream: str) -> int:
        return derive_seed(self.seed, stream, self.round)

    def _best_query(self) -> Query:
        measured = self.beliefs.measured
        if not measured:
            raise ComparisonDataError("Nothing was evaluated yet, so nothing is recommended.")
        mean = self.beliefs.means(torch.stack([q.items for q, _ in measured]).to(self.space.bounds))
        return measured[int(mean.argmax())][0]

    def _learn(self, answered: Answered) -> None:
        query, answer = answered
        if not isinstance(query, Label | Evaluate):
            raise ComparisonDataError(f"Query {query.id} asks neither for a label nor a value.")
        if answer is not None:
            self.beliefs.add(query, answer)

    def _options(self) -> dict[str, Any]:
        return self.settings.to_json()

    def _progress(self) -> dict[str, Any]:
        return {
            "weight": self.weight,
            "round": self.round,
            "decisions": [decision.to_json() for decision in self.decisions],
            "due": [list(due) for due in self._due],
            "rejections": self._rejections,
            "unanswered": self._unanswered,
            "beliefs": self.beliefs.progress(),
        }

    def _restore(self, progress: dict[str, Any]) -> None:
        self.weight, self.round = progress["weight"], progress["round"]
        self.decisions = [Decision.from_json(entry) for entry in progress["decisions"]]
        self._due = [(values, row) for values, row in progress["due"]]
        self._rejections, self._unanswered = progress["rejections"], progress["unanswered"]
        self.beliefs.restore(progress["beliefs"])
