r"""Playing rounds: plans, answers, the eliminations between, and the log."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from gpytorch.kernels import ScaleKernel
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError, StaleQueryError, UnsupportedError
from botorch_pref.inference.finite import Regularizer
from botorch_pref.queries import Query
from botorch_pref.randomness import derive_seed
from botorch_pref.space import SearchSpace
from botorch_pref.strategies.mr_lpf.active_set import AnsweredPair, Plan, answered_pairs
from botorch_pref.strategies.mr_lpf.box import ActiveBox
from botorch_pref.strategies.mr_lpf.choices import ActiveChoices
from botorch_pref.strategies.mr_lpf.elimination import Scale
from botorch_pref.strategies.mr_lpf.log import StepRecord, step_records
from botorch_pref.strategies.mr_lpf.rounds import RoundRecord, RoundSetting
from botorch_pref.strategies.utility import Pair, UtilityStrategy


class RoundStrategy(UtilityStrategy):
    r"""Plays rounds whose pairs do not depend on their answers.

    They are a plan, of which annotators get one after the other. A skipped duel counts.

    Args:
        sizes: The numbers of duels of all rounds.
        ci_scale: See :class:`~botorch_pref.strategies.mr_lpf.strategy.MRLPF`.
        regularizer: The penalty of the predictor of a round.
        reuse_data: Whether a round also uses the answers of those before it.
        refine: Whether pairs on a box are refined by constrained maximisation.
        **kwargs: Passed to :class:`~botorch_pref.strategies.utility.UtilityStrategy`.

    Attributes:
        sizes: The numbers of duels of all rounds.
        active: The items that are still in the running.
        records: One record for every completed round.
    """

    def __init__(
        self,
        bounds: Tensor | None,
        choices: Tensor | None,
        space: SearchSpace | None,
        *,
        sizes: tuple[int, ...],
        ci_scale: Scale,
        regularizer: Regularizer,
        reuse_data: bool,
        refine: bool,
        **kwargs: Any,
    ) -> None:
        super().__init__(bounds, choices, space, **kwargs)
        self.sizes, self.reuse_data, self.regularizer = sizes, reuse_data, regularizer
        self.active = _whole(self.space, ci_scale, regularizer, refine, self.seed)
        self.records: list[RoundRecord] = []
        self._steps: list[StepRecord] = []
        self._values: list[dict[str, Any]] = []  # hyperparameters at the end of each round
        self._shown: int | None = None  # duels chosen when plan_round() was last called
        self._begin()

    @property
    def finished(self) -> bool:
        """Whether all rounds are completed."""
        return len(self.records) == len(self.sizes)

    @property
    def steps(self) -> list[StepRecord]:
        """One record for every duel that was chosen."""
        return [*self._steps, *self._step_records(self.round - self._offset)]

    @abstractmethod
    def _setting(self) -> RoundSetting:
        """What the current round is played with, under the current hyperparameters."""

    @property
    def _offset(self) -> int:
        """The number of duels in all completed rounds."""
        return sum(self.sizes[: len(self.records)])

    def _begin(self) -> None:
        self._plan = Plan(self.active, self.seed, self._offset)
        if self.finished:
            return
        self._kernel, self._current = self._fixed_kernel(), self._setting()
        self.active.begin(self._kernel, self._current, self._past())

    def _fixed_kernel(self) -> ScaleKernel:
        return self.learner.covar_module().requires_grad_(False)

    def tell(self, query: Query, answer: float | None) -> None:
        """See the base class; the last answer of a round eliminates items."""
        super().tell(query, answer)
        self._close_if_complete()

    def plan_round(self) -> Tensor:
        r"""All pairs of the current round that nobody was asked yet, in their order.

        They are what :meth:`ask` would return one after the other, whatever the answers.

        Returns:
            ``k x 2 x d``-dim pairs, as they are to be shown; all ``N_r`` of the round unless
            some were asked by :meth:`ask`.

        Raises:
            UnsupportedError: If no duel is left to be asked before others are answered.
        """
        self._check_open()
        self._plan.extend(self._current.size)
        self._shown = self.round
        return torch.stack([items for items, _ in self._plan.pairs[self.round - self._offset :]])

    def complete_round(self, answers: Tensor | Sequence[float | None]) -> None:
        r"""Answer the whole plan; the same as asking and telling its pairs one by one.

        Args:
            answers: One for each pair of :meth:`plan_round`, for the pair as shown: 1 the
                first won, 0 the second, 0.5 no preference, ``None`` skipped.

        Raises:
            StaleQueryError: If there is no plan, :meth:`ask` overtook it, or a query is open.
            ComparisonDataError: If there are more or fewer answers than pairs, or one is no
                answer; names the row, and nothing is recorded.
        """
        if self._shown != self.round:
            raise StaleQueryError("There is no current plan: call plan_round() first.")
        if self._open:
            raise StaleQueryError(f"Queries {self._waiting()} are open: tell their answers first.")
        told = _checked_answers(answers, self._current.size + self._offset - self.round)
        for answer in told:
            self.tell(self.ask(), answer)

    def _choose(self, query_id: int, annotator: str | None) -> Query:
        self._check_open()
        return super()._choose(query_id, annotator)

    def _refit(self) -> None:
        """Hyperparameters are learnt between rounds alone, so that no answer moves a pair."""

    def _pair(self, annotator: str | None) -> Pair:
        position = self.round - self._offset
        self._plan.extend(position)
        return self._plan.pairs[position - 1]

    def _check_open(self) -> None:
        """Raise unless there is a duel to be asked."""
        self._close_if_complete()
        if self.finished:
            raise UnsupportedError(_ending(self))
        if self.round == self._offset + self._current.size:
            raise UnsupportedError(
                f"Round {self._current.number} waits for the answers to the queries "
                f"{self._waiting()}, on which the next one depends."
            )

    def _waiting(self) -> list[int]:
        return [query.id for query in self._open.values()]

    def _close_if_complete(self) -> None:
        if not self.finished and len(self.history) == self._offset + self._current.size:
            self.learner.refit()
            self._close()

    def _close(self) -> None:
        """Eliminate, and begin the next round."""
        stop = self._offset + self._current.size
        answered = self._past() + self._answered(self._offset, stop)
        share, num_items = self.active.share, self.active.num_items
        self._steps += self._step_records(self._current.size)
        closing = self._setting()
        seed = derive_seed(self.seed, "elimination", closing.number)
        outcome = self.active.close(self._fixed_kernel(), closing, answered, seed)
        self._values.append(dict(self.learner.values))
        self.records.append(RoundRecord(self._current, closing, outcome, share, num_items))
        self._begin()

    def _past(self) -> list[AnsweredPair]:
        """The answered duels of former rounds that the current one uses."""
        return self._answered(0, self._offset) if self.reuse_data else []

    def _answered(self, start: int, stop: int) -> list[AnsweredPair]:
        """Answered duels of two different items, in the order in which they were asked."""
        duels = sorted(self.history, key=lambda answered: answered.query.id)
        return answered_pairs(duels[start:stop], self.space.bounds)

    def _step_records(self, count: int) -> list[StepRecord]:
        """The log of the current round's first duels."""
        if not count:
            return []
        pairs = torch.stack([items for items, _ in self._plan.pairs[:count]])
        past = self._past()
        pairs = torch.cat([*(duel.items.unsqueeze(0) for duel in past), pairs])
        pairs = self.space.normalize(pairs)
        unit, now = self._kernel.base_kernel, self._current
        return step_records(unit, now, pairs, len(past), self._offset, self.active.share)

    def _progress(self) -> dict[str, Any]:
        planned = self._plan.pairs[self.round - self._offset :]
        return {
            **super()._progress(),
            "rounds": [dict(values) for values in self._values],
            "plan": [[items.tolist(), rows] for items, rows in planned],
            "shown": self._shown,
        }

    def _restore(self, progress: dict[str, Any]) -> None:
        super()._restore(progress)
        self._shown = progress["shown"]
        chosen = [answered.query for answered in self.history] + [*self._open.values()]
        duels = sorted(chosen, key=lambda query: query.id)
        pairs = [(query.items.to(self.space.bounds), query.indices) for query in duels]
        for values in progress["rounds"]:
            self._plan.pairs = pairs[self._offset : self._offset + self._current.size]
            self.learner.values = dict(values)
            self._close()
        for items, rows in progress["plan"]:
            shown = torch.tensor(items, dtype=torch.double).to(self.space.bounds)
            pairs.append((shown, None if rows is None else (rows[0], rows[1])))
        for pair in pairs[self._offset :]:
            self._plan.put(pair)


def _ending(strategy: RoundStrategy) -> str:
    """Why no duel is left to be asked: all were, or a small certificate ended the rounds."""
    answered, horizon = len(strategy.history), sum(strategy.sizes)
    if answered == horizon:
        return f"All {answered} duels are answered: nothing is left to ask."
    why = "A single item is left" if strategy.active.num_items == 1 else "`epsilon` is reached"
    return f"{why} after {answered} of {horizon} duels: nothing is left to ask."


def _checked_answers(answers: Tensor | Sequence[float | None], count: int) -> list[float | None]:
    given: object = answers.tolist() if isinstance(answers, Tensor) else answers
    if not isinstance(given, Iterable) or isinstance(given, str):
        raise ComparisonDataError(
            f"`answers` must be a list or a tensor, one for each planned pair, not {answers!r}."
        )
    told = list(given)
    if len(told) != count:
        raise ComparisonDataError(f"`answers` has {len(told)} rows for {count} planned pairs.")
    for row, answer in enumerate(told):
        if answer is not None and answer not in (0.0, 0.5, 1.0):
            raise ComparisonDataError(
                f"`answers` row {row} is {answer!r}: an answer is 1, 0, 0.5 or None (skip)."
            )
    return told


def _whole(
    space: SearchSpace, ci_scale: Scale, regularizer: Regularizer, refine: bool, seed: int
) -> ActiveChoices | ActiveBox:
    """The active set before any elimination."""
    if space.choices is not None:
        return ActiveChoices(space, regularizer, ci_scale)
    if regularizer != "rkhs":
        raise UnsupportedError(f"`regularizer` {regularizer!r} needs `choices`.")
    return ActiveBox(space, ci_scale, derive_seed(seed, "witness", 0), refine)
