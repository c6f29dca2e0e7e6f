r"""What strategies that duel under a model of the utility share."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
from itertools import takewhile

import torch
from botorch.acquisition import AcquisitionFunction, PosteriorMean
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from botorch_pref.acquisition import DuelingThompsonSampling
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.inference.finite import FiniteEngine, FinitePosterior
from botorch_pref.models import PreferenceGP
from botorch_pref.queries import Duel, Query
from botorch_pref.randomness import derive_seed
from botorch_pref.strategies.base import Answered
from botorch_pref.strategies.learning import LearningStrategy

_NO_DIFFERENCE = 1e-9

# A `2 x d`-dim pair, and its rows in the choices where there are choices.
Pair = tuple[Tensor, tuple[int, int] | None]


class UtilityStrategy(LearningStrategy):
    r"""Asks duels, models the utility, and recommends the largest posterior mean.

    For the arguments see :class:`~botorch_pref.strategies.learning.LearningStrategy`.

    Attributes:
        num_identical: The number of answered duels in which an item met itself.
    """

    _asks = (Duel,)
    num_identical = 0

    def recommend(self) -> Tensor:
        r"""The item with the largest posterior mean: of all choices, or of the whole box.

        Raises:
            ComparisonDataError: On a box, if nothing was asked yet.
        """
        if self.space.choices is not None:
            return self.space.choices[self.recommend_index()]
        asked, model = self.asked_items(), self.learner.model()
        if not len(asked):
            raise ComparisonDataError("Nothing was answered yet, so nothing is recommended.")
        if not model.num_observations:  # all items are alike
            return asked[0]
        seed = derive_seed(self.seed, "recommend", self.num_answers)
        return self._best_item(PosteriorMean(model), seed)

    def recommend_index(self) -> int:
        """The row of the recommended item in the choices."""
        return self._best_row(self._posterior().mean)

    @abstractmethod
    def _pair(self, annotator: str | None) -> Pair:
        """The pair of round ``self.round``."""

    def _choose(self, query_id: int, annotator: str | None) -> Query:
        self._refit()
        self.round += 1
        items, indices = self._pair(annotator)
        return Duel(query_id, items, indices, annotator)

    def _rows(self, first: int, second: int) -> Pair:
        """Two rows of the choices."""
        return self.space.table[[first, second]], (first, second)

    def _open_duels(self) -> list[Duel]:
        """The open queries, all of them duels."""
        return [query for query in self._open.values() if isinstance(query, Duel)]

    def _barred_duels(self) -> list[Duel]:
        """Those not to be asked now: the open ones, and what was skipped since the last answer.

        What follows from the answers alone would be the same again, and again.
        """
        skipped = takewhile(lambda done: done.answer is None, reversed(self.history))
        queries = (*self._open.values(), *(done.query for done in skipped))
        return [query for query in queries if isinstance(query, Duel)]

    def _barred_table(self) -> Tensor:
        """Which of all ``n x n`` pairs of choices are barred, in either order."""
        table = self.space.table
        return open_table(self._barred_duels(), len(table)).to(table.device)

    def _unbarred(self, values: Tensor, rows: int | slice) -> Tensor:
        """Some rows of a table of pairs, without those that are barred if others are left."""
        return masked(values, self._barred_table()[rows]) if self._barred_duels() else values

    def _believed_posterior(self) -> FinitePosterior:
        """The posterior of the choices, were the open duels answered as it expects."""
        duels = self._open_duels()
        if not duels:
            return self._posterior()
        engine = copy.deepcopy(self._engine())
        mean = engine.posterior().mean
        for duel in duels:
            pair = torch.tensor(duel.indices, device=mean.device)
            engine.append(pair, _expected_answers(mean[pair]))
        return engine.posterior()

    @torch.no_grad()
    def _believed_model(self) -> PreferenceGP:
        """The model, were the open duels answered as it expects (a "kriging believer")."""
        model = self.learner.model()
        pairs = [duel.items.to(self.space.bounds) for duel in self._open_duels()]
        pairs = [pair for pair in pairs if not torch.equal(pair[0], pair[1])]
        if not pairs:
            return model
        asked = torch.stack(pairs)
        return model.condition_on_pairs(
            asked, _expected_answers(model.posterior(asked).mean.squeeze(-1))
        )

    def _best_mean(self, model: PreferenceGP, stream: str) -> Tensor:
        """The maximiser of the posterior mean over a box; before any answer, any item."""
        seed = self._seed(stream)
        if not model.num_observations:
            return self.space.sample(1, seed)[0]
        return self._best_item(PosteriorMean(model), seed)

    def _opponent(self, rule: AcquisitionFunction, first: Tensor, seed: int) -> Tensor:
        """Where a rule over a box is largest, but for the first arm and barred duels with it."""
        best = self._best_item(rule, seed)
        taken = self._taken(first)
        return self._best_item(rule, seed, taken) if self._same(best, taken).any() else best

    def _taken(self, first: Tensor) -> Tensor:
        """An item and its opponents in barred duels, ``k x d``-dim."""
        taken = [first]
        for duel in self._barred_duels():
            items = duel.items.to(first)
            taken += [items[1 - arm] for arm in (0, 1) if self._same(items[arm], first)]
        return torch.stack(taken)

    def _posterior(self) -> FinitePosterior:
        """The posterior of the choices."""
        return self._engine().posterior()

    def _engine(self) -> FiniteEngine:
        return self.learner.engine(self._answers)

    def _answers(self) -> list[tuple[tuple[int, int] | None, float]]:
        return [
            (answered.query.indices, answered.answer)
            for answered in self.history
            if answered.answer is not None
        ]

    def _learn(self, answered: Answered) -> None:
        query = answered.query
        assert isinstance(query, Duel)
        if answered.answer is not None and not self.learner.add(query, answered.answer):
            self.num_identical += 1


def open_table(duels: Sequence[Duel], num_items: int) -> Tensor:
    """Which of all ``n x n`` pairs of choices are among some duels, in either order."""
    table = torch.zeros(num_items, num_items, dtype=torch.bool)
    for duel in duels:
        if duel.indices is not None:
            table[duel.indices] = table[duel.indices[::-1]] = True
    return table


class ArmPath(AcquisitionFunction):
    """One arm's path as a rule for single items."""

    def __init__(self, rule: DuelingThompsonSampling, arm: int) -> None:
        super().__init__(rule.model)
        self.rule, self.arm = rule, arm

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """The path at ``b x 1 x d``-dim items."""
        return self.rule.arm(self.arm, X.squeeze(-2))


def difference_table(mean: Tensor, covariance: Tensor) -> tuple[Tensor, Tensor]:
    r"""Mean and standard deviation of ``f(x_i) - f(x_j)``.

    Args:
        mean: ``n``-dim utilities.
        covariance: Their ``n x n``-dim covariance.

    Returns:
        Two ``n x n``-dim tables, in the units of the utility.
    """
    variance = covariance.diagonal()
    square = variance.unsqueeze(-1) + variance - 2 * covariance
    return mean.unsqueeze(-1) - mean, square.clamp_min(0.0).sqrt()


def masked(values: Tensor, mask: Tensor) -> Tensor:
    """Values with ``-inf`` where masked, unless nothing finite would be left."""
    left = values.masked_fill(mask, -torch.inf)
    return left if bool(left.isfinite().any()) else values


def _expected_answers(mean: Tensor) -> Tensor:
    """1, 0 or 0.5 for ``... x 2``-dim utilities of pairs."""
    difference = mean[..., 0] - mean[..., 1]
    sign = torch.where(difference.abs() > _NO_DIFFERENCE, difference.sign(), 0.0)
    return 0.5 * (1.0 + sign)
