r"""KernelSelfSparring: duels of the maximisers of two posterior draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Unpack

from torch import Tensor

from botorch_pref.data.checks import check_count
from botorch_pref.queries import Duel, Evaluate
from botorch_pref.randomness import derive_seed
from botorch_pref.space import SearchSpace
from botorch_pref.strategies.budgeted import (
    BudgetedStrategy,
    BudgetOptions,
    BudgetSettings,
    Chosen,
    QueryRecord,
)
from botorch_pref.strategies.budgeted.options import check_noise
from experiments.baselines.kernel_self_sparring.regression import SparringRegression


class KernelSelfSparringOptions(BudgetOptions, total=False):
    r"""The options of :class:`KernelSelfSparring`; see :class:`SparringSettings`."""

    borda_noise: float
    refit_duels: int


@dataclass(frozen=True)
class SparringSettings(BudgetSettings):
    r"""Settings of KernelSelfSparring; for prices and budget see the base.

    Attributes:
        borda_noise: The variance of an answer.
        refit_duels: After how many more duels hyperparameters are learnt at the earliest; duels
            must have grown by a tenth, too.
    """

    num_initial_duels: int = 100
    num_initial_values: int = 0
    borda_noise: float = 0.25
    refit_duels: int = 20

    def _check(self) -> None:
        super()._check()
        check_noise("borda_noise", self.borda_noise)
        check_count("refit_duels", self.refit_duels, 1)


class KernelSelfSparring(BudgetedStrategy):
    r"""Thompson sampling against itself, with a Gaussian process.

    Sui, Zhuang, Burdick and Yue (2017), KernelSelfSparring with two arms, a baseline of Xu, Joshi,
    Singh and Dubrawski (2020). Two independent draws of the posterior are maximised, and their
    maximisers duel. A duel ``(x, x')`` with answer ``z`` is two values of an ordinary regression,
    ``z`` at ``x`` and ``1 - z`` at ``x'``: the regression is on how often an item wins against
    those that are drawn, which changes as they do. The initial design is duels of random items,
    and they are learnt from in the same way; initial values, if any, are not.

    Prior and noise are those of :class:`~botorch_pref.models.BordaGP`. On choices draws are exact
    and joint; on a box they are differentiable paths. Two draws may have one maximiser, and then
    an item duels itself, which is counted and adds no values. The recommendation is the item of the
    largest posterior mean of those that were in a duel.

    Example:
        >>> strategy = KernelSelfSparring(bounds=bounds, duel_cost=0.1, budget=100)
        >>> query = strategy.ask()

    Attributes:
        regression: The data and their model.
        num_identical: The number of answered duels in which an item met itself.
    """

    settings_type = SparringSettings
    kinds = ("duel",)
    settings: SparringSettings

    def __init__(
        self,
        bounds: Tensor | None = None,
        choices: Tensor | None = None,
        space: SearchSpace | None = None,
        *,
        seed: int = 0,
        **options: Unpack[KernelSelfSparringOptions],
    ) -> None:
        r"""Set up a strategy without data.

        Args:
            bounds: ``2 x d``-dim box, or
            choices: ``n x d``-dim table of items, or
            space: a search space.
            seed: The seed of all draws.
            **options: See
                :class:`~experiments.baselines.kernel_self_sparring.strategy.SparringSettings`.

        Raises:
            ComparisonDataError: If an option is unknown or out of range; names it.
            SearchSpaceError: If the domain cannot be used.
        """
        super().__init__(bounds, choices, space, seed=seed, **options)
        self.num_identical = 0
        self.regression = SparringRegression(
            self.space, self.settings.borda_noise, self.settings.refit_duels, self.seed
        )

    def _next(self) -> Chosen:
        record = QueryRecord("duel", "sparring")
        if not self.regression.values:
            return Chosen(record, *self._uniform("first", len(self.records)))
        self.regression.learn()
        seed = derive_seed(self.seed, "pair", self._num_later())
        (item, row), opponent = self.regression.duel(seed)
        return Chosen(record, item, row, opponent)

    def _add(self, query: Duel | Evaluate, answer: float) -> None:
        if isinstance(query, Duel):
            self.num_identical += not self.regression.add(query, answer)

    def _recommended(self) -> tuple[Tensor, int | None] | None:
        return self.regression.best()

    def _progress(self) -> dict[str, Any]:
        return super()._progress() | {"regression": self.regression.progress()}

    def _restore(self, progress: dict[str, Any]) -> None:
        super()._restore(progress)
        self.regression.restore(progress["regression"])
