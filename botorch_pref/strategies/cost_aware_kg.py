r"""Duels or values, whichever is expected to gain more for its price."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, cast

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.fixed_feature import FixedFeatureAcquisitionFunction
from botorch.fit import fit_gpytorch_mll
from gpytorch.means import ConstantMean
from torch import Tensor

from botorch_pref.acquisition.knowledge_gradient import (
    DiscreteKnowledgeGradient,
    DuelingKnowledgeGradient,
    KnowledgeGradient,
    SeenTable,
    gain_of_question,
)
from botorch_pref.acquisition.utils import mean_rule
from botorch_pref.data.blocks import match_items
from botorch_pref.data.checks import checked_positive
from botorch_pref.data.choices import Choices
from botorch_pref.data.comparisons import Comparisons
from botorch_pref.data.ordered import Grades
from botorch_pref.data.rankings import Rankings
from botorch_pref.data.values import Values
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.inference.systems import joint_draws
from botorch_pref.kernels.comparison_bias import (
    COMPARED,
    UTILITY,
    ComparisonBiasKernel,
    as_utility,
    marked,
)
from botorch_pref.likelihoods import BernoulliLikelihood, link_of
from botorch_pref.models.base import LaplaceMarginalLogLikelihood, refit_is_due
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.queries import Answer, Answered, Choice, Duel, Evaluate, Grade, Query, Ranking
from botorch_pref.randomness import derive_seed, seeded
from botorch_pref.space.search_space import Maximum
from botorch_pref.strategies.base import Candidate, Chosen, expected_answers, next_best, with_more
from botorch_pref.strategies.budgeted import BudgetedStrategy, Kind, QueryRecord
from botorch_pref.strategies.shortlist import shortlist
from botorch_pref.strategies.state import Entry, Form, listed, number, tensors, whole
from botorch_pref.strategies.utility import (
    MOST_COMPARED,
    MOST_LEARNT,
    NUM_INDUCING,
    KernelArgument,
    answers_to,
    as_likelihood,
    block_of,
    by_kind,
    kernel_of,
    own_kernel,
    random_items,
    random_part,
)

_POOL = 512  # items at which draws are compared
_NEARBY = 128  # of these around the best ones
_SPREAD = 0.05  # of the box
_DRAWS = 40
_WELL_KNOWN = 8  # of the asked items those of the largest mean
_MOST_EXACT = 64  # choices among all of which the best is sought
_RAW_SAMPLES = 128
_RULE_OPTIONS = {"maxiter": 20}  # the rules have kinks, at which a line search takes its time


@dataclass(frozen=True)
class GainRecord(QueryRecord):
    r"""What was expected of the best query of either kind.

    The phase is ``"initial"``; ``"gain"``, the larger gain for its price; or ``"confirm"``, the
    recommended item measured with what is left of the budget.

    Attributes:
        duel_gain: The expected gain of the best duel for its price, in units of the utility per
            unit of money; not a number where duels could not be paid.
        value_gain: That of the best value.
    """

    duel_gain: float = math.nan
    value_gain: float = math.nan


class Units(NamedTuple):
    """The offset that is subtracted from values, and the spread that they are divided by."""

    offset: float = 0.0
    spread: float = 1.0

    @classmethod
    def of(cls, answered: Sequence[Answered]) -> Units:
        """Mean and standard deviation of values; the latter is 1 where they are all the same."""
        if not answered:
            return cls()
        values = torch.tensor([value for _, value in answered], dtype=torch.double)
        spread, largest = float(values.std(correction=0)), float(values.abs().max())
        return cls(float(values.mean()), spread if spread > 1e-12 * largest else 1.0)

    @classmethod
    def read(cls, name: str, value: Any, owner: object) -> Units:
        """Those of a state."""
        offset, spread = listed(number(), 2, 2).read(name, value, owner)
        return cls(offset, checked_positive(f"{name} row 1", spread))


def _read_num_fitted(name: str, value: Any, owner: CostAwareKG) -> tuple[int, int]:
    """The numbers of duels and values of a state."""
    duels, values = listed(whole(), 2, 2).read(name, value, owner)
    whole(most=len(owner.duels)).read(f"{name} row 0", duels, owner)
    whole(most=len(owner.values)).read(f"{name} row 1", values, owner)
    return duels, values


@dataclass(kw_only=True, eq=False, repr=False)
class CostAwareKG(BudgetedStrategy):
    r"""Buys the duel or the value with the largest knowledge gradient per cost.

    One model learns from both (:class:`~botorch_pref.models.PreferenceGP`): values are of the
    utility ``f``, duels of ``f_c = f + delta`` with a bias of learnt size
    (:class:`~botorch_pref.kernels.ComparisonBiasKernel`). The next query is the one by which the
    utility of the recommended item is expected to grow most for its price, at the best number of
    equal answers (:class:`~botorch_pref.acquisition.DiscreteKnowledgeGradient`,
    :class:`~botorch_pref.acquisition.DuelingKnowledgeGradient`). With a budget, the price of one
    value is kept to measure what is recommended in the end. Values are maximised.

    ``ask`` returns a :class:`~botorch_pref.queries.Duel` or an
    :class:`~botorch_pref.queries.Evaluate`; ``recommend`` the maximiser of the posterior mean.
    Another ``question`` than a duel is about its two items, of a choice or a ranking joined by
    those that let the expected utility of the best of all grow most; what its answer is worth is
    found by draws (:func:`~botorch_pref.acquisition.gain_of_question`).
    Hyperparameters are learnt again whenever duels or values have grown by a tenth, from 300 of
    either at most. Of more than 1,000 answers, duels or values, the model is through some of their
    items.

    Example:
        >>> strategy = CostAwareKG(bounds=bounds, duel_cost=0.1, value_cost=1, budget=30)
        >>> while not strategy.finished:
        ...     query = strategy.ask()
        ...     strategy.tell(query, answer(query))

    Args:
        bounds, choices, space: The domain, see :class:`~botorch_pref.strategies.Strategy`.
        question: What is asked in place of values: ``"duel"``, ``"best of 4"``, ``"worst of 4"``,
            ``"rank 3"`` or ``"grade 5"``, with other numbers of items or grades. ``"duel"`` in the
            names of prices, records and the initial design then stands for that.
        likelihood: The link of duels; logit by default.
        covar_module: The prior covariance of the utility, or what makes one of ``d``, in
            place of the default one.
        bias: The variance of the bias of duels relative to that of the utility, see
            :class:`~botorch_pref.kernels.ComparisonBiasKernel`; None to learn it, 0 to trust
            duels as much as values.
        noise: The variance of the noise of a value, in squared standard deviations of the
            values; None to learn it.
        **options: Seed, prices, budget, initial design and what is known before, see
            :class:`~botorch_pref.strategies.BudgetedStrategy`.

    Raises:
        ComparisonDataError: If an option is out of range; names it.
        SearchSpaceError: If the domain cannot be used.

    Attributes:
        records: Why each query was asked, by its number.
        duels: The duels that were answered, and their answers.
        values: The evaluations and their values.
        units: What the model subtracts from values and divides them by.
    """

    question: str = "duel"
    likelihood: BernoulliLikelihood | Mapping[str, Any] | None = None
    covar_module: KernelArgument = None
    bias: float | None = None
    noise: float | None = 1e-4

    record_type: ClassVar[type[QueryRecord]] = GainRecord
    _asks: ClassVar = (Duel, Choice, Ranking, Grade, Evaluate)
    _entries = BudgetedStrategy._entries | {
        "units": Entry("units", Form(Units.read, list)),
        "parameters": Entry("_parameters", tensors(lambda own: own._build({}, own._answered))),
        "num_fitted_each": Entry("_num_fitted", Form(_read_num_fitted, list)),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        self._ask_for(self.question)
        self.likelihood = as_likelihood(self.likelihood)
        if self.bias is not None and self.bias != 0:
            self.bias = checked_positive("bias", self.bias)
        self.noise = None if self.noise is None else checked_positive("noise", self.noise)
        kernel = own_kernel(self.covar_module, self.space) or kernel_of({}, self.space)
        self._prior = ComparisonBiasKernel(kernel, bias=self.bias).to(self.space.bounds)
        self.duels: list[Answered] = []
        self.values: list[Answered] = []
        self.units = Units()
        self._parameters: dict[str, Tensor] = {}  # as learnt
        self._num_fitted = (0, 0)  # duels and values
        self._model: PreferenceGP | None = None
        for answered in self.known:
            self._learn(answered)

    @property
    def finished(self) -> bool:
        """Whether nothing can be paid any more, or the recommended item was measured."""
        return super().finished or bool(self.records and self.records[-1].phase == "confirm")

    def tell(self, query: Query, answer: Answer | None) -> None:
        """See the base class; hyperparameters are learnt after the initial design."""
        super().tell(query, answer)
        if self._initial() is None:
            self._refit()

    def _refit(self) -> None:
        """Fit the hyperparameters if the data have grown enough."""
        sizes = len(self.duels), len(self.values)
        if not any(map(refit_is_due, sizes, self._num_fitted)):
            return
        self.units = Units.of(self.values)
        seed = derive_seed(self.seed, "part", sum(sizes))
        duels, values = (random_part(one, MOST_LEARNT, seed) for one in (self.duels, self.values))
        model = self._build({}, [*duels, *values])
        if any(one.requires_grad for one in model.parameters()):
            with seeded(derive_seed(self.seed, "fit", sum(sizes)), model.items.device):
                fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
        found = dict(model.named_parameters())
        self._parameters = {name: value.detach() for name, value in found.items()}
        self._num_fitted = sizes
        self._model = None

    def model(self, pending: Sequence[Query] = ()) -> PreferenceGP:
        """The model of all answers, and of pending queries as if they were answered as expected.

        Its items have a marker as last column.
        """
        if self._model is None:
            if not self._parameters:
                self.units = Units.of(self.values)
            self._model = self._build(self._parameters, self._answered)
        known = self._model
        if not pending:
            return known

        def utility(query: Query) -> Tensor:
            marker = UTILITY if query.measures else COMPARED
            mean = known.posterior_mean(marked(self._items_of([query]), marker))
            return self.units.offset + self.units.spread * mean

        expected = expected_answers(pending, utility)
        return self._build(self._parameters, [*self._answered, *expected])

    @property
    def _answered(self) -> list[Answered]:
        return [*self.duels, *self.values]

    @property
    def value_noise(self) -> float:
        """The variance of the noise of a value, in the model's units."""
        if self.noise is not None:
            return self.noise
        model = self.model().noise_model
        return 1.0 if model is None else float(model.noise.detach())

    def _build(
        self, parameters: Mapping[str, Tensor], answered: Sequence[Answered]
    ) -> PreferenceGP:
        """A model of some answers; without parameters, one to be fitted."""
        like = self.space.bounds
        compared = (done for done in answered if done.query.compares and done.query.is_plain)
        duels, kinds = by_kind(compared)
        items = marked(self._items_of([query for query, _ in duels]), COMPARED)
        pairs = items.view(len(duels), 2, self.space.dim + 1)
        data = Comparisons.from_pairs(pairs, like.new_tensor([answer for _, answer in duels]))
        mean, values = ConstantMean().to(like), None
        if measured := [done for done in answered if done.query.measures]:
            told = like.new_tensor([[value] for _, value in measured])
            told = (told - self.units.offset) / self.units.spread
            variances = None if self.noise is None else torch.full_like(told, self.noise)
            items = self._items_of([query for query, _ in measured])
            values = Values(marked(items, UTILITY), told, variances)
        else:
            mean.requires_grad_(False)  # comparisons do not determine a constant
        model = PreferenceGP(
            data.datapoints,
            data,
            likelihood=cast(BernoulliLikelihood, self.likelihood),
            values=values,
            choices=[self._block_of(found) for found in kinds],
            covar_module=deepcopy(self._prior),
            mean_module=mean,
            input_transform=self.space.input_transform(num_markers=1),
            inducing_points=None if kinds else self._inducing_items(data, values),
        )
        model.load_state_dict(parameters, strict=False)  # without values it has fewer
        return model

    def _block_of(self, answered: Sequence[Answered]) -> Choices | Rankings | Grades:
        """Answers of one kind, other than duels."""
        shown = marked(self._items_of([query for query, _ in answered]), COMPARED)
        rows, new = match_items(shown[:0], shown)
        return block_of(answered, shown[new], rows.view(len(answered), -1))

    def _inducing_items(self, data: Comparisons, values: Values | None) -> Tensor | None:
        """Some of the items of very many answers, which inference is through; None for all.

        All that were measured are among them, as their values are known best.
        """
        measured = data.datapoints[:0] if values is None else values.datapoints
        if data.num_comparisons + len(measured) <= MOST_COMPARED:
            return None
        seed = derive_seed(self.seed, "inducing", data.num_comparisons)
        compared = random_items(data.datapoints, NUM_INDUCING, seed)
        return torch.cat([measured.unique(dim=0), compared])

    def _next(self) -> Chosen:
        self._refit()  # others may be at the last of the initial design
        duels = [query for query in self._open.values() if query.compares]
        search = _Search(self, len(self.records), [*duels, *self._unmeasured()])
        kinds = [kind for kind in self.kinds if self._buys(kind)]
        if not kinds:
            [item] = search.candidates(search.confirmed())
            return Chosen(GainRecord("value", "confirm"), item)
        found = {kind: search.question() if kind == "duel" else search.value() for kind in kinds}
        spread = self.units.spread
        gains = {
            kind: spread * float(found[kind].value) / float(self.price(kind)) for kind in kinds
        }
        kind = max(kinds, key=gains.__getitem__)
        record = GainRecord(kind, "gain", **{f"{one}_gain": gains[one] for one in kinds})
        item, *others = search.candidates(found[kind])
        return Chosen(record, item, None, others)

    def _buys(self, kind: Kind) -> bool:
        """Whether a query can be paid beside the value that is kept to the end."""
        kept = self.price("value")
        return self.affords(self.price(kind) + (kept if self.affords(kept) else 0))

    def _add(self, query: Query, answer: Any) -> None:
        if query.measures:
            self.values.append(Answered(query, answer))
        elif query.is_plain:
            self.duels.append(Answered(query, answer))
        self._model = None

    def _recommended(self) -> Candidate:
        """The maximiser of the posterior mean of the utility, over the whole domain."""
        if not self.duels and not self.values:
            raise ComparisonDataError("Nothing was answered yet, so nothing is recommended.")
        search = _Search(self, self.num_answers, [])
        return search.candidates(search.recommended)[0]


class _Search:
    """The best queries under the model of a strategy, with pending queries as expected.

    Of very many choices they are sought among a short list of those that may be best.
    """

    def __init__(self, strategy: CostAwareKG, number: int, pending: Sequence[Query]) -> None:
        self.seed = derive_seed(strategy.seed, "optimizer", number)
        self.model, self.noise = strategy.model(pending), strategy.value_noise
        self.mean_rule = mean_rule(self.model.posterior_mean)
        self.space, self.listed, self.asked_for = strategy.space, None, strategy.asked
        if self.space.is_large:
            self.listed = shortlist(self.model, marked(self.space.table, UTILITY), self.seed)
            self.space = self.space.subset(self.listed)
        answered = (*strategy.values, *strategy.duels)
        self.asked = strategy._items_of([query for query, _ in answered])
        self.avoid = strategy._items_of([query for query in pending if query.measures])

    @cached_property
    def recommended(self) -> Maximum:
        """The maximiser of the posterior mean over the whole domain."""
        return self._maximum(self.mean_rule, UTILITY, self._promising, options=None)

    def candidates(self, found: Maximum) -> list[Candidate]:
        """What was found, as items of the whole domain."""
        if found.indices is None:
            return [Candidate(item, None) for item in found.items]
        rows = torch.tensor(found.indices)
        rows = rows if self.listed is None else self.listed[rows.to(self.listed)]
        return [*map(Candidate, found.items, rows.tolist())]

    def value(self) -> Maximum:
        """The value of the largest gain."""
        reference = marked(self.reference, UTILITY)
        rule = DiscreteKnowledgeGradient(self.model, reference, noise=self.noise)
        return self._unasked(self._maximum(rule, UTILITY, self.reference), rule)

    def confirmed(self) -> Maximum:
        """What is recommended, if that can be measured; else the next best item."""
        return self._unasked(self.recommended, self.mean_rule)

    def question(self) -> Maximum:
        """The duel of the largest gain, or a larger question about its items, for an answer."""
        pair = self.duel()
        if self.asked_for.kind is Duel:
            return pair
        if pair.indices is None:
            sample = self.space.sample(_NEARBY, self.seed)
            items = torch.cat([pair.items, self.reference, sample])
        else:
            asked = self.contenders.new_tensor(pair.indices)
            rows = torch.cat([asked, self.contenders, self.space.distinct_rows[:_POOL]])
            items = self.space.table[rows]
        views = torch.cat([marked(items, UTILITY), marked(items, COMPARED)])
        with torch.no_grad():
            both = self.model.posterior(views)
        table = SeenTable.of_both(both.mean.squeeze(-1), both.covariance_matrix)
        known = self.space, items, table.mean, table.covariance
        chosen = with_more([0, 1], self.asked_for.num_items, *known, self.seed)
        table = table.times(link_of(self.model).scale / self.model.likelihood.scale)
        repeats = KnowledgeGradient.repeats
        gains = gain_of_question(table, chosen, answers_to(self.asked_for, self.model), repeats)
        best = max(gain / times for gain, times in zip(gains, repeats, strict=True))
        indices = None if pair.indices is None else tuple(rows[chosen].tolist())
        return Maximum(items[chosen], pair.value.new_tensor(best), indices)

    def duel(self) -> Maximum:
        """The duel of the largest gain; of choices among those that may be best."""
        reference = marked(self.reference, UTILITY)
        rule = DuelingKnowledgeGradient(self.model, reference, project=as_utility)
        if self.space.choices is None:
            best = self.recommended.items.expand_as(self.reference)
            pairs = torch.stack([best, self.reference], dim=-2)
            return self._maximum(rule, COMPARED, pairs[(pairs[:, 0] != pairs[:, 1]).any(-1)])
        part = self.space.subset(self.contenders)
        found = part.maximize(_seen_as(rule, COMPARED, self.space.dim), q=2, seed=self.seed)
        rows = self.contenders[list(found.indices or ())]
        return found._replace(indices=tuple(rows.tolist()))

    def _maximum(
        self,
        rule: AcquisitionFunction,
        marker: float,
        starts: Tensor,
        options: dict[str, Any] | None = _RULE_OPTIONS,
    ) -> Maximum:
        """The maximum over items, or over pairs from ``s x 2 x d``-dim starts."""
        starts = starts.unsqueeze(-2) if starts.dim() == 2 else starts
        return self.space.maximize(
            _seen_as(rule, marker, self.space.dim),
            q=starts.shape[-2],
            seed=self.seed,
            starts=starts,
            raw_samples=_RAW_SAMPLES,
            options=options,
        )

    def _unasked(self, found: Maximum, rule: AcquisitionFunction) -> Maximum:
        """The item that was found, or the next best one where that one is being measured."""
        rule = _seen_as(rule, UTILITY, self.space.dim)
        return next_best(found, self.space, rule, self.seed, self.avoid)

    @cached_property
    def _promising(self) -> Tensor:
        """The ``k x d``-dim asked items of the largest mean."""
        return self.asked[self._largest_means(self.asked)] if len(self.asked) else self.asked

    def _largest_means(self, items: Tensor) -> Tensor:
        mean, _ = self.model.marginals(marked(items, UTILITY))
        return mean.topk(min(_WELL_KNOWN, len(mean))).indices

    @cached_property
    def contenders(self) -> Tensor:
        """The rows of different choices that may be best: of the largest mean, or in a draw."""
        rows = self.space.distinct_rows
        items = self.space.table[rows]
        return rows[torch.cat([self._largest_means(items), self._best_of_draws(items)]).unique()]

    @cached_property
    def reference(self) -> Tensor:
        """The ``M x d``-dim items that may be best."""
        if self.space.choices is not None:
            table = self.space.table
            return table if len(table) <= _MOST_EXACT else table[self.contenders]
        promising = torch.cat([self.recommended.items, self._promising])
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
        generator = torch.Generator().manual_seed(derive_seed(self.seed, "draws", 0))
        draws = joint_draws(joint.mean.squeeze(-1), joint.covariance_matrix, _DRAWS, generator)
        return draws.argmax(-1).unique()


def _seen_as(rule: AcquisitionFunction, marker: float, dim: int) -> AcquisitionFunction:
    """A rule over items alone, with the column that says how they are seen filled in."""
    return FixedFeatureAcquisitionFunction(rule, d=dim + 1, columns=[dim], values=[marker])
