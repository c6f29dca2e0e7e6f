r"""POP-BO: every item meets the one before it, and may be much better.

Xu, Wang, Jiang, Svetozarevic and Jones, *Principled Preferential Bayesian Optimization* (2024).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import torch
from gpytorch.kernels import ScaleKernel
from torch import Tensor
from torch.quasirandom import SobolEngine

from botorch_pref.acquisition.advantage_ucb import AdvantageUCB
from botorch_pref.acquisition.optimistic_advantage import OptimisticAdvantage, OptimisticChoice
from botorch_pref.acquisition.utils import mean_rule
from botorch_pref.data.blocks import match_items
from botorch_pref.data.checks import check_count, check_word, checked_nonnegative, checked_positive
from botorch_pref.data.choices import Choices
from botorch_pref.data.comparisons import Comparisons
from botorch_pref.data.options import checked_flag
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.likelihood_ratio.confidence_set import SCREENING, slack_rule, slack_to_json
from botorch_pref.likelihoods import LogitLikelihood
from botorch_pref.models.likelihood_ratio_model import LikelihoodRatioModel
from botorch_pref.queries import MOST_CHOSEN, Answered, Choice, Duel, Query
from botorch_pref.space.maximize import best_first
from botorch_pref.strategies.base import Pair, UtilityStrategy, expected_answers
from botorch_pref.strategies.state import Entry, number
from botorch_pref.strategies.utility import PAPER_MODEL, difference_table

Report = Literal["max-mle", "min-sigma"]
"""Which item POP-BO recommends."""

_LINE_SEARCH = 1e-6  # a gap below the tolerance of L-BFGS-B
_CHUNK = 256
_STARTS, _POOL = 4, 192  # items that are refined, of so many and their neighbours
_NEIGHBOURS, _REACH = 64, 0.2  # of the most likely item; of the range of every dimension


@dataclass(kw_only=True, eq=False, repr=False)
class LaplacePOPBO(UtilityStrategy):
    r"""POP-BO's duels by Laplace's posterior, as Lazzaro et al. (2026) run the method.

    The first arm maximises ``h_t(x, x') + beta sigma_t(x, x')`` over the second arm ``x'``, which
    is the first arm of the duel before. For the other arguments see
    :class:`~botorch_pref.strategies.UtilityStrategy`.

    Args:
        beta: Multiplies the papers' ``sigma_t``, which is ``sqrt(lambda)`` times the model's
            standard deviation; at least 0.
        exclude_identical: Whether an item never meets itself. Such a duel has the index 0 and,
            where all others have less, is asked again and again.

    Example:
        >>> strategy = LaplacePOPBO(bounds=bounds, seed=0)
        >>> query = strategy.ask()
        >>> strategy.tell(query, 1.0)
    """

    beta: float = 1.0
    exclude_identical: bool = True

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        self.beta = checked_nonnegative("beta", self.beta)
        checked_flag("exclude_identical", self.exclude_identical)

    @classmethod
    def paper(cls, **kwargs: Any) -> Self:
        """The setting of Lazzaro et al. (2026); the arguments are those of the constructor."""
        setting = {"hyperparameters": PAPER_MODEL, "kappa": 1.0, "exclude_identical": False}
        return cls(**{**setting, **kwargs})

    def _pair(self, annotator: str | None) -> Pair:
        last = self._last()
        if self.space.choices is None:
            reference = self.space.sample(1, self._seed("pair")) if last is None else last.items
            reference = reference[0].to(self.space.bounds)
            return torch.stack([self._on_a_box(reference), reference]), None
        row = _random_row(self, len(self._table)) if last is None else self._place(last.indices[0])
        posterior = self._posterior()
        mean, deviation = difference_table(posterior.mean, posterior.covariance)
        index = (mean + self._width() * deviation)[:, row]
        # Also in the last digit, as it is tied with duplicates.
        index[row] = 0.0
        if self.exclude_identical:
            index[self._equal_rows(row)] = -torch.inf
        return self._rows(self._best_row(self._unbarred(index, row)), row)

    def _on_a_box(self, reference: Tensor) -> Tensor:
        seed = self._seed("optimizer")
        rule = AdvantageUCB(self._model(), reference, self._width())
        if self.exclude_identical:
            return self._opponent(rule, reference, seed)
        best = self._best_item(rule, seed)
        with torch.no_grad():
            return best if float(rule(best.unsqueeze(-2))) > 0.0 else reference

    def _width(self) -> float:
        """What the model's own standard deviation is multiplied by."""
        return float(self.beta * self.learner.penalty**0.5)


@dataclass(kw_only=True, eq=False, repr=False)
class OptimisticStrategy(UtilityStrategy):
    r"""Keeps the likelihood-ratio confidence set of all answers.

    Items with equal coordinates are one here, also among choices, and a duel of such items
    says nothing. For the other arguments see :class:`~botorch_pref.strategies.UtilityStrategy`.

    Args:
        norm_bound: ``B``, in the norm of the kernel, which has unit variance where it is
            learnt. 6 is the paper's for standardised functions.
        slack: A number, a name or a mapping; see
            :func:`~botorch_pref.likelihood_ratio.slack_rule`.
        adapt_norm_bound: Whether the norm bound is doubled while the answers ask for it.
        value_bound: The largest absolute utility of an asked item, or None.

    Attributes:
        current_norm_bound: The bound on the norm, which only grows.
    """

    norm_bound: float = 6.0
    slack: float | str | Mapping[str, Any] = "sqrt"
    adapt_norm_bound: bool = True
    value_bound: float | None = None

    _entries = UtilityStrategy._entries | {
        "norm_bound": Entry("current_norm_bound", number(least="norm_bound"))
    }

    _has_one_posterior: ClassVar[bool] = False
    _most_choices: ClassVar[int | None] = 20_000  # of each the advantage is a program to solve

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        self.norm_bound = checked_positive("norm_bound", self.norm_bound)
        self._slack_rule = slack_rule(self.slack)
        self.slack = slack_to_json(self._slack_rule)
        checked_flag("adapt_norm_bound", self.adapt_norm_bound)
        if self.value_bound is not None:
            self.value_bound = checked_positive("value_bound", self.value_bound)
        self.current_norm_bound = self.norm_bound
        self._set: tuple[object, LikelihoodRatioModel] | None = None

    def confidence_set(self, pending: Iterable[Query] = ()) -> LikelihoodRatioModel:
        """The set of all answers, and of pending ones as the most likely utility has them."""
        answered = [done for done in self.history if _tells(done)]
        key = (len(answered), str(self.learner.values), self.current_norm_bound)
        if self._set is None or self._set[0] != key:
            self._set = key, self._set_of(answered)
        model = self._set[1]
        expected = expected_answers(pending, lambda query: model.mle(query.items.to(model.items)))
        expected = [done for done in expected if _tells(done)]
        return self._set_of([*answered, *expected]) if expected else model

    def _recommend_on_a_box(self) -> Tensor:
        return self._best_item(mean_rule(self.confidence_set().mle), self._seed("report"))

    def recommend_index(self) -> int:
        return self._best_row(self.confidence_set().mle(self.space.table))

    def _refit(self) -> None:
        """Learn hyperparameters if it is time to, and double the norm bound if answers ask."""
        super()._refit()
        if self.adapt_norm_bound:
            adapted = self.confidence_set().adapt_norm_bound().norm_bound
            self.current_norm_bound = max(adapted, self.current_norm_bound)

    @abstractmethod
    def _data(self, answered: list[Answered]) -> Comparisons | Choices:
        """Some answers, which are not skipped, as data."""

    def _first_rows(self) -> list[int]:
        """The rows that the first new ones are shown beside."""
        return [_random_row(self, len(self.space.table))]

    def _set_of(self, answered: list[Answered]) -> LikelihoodRatioModel:
        """The set of some answers."""
        kernel = self.learner.covar_module()
        if self.learner.learns and isinstance(kernel, ScaleKernel):
            kernel = kernel.base_kernel  # the norm bound is the only scale
        data = self._data(answered)
        return LikelihoodRatioModel(
            data.datapoints,
            data.blocks(self.learner.likelihood),
            covar_module=kernel,
            norm_bound=self.current_norm_bound,
            slack=self._slack_rule,
            box=self.value_bound,
            input_transform=self.space.input_transform(),
        )

    def _question(self, num_new: int) -> Pair:
        """New items, chosen one after the other, and those that were new in the query before."""
        model, last = self.confidence_set(self._open.values()), self._last()
        numbers = ["", *(f" {position}" for position in range(1, num_new))]
        if self.space.choices is not None:
            table = self.space.choices
            rows = self._first_rows() if last is None else list(last.indices[:num_new])
            for number in numbers:
                taken = torch.zeros(len(table), dtype=torch.bool, device=table.device)
                taken[[two for one, two in self._barred_rows() if one in rows]] = True
                rows.append(self._best_choice(model, table[rows], taken, f"tie{number}"))
            rows = rows[num_new:] + rows[:num_new]
            return self._choices(*rows)
        items = self.space.sample(num_new, self._seed("pair")) if last is None else last.items
        items = items[:num_new].to(self.space.bounds)
        for number in numbers:
            barred = torch.cat([self._taken(item) for item in items])
            item = self._best_of_box(model, items, barred, self._seed(f"optimizer{number}"))
            items = torch.cat([items, item.unsqueeze(0)])
        return items.roll(-num_new, 0), None

    def _best_choice(
        self, model: LikelihoodRatioModel, opponents: Tensor, taken: Tensor, stream: str
    ) -> int:
        """The row of the largest advantage over ``J x d`` opponents, but for rows that are taken.

        Where no advantage is positive, that of the largest answer-free width. An opponent is taken
        only where no other item is left.
        """
        table = self.space.table
        same = (table.unsqueeze(-2) == opponents).all(-1).any(-1)
        refused = same | taken
        if bool(refused.all()):
            refused = taken if bool(same.all()) else same
        values = _advantages(model, table, opponents).masked_fill(refused, -torch.inf)
        largest = values.amax()
        if largest > 0.0:
            # Far from all answers the values are one number up to the solver's gap: a tie.
            tied = values >= largest - _LINE_SEARCH * model.norm_bound
            values = torch.where(tied, largest, values)
        else:
            values = _widths(model, table, opponents).masked_fill(refused, -torch.inf)
        return self._best_row(values, stream)

    def _best_of_box(
        self, model: LikelihoodRatioModel, opponents: Tensor, barred: Tensor, seed: int
    ) -> Tensor:
        """The same on a box, away from ``k x d`` barred items; L-BFGS-B refines the best ones."""
        pool = torch.cat([self.space.sample(_POOL, seed), self._neighbours(model, seed + 1)])
        values = _advantages(model, pool, opponents)
        starts = pool[best_first(values)[:_STARTS]].unsqueeze(-2)
        rule = _rule_over(model, opponents, _LINE_SEARCH)
        found = self.space.maximize(rule, seed=seed, starts=starts, raw_samples=0)
        if float(found.value) > 0.0:
            if not bool(self._same(found.items[0], barred).any()):
                return found.items[0]
        else:
            values = _widths(model, pool, opponents)
        refused = self._same(pool.unsqueeze(-2), barred).any(-1)
        if bool(refused.all()):  # but an item never meets itself
            refused = (pool.unsqueeze(-2) == opponents).all(-1).any(-1)
        return pool[int(values.masked_fill(refused, -torch.inf).argmax())]

    @torch.no_grad()
    def _neighbours(self, model: LikelihoodRatioModel, seed: int) -> Tensor:
        """Items around the most likely one of those asked; none before there are any."""
        if not len(model.items):
            return self.space.bounds[:0]
        best = model.items[model.mle(model.items).argmax()]
        unit = SobolEngine(self.space.dim, scramble=True, seed=seed % 2**31)
        steps = unit.draw(_NEIGHBOURS, dtype=torch.double).to(best) - 0.5
        return self.space.near(best.expand(_NEIGHBOURS, -1), steps, _REACH)


@dataclass(kw_only=True, eq=False, repr=False)
class POPBO(OptimisticStrategy):
    r"""Every item meets the first item of the duel before it, Xu et al. (2024).

    The first arm has the largest advantage over the second arm under any utility of the
    likelihood-ratio set: those within the norm bound that explain the answers well. The second
    arm is the previous first arm, whichever won; at first it is drawn at random. Where no
    advantage is positive, the pair of the largest answer-free width is asked. For the same duels
    on Laplace's posterior see :class:`LaplacePOPBO`; for the other arguments
    :class:`~botorch_pref.strategies.pop_bo.OptimisticStrategy`.

    Args:
        report: What is recommended: ``"max-mle"`` the maximiser of the most likely utility,
            ``"min-sigma"`` the paper's ``x_{t*}`` of eq. (19).

    Example:
        >>> strategy = POPBO(bounds=bounds, seed=0)
        >>> query = strategy.ask()
        >>> strategy.tell(query, 1.0)
    """

    report: Report = "max-mle"

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        check_word("report", self.report, Report)

    @classmethod
    def paper(cls, **kwargs: Any) -> Self:
        """The setting of Xu et al. (2024) for test functions; arguments are the constructor's.

        App. P: a squared exponential kernel of unit variance, a norm bound of 6 that stays as it
        is, a slack of ``sqrt(t)``, and the most likely utility's maximiser reported. The paper fits
        the lengthscale to each function beforehand; here it is 0.2 of every range unless
        ``hyperparameters`` say otherwise. Utilities are in standard deviations.
        """
        kernel = {"kernel": "rbf", "lengthscale": 0.2, "outputscale": 1.0}
        setting: dict[str, Any] = {"hyperparameters": kernel, "norm_bound": 6.0, "slack": "sqrt"}
        return cls(**setting | {"adapt_norm_bound": False} | kwargs)

    def recommend_index(self) -> int:
        _ = self.space.table  # a box has none, and raises
        reported = self._least_uncertain()
        return super().recommend_index() if reported is None else int(reported.indices[0])

    def _recommend_on_a_box(self) -> Tensor:
        reported = self._least_uncertain()
        if reported is None:
            return super()._recommend_on_a_box()
        return reported.items[0].to(self.space.bounds)

    def _least_uncertain(self) -> Query | None:
        """The duel of least error bound, eq. (19), if it is reported, and any was answered.

        The bound is ``2 (2 B + sqrt(slack_t)) sigma_t``. The paper has
        ``beta(epsilon, delta / 2, t)``, which is of the order of the slack with a factor
        ``e^{4 B}`` in front; here it is the slack itself, as it was before the answer.
        """
        told = [done.query for done in self.history if _tells(done)]
        if self.report == "max-mle" or not told:
            return None
        model = self.confidence_set()
        sigma = model.asked_duel_sigma()
        slack = [model.slack_rule(t, model.value_bound) for t in range(len(sigma))]
        bounds = (2.0 * model.norm_bound + torch.tensor(slack).to(sigma).sqrt()) * sigma
        return told[int(bounds.argmin())]

    def _pair(self, annotator: str | None) -> Pair:
        return self._question(1)

    def _data(self, answered: list[Answered]) -> Comparisons:
        like = self.space.bounds
        pairs = [query.items.to(like) for query, _ in answered]
        shown = torch.stack(pairs) if pairs else like.new_empty(0, 2, self.space.dim)
        return Comparisons.from_pairs(shown, like.new_tensor([answer for _, answer in answered]))


@dataclass(kw_only=True, eq=False, repr=False)
class MultipleChoicePOPBO(OptimisticStrategy):
    r"""New items are shown beside those of the question before; the favourite is named.

    New items are chosen one after the other: each has the largest advantage over all items that
    are shown already under any utility of the likelihood-ratio set (App. I, eqs. 100 and 101).
    With one new item this is :class:`POPBO` with choices of two. There is no theorem for the slack
    here, which goes by the number of questions. The recommendation is the maximiser of the most
    likely utility. Where hyperparameters are learnt, it is from the duels of the favourite with
    each of the others. For the other arguments see
    :class:`~botorch_pref.strategies.pop_bo.OptimisticStrategy`; the link must be logit, as a
    favourite is chosen by a softmax.

    Args:
        num_new: The number of new items of a question, 1 to 15; of choices there must be twice as
            many different ones.

    Example:
        >>> strategy = MultipleChoicePOPBO(bounds=bounds, num_new=2, seed=0)
        >>> query = strategy.ask()  # of 4 items
        >>> strategy.tell(query, 3)  # the last one is the favourite
    """

    num_new: int = 2

    _asks = (Choice,)

    def __post_init__(self) -> None:
        """Check the options."""
        self.num_new = check_count("num_new", self.num_new, 1, MOST_CHOSEN // 2)
        own = f"best of {2 * self.num_new}"
        if self.question not in ("duel", own):
            raise UnsupportedError(f"`question` of `num_new` {self.num_new} is {own!r} alone.")
        self.question = own
        super().__post_init__()
        if not isinstance(self.likelihood, LogitLikelihood):
            raise UnsupportedError("`likelihood` must be logit: favourites follow a softmax.")

    def _pair(self, annotator: str | None) -> Pair:
        return self._question(self.num_new)

    def _barred_duels(self) -> list[Query]:
        """None: every question has other old items."""
        return []

    def _first_rows(self) -> list[int]:
        """Rows of different items."""
        generator = torch.Generator().manual_seed(self._seed("pair"))
        rows: dict[tuple[float, ...], int] = {}
        for row in torch.randperm(len(self.space.table), generator=generator).tolist():
            rows.setdefault(tuple(self.space.table[row].tolist()), row)
        return [*rows.values()][: self.num_new]

    def _learn(self, answered: Answered) -> None:
        query, answer = answered
        if answer is None:
            return
        favourite = int(answered.number)
        for other in range(len(query.items)):
            if other != favourite:
                shown = query.indices
                rows = None if shown is None else (shown[favourite], shown[other])
                self.learner.add(Duel(query.id, query.items[[favourite, other]], rows), 1.0)

    def _data(self, answered: list[Answered]) -> Choices:
        none = self.space.bounds[:0]
        shown = torch.cat([none, *(query.items.to(none) for query, _ in answered)])
        rows, new = match_items(none, shown)
        favourites = rows.new_tensor([int(done.number) for done in answered])
        return Choices(shown[new], rows.view(len(answered), 2 * self.num_new), favourites)


def _tells(answered: Answered) -> bool:
    """Whether the answer compares different items."""
    query, answer = answered
    return answer is not None and bool(query.comparisons(answer))


def _random_row(strategy: UtilityStrategy, number: int) -> int:
    """The row of the first opponent, of so many rows."""
    generator = torch.Generator().manual_seed(strategy._seed("pair"))
    return int(torch.randint(number, (), generator=generator))


def _rule_over(
    model: LikelihoodRatioModel, opponents: Tensor, tolerance: float
) -> OptimisticAdvantage | OptimisticChoice:
    """The advantage over one opponent, or over all of several."""
    if len(opponents) == 1:
        return OptimisticAdvantage(model, opponents[0], tolerance=tolerance)
    return OptimisticChoice(model, opponents, tolerance=tolerance)


@torch.no_grad()
def _advantages(model: LikelihoodRatioModel, items: Tensor, opponents: Tensor) -> Tensor:
    """Of ``n x d`` items, the best exact to a line search's gap, others to a screening's."""
    rough, fine = (_rule_over(model, opponents, gap) for gap in (SCREENING, _LINE_SEARCH))
    points = items.unsqueeze(-2)
    values = torch.cat([rough(part) for part in points.split(_CHUNK)])
    close = (values >= values.amax() - SCREENING).nonzero().squeeze(-1)
    for rows in close.split(_CHUNK):
        values[rows] = fine(points[rows])
    return values


def _widths(model: LikelihoodRatioModel, items: Tensor, opponents: Tensor) -> Tensor:
    """The least answer-free width of each of ``n x d`` items and an opponent."""
    shape = (len(items), *opponents.shape)
    pairs = torch.stack([items.unsqueeze(-2).expand(shape), opponents.expand(shape)], dim=-2)
    return model.duel_sigma(pairs).amin(-1)
