r"""Simpler ways to use an expert's advice, and the control that uses none.

Of the three published systems only the roles of the person and the machine are taken: who
proposes and who decides. [Xu2024b] compares with them and does not say how their experts were
simulated; each docstring says what is ours.

References:
.. [AV2022] A. Kumar A V, S. Rana, A. Shilton, S. Venkatesh. Human-AI Collaborative
    Bayesian Optimisation. NeurIPS 2022.
.. [Khoshvishkaie2023] A. Khoshvishkaie, P. Mikkola, P.-A. Murena, S. Kaski. Cooperative
    Bayesian Optimization for Imperfect Agents. ECML PKDD 2023.
.. [Adachi2024] M. Adachi et al. Looping in the Human: Collaborative and Explainable
    Bayesian Optimization. AISTATS 2024.
.. [Xu2024b] W. Xu, M. Adachi, C. N. Jones, M. A. Osborne. Principled Bayesian
    Optimisation in Collaboration with Human Experts. NeurIPS 2024.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

from torch import Tensor

from botorch_pref.acquisition import ExpertAugmentedLCB
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.queries import Answered, Evaluate, Label, Query
from botorch_pref.randomness import derive_seed
from botorch_pref.strategies import COBOL
from botorch_pref.strategies.base import Candidate, Strategy
from botorch_pref.strategies.cobol import TOLERANCE, Decision, best
from botorch_pref.strategies.state import FLAG, Entry, listed, record

_COINCIDE = 1e-3  # two candidates, in lengths of the box's sides


class _Proposal(NamedTuple):
    """Whether the expert is asked first, an item, and its row in the choices."""

    asks: bool
    item: Tensor
    row: int | None


class ExpertBaseline(COBOL):
    r"""What these strategies share: an initial design, and that what is accepted is evaluated.

    The initial design is that of :class:`~botorch_pref.strategies.COBOL` of the same seed, and so
    are models and options: all have ``num_initial_values``; those with a model of the objective
    ``beta``, ``noise`` and ``lengthscale_prior``; CoExBO also what the label model has,
    ``trust_weight`` and ``num_initial_labels``. The recommendation is the item with the largest
    value measured.

    Attributes:
        round: How many items were proposed.
    """

    _asks = (Label, Evaluate)
    _absent = False  # whether the expert did not answer since the last evaluation
    _entries = COBOL._entries | {
        "decisions": Entry("decisions", listed(record(Decision), most=0)),
        "absent": Entry("_absent", FLAG),
    }

    labels_first = False
    """Whether labels belong to the initial design."""

    def is_initial(self, query: Query) -> bool:
        """Whether a query of this strategy belongs to the initial design."""
        return query.id < self._num_initial

    def tell(self, query: Query, answer: float | None) -> None:
        """Learn a label or a value; see the base class."""
        Strategy.tell(self, query, answer)
        told = self.history[-1].answer
        if isinstance(query, Evaluate):
            self._rejections, self._absent = 0, False
        elif not self.is_initial(query):
            self._absent = told is None
            self._rejections += told == 0.0
            if told == 1.0:
                self._due.append((Candidate.of_query(query), query.id))

    @abstractmethod
    def _next(self) -> _Proposal:
        """The next item, after the initial design."""

    @property
    def _num_initial(self) -> int:
        labels = self.num_initial_labels if self.labels_first else 0
        return self.num_initial_values + labels

    def _choose(self, query_id: int, annotator: str | None) -> Query:
        if self._due:
            return Evaluate(query_id, *self._due.pop(0)[0], annotator)
        number, self.round = self.round, self.round + 1
        asks, item, row = self._early(number) if self._is_early(number) else self._next()
        kind = Label if asks else Evaluate
        return kind(query_id, item, row, annotator)

    def _is_early(self, number: int) -> bool:
        """Whether a proposal is one of the initial design, which goes on until there is a value."""
        return number < self._num_initial or not self.values.answers

    def _early(self, number: int) -> _Proposal:
        values = self.num_initial_values
        asks = values <= number < self._num_initial
        number -= values if asks else 0
        return self._sampled(asks, number, derive_seed(self.seed, f"initial {asks}", 0))

    def _sampled(self, asks: bool, number: int, seed: int) -> _Proposal:
        item = self.space.sample(number + 1, seed)[number]
        if self.space.choices is None:
            return _Proposal(asks, item, None)
        return _Proposal(asks, item, int(self.space.sample_rows(number + 1, seed)[number]))

    def _uniform(self, asks: bool) -> _Proposal:
        return self._sampled(asks, 0, self._seed("uniform"))

    def _optimistic(self, asks: bool, weight: float = 0.0) -> _Proposal:
        """Where ``mean + beta sd`` is largest, plus an expert's belief with some weight."""
        self.refit()
        pending = self._unmeasured()
        objective, expert = self.values.model(pending), self.expert() if weight else None
        beta = self.beta_of(objective)
        rule = ExpertAugmentedLCB(objective, expert, beta, weight, tolerance=TOLERANCE)
        seed, avoid = self._seed(f"optimizer {bool(weight)}"), self._items_of(pending)
        found = best(self.space, rule, seed, self.asked_items(), avoid)
        return _Proposal(asks, *found)

    def _num_evaluations(self) -> int:
        """How many evaluations there were since the initial design, told or not."""
        asked = sum(isinstance(answered.query, Evaluate) for answered in self.history)
        return asked - self.num_initial_values

    def _seed(self, stream: str) -> int:
        return derive_seed(self.seed, stream, self.round)

    def _recommended(self) -> Candidate:
        if not self.values.answers:
            raise ComparisonDataError("Nothing was evaluated yet, so nothing is recommended.")
        measured = max(self.values.answers, key=lambda answered: answered.answer or 0.0)
        return Candidate.of_query(measured.query)

    def _unmeasured(self) -> list[Evaluate]:
        return Strategy._unmeasured(self)  # an item that is shown may not be measured next

    def _learn(self, answered: Answered) -> None:
        if isinstance(answered.query, Evaluate) or self.labels_first:
            super()._learn(answered)


class RandomValues(ExpertBaseline):
    r"""Evaluates items that are drawn uniformly, without asking the expert."""

    def _next(self) -> _Proposal:
        return self._uniform(asks=False)


class ExpertSampling(ExpertBaseline):
    r"""The expert names every item ([Xu2024b], sec. 5): uniform draws, evaluated if accepted.

    This draws from what the expert accepts, by rejection; each draw that they see is a label.
    There is no model. A draw that is not answered is replaced by another.
    """

    def _next(self) -> _Proposal:
        return self._uniform(asks=True)


class ExpertOverride(ExpertBaseline):
    r"""The machine proposes, and the expert may override it, after [AV2022]: the most trust.

    Every step proposes the item with the largest ``mean + beta sd``. If the expert rejects
    it, they name another. Ours: that one is an accepted uniform draw, as in
    :class:`ExpertSampling`, and every rejected one is a label as well; where they do not
    answer, the machine's proposal is evaluated.
    """

    def _next(self) -> _Proposal:
        if self._rejections and not self._absent:
            return self._uniform(asks=True)
        return self._optimistic(asks=not self._absent)


class AlternatingExpert(ExpertBaseline):
    r"""Expert and machine take turns, after [Khoshvishkaie2023]: the least trust.

    Every other evaluation is that of the largest ``mean + beta sd``, and is not shown to the
    expert. Ours: the expert begins; what he names is an accepted uniform draw, as in
    :class:`ExpertSampling`; where they do not answer, the machine takes their turn. The
    original plans for what the other will do.
    """

    def _next(self) -> _Proposal:
        if self._num_evaluations() % 2 or self._absent:
            return self._optimistic(asks=False)
        return self._uniform(asks=True)


class CoExBO(ExpertBaseline):
    r"""The machine shows two items, and the expert picks one, after [Adachi2024].

    One has the largest ``mean + beta sd``. The other has the largest sum of that and the upper
    end of what the expert may believe, with the weight ``trust_weight / n`` at the ``n``-th
    evaluation since the initial design, so that the two coincide in time; then nobody is
    asked. Ours: the decay; COBOL's label model in place of a model of pairs; and that the
    pick is a label of the second item: it is evaluated if accepted, and otherwise the first.
    """

    labels_first = True

    def _next(self) -> _Proposal:
        plain = self._optimistic(asks=False)
        weight = self.trust_weight / (1 + self._num_evaluations())
        if self._rejections or self._absent or not weight:
            return plain
        augmented = self._optimistic(asks=True, weight=weight)
        gap = self.space.normalize(augmented.item) - self.space.normalize(plain.item)
        return augmented if float(gap.abs().max()) > _COINCIDE else plain
