r"""What strategies that duel under a model of the utility share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.finite import FiniteEngine, FinitePosterior, Regularizer, argmax_with_random_ties
from botorch_pref.queries import Duel, Query
from botorch_pref.randomness import derive_seed
from botorch_pref.space import SearchSpace
from botorch_pref.strategies.base import Answered, Strategy
from botorch_pref.strategies.learner import UtilityLearner

_SAME_ITEM = 1e-3  # of the range of every dimension of a box

# A `2 x d`-dim pair, and its rows in the choices where there are choices.
Pair = tuple[Tensor, tuple[int, int] | None]


class UtilityStrategy(Strategy):
    r"""Asks duels, models the utility, and recommends the largest posterior mean.

    Args:
        bounds: ``2 x d``-dim box, or
        choices: ``n x d``-dim table of items, or
        space: a search space.
        seed: The seed of all draws.
        hyperparameters: ``"evidence"`` to learn them, or fixed values; see
            :class:`~botorch_pref.strategies.learner.UtilityLearner`.
        kappa: ``"laplace"``, or the papers' answer-free curvature ``1 / kappa``.
        regularizer: See :class:`~botorch_pref.finite.FiniteEngine`; choices only.

    Attributes:
        round: The number of duels that were chosen.
        num_identical: The number of answered duels in which an item met itself.
    """

    def __init__(
        self,
        bounds: Tensor | None = None,
        choices: Tensor | None = None,
        space: SearchSpace | None = None,
        *,
        seed: int = 0,
        hyperparameters: Literal["evidence"] | Mapping[str, Any] = "evidence",
        kappa: Literal["laplace"] | float = "laplace",
        regularizer: Regularizer = "rkhs",
    ) -> None:
        super().__init__(bounds=bounds, choices=choices, space=space, seed=seed)
        self.hyperparameters = hyperparameters
        self.learner = UtilityLearner(self.space, hyperparameters, kappa, regularizer, self.seed)
        self.round = 0
        self.num_identical = 0

    def recommend(self) -> Tensor:
        r"""The item with the largest posterior mean: of all choices, or of those asked.

        Raises:
            ComparisonDataError: On a box, if nothing was asked yet.
        """
        if self.space.choices is not None:
            return self.space.choices[self.recommend_index()]
        asked = self.asked_items()
        if not len(asked):
            raise ComparisonDataError("Nothing was answered yet, so nothing is recommended.")
        with torch.no_grad():
            mean = self.learner.model().posterior(asked.unsqueeze(-2)).mean
        return asked[int(mean.argmax())]

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

    def _refit(self) -> None:
        """Learn hyperparameters anew, if it is time to."""
        self.learner.refit()

    def _rows(self, first: int, second: int) -> Pair:
        """Two rows of the choices."""
        return self.space.table[[first, second]], (first, second)

    def _best_row(self, values: Tensor, stream: str = "tie") -> int:
        """The row of the largest of ``n`` values, ties broken by this round's seed."""
        generator = torch.Generator().manual_seed(derive_seed(self.seed, stream, self.round))
        noise = torch.rand(len(values), generator=generator, dtype=torch.double)
        return int(argmax_with_random_ties(values, noise))

    def _same(self, items: Tensor, other: Tensor) -> Tensor:
        """Which of ``... x d`` items a person could not tell from another."""
        gap = self.space.normalize(items) - self.space.normalize(other)
        return gap.abs().amax(-1) <= _SAME_ITEM

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
        if not isinstance(query, Duel):
            raise ComparisonDataError(f"Query {query.id} is no duel.")
        if answered.answer is not None and not self.learner.add(query, answered.answer):
            self.num_identical += 1

    def _options(self) -> dict[str, Any]:
        fixed = self.hyperparameters
        return {
            "hyperparameters": fixed if fixed == "evidence" else dict(self.learner.values),
            "kappa": self.learner.kappa,
            "regularizer": self.learner.regularizer,
        }

    def _progress(self) -> dict[str, Any]:
        return {
            "round": self.round,
            "hyperparameters": dict(self.learner.values),
            "num_fitted": self.learner.num_fitted,
        }

    def _restore(self, progress: dict[str, Any]) -> None:
        self.round = progress["round"]
        self.learner.values = dict(progress["hyperparameters"])
        self.learner.num_fitted = progress["num_fitted"]
