r"""POP-BO: every item meets the one before it, and may be much better.

Xu, Wang, Jiang, Svetozarevic and Jones, *Principled Preferential Bayesian Optimization* (2024).
"""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Literal, Self, Unpack, cast

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.models.model import Model
from botorch.utils.transforms import t_batch_mode_transform
from gpytorch.kernels import ScaleKernel
from torch import Tensor
from torch.quasirandom import SobolEngine

from botorch_pref.acquisition.advantage_ucb import AdvantageUCB
from botorch_pref.acquisition.base import checked_beta
from botorch_pref.acquisition.optimistic_advantage import OptimisticAdvantage
from botorch_pref.acquisition.optimistic_choice import OptimisticChoice
from botorch_pref.data.blocks import match_items
from botorch_pref.data.checks import check_word, checked_flag, checked_positive
from botorch_pref.data.choices import Choices
from botorch_pref.data.comparisons import Comparisons
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.likelihood_ratio.confidence_set import SCREENING
from botorch_pref.likelihood_ratio.slack import slack_rule, slack_to_json
from botorch_pref.likelihoods import LogitLikelihood
from botorch_pref.models.likelihood_ratio_model import LikelihoodRatioModel
from botorch_pref.queries import Choice, Duel, Query
from botorch_pref.space.search_space import SearchSpace
from botorch_pref.strategies.base import Answered, expected_answers
from botorch_pref.strategies.utility import (
    LearningStrategy,
    ModelOptions,
    Pair,
    UtilityStrategy,
    difference_table,
)

Report = Literal["max-mle", "min-sigma"]
"""Which item POP-BO recommends."""

_LINE_SEARCH = 1e-6  # the gap that L-BFGS-B does not see
_CHUNK = 256
_STARTS, _POOL = 4, 192  # items that are refined, of so many and their neighbours
_NEIGHBOURS, _REACH = 64, 0.2  # of the most likely item; of the range of every dimension


class LastItemStrategy(UtilityStrategy):
    """The second arm is the first arm of the query before, answered or not, whoever won.

    At first it is drawn at random. A subclass has ``_among_choices`` and ``_on_a_box``. For the
    arguments see :class:`~botorch_pref.strategies.utility.LearningStrategy`.
    """

    @abstractmethod
    def _among_choices(self, row: int) -> int:
        """The row of the first arm beside that of the second."""

    @abstractmethod
    def _on_a_box(self, reference: Tensor) -> Tensor:
        """The ``d``-dim first arm beside the second."""

    def _pair(self, annotator: str | None) -> Pair:
        last = self._last()
        if self.space.choices is None:
            if last is None:
                reference = self.space.sample(1, self._seed("pair"))[0]
            else:
                reference = last.items[0].to(self.space.bounds)
            return torch.stack([self._on_a_box(reference), reference]), None
        if last is None:
            generator = torch.Generator().manual_seed(self._seed("pair"))
            row = int(torch.randint(len(self.space.table), (), generator=generator))
        else:
            row = int(last.indices[0])
        return self._rows(self._among_choices(row), row)


class LaplacePOPBO(LastItemStrategy):
    r"""POP-BO's duels where the optimist believes Laplace's posterior.

    The first arm maximises ``h_t(x, x') + beta sigma_t(x, x')`` over the second arm ``x'``, which
    is the first arm of the duel before, as Lazzaro et al. (2026) run the method.

    Example:
        >>> strategy = LaplacePOPBO(bounds=bounds, seed=0)
        >>> query = strategy.ask()
        >>> strategy.tell(query, 1.0)
    """

    def __init__(
        self,
        bounds: Tensor | None = None,
        choices: Tensor | None = None,
        space: SearchSpace | None = None,
        *,
        beta: float = 1.0,
        exclude_identical: bool = True,
        **model: Unpack[ModelOptions],
    ) -> None:
        r"""Set up a strategy without data.

        Args:
            bounds: ``2 x d``-dim box, or
            choices: ``n x d``-dim table of items, or
            space: a search space.
            beta: Multiplies the papers' ``sigma_t``, which is ``sqrt(lambda)`` times the model's
                standard deviation; at least 0.
            exclude_identical: Whether an item never meets itself, which has the index 0 and,
                where all others have less, is asked again and again.
            **model: See :class:`~botorch_pref.strategies.utility.LearningStrategy`.

        Raises:
            ComparisonDataError: If an option is none of these.
            SearchSpaceError: If the domain cannot be used.
            UnsupportedError: If an option is not for this kind of domain.
        """
        super().__init__(bounds, choices, space, **model)
        self.beta = checked_beta(beta)
        self.exclude_identical = checked_flag("exclude_identical", exclude_identical)

    @classmethod
    def paper(cls, **kwargs: Any) -> Self:
        r"""The setting of the experiments of Lazzaro et al. (2026).

        Matern-5/2 with lengthscale 0.1 on the unit cube, ``lambda = 0.05``, ridge ``lambda``,
        ``beta = 1``, identical pairs allowed.

        Args:
            **kwargs: Passed to the constructor.

        Returns:
            The strategy.
        """
        fixed = {"kernel": "matern", "lengthscale": 0.1, "penalty": 0.05}
        setting = {"hyperparameters": fixed, "kappa": 1.0, "exclude_identical": False}
        return cls(**{**setting, **kwargs})

    def _among_choices(self, row: int) -> int:
        posterior = self._posterior()
        mean, deviation = difference_table(posterior.mean, posterior.covariance)
        index = (mean + self._width() * deviation)[:, row]
        # Also in the last digit, as it is tied with duplicates.
        index[row] = -torch.inf if self.exclude_identical else 0.0
        return self._best_row(self._unbarred(index, row))

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


class OptimisticStrategy(LearningStrategy):
    r"""Keeps the likelihood-ratio confidence set of all answers.

    Items with equal coordinates are one here, also among choices, and a duel of such items
    says nothing.

    Attributes:
        current_norm_bound: The bound on the norm, which only grows.
        num_deadlocks: How often no item was hoped to be better than its opponents.
    """

    def __init__(
        self,
        bounds: Tensor | None = None,
        choices: Tensor | None = None,
        space: SearchSpace | None = None,
        *,
        norm_bound: float = 6.0,
        slack: float | str | Mapping[str, Any] = "sqrt",
        adapt_norm_bound: bool = True,
        value_bound: float | None = None,
        **model: Unpack[ModelOptions],
    ) -> None:
        r"""Set up a strategy without data.

        Args:
            bounds: ``2 x d``-dim box, or
            choices: ``n x d``-dim table of items, or
            space: a search space.
            norm_bound: ``B``, in the norm of the kernel, which has unit variance where it is
                learnt. 6 is the paper's for standardised functions.
            slack: A number, a name or a mapping; see
                :func:`~botorch_pref.likelihood_ratio.slack.slack_rule`.
            adapt_norm_bound: Whether the norm bound is doubled while the answers ask for it.
            value_bound: The largest absolute utility of an asked item, or None.
            **model: See :class:`~botorch_pref.strategies.utility.LearningStrategy`.

        Raises:
            ComparisonDataError: If an option is none of these.
            SearchSpaceError: If the domain cannot be used.
        """
        super().__init__(bounds, choices, space, **model)
        self.norm_bound = self.current_norm_bound = checked_positive("norm_bound", norm_bound)
        self.slack = slack_to_json(slack_rule(slack))
        self.adapt_norm_bound = checked_flag("adapt_norm_bound", adapt_norm_bound)
        self.value_bound = value_bound
        if value_bound is not None:
            self.value_bound = checked_positive("value_bound", value_bound)
        self.num_deadlocks = 0
        self._set: tuple[object, LikelihoodRatioModel] | None = None

    def confidence_set(self, pending: Iterable[Query] = ()) -> LikelihoodRatioModel:
        r"""The set of all answers so far.

        Args:
            pending: Open queries, which are taken to be answered as the most likely utility
                has it.
        """
        answered = [done for done in self.history if _tells(done)]
        key = (len(answered), str(self.learner.values), self.current_norm_bound)
        if self._set is None or self._set[0] != key:
            self._set = key, self._set_of(answered)
        model = self._set[1]
        expected = expected_answers(pending, lambda query: model.mle(query.items.to(model.items)))
        expected = [done for done in expected if _tells(done)]
        return self._set_of([*answered, *expected]) if expected else model

    def recommend(self) -> Tensor:
        r"""The maximiser of the most likely utility: of all choices, or of the whole box.

        Raises:
            ComparisonDataError: On a box, if nothing was asked yet.
        """
        if self.space.choices is not None:
            return self.space.choices[self.recommend_index()]
        if not self.history:
            raise ComparisonDataError("Nothing was answered yet, so nothing is recommended.")
        return self._best_item(MostLikelyUtility(self.confidence_set()), self._seed("report"))

    def recommend_index(self) -> int:
        """The row of the recommended item in the choices."""
        return self._best_row(self.confidence_set().mle(self.space.table))

    def _refit(self) -> None:
        """Learn hyperparameters if it is time to, and double the norm bound if answers ask."""
        super()._refit()
        if self.adapt_norm_bound:
            adapted = self.confidence_set().adapt_norm_bound().norm_bound
            self.current_norm_bound = max(adapted, self.current_norm_bound)

    @abstractmethod
    def _set_of(self, answered: list[Answered]) -> LikelihoodRatioModel:
        """The set of some answers."""

    def _set_options(self) -> dict[str, Any]:
        """The arguments of the set beside its data."""
        kernel = self.learner.covar_module()
        if self.learner.learns and isinstance(kernel, ScaleKernel):
            kernel = kernel.base_kernel  # the norm bound is the only scale
        return {
            "covar_module": kernel,
            "norm_bound": self.current_norm_bound,
            "slack": self.slack,
            "box": self.value_bound,
            "input_transform": self.space.input_transform(),
        }

    def _best_choice(
        self, model: LikelihoodRatioModel, opponents: Tensor, taken: Tensor, stream: str = "tie"
    ) -> int:
        r"""The row of the choice that may be best beside its opponents.

        Args:
            model: The confidence set.
            opponents: ``J x d``-dim items that it is to be better than, all of them.
            taken: ``n``-dim booleans: choices that are not to be asked unless all are.
            stream: Of the noise that breaks ties.

        Returns:
            A row, of an opponent only where no other item is left. Where no advantage is hoped
            for, the pair of the largest answer-free width is taken.
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
            self.num_deadlocks += 1
            values = _widths(model, table, opponents).masked_fill(refused, -torch.inf)
        return self._best_row(values, stream)

    def _best_of_box(
        self,
        model: LikelihoodRatioModel,
        opponents: Tensor,
        taken: Callable[[Tensor], Tensor],
        seed: int,
    ) -> Tensor:
        r"""The same on a box: of a sample the best items are refined by L-BFGS-B.

        Args:
            model: The confidence set.
            opponents: ``J x d``-dim items that it is to be better than, all of them.
            taken: Which of ``... x d`` items are an opponent, or in an open duel with one.
            seed: Of the sample.

        Returns:
            The ``d``-dim item.
        """
        pool = torch.cat([self.space.sample(_POOL, seed), self._neighbours(model, seed + 1)])
        values = _advantages(model, pool, opponents)
        starts = pool[values.topk(min(_STARTS, len(pool))).indices].unsqueeze(-2)
        rule = _rule_over(model, opponents, _LINE_SEARCH)
        found = self.space.maximize(rule, seed=seed, starts=starts, raw_samples=0)
        if float(found.value) > 0.0:
            if not bool(taken(found.items[0])):
                return found.items[0]
        else:
            self.num_deadlocks += 1
            values = _widths(model, pool, opponents)
        refused = taken(pool)
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

    def _progress(self) -> dict[str, Any]:
        own = {"norm_bound": self.current_norm_bound, "num_deadlocks": self.num_deadlocks}
        return {**super()._progress(), **own}

    def _restore(self, progress: dict[str, Any]) -> None:
        super()._restore(progress)
        self.current_norm_bound = progress["norm_bound"]
        self.num_deadlocks = progress["num_deadlocks"]


class POPBO(OptimisticStrategy, LastItemStrategy):
    r"""Every item meets the first item of the duel before it, Xu et al. (2024).

    The first arm is where an optimist sees the largest advantage over the second arm, which
    is the previous first arm whoever won; at first it is drawn at random. The optimist has any
    utility within the norm bound that explains the answers well; where not even that one sees an
    advantage, the pair of the largest answer-free width is asked. For the same duels on Laplace's
    posterior see :class:`LaplacePOPBO`.

    Example:
        >>> strategy = POPBO(bounds=bounds, seed=0)
        >>> query = strategy.ask()
        >>> strategy.tell(query, 1.0)
    """

    def __init__(
        self,
        bounds: Tensor | None = None,
        choices: Tensor | None = None,
        space: SearchSpace | None = None,
        *,
        report: Report = "max-mle",
        **options: Any,
    ) -> None:
        r"""Set up a strategy without data.

        Args:
            bounds: ``2 x d``-dim box, or
            choices: ``n x d``-dim table of items, or
            space: a search space.
            report: What is recommended: ``"max-mle"`` the maximiser of the most likely utility,
                ``"min-sigma"`` the paper's ``x_{t*}`` of eq. (19).
            **options: ``norm_bound``, ``slack``, ``adapt_norm_bound`` and ``value_bound``; see
                ``OptimisticStrategy``; and those of
                :class:`~botorch_pref.strategies.utility.LearningStrategy`.

        Raises:
            ComparisonDataError: If an option is none of these.
            SearchSpaceError: If the domain cannot be used.
        """
        super().__init__(bounds, choices, space, **options)
        check_word("report", report, Report)
        self.report = report

    @classmethod
    def paper(cls, **kwargs: Any) -> LaplacePOPBO:
        r"""The setting of Lazzaro et al. (2026), who replace the set by Laplace's posterior.

        Args:
            **kwargs: Passed to :meth:`LaplacePOPBO.paper`.
        """
        return LaplacePOPBO.paper(**kwargs)

    def recommend(self) -> Tensor:
        r"""The reported item.

        Raises:
            ComparisonDataError: On a box, if nothing was asked yet.
        """
        reported = self._least_uncertain()
        return super().recommend() if reported is None else reported.items[0].to(self.space.bounds)

    def recommend_index(self) -> int:
        """The row of the reported item in the choices."""
        _ = self.space.table  # a box has none, and raises
        reported = self._least_uncertain()
        return super().recommend_index() if reported is None else int(reported.indices[0])

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

    def _among_choices(self, row: int) -> int:
        model, taken = self.confidence_set(self._open.values()), self._barred_table()[row]
        return self._best_choice(model, self.space.table[row : row + 1], taken)

    def _on_a_box(self, reference: Tensor) -> Tensor:
        model, taken = self.confidence_set(self._open.values()), self._taken(reference)
        near = partial(_is_near_one, self, taken)
        return self._best_of_box(model, reference.unsqueeze(0), near, self._seed("optimizer"))

    def _set_of(self, answered: list[Answered]) -> LikelihoodRatioModel:
        like = self.space.bounds
        pairs = [query.items.to(like) for query, _ in answered]
        shown = torch.stack(pairs) if pairs else like.new_empty(0, 2, self.space.dim)
        data = Comparisons.from_pairs(shown, like.new_tensor([answer for _, answer in answered]))
        return LikelihoodRatioModel.from_comparisons(
            data.datapoints, data, likelihood=self.likelihood, **self._set_options()
        )


class MultipleChoicePOPBO(OptimisticStrategy):
    r"""New items are shown beside those of the question before; the favourite is named.

    New items are chosen one after the other: each is where an optimist, who has any utility
    of the likelihood-ratio set, sees the largest advantage over all items that are shown
    already (App. I, eqs. 100 and 101). With one new item this is :class:`POPBO` with choices of
    two. There is no theorem for the slack here, which goes by the number of questions. The
    recommendation is the maximiser of the most likely utility. Where hyperparameters
    are learnt, it is from the duels of the favourite with each of the others.

    Example:
        >>> strategy = MultipleChoicePOPBO(bounds=bounds, num_new=2, seed=0)
        >>> query = strategy.ask()  # of 4 items
        >>> strategy.tell(query, 3)  # the last one is the favourite
    """

    _asks = (Choice,)

    def __init__(
        self,
        bounds: Tensor | None = None,
        choices: Tensor | None = None,
        space: SearchSpace | None = None,
        *,
        num_new: int = 2,
        **options: Any,
    ) -> None:
        r"""Set up a strategy without data.

        Args:
            bounds: ``2 x d``-dim box, or
            choices: ``n x d``-dim table of items, or
            space: a search space.
            num_new: The number of new items of a question, at least 1.
            **options: ``norm_bound``, ``slack``, ``adapt_norm_bound`` and ``value_bound``; see
                ``OptimisticStrategy``; and those of
                :class:`~botorch_pref.strategies.utility.LearningStrategy`, of which the link
                must be logit, as a favourite is chosen by a softmax.

        Raises:
            ComparisonDataError: If an option is none of these, or there are fewer than twice
                ``num_new`` choices.
            SearchSpaceError: If the domain cannot be used.
            UnsupportedError: If the link is another.
        """
        super().__init__(bounds, choices, space, **options)
        try:
            self.num_new = operator.index(num_new)
        except TypeError:
            self.num_new = 0
        if self.num_new < 1:
            raise ComparisonDataError(f"`num_new` must be at least 1, not {num_new!r}.")
        different = self.space.choices
        different = None if different is None else different.unique(dim=0)
        if different is not None and len(different) < 2 * self.num_new:
            raise ComparisonDataError(
                f"`num_new` is {num_new}, but a question of {2 * self.num_new} items needs as many "
                f"different `choices`, not {len(different)}."
            )
        if not isinstance(self.likelihood, LogitLikelihood):
            raise UnsupportedError("`likelihood` must be logit: favourites follow a softmax.")

    def _choose(self, query_id: int, annotator: str | None) -> Query:
        self._refit()
        self.round += 1
        model, last = self.confidence_set(self._open.values()), self._last()
        if self.space.choices is not None:
            old = self._first_rows() if last is None else list(last.indices[: self.num_new])
            rows = (*self._new_rows(model, old), *old)
            return Choice(query_id, self.space.table[list(rows)], rows, annotator)
        if last is None:
            shown = self.space.sample(self.num_new, self._seed("pair"))
        else:
            shown = last.items[: self.num_new].to(self.space.bounds)
        return Choice(query_id, torch.cat([self._new_items(model, shown), shown]), None, annotator)

    def _first_rows(self) -> list[int]:
        """Rows of different items to begin with."""
        generator = torch.Generator().manual_seed(self._seed("pair"))
        rows: dict[tuple[float, ...], int] = {}
        for row in torch.randperm(len(self.space.table), generator=generator).tolist():
            rows.setdefault(tuple(self.space.table[row].tolist()), row)
        return [*rows.values()][: self.num_new]

    def _new_rows(self, model: LikelihoodRatioModel, old: list[int]) -> list[int]:
        """Rows of the new items beside those of the old ones."""
        table, rows = self.space.table, list(old)
        for position in range(self.num_new):
            taken = torch.zeros(len(table), dtype=torch.bool, device=table.device)
            taken[rows] = True
            stream = "tie" if position == 0 else f"tie {position}"
            rows.append(self._best_choice(model, table[rows], taken, stream))
        return rows[len(old) :]

    def _new_items(self, model: LikelihoodRatioModel, shown: Tensor) -> Tensor:
        """New items of a box beside those shown."""
        items = shown
        for position in range(self.num_new):
            seed = self._seed("optimizer" if position == 0 else f"optimizer {position}")
            item = self._best_of_box(model, items, partial(_is_near_one, self, items), seed)
            items = torch.cat([items, item.unsqueeze(0)])
        return items[len(shown) :]

    def _learn(self, answered: Answered) -> None:
        query, answer = answered
        if answer is None:
            return
        favourite = int(answer)
        for other in range(len(query.items)):
            if other != favourite:
                shown = query.indices
                rows = None if shown is None else (shown[favourite], shown[other])
                self.learner.add(Duel(query.id, query.items[[favourite, other]], rows), 1.0)

    def _set_of(self, answered: list[Answered]) -> LikelihoodRatioModel:
        none = self.space.bounds[:0]
        shown = torch.cat([none, *(query.items.to(none) for query, _ in answered)])
        rows, new = match_items(none, shown)
        blocks = []
        if answered:
            favourites = torch.tensor([int(answer or 0) for _, answer in answered]).to(rows)
            told = Choices(shown[new], rows.view(-1, 2 * self.num_new), favourites)
            blocks = [told.block(self.likelihood)]
        return LikelihoodRatioModel(shown[new], blocks, **self._set_options())


class MostLikelyUtility(AcquisitionFunction):
    """The most likely utility as a rule for single items, ``b x 1 x d``."""

    def __init__(self, model: Model) -> None:
        super().__init__(model=model)

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """The ``b``-dim utilities."""
        return cast(LikelihoodRatioModel, self.model).mle(X.squeeze(-2))


def _tells(answered: Answered) -> bool:
    """Whether it was answered, and is not a duel of two equal items."""
    query, answer = answered
    is_duel = isinstance(query, Duel)
    return answer is not None and not (is_duel and torch.equal(query.items[0], query.items[1]))


def _is_near_one(strategy: LearningStrategy, shown: Tensor, items: Tensor) -> Tensor:
    """Which of ``... x d`` items a person could not tell from one of those shown."""
    return strategy._same(items.unsqueeze(-2), shown).any(-1)


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
