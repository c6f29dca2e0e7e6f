r"""The model of the utility behind a strategy: its data, hyperparameters and posterior."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias, cast, get_args

import torch
from botorch.fit import fit_gpytorch_mll
from botorch.utils.constraints import LogTransformedInterval
from gpytorch.kernels import Kernel, ScaleKernel
from gpytorch.means import Mean
from linear_operator import to_dense
from torch import Generator, Size, Tensor
from torch.nn import Module

from botorch_pref.data.blocks import Block, match_items
from botorch_pref.data.checks import (
    UNKNOWN_ANNOTATOR,
    check_word,
    checked_kappa,
    checked_positive,
    checked_share,
)
from botorch_pref.data.choices import Choices
from botorch_pref.data.comparisons import Comparisons
from botorch_pref.data.options import checked_flag
from botorch_pref.data.ordered import Grades
from botorch_pref.data.rankings import Rankings
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.inference.finite import FinitePosterior, Regularizer
from botorch_pref.inference.systems import prior_root
from botorch_pref.kernels.comparison_bias import ComparisonBiasKernel, SeenBy, marked
from botorch_pref.kernels.items import NOT_MANY, KernelName, default_covar_module
from botorch_pref.kernels.nugget import NuggetKernel
from botorch_pref.kernels.slope import SlopeKernel
from botorch_pref.likelihoods import BernoulliLikelihood, LogitLikelihood
from botorch_pref.models.answer_parameters import PEOPLE, learnt_of
from botorch_pref.models.base import Inference, LaplaceMarginalLogLikelihood, refit_is_due
from botorch_pref.models.fully_bayesian import MomentMatchedPreferenceGP
from botorch_pref.models.middle_mean import MiddleMean
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.queries import Answer, Answered, Duel, Grade, Query, Question, Ranking, Worst
from botorch_pref.randomness import derive_seed, seeded
from botorch_pref.space.search_space import MOST_EXACT, SearchSpace
from botorch_pref.strategies.state import Form, read_tensor

KernelArgument: TypeAlias = Kernel | Callable[[int], Kernel] | None
"""A caller's kernel, or what makes one for a number of dimensions; ``None`` for the default."""

Hyperparameters: TypeAlias = Literal["evidence", "samples"] | Mapping[str, Any]
"""How hyperparameters are learnt, or fixed values."""

PAPER_MODEL = {"kernel": "matern", "lengthscale": 0.1, "penalty": 0.05}
"""Matern-5/2 on the unit cube, as Kayal et al. (2025) and Lazzaro et al. (2026) have it."""

# Modes of the priors that strategies learn under: about the package's, and rougher ones of less
# spread. Items differ in every dimension: the rougher lengthscale grows with its root.
_SMOOTH, _ROUGH, _ROUGH_OUTPUTSCALE = 0.7, 0.15, 1.5
_SMOOTH_OF_MANY = 0.4  # of choices of many columns, times the root of their number
# Of the prior mean towards the border of a box; a level one has to be so many nats likelier.
_FALL, _AGAINST_FALL = 0.5, 0.2
# In many dimensions answers tell at first little but which way is up: what is believed
# first is a slope of so much of the variance, and a fall with which the best item may be anywhere.
_SLOPE, _SLOPING_OUTPUTSCALE, _SLOPING_FALL = 0.8, 1.0, 1.3
_AGAINST_SLOPE = 0.5  # nats that count against either of the others there
# Of a judge who hardly errs; Laplace's posterior is too wide there.
_SURE_MODES, _SURE_NATS = {"outputscale": 50.0}, 0.5  # nats a dimension
_FREE_DIMENSIONS = 2, 0  # of a smooth utility; of a rough one, whose peaks look like certainty
_OWN_MODE = 0.1  # of the variance of what is a person's own, relative to what all share
_MOST_SCALE = 1e6  # of a link
_ANY_SCALE = (1e-30, 1e30)  # in single precision, too
_NUM_SAMPLES, _NUM_STEPS = 8, 12
# Exact inference takes the cube of the number of comparisons. Of more than this hyperparameters are
# learnt from a part of the answers, and a model is through some of the items.
MOST_LEARNT, MOST_COMPARED, NUM_INDUCING = 300, 1000, 384


class Prior(NamedTuple):
    """What is believed of a utility before any answer; the mean is zero unless given."""

    covar_module: Kernel
    mean_module: Mean | None = None


class Told(NamedTuple):
    """Duels of different items, and the answers of other kinds."""

    duels: Comparisons
    others: tuple[Choices | Rankings | Grades, ...]
    answered: list[Answered]  # all of them, in the order of their answers

    @property
    def size(self) -> int:
        """The number of answers."""
        return len(self.answered)

    @property
    def num_unknowns(self) -> int:
        """The number of items or of comparisons, whichever is less: the size of exact inference."""
        compared = sum(num_comparisons(query) for query, _ in self.answered)
        return min(compared, sum(part.num_items for part in (self.duels, *self.others)))


class UtilityLearner:
    r"""The data, the hyperparameters and the model of a utility, on choices or on a box.

    Inputs are mapped to the unit cube of the space's bounds, and lengthscales are in its
    units. Hyperparameters that are learnt are fitted again, from where the kernel starts,
    whenever the data have grown by a tenth; of more than 300 comparisons of as many items, to
    300 at random. Of more than 1,000 the model is through 384 of their items, chosen at random
    at those times, unless there are samples, or choices and rankings of several items, of which
    inference stays exact. Those of the default kernel are fitted under one of two priors, the
    package's or that of a rougher utility: the one at whose modes the evidence is larger. For
    ``sure``, those of a judge who hardly errs are fitted as well, for which the evidence has to
    speak by half a nat a dimension, or under the package's prior for each beyond two, and whose
    inference is expectation propagation. For ``falls`` the prior mean is that of
    :class:`~botorch_pref.models.MiddleMean`, half a logit times the root of the number of
    dimensions lower in the corners than in the middle, unless a mean that is the same everywhere is
    likelier by 0.2 nats. In more than eight dimensions half a nat counts against either of these
    for a slope, which has four fifths of the variance, beside a mean that falls by 1.3 logits times
    that root; see :class:`~botorch_pref.kernels.SlopeKernel`. Of choices a nugget is learnt as
    well: rows of a table differ in more than its columns tell. In more than eight columns they are
    so far apart that a lengthscale of 0.7 would take them for unrelated; there the smooth prior's
    mode is 0.4 times the root of their number.

    Where two annotators or more are named, the model tells them apart; see
    :class:`~botorch_pref.models.AnnotatorEffects`. Not with ``"samples"``, ``kappa`` or a
    ``regularizer``, which pool them. With ``own_utilities`` each of them has a utility of their
    own, that of all plus what is theirs, see :class:`~botorch_pref.kernels.ComparisonBiasKernel`;
    who is not named answers by that of all.

    With ``"samples"`` there are eight samples of the hyperparameters from their posterior under the
    rougher prior, and the model has the mean and the covariance of the mixture.

    Args:
        space: The domain.
        hyperparameters: ``"evidence"``, ``"samples"``, or ``{"lengthscale": float | list,
            "outputscale": float}``; ``"penalty"``, the papers' ``lambda = 1 / outputscale``, may
            stand instead of ``"outputscale"``, ``"kernel"`` is ``"rbf"`` unless ``"matern"``
            (5/2) or ``"matern15"`` (3/2) is asked for, and ``"nugget"`` is the share of an
            item's variance that is its own, none by default; ``"inference"`` is that of the model,
            Laplace's by default, which is all that choices have; on a box, which has neither by
            default, ``"fall"`` is that of a :class:`~botorch_pref.models.MiddleMean` and
            ``"slope"`` the share of the variance that is a slope.
        kappa: ``"laplace"``, or the papers' answer-free curvature ``1 / kappa``.
        regularizer: See :class:`~botorch_pref.inference.finite.FinitePosterior`; choices only.
        seed: Of restarts of the fit.
        likelihood: The link; logit by default.
        covar_module: A kernel over the unit cube, or what makes one for a number of dimensions.
            With ``"evidence"`` its parameters that require a gradient are learnt.
        sure: Whether a judge may hardly err, on a box.
        falls: Whether the border of a box may be worse than its middle before any answer.
        own_utilities: Whether each named person has a utility of their own.
    """

    def __init__(
        self,
        space: SearchSpace,
        hyperparameters: Hyperparameters = "evidence",
        kappa: Literal["laplace"] | float = "laplace",
        regularizer: Regularizer = "rkhs",
        seed: int = 0,
        likelihood: BernoulliLikelihood | Mapping[str, Any] | None = None,
        covar_module: KernelArgument = None,
        sure: bool = False,
        falls: bool = False,
        own_utilities: bool = False,
    ) -> None:
        check_word("regularizer", regularizer, Regularizer)
        if space.choices is None and regularizer != "rkhs":
            raise UnsupportedError(f"`regularizer` {regularizer!r} needs `choices`.")
        self.space, self.seed, self.regularizer = space, seed, regularizer
        self.kappa = checked_kappa("kappa", kappa)
        self.likelihood = as_likelihood(likelihood)
        self.learns = isinstance(hyperparameters, str)
        self.samples = hyperparameters == "samples"
        if self.samples and (self.kappa != "laplace" or regularizer != "rkhs"):
            raise UnsupportedError('`hyperparameters` "samples" has no `kappa` or `regularizer`.')
        self.own_utilities = checked_flag("own_utilities", own_utilities)
        is_plain = self.learns and not self.samples and covar_module is None
        if own_utilities and not (is_plain and self.kappa == "laplace" and regularizer == "rkhs"):
            raise UnsupportedError(
                '`own_utilities` needs `hyperparameters` "evidence", and no `kappa`, `regularizer` '
                "or `covar_module`."
            )
        self._effects: dict[str, Any] = {}
        self.values = fixed_values(hyperparameters, space.num_features)
        self._kernel = own_kernel(covar_module, space)
        if self._kernel is not None:
            if not self.learns or self.samples:
                raise ComparisonDataError(
                    "Give `hyperparameters` or `covar_module`; what its parameters are to be is "
                    "set in that kernel, and learnt if they require a gradient."
                )
            self.learns = any(one.requires_grad for one in self._kernel.parameters())
        self.sure = sure and space.choices is None and not self.samples
        self.falls = falls and space.choices is None
        self.num_fitted = 0
        self.target: str | None = None  # the person whose utility is that of all
        self.people: list[str] = []  # the annotators, in the order of their first answers
        self.answered: list[Answered] = []
        self._told: Told | None = None
        self._exact: FinitePosterior | None = None
        self._model: PreferenceGP | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_model": None}  # a copy builds the same one again

    @property
    def values(self) -> dict[str, Any]:
        """The current hyperparameters, as plain JSON; empty before they are learnt."""
        return self._values

    @values.setter
    def values(self, values: dict[str, Any]) -> None:
        if self.space.choices is not None and values.get("inference", "laplace") != "laplace":
            raise ComparisonDataError("`inference` of choices is Laplace's.")
        for name in ("fall", "slope"):
            if self.space.choices is not None and name in values:
                raise ComparisonDataError(f"`{name}` is of a box, not of choices.")
        self._values = values
        self._exact = self._model = None

    @property
    def effects(self) -> dict[str, Any]:
        """What was learnt of answers beside the utility, of annotators or bounds of grades.

        Plain JSON, by the names of the parameters of a model's ``learnt``.
        """
        return self._effects

    @effects.setter
    def effects(self, effects: Mapping[str, Any]) -> None:
        if isinstance(effects, Mapping):  # files of versions that told people apart by duels alone
            effects = {re.sub("^datapoints", PEOPLE, name): own for name, own in effects.items()}
        if effects:
            blank = self._build(self._prior(), self.told, effects={})
            check_effects(effects, dict(blank.learnt.named_parameters()))
        self._effects = dict(effects)
        self._exact = self._model = None

    @property
    def tells_people_apart(self) -> bool:
        """Whether there are two annotators at least, who are told apart, as in no paper's model."""
        is_plain = self.kappa == "laplace" and self.regularizer == "rkhs" and not self.samples
        return is_plain and len(self.people) > 1

    @property
    def inference(self) -> Inference:
        """What the model is found by, ``"ep"`` for a judge who hardly errs."""
        return cast(Inference, self.values.get("inference", "laplace"))

    def checked(self, values: object) -> dict[str, Any]:
        """Stored hyperparameters, which may be none yet.

        Raises:
            ComparisonDataError: If they are none of this model.
        """
        if not isinstance(values, Mapping) or (not values and not self.learns):
            raise ComparisonDataError(f"`hyperparameters` must be a dictionary, not {values!r}.")
        if values and self.samples:
            samples = [fixed_values(one, self.space.num_features) for one in samples_of(values)]
            if not all(isinstance(one["lengthscale"], list) for one in samples):
                raise ComparisonDataError("`lengthscale` of samples must be lists.")
        elif values and self._kernel is None:
            return fixed_values(self._of_seen(values), self.space.num_features)
        elif values and self._kernel is not None:
            known = dict(self._kernel.named_parameters())
            if values.keys() != known.keys():
                raise ComparisonDataError(
                    f"`covar_module` has parameters {sorted(known)}, but the stored one has "
                    f"{sorted(values)}."
                )
            for name, value in values.items():
                read_tensor(f"hyperparameters {name}", value, *known[name].shape)
        return dict(values)

    def _of_seen(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Without lengthscales of names, which files of versions have whose models saw them."""
        given, parameters = values.get("lengthscale"), self.space.parameters
        owners = [i for i in range(self.space.dim) for _ in range(parameters.levels.get(i, 1))]
        if not isinstance(given, list) or len(given) != len(owners):
            return values
        both = zip(owners, given, strict=True)
        return {**values, "lengthscale": [one for i, one in both if i in parameters.seen]}

    @property
    def told(self) -> Told:
        """All answers so far; a question of an item and itself has none."""
        if self._told is None:
            self._told = self._told_by(self.answered)
        return self._told

    @property
    def data(self) -> Comparisons:
        """All duels so far."""
        return self.told.duels

    def add(self, query: Query, answer: Answer) -> bool:
        """Add an answer; returns whether it tells something."""
        self.answered.append(Answered(query, answer))
        if query.annotator is not None and query.annotator not in self.people:
            self.people.append(query.annotator)
            self._exact = None
        if not isinstance(query, Duel):
            self._exact = None
        if self._exact is not None:
            _append(self._exact, self.answered[-1:])
        if not self._tells(query):
            return False
        self._told = self._model = None
        return True

    def covar_module(self) -> Kernel:
        """The kernel with the current hyperparameters."""
        if self._kernel is None:
            return self._default_kernel(self.values)
        kernel = copy.deepcopy(self._kernel)
        set_parameters(kernel, self.values)
        return kernel

    def _prior(self) -> Prior:
        """That of the current hyperparameters."""
        mean = self._falling(self.values["fall"]) if "fall" in self.values else None
        return Prior(self.covar_module(), mean)

    def _falling(self, fall: float) -> MiddleMean:
        """A mean that is the highest in the middle of the box."""
        return MiddleMean(self.space.num_features, fall)

    def _prior_modes(self) -> tuple[dict[str, float], dict[str, float]]:
        """Those of a smooth and of a rough utility."""
        # A category counts for one number, however many levels it has: see ``Parameters``.
        dim, is_table = len(self.space.parameters.seen), self.space.choices is not None
        root = math.sqrt(dim)
        # Rows of many columns lie far apart; on a box a slope is believed there instead.
        many = is_table and dim > NOT_MANY
        smooth = _SMOOTH_OF_MANY * root if many else _SMOOTH
        rough = min(_ROUGH * root, smooth)
        return {"lengthscale": smooth}, {"lengthscale": rough, "outputscale": _ROUGH_OUTPUTSCALE}

    def _default_kernel(
        self,
        values: Mapping[str, Any],
        modes: Mapping[str, float] | None = None,
        samples: int | None = None,
    ) -> ScaleKernel | ComparisonBiasKernel:
        """With given hyperparameters, or at its priors' modes; that of choices has a nugget."""
        nugget = "nugget" in values if values else self.space.choices is not None
        kernel = kernel_of(values, self.space, nugget, samples, **(modes or {}))
        if not self.own_utilities:
            return kernel
        views = ComparisonBiasKernel(kernel, number=max(len(self.people), 1), mode=_OWN_MODE)
        own = views.bias.detach().clone()
        known = values.get("own_variance", [])[: len(own)]  # who came later is typical
        own[: len(known)] = own.new_tensor(known)
        views.bias = own
        return views.to(self.space.bounds)

    def unit_kernel(self) -> Kernel:
        """The current kernel without its output scale, if it has one."""
        kernel = self.covar_module()
        return kernel.base_kernel if isinstance(kernel, ScaleKernel) else kernel

    @property
    def penalty(self) -> float:
        """The papers' ``lambda``, the inverse of the output scale; 1 for a kernel without one."""
        kernel = self.covar_module()
        kernel = kernel.base_kernel if isinstance(kernel, ComparisonBiasKernel) else kernel
        if not isinstance(kernel, ScaleKernel):
            return 1.0
        return 1.0 / float(kernel.outputscale.detach().mean())

    def refit(self, at_once: bool = False) -> bool:
        """Fit the hyperparameters if they are learnt and the data have grown enough.

        With ``at_once`` one more answer is enough. Returns whether they were fitted.
        """
        size = self.told.size
        due = size > self.num_fitted if at_once else refit_is_due(size, self.num_fitted)
        if not self.learns or not due:
            return False
        told = self._part_to_learn()
        if self.samples:
            kernel = self._default_kernel({}, self._prior_modes()[1], _NUM_SAMPLES)
            self.values = fitted_values(self._fitted(Prior(kernel), told).covar_module)
        elif self._kernel is not None:
            best = self._fitted(Prior(copy.deepcopy(self._kernel)), told)
            kernel, self.effects = best.covar_module, parameters_of(best.learnt)
            if all(bool(one.isfinite().all()) for one in kernel.parameters()):  # else as before
                self.values = parameters_of(kernel)
        else:
            likelier, prior = self._likelier_prior(told)
            best = self._fitted(prior, told)
            self.values = fitted_values(best.covar_module)
            if isinstance(prior.mean_module, MiddleMean):
                self.values |= {"fall": prior.mean_module.fall}
            self.effects = parameters_of(best.learnt)
            if self.sure and not self.tells_people_apart:
                sure = self._fitted(Prior(self._default_kernel({}, _SURE_MODES)), told, "ep")
                told = self._part_to_learn("part to choose by")  # of very many answers, others
                gained = self._evidence(sure, told) - self._evidence(best, told)
                free = _FREE_DIMENSIONS[likelier]
                if gained > _SURE_NATS * max(self.space.num_features - free, 0):
                    self.values = fitted_values(sure.covar_module) | {"inference": "ep"}
        self.num_fitted = size
        return True

    def _likelier_prior(self, told: Told) -> tuple[int, Prior]:
        """That of a smooth utility, 0, or of a rough one, 1, under the likeliest belief."""
        starts = []
        for number, modes in enumerate(self._prior_modes()):
            for prior, handicap in self._beliefs(modes):
                evidence = self._build(prior, told).log_evidence().item()
                starts.append((evidence - handicap, number, prior))
        _, number, prior = max(starts, key=lambda start: start[0])
        return number, prior

    def _beliefs(self, modes: Mapping[str, float]) -> Iterator[tuple[Prior, float]]:
        """A level mean, one that falls, and in many dimensions a slope; handicaps in nats."""
        may_slope = self.falls and self.space.dim > NOT_MANY
        against = _AGAINST_SLOPE if may_slope else 0.0
        yield Prior(self._default_kernel({}, modes)), against + _AGAINST_FALL
        if self.falls:
            yield Prior(self._default_kernel({}, modes), self._falling(_FALL)), against
        if may_slope:
            modes = {**modes, "outputscale": _SLOPING_OUTPUTSCALE, "slope": _SLOPE}
            yield Prior(self._default_kernel({}, modes), self._falling(_SLOPING_FALL)), 0.0

    @torch.no_grad()
    def _evidence(self, model: PreferenceGP, told: Told) -> float:
        """That of some answers by expectation propagation, under what a model has learnt."""
        effects = parameters_of(model.learnt)
        prior = Prior(model.covar_module, model.mean_module)
        return self._build(prior, told, "ep", effects).log_evidence().item()

    def _part_to_learn(self, stream: str = "part") -> Told:
        """The answers that hyperparameters are learnt from: all, or of very many a random part."""
        if self.told.num_unknowns <= MOST_LEARNT:
            return self.told
        seed = derive_seed(self.seed, stream, self.told.size)
        return self._told_by(random_part(self.told.answered, MOST_LEARNT, seed))

    def _inducing_items(self, told: Told) -> Tensor | None:
        """Some of the items of very many answers, which inference is through; None for all.

        They are of the answers up to the last refit, so that they seldom change.
        """
        joint = any(not isinstance(part, Grades) for part in told.others)
        if self.samples or joint or told.num_unknowns <= MOST_COMPARED:
            return None
        number = last_refit(self.told.size)
        seed = derive_seed(self.seed, "inducing", number)
        part = random_part(told.answered[:number], NUM_INDUCING, seed)
        return random_items(torch.cat([self._seen(query) for query, _ in part]), NUM_INDUCING, seed)

    def _fitted(self, prior: Prior, told: Told, inference: Inference = "laplace") -> PreferenceGP:
        """The model of some answers, its hyperparameters fitted."""
        model = self._build(prior, told, inference)
        with seeded(derive_seed(self.seed, "fit", self.told.size), model.items.device):
            fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
        return model

    def model(self, expected: Iterable[Answered] = ()) -> PreferenceGP:
        """The model of all comparisons so far, and of open duels with expected answers."""
        if self._model is None:
            self._model = self._build(self._prior(), self.told, self.inference)
        told = self._told_and(expected)
        if told is self.told:
            return self._model
        prior = Prior(self._model.covar_module, self._model.mean_module)
        return self._build(prior, told, self.inference)

    def drawn_model(self, seed: int, expected: Iterable[Answered] = ()) -> PreferenceGP:
        """That of one of the samples of the hyperparameters, drawn, or of their only value."""
        if not self.samples or not self.values:
            return self.model(expected)
        drawn = int(torch.randint(_NUM_SAMPLES, (), generator=Generator().manual_seed(seed)))
        kernel = self._default_kernel(samples_of(self.values)[drawn])
        return self._build(Prior(kernel), self._told_and(expected))

    def _told_and(self, expected: Iterable[Answered]) -> Told:
        """All answers so far, and expected ones to open queries."""
        plain = [done for done in expected if self._tells(done.query)]
        return self._told_by([*self.answered, *plain]) if plain else self.told

    def mean(self) -> Tensor:
        """The ``n``-dim posterior means of all choices, however many."""
        if self.space.is_large:
            return self.model().marginals(self.space.table)[0]
        return self.posterior().mean

    def posterior(
        self, expected: Sequence[Answered] = (), rows: Tensor | None = None
    ) -> TablePosterior:
        """The posterior of all choices, or of some rows, by the data of :meth:`model`.

        Raises:
            UnsupportedError: If it is of all choices, and there are too many.
        """
        if rows is not None:
            return self._gaussian(self.space.table[rows], expected)
        check_rows(self.space, "the joint posterior of all")
        are_duels = not self.own_utilities and all(
            isinstance(query, Duel) for query, _ in (*self.answered, *expected)
        )
        if not are_duels or (self.samples and self.values) or self.tells_people_apart:
            return self._gaussian(self.space.table, expected)
        if self._exact is None:
            choices = self.space.normalize(self.space.table)
            with torch.no_grad():
                unit = to_dense(self.unit_kernel()(choices))
            self._exact = FinitePosterior(
                unit,
                penalty=self.penalty,
                kappa=self.kappa,
                regularizer=self.regularizer,
                likelihood=self.likelihood,
            )
            _append(self._exact, self.answered)
        if not expected:
            return self._exact
        posterior = copy.deepcopy(self._exact)
        _append(posterior, expected)
        return posterior

    @torch.no_grad()
    def _gaussian(self, items: Tensor, expected: Sequence[Answered]) -> GaussianTable:
        """The joint posterior of ``n x d``-dim items, by the model."""
        found = self.model(expected).posterior(items)
        return GaussianTable(found.mean.squeeze(-1), found.covariance_matrix)

    def utilities(self, query: Query) -> Tensor:
        """The ``k``-dim posterior mean utilities of a query's ``k`` items, to who is asked."""
        has_table = self.space.choices is not None and not self.space.is_large
        if has_table and not self.own_utilities:
            return self.posterior().mean[list(query.indices)]
        return self.model().posterior_mean(self._seen(query))

    def view(self, annotator: str | None) -> int:
        """Whose utility that of a person is: 0, that of all, where they have no other."""
        has_own = self.own_utilities and annotator in self.people and annotator != self.target
        return self.people.index(cast(str, annotator)) + 1 if has_own else 0

    def link_of(self, annotator: str | None) -> BernoulliLikelihood:
        """The link of a person's answers, of their reliability if that was learnt."""
        known = self.effects.get(f"{PEOPLE}.log_reliability", [])
        number = self.people.index(annotator) if annotator in self.people else len(known)
        if number >= len(known):
            return self.likelihood
        return type(self.likelihood)(self.likelihood.scale * math.exp(known[number]))

    def model_of(self, annotator: str) -> PreferenceGP:
        """The model, of the utility of one person.

        Raises:
            UnsupportedError: Unless people have utilities of their own.
            ComparisonDataError: If nobody of that name answered.
        """
        if not self.own_utilities:
            raise UnsupportedError("People have utilities of their own with `own_utilities` alone.")
        if annotator not in self.people:
            raise ComparisonDataError(
                f"`annotator` {annotator!r} gave no answers; {', '.join(self.people)} did."
            )
        model = copy.deepcopy(self.model())
        cast(Tensor, cast(SeenBy, model.input_transform).view).fill_(self.view(annotator))
        return model

    def _tells(self, query: Query) -> bool:
        """Whether all items differ, by rows of choices where these tell them apart."""
        plain = query if not self.own_utilities else replace(query, indices=None)
        return plain.is_plain

    def _told_by(self, answered: Sequence[Answered]) -> Told:
        """Answered queries of different items each, by their kinds and numbers of items."""
        plain = [done for done in answered if self._tells(done.query)]
        duels, kinds = by_kind(plain)
        others = tuple(map(self._block_of, kinds))
        return Told(self._comparisons(duels), others, plain)

    def _block_of(self, answered: Sequence[Answered]) -> Choices | Rankings | Grades:
        """Answers of one kind to questions of the same number of items, or of grades."""
        if self.space.choices is not None and not self.own_utilities:
            like = self.space.bounds
            asked = torch.tensor([query.indices for query, _ in answered], device=like.device)
            compared, rows = asked.unique(return_inverse=True)
            items = self.space.choices[compared]
        else:
            shown = torch.cat([self._seen(query) for query, _ in answered])
            rows, new = match_items(shown[:0], shown)
            items, rows = shown[new], rows.view(len(answered), -1)
        who = self._who(answered) if self.tells_people_apart else None
        return block_of(answered, items, rows, who)

    def _comparisons(self, duels: Sequence[Answered]) -> Comparisons:
        """Answered duels; of choices those that were compared are the items."""
        like = self.space.bounds
        told = like.new_tensor([answer for _, answer in duels])
        if self.space.choices is not None and not self.own_utilities:
            indices = [query.indices for query, _ in duels]
            rows = torch.tensor(indices, dtype=torch.long, device=like.device).view(-1, 2)
            compared, pairs = rows.unique(return_inverse=True)
            data = Comparisons.from_comparisons(self.space.choices[compared], pairs[:0])
            return data.append_indices(*self._as_shown(duels, pairs, told))
        pairs = [self._seen(query) for query, _ in duels]
        dim = self.space.dim + self.own_utilities
        shown = torch.stack(pairs) if pairs else like.new_empty(0, 2, dim)
        return Comparisons.from_pairs(*self._as_shown(duels, shown, told))

    def _seen(self, query: Query) -> Tensor:
        """The items of a query, with whose utility decided where people have their own."""
        items = query.items.to(self.space.bounds)
        return marked(items, self.view(query.annotator)) if self.own_utilities else items

    def _as_shown(
        self, duels: Sequence[Answered], pairs: Tensor, told: Tensor
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Pairs and answers in the order in which items were shown, and who answered.

        Only where annotators are told apart the order matters.
        """
        if not (duels and self.tells_people_apart):
            return pairs, told, None
        return *as_shown(duels, pairs, told, 1.0), self._who(duels)

    def _who(self, answered: Sequence[Answered]) -> Tensor:
        """The numbers of those who answered."""
        numbers = {name: number for number, name in enumerate(self.people)}
        who = [numbers.get(cast(str, query.annotator), UNKNOWN_ANNOTATOR) for query, _ in answered]
        return torch.tensor(who, device=self.space.bounds.device)

    def _build(
        self,
        prior: Prior,
        told: Told,
        inference: Inference = "laplace",
        effects: Mapping[str, Any] | None = None,
    ) -> PreferenceGP:
        """A model of answers, with what was learnt of them or with given ``effects``."""
        duels, others, _ = told
        options: dict[str, Any] = {
            "likelihood": self.likelihood,
            "covar_module": prior.covar_module,
            "input_transform": self.space.input_transform(),
            "inference": inference,
            "choices": others,
        }
        if self.own_utilities:
            unit = self.space.input_transform(num_markers=1)
            options["input_transform"] = SeenBy(unit, self.space.dim)
        if self.samples and prior.covar_module.batch_shape:
            options["num_steps"] = _NUM_STEPS
            return MomentMatchedPreferenceGP(duels.datapoints, duels, **options)
        options["inducing_points"] = self._inducing_items(told)
        options |= {"mean_module": prior.mean_module, "variance": self.kappa}
        model = PreferenceGP(duels.datapoints, duels, **options)
        put_effects(model, self.effects if effects is None else effects)
        return model


@dataclass(frozen=True)
class GaussianTable:
    """A Gaussian posterior of ``n`` choices, given by its moments."""

    mean: Tensor
    covariance: Tensor
    num_pairs: int = 0

    def sample(self, prior: Tensor, answers: Tensor, scale: float) -> Tensor:
        """``... x n``-dim draws from ``... x n``-dim standard normals; ``answers`` are empty."""
        return self.mean + scale * prior @ prior_root(self.covariance).mT


TablePosterior: TypeAlias = FinitePosterior | GaussianTable


def _append(posterior: FinitePosterior, answered: Iterable[Answered]) -> None:
    for query, answer in answered:
        posterior.append(query.indices, cast(float, answer))


def check_rows(space: SearchSpace, what: str, most: int = MOST_EXACT) -> None:
    """Raise unless choices are few enough for what takes a matrix of all with all, or as long.

    Raises:
        UnsupportedError: If there are more than ``most``; says how many, and what to use.
    """
    if space.choices is not None and (rows := len(space.choices)) > most:
        raise UnsupportedError(
            f"`choices` has {rows:,} rows, but {what} takes {most:,} at most. DuelingKG, EUBO and "
            "PFTS take any number; so does a study of a part of the rows."
        )


def num_comparisons(query: Query) -> int:
    """How many items a query compares with another one; 1 for a query of a single item."""
    return len(query.items) - 1 if query.compares else 1


def by_kind(
    answered: Iterable[Answered],
) -> tuple[list[Answered], list[list[Answered]]]:
    """The duels among answers that compare, and the others by what is one block of data."""
    kinds: dict[tuple[Any, ...], list[Answered]] = {}
    for done in answered:
        kinds.setdefault(_kind_of(done.query), []).append(done)
    return kinds.pop((Duel, 2, 0), []), [*kinds.values()]


def as_shown(
    answered: Sequence[Answered], pairs: Tensor, told: Tensor, most: float
) -> tuple[Tensor, Tensor]:
    """``m x 2 x ...``-dim pairs in the order shown, and their answers, from 0 to the most."""
    swapped = torch.tensor([query.shown[0] == 1 for query, _ in answered], device=told.device)
    order = swapped.view(-1, *[1] * (pairs.dim() - 1))
    return torch.where(order, pairs.flip(1), pairs), torch.where(swapped, most - told, told)


def block_of(
    answered: Sequence[Answered], items: Tensor, rows: Tensor, who: Tensor | None = None
) -> Choices | Rankings | Grades:
    """Answers of one kind about ``m x k``-dim rows of items, by annotators if they are given."""
    one, told = answered[0].query, rows.new_tensor([answer for _, answer in answered])
    if isinstance(one, Grade):
        if who is not None:
            rows, told = as_shown(answered, rows, told, one.num_grades - 1)
        return Grades(items, rows, told, one.num_grades, annotator=who)
    shown = rows.new_tensor([query.shown for query, _ in answered])
    if isinstance(one, Ranking | Worst):
        order = told
        if isinstance(one, Worst):
            is_worst = torch.arange(rows.shape[-1], device=rows.device) == told.unsqueeze(-1)
            order = is_worst.int().argsort(dim=-1, stable=True)
        best, worst = (0, 1) if isinstance(one, Worst) else (None, 0)
        first = None if who is None else _place_of(shown[:, 0], order)
        ranked = rows.gather(-1, order)
        return Rankings(items, ranked, best, worst, annotator=who, first=first)
    if who is not None:
        rows, told = rows.gather(-1, shown), _place_of(told, shown)
    return Choices(items, rows, told, annotator=who)


def _place_of(position: Tensor, order: Tensor) -> Tensor:
    """Where ``m``-dim positions stand in ``m x k``-dim orders of all."""
    return order.argsort(-1).gather(-1, position.unsqueeze(-1)).squeeze(-1)


def answers_to(asked: Question, model: PreferenceGP) -> list[Block]:
    """All answers to a question as a model sees them, for ``gain_of_question``."""
    items = model.items.new_zeros(asked.num_items, 1)
    query = asked.query(0, items, tuple(range(len(items))), None)
    told = [Answered(query, answer) for answer in query.answers or ()]
    data = block_of(told, items, torch.arange(len(items)).expand(len(told), -1).to(items.device))
    bounds = learnt_of(data, Size())
    for i, part in enumerate(model.choices):
        if isinstance(part, Grades) and part.num_grades == asked.num_grades:
            bounds = dict(model.learnt)[f"choices[{i}]"]
    return data.blocks(model.likelihood, learnt=bounds)


def _kind_of(query: Query) -> tuple[type[Query], int, int]:
    """What answers have in common that are one block of data."""
    return type(query), len(query.items), getattr(query, "num_grades", 0)


def random_part(answered: Sequence[Answered], most: int, seed: int) -> list[Answered]:
    """Answers at random of as many comparisons at most, in their order.

    The first one of each kind is among them: what is learnt of answers is by their kinds' order.
    """
    firsts = {_kind_of(done.query): place for place, done in reversed([*enumerate(answered)])}
    order = torch.randperm(len(answered), generator=Generator().manual_seed(seed)).tolist()
    chosen, left = [], most
    for place in dict.fromkeys([*firsts.values(), *order]):
        left -= num_comparisons(answered[place].query)
        if left < 0:
            break
        chosen.append(place)
    return [answered[place] for place in sorted(chosen)]


def random_items(items: Tensor, most: int, seed: int) -> Tensor:
    """Some of ``n x d``-dim items at random, each once."""
    different = items.unique(dim=0)
    order = torch.randperm(len(different), generator=Generator().manual_seed(seed))
    return different[order[:most].to(items.device)]


def last_refit(size: int) -> int:
    """The number of data at which a refit was last due, of data that were told one by one."""
    fitted = 0
    for number in range(1, size + 1):
        fitted = number if refit_is_due(number, fitted) else fitted
    return fitted


def own_kernel(covar_module: KernelArgument, space: SearchSpace) -> Kernel | None:
    """A copy of a caller's kernel, of the type and on the device of the space."""
    if covar_module is None:
        return None
    kernel: object = copy.deepcopy(covar_module)
    if not isinstance(kernel, Kernel) and callable(kernel):
        kernel = kernel(space.num_features)
    if not isinstance(kernel, Kernel):
        raise ComparisonDataError(
            f"`covar_module` must be a kernel, or make one of a number of dimensions, not "
            f"{covar_module!r}."
        )
    return kernel.to(space.bounds)


def kernel_of(
    values: Mapping[str, Any],
    space: SearchSpace,
    nugget: bool = False,
    samples: int | None = None,
    slope: float | None = None,
    **modes: float,
) -> ScaleKernel:
    """The kernel on a space's unit cube, with given hyperparameters or its priors' modes.

    Of samples there is a batch of kernels, as many as are asked for or as the values are of.
    """
    kind: KernelName = values.get("kernel", "matern")
    if isinstance(given := values.get("outputscale"), list):
        samples = len(given)
        dims = {"lengthscale": (samples, 1, -1), "outputscale": (samples,), "nugget": (samples, 1)}
        known = {n: torch.tensor(v, dtype=torch.double) for n, v in values.items() if n in dims}
        values = {name: value.view(dims[name]) for name, value in known.items()}
    batch_shape = Size() if samples is None else Size([samples])
    kernel = default_covar_module(space.num_features, batch_shape, kind, **modes)
    base = kernel.base_kernel
    if slope := values.get("slope", slope):
        kernel.base_kernel = SlopeKernel(base, slope)
    if nugget:
        kernel.base_kernel = NuggetKernel(kernel.base_kernel)
    kernel = kernel.to(space.bounds)
    if values:
        # Bounds are for what is learnt, in standard units; what is given may be in any unit.
        for owner, name in ((base, "lengthscale"), (kernel, "outputscale")):
            owner.register_constraint(f"raw_{name}", LogTransformedInterval(*_ANY_SCALE))
            setattr(owner, name, values[name])
    if nugget and values:
        kernel.base_kernel.nugget = values["nugget"]
    return kernel


def parameters_of(module: Module) -> dict[str, Any]:
    """All parameters of a module as plain JSON."""
    return {name: value.tolist() for name, value in module.named_parameters()}


@torch.no_grad()
def set_parameters(module: Module, found: Mapping[str, Any]) -> None:
    """Put back what :func:`parameters_of` returned, if there is anything."""
    parameters = dict(module.named_parameters())
    for name, value in found.items():
        parameters[name].copy_(torch.tensor(value, dtype=torch.double))


def fitted_values(kernel: ScaleKernel | ComparisonBiasKernel) -> dict[str, Any]:
    """The hyperparameters of a kernel that was learnt, or lists of samples, as plain JSON."""
    if isinstance(kernel, ComparisonBiasKernel):
        own = {"own_variance": kernel.bias.detach().tolist()}
        return fitted_values(cast(ScaleKernel, kernel.base_kernel)) | own
    base, own = kernel.base_kernel, {}
    if isinstance(base, NuggetKernel):
        base, own = base.base_kernel, {"nugget": base.nugget.detach().squeeze(-1).tolist()}
    if isinstance(base, SlopeKernel):
        base, own = base.base_kernel, {**own, "slope": base.slope}
    return {
        "lengthscale": base.lengthscale.detach().squeeze(-2).tolist(),
        "outputscale": kernel.outputscale.detach().tolist(),
        "kernel": "matern",
        **own,
    }


@torch.no_grad()
def put_effects(model: PreferenceGP, effects: Mapping[str, Any]) -> None:
    """Put back what was learnt of answers; annotators who came later stay typical."""
    for name, parameter in model.learnt.named_parameters():
        if value := effects.get(name):
            parameter[: len(value)] = torch.tensor(value, dtype=torch.double)


def check_effects(effects: object, known: Mapping[str, Tensor]) -> None:
    """Check what was learnt of answers by its parameters.

    Raises:
        ComparisonDataError: If it is nothing of the kind; names the entry.
    """
    parts = (
        {str(name).rpartition(".")[0] for name in effects} if isinstance(effects, Mapping) else {}
    )
    wanted = {name for name in known if name.rpartition(".")[0] in parts}
    if not isinstance(effects, Mapping) or effects.keys() != wanted:
        raise ComparisonDataError(f"`learnt` must have the entries {sorted(known)}.")
    for name, value in effects.items():
        most = known[name].shape[-1]
        numbers = isinstance(value, list) and all(isinstance(one, float) for one in value)
        if not numbers or len(value) > most or not all(map(math.isfinite, value)):
            raise ComparisonDataError(
                f"`learnt` {name} must be a list of {most} finite numbers at most, not {value!r}."
            )


HYPERPARAMETERS = Form(lambda name, value, strategy: strategy.learner.checked(value), dict)
"""The hyperparameters of a strategy's model."""

EFFECTS = Form(lambda name, value, strategy: value, dict)
"""What it has learnt of answers, which is checked where it is set."""


def samples_of(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The hyperparameters of each sample, of lists of them.

    Raises:
        ComparisonDataError: If an entry is no list of so many samples.
    """
    names = [name for name in values if name != "kernel"]
    for name in names:
        if not isinstance(values[name], list) or len(values[name]) != _NUM_SAMPLES:
            raise ComparisonDataError(
                f"`{name}` must be a list of {_NUM_SAMPLES} samples, got {values[name]!r}."
            )
    rows = zip(*(values[name] for name in names), strict=True)
    return [dict(zip(names, row, strict=True), kernel=values.get("kernel")) for row in rows]


def fixed_values(hyperparameters: object, dim: int) -> dict[str, Any]:
    """The hyperparameters that a user gave, checked; none where they are to be learnt."""
    if isinstance(hyperparameters, str) and hyperparameters in ("evidence", "samples"):
        return {}
    values = dict(hyperparameters) if isinstance(hyperparameters, Mapping) else {}
    if "penalty" in values and "outputscale" not in values:
        values["outputscale"] = 1.0 / checked_positive("penalty", values.pop("penalty"))
    values.setdefault("kernel", "rbf")
    wanted = {"lengthscale", "outputscale", "kernel"}
    is_known = values["kernel"] in get_args(KernelName)
    further = {"nugget", "inference", "own_variance", "fall", "slope"}
    if set(values) - further != wanted or not is_known:
        raise ComparisonDataError(
            '`hyperparameters` must be "evidence", "samples" or hold lengthscale, either '
            "outputscale or penalty, and possibly kernel (rbf, matern or matern15) and nugget, got "
            f"{hyperparameters!r}."
        )
    if "inference" in values:
        check_word("inference", values["inference"], Inference)
    own = values.get("own_variance", [])
    for value in own if isinstance(own, list) else [own]:
        _checked_scale("own_variance", value)
    if "fall" in values:
        values["fall"] = _checked_scale("fall", values["fall"])
    for share in ("nugget", "slope"):
        if share in values:
            values[share] = checked_share(share, values[share])
    values["outputscale"] = _checked_scale("outputscale", values["outputscale"])
    given = values["lengthscale"]
    each = given if isinstance(given, list | tuple) else [given] * dim
    if len(each) != dim:
        raise ComparisonDataError(f"`lengthscale` has {len(each)} entries for {dim} dimensions.")
    checked = [_checked_scale("lengthscale", value) for value in each]
    values["lengthscale"] = checked if each is given else checked[0]
    return values


def _checked_scale(argument: str, value: object) -> float:
    """A hyperparameter that a kernel can have."""
    least, most = _ANY_SCALE
    if not least < (scale := checked_positive(argument, value)) < most:
        raise ComparisonDataError(
            f"`{argument}` must be between {least} and {most}, not {value!r}."
        )
    return scale


def as_likelihood(
    likelihood: BernoulliLikelihood | Mapping[str, Any] | None,
) -> BernoulliLikelihood:
    """A link as it is given, or as :func:`likelihood_to_json` returned it; logit by default."""
    if likelihood is None:
        return LogitLikelihood()
    links = {_link_name(kind): kind for kind in BernoulliLikelihood.__subclasses__()}
    if isinstance(likelihood, Mapping) and likelihood.get("link") in [*links]:
        likelihood = links[likelihood["link"]](checked_positive("scale", likelihood["scale"]))
    if isinstance(likelihood, BernoulliLikelihood):
        if not 1 / _MOST_SCALE <= likelihood.scale <= _MOST_SCALE:
            raise ComparisonDataError(
                f"`likelihood` has the scale {likelihood.scale}: it is from {1 / _MOST_SCALE:g} to "
                f"{_MOST_SCALE:g}."
            )
        return likelihood
    raise ComparisonDataError(
        f"`likelihood` must be a link, such as LogitLikelihood(), not {likelihood!r}."
    )


def likelihood_to_json(likelihood: BernoulliLikelihood) -> dict[str, Any]:
    """A link as ``{"link": "logit" | "probit", "scale": float}``."""
    return {"link": _link_name(type(likelihood)), "scale": likelihood.scale}


def _link_name(kind: type[BernoulliLikelihood]) -> str:
    return kind.__name__.removesuffix("Likelihood").lower()


def difference_table(mean: Tensor, covariance: Tensor) -> tuple[Tensor, Tensor]:
    """The ``n x n``-dim means and standard deviations of ``f(x_i) - f(x_j)`` for ``n`` items."""
    variance = covariance.diagonal()
    square = variance.unsqueeze(-1) + variance - 2 * covariance
    return mean.unsqueeze(-1) - mean, square.clamp_min(0.0).sqrt()


def better_of_two(mean: Tensor, covariance: Tensor) -> Tensor:
    """``n x n``-dim ``E[max(f_i, f_j)]``, which is EUBO."""
    difference, deviation = difference_table(mean, covariance)
    deviation = deviation.clamp_min(1e-12)  # of an item and itself
    scaled = difference / deviation
    density = torch.exp(-0.5 * scaled.square()) / (2 * torch.pi) ** 0.5
    return mean + deviation * (density + scaled * torch.special.ndtr(scaled))


def masked(values: Tensor, mask: Tensor) -> Tensor:
    """Values with ``-inf`` where masked, unless nothing finite would be left."""
    left = values.masked_fill(mask, -torch.inf)
    return left if bool(left.isfinite().any()) else values
