r"""COMP-GP-UCB: duels are cheap, values are expensive.

Y. Xu, A. Joshi, A. Singh and A. Dubrawski, *Zeroth Order Non-convex Optimization with
Dueling-Choice Bandits* (2020), cited as Xu et al. (2020).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.models import SingleTaskGP
from botorch.models.model import Model
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from botorch_pref.acquisition.comparison_filtered_ucb import ComparisonFilteredUCB
from botorch_pref.acquisition.expert_augmented_lcb import ExpertAugmentedLCB
from botorch_pref.acquisition.utils import upper_bound
from botorch_pref.data.checks import checked_nonnegative, checked_positive, is_positive
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.models.borda_gp import UNIFORM_VARIANCE, BordaGP, isotropic_kernel
from botorch_pref.queries import Query
from botorch_pref.randomness import derive_seed
from botorch_pref.space.maximize import Feasible, best_first
from botorch_pref.space.search_space import Maximum
from botorch_pref.strategies.base import Candidate, Chosen, next_best
from botorch_pref.strategies.budgeted import BudgetedStrategy, Kind, QueryRecord
from botorch_pref.strategies.regression import Regression, standardised_gp
from botorch_pref.strategies.state import Entry, number, whole
from botorch_pref.strategies.utility import KernelArgument, own_kernel

RAW_SAMPLES = 512
LEAST_GAMMA = 0.02
GAMMA_STREAK = 10  # duels in a row after which gamma is multiplied
_STARTS = 64  # the most promising items asked so far, from which searches start
_REFIT_DUELS, _REFIT_VALUES = 20, 5  # more answers, after which hyperparameters are learnt again
_VALUE_NOISE = 1e-4  # a variance, in squared standard deviations of the values


@dataclass(frozen=True)
class FilterRecord(QueryRecord):
    r"""What was known when COMP-GP-UCB chose a query.

    The phase is ``"initial"``, ``"duels"`` (phase 1) or ``"filtered"`` (phase 2).

    Attributes:
        width: ``beta sd(x)`` of how often the item wins, before the query; a probability.
        gamma: The width below which items are measured.
        lower_bound: The lower bound on how often the best item wins.
        feasibility: ``phi(x)``.
    """

    width: float = math.nan
    gamma: float = math.nan
    lower_bound: float = math.nan
    feasibility: float = math.nan


class OptimisticStep:
    """The upper bounds of step ``t = 1, 2, ...``, of duels and of values, and their maximisers."""

    def __init__(self, strategy: CompGPUCB, number: int) -> None:
        self.duels, self.values, self.space = strategy.duels, strategy.values, strategy.space
        self.pending = strategy._unmeasured()
        self.avoid = strategy._items_of(self.pending)
        self.asked = torch.cat([self.values.items, self.duels.items])
        self.seed = derive_seed(strategy.seed, "optimizer", number)
        self.beta = 0.5 * math.log(2.0 * number) if strategy.beta is None else strategy.beta

    @cached_property
    def borda(self) -> BordaGP:
        """The model of how often items win."""
        model = self.duels.model()
        assert isinstance(model, BordaGP)
        return model

    @cached_property
    def objective(self) -> SingleTaskGP:
        """The model of values, where pending ones are as expected."""
        return self.values.model(self.pending)

    def of_duels(self) -> AcquisitionFunction:
        """The upper bound of how often an item wins."""
        return _UpperBound(self.borda, self.beta)

    def of_values(self) -> AcquisitionFunction:
        """The upper bound of the objective, in standard deviations of the values."""
        return ExpertAugmentedLCB(self.objective, None, self.beta, 0.0)  # no expert

    def maximum(self, rule: AcquisitionFunction, feasible: Feasible | None = None) -> Candidate:
        """The feasible item of the largest value that is not pending."""
        found = self._searched(rule, feasible)
        return Candidate.of(next_best(found, self.space, rule, self.seed, self.avoid, feasible))

    def to_duel(self) -> Candidate:
        """The item of the largest upper bound of how often it wins."""
        return Candidate.of(self._searched(self.of_duels()))

    @torch.no_grad()
    def interval(self, items: Tensor) -> tuple[Tensor, Tensor]:
        """The bounds of how often ``... x d``-dim items win."""
        return self.borda.interval(items, self.beta)

    def width(self, item: Tensor) -> float:
        """``beta sd`` of how often an item wins."""
        lower, upper = self.interval(item)
        return 0.5 * (float(upper) - float(lower))

    @property
    def first_width(self) -> float:
        """``beta sd`` of how often any item wins, before any duel was answered."""
        return self.beta * UNIFORM_VARIANCE**0.5

    @torch.no_grad()
    def _searched(self, rule: AcquisitionFunction, feasible: Feasible | None = None) -> Maximum:
        starts = self.asked
        if len(starts):
            rows = best_first(rule(starts.unsqueeze(-2)))[:_STARTS]
            if feasible is not None and self.duels.answers:  # this item passes the filter
                surest = self.interval(starts)[0].argmax()
                rows = torch.cat([rows, surest.view(1)])
            starts = starts[rows]
        return self.space.maximize(
            rule,
            seed=self.seed,
            starts=starts.unsqueeze(-2),
            raw_samples=RAW_SAMPLES,
            feasible=feasible,
        )


class _UpperBound(AcquisitionFunction):
    """``mean + beta sd``, with the one solve that a model of duels needs for both."""

    def __init__(self, model: Model, beta: float) -> None:
        super().__init__(model)
        self.beta = beta

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """The bounds at ``b x 1 x d``-dim items."""
        return upper_bound(self.model, X, self.beta)


@dataclass(kw_only=True, eq=False, repr=False)
class CompGPUCB(BudgetedStrategy):
    r"""Optimisation with duels against random opponents and with values, Xu et al. (2020).

    A duel of an item against a uniformly random one is an unbiased sample of how often the item
    wins. Phase 1 asks only duels, of the item that may win most often, until that is known well
    enough. Phase 2 takes the item that may have the largest value of all that may win nearly as
    often as the best; where duels know it well it is measured, else it is duelled (Algorithm 1).
    ``ask`` returns a :class:`~botorch_pref.queries.Duel`, whose first item is the chosen one, or an
    :class:`~botorch_pref.queries.Evaluate`. Values are maximised. Every query that was chosen
    counts as paid, skipped or not. The recommendation is the measured item of the largest
    posterior mean; with a ``gamma`` of 0, where duels are decided by the objective and no value is
    ever chosen, it is the best item in duels.

    Both models are ordinary regressions, and no link is assumed: a duel is data of its first item
    alone, as the opponent was drawn at random from all other items. Hyperparameters are learnt
    again after 20 duels or 5 values, with BoTorch's dimension-scaled prior of the lengthscale and
    a log-normal prior of the variance: without them (App. B) they may end at a bound after a few
    duels. Values that others are measuring, or that were skipped, are taken as expected meanwhile,
    and not asked for again.

    Example:
        >>> strategy = CompGPUCB(bounds=bounds, duel_cost=0.1, value_cost=1, budget=100)
        >>> while not strategy.finished:
        ...     query = strategy.ask()
        ...     strategy.tell(query, answer(query))

    Args:
        bounds, choices, space: The domain, see :class:`~botorch_pref.strategies.Strategy`.
        beta: Multiplies standard deviations; None for ``0.5 log(2 t)`` of App. B at the
            ``t``-th query after the initial design.
        covar_module: The prior covariance of both models, or what makes one of ``d``; by
            default a scaled squared exponential kernel with one lengthscale.
        gamma: The width of the Borda function below which an item is measured; None for a
            quarter of the slack and at least 0.02. With 0 there are no values after the
            initial ones.
        gamma_factor: What ``gamma`` is multiplied by after ten duels in a row, at least 1;
            with 1 phase 1 may never end.
        borda_slack: ``L_2 zeta``, at least 0: by how much, as a probability, the best item by
            value may fall short of the best in duels. 0 if duels are decided by the objective.
            For a bias ``zeta`` (Assumption 1) and logistic duels it is a quarter of ``zeta``
            over the range of the objective, which the paper's formulas take to be 1.
        **options: Seed, prices, budget, initial design and what is known before, see
            :class:`~botorch_pref.strategies.BudgetedStrategy`; the second item of a known duel
            must have been drawn at random as well.

    Raises:
        ComparisonDataError: If an option is out of range; names it.
        SearchSpaceError: If the domain cannot be used.

    Attributes:
        records: Why each query was asked, by its number.
        phase: 1 or 2.
        current_gamma: The width below which an item is measured now.
        duels: The duels that were answered, and the regression on them.
        values: The evaluations and their regression.
    """

    beta: float | None = None
    covar_module: KernelArgument = None
    gamma: float | None = None
    gamma_factor: float = 2.0
    borda_slack: float = 0.08

    record_type: ClassVar[type[QueryRecord]] = FilterRecord
    _entries = BudgetedStrategy._entries | {
        "duels": Entry("duels"),
        "values": Entry("values"),
        "phase": Entry("phase", whole(1, 2)),
        "gamma": Entry("current_gamma", number(0.0, endless=True)),
        "streak": Entry("_streak", whole(0, GAMMA_STREAK - 1)),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        self.beta = None if self.beta is None else checked_positive("beta", self.beta)
        self.borda_slack = checked_nonnegative("borda_slack", self.borda_slack)
        if self.gamma is not None and self.gamma not in (0, math.inf):
            self.gamma = checked_positive("gamma", self.gamma)
        if not (is_positive(self.gamma_factor) and self.gamma_factor >= 1):
            raise ComparisonDataError(
                f"`gamma_factor` must be at least 1, not {self.gamma_factor!r}."
            )
        gamma = max(self.borda_slack / 4, LEAST_GAMMA) if self.gamma is None else self.gamma
        self.current_gamma = float(gamma)
        self.phase, self._streak = 1, 0  # of duels in a row
        kernel = own_kernel(self.covar_module, self.space)
        # With one value nothing is known of scales.
        known: dict[str, Any] = {"least": 2, "warm": True}
        self.duels = Regression(self.space, BordaGP.from_duels, kernel, refit=_REFIT_DUELS, **known)
        self.values = Regression(
            self.space,
            partial(standardised_gp, noise=_VALUE_NOISE),
            kernel or isotropic_kernel(torch.Size(), self.space.bounds, 1.0),
            refit=_REFIT_VALUES,
            **known,
        )
        for answered in self.known:
            self._learn(answered)

    def _next(self) -> Chosen:
        step = self._step()
        if not self.duels.answers:  # by the prior all items are alike
            chosen = self._uniform("first", len(self.records))
            record = FilterRecord("duel", "duels", step.first_width, self.current_gamma)
        elif self.phase == 1:
            chosen = step.to_duel()
            width = step.width(chosen.item)
            record = FilterRecord("duel", "duels", width, self.current_gamma)
        else:
            record, chosen = self._filtered(step)
        self._advance(record)
        return Chosen(record, chosen)

    def _advance(self, record: FilterRecord) -> None:
        """Count a query in a streak of duels, which multiplies gamma, and maybe end phase 1."""
        self._streak = self._streak + 1 if record.kind == "duel" else 0
        if self._streak == GAMMA_STREAK:
            self.current_gamma, self._streak = self.current_gamma * self.gamma_factor, 0
        if record.width <= record.gamma:
            self.phase = 2

    def _filtered(self, step: OptimisticStep) -> tuple[FilterRecord, Candidate]:
        """Phase 2: the most promising item by value of those that duels leave."""
        pool = torch.cat([self.space.sample(RAW_SAMPLES, step.seed), step.asked])
        bound = float(step.interval(pool)[0].amax())
        if self.values.answers:
            rule = ComparisonFilteredUCB(
                step.objective,
                step.borda,
                step.beta,
                borda_slack=self.borda_slack,
                lower_bound=bound,
            )
            found = step.maximum(step.of_values(), rule.feasibility)
        else:
            found = step.maximum(step.of_duels())
        width, upper = step.width(found.item), float(step.interval(found.item)[1])
        kind: Kind = "duel" if width >= self.current_gamma else "value"
        bounds = (bound, upper - bound + self.borda_slack)
        return FilterRecord(kind, "filtered", width, self.current_gamma, *bounds), found

    def _step(self) -> OptimisticStep:
        """The step of the next query, after hyperparameters are learnt that are due."""
        self.duels.learn()
        self.values.learn()
        return OptimisticStep(self, 1 + self._num_later())

    def _add(self, query: Query, answer: float) -> None:
        (self.duels if query.compares else self.values).add(query, answer)

    def _recommended(self) -> Candidate:
        by_duels = not self.values.answers or (self.gamma == 0 and self.duels.answers)
        return self.duels.best() if by_duels else self.values.best()
