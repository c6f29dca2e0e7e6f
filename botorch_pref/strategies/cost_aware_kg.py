r"""Duels or values, whichever is expected to gain more for its price."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import torch
from botorch.acquisition import AcquisitionFunction, PosteriorMean
from botorch.acquisition.fixed_feature import FixedFeatureAcquisitionFunction
from botorch.fit import fit_gpytorch_mll
from gpytorch.means import ConstantMean
from torch import Tensor

from botorch_pref.acquisition.discrete_knowledge_gradient import DiscreteKnowledgeGradient
from botorch_pref.acquisition.dueling_knowledge_gradient import DuelingKnowledgeGradient
from botorch_pref.acquisition.knowledge_gradient import REPEATS
from botorch_pref.data.checks import check_count, checked_flag, checked_positive
from botorch_pref.data.comparisons import Comparisons
from botorch_pref.data.values import Values
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.inference.systems import prior_root
from botorch_pref.kernels.comparison_bias import ComparisonBiasKernel
from botorch_pref.likelihoods import BernoulliLikelihood
from botorch_pref.models.fitting import LaplaceMarginalLogLikelihood
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.queries import Answered, Duel, Evaluate, Query
from botorch_pref.randomness import derive_seed, seeded
from botorch_pref.space.search_space import Maximum, SearchSpace
from botorch_pref.strategies.base import expected_answers, next_best
from botorch_pref.strategies.budgeted import BudgetedStrategy, Chosen, Kind, QueryRecord
from botorch_pref.strategies.utility import (
    KernelArgument,
    as_likelihood,
    fixed_values,
    kernel_of,
    own_kernel,
    parameters_of,
    refit_is_due,
    set_parameters,
)

# The last column of an item: whether its utility counts, or what a judge of duels sees.
UTILITY, COMPARED = 0.0, 1.0

_POOL = 512  # items at which draws are compared
_NEARBY = 128  # of these around the best ones
_SPREAD = 0.05  # of the box
_DRAWS = 40
_WELL_KNOWN = 8  # of the asked items those of the largest mean
_MOST_EXACT = 64  # choices among all of which the best is sought
_RAW_SAMPLES = 128
_JITTER = 1e-6
_RULE_OPTIONS = {"maxiter": 20}  # the rules have kinks, at which a line search takes its time


@dataclass(frozen=True)
class GainRecord(QueryRecord):
    r"""What was expected of the best query of either kind.

    The phase is ``"initial"``; ``"gain"`` where what gains more for its price was asked; or
    ``"confirm"``, where the recommended item was measured with the last money.

    Attributes:
        duel_gain: The expected gain of the best duel for its price, in units of the utility per
            unit of money; not a number where duels could not be paid.
        value_gain: That of the best value.
    """

    duel_gain: float = math.nan
    value_gain: float = math.nan


class Units(NamedTuple):
    """What is taken from values, and what they are divided by then."""

    offset: float = 0.0
    spread: float = 1.0


class CostAwareKG(BudgetedStrategy):
    r"""Buys the duel or the value with the largest knowledge gradient per cost.

    One model learns from both (:class:`~botorch_pref.models.PreferenceGP`): values tell of the
    utility ``f``, duels of ``f_c = f + delta`` with a bias of learnt size
    (:class:`~botorch_pref.kernels.ComparisonBiasKernel`). What is bought is what lets the
    utility of the recommended item grow most for its price, at the best number of equal answers
    (:class:`~botorch_pref.acquisition.DiscreteKnowledgeGradient`,
    :class:`~botorch_pref.acquisition.DuelingKnowledgeGradient`): duels while they are informative
    for their price, values where only these can tell. With a budget, the price of one value is
    kept to measure what is recommended in the end. Values are maximised.

    ``ask`` returns a :class:`~botorch_pref.queries.Duel` or an
    :class:`~botorch_pref.queries.Evaluate`; ``recommend`` the maximiser of the posterior mean.

    Example:
        >>> strategy = CostAwareKG(bounds=bounds, duel_cost=0.1, value_cost=1, budget=30)
        >>> while not strategy.finished:
        ...     query = strategy.ask()
        ...     strategy.tell(query, answer(query))

    Attributes:
        records: Why each query was asked, by its number.
        duels: The duels that were answered, and their answers.
        values: The evaluations and their values.
        units: In which the model sees values.
    """

    record_type = GainRecord

    def __init__(
        self,
        bounds: Tensor | None = None,
        choices: Tensor | None = None,
        space: SearchSpace | None = None,
        *,
        seed: int = 0,
        hyperparameters: Literal["evidence"] | Mapping[str, Any] = "evidence",
        likelihood: BernoulliLikelihood | Mapping[str, Any] | None = None,
        covar_module: KernelArgument = None,
        bias: float | None = None,
        noise: float | None = 1e-4,
        repeats: Sequence[int] = REPEATS,
        confirm: bool = True,
        **options: Any,
    ) -> None:
        r"""Set up a strategy without data.

        Args:
            bounds: ``2 x d``-dim box, or
            choices: ``n x d``-dim table of items, or
            space: a search space.
            seed: The seed of all draws.
            hyperparameters: ``"evidence"`` to learn them from standardised values whenever duels
                or values have grown by a tenth; or fixed values, in units of the values, as of
                :class:`~botorch_pref.strategies.utility.UtilityLearner`, where the prior mean is
                0, and ``"link_scale"`` is 1 unless it is given as well.
            likelihood: The link of duels; logit by default.
            covar_module: The prior covariance of the utility, or what makes one of ``d``, in
                place of the default one.
            bias: The variance of the bias of duels relative to that of the utility, see
                :class:`~botorch_pref.kernels.ComparisonBiasKernel`; None to learn it, 0 to trust
                duels as much as values. With fixed hyperparameters None is 0.
            noise: The variance of the noise of a value, in squared standard deviations of the
                values, or in squared units of these with fixed hyperparameters; None to learn it.
            repeats: The numbers of equal answers of which the best is looked for.
            confirm: Whether the price of one value is kept to the end, to measure what is
                recommended then. Only with a budget, of which the initial design leaves that much.
            **options: Prices, budget and initial design, see
                :class:`~botorch_pref.strategies.BudgetedStrategy`.

        Raises:
            ComparisonDataError: If an option is out of range; names it.
            SearchSpaceError: If the domain cannot be used.
        """
        super().__init__(bounds, choices, space, seed=seed, **options)
        self.learns = isinstance(hyperparameters, str)
        if self.learns and hyperparameters != "evidence":
            raise ComparisonDataError(
                f"`hyperparameters` must be evidence or values, not {hyperparameters!r}."
            )
        known = dict(hyperparameters) if isinstance(hyperparameters, Mapping) else {}
        self._link_scale = None
        if not self.learns:
            self._link_scale = checked_positive("link_scale", known.pop("link_scale", 1.0))
            known = fixed_values(known, self.space.num_features)
            hyperparameters = {**known, "link_scale": self._link_scale}
            if noise is None:
                raise ComparisonDataError("`noise` must be given where `hyperparameters` are.")
            if covar_module is not None:
                raise ComparisonDataError("Give `hyperparameters` or `covar_module`.")
        self.hyperparameters, self._fixed = hyperparameters, known
        self.likelihood, self.covar_module = as_likelihood(likelihood), covar_module
        self.bias = bias if bias is None or bias == 0 else checked_positive("bias", bias)
        self.noise = None if noise is None else checked_positive("noise", noise)
        self.repeats = [check_count("repeats", number, 1) for number in repeats]
        if not self.repeats:
            raise ComparisonDataError("`repeats` must be whole numbers, but there are none.")
        self.confirm = checked_flag("confirm", confirm)
        self.duels: list[Answered] = []
        self.values: list[Answered] = []
        self.units = Units()
        self._parameters: dict[str, Any] = {}  # as learnt
        self._num_fitted = (0, 0)  # duels and values
        self._model: PreferenceGP | None = None

    @property
    def finished(self) -> bool:
        """Whether nothing can be paid any more, or the recommended item was measured."""
        return super().finished or bool(self.records and self.records[-1].phase == "confirm")

    def tell(self, query: Query, answer: float | None) -> None:
        r"""Learn an answer, and after the initial design hyperparameters if it is time to.

        Args:
            query: What :meth:`ask` returned.
            answer: Of a duel, 1 the first won, 0 the second, 0.5 no preference; of an evaluation,
                the value. ``None`` to skip.

        Raises:
            StaleQueryError: If the query is unknown, or was told already.
            ComparisonDataError: If it is no such answer; the query then stays open.
        """
        super().tell(query, answer)
        if self._initial() is None:
            self.refit()

    def refit(self) -> None:
        """Fit the hyperparameters if they are learnt and the data have grown enough."""
        sizes = len(self.duels), len(self.values)
        if not self.learns or not any(map(refit_is_due, sizes, self._num_fitted)):
            return
        self.units = _units(self.values)
        model = self._build({}, self.duels, self.values)
        with seeded(derive_seed(self.seed, "fit", sum(sizes)), model.items.device):
            fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
        self._parameters = parameters_of(model)
        self._num_fitted = sizes
        self._model = None

    def model(self, pending: Sequence[Query] = ()) -> PreferenceGP:
        r"""The model of all answers so far, over items with a marker as last column.

        Args:
            pending: Queries without an answer, which are taken to be answered as expected.
        """
        if self._model is None:
            if self.learns and not self._parameters:
                self.units = _units(self.values)
            self._model = self._build(self._parameters, self.duels, self.values)
        known = self._model
        if not pending:
            return known

        def utility(query: Query) -> Tensor:
            marker = UTILITY if isinstance(query, Evaluate) else COMPARED
            items = query.items.view(-1, self.space.dim).to(self.space.bounds)
            mean = known.posterior(marked(items, marker)).mean.squeeze(-1)
            return self.units.offset + self.units.spread * mean

        expected = expected_answers(pending, utility)
        duels = [one for one in expected if _differs(one.query)]
        values = [one for one in expected if isinstance(one.query, Evaluate)]
        return self._build(self._parameters, self.duels + duels, self.values + values)

    @property
    def value_noise(self) -> float:
        """The variance of the noise of a value, in the model's units."""
        if self.noise is not None:
            return self.noise
        calibration = self.model().calibration
        return float(calibration.noise.detach()) if calibration.learns_noise else 1.0

    def _build(
        self, parameters: Mapping[str, Any], duels: Sequence[Answered], values: Sequence[Answered]
    ) -> PreferenceGP:
        """A model of some answers; without parameters, one that is to learn them."""
        like = self.space.bounds
        base = own_kernel(self.covar_module, self.space) or kernel_of(
            self._fixed, self.space, self._fixed.get("kernel", "rbf")
        )
        bias = self.bias if self.learns else self.bias or 0.0
        mean = ConstantMean().to(like)
        data = self._comparisons(duels)
        model = PreferenceGP(
            data.datapoints,
            data,
            likelihood=self.likelihood,
            values=self._measured(values),
            covar_module=ComparisonBiasKernel(base, bias=bias).to(like),
            mean_module=mean,
            input_transform=self.space.input_transform(num_markers=1),
            link_scale=self._link_scale,
        )
        if not self.learns or not values:  # only values know of a constant
            mean.initialize(constant=0.0).requires_grad_(False)
        set_parameters(model, parameters)
        return model

    def _comparisons(self, duels: Sequence[Answered]) -> Comparisons:
        like = self.space.bounds
        answers = like.new_tensor([answer for _, answer in duels])
        pairs = [like.new_empty(0, 2, self.space.dim)]
        pairs += [query.items.to(like).unsqueeze(0) for query, _ in duels]
        return Comparisons.from_pairs(marked(torch.cat(pairs), COMPARED), answers)

    def _measured(self, values: Sequence[Answered]) -> Values | None:
        if not values:
            return None
        like = self.space.bounds
        items = torch.stack([query.items.to(like) for query, _ in values])
        told = like.new_tensor([value for _, value in values]).unsqueeze(-1)
        told = (told - self.units.offset) / self.units.spread
        variances = None if self.noise is None else torch.full_like(told, self.noise)
        return Values(marked(items, UTILITY), told, variances)

    def _next(self) -> Chosen:
        self.refit()  # others may be at the last of the initial design
        duels = [query for query in self._open.values() if isinstance(query, Duel)]
        search = _Search(self, len(self.records), [*duels, *self._unmeasured()])
        kinds = [kind for kind in self.kinds if self._buys(kind)]
        if not kinds:
            return _chosen(GainRecord("value", "confirm"), search.confirmed())
        found = {kind: search.duel() if kind == "duel" else search.value() for kind in kinds}
        spread = self.units.spread
        gains = {
            kind: spread * float(found[kind].value) / float(self.price(kind)) for kind in kinds
        }
        best = max(kinds, key=gains.__getitem__)
        numbers = {f"{kind}_gain": gain for kind, gain in gains.items()}
        return _chosen(GainRecord(best, "gain", **numbers), found[best])

    def _buys(self, kind: Kind) -> bool:
        """Whether a query can be paid, and the value that is kept to the end as well."""
        price = self.price(kind)
        if self.confirm and self.affords(self.value_cost):
            price += self.value_cost
        return self.affords(price)

    def _add(self, query: Duel | Evaluate, answer: float) -> None:
        if isinstance(query, Evaluate):
            self.values.append(Answered(query, answer))
        elif _differs(query):  # an item that met itself tells nothing
            self.duels.append(Answered(query, answer))
        self._model = None

    def _recommended(self) -> tuple[Tensor, int | None] | None:
        """The maximiser of the posterior mean of the utility, over the whole domain."""
        if not self.num_answers:
            return None
        found = _Search(self, self.num_answers, []).recommended
        return found.items[0], None if found.indices is None else found.indices[0]

    def _progress(self) -> dict[str, Any]:
        return super()._progress() | {
            "parameters": self._parameters,
            "num_fitted_each": list(self._num_fitted),
            "units": list(self.units),
        }

    def _restore(self, progress: dict[str, Any]) -> None:
        super()._restore(progress)
        self._parameters, self.units = progress["parameters"], Units(*progress["units"])
        duels, values = progress["num_fitted_each"]
        self._num_fitted = duels, values
        self._model = None


class _Search:
    """What is best to be asked under the model of a strategy, with pending queries as expected."""

    def __init__(self, strategy: CostAwareKG, number: int, pending: Sequence[Query]) -> None:
        self.space, self.repeats = strategy.space, strategy.repeats
        self.seed = derive_seed(strategy.seed, "optimizer", number)
        self.model, self.noise = strategy.model(pending), strategy.value_noise
        answered = (*strategy.values, *strategy.duels)
        self.asked = strategy._items_of(query for query, _ in answered)
        self.avoid = strategy._items_of(query for query in pending if isinstance(query, Evaluate))

    @cached_property
    def recommended(self) -> Maximum:
        """The maximiser of the posterior mean over the whole domain."""
        return self._maximum(PosteriorMean(self.model), UTILITY, self._promising(), options=None)

    def value(self) -> Maximum:
        """The value that gains most."""
        reference = marked(self.reference, UTILITY)
        rule = DiscreteKnowledgeGradient(
            self.model, reference, noise=self.noise, repeats=self.repeats
        )
        return self._unasked(self._maximum(rule, UTILITY, self.reference.unsqueeze(-2)), rule)

    def confirmed(self) -> Maximum:
        """What is recommended, if that can be measured; else the next best item."""
        return self._unasked(self.recommended, PosteriorMean(self.model))

    def duel(self) -> Maximum:
        """The duel that gains most; of choices among those that may be best."""
        reference = marked(self.reference, UTILITY)
        rule = DuelingKnowledgeGradient(
            self.model, reference, project=as_utility, repeats=self.repeats
        )
        if self.space.choices is None:
            best = self.recommended.items.expand_as(self.reference)
            pairs = torch.stack([best, self.reference], dim=-2)
            pairs = pairs[(pairs[:, 0] != pairs[:, 1]).any(-1)]
            return self._maximum(rule, COMPARED, pairs, q=2)
        part = self.space.subset(self.contenders)
        found = part.maximize(_seen_as(rule, COMPARED, self.space.dim), q=2, seed=self.seed)
        assert found.indices is not None
        return found._replace(indices=tuple(int(self.contenders[row]) for row in found.indices))

    def _maximum(
        self,
        rule: AcquisitionFunction,
        marker: float,
        starts: Tensor,
        *,
        q: int = 1,
        options: dict[str, Any] | None = _RULE_OPTIONS,
    ) -> Maximum:
        return self.space.maximize(
            _seen_as(rule, marker, self.space.dim),
            q=q,
            seed=self.seed,
            starts=starts,
            raw_samples=_RAW_SAMPLES,
            options=options,
        )

    def _unasked(self, found: Maximum, rule: AcquisitionFunction) -> Maximum:
        """What was found, or the next best item where that one is being measured."""
        rule = _seen_as(rule, UTILITY, self.space.dim)
        return next_best(found, self.space, rule, self.seed, self.avoid)

    def _promising(self) -> Tensor:
        """The asked items of the largest mean, ``k x 1 x d``-dim."""
        if not len(self.asked):
            return self.asked.unsqueeze(-2)
        return self.asked[self._largest_means(self.asked)].unsqueeze(-2)

    @torch.no_grad()
    def _largest_means(self, items: Tensor) -> Tensor:
        mean = self.model.posterior(marked(items, UTILITY).unsqueeze(-2)).mean.flatten()
        return mean.topk(min(_WELL_KNOWN, len(mean))).indices

    @cached_property
    def contenders(self) -> Tensor:
        """The rows of the choices that may be best: those of the largest mean, or in a draw."""
        table = self.space.table
        return torch.cat([self._largest_means(table), self._best_of_draws(table)]).unique()

    @cached_property
    def reference(self) -> Tensor:
        """The ``M x d``-dim items that may be best."""
        if self.space.choices is not None:
            table = self.space.table
            return table if len(table) <= _MOST_EXACT else table[self.contenders]
        promising = torch.cat([self.recommended.items, self._promising().squeeze(-2)])
        generator = torch.Generator().manual_seed(derive_seed(self.seed, "nearby", 0))
        moves = torch.randn(_NEARBY, self.space.dim, generator=generator, dtype=torch.double)
        centres = promising[torch.arange(_NEARBY) % len(promising)]
        near = self.space.near(centres, moves, _SPREAD)
        pool = torch.cat([self.space.sample(_POOL - _NEARBY, self.seed), near, promising])
        chosen = torch.cat([promising, pool[self._best_of_draws(pool)]])
        return torch.unique(chosen, dim=0)

    @torch.no_grad()
    def _best_of_draws(self, items: Tensor) -> Tensor:
        """The rows of the maxima of draws at ``k x d``-dim items."""
        joint = self.model.posterior(marked(items, UTILITY))
        covariance = joint.covariance_matrix
        covariance = covariance + _JITTER * covariance.diagonal().mean() * torch.eye(
            len(items), dtype=covariance.dtype, device=covariance.device
        )
        generator = torch.Generator().manual_seed(derive_seed(self.seed, "draws", 0))
        normal = torch.randn(len(items), _DRAWS, generator=generator, dtype=torch.double)
        draws = joint.mean + prior_root(covariance) @ normal.to(covariance)
        return draws.argmax(0).unique()


def marked(items: Tensor, marker: float) -> Tensor:
    """``... x d``-dim items with a column that says how they are seen."""
    return torch.cat([items, torch.full_like(items[..., :1], marker)], dim=-1)


def as_utility(items: Tensor) -> Tensor:
    """``... x (d + 1)``-dim items as their utility counts."""
    return marked(items[..., :-1], UTILITY)


def _seen_as(rule: AcquisitionFunction, marker: float, dim: int) -> AcquisitionFunction:
    """A rule over items alone, with the column that says how they are seen filled in."""
    return FixedFeatureAcquisitionFunction(rule, d=dim + 1, columns=[dim], values=[marker])


def _differs(query: Query) -> bool:
    return isinstance(query, Duel) and not torch.equal(query.items[0], query.items[1])


def _units(values: Sequence[Answered]) -> Units:
    told = torch.tensor([value for _, value in values], dtype=torch.double)
    if not len(told):
        return Units()
    spread = float(told.std(correction=0))
    largest = float(told.abs().max())
    return Units(float(told.mean()), spread if spread > 1e-12 * largest else 1.0)


def _chosen(record: GainRecord, found: Maximum) -> Chosen:
    rows = found.indices or (None, None)
    if record.kind == "value":
        return Chosen(record, found.items[0], rows[0])
    return Chosen(record, found.items[0], rows[0], (found.items[1], rows[1]))
