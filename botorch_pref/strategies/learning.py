r"""What strategies share whose model of the utility is learnt as they go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict

import torch
from botorch.acquisition import AcquisitionFunction
from torch import Tensor

from botorch_pref.inference.finite import Regularizer, argmax_with_random_ties
from botorch_pref.queries import Query
from botorch_pref.randomness import derive_seed
from botorch_pref.space import SearchSpace
from botorch_pref.strategies.apart import best_apart, same_item
from botorch_pref.strategies.base import Strategy
from botorch_pref.strategies.learner import UtilityLearner


class ModelOptions(TypedDict, total=False):
    r"""The arguments of :class:`LearningStrategy` beside the domain."""

    seed: int
    hyperparameters: Literal["evidence"] | Mapping[str, Any]
    kappa: Literal["laplace"] | float
    regularizer: Regularizer
    inducing_points: int | None


class LearningStrategy(Strategy):
    r"""Owns a learner and a round, from which all draws derive.

    Args:
        bounds: ``2 x d``-dim box, or
        choices: ``n x d``-dim table of items, or
        space: a search space.
        seed: The seed of all draws.
        hyperparameters: ``"evidence"`` to learn them, or fixed values; see
            :class:`~botorch_pref.strategies.learner.UtilityLearner`.
        kappa: ``"laplace"``, or the papers' answer-free curvature ``1 / kappa``.
        regularizer: See :class:`~botorch_pref.inference.finite.FiniteEngine`; choices only.
        inducing_points: Of so many items inference goes through on a box, for very many duels; see
            :class:`~botorch_pref.models.PreferenceGP`. By default it is exact.

    Attributes:
        round: The number of queries that were chosen.
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
        inducing_points: int | None = None,
    ) -> None:
        super().__init__(bounds=bounds, choices=choices, space=space, seed=seed)
        self.hyperparameters = hyperparameters
        self.learner = UtilityLearner(
            self.space, hyperparameters, kappa, regularizer, self.seed, inducing_points
        )

    def _refit(self) -> None:
        """Learn hyperparameters anew, if it is time to."""
        self.learner.refit()

    def _seed(self, stream: str, annotator: str | None = None) -> int:
        """The seed of a draw of this round."""
        return derive_seed(self.seed, stream, self.round, annotator)

    def _best_row(self, values: Tensor, stream: str = "tie") -> int:
        """The row of the largest of ``n`` values, ties broken by this round's seed."""
        generator = torch.Generator().manual_seed(self._seed(stream))
        noise = torch.rand(len(values), generator=generator, dtype=torch.double)
        return int(argmax_with_random_ties(values, noise))

    def _same(self, items: Tensor, other: Tensor) -> Tensor:
        """Which of ``... x d`` items a person could not tell from another."""
        return same_item(self.space, items, other)

    def _best_item(
        self,
        rule: AcquisitionFunction,
        seed: int,
        avoid: Tensor | None = None,
        options: dict[str, Any] | None = None,
    ) -> Tensor:
        """Where a rule over a box is largest; away from ``k x d`` items, the best of a sample."""
        asked = self.asked_items()
        if avoid is None:
            starts = asked.unsqueeze(-2)
            return self.space.maximize(rule, seed=seed, starts=starts, options=options).items[0]
        return best_apart(self.space, rule, seed, asked, avoid)

    def _last(self) -> Query | None:
        """The query chosen last, answered or not."""
        for query in (*self._open.values(), *(done.query for done in reversed(self.history))):
            if query.id == self._next_id - 1:
                return query
        return None

    def _options(self) -> dict[str, Any]:
        fixed, inducing = self.hyperparameters, self.learner.inducing_points
        return {
            "hyperparameters": fixed if fixed == "evidence" else dict(self.learner.values),
            "kappa": self.learner.kappa,
            "regularizer": self.learner.regularizer,
            **({} if inducing is None else {"inducing_points": inducing}),
        }

    def _progress(self) -> dict[str, Any]:
        return {
            "round": self.round,
            "hyperparameters": dict(self.learner.values),
            "num_fitted": self.learner.num_fitted,
        }

    def _restore(self, progress: dict[str, Any]) -> None:
        self.round = progress["round"]
        self.learner.restore(progress["hyperparameters"], progress["num_fitted"])
