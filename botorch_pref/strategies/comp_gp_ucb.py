r"""COMP-GP-UCB: duels are cheap, values are expensive.

Y. Xu, A. Joshi, A. Singh and A. Dubrawski, *Zeroth Order Non-convex Optimization with
Dueling-Choice Bandits* (2020), cited as Xu et al. (2020).

In the constants of the theory at the end of this file, ``Phi`` is the information gain
``log |I + K / eta^2| / 2`` of the prior covariance ``K`` of the items and the variance of the
noise, ``eta^2``; that of an answer is at most 1/4. ``L_1`` is the inverse of the least slope of a
duel's probability in the difference of two values, and ``L_2`` the steepest slope (Proposition 1):
``1 / (4 s)`` for the logistic link of scale ``s``.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.models import SingleTaskGP
from botorch.models.model import Model
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from botorch_pref.acquisition.base import upper_bound
from botorch_pref.acquisition.comparison_filtered_ucb import (
    ComparisonFilteredUCB,
    largest_lower_bound,
)
from botorch_pref.acquisition.expert_augmented_lcb import ExpertAugmentedLCB
from botorch_pref.data.checks import (
    check_count,
    check_word,
    checked_flag,
    checked_positive,
    endless_from_json,
    endless_to_json,
    is_positive,
)
from botorch_pref.exceptions import ComparisonDataError, SearchSpaceError
from botorch_pref.models.borda_gp import UNIFORM_VARIANCE, BordaGP, isotropic_kernel
from botorch_pref.queries import Duel, Evaluate
from botorch_pref.randomness import derive_seed
from botorch_pref.space.maximize import Feasible
from botorch_pref.space.search_space import Maximum, SearchSpace
from botorch_pref.strategies.base import next_best
from botorch_pref.strategies.budgeted import BudgetedStrategy, Chosen, QueryRecord
from botorch_pref.strategies.regression import Regression, standardised_gp
from botorch_pref.strategies.utility import KernelArgument, own_kernel

__all__ = [
    "CompGPUCB",
    "FilterRecord",
    "Schedule",
    "beta_theory",
    "duel_budget_rule",
    "phase1_regret_bound",
]

Beta = Literal["log", "dimension"] | float
LowerBound = Literal["running", "frozen", "cummax"]
Remainder = Literal["stop", "duel"]

RAW_SAMPLES = 512
LEAST_GAMMA = 0.02
_STARTS = 64  # the most promising items asked so far, from which searches start
_REFIT_DUELS, _REFIT_VALUES = 20, 5  # more answers, after which hyperparameters are learnt again
_VALUE_NOISE = 1e-4  # a variance, in squared standard deviations of the values


@dataclass(frozen=True)
class FilterRecord(QueryRecord):
    r"""What was known when COMP-GP-UCB chose a query.

    The phase is ``"initial"``, ``"duels"`` (phase 1), ``"filtered"`` (phase 2), or ``"remainder"``
    where what should be measured cannot be paid any more and is duelled.

    Attributes:
        width: ``beta sd(x)`` of how often the item wins, before the query; a probability.
        gamma: Below which width items are measured.
        slack: By how much an item may fall short of the best in duels.
        lower_bound: What the best item in duels was taken to reach.
        feasibility: ``phi(x)``.
        empty: Whether no item passed the filter, so that the most promising in duels was taken.
    """

    width: float = math.nan
    gamma: float = math.nan
    slack: float = math.nan
    lower_bound: float = math.nan
    feasibility: float = math.nan
    empty: bool = False


def beta_at(beta: Beta, t: int, dim: int) -> float:
    r"""How many standard deviations a bound is from the mean at step ``t = 1, 2, ...``.

    Args:
        beta: ``"log"``, ``0.5 log(2 t)`` of App. B; ``"dimension"``, ``sqrt(0.2 d log(2 d t))``
            of the public code of MF-GP-UCB; or the multiple itself.
        t: The step, which counts all queries after the initial design.
        dim: ``d``.
    """
    if beta == "log":
        return 0.5 * math.log(2.0 * t)
    if beta == "dimension":
        return math.sqrt(0.2 * dim * math.log(2.0 * dim * t))
    return float(beta)


class OptimisticStep:
    r"""The upper bounds of one step, of duels and of values, and where they are largest.

    Args:
        strategy: Whose step it is; its regressions are not changed.
        number: ``t = 1, 2, ...``, on which multiples of standard deviations depend.

    Attributes:
        beta: The multiple of this step.
        seed: Of everything random in this step.
    """

    def __init__(self, strategy: CompGPUCB, number: int) -> None:
        self.duels, self.values, self.space = strategy.duels, strategy.values, strategy.space
        self.pending = strategy._unmeasured()
        self.avoid = strategy._items_of(self.pending)
        self.seed = derive_seed(strategy.seed, "optimizer", number)
        self.beta = beta_at(strategy.beta, number, self.space.dim)

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

    @torch.no_grad()
    def maximum(
        self,
        rule: AcquisitionFunction,
        feasible: Feasible | None = None,
        known: Tensor | None = None,
    ) -> Maximum:
        """Where a rule is largest, but for pending items; ``known`` ones are feasible."""
        found = self.searched(rule, feasible, known)
        return next_best(found, self.space, rule, self.seed, self.avoid, feasible)

    def to_duel(self) -> Maximum:
        """Where the upper bound of how often an item wins is largest."""
        return self.searched(self.of_duels())

    @torch.no_grad()
    def searched(
        self,
        rule: AcquisitionFunction,
        feasible: Feasible | None = None,
        known: Tensor | None = None,
    ) -> Maximum:
        """See :meth:`~botorch_pref.space.SearchSpace.maximize`."""
        starts = self._starts(rule, feasible is not None)
        if known is not None:
            starts = torch.cat([starts, known.unsqueeze(-2)])
        return self.space.maximize(
            rule, seed=self.seed, starts=starts, raw_samples=RAW_SAMPLES, feasible=feasible
        )

    @torch.no_grad()
    def ends(self, item: Tensor) -> tuple[float, float]:
        """The bounds of how often an item wins."""
        lower, upper = self.borda.interval(item, self.beta)
        return float(lower), float(upper)

    def width(self, item: Tensor) -> float:
        """``beta sd`` of how often an item wins."""
        lower, upper = self.ends(item)
        return 0.5 * (upper - lower)

    @property
    def first_width(self) -> float:
        """``beta sd`` of how often any item wins, before any duel was answered."""
        return self.beta * UNIFORM_VARIANCE**0.5

    def asked(self) -> Tensor:
        """The ``k x d``-dim items that were measured or chosen for duels."""
        return torch.cat([self.values.items, self.duels.items])

    @torch.no_grad()
    def _starts(self, rule: AcquisitionFunction, filtered: bool) -> Tensor:
        """Where to start from: what was asked, of a filter the item that surely passes it."""
        asked = self.asked()
        if not len(asked):
            return asked.unsqueeze(-2)
        rows = rule(asked.unsqueeze(-2)).topk(min(_STARTS, len(asked))).indices
        if filtered and self.duels.answers:
            surest = self.borda.interval(asked, self.beta)[0].argmax()
            rows = torch.cat([rows, surest.view(1)])
        return asked[rows].unsqueeze(-2)


class _UpperBound(AcquisitionFunction):
    """As BoTorch's ``UpperConfidenceBound``, by what a model of duels computes in one solve."""

    def __init__(self, model: Model, beta: float) -> None:
        super().__init__(model)
        self.beta = beta

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """The bounds at ``b x 1 x d``-dim items."""
        return upper_bound(self.model, X, self.beta)


@dataclass
class Schedule:
    r"""What COMP-GP-UCB changes from query to query, after the initial design.

    Attributes:
        gamma: Below which width an item is measured.
        slack: ``L_2 zeta_k``.
        phase: 1 or 2.
        streak: How many duels in a row.
        frozen: The lower bound at the last item of phase 1.
        largest: The largest lower bound since the fit ``num_fits`` of the duels' model.
        num_fits: See there.
        level_values: How many values were chosen at this slack.
    """

    gamma: float
    slack: float
    phase: Literal[1, 2] = 1
    streak: int = 0
    frozen: float = -math.inf
    largest: float = -math.inf
    num_fits: int = 0
    level_values: int = 0


class CompGPUCB(BudgetedStrategy):
    r"""Optimisation with duels against random opponents and with values, Xu et al. (2020).

    A duel of an item against a uniformly random one is an unbiased sample of how often the item
    wins. First only duels are asked, of the item that may win most often, until that is known
    well enough. Then the item is taken that may have the largest value of all that may win nearly
    as often as the best; where duels know it well it is measured, else it is duelled (Algorithm
    1; with ``slack_limit`` Algorithm 2). ``ask`` returns a :class:`~botorch_pref.queries.Duel`,
    whose first item is the chosen one, or an :class:`~botorch_pref.queries.Evaluate`. Values are
    maximised. Every query that was chosen counts as paid, skipped or not. With a ``gamma`` of 0,
    where duels are decided by the objective and no value is ever chosen, the recommendation is
    the best item in duels; else it is the measured item of the largest posterior mean.

    Both models are ordinary regressions, and no link is assumed: a duel is data of its first item
    alone, as the opponent was drawn at random from all other items. Hyperparameters maximise the
    marginal likelihood with BoTorch's dimension-scaled prior of the lengthscale and a log-normal
    prior of the variance, not, as in App. B, the likelihood alone, which after a few duels may be
    largest at an end of its range; they are learnt again after 20 duels or 5 values, as there.
    Values that others are measuring, or that were skipped, are taken as expected meanwhile, and
    not asked for again.

    Example:
        >>> options = {"duel_cost": 0.1, "value_cost": 1, "budget": 100}
        >>> strategy = CompGPUCB(bounds=bounds, spend_remainder="duel", **options)
        >>> while not strategy.finished:
        ...     query = strategy.ask()
        ...     strategy.tell(query, answer(query))

    Attributes:
        records: Why each query was asked, by its number.
        schedule: Phase, ``gamma`` and slack.
        duels: The duels that were answered, and the regression on them.
        values: The evaluations and their regression.
    """

    record_type: ClassVar[type[QueryRecord]] = FilterRecord

    def __init__(
        self,
        bounds: Tensor | None = None,
        choices: Tensor | None = None,
        space: SearchSpace | None = None,
        *,
        seed: int = 0,
        beta: Beta = "log",
        covar_module: KernelArgument = None,
        gamma: float | None = None,
        gamma_factor: float = 2.0,
        gamma_streak: int = 10,
        gamma_in_phase_1: bool = True,
        borda_slack: float = 0.08,
        slack_limit: float | None = None,
        slack_factor: float = 2.0,
        lower_bound: LowerBound = "running",
        spend_remainder: Remainder = "stop",
        **options: Any,
    ) -> None:
        r"""Set up a strategy without data.

        Args:
            bounds: ``2 x d``-dim box, or
            choices: ``n x d``-dim table of items, or
            space: a search space.
            seed: The seed of all draws.
            beta: Multiplies standard deviations; see ``beta_at``.
            covar_module: The prior covariance of both models, or what makes one of ``d``; by
                default a scaled squared exponential kernel with one lengthscale.
            gamma: Below which width of the Borda function an item is measured; None for a quarter
                of the slack and at least 0.02. With 0 there are no values after the initial ones.
            gamma_factor: What ``gamma`` is multiplied by after ``gamma_streak`` duels in a row.
            gamma_streak: See there.
            gamma_in_phase_1: Whether ``gamma`` is multiplied in phase 1, which may never end
                otherwise.
            borda_slack: ``L_2 zeta``, at least 0: by how much, as a probability, the best item by
                value may fall short of the best in duels. 0 if duels are decided by the objective.
                For a bias ``zeta`` (Assumption 1) and logistic duels it is a quarter of ``zeta``
                over the range of the objective, which the paper's formulas take to be 1:
                ``range(f) zeta``, their ``gamma``, is no probability otherwise.
            slack_limit: Algorithm 2: ``L_2 zeta_max``, up to which the slack is doubled; None for
                Algorithm 1, which takes the slack for known. Needs a ``budget``.
            slack_factor: What Algorithm 2 multiplies each slack by; 2 in the paper, 1 is enough.
            lower_bound: What the best item in duels is taken to reach: ``"running"``, the largest
                lower bound now; ``"frozen"``, the paper's, the bound at the last item of phase 1;
                ``"cummax"``, the largest so far since the last fit.
            spend_remainder: What happens when a value is chosen that cannot be paid any more:
                ``"stop"``, or ``"duel"`` at that item while there is money.
            **options: Prices, budget and initial design, see
                :class:`~botorch_pref.strategies.BudgetedStrategy`.

        Raises:
            ComparisonDataError: If an option is out of range; names it.
            SearchSpaceError: If the domain cannot be used.
        """
        super().__init__(bounds, choices, space, seed=seed, **options)
        if isinstance(beta, str) and beta not in ("log", "dimension"):
            raise ComparisonDataError(f"`beta` must be a number, log or dimension: {beta!r}.")
        self.beta = beta if isinstance(beta, str) else checked_positive("beta", beta)
        self.covar_module = covar_module
        if borda_slack not in (0, math.inf):
            borda_slack = checked_positive("borda_slack", borda_slack)
        self.borda_slack = borda_slack
        if gamma is not None and gamma not in (0, math.inf):
            gamma = checked_positive("gamma", gamma)
        if not (is_positive(gamma_factor) and gamma_factor >= 1):
            raise ComparisonDataError(f"`gamma_factor` must be at least 1, not {gamma_factor!r}.")
        self.gamma, self.gamma_factor = gamma, gamma_factor
        self.gamma_streak = check_count("gamma_streak", gamma_streak, 1)
        self.gamma_in_phase_1 = checked_flag("gamma_in_phase_1", gamma_in_phase_1)
        self.schedule = Schedule(
            max(borda_slack / 4, LEAST_GAMMA) if gamma is None else gamma, borda_slack
        )
        self.slack_limit = slack_limit
        self.slack_factor = checked_positive("slack_factor", slack_factor)
        check_word("lower_bound", lower_bound, LowerBound)
        check_word("spend_remainder", spend_remainder, Remainder)
        self.lower_bound, self.spend_remainder = lower_bound, spend_remainder
        if slack_limit is not None:
            if not (is_positive(slack_limit) and slack_limit >= borda_slack > 0):
                raise ComparisonDataError(
                    "`slack_limit` must be at least the slack, which must be positive then, not "
                    f"{slack_limit!r} and {borda_slack!r}."
                )
            if self.budget is None:
                raise ComparisonDataError("A `slack_limit` divides a `budget`, so give one.")
        self.duels = Regression(
            self.space, self._duels_model, refit=_REFIT_DUELS, least=2, warm=True
        )
        # With one value nothing is known of scales.
        self.values = Regression(
            self.space, self._values_model, refit=_REFIT_VALUES, least=2, warm=True
        )

    def _next(self) -> Chosen:
        step = self._step()
        schedule = replace(self.schedule)  # a search that fails, or is interrupted, changes nothing
        if not self.duels.answers:  # by the prior all items are alike
            item, row = self._uniform("first", len(self.records))
            record = FilterRecord("duel", "duels", step.first_width, schedule.gamma)
            lower = 0.5 - step.first_width
        else:
            if schedule.phase == 1:
                found = step.to_duel()
                record = FilterRecord("duel", "duels", step.width(found.items[0]), schedule.gamma)
            else:
                record, found = self._filtered(step, schedule)
            item, row = found.items[0], row_of(found)
            lower = step.ends(item)[0]
        if (
            record.kind == "value"
            and self.spend_remainder == "duel"
            and not self.affords(self.value_cost)
        ):
            record = replace(record, kind="duel", phase="remainder")
        self._advance(schedule, record, lower)
        self.schedule = schedule
        return Chosen(record, item, row)

    def _advance(self, schedule: Schedule, record: FilterRecord, lower: float) -> None:
        """Count a query of an item with a lower bound, which may end phase 1."""
        if record.kind == "value":
            schedule.streak = 0
            schedule.level_values += 1
        elif schedule.phase == 2 or self.gamma_in_phase_1:
            schedule.streak += 1
            if schedule.streak == self.gamma_streak:
                schedule.gamma, schedule.streak = schedule.gamma * self.gamma_factor, 0
        if schedule.phase == 1 and record.width <= record.gamma:
            schedule.phase, schedule.frozen = 2, lower
            # The largest so far begins with the bound that the paper freezes.
            schedule.largest, schedule.num_fits = lower, self.duels.num_fits

    def _filtered(self, step: OptimisticStep, schedule: Schedule) -> tuple[FilterRecord, Maximum]:
        """Phase 2: the most promising item by value of those that duels leave."""
        slack = self._slack(schedule)
        bound = self._lower_bound(step, schedule)
        empty = False
        if self.values.answers:
            rule = self._rule(step, slack, bound)
            try:
                found = step.maximum(step.of_values(), rule.feasibility)
            except SearchSpaceError:  # no item that is looked at passes an older bound
                best = step.to_duel()
                with torch.no_grad():
                    empty = float(rule.feasibility(best.items[0])) < 0
                if empty:
                    found = step.maximum(step.of_duels())
                else:
                    found = step.maximum(step.of_values(), rule.feasibility, best.items)
        else:
            found = step.maximum(step.of_duels())
        upper = step.ends(found.items[0])[1]
        width = step.width(found.items[0])
        kind: Literal["duel", "value"] = "duel" if width >= schedule.gamma else "value"
        feasibility = upper - bound + slack
        record = FilterRecord(
            kind, "filtered", width, schedule.gamma, slack, bound, feasibility, empty
        )
        return record, found

    def _slack(self, schedule: Schedule) -> float:
        """The slack now; of Algorithm 2 doubled after its share of the values, up to the limit."""
        limit = self.slack_limit
        if limit is None:
            return schedule.slack
        assert self.budget is not None
        levels = max(1, math.ceil(math.log2(limit / self.borda_slack)))
        share = math.floor(self.budget / self.value_cost)
        if 2 * levels * schedule.level_values >= share and 2 * schedule.slack <= limit:
            schedule.slack *= 2
            schedule.level_values = 0
        return self.slack_factor * schedule.slack

    def _rule(self, step: OptimisticStep, slack: float, bound: float) -> ComparisonFilteredUCB:
        return ComparisonFilteredUCB(
            step.objective, step.borda, step.beta, borda_slack=min(slack, 1e9), lower_bound=bound
        )

    def _lower_bound(self, step: OptimisticStep, schedule: Schedule) -> float:
        """What the best item in duels is taken to reach."""
        if self.lower_bound == "frozen":
            return schedule.frozen
        pool = torch.cat([self.space.sample(RAW_SAMPLES, step.seed), step.asked()])
        running = float(largest_lower_bound(step.borda, step.beta, pool))
        if self.lower_bound == "running":
            return running
        if schedule.num_fits != self.duels.num_fits:
            schedule.num_fits, schedule.largest = self.duels.num_fits, -math.inf
        schedule.largest = max(schedule.largest, running)
        return schedule.largest

    def _step(self) -> OptimisticStep:
        """The step of the next query, after the models learnt what it is time to learn."""
        self.duels.learn()
        self.values.learn()
        return OptimisticStep(self, 1 + self._num_later())

    def _duels_model(self, items: Tensor, answers: Tensor) -> SingleTaskGP:
        return BordaGP.from_duels(
            items,
            answers,
            covar_module=own_kernel(self.covar_module, self.space),
            input_transform=self.space.input_transform(),
        )

    def _values_model(self, items: Tensor, values: Tensor) -> SingleTaskGP:
        kernel = own_kernel(self.covar_module, self.space)
        return standardised_gp(
            self.space,
            items,
            values,
            noise=_VALUE_NOISE,
            covar_module=kernel or isotropic_kernel(items.shape[:-2], items, 1.0),
        )

    def _add(self, query: Duel | Evaluate, answer: float) -> None:
        (self.duels if isinstance(query, Duel) else self.values).add(query, answer)

    def _best_of(self, regression: Regression) -> tuple[Tensor, int | None] | None:
        """The item of the largest posterior mean in one kind of data, and its row."""
        if not regression.answers:
            return None
        query = regression.best(skip_variances=regression is self.duels)
        if isinstance(query, Duel):
            return query.items[0], None if query.indices is None else query.indices[0]
        return query.items, query.indices

    def _recommended(self) -> tuple[Tensor, int | None] | None:
        by_duels = not self.values.answers or (self.gamma == 0 and self.duels.answers)
        return self._best_of(self.duels if by_duels else self.values)

    def _progress(self) -> dict[str, Any]:
        return super()._progress() | {
            "duels": self.duels.progress(),
            "values": self.values.progress(),
            "schedule": endless_to_json(asdict(self.schedule)),
        }

    def _restore(self, progress: dict[str, Any]) -> None:
        super()._restore(progress)
        self.duels.restore(progress["duels"])
        self.values.restore(progress["values"])
        self.schedule = Schedule(**endless_from_json(progress["schedule"]))


def row_of(found: Maximum) -> int | None:
    """The row of the item that was found, in choices."""
    return None if found.indices is None else found.indices[0]


def beta_theory(norm_bound: float, delta: float, info_gain: float) -> float:
    r"""``2 B + sqrt(2 (Phi + 1 + log(1 / delta)))``, Theorems 2 and 3 of Xu et al. (2020).

    With ``delta / 2`` in place of ``delta`` that of their Lemma 5, which has the band for one
    function at all items and steps with probability ``1 - delta / 2``.

    Args:
        norm_bound: ``B``, of the function in the units in which its model works.
        delta: The probability of failure.
        info_gain: ``Phi`` of the queries so far.

    Returns:
        The multiple of standard deviations.

    Raises:
        ComparisonDataError: If an argument is out of range; names it.
    """
    if not 0.0 < delta < 1.0:
        raise ComparisonDataError(f"`delta` must lie between 0 and 1, not {delta!r}.")
    gain = _not_negative("info_gain", info_gain)
    bound = checked_positive("norm_bound", norm_bound)
    return 2.0 * bound + math.sqrt(2.0 * (gain + 1.0 - math.log(delta)))


def phase1_regret_bound(l1: float, gamma: float, zeta: float) -> float:
    r"""``2 L_1 gamma + zeta``, the regret at which phase 1 ends, eqs. (5) and (8).

    Args:
        l1: ``L_1``, in units of the objective.
        gamma: The width that ends phase 1, a probability.
        zeta: The bias of comparisons, in units of the objective.

    Returns:
        The bound on ``f* - f(x)``, at the last item of phase 1.

    Raises:
        ComparisonDataError: If an argument is out of range; names it.
    """
    width = _not_negative("gamma", gamma)
    return 2.0 * checked_positive("l1", l1) * width + _not_negative("zeta", zeta)


def duel_budget_rule(noise: float, beta: float, gamma: float) -> float:
    r"""``eta^2 beta^2 / gamma^2``: about how many duels of one item bring its width to ``gamma``.

    A rule of thumb of this package. With 0.25 and 2.5 it takes 156 duels to get to 0.1, and 3,906
    to get to 0.02, which no budget of 1,000 duels pays for unless ``gamma`` is multiplied.

    Args:
        noise: ``eta^2``, the variance of an answer.
        beta: The multiple of standard deviations.
        gamma: The width, a probability.

    Returns:
        The number.

    Raises:
        ComparisonDataError: If an argument is not positive and finite; names it.
    """
    ratio = checked_positive("beta", beta) / checked_positive("gamma", gamma)
    return checked_positive("noise", noise) * ratio**2


def _not_negative(argument: str, value: float) -> float:
    if not 0.0 <= value < math.inf:
        raise ComparisonDataError(f"`{argument}` must be finite and at least 0, not {value!r}.")
    return float(value)
