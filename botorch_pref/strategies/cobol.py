r"""COBOL: Bayesian optimisation in collaboration with an expert who accepts or rejects.

Xu, Adachi, Jones and Osborne, *Principled Bayesian Optimisation in Collaboration with Human
Experts* (2024), cited as Xu et al. (2024b). Here values are maximised, an expert's latent belief
is large where items are accepted, and ``upper`` and ``lower`` are the ends of its interval.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, Self, cast

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.models import SingleTaskGP
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import ConstantKernel, Kernel, RBFKernel, ScaleKernel
from gpytorch.means import ZeroMean
from gpytorch.settings import lazily_evaluate_kernels
from linear_operator import to_dense
from torch import Tensor

from botorch_pref.acquisition.expert_augmented_lcb import ExpertAugmentedLCB
from botorch_pref.acquisition.log_human_constrained_ei import LogHumanConstrainedEI
from botorch_pref.acquisition.optimistic_acceptance import OptimisticAcceptance
from botorch_pref.acquisition.standard_units import standardised_posterior
from botorch_pref.data.checks import check_count, check_word, checked_positive, is_positive
from botorch_pref.data.comparisons import Comparisons
from botorch_pref.data.options import checked_flag
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.likelihood_ratio.confidence_set import SqrtSlack
from botorch_pref.likelihoods import BernoulliLikelihood
from botorch_pref.models.likelihood_ratio_model import LikelihoodRatioModel
from botorch_pref.models.normal_belief import NormalBelief
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.queries import Answer, Answered, Duel, Evaluate, Label, Query
from botorch_pref.randomness import derive_seed
from botorch_pref.space.maximize import Feasible, best_first
from botorch_pref.space.search_space import SearchSpace
from botorch_pref.strategies.base import Candidate, Chosen, Strategy, next_best, same_item
from botorch_pref.strategies.regression import Regression, standardised_gp
from botorch_pref.strategies.state import (
    FLAG,
    Entry,
    Form,
    listed,
    number,
    optional,
    record,
    whole,
)
from botorch_pref.strategies.utility import KernelArgument, as_likelihood, own_kernel

CandidateRule = Literal["hcei", "primal-dual"]
Feedback = Literal["accept", "compare"]
InitialLabels = Literal["space_filling", "balanced"]
Scale = Literal["probability", "logit"]
Source = Literal["initial", "augmented", "vanilla"]
Rule = Callable[..., AcquisitionFunction]

_NORM_BOUND = 1.0  # of the belief to begin with, for a kernel of unit variance
_SLACK = SqrtSlack(scale=0.01, offset=1.0, times_bound=True)

# The paper's, of standardised values; the scale of their noise is their variance.
_OBJECTIVE_NORM, _FAILURE = 1.0, 0.01

RAW_SAMPLES = 512
TOLERANCE = 1e-6  # of bounds within a line search, logits
_SCREENING = 1e-2  # of bounds that only select where a line search begins
# Line searches from samples, and from items that are known. Were the best of all taken, these would
# soon be crowded around one that was asked, and the search would be a local one.
_FAR, _NEAR = 4, 2
_KEPT = 32  # items that pass a coarse screen
_CHUNK = 256
# Of a large table: rows at random, and half as many by each score; the shares that the expert is
# likely to like best, of which the best by the values are such a score; rows at a time.
_DRAWN, _LIKED, _BLOCK = 1024, (0.5, 0.25, 0.1, 0.03), 4096
# Of a search over bounds: they have kinks, at which all tries of a step fail, and what gains
# less than 2e-6 changes nothing.
_SEARCH = {"maxls": 8, "ftol": 1e10 * sys.float_info.epsilon}
_MOST_SHOWN = 50  # times the number of balanced labels: who rejects nearly all is asked no longer


@dataclass(frozen=True)
class Decision:
    r"""Why an item is evaluated, or shown to the expert.

    Attributes:
        asks: Whether the expert is asked.
        source: Which of the two candidates the item is, or a part of the initial design.
        reason: Why, in a few words.
        weight: The weight ``lambda`` of the expert's belief at this step.
        norm_bound: The bound on the norm of the belief.
        bound: ``mean + beta sd`` of the objective at the augmented candidate, standardised.
        best_lower: The largest ``mean - beta sd``, which the bound must reach to be trusted.
        deviation: Standard deviation of the objective at the augmented candidate.
        vanilla_deviation: That at the vanilla candidate.
        lower: The lower end of the belief at the augmented candidate, a logit.
        upper: The upper end.
    """

    asks: bool
    source: Source
    reason: str
    weight: float = math.nan
    norm_bound: float = math.nan
    bound: float = math.nan
    best_lower: float = math.nan
    deviation: float = math.nan
    vanilla_deviation: float = math.nan
    lower: float = math.nan
    upper: float = math.nan


class FromValues(NamedTuple):
    """What depends on the values alone, and is kept until there is another value."""

    num_values: int
    vanilla: Candidate
    best_lower: float = math.nan  # the largest `mean - beta sd`, once a test needs it


def _read_due(name: str, value: Any, owner: COBOL) -> tuple[Candidate, int]:
    """An accepted item, and the query by which it was."""
    item, row, asked = value
    asked = whole(most=owner._next_id - 1).read(name, asked, owner)
    return Candidate.read(name, (item, row), owner.space), asked


def _read_from_values(name: str, value: Any, owner: COBOL) -> FromValues:
    """What depends on the values alone."""
    size, item, row, best_lower = value
    size = whole(most=len(owner.values.answers)).read(name, size, owner)
    vanilla = Candidate.read(name, (item, row), owner.space)
    return FromValues(size, vanilla, _BEST_LOWER.read(name, best_lower, owner))


_BEST_LOWER = number(endless=True)
_DUE = Form(_read_due, lambda due: [due[0].item.tolist(), due[0].row, due[1]])
_FROM_VALUES = Form(
    _read_from_values,
    lambda known: [
        known.num_values,
        known.vanilla.item.tolist(),
        known.vanilla.row,
        _BEST_LOWER.write(known.best_lower),
    ],
)


@dataclass(kw_only=True, eq=False, repr=False)
class COBOL(Strategy):
    r"""Bayesian optimisation with an expert's advice, Xu et al. (2024b), Algorithm 1.

    At every step there are two candidates. The vanilla one maximises ``mean + beta sd`` of the
    objective. The augmented one also depends on the expert's belief, a likelihood-ratio set of
    their labels; see ``candidate``. It is taken while the objective alone gives no reason against
    it (no harm), and the expert is asked only while their belief there is uncertain (handover).
    What they reject is not measured, what they accept is next; where they do not answer, the
    vanilla candidate is. ``ask`` returns :class:`~botorch_pref.queries.Label` or
    :class:`~botorch_pref.queries.Evaluate`; or, with ``feedback="compare"``, a
    :class:`~botorch_pref.queries.Duel` of the candidate and the best measured item in place of a
    label, where no preference is no objection.

    Of more than 2,000 choices a step searches a few thousand rows: the best by the objective, of
    all and of those that the expert is likely to like, and some at random.

    Values are maximised, a label of 1 accepts. Values that others are measuring, or that were
    skipped, are taken as expected meanwhile, and not asked for again. Annotators are not told
    apart, and whoever is asked may be asked for a value: ``query.measures`` says so.

    Example:
        >>> strategy = COBOL(bounds=bounds, seed=0)
        >>> query = strategy.ask()
        >>> strategy.tell(query, 1.0 if isinstance(query, Label) else measure(query.items))

    Args:
        bounds, choices, space, seed: See :class:`~botorch_pref.strategies.Strategy`.
        feedback: What the expert is asked: ``"accept"``, whether they accept an item; or
            ``"compare"``, App. H, whether they prefer it to the measured item with the largest
            posterior mean. Then the belief is of the difference to that item, a label is a duel,
            and to reject is to prefer the measured item.
        candidate: What the augmented candidate maximises: ``"hcei"``, eq. (70), expected
            improvement times the likely probability of acceptance; or ``"primal-dual"``, eq. (5),
            the vanilla rule plus ``lambda`` times the upper end of the belief.
        trust_weight: ``lambda_0``, in standard deviations of the values per logit.
        rate: ``zeta``, of the dual step.
        trust: ``eta``, at least 1.
        beta: Multiplies the standard deviation of the objective; None for Lemma 3.1 with the
            paper's constants and the information gain of the values, which is 1 to two digits.
        threshold: ``g_thr``: the expert is asked where their interval is wider.
        threshold_scale: Whether widths are of probabilities or of logits.
        norm_bound_limit: What the bound on the norm of the belief, 1 at first, may be doubled to;
            None for no limit.
        value_bound: The largest absolute logit, with ``"compare"`` of either side of the
            difference; None for no bound.
        label_window: The number of last labels that count, for experts who change their minds;
            None for all.
        label_lengthscale: The lengthscales of the belief, in those of the objective.
        label_intercept: The share of a constant in the variance of the belief, at least 0 and
            below 1. With one, rejections all over the domain also lower the belief far from all
            labels, where it is even without one.
        belief: What the expert believes as a function, App. H, which takes the place of labels: the
            ``"mean"`` and ``"covariance"`` of a :class:`~botorch_pref.models.NormalBelief`, lists
            in the units of the items. Nobody is asked then; None for labels.
        max_rejections: After so many in a row the vanilla item is evaluated; None for no limit.
        num_initial_values: Values of a space-filling sample to begin with, at least 1.
        num_initial_labels: Labels of another.
        initial_labels: ``"space_filling"``, labels of such a sample, whatever they are; or
            ``"balanced"``, as in the authors' code: such items are shown until half of the labels
            accept and half reject. What is told beyond the half of its kind is not learnt, and
            after 50 times as many items, or all choices, the strategy continues with what there is.
        known: Values and labels that are known before the first question, as answered queries;
            they count as a part of the initial design. With ``"compare"`` duels take the place of
            labels, and rankings and choices are split into the duels that follow from them.
        noise: The variance of the noise of a value, in squared standard deviations of all.
        lengthscale_prior: Whether BoTorch's prior is put on lengthscales.
        likelihood: The link of labels or duels; logit by default. Of another link the latent
            takes the place of logits here.
        covar_module: The prior covariance of standardised values, or what makes one of ``d``; by
            default squared exponential with ARD and unit variance. The belief has a copy with the
            lengthscales that the values have taught, without an output scale.

    Raises:
        ComparisonDataError: If an option is out of range; names it.
        SearchSpaceError: If the domain cannot be used.

    Attributes:
        weight: ``lambda``, which begins at ``trust_weight``.
        decisions: Why each query was asked, by its number.
        values: The evaluations, and the regression on them.
        labelled: Labels or duels, and their answers.
        norm_bound: The bound on the norm of the expert's belief, which only grows.
    """

    feedback: Feedback = "accept"
    candidate: CandidateRule = "hcei"
    trust_weight: float = 1.0
    rate: float = 0.02
    trust: float = 3.0
    beta: float | None = 1.0
    threshold: float = 0.1
    threshold_scale: Scale = "probability"
    norm_bound_limit: float | None = 4.0
    value_bound: float | None = 3.0
    label_window: int | None = None
    label_lengthscale: float = 2.0
    label_intercept: float = 0.3
    belief: Mapping[str, Any] | None = None
    max_rejections: int | None = 5
    num_initial_values: int = 3
    num_initial_labels: int = 10
    initial_labels: InitialLabels = "space_filling"
    known: Sequence[Any] = ()
    noise: float = 1e-4
    lengthscale_prior: bool = True
    likelihood: BernoulliLikelihood | Mapping[str, Any] | None = None
    covar_module: KernelArgument = None

    _asks: ClassVar[tuple[type[Query], ...]] = (Label, Duel, Evaluate)
    _measures_accepted: ClassVar[bool] = True
    _entries = Strategy._entries | {
        "weight": Entry("weight", number(0.0)),
        "decisions": Entry("decisions", listed(record(Decision), "_next_id", "_next_id")),
        "values": Entry("values"),
        "norm_bound": Entry("norm_bound", number(_NORM_BOUND)),
        "num_adapted": Entry("_num_adapted", whole(most=lambda own: len(own.labelled))),
        "due": Entry("_due", listed(_DUE, most="_next_id")),
        "rejections": Entry("_rejections", whole(most="_next_id")),
        "unanswered": Entry("_unanswered", FLAG),
        "from_values": Entry("_from_values", optional(_FROM_VALUES)),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_options()
        self.likelihood = as_likelihood(self.likelihood)
        build = partial(standardised_gp, noise=self.noise, mean_module=ZeroMean())
        self.values = Regression(self.space, build, self._values_kernel(), refit=1)
        self.labelled: list[Answered] = []
        self.norm_bound = _NORM_BOUND
        self.weight = float(self.trust_weight)
        self.decisions: list[Decision] = []
        self._num_adapted = 0  # labels that the norm bound was adapted to
        self._expert: LikelihoodRatioModel | NormalBelief | None = None
        self._due: list[tuple[Candidate, int]] = []  # accepted, to be evaluated; and its query
        self._rejections = 0  # in a row
        self._unanswered = False  # whether the expert was asked last and did not answer
        self._from_values: FromValues | None = None
        self._num_shown = 0  # to the expert, answered or not
        self.known = self._read_known(self.known)
        for query, answer in self.known:
            if isinstance(query, Label | Duel | Evaluate):
                self._add(Answered(query, answer))
                continue
            for pair, won in query.comparisons(cast(Answer, answer)):
                self._add(Answered(Duel(query.id, pair), won))

    def _check_options(self) -> None:
        check_word("feedback", self.feedback, Feedback)
        check_word("candidate", self.candidate, CandidateRule)
        check_word("initial_labels", self.initial_labels, InitialLabels)
        if self.initial_labels == "balanced" and self.feedback == "compare":
            raise ComparisonDataError(
                '`initial_labels` "balanced" is for `feedback` "accept": duels have no kinds.'
            )
        check_word("threshold_scale", self.threshold_scale, Scale)
        checked_flag("lengthscale_prior", self.lengthscale_prior)
        self.label_lengthscale = checked_positive("label_lengthscale", self.label_lengthscale)
        self.noise = checked_positive("noise", self.noise)
        self.num_initial_values = check_count("num_initial_values", self.num_initial_values, 1)
        self.num_initial_labels = check_count("num_initial_labels", self.num_initial_labels, 0)
        for name in ("beta", "norm_bound_limit", "value_bound"):
            if (value := getattr(self, name)) is not None:
                checked_positive(name, value)
        for name in ("label_window", "max_rejections"):
            if (value := getattr(self, name)) is not None:
                check_count(name, value, 1)
        for name in ("trust_weight", "rate", "trust", "threshold", "label_intercept"):
            value = getattr(self, name)
            least = 1.0 if name == "trust" else 0.0
            most = 1.0 if name == "label_intercept" else math.inf
            fits = (is_positive(value) or value == 0) and least <= value < most
            if not fits and not (name == "threshold" and value == math.inf):
                raise ComparisonDataError(
                    f"`{name}` must be at least {least:g} and below {most:g}, not {value!r}."
                )
        if self.belief is not None:
            if self.feedback == "compare":
                raise ComparisonDataError('`belief` is for `feedback` "accept".')
            given = self._given_belief(self.belief)
            self.belief = {"mean": given.mean.tolist(), "covariance": given.covariance.tolist()}

    @classmethod
    def paper(cls, **kwargs: Any) -> Self:
        """The paper's rule and settings, without the caps and the prior that are ours.

        With ``value_bound=3.0`` the belief is bounded to [-3, 3], the range of the paper's
        synthetic experts, so that a step takes at most .06 from the weight; with
        ``initial_labels="balanced"``, too, these are the settings of the authors' code.
        """
        settings: dict[str, Any] = {
            "candidate": "primal-dual",
            "norm_bound_limit": None,
            "value_bound": None,
            "threshold": 0.1,
            "threshold_scale": "logit",
            "label_lengthscale": 1.0,
            "label_intercept": 0.0,
            "max_rejections": None,
            "lengthscale_prior": False,
            "beta": None,
        }
        return cls(**settings | kwargs)

    def tell(self, query: Query, answer: Answer | None) -> None:
        """See the base class; what the expert accepts is measured next."""
        super().tell(query, answer)
        told = self.history[-1].answer
        if query.measures:
            self._rejections = 0
        elif self.decisions[query.id].source != "initial":
            self._unanswered = told is None
            if told is not None:
                self._rejections = 0 if told else self._rejections + 1
            if told and self._measures_accepted:
                self._plan(query)

    def expert(self) -> LikelihoodRatioModel | NormalBelief:
        """What the expert may believe, a set, or the given belief: logits of what they say."""
        if self._expert is None and self.belief is not None:
            self._expert = self._given_belief(self.belief)
        if self._expert is None:
            last = self.labelled[-(self.label_window or 0) :]
            items = self._items_of(query for query, _ in last)
            answers = items.new_tensor([answer for _, answer in last])
            options: dict[str, Any] = {
                "likelihood": self.likelihood,
                "covar_module": self._label_kernel(),
                "norm_bound": self.norm_bound,
                "slack": _SLACK,
                "box": self.value_bound,
                "input_transform": self.space.input_transform(),
            }
            if self.feedback == "accept":
                self._expert = LikelihoodRatioModel.from_labels(items, answers, **options)
            else:
                data = Comparisons.from_pairs(items.view(len(last), 2, self.space.dim), answers)
                self._expert = LikelihoodRatioModel.from_comparisons(
                    data.datapoints, data, jitter_points=False, **options
                )
        return self._expert

    def _given_belief(self, belief: object) -> NormalBelief:
        """A belief by its mean and covariance."""
        if not isinstance(belief, Mapping) or belief.keys() != {"mean", "covariance"}:
            raise ComparisonDataError(
                f'`belief` has a "mean" and a "covariance" and nothing else, not {belief!r}.'
            )
        try:
            mean, covariance = (
                torch.as_tensor(belief[name], dtype=self.space.bounds.dtype).to(self.space.bounds)
                for name in ("mean", "covariance")
            )
            if mean.shape != (self.space.dim,):
                raise ComparisonDataError(f"`mean` must be of {self.space.dim} numbers.")
            return NormalBelief(mean, covariance, bound=self.value_bound)
        except (TypeError, ValueError, ComparisonDataError) as error:
            raise ComparisonDataError(f"`belief`: {error}") from error

    @torch.no_grad()
    def beta_of(self, objective: SingleTaskGP) -> float:
        """The multiple of an objective's deviation that bounds are taken at."""
        if self.beta is not None:
            return self.beta
        covariance = to_dense(objective.covar_module(objective.train_inputs[0]))
        eigenvalues = torch.linalg.eigvalsh(covariance)  # which also repeated items have
        gain = 0.5 * float((eigenvalues.clamp_min(0.0) / self.noise).log1p().sum())
        # Lemma 3.1: the bounds hold for all items and steps with probability 1 - delta / 2.
        width = self.noise * math.sqrt(2.0 * (gain + 1.0 + math.log(2.0 / _FAILURE)))
        return _OBJECTIVE_NORM + width

    def refit(self) -> None:
        """Fit lengthscales to new values, and double the norm bound if new labels ask for it."""
        if self.values.learn():
            self._expert = None
        if len(self.labelled) > self._num_adapted:
            limit = self.norm_bound_limit or math.inf
            labels = cast(LikelihoodRatioModel, self.expert())
            adapted = labels.adapt_norm_bound(limit=limit, max_doublings=1)
            self._num_adapted = len(self.labelled)
            if adapted.norm_bound > self.norm_bound:
                self.norm_bound, self._expert = adapted.norm_bound, adapted

    def _values_kernel(self) -> Kernel:
        """The prior covariance of standardised values."""
        dim, kernel = self.space.num_features, own_kernel(self.covar_module, self.space)
        if kernel is None and self.lengthscale_prior:
            kernel = get_covar_module_with_dim_scaled_prior(ard_num_dims=dim)
        elif kernel is None:  # bounded as with the prior, or distances could have no digits left
            kernel = RBFKernel(ard_num_dims=dim, lengthscale_constraint=GreaterThan(2.5e-2))
        return kernel.double()

    def _label_kernel(self) -> Kernel:
        """The belief's, of unit variance: that of the values, wider, and a share of a constant."""
        kernel = deepcopy(cast(Kernel, self.values.model().covar_module))
        if isinstance(kernel, ScaleKernel):
            kernel = kernel.base_kernel
        if kernel.has_lengthscale and self.label_lengthscale != 1.0:
            kernel.lengthscale = self.label_lengthscale * kernel.lengthscale.detach()
        share = self.label_intercept
        if share == 0.0:
            return kernel
        local, constant = ScaleKernel(kernel).double(), ConstantKernel().double()
        local.outputscale, constant.constant = torch.tensor([1.0 - share, share]).double()
        return local + constant

    def _choose(self, query_id: int, annotator: str | None) -> Query:
        if self._due:
            due, asked = self._due.pop(0)
            decision = replace(self.decisions[asked], asks=False, reason="accepted")
            chosen = Chosen(decision, due)
        else:
            self.round += 1
            chosen = self._initial() or self._decided()
        decision, item, opponent = chosen[:3]
        self.decisions.append(decision)
        if opponent is not None:
            return Duel.between(query_id, item, opponent, annotator)
        kind = Label if decision.asks else Evaluate
        return kind(query_id, *item, annotator)

    def _initial(self) -> Chosen | None:
        """The next query of the initial design, values first; None where it is complete."""
        started = [decision.asks for decision in self.decisions if decision.source == "initial"]
        started += [not query.measures for query, _ in self.known]
        values, labels = started.count(False), started.count(True)
        # Where all values were skipped, others are asked for.
        asks = values >= self.num_initial_values and bool(self.values.answers)
        enough = labels >= self.num_initial_labels or self.belief is not None
        if self.initial_labels == "balanced" and self.belief is None:
            enough = labels >= self._most_shown or not self._missing_kinds()
        if asks and enough:
            return None
        size = 2 if asks and self.feedback == "compare" else 1
        start = size * (labels if asks else values)
        seed = derive_seed(self.seed, f"initial {asks}", 0)
        items = self.space.sample(start + size, seed)[start:]
        rows: list[Any] = [None] * size
        if self.space.choices is not None:
            rows = self.space.sample_rows(start + size, seed)[start:].tolist()
            if size == 2 and torch.equal(*items):
                rows[1] = self.space.row_unlike(derive_seed(seed, "other", labels), rows[0])
                items = self.space.table[rows]
        decision = Decision(asks, "initial", "initial design", self.weight)
        item, *others = map(Candidate, items, rows)
        return Chosen(decision, item, others[0] if others else None)

    def _decided(self) -> Chosen:
        """The query after the initial design."""
        self.refit()
        step = Step(self)
        chosen = self._decide(step)
        self._from_values = None if step.pending else step.from_values
        self._unanswered = False
        if not math.isnan(upper := chosen.record.upper):
            # Eq. (5): it grows while even an optimist believes that the expert would reject.
            self.weight = max(0.0, self.weight - self.rate * upper)
        return chosen

    def _decide(self, step: Step) -> Chosen:
        """Lines 4 to 13 of Algorithm 1."""
        vanilla = step.vanilla()
        augmented = self._augmented(step, vanilla)
        vanilla, known = step.known(vanilla, augmented)
        reason = doubt(known, self.trust)
        if self._unanswered:
            reason = "the expert did not answer"
        elif self.max_rejections is not None and self._rejections >= self.max_rejections:
            reason = f"{self._rejections} rejections in a row"
        if reason is not None:
            return Chosen(replace(known, reason=reason), vanilla)
        return step.handed_over(known, augmented)

    def _augmented(self, step: Step, vanilla: Candidate) -> Candidate:
        """The candidate of line 4; the vanilla one where nothing is added to its rule."""
        if self.candidate == "hcei":
            best = max(done.number for done in self.values.answers)
            hcei = LogHumanConstrainedEI(step.objective, self.expert(), best, x_ref=step.x_ref)
            return step.best_of_labels(lambda **_: hcei, step.starts(vanilla))
        if self.weight == 0.0:
            return vanilla
        belief = (self.expert(), step.beta, self.weight)
        rule = partial(ExpertAugmentedLCB, step.objective, *belief)
        return step.best_of_labels(rule, step.starts(vanilla))

    def _plan(self, accepted: Query) -> None:
        """Have an accepted item measured, unless that is planned, or asked for since."""
        found = Candidate.of_query(accepted)
        others = (*self._open.values(), *(past.query for past in self.history))
        since = self._items_of(q for q in others if q.measures and q.id > accepted.id)
        planned = [due.item.to(since).unsqueeze(0) for due, _ in self._due]
        if not same_item(self.space, found.item.to(since), torch.cat([since, *planned])).any():
            self._due.append((found, accepted.id))

    def _unmeasured(self) -> list[Query]:
        """See the base class; what others are asked about may be measured next."""
        shown = [
            Evaluate(query.id, *Candidate.of_query(query), query.annotator)
            for query in self._open.values()
            if not query.measures and self.decisions[query.id].source != "initial"
        ]
        return [*super()._unmeasured(), *shown]

    @property
    def _most_shown(self) -> int:
        """The most items that are shown for balanced labels."""
        most = _MOST_SHOWN * self.num_initial_labels
        return most if self.choices is None else min(most, len(self.choices))

    def _missing_kinds(self) -> list[float]:
        """The labels of which there is no half of the balanced ones."""
        told = [answer for _, answer in self.labelled]
        halves = {1.0: self.num_initial_labels // 2, 0.0: -(-self.num_initial_labels // 2)}
        return [kind for kind, half in halves.items() if told.count(kind) < half]

    def _check_known(self, query: Query) -> None:
        if self.belief is not None and not query.measures:
            raise ComparisonDataError(f"it is a {query.kind}, whose place `belief` takes.")
        if not query.compares:
            super()._check_known(query)
        if not query.measures and query.compares != (self.feedback == "compare"):
            raise ComparisonDataError(f"it is a {query.kind}, not of `feedback` {self.feedback!r}.")

    def _read(self, stored: Mapping[str, Any], device: torch.device | None) -> Query:
        query, of_pairs = super()._read(stored, device), self.feedback == "compare"
        if Duel in self._asks and not query.measures and query.compares != of_pairs:
            raise ComparisonDataError(
                f"Query {query.id} is a {query.kind}, not of `feedback` {self.feedback!r}."
            )
        return query

    def _recommended(self) -> Candidate:
        """The evaluated item with the largest posterior mean."""
        return self.values.best()

    def _learn(self, answered: Answered) -> None:
        query, answer = answered
        if not query.measures:
            self._num_shown += 1
            if self.initial_labels == "balanced" and self._num_shown <= self._most_shown:
                missing = self._missing_kinds()
                if missing and answer not in missing:
                    return
        if answer is not None:
            self._add(answered)

    def _add(self, answered: Answered) -> None:
        """Add an answer to the values or the labels."""
        query, answer = answered
        if query.measures:
            self.values.add(query, answered.number)
        elif not query.compares or query.comparisons(cast(Answer, answer)):
            self.labelled.append(answered)
            self._expert = None


class COBOHL(COBOL):
    r"""Xu et al. (2024b), Algorithm 2: the expert alone says where to look.

    The one candidate maximises ``mean + beta sd`` where the expert may accept, or is the least
    unacceptable item where they may not. While their belief there is uncertain they are asked, and
    whatever they say nothing is measured; then the item is. There is no guarantee against harm,
    and ``candidate``, ``trust``, ``trust_weight`` and ``max_rejections`` have no part in it. A
    label that is skipped is asked for again. Everything else is as of :class:`COBOL`.

    Example:
        >>> strategy = COBOHL(bounds=bounds, seed=0)
    """

    _measures_accepted = False

    def _decide(self, step: Step) -> Chosen:
        found = step.constrained(step.asked)
        return step.handed_over(step.known(found, found)[1], found)


class Step:
    """The models of one step, their searches, and the tests of lines 6 and 8 of Algorithm 1.

    Searches that depend on labels are seeded by the number of the step, those that do not by the
    number of values. Of more than 2,000 choices they are over some rows: the best ones by the
    values, of all and of those that the expert is likely to like, and some at random.
    """

    def __init__(self, strategy: COBOL) -> None:
        self.strategy, self.space, self.rows = strategy, strategy.space, None
        self.pending = strategy._unmeasured()
        self.objective = strategy.values.model(self.pending)
        self.beta = strategy.beta_of(self.objective)
        self.optimism = ExpertAugmentedLCB(self.objective, None, self.beta, 0.0)
        asked = [done.query for done in (*strategy.known, *strategy.history)]
        self.asked, self.avoid = strategy._items_of(asked), strategy._items_of(self.pending)
        self.incumbent = strategy.values.best() if strategy.feedback == "compare" else None
        self.x_ref = None if self.incumbent is None else self.incumbent.item
        if self.space.is_large:
            self.rows = self._rows()
            self.space = strategy.space.subset(self.rows)
        known, self.num_values = strategy._from_values, len(strategy.values.answers)
        fits = known is not None and known.num_values == self.num_values and not self.pending
        self.from_values = known if fits else None

    @torch.no_grad()
    def _rows(self) -> Tensor:
        """Sorted rows of a large table."""
        values, table = self.strategy.values, self.strategy.space.table
        known = values.model()
        noise = cast(Tensor, known.likelihood.noise).reshape(-1, 1)
        model = PreferenceGP(
            None,
            None,
            values=(values.items, known.train_targets.reshape(-1, 1), noise),
            covar_module=deepcopy(known.covar_module),
            mean_module=ZeroMean(),
            input_transform=self.strategy.space.input_transform(),
        )
        mean, variance = model.marginals(table, rough=True)
        belief = OptimisticAcceptance(self.strategy.expert(), x_ref=self.x_ref)
        liked = torch.cat([belief.estimate(part) for part in table.split(_BLOCK)]).to(mean)
        upper = mean + self.beta * variance.sqrt()
        scores = [mean, upper, liked]
        for share in _LIKED:
            least = liked.topk(int(share * len(table))).values[-1]
            scores.append(upper.masked_fill(liked < least, -torch.inf))
        seed = derive_seed(self.strategy.seed, "rows", self.strategy.round)
        some = torch.randperm(len(table), generator=torch.Generator().manual_seed(seed))
        best = [score.topk(_DRAWN // 2).indices for score in scores]
        return torch.cat([*best, some[:_DRAWN].to(table.device)]).unique()

    def starts(self, candidate: Candidate) -> Tensor:
        """``s x d``-dim items from which a search of a box may begin."""
        return torch.cat([candidate.item.unsqueeze(0), self.asked])

    def vanilla(self) -> Candidate:
        """The candidate of line 5, which is kept until there is another value."""
        if self.from_values is None:
            found = self.best_of_values(self.optimism, "optimizer vanilla", self.asked)
            self.from_values = FromValues(self.num_values, found)
        return self.from_values.vanilla

    def constrained(self, starts: Tensor) -> Candidate:
        """The best bound where the upper end is not negative, or the largest upper end."""
        expert = self.strategy.expert()
        rule = partial(OptimisticAcceptance, expert)
        top = self.best_of_labels(rule, starts, "optimizer upper")
        if belief_ends(expert, top.item, self.x_ref)[1] < 0.0:
            return top
        seed = derive_seed(self.strategy.seed, "optimizer augmented", self.strategy.round)
        feasible = OptimisticAcceptance(expert, x_ref=self.x_ref).upper
        space, rows = self._with_feasible(feasible)
        found = space.maximize(
            self.optimism,
            seed=seed,
            starts=torch.cat([top.item.unsqueeze(0), starts]).unsqueeze(-2),
            raw_samples=RAW_SAMPLES,
            feasible=feasible,
        )
        found = next_best(found, space, self.optimism, seed, self.avoid, feasible)
        return _of_rows(_of_rows(Candidate.of(found), rows), self.rows)

    @torch.no_grad()
    def _with_feasible(self, feasible: Feasible) -> tuple[SearchSpace, Tensor | None]:
        """The space; of a large table the first rows by the bound among which one is feasible."""
        if not self.space.is_large:
            return self.space, None
        table = self.space.table
        best = best_first(_values(self.optimism, table.unsqueeze(-2)))
        for first in range(0, len(best), _KEPT):
            rows = best[min(first, len(best) - _KEPT) :][:_KEPT]
            if bool((feasible(table[rows]) >= 0.0).any()):
                return self.space.subset(rows), rows
        return self.space, None

    def best_of_labels(
        self, rule: Rule, starts: Tensor, stream: str = "optimizer augmented"
    ) -> Candidate:
        """The maximiser of a rule, which is made for a tolerance of the expert's bounds."""
        seed = derive_seed(self.strategy.seed, stream, self.strategy.round)
        fine, *screens = (
            rule(x_ref=self.x_ref, tolerance=tolerance)
            for tolerance in (TOLERANCE, math.inf, _SCREENING)
        )
        return _of_rows(best(self.space, fine, seed, starts, self.avoid, screens), self.rows)

    def best_of_values(self, rule: AcquisitionFunction, stream: str, starts: Tensor) -> Candidate:
        """The maximiser of a rule of the values alone."""
        seed = derive_seed(self.strategy.seed, stream, self.num_values)
        return _of_rows(best(self.space, rule, seed, starts, self.avoid), self.rows)

    @torch.no_grad()
    def moments(self, item: Tensor) -> tuple[float, float]:
        """The standardised mean and deviation of the latent objective at a ``d``-dim item."""
        mean, deviation = standardised_posterior(self.objective, item.unsqueeze(0))
        return float(mean), float(deviation)

    def known(self, vanilla: Candidate, augmented: Candidate) -> tuple[Candidate, Decision]:
        """The vanilla candidate, or a better one, and all numbers of the tests."""
        strategy, beta = self.strategy, self.beta
        mean, sd = self.moments(augmented.item)
        vanilla_mean, vanilla_sd = self.moments(vanilla.item)
        best_lower = lower = upper = math.nan
        if not torch.equal(augmented.item, vanilla.item):
            if mean + beta * sd > vanilla_mean + beta * vanilla_sd:
                # The search has missed what the other one found.
                start = augmented.item.unsqueeze(0)
                vanilla = self.best_of_values(self.optimism, "optimizer repair", start)
                vanilla_sd = self.moments(vanilla.item)[1]
            assert self.from_values is not None
            best_lower = self.from_values.best_lower
            if math.isnan(best_lower):
                pessimism = ExpertAugmentedLCB(self.objective, None, -beta, 0.0)
                starts = torch.stack([vanilla.item, augmented.item, *strategy.values.items])
                certain = self.best_of_values(pessimism, "optimizer lower", starts)
                other_mean, other_sd = self.moments(certain.item)
                best_lower = other_mean - beta * other_sd
            best_lower = max(best_lower, mean - beta * sd)
            self.from_values = FromValues(self.num_values, vanilla, best_lower)
        if strategy.threshold < math.inf or strategy.rate > 0.0:
            lower, upper = belief_ends(strategy.expert(), augmented.item, self.x_ref)
        known = Decision(
            asks=False,
            source="vanilla",
            reason="",
            weight=strategy.weight,
            norm_bound=strategy.norm_bound,
            bound=mean + beta * sd,
            best_lower=best_lower,
            deviation=sd,
            vanilla_deviation=vanilla_sd,
            lower=lower,
            upper=upper,
        )
        return vanilla, known

    def handed_over(self, known: Decision, augmented: Candidate) -> Chosen:
        """Line 8: the augmented candidate, after the expert was asked or at once."""
        strategy, known = self.strategy, replace(known, source="augmented")
        of_logits = strategy.threshold_scale == "logit"
        link = None if of_logits else cast(BernoulliLikelihood, strategy.likelihood)
        if not is_wide(known.lower, known.upper, strategy.threshold, link):
            return Chosen(replace(known, reason="the belief is known there"), augmented)
        known = replace(known, asks=True, reason="the belief is uncertain there")
        return Chosen(known, augmented, self.incumbent)


def doubt(known: Decision, trust: float) -> str | None:
    """Line 6: why another candidate than the vanilla one is not taken; ``trust`` is ``eta``."""
    if known.bound < known.best_lower:
        return "its bound is below what is certain elsewhere"
    if known.vanilla_deviation > trust * known.deviation:
        return "the objective is too well known there"
    return None


def is_wide(
    lower: float, upper: float, threshold: float, link: BernoulliLikelihood | None = None
) -> bool:
    """Line 8: whether the interval of logits, or with a link of probabilities, is wider."""
    if link is not None:
        lower, upper = link(torch.tensor([lower, upper], dtype=torch.double)).tolist()
    return upper - lower > threshold


@torch.no_grad()
def belief_ends(
    model: LikelihoodRatioModel | NormalBelief, item: Tensor, x_ref: Tensor | None
) -> tuple[float, float]:
    """Both ends of the belief at a ``d``-dim item, or of its difference to another, logits."""
    if isinstance(model, NormalBelief):
        return (float(model.latent(item)),) * 2
    if x_ref is None:
        return float(model.lower(item)), float(model.upper(item))
    pair = torch.stack([item, x_ref])
    return -float(model.advantage(pair.flip(0))), float(model.advantage(pair))


def best(
    space: SearchSpace,
    rule: AcquisitionFunction,
    seed: int,
    starts: Tensor,
    avoid: Tensor,
    screens: Sequence[AcquisitionFunction] = (),
) -> Candidate:
    """The maximiser of a rule over single items, but for ``k x d`` items to avoid.

    A search of a box may also begin at ``s x d`` starts. ``screens`` are the rule to the tolerances
    that select where it begins, the coarser first; the last one selects rows of a large table.
    """
    with lazily_evaluate_kernels(False):  # small matrices, whose bookkeeping takes the time
        points, rows = starts.unsqueeze(-2), None
        if space.choices is None:
            points = _screened(space.sample(RAW_SAMPLES, seed), starts, screens or (rule,))
        elif screens and space.is_large:
            rows = best_first(_values(screens[-1], space.table.unsqueeze(-2)))[:_KEPT]
            space = space.subset(rows)
        options = _SEARCH if screens else None
        found = space.maximize(rule, seed=seed, starts=points, raw_samples=0, options=options)
        return _of_rows(Candidate.of(next_best(found, space, rule, seed, avoid)), rows)


def _of_rows(found: Candidate, rows: Tensor | None) -> Candidate:
    """A candidate among some rows, with its row in the table that they are of."""
    if rows is None or found.row is None:
        return found
    return found._replace(row=int(rows[found.row]))


@torch.no_grad()
def _screened(sampled: Tensor, starts: Tensor, screens: Sequence[AcquisitionFunction]) -> Tensor:
    """The ``s x 1 x d``-dim best of samples and of known items, by one screen after another."""
    *coarse, fine = screens
    parts = []
    for items, kept in ((sampled, _FAR), (starts, _NEAR)):
        points = items.unsqueeze(-2)
        for screen in coarse:
            points = _largest(screen, points, _KEPT)
        parts.append(_largest(fine, points, kept))
    return torch.cat(parts)


def _largest(rule: AcquisitionFunction, points: Tensor, number: int) -> Tensor:
    """Of ``n x 1 x d``-dim items those of the largest values, or all if there are no more."""
    if len(points) <= number:
        return points
    return points[best_first(_values(rule, points))[:number]]


@torch.no_grad()
def _values(rule: AcquisitionFunction, points: Tensor) -> Tensor:
    """The ``n``-dim values of ``n x 1 x d``-dim items."""
    return torch.cat([rule(part) for part in points.split(_CHUNK)])
