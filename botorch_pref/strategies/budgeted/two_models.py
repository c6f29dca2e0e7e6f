r"""Strategies with one model of duels and one of values, which share nothing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from botorch_pref.queries import Duel, Evaluate
from botorch_pref.space import SearchSpace
from botorch_pref.strategies.budgeted.beliefs import Beliefs
from botorch_pref.strategies.budgeted.options import ModelSettings
from botorch_pref.strategies.budgeted.step import OptimisticStep
from botorch_pref.strategies.budgeted.strategy import BudgetedStrategy


class TwoModelStrategy(BudgetedStrategy):
    r"""A budgeted strategy with a regression of duels and another one of values.

    The models, the multiples of standard deviations and when hyperparameters are learnt are those
    of Xu, Joshi, Singh and Dubrawski (2020), App. B. It recommends the measured item of the
    largest posterior mean; without values, that item of those chosen for duels. Values that others
    are measuring, or that were skipped, are taken as expected meanwhile, and not asked for again.

    Attributes:
        beliefs: The data and both models.
    """

    settings_type = ModelSettings
    settings: ModelSettings

    def __init__(
        self,
        bounds: Tensor | None = None,
        choices: Tensor | None = None,
        space: SearchSpace | None = None,
        *,
        seed: int = 0,
        **options: Any,
    ) -> None:
        super().__init__(bounds, choices, space, seed=seed, **options)
        self.beliefs = Beliefs(self.space, self.settings, self.seed)

    def _step(self) -> OptimisticStep:
        """The step of the next query, after the models learnt what it is time to learn."""
        self.beliefs.learn()
        beliefs = self.beliefs.without(self._unmeasured())
        return OptimisticStep(beliefs, 1 + self._num_later(), self.seed)

    def _add(self, query: Duel | Evaluate, answer: float) -> None:
        self.beliefs.add(query, answer)

    @torch.no_grad()
    def _recommended(self) -> tuple[Tensor, int | None] | None:
        return self.beliefs.best()

    def _progress(self) -> dict[str, Any]:
        return super()._progress() | {"beliefs": self.beliefs.progress()}

    def _restore(self, progress: dict[str, Any]) -> None:
        super()._restore(progress)
        self.beliefs.restore(progress["beliefs"])
