r"""The model of the utility behind a strategy, and what strategies that learn one share."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, Literal, TypedDict, cast, get_args

import torch
from botorch.acquisition import AcquisitionFunction, PosteriorMean
from botorch.fit import fit_gpytorch_mll
from botorch.utils.constraints import LogTransformedInterval
from botorch.utils.transforms import t_batch_mode_transform
from gpytorch.kernels import Kernel, ScaleKernel
from linear_operator import to_dense
from torch import Size, Tensor

from botorch_pref.acquisition.dueling_thompson import DuelingThompsonSampling
from botorch_pref.data.checks import check_word, checked_kappa, checked_positive
from botorch_pref.data.comparisons import Comparisons
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.inference.finite import FinitePosterior, Regularizer, argmax_with_random_ties
from botorch_pref.likelihoods import BernoulliLikelihood
from botorch_pref.models.fitting import (
    DEFAULT_MODES,
    KernelName,
    LaplaceMarginalLogLikelihood,
    default_covar_module,
)
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.queries import Duel, Query
from botorch_pref.randomness import derive_seed, seeded
from botorch_pref.space.search_space import SearchSpace
from botorch_pref.strategies.base import (
    Answered,
    KernelArgument,
    Strategy,
    as_likelihood,
    best_of_sample,
    expected_answers,
    own_kernel,
    same_item,
)

REFIT_TENTHS = 11  # data are fitted again when they have grown to so many tenths
_ANY_SCALE = (1e-30, 1e30)  # in single precision, too

# A `2 x d`-dim pair, and its rows in the choices where there are choices.
Pair = tuple[Tensor, tuple[int, int] | None]


class UtilityLearner:
    r"""The data, the hyperparameters and the model of a utility, on choices or on a box.

    Inputs are mapped to the unit cube of the space's bounds, and lengthscales are in its
    units. Hyperparameters that are learnt are fitted again, from where the kernel starts,
    whenever the data have grown by a tenth.

    Args:
        space: The domain.
        hyperparameters: ``"evidence"``, or ``{"lengthscale": float | list, "outputscale":
            float}``; ``"penalty"``, the papers' ``lambda = 1 / outputscale``, may stand
            instead of ``"outputscale"``, and ``"kernel"`` is ``"rbf"`` unless ``"matern"``
            (5/2) or ``"matern15"`` (3/2) is asked for.
        kappa: ``"laplace"``, or the papers' answer-free curvature ``1 / kappa``.
        regularizer: See :class:`~botorch_pref.inference.finite.FinitePosterior`; choices only.
        seed: Of restarts of the fit.
        likelihood: The link; logit by default.
        covar_module: A kernel over the unit cube, or what makes one for a number of dimensions.
            With ``"evidence"`` its parameters that require a gradient are learnt.
    """

    def __init__(
        self,
        space: SearchSpace,
        hyperparameters: Literal["evidence"] | Mapping[str, Any] = "evidence",
        kappa: Literal["laplace"] | float = "laplace",
        regularizer: Regularizer = "rkhs",
        seed: int = 0,
        likelihood: BernoulliLikelihood | Mapping[str, Any] | None = None,
        covar_module: KernelArgument = None,
    ) -> None:
        check_word("regularizer", regularizer, Regularizer)
        if space.choices is None and regularizer != "rkhs":
            raise UnsupportedError(f"`regularizer` {regularizer!r} needs `choices`.")
        self.space, self.seed, self.regularizer = space, seed, regularizer
        self.kappa = checked_kappa("kappa", kappa)
        self.likelihood = as_likelihood(likelihood)
        self.learns = isinstance(hyperparameters, str)
        self._values = fixed_values(hyperparameters, space.num_features)
        self.kind = self._values.get("kernel", "rbf")
        self._kernel = own_kernel(covar_module, space)
        if self._kernel is not None:
            if not self.learns:
                raise ComparisonDataError(
                    "Give `hyperparameters` or `covar_module`; what its parameters are to be is "
                    "set in that kernel, and learnt if they require a gradient."
                )
            self.learns = any(one.requires_grad for one in self._kernel.parameters())
        self.num_fitted = 0
        self.answered: list[Answered] = []
        self._data: Comparisons | None = None
        self._exact: FinitePosterior | None = None
        self._model: PreferenceGP | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_model": None}  # a copy finds the same one again

    @property
    def values(self) -> dict[str, Any]:
        """The hyperparameters of now, as plain JSON; none before they are learnt."""
        return self._values

    @values.setter
    def values(self, values: dict[str, Any]) -> None:
        self._values = values
        self._exact = self._model = None

    def restore(self, values: Mapping[str, Any], num_fitted: int) -> None:
        """Put back hyperparameters, and the number of data they were fitted to.

        Raises:
            ComparisonDataError: If they are none, or there are not so many data.
        """
        if num_fitted > self.data.num_comparisons:
            raise ComparisonDataError(f"`num_fitted` is {num_fitted}, more than there are answers.")
        if values and self._kernel is not None:
            names = {name for name, _ in self._kernel.named_parameters()}
            if values.keys() != names:
                raise ComparisonDataError(
                    f"`covar_module` has parameters {sorted(names)}, but the stored one has "
                    f"{sorted(values)}."
                )
            self.values = dict(values)
        else:
            self.values = fixed_values(values, self.space.num_features) if values else {}
        self.num_fitted = num_fitted

    @property
    def data(self) -> Comparisons:
        """All comparisons so far; an item that met itself is none."""
        if self._data is None:
            self._data = self._comparisons(self.answered)
        return self._data

    def add(self, duel: Duel, answer: float) -> bool:
        r"""Add an answer.

        Returns:
            Whether it became a comparison, as that of an identical pair does not.
        """
        self.answered.append(Answered(duel, answer))
        if self._exact is not None:
            self._exact.append(cast(Any, duel.indices), answer)
        differs = _differs(duel)
        if differs:
            self._data = self._model = None
        return differs

    def covar_module(self) -> Kernel:
        """The kernel with the current hyperparameters."""
        if self._kernel is None:
            return kernel_of(self.values, self.space, self.kind)
        kernel = copy.deepcopy(self._kernel)
        with torch.no_grad():
            for name, parameter in kernel.named_parameters():
                if name in self.values:
                    parameter.copy_(torch.tensor(self.values[name], dtype=torch.double))
        return kernel

    def unit_kernel(self) -> Kernel:
        """The kernel of now less its output scale, if it has one."""
        kernel = self.covar_module()
        return kernel.base_kernel if isinstance(kernel, ScaleKernel) else kernel

    @property
    def penalty(self) -> float:
        """The papers' ``lambda``, the inverse of the output scale; 1 for a kernel without one."""
        if self._kernel is None:
            scale = self.values["outputscale"] if self.values else DEFAULT_MODES[0][1]
            return 1.0 / float(scale)
        kernel = self.covar_module()
        return 1.0 / float(kernel.outputscale.detach()) if isinstance(kernel, ScaleKernel) else 1.0

    def refit(self, at_once: bool = False) -> bool:
        r"""Fit the hyperparameters if they are learnt and the data have grown enough.

        Args:
            at_once: Whether one answer more is enough.

        Returns:
            Whether they were fitted.
        """
        size = self.data.num_comparisons
        due = size > self.num_fitted if at_once else refit_is_due(size, self.num_fitted)
        if not self.learns or not due:
            return False
        if self._kernel is None:
            kernel: Kernel = kernel_of({}, self.space, self.kind)
        else:
            kernel = copy.deepcopy(self._kernel)
        model = self._build(kernel, self.data)
        with seeded(derive_seed(self.seed, "fit", size), model.items.device):
            fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
        if self._kernel is None:
            self.values = fitted_values(cast(ScaleKernel, kernel), self.kind)
        elif all(bool(one.isfinite().all()) for one in kernel.parameters()):  # else as before
            self.values = {name: one.tolist() for name, one in kernel.named_parameters()}
        self.num_fitted = size
        return True

    def model(self, pending: Iterable[Query] = ()) -> PreferenceGP:
        r"""The model of all comparisons so far.

        Args:
            pending: Open duels, which are taken to be answered as the model expects.
        """
        if self._model is None:
            self._model = self._build(self.covar_module(), self.data)
        model = self._model
        differing = [query for query in pending if _differs(query)]
        if not differing:
            return model
        expected = expected_answers(differing, lambda query: _means(model, query))
        return self._build(model.covar_module, self._comparisons([*self.answered, *expected]))

    def posterior(self, pending: Iterable[Query] = ()) -> FinitePosterior:
        r"""The posterior of all choices.

        Args:
            pending: Open duels, which are taken to be answered as the posterior expects.
        """
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
            for duel, answer in self.answered:
                self._exact.append(duel.indices, cast(float, answer))
        posterior = self._exact
        if pending := list(pending):
            mean, posterior = posterior.mean, copy.deepcopy(posterior)
            for duel, answer in expected_answers(pending, lambda query: mean[list(query.indices)]):
                posterior.append(duel.indices, cast(float, answer))
        return posterior

    def _comparisons(self, answered: Sequence[Answered]) -> Comparisons:
        """Answered duels of two different items each."""
        like = self.space.bounds
        duels = [done for done in answered if _differs(done.query)]
        told = like.new_tensor([answer for _, answer in duels])
        if self.space.choices is None:
            if not duels:
                return Comparisons.from_pairs(like.new_empty(0, 2, self.space.dim), told)
            pairs = torch.stack([query.items for query, _ in duels]).to(like)
            return Comparisons.from_pairs(pairs, told)
        none = torch.zeros(0, 2, dtype=torch.long, device=like.device)
        data = Comparisons.from_comparisons(self.space.choices, none)
        if not duels:
            return data
        rows = torch.tensor([query.indices for query, _ in duels], device=like.device)
        return data.append_indices(rows, told)

    def _build(self, covar_module: Kernel, data: Comparisons) -> PreferenceGP:
        return PreferenceGP(
            data.datapoints,
            data,
            likelihood=self.likelihood,
            covar_module=covar_module,
            input_transform=self.space.input_transform(),
            variance=self.kappa,
        )


class ModelOptions(TypedDict, total=False):
    r"""The arguments of ``LearningStrategy`` beside the domain."""

    seed: int
    hyperparameters: Literal["evidence"] | Mapping[str, Any]
    kappa: Literal["laplace"] | float
    regularizer: Regularizer
    likelihood: BernoulliLikelihood | Mapping[str, Any] | None
    covar_module: KernelArgument


class LearningStrategy(Strategy):
    r"""Owns a learner and a round, from which all draws derive.

    Args:
        bounds: ``2 x d``-dim box, or
        choices: ``n x d``-dim table of items, or
        space: a search space.
        seed: The seed of all draws.
        hyperparameters: ``"evidence"`` to learn them, or fixed values; this and the arguments
            below are those of :class:`UtilityLearner`.
        kappa: ``"laplace"``, or the papers' answer-free curvature ``1 / kappa``.
        regularizer: The penalty of the mean; on choices alone.
        likelihood: The link; logit by default.
        covar_module: A kernel, or what makes one for a number of dimensions, instead of the
            default one.

    Attributes:
        learner: The model of the utility.
        round: The number of queries that were chosen.
    """

    def __init__(
        self,
        bounds: Tensor | None = None,
        choices: Tensor | None = None,
        space: SearchSpace | None = None,
        *,
        seed: int = 0,
        hyperparameters: Literal["evidence"] | Mapping[str, Any] = "evidence",
        kappa: Literal["laplace"] | float = "laplace",
        regularizer: Regularizer = "rkhs",
        likelihood: BernoulliLikelihood | Mapping[str, Any] | None = None,
        covar_module: KernelArgument = None,
    ) -> None:
        super().__init__(bounds=bounds, choices=choices, space=space, seed=seed)
        self.learner = UtilityLearner(
            self.space, hyperparameters, kappa, regularizer, self.seed, likelihood, covar_module
        )
        self.hyperparameters = "evidence" if hyperparameters == "evidence" else self.learner.values
        self.kappa, self.regularizer = self.learner.kappa, self.learner.regularizer
        self.likelihood, self.covar_module = self.learner.likelihood, covar_module

    def _refit(self) -> None:
        """Learn hyperparameters again, if it is time to."""
        self.learner.refit()

    def _seed(self, stream: str, annotator: str | None = None) -> int:
        """The seed of a draw of this round."""
        return derive_seed(self.seed, stream, self.round, annotator)

    def _best_row(self, values: Tensor, stream: str = "tie") -> int:
        """The row of the largest of ``n`` values, ties broken by this round's seed."""
        generator = torch.Generator().manual_seed(self._seed(stream))
        noise = torch.rand(len(values), generator=generator, dtype=torch.double)
        return int(argmax_with_random_ties(values, noise))

    def _same(self, items: Tensor, other: Tensor) -> Tensor:
        """Which of ``... x d`` items a person could not tell from another."""
        return same_item(self.space, items, other)

    def _best_item(
        self,
        rule: AcquisitionFunction,
        seed: int,
        avoid: Tensor | None = None,
        options: dict[str, Any] | None = None,
    ) -> Tensor:
        """Where a rule over a box is largest; away from ``k x d`` items, the best of a sample."""
        asked = self.asked_items()
        if avoid is None:
            starts = asked.unsqueeze(-2)
            return self.space.maximize(rule, seed=seed, starts=starts, options=options).items[0]
        return best_of_sample(self.space, rule, seed, asked, avoid)

    def _last(self) -> Query | None:
        """The query chosen last, answered or not."""
        for query in (*self._open.values(), *(done.query for done in reversed(self.history))):
            if query.id == self._next_id - 1:
                return query
        return None

    def _progress(self) -> dict[str, Any]:
        return {
            **super()._progress(),
            "hyperparameters": dict(self.learner.values),
            "num_fitted": self.learner.num_fitted,
        }

    def _restore(self, progress: dict[str, Any]) -> None:
        super()._restore(progress)
        self.learner.restore(progress["hyperparameters"], progress["num_fitted"])


class UtilityStrategy(LearningStrategy):
    r"""Asks duels, models the utility, and recommends the largest posterior mean.

    A subclass has ``_pair``. For the arguments see
    :class:`~botorch_pref.strategies.utility.LearningStrategy`.

    Attributes:
        num_identical: The number of answered duels in which an item met itself.
    """

    _asks = (Duel,)
    num_identical = 0

    def recommend(self) -> Tensor:
        r"""The item with the largest posterior mean: of all choices, or of the whole box.

        Raises:
            ComparisonDataError: On a box, if nothing was asked yet.
        """
        if self.space.choices is not None:
            return self.space.choices[self.recommend_index()]
        asked, model = self.asked_items(), self.learner.model()
        if not len(asked):
            raise ComparisonDataError("Nothing was answered yet, so nothing is recommended.")
        if not model.num_observations:  # all items are alike
            return asked[0]
        seed = derive_seed(self.seed, "recommend", self.num_answers)
        return self._best_item(PosteriorMean(model), seed)

    def recommend_index(self) -> int:
        """The row of the recommended item in the choices."""
        return self._best_row(self.learner.posterior().mean)

    @abstractmethod
    def _pair(self, annotator: str | None) -> Pair:
        """The pair of round ``self.round``."""

    def _choose(self, query_id: int, annotator: str | None) -> Query:
        self._refit()
        self.round += 1
        items, indices = self._pair(annotator)
        return Duel(query_id, items, indices, annotator)

    def _learn(self, answered: Answered) -> None:
        query = answered.query
        assert isinstance(query, Duel)
        if answered.answer is not None and not self.learner.add(query, answered.answer):
            self.num_identical += 1

    def _model(self) -> PreferenceGP:
        """The model on a box, with open duels answered as it expects."""
        return self.learner.model(self._open.values())

    def _posterior(self) -> FinitePosterior:
        """The posterior of the choices, with open duels answered as it expects."""
        return self.learner.posterior(self._open.values())

    def _rows(self, first: int, second: int) -> Pair:
        """Two rows of the choices."""
        return self.space.table[[first, second]], (first, second)

    def _barred_duels(self) -> list[Duel]:
        """Those not to be asked now: the open ones, and what was skipped since the last answer.

        What follows from the answers alone would be the same again, and again.
        """
        skipped = takewhile(lambda done: done.answer is None, reversed(self.history))
        queries = (*self._open.values(), *(done.query for done in skipped))
        return [query for query in queries if isinstance(query, Duel)]

    def _barred_table(self) -> Tensor:
        """Which of all ``n x n`` pairs of choices are barred, in either order."""
        size, device = len(self.space.table), self.space.table.device
        barred = torch.zeros(size, size, dtype=torch.bool)
        for duel in self._barred_duels():
            if duel.indices is not None:
                barred[duel.indices] = barred[duel.indices[::-1]] = True
        return barred.to(device)

    def _unbarred(self, values: Tensor, rows: int | slice) -> Tensor:
        """Some rows of a table of pairs, without those that are barred if others are left."""
        return masked(values, self._barred_table()[rows]) if self._barred_duels() else values

    def _best_mean(self, model: PreferenceGP, stream: str) -> Tensor:
        """The maximiser of the posterior mean over a box; before any answer, any item."""
        seed = self._seed(stream)
        if not model.num_observations:
            return self.space.sample(1, seed)[0]
        return self._best_item(PosteriorMean(model), seed)

    def _opponent(self, rule: AcquisitionFunction, first: Tensor, seed: int) -> Tensor:
        """Where a rule over a box is largest, but for the first arm and barred duels with it."""
        best = self._best_item(rule, seed)
        taken = self._taken(first)
        return self._best_item(rule, seed, taken) if self._same(best, taken).any() else best

    def _taken(self, first: Tensor) -> Tensor:
        """An item and its opponents in barred duels, ``k x d``-dim."""
        taken = [first]
        for duel in self._barred_duels():
            items = duel.items.to(first)
            taken += [items[1 - arm] for arm in (0, 1) if self._same(items[arm], first)]
        return torch.stack(taken)


class ArmPath(AcquisitionFunction):
    """One arm's path as a rule for single items."""

    def __init__(self, rule: DuelingThompsonSampling, arm: int) -> None:
        super().__init__(rule.model)
        self.rule, self.arm = rule, arm

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """The path at ``b x 1 x d``-dim items."""
        return self.rule.arm(self.arm, X.squeeze(-2))


def refit_is_due(size: int, num_fitted: int) -> bool:
    """Whether data have grown by a tenth since hyperparameters were fitted to them."""
    return size > num_fitted and 10 * size >= REFIT_TENTHS * num_fitted


def last_refit(size: int) -> int:
    """The number of data at which a refit was last due, of data that were told one by one."""
    fitted = 0
    for number in range(1, size + 1):
        fitted = number if refit_is_due(number, fitted) else fitted
    return fitted


def kernel_of(values: Mapping[str, Any], space: SearchSpace, kind: str) -> ScaleKernel:
    """The kernel of a space with given hyperparameters, or with its prior's where there are none.

    Args:
        values: ``lengthscale`` and ``outputscale``, or nothing.
        space: The domain, whose unit cube the lengthscale is measured in.
        kind: ``"rbf"``, ``"matern"`` or ``"matern15"``.
    """
    kernel = default_covar_module(space.num_features, Size(), cast(KernelName, kind)).to(
        space.bounds
    )
    if values:
        # Bounds are for what is learnt, in standard units; what is given may be in any unit.
        for owner, name in ((kernel.base_kernel, "lengthscale"), (kernel, "outputscale")):
            owner.register_constraint(f"raw_{name}", LogTransformedInterval(*_ANY_SCALE))
            setattr(owner, name, values[name])
    return kernel


def fitted_values(kernel: ScaleKernel, kind: str) -> dict[str, Any]:
    """The hyperparameters of a kernel as plain JSON."""
    return {
        "lengthscale": kernel.base_kernel.lengthscale.detach().flatten().tolist(),
        "outputscale": float(kernel.outputscale.detach()),
        "kernel": kind,
    }


def fixed_values(hyperparameters: object, dim: int) -> dict[str, Any]:
    """The hyperparameters that a user gave, and none where they are to be learnt.

    Raises:
        ComparisonDataError: If they are neither ``"evidence"`` nor such values.
    """
    if isinstance(hyperparameters, str) and hyperparameters == "evidence":
        return {}
    values = dict(hyperparameters) if isinstance(hyperparameters, Mapping) else {}
    if "penalty" in values and "outputscale" not in values:
        values["outputscale"] = 1.0 / checked_positive("penalty", values.pop("penalty"))
    values.setdefault("kernel", "rbf")
    wanted = {"lengthscale", "outputscale", "kernel"}
    if set(values) != wanted or values["kernel"] not in get_args(KernelName):
        raise ComparisonDataError(
            '`hyperparameters` must be "evidence" or hold lengthscale, either outputscale or '
            f"penalty, and possibly kernel (rbf, matern or matern15), got {hyperparameters!r}."
        )
    values["outputscale"] = checked_positive("outputscale", values["outputscale"])
    lengthscale = values["lengthscale"]
    if isinstance(lengthscale, list | tuple):
        if len(lengthscale) != dim:
            raise ComparisonDataError(
                f"`lengthscale` has {len(lengthscale)} entries for {dim} dimensions."
            )
        values["lengthscale"] = [checked_positive("lengthscale", v) for v in lengthscale]
    else:
        values["lengthscale"] = checked_positive("lengthscale", lengthscale)
    return values


def difference_table(mean: Tensor, covariance: Tensor) -> tuple[Tensor, Tensor]:
    r"""Mean and standard deviation of ``f(x_i) - f(x_j)``.

    Args:
        mean: ``n``-dim utilities.
        covariance: Their ``n x n``-dim covariance.

    Returns:
        Two ``n x n``-dim tables, in the units of the utility.
    """
    variance = covariance.diagonal()
    square = variance.unsqueeze(-1) + variance - 2 * covariance
    return mean.unsqueeze(-1) - mean, square.clamp_min(0.0).sqrt()


def masked(values: Tensor, mask: Tensor) -> Tensor:
    """Values with ``-inf`` where masked, unless nothing finite would be left."""
    left = values.masked_fill(mask, -torch.inf)
    return left if bool(left.isfinite().any()) else values


def _differs(query: Query) -> bool:
    """Whether the two items of a duel differ: as rows of choices, or in value on a box."""
    if query.indices is not None:
        return bool(query.indices[0] != query.indices[1])
    return not torch.equal(query.items[0], query.items[1])


def _means(model: PreferenceGP, query: Query) -> Tensor:
    return model.posterior(query.items.to(model.items)).mean.squeeze(-1)
