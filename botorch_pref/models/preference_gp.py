r"""A Gaussian process over utilities, from comparisons, choices and measured values."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self, cast

import pandas as pd
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms.input import InputTransform
from botorch.models.utils.gpytorch_modules import get_gaussian_likelihood_with_lognormal_prior
from botorch.models.utils.inducing_point_allocators import GreedyVarianceReduction
from botorch.posteriors import GPyTorchPosterior
from botorch.sampling.base import MCSampler
from botorch.sampling.pairwise_samplers import PairwiseMCSampler
from botorch.utils.constraints import LogTransformedInterval
from botorch.utils.containers import SliceContainer
from botorch.utils.datasets import RankingDataset, SupervisedDataset
from gpytorch import settings
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel, MaternKernel, ScaleKernel
from gpytorch.means import ConstantMean, Mean, ZeroMean
from gpytorch.mlls import MarginalLogLikelihood
from gpytorch.priors import LogNormalPrior
from linear_operator.operators import DiagLinearOperator
from torch import Size, Tensor
from torch.nn import Module, ModuleDict, Parameter
from torch.nn.functional import pad

from botorch_pref.data.blocks import Block, BlockData, match_items
from botorch_pref.data.checks import (
    UNKNOWN_ANNOTATOR,
    check_count,
    check_items,
    check_like,
    check_shape,
    checked_annotators,
    checked_kappa,
    checked_positive,
    common_batch_shape,
    finite,
    refuse,
)
from botorch_pref.data.comparisons import Comparisons
from botorch_pref.data.rankings import Rankings
from botorch_pref.data.values import Values
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.inference.inducing import InducingSystem, ItemKernel
from botorch_pref.inference.observations import Observations
from botorch_pref.inference.systems import System
from botorch_pref.kernels.items import (
    Read,
    Write,
    default_covar_module,
    dense_covariance,
    dueling_variance,
)
from botorch_pref.likelihoods import BernoulliLikelihood
from botorch_pref.models.answer_parameters import (
    PEOPLE,
    AnnotatorEffects,
    People,
    effects_of,
    learnt_of,
)
from botorch_pref.models.base import (
    Inference,
    LaplaceGP,
    Observed,
    learn_bounds,
    num_columns,
    transformed_items,
)
from botorch_pref.models.fitting import search_by_steps

_CANDIDATES = 4096  # of which inducing items are chosen

ValuesArgument = tuple[Tensor, Tensor] | tuple[Tensor, Tensor, Tensor] | Values | None


class PreferenceGP(LaplaceGP):
    r"""A utility ``f ~ GP(m, k)`` compared by ``P(i beats j) = mu(s (f(x_i) - f(x_j)))``.

    A drop-in for BoTorch's ``PairwiseGP``. The posterior of the utility is Laplace's
    approximation, or that of expectation propagation (Rasmussen and Williams 2006, ch. 3), which
    does not pull probabilities towards a half. It is known up to a constant, unless values
    ``y = f(x) + e``, ``e ~ N(0, v)``, were measured as well. These have the units of the utility,
    and the link's scale ``s``, learnt under a log-normal prior of median 1, converts them to those
    of the link. An unknown ``v`` is learnt, with the prior of BoTorch's ``SingleTaskGP``. Values
    alone are exact regression; posterior variances lose digits where ``v`` is below some 1e-6 of
    the prior variance.

    With ``inducing_points`` inference is linear in the number ``m`` of duels, and memory grows by
    vectors of length ``m`` alone. Predictions keep the prior variance that inducing items do not
    explain. The evidence has a trace correction, see ``botorch_pref.inference.inducing``: as a
    rule it is below the exact one, and lengthscales come out too long where inducing items are
    few. Its gradient takes several passes over the data: with very many duels, fit an exact model
    to a part of them and load its state. A number of inducing items is chosen among the items
    under the hyperparameters of the first use; they stay until :meth:`choose_inducing_points` or
    other data. Inference is exact where there are no more items than that. Batches of models,
    fantasies among them, and gradients of such a posterior are refused.

    Hyperparameters and input transforms are in ``state_dict``, data are not; copies,
    pickles and ``.to`` carry both.

    Attributes:
        data: The comparisons in the order in which they were given; ``None`` without.
        values: The measured values in the order in which they were given; ``None`` without.
        choices: The choices of the best of several items.
        merged_data: The comparisons in inference: one row for each pair; where there are annotators
            one for each of them and each order.
        learnt: What is learnt of answers beside the utility, by argument; the evidence has
            gradients in these parameters, a posterior has none.
        variance: ``"laplace"`` or ``kappa``.
        noise_model: The likelihood of values, if the variance of their noise is learnt.
        num_observations: The number of comparisons (after merging), values and choices.

    Example:
        >>> datapoints = torch.rand(4, 2, dtype=torch.float64)
        >>> model = PreferenceGP(datapoints, torch.tensor([[0, 1], [2, 1]]))
        >>> fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
        >>> model.win_probability(datapoints[:2])
    """

    _data_names = ("data", "values", "choices", "merged_data", "_inducing")
    data: Comparisons | None
    values: Values | None
    choices: tuple[BlockData, ...]
    merged_data: Comparisons | None
    _num_inducing: int | None = None
    _inducing: Tensor | None
    _is_searched = False

    def __init__(
        self,
        datapoints: Tensor | None,
        comparisons: Tensor | Comparisons | None,
        likelihood: Module | None = None,
        covar_module: Kernel | None = None,
        input_transform: InputTransform | None = None,
        *,
        values: ValuesArgument = None,
        choices: BlockData | Sequence[BlockData] = (),
        mean_module: Mean | None = None,
        variance: str | float = "laplace",
        inference: Inference = "laplace",
        link_scale: float | None = None,
        inducing_points: int | Tensor | None = None,
        jitter: float | None = None,
        xtol: float | None = None,
        consolidate_rtol: float | None = None,
        consolidate_atol: float | None = None,
        maxfev: int | None = None,
    ) -> None:
        r"""Validate the data and set up the prior.

        Args:
            datapoints: ``batch_shape x n x d``-dim items; for the default kernel, in the unit cube
                after ``input_transform``. ``None`` for values alone or the prior.
            comparisons: ``batch_shape x m x 2``-dim integer rows ``[winner, loser]`` that index
                the items; or :class:`~botorch_pref.data.Comparisons`, with ties, of these items;
                ``None`` for none.
            likelihood: The link, of this package or one of BoTorch's two; logit by default.
            covar_module: The prior covariance, in squared units of the values or else of the
                link. By default a scaled Matern-5/2 kernel with ARD and log-normal priors.
            input_transform: Applied where items meet the kernel, with gradients.
            values: ``(X, Y)`` or ``(X, Y, Yvar)``, ``batch_shape x k x d`` and twice ``... x 1``:
                items, values, variances of noise; ``Y`` standardised under the default prior.
            choices: :class:`~botorch_pref.data.Choices` of the best of several items, whose chances
                are a softmax with the scale of the link; or answers of other kinds.
            mean_module: The prior mean; by default zero, or a learnt constant with values.
            variance: ``"laplace"``, or a positive ``kappa``: the answer-free covariance, where
                the curvature of ``s`` times a difference is ``1 / kappa``. The mean is the same.
            inference: ``"laplace"``, or ``"ep"`` for expectation propagation; through inducing
                items that predicts, and Laplace's evidence learns.
            link_scale: ``s`` to fix it; else it is learnt, or 1 without comparisons or values.
            inducing_points: ``p x d``-dim inducing items or their number.
            jitter: Accepted as by BoTorch's ``PairwiseGP``, and not used, like what follows.
            xtol: Not used.
            consolidate_rtol: Not used.
            consolidate_atol: Not used.
            maxfev: Not used.

        Raises:
            ComparisonDataError: If the data cannot be used; names argument and row.
            UnsupportedError: If there are choices or annotators and ``variance`` is a number.
        """
        data = Comparisons.from_arguments(datapoints, comparisons)
        measured = None if values is None else Values.from_argument(values)
        asked = (choices,) if isinstance(choices, BlockData) else tuple(choices)
        named = _by_argument(data, measured, asked)
        batch_shape = _batch_shape(named)
        items = next((part.datapoints for part in named.values()), None)
        dim = num_columns(items, input_transform)
        super().__init__(
            covar_module=covar_module or default_covar_module(dim, batch_shape),
            # A constant changes nothing in comparisons alone.
            mean_module=mean_module
            or (ConstantMean(batch_shape=batch_shape) if measured else ZeroMean()),
            likelihood=likelihood,
            input_transform=input_transform,
            inference=inference,
        )
        self.variance = checked_kappa("variance", variance)
        has_answers = bool(asked) or (data is not None and data.pairs.shape[-2] > 0)
        if link_scale is None and not (has_answers and measured and measured.num_items):
            link_scale = 1.0  # one kind of data has one unit
        self.fixed_scale: float | None = None
        if link_scale is None:
            self._learn_link_scale(batch_shape)
        else:
            self.fixed_scale = checked_positive("link_scale", link_scale)
        self.noise_model: Any = None
        if measured is not None and measured.variances is None:
            self.noise_model = get_gaussian_likelihood_with_lognormal_prior(batch_shape)
        if inducing_points is not None and not isinstance(inducing_points, Tensor):
            check_count("inducing_points", inducing_points, 1)
            self._num_inducing, inducing_points = int(inducing_points), None
        self._inducing = inducing_points
        own = {PEOPLE: effects_of(named.values(), batch_shape)}
        own |= {name: learnt_of(part, batch_shape) for name, part in named.items()}
        self.learnt = ModuleDict({name: part for name, part in own.items() if part is not None})
        self._set_data(data, measured, asked)
        if items is not None:
            self.to(self.items)
            learn_bounds(self._transform, self.items)
        self.eval()

    @classmethod
    def from_pairs(cls, pairs: Tensor, answers: Tensor, **kwargs: Any) -> Self:
        r"""A model of answered duels, given by their items.

        Args:
            pairs: ``m x 2 x d``-dim items; equal items become one datapoint.
            answers: ``m``-dim answers: 1 the first won, 0 the second, 0.5 no preference.
            **kwargs: Passed to the constructor.

        Returns:
            The model.
        """
        data = Comparisons.from_pairs(pairs, answers)
        return cls(data.datapoints, data, **kwargs)

    @classmethod
    def construct_inputs(cls, training_data: SupervisedDataset) -> dict[str, Any]:
        r"""The arguments of the constructor for a ``RankingDataset``.

        Rankings of two items are comparisons, a tie half a win for each; others are
        :class:`~botorch_pref.data.Rankings`, in ``choices``.

        Args:
            training_data: A ``RankingDataset``; rank 0 is best.

        Raises:
            UnsupportedError: If it is another data set.
        """
        if not isinstance(training_data, RankingDataset):
            raise UnsupportedError(
                f"Only `RankingDataset` is supported for `{cls.__name__}`, not "
                f"{type(training_data).__name__}."
            )
        ranked = cast(SliceContainer, training_data._X)
        X, ranks = ranked.values, training_data.Y
        ranks, order = ranks.sort(dim=-1, stable=True)
        items, tied = ranked.indices.gather(-1, order), ranks[..., 1:] == ranks[..., :-1]
        if items.shape[-1] > 2:
            rankings = Rankings(X, items, tied=tied)
            return {"datapoints": None, "comparisons": None, "choices": rankings}
        if not bool(tied.any()):
            return {"datapoints": X, "comparisons": items}
        wins = torch.where(tied.squeeze(-1), 0.5, 1.0).to(X)
        data = Comparisons(X, items, wins, torch.ones_like(wins))
        return {"datapoints": X, "comparisons": data}

    def _learn_link_scale(self, batch_shape: Size) -> None:
        own, prior = cast(Any, self), LogNormalPrior(0.0, 1.0)  # GPyTorch's methods have no types
        own.register_parameter("raw_link_scale", Parameter(torch.zeros(*batch_shape, 1)))
        own.register_prior("link_scale_prior", prior, Read("link_scale"), Write("link_scale"))
        constraint = LogTransformedInterval(1e-3, 1e3, initial_value=1.0)
        own.register_constraint("raw_link_scale", constraint)

    @property
    def items(self) -> Tensor:
        """The ``batch_shape x n x d``-dim items: compared, measured and chosen from.

        Without data there are none, of the kernel's type.
        """
        parts = [part.datapoints for part in self._parts().values()]
        if parts:
            return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-2)
        dims = (k.ard_num_dims for k in self.covar_module.modules() if isinstance(k, Kernel))
        dim = next((d for d in dims if d is not None), 1)
        return next(self.covar_module.parameters(), torch.empty(0)).new_empty(0, dim)

    @property
    def dim(self) -> int | None:
        """The number of dimensions ``d`` of an item as it was given; ``None`` without data."""
        part = next(iter(self._parts().values()), None)
        return None if part is None else part.datapoints.shape[-1]

    @property
    def utility(self) -> Tensor | None:
        """``batch_shape x n``-dim posterior means of ``datapoints``, the mode; ``None`` without."""
        return None if self.data is None else self.posterior(self.data.datapoints).mean.squeeze(-1)

    @property
    def datapoints(self) -> Tensor | None:
        """The ``batch_shape x n x d``-dim compared items as they were given."""
        return None if self.data is None else self.data.datapoints

    @property
    def comparisons(self) -> Tensor | None:
        r"""The ``m x 2``-dim rows ``[winner, loser]``, a row for every answer.

        Raises:
            UnsupportedError: If there are ties, which have no such row.
        """
        return None if self.data is None else self.data.comparisons

    train_targets = comparisons  # as GPyTorch names them

    def set_train_data(
        self,
        datapoints: Tensor | None = None,
        comparisons: Tensor | Comparisons | None = None,
        strict: bool = False,
        update_model: bool = True,
    ) -> None:
        r"""Replace all data by comparisons; transforms learn their bounds, nothing else does.

        Args:
            datapoints: ``batch_shape x n x d``-dim items.
            comparisons: As in the constructor; ``None`` for the prior.
            strict: Whether shape, type and device must be those of the data before.
            update_model: Accepted as by BoTorch's ``PairwiseGP``, and not used.

        Raises:
            ComparisonDataError: If the data cannot be used; the old data then stay.
            RuntimeError: If ``strict`` and they differ, as from GPyTorch's exact models.
        """
        data = Comparisons.from_arguments(datapoints, comparisons)
        if strict:
            _check_alike("datapoints", self.datapoints, datapoints)
            if not isinstance(comparisons, Comparisons):
                _check_alike("comparisons", self.comparisons, comparisons)
        if data is None:
            raise ComparisonDataError("`datapoints` must be given.")
        self.check_dimension("datapoints", data.datapoints)
        self._set_data(data, None)
        learn_bounds(self._transform, self.items)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Torch's; an empty state loads nothing, as Ax's cross-validation has it."""
        strict = strict and bool(state_dict)
        return super().load_state_dict(state_dict, strict=strict, assign=assign)

    def _set_data(
        self, data: Comparisons | None, values: Values | None, choices: tuple[BlockData, ...] = ()
    ) -> None:
        named = _by_argument(data, values, choices)
        batch = _batch_shape(named)
        parts = [part.datapoints for part in named.values()]
        self._check_inducing(batch, parts)
        for name in [*self.learnt]:
            if name not in named and (name != PEOPLE or not named):
                del self.learnt[name]
        if (choices or len(self.learnt)) and not isinstance(self.variance, str):
            raise UnsupportedError(
                '`variance` must be "laplace" where there are choices or annotators.'
            )
        for name, items in zip(named, parts, strict=True):
            check_shape(name, items, "n", parts[0].shape[-1])
            check_like(name, items, parts[0])
        self.data = None if data is None else (data := data.expand(batch))
        self.values = None if values is None else values.expand(batch)
        self.choices, self.merged_data = tuple(asked.expand(batch) for asked in choices), None
        if data is not None:
            self.merged_data = (data if PEOPLE in self.learnt else data.pooled()).merged()
        self.num_observations = sum(block.weight.shape[-1] for block in self._blocks())
        if self._num_inducing is not None:
            self._inducing = None
        self._forget()

    def with_comparisons(self, data: Comparisons) -> Self:
        """A copy with other comparisons; values, choices and hyperparameters are the same."""
        new = copy.deepcopy(self)
        new._set_data(data, self.values, self.choices)
        if not self.items.shape[-2]:
            learn_bounds(new._transform, new.items)  # from the first data, as a constructor does
        return new

    def condition_on_pairs(self, pairs: Tensor, answers: Tensor) -> Self:
        r"""A copy with more answered duels, and the same hyperparameters.

        Of known annotators: ``with_comparisons(data.append(pairs, answers, annotator))``.

        Args:
            pairs: ``m x 2 x d``-dim items; one equal to a stored item is that item.
            answers: ``m``-dim answers in ``{0, 0.5, 1}``.

        Raises:
            ComparisonDataError: If the data cannot be used; names argument and row.
        """
        if self.data is None:
            return self.with_comparisons(Comparisons.from_pairs(pairs, answers))
        return self.with_comparisons(self.data.append(pairs, answers))

    def condition_on_observations(self, X: Tensor, Y: Tensor, **kwargs: Any) -> Self:
        r"""A copy with more comparisons, among new items, and the same hyperparameters.

        Args:
            X: ``... x k x d``-dim new items.
            Y: ``... x m x 2``-dim integer rows ``[winner, loser]`` that index ``X``; see
                :meth:`condition_on_pairs` for comparisons with stored items.
            **kwargs: BoTorch's further arguments, none of which applies.

        Returns:
            The new model, differentiable with respect to ``X``.

        Raises:
            ComparisonDataError: If the data cannot be used; names argument and row.
            UnsupportedError: If ``kwargs`` has a noise that is not ``None``.
        """
        if kwargs.get("noise") is not None:
            raise UnsupportedError("`noise` does not apply to comparisons.")
        if self.data is None:
            return self.with_comparisons(Comparisons.from_comparisons(X, Y))
        return self.with_comparisons(self.data.append_new(X, Y))

    def fantasize(
        self,
        X: Tensor,
        sampler: MCSampler | PairwiseMCSampler,
        observation_noise: Tensor | None = None,
        **kwargs: Any,
    ) -> Self:
        r"""Models with one more duel, answered as this model predicts.

        The answers are drawn from :meth:`win_probability` by the sampler's base samples. They are
        piecewise constant in ``X``, so a gradient through fantasies contains how each posterior
        moves with ``X``, but not how the probability of each answer moves.

        Args:
            X: ``b x 2 x d``-dim duels.
            sampler: A sampler with ``sample_shape`` ``S``. BoTorch's pairwise samplers draw
                comparisons of ``b x q x d``-dim items themselves, as for ``PairwiseGP``.
            observation_noise: Must be ``None``; utilities are compared, not measured.
            **kwargs: Not used; gradients always propagate.

        Returns:
            A model of batch shape ``S x b``, differentiable with respect to ``X``.

        Raises:
            UnsupportedError: If ``X`` does not hold pairs, or noise is given.
        """
        if observation_noise is not None:
            raise UnsupportedError("`observation_noise` does not apply to comparisons.")
        if isinstance(sampler, PairwiseMCSampler):
            with torch.no_grad():
                comparisons = sampler(self.posterior(X)).long()
            return self.condition_on_observations(X, comparisons)
        if X.shape[-2] != 2:
            raise UnsupportedError(
                f"{type(self).__name__} fantasises duels: X must be b x 2 x d, but is "
                f"{tuple(X.shape)}."
            )
        with torch.no_grad():
            who = torch.tensor(UNKNOWN_ANNOTATOR, device=X.device)
            probability = self.win_probability(X, who if PEOPLE in self.learnt else None)
            ones = torch.ones_like(probability).unsqueeze(-1)
            normal = MultivariateNormal(torch.zeros_like(ones), DiagLinearOperator(ones))
            uniform = torch.special.ndtr(sampler(GPyTorchPosterior(normal)))
            lost = (uniform[..., 0, 0] >= probability).long()
        rows = torch.stack([lost, 1 - lost], dim=-1).unsqueeze(-2)
        return self.condition_on_observations(X, rows)

    @property
    def link_scale(self) -> Tensor:
        """The ``... x 1``-dim scale ``s`` of the link, which may be set; 0-dim if it is fixed."""
        if self.fixed_scale is not None:
            return self.items.new_full((), self.fixed_scale)
        own = cast(Any, self)
        return cast(Tensor, own.raw_link_scale_constraint.transform(own.raw_link_scale))

    @link_scale.setter
    def link_scale(self, value: float | Tensor) -> None:
        if self.fixed_scale is not None:
            raise ComparisonDataError("`link_scale` was fixed when the model was made.")
        own = cast(Any, self)
        value = torch.as_tensor(value).to(own.raw_link_scale).expand_as(own.raw_link_scale)
        own.initialize(raw_link_scale=own.raw_link_scale_constraint.inverse_transform(value))

    @property
    def link(self) -> BernoulliLikelihood:
        r"""The link of a difference of utilities, with ``s`` as it is now.

        Raises:
            UnsupportedError: If the scales of a batch differ.
        """
        if self.fixed_scale == 1.0:
            return self.likelihood
        scale = self.link_scale.detach().flatten()
        if bool((scale != scale[:1]).any()):
            raise UnsupportedError("A batch of models with scales of their own has no one link.")
        link = copy.copy(self.likelihood)
        link.scale *= float(scale[0])
        return link

    @property
    def custom_fit(self) -> Callable[..., MarginalLogLikelihood]:
        """See the base class; where annotators are told apart, the search is by their steps."""
        effects = dict(self.learnt).get(PEOPLE)
        if not isinstance(effects, AnnotatorEffects) or self._is_searched:
            return super().custom_fit

        def fit(mll: MarginalLogLikelihood, **kwargs: Any) -> MarginalLogLikelihood:
            count = self._answers_of_each()
            search = partial(search_by_steps, effects=effects, count=count)
            self._is_searched = True  # by BoTorch, which asks for this property again
            try:
                return fit_gpytorch_mll(mll, **({"optimizer": search} | kwargs))
            finally:
                self._is_searched = False

        return fit

    def _answers_of_each(self) -> Tensor:
        """The ``... x A``-dim numbers of answers of the annotators who are told apart."""
        effects = self._annotator_effects()
        total = torch.zeros_like(effects.log_reliability.detach())
        for part in self._parts().values():
            if part.annotator is not None:
                who = part.annotator.expand(*total.shape[:-1], -1)
                is_told = (who >= 0) & (who < total.shape[-1])
                weight = getattr(part, "count", torch.ones_like(who))
                weight = torch.where(is_told, weight, 0.0).to(total)
                total.scatter_add_(-1, torch.where(is_told, who, 0), weight)
        return total

    def observed(self) -> Observed:
        parts, scaling = self._parts(), self.scaling()
        total = sum(part.num_items for part in parts.values())
        observations = Observations(self._blocks(), total)
        if self.values is None or scaling is None:
            return Observed(observations, scaling)
        before = 0 if self.merged_data is None else self.merged_data.num_items
        end = before + self.values.num_items
        targets = pad(self.values.targets.squeeze(-1), (before, total - end))
        log_units = -scaling[..., before:end].log().sum(-1).expand(self.batch_shape)
        return Observed(observations, scaling, targets, log_units)

    def _parts(self) -> dict[str, BlockData]:
        """The data of each kind that inference sees, by argument."""
        return _by_argument(self.merged_data, self.values, self.choices)

    def _blocks(self) -> list[Block]:
        """The blocks of all data, with what is learnt of their answers."""
        effects = dict(self.learnt).get(PEOPLE)
        people = effects.values() if isinstance(effects, AnnotatorEffects) else None
        return self._blocks_of(people)

    def _blocks_of(self, people: People | None) -> list[Block]:
        """Those of given values of the annotators."""
        blocks, first = [], 0
        for name, part in self._parts().items():
            for block in part.blocks(self.likelihood, dict(self.learnt).get(name)):
                told = block if people is None else people.told(part, block)
                blocks.append(replace(told, items=told.items + first))
            first += part.num_items
        return blocks

    def scaling(self) -> Tensor | None:
        r"""Factors of the items' utilities: ``1 / sigma`` if measured, else ``s``.

        A comparison sees ``s`` times a difference, a measurement the standard normal residual
        ``(f(x) - y) / sigma``. ``None`` where all factors are one.
        """
        if self.values is None and self.fixed_scale == 1.0:
            return None
        parts = []
        for part in self._parts().values():
            own = self.link_scale
            if part is self.values:
                known = self.values.variances
                variance = self.noise_model.noise if known is None else known.squeeze(-1)
                own = variance.rsqrt()
            parts.append(own.expand(*self.batch_shape, part.num_items))
        return torch.cat(parts, dim=-1)

    def variance_weight(self) -> Tensor | None:
        """See the base class: ``count / kappa`` for comparisons, one for values."""
        if isinstance(self.variance, str):
            return None
        parts = [] if self.merged_data is None else [self.merged_data.count / self.variance]
        if self.values is not None:
            parts.append(torch.ones_like(self.values.targets.squeeze(-1)))
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

    def log_evidence(self) -> Tensor:
        """See the base class.

        Raises:
            UnsupportedError: Through inducing items, if there are annotators, grades or ratings.
        """
        if len(self.learnt) and self.inducing_points is not None:
            raise UnsupportedError(
                "Through `inducing_points` there is no evidence of answers of which more is learnt "
                "than the utility: of annotators, grades or ratings. Fit a part of them exactly."
            )
        return super().log_evidence()

    def nodes(self) -> Tensor:
        inducing = self.inducing_points
        return super().nodes() if inducing is None else transformed_items(self._transform, inducing)

    def node_scaling(self) -> Tensor | None:
        return self.scaling() if self.inducing_points is None else None

    def system(self, items: Tensor, observed: Observed) -> System:
        if self.inducing_points is None:
            return super().system(items, observed)
        latent = observed.prior_latent(self.mean_module(items))
        covariance = partial(dense_covariance, self.covar_module)
        parameters = tuple(self.covar_module.parameters())
        kernel = ItemKernel(covariance, items, self.nodes(), observed.scaling, parameters)
        return InducingSystem(kernel, latent, observed.observations)

    @property
    def inducing_points(self) -> Tensor | None:
        """The ``p x d``-dim inducing items, not transformed; ``None`` if inference is exact."""
        number = self._num_inducing
        if not self.num_observations or (number or 0) >= self.items.shape[-2]:
            return None
        if self._inducing is None and number is not None:
            # They are used where gradients are taken, too.
            with torch.inference_mode(False), torch.no_grad():
                items = self.transformed_items().detach()
                self._inducing = self.items.detach()[most_varied(self.covar_module, items, number)]
        return self._inducing

    def choose_inducing_points(self) -> None:
        """Choose as many inducing items as before, under the hyperparameters of their next use.

        Raises:
            UnsupportedError: If they were given, and not their number.
        """
        if self._num_inducing is None:
            raise UnsupportedError("`inducing_points` is not a number of items to choose.")
        self._inducing = None
        self._forget()

    def _check_inducing(self, batch: Size, parts: Sequence[Tensor]) -> None:
        number, given = self._num_inducing, self._inducing
        if given is not None and number is None:
            dim = parts[0].shape[-1] if parts else "d"
            check_items("inducing_points", given, "p", dim, batch=False)
            refuse(finite("inducing_points", given))
            if not len(given):
                raise ComparisonDataError("`inducing_points` must hold one item at least.")
            if parts:
                check_like("inducing_points", given, parts[0])
        batch = torch.broadcast_shapes(batch, self.covar_module.batch_shape)
        size = sum(part.shape[-2] for part in parts)
        size = sum(part.shape[-2] for part in parts)
        if not (number < size if number is not None else given is not None):
            return  # inference is exact
        if torch.broadcast_shapes(batch, self.covar_module.batch_shape):
            raise UnsupportedError(
                f"`inducing_points` are for one model, not for a batch of {tuple(batch)}."
            )

    def _with_noise(self, normal: MultivariateNormal, noise: bool | Tensor) -> MultivariateNormal:
        if noise is True and self.values is None:
            return normal
        if noise is True and self.noise_model is not None:
            return cast(MultivariateNormal, self.noise_model(normal))
        return super()._with_noise(normal, noise)

    def pair_posterior(self, X: Tensor) -> GPyTorchPosterior:
        r"""The posterior of the difference ``f(x) - f(x')``, pair by pair.

        Args:
            X: ``... x 2 x d``-dim pairs.

        Returns:
            A posterior whose mean and variance are ``... x 1 x 1``.
        """
        mean, variance = self.difference_moments(X)
        variance = variance.clamp_min(settings.min_variance.value(variance.dtype))  # GPyTorch's
        normal = MultivariateNormal(mean.unsqueeze(-1), DiagLinearOperator(variance.unsqueeze(-1)))
        return GPyTorchPosterior(normal)

    def win_probability(self, X: Tensor, annotator: Tensor | None = None) -> Tensor:
        r"""``E[mu(s (f(x) - f(x')))]`` under the posterior.

        Args:
            X: ``... x 2 x d``-dim pairs.
            annotator: ``...``-dim annotator numbers, broadcast: the probability is that of their
                answers, with their reliability, offset of the first item, and lapses. New ones are
                typical, unknown ones (-1) without an offset. By default no annotator's.

        Returns:
            ``...``-dim probabilities that the first item wins.

        Raises:
            ComparisonDataError: If these are no annotator numbers, or there are none in the data.
        """
        mean, variance = self.difference_moments(X)
        if self.fixed_scale != 1.0:
            scale = self.link_scale.squeeze(-1) if self.link_scale.dim() else self.link_scale
            mean, variance = scale * mean, scale.square() * variance
        if annotator is None:
            return self.likelihood.expected_probability(mean, variance)
        effects = self._annotator_effects()
        who = checked_annotators("annotator", annotator, mean)
        own = effects.values().of_each(self.likelihood, who.expand(mean.shape))
        return own.expected_probability(mean, variance)

    @property
    def annotators(self) -> pd.DataFrame:
        r"""What the annotators of the answers differ in, a row each and a typical one.

        The columns are ``reliability``, ``offset`` and ``lapse``, as of
        :class:`~botorch_pref.likelihoods.AnnotatedLikelihood`, and the standard error of each,
        ``..._error``, by the curvature of the likelihood and the priors at the posterior mean of
        the utility.

        Raises:
            ComparisonDataError: If there are no annotators in the data.
            UnsupportedError: If the model is a batch.
        """
        effects = self._annotator_effects()
        if self.batch_shape:
            raise UnsupportedError("`annotators` is of one model, not of a batch.")
        if all(part.annotator is None for part in self._parts().values()):
            raise ComparisonDataError("`comparisons` have no annotators now.")
        observed = self.observed()
        with torch.no_grad():
            found = self.posterior_mean(self.items)
            found = found if observed.scaling is None else found * observed.scaling
            latent = observed.observations.incidence.apply(found)

        def log_prob(people: People) -> Tensor:
            blocks = Observations(self._blocks_of(people), len(found))
            return blocks.log_prob(latent).sum()

        return effects.table(log_prob)

    def _annotator_effects(self) -> AnnotatorEffects:
        effects = dict(self.learnt).get(PEOPLE)
        if not isinstance(effects, AnnotatorEffects):
            raise ComparisonDataError("`comparisons` had no annotators when the model was made.")
        return effects

    def difference_moments(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance, each ``...``-dim and 0 included, of ``... x 2 x d``-dim pairs."""
        if X.dim() < 2 or X.shape[-2] != 2:
            raise ComparisonDataError(f"`X` must be ... x 2 x d pairs, got {tuple(X.shape)}.")
        self.check_dimension("X", X)
        self.eval()
        inputs = self.transform_rows(X)
        first, second = inputs.unsqueeze(-3).unbind(dim=-2)  # shapes: (..., 1, d)
        prior_mean = self.mean_module(first) - self.mean_module(second)
        variance = dueling_variance(self.covar_module, first, second)
        mean, variance = torch.broadcast_tensors(prior_mean, variance)
        if self.num_observations:
            items, found = self.laplace_posterior()
            cross = self.cross_covariance(inputs, items)
            cross = cross[..., :1, :] - cross[..., 1:, :]
            mean, variance = found.predict_differences(mean, variance, cross)
        return mean.squeeze(-1), variance.squeeze(-1)


def _by_argument(
    data: Comparisons | None, values: Values | None, choices: Sequence[BlockData]
) -> dict[str, BlockData]:
    """The data that there are, by the argument that their items were given in."""
    named: dict[str, BlockData] = {} if data is None else {"datapoints": data}
    if values is not None:
        named[values.names[0]] = values
    return named | {f"choices[{i}]": asked for i, asked in enumerate(choices)}


def _batch_shape(named: Mapping[str, BlockData]) -> Size:
    """The common batch shape of data, which errors call by their arguments."""
    return common_batch_shape(**{name: part.batch_shape for name, part in named.items()})


@torch.no_grad()
def most_varied(kernel: Kernel, inputs: Tensor, number: int) -> Tensor:
    """The indices of items that explain much of the prior variance of all ``n x d``-dim inputs.

    A pivoted Cholesky of the prior covariance (Burt, Rasmussen and van der Wilk 2020), of a
    random part of the items where there are many. Where this kernel leaves nothing more to
    explain, the rest are spread over the items: a fit may find shorter lengthscales. There are
    fewer than ``number`` if no more of the candidates differ.
    """
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(len(inputs), generator=generator).to(inputs.device)
    part = order[: max(_CANDIDATES, 2 * number)].sort().values
    candidates = inputs[part]
    relative = ScaleKernel(kernel)  # to its largest variance
    relative.raw_outputscale = Parameter(relative.raw_outputscale.to(candidates))
    largest = kernel(candidates, diag=True).amax()
    relative.outputscale = largest.reciprocal()
    chosen = _pivots(relative, candidates, number)
    if len(chosen) < number:
        rough = MaternKernel(nu=0.5, ard_num_dims=candidates.shape[-1]).to(candidates)
        extent = candidates.amax(0) - candidates.amin(0)
        rough.lengthscale = torch.where(extent > 0, extent, 1.0)
        spread = _pivots(rough, candidates, number)
        chosen = torch.cat([chosen, spread[~torch.isin(spread, chosen)]])[:number]
    return part[chosen]


def _pivots(kernel: Kernel, items: Tensor, number: int) -> Tensor:
    """Those of a pivoted Cholesky; it ends where a millionth of a variance of one is left."""
    found = GreedyVarianceReduction().allocate_inducing_points(items, kernel, number, Size())
    return match_items(items, found)[0]


def _check_alike(name: str, old: Tensor | None, new: Tensor | None) -> None:
    """Raises ``RuntimeError`` if two tensors differ in shape, type or device."""
    for attribute in ("shape", "dtype", "device"):
        expected, found = getattr(old, attribute, None), getattr(new, attribute, None)
        if expected != found:
            raise RuntimeError(
                f"Cannot modify {attribute} of `{name}` (expected {expected}, found {found})."
            )
