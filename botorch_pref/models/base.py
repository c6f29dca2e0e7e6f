r"""What the Laplace-approximated models share: prior, data, cached posterior, evidence, fit."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import fields
from typing import Any, Generic, Literal, NamedTuple, Self, TypeVar, cast

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.fit import fit_gpytorch_mll
from botorch.models.model import Model
from botorch.models.transforms.input import InputTransform
from botorch.posteriors import GPyTorchPosterior
from gpytorch import settings
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from gpytorch.mlls import MarginalLogLikelihood
from gpytorch.models import GP
from linear_operator import to_linear_operator
from torch import Size, Tensor
from torch.nn import Module

from botorch_pref.data.checks import check_word
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.inference.expectation_propagation import ep_evidence, ep_posterior
from botorch_pref.inference.laplace import (
    LaplacePosterior,
    laplace_posterior,
    log_evidence,
    refuse_second_derivatives,
)
from botorch_pref.inference.observations import Observations
from botorch_pref.inference.systems import ExactSystem, System, choose_system, keep_pages
from botorch_pref.kernels.items import dense_covariance
from botorch_pref.likelihoods import checked_link
from botorch_pref.progress import tracked

T = TypeVar("T")
Inference = Literal["laplace", "ep"]
_BLOCK = 512  # points whose covariance with some hundred items stays in the cache
_BLOCKS = 64  # that are transformed at once
_CACHED_ENTRIES = 2**20  # of a batch of matrices on a CPU: beyond these 8 MiB a loop is faster


class HyperparameterCache(Generic[T]):
    r"""One value, valid while the hyperparameters of its model keep their values.

    Values are compared, not versions: GPyTorch sets parameters through ``.data``, which
    leaves no trace. A copy or a pickle of the cache is empty.
    """

    def __init__(self) -> None:
        self._key: tuple[object, Tensor] | None = None
        self._value: T | None = None

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return type(self), ()

    def get(self, model: Module, constants: tuple[object, ...], like: Tensor) -> T | None:
        """The value; None if a part of the model, a constant or ``like``'s type has changed."""
        _, *submodules = modules = list(model.modules())
        parts = [
            tensor.detach().reshape(-1).to(like)
            for module in modules
            for tensor in (*module._parameters.values(), *module._buffers.values())
            if tensor is not None and tensor.is_floating_point()
        ]
        values = torch.cat(parts) if parts else like.new_empty(0)
        key = (submodules, constants, like.dtype, like.device)
        if self._key is None or self._key[0] != key or not torch.equal(self._key[1], values):
            self._key, self._value = (key, values), None
        return self._value

    def keep(self, value: T) -> T:
        """Keep the value for the hyperparameters of the last :meth:`get`, and return it."""
        self._value = value
        return value


class Observed(NamedTuple):
    r"""A model's data in the coordinates of inference, under its hyperparameters.

    Attributes:
        observations: What was observed of the items.
        scaling: ``... x n`` factors of the items' utilities; ``None`` for ones.
        targets: ``... x n`` measured utilities, 0 where none was measured; ``None`` for zeros.
        log_units: ``...``-dim, what the log evidence of these coordinates exceeds that in the units
            of the data by; ``None`` for zero.
    """

    observations: Observations
    scaling: Tensor | None = None
    targets: Tensor | None = None
    log_units: Tensor | None = None

    def prior_latent(self, mean: Tensor) -> Tensor:
        """The prior mean ``... x m`` of the latent values, from ``... x n`` of the items."""
        mean = mean if self.targets is None else mean - self.targets
        mean = mean if self.scaling is None else self.scaling * mean
        return self.observations.incidence.apply(mean)


class LaplaceGP(Model, GP):
    r"""A Gaussian process over items whose observations have log-concave likelihoods.

    A subclass owns the data, and :meth:`observed` returns them in the coordinates of inference.
    Items are stored as given and transformed when a kernel is evaluated. One attribute caches the
    posterior, keyed by the values of all hyperparameters. Data are plain attributes that move with
    the model and are in copies and pickles, but not in ``state_dict``.

    Attributes:
        covar_module: The prior covariance.
        mean_module: The prior mean.
        likelihood: The link of answers.
        variance: ``"laplace"``, or ``kappa`` of an answer-free covariance.
        num_observations: The number of rows that were observed.
    """

    num_observations: int
    variance: str | float = "laplace"
    _data_names: tuple[str, ...] = ()  # attributes that hold data
    _start: Tensor | None  # what the last evidence was found at

    def __init__(
        self,
        covar_module: Kernel,
        mean_module: Mean,
        likelihood: Module | None,
        input_transform: InputTransform | None,
        inference: Inference = "laplace",
    ) -> None:
        super().__init__()
        self.inference = inference
        self.covar_module = covar_module
        self.mean_module = mean_module
        self.likelihood = checked_link(likelihood)
        if input_transform is not None:
            self.input_transform = input_transform

    @property
    def inference(self) -> Inference:
        """What finds posterior and evidence; setting it drops both."""
        return self._inference

    @inference.setter
    def inference(self, value: Inference) -> None:
        check_word("inference", value, Inference)
        self._inference = value
        self._forget()

    @property
    @abstractmethod
    def items(self) -> Tensor:
        """The ``batch_shape x n x d``-dim items as they were given."""

    @abstractmethod
    def observed(self) -> Observed:
        """The data in the coordinates of inference."""

    def variance_weight(self) -> Tensor | None:
        """The curvature for the covariance, or ``None`` for that at the mode."""
        return None

    def nodes(self) -> Tensor:
        """The transformed items, or inducing items, that the posterior's weights belong to."""
        return self.transformed_items()

    def node_scaling(self) -> Tensor | None:
        """Factors of the utilities of :meth:`nodes` in inference; ``None`` for ones."""
        return None

    @property
    def train_inputs(self) -> tuple[Tensor]:
        """The items, as GPyTorch names them; never transformed."""
        return (self.items,)

    @property
    def num_outputs(self) -> int:
        """One, the utility."""
        return 1

    @property
    def batch_shape(self) -> Size:
        """The batch shape of the data and the hyperparameters."""
        return torch.broadcast_shapes(self.items.shape[:-2], self.covar_module.batch_shape)

    @property
    def _transform(self) -> InputTransform | None:
        return getattr(self, "input_transform", None)

    def transform_inputs(self, X: Tensor, input_transform: Module | None = None) -> Tensor:
        """Transform inputs by ``input_transform``, or else by the model's own."""
        if input_transform is not None:
            return cast(Tensor, input_transform.to(X)(X))
        return transformed(self._transform, X)

    def transform_rows(self, X: Tensor) -> Tensor:
        """Transform ``... x k x d`` points; raises if several are made of one."""
        return transformed_rows(self._transform, X)

    def transformed_items(self) -> Tensor:
        """The ``batch_shape x n x d``-dim items, transformed."""
        return transformed_items(self._transform, self.items)

    def _set_transformed_inputs(self) -> None:
        """Nothing: BoTorch's hook swaps the data, ours stay as they were given."""

    def _revert_to_original_inputs(self) -> None:
        """Nothing: see :meth:`_set_transformed_inputs`."""

    def system(self, items: Tensor, observed: Observed) -> System:
        """Prior and observations, for transformed items."""
        covariance, factors = dense_covariance(self.covar_module, items), observed.scaling
        if factors is not None:
            covariance = factors.unsqueeze(-1) * covariance * factors.unsqueeze(-2)
        latent = observed.prior_latent(self.mean_module(items))
        return choose_system(covariance, latent, observed.observations)

    def log_evidence(self) -> Tensor:
        r"""The ``batch_shape``-dim log marginal likelihood of what was observed.

        Differentiable with respect to hyperparameters, input transforms and items. While
        hyperparameters are fitted, each search starts from what the last one found.
        """
        if self.num_observations == 0:
            return self.items.new_zeros(self.batch_shape)
        keep_pages()
        observed = self.observed()
        if self._is_split(observed):
            return self._evidence_by_element()
        system = self.system(self.transformed_items(), observed)
        evidence = ep_evidence if self.inference == "ep" else log_evidence
        value, found = evidence(system, start=self._start)
        with torch.inference_mode(False):  # the start is used where gradients are taken, too
            self._start = found.start
        return value if observed.log_units is None else value - observed.log_units

    def _is_split(self, observed: Observed) -> bool:
        """Whether the models of a batch, each with its own hyperparameters, are evaluated in turn.

        Beyond the size of a CPU's cache, a batch of matrices takes several times as long as a loop.
        """
        items, parts = self.items, (self.covar_module, self.mean_module)
        shape, own = items.shape[:1], [p for part in parts for p in part.parameters()]
        return (
            items.dim() == 3
            and len(items) > 1
            and len(items) * items.shape[-2] ** 2 > _CACHED_ENTRIES
            and items.device.type == "cpu"
            and not items.requires_grad
            and observed.scaling is None
            and self.covar_module.batch_shape == shape
            and getattr(self.mean_module, "batch_shape", None) in (shape, ())
            and all(parameter.shape[:1] == shape for parameter in own)
            and not any(b.is_floating_point() and b.dim() for part in parts for b in part.buffers())
            and all(any(p is q for q in own) for p in self.parameters() if p.requires_grad)
        )

    def _evidence_by_element(self) -> Tensor:
        """The log evidence of a large batch; one graph of all would keep every covariance."""
        own = [p for p in self.parameters() if p.requires_grad]
        values, slopes, starts = [], [], []
        for i in range(len(self.items)):
            element = _BatchElement(self, i)
            values.append(element.log_evidence())
            starts.append(cast(Tensor, element._start))
            if torch.is_grad_enabled():
                learnt = [p for p in element.parameters() if p.requires_grad]
                slopes.append(torch.autograd.grad(values[-1], learnt, materialize_grads=True))
        self._start, value = torch.cat(starts), torch.cat(values).detach()
        for parameter, parts in zip(own, zip(*slopes, strict=True), strict=False):
            # Zero, with the gradient that was found.
            change = (parameter - parameter.detach()) * torch.cat(parts)
            change.register_hook(lambda _: refuse_second_derivatives())
            value = value + change.reshape(len(value), -1).sum(-1)
        return value

    @property
    def custom_fit(self) -> Callable[..., MarginalLogLikelihood]:
        """BoTorch's hook for fitting, of the models of a large batch one by one.

        Raises:
            AttributeError: For any other model, which BoTorch then fits as it fits all.
        """
        if self.num_observations and self._is_split(self.observed()):
            return self._fit_elements
        raise AttributeError("custom_fit")

    def _fit_elements(self, mll: MarginalLogLikelihood, **kwargs: Any) -> MarginalLogLikelihood:
        number = len(self.items)
        for i in tracked(range(number), "fitting", number, unit="model", delay=2.0):
            element = _BatchElement(self, i)
            fit_gpytorch_mll(type(mll)(element.likelihood, element), **kwargs)
            for name, found in element.named_parameters():
                self.get_parameter(name).data[i] = found.data[0]
        return mll.eval()

    def compute_custom_loss(self, mll: Module) -> Tensor:
        """The loss that BoTorch's fitting routines minimise, for any ``mll``."""
        value = self.log_evidence().sum()
        for _, owner, prior, closure, _ in cast(Any, mll).named_priors():
            value = value + prior.log_prob(closure(owner)).sum()
        return -value

    def laplace_posterior(self) -> tuple[Tensor, LaplacePosterior]:
        """The transformed items and the posterior that predictions need, computed once.

        Where the items require a gradient, or under GPyTorch's ``detach_test_caches(False)``,
        nothing is cached and the result carries the graph through the mode.
        """
        if self.items.requires_grad or settings.detach_test_caches.off():
            return self._solve()
        constants = (self.likelihood.scale, self.variance)
        # What is cached is used where gradients are taken, too.
        with torch.inference_mode(False), torch.no_grad():
            found = self._cache.get(self, constants, self.items)
            return self._cache.keep(self._solve()) if found is None else found

    def _solve(self) -> tuple[Tensor, LaplacePosterior]:
        keep_pages()  # of this, and of what rules take of many points
        system = self.system(self.transformed_items(), self.observed())
        posterior = ep_posterior if self.inference == "ep" else laplace_posterior
        return self.nodes(), posterior(system, self.variance_weight())

    def cross_covariance(
        self, inputs: Tensor, items: Tensor, kernel: Kernel | None = None
    ) -> Tensor:
        """``... x q x n`` covariance of transformed inputs with the scaled nodes."""
        kernel, scaling = kernel or self.covar_module, self.node_scaling()
        if inputs.dim() > 2 and items.dim() == 2 and not kernel.batch_shape:
            flat = dense_covariance(kernel, inputs.flatten(end_dim=-2), items)
            cross = flat.view(*inputs.shape[:-1], items.shape[-2])
        else:
            shape = torch.broadcast_shapes(inputs.shape[:-2], items.shape[:-2])
            inputs = inputs.expand(*shape, *inputs.shape[-2:])
            cross = dense_covariance(kernel, inputs, items.expand(*shape, *items.shape[-2:]))
        return cross if scaling is None else cross * scaling.unsqueeze(-2)

    def forward(self, inputs: Tensor) -> MultivariateNormal:
        r"""The posterior of the utility at transformed inputs ``... x q x d``."""
        mean, covariance = self.mean_module(inputs), dense_covariance(self.covar_module, inputs)
        if self.num_observations:
            items, found = self.laplace_posterior()
            cross = self.cross_covariance(inputs, items)
            mean, covariance = found.predict(mean, covariance, cross)
        mean = mean.expand(covariance.shape[:-1])
        return MultivariateNormal(mean, to_linear_operator(covariance))

    def posterior_mean(self, X: Tensor) -> Tensor:
        """The ``... x q``-dim mean of :meth:`posterior` at ``... x q x d`` points.

        For searches of the best item, which need no covariance.
        """
        self.check_dimension("X", X)
        self.eval()
        inputs = self.transform_inputs(X)
        mean = self.mean_module(inputs)
        if not self.num_observations:
            shape = torch.broadcast_shapes(mean.shape[:-1], self.batch_shape)
            return mean.expand(*shape, mean.shape[-1])
        items, found = self.laplace_posterior()
        return found.predict_mean(mean, self.cross_covariance(inputs, items))

    @torch.no_grad()
    def marginals(self, X: Tensor, rough: bool = False) -> tuple[Tensor, Tensor]:
        """Mean and variance of the utility at very many points, block by block.

        Args:
            X: ``... x n x d``-dim points.
            rough: Whether single precision is enough, which halves the time. The posterior itself
                is found as ever; through inducing items so are the predictions.

        Returns:
            The mean and the variance, each ``... x n``-dim.
        """
        self.check_dimension("X", X)
        self.eval()
        items, posterior = self.laplace_posterior() if self.num_observations else (None, None)
        kernel, mean_module, dtype = self.covar_module, self.mean_module, X.dtype
        size = _BLOCK
        rough = rough and (posterior is None or isinstance(posterior.system, ExactSystem))
        if rough:
            dtype, size = torch.float32, 2 * _BLOCK
            kernel, mean_module = (copy.deepcopy(part).to(dtype) for part in (kernel, mean_module))
        if items is not None and posterior is not None and rough:
            items = items.to(dtype)
            weights, gamma = posterior.weights.to(dtype), posterior.gamma.to(dtype)
            posterior = posterior._replace(weights=weights, gamma=gamma)
        parts = []
        for large in X.split(_BLOCKS * _BLOCK, dim=-2):  # what is not n x m
            inputs = self.transform_inputs(large).to(dtype)
            variance = dense_covariance(kernel, inputs, diag=True)
            prior = mean_module(inputs).expand_as(variance), variance
            if items is None or posterior is None:
                parts.append(prior)
                continue
            blocks = (part.split(size, dim=-1) for part in prior)
            for block, mean, own in zip(inputs.split(size, dim=-2), *blocks, strict=True):
                cross = self.cross_covariance(block, items, kernel)
                parts.append(posterior.predict_differences(mean, own, cross))
        mean, variance = (torch.cat(part, dim=-1) for part in zip(*parts, strict=True))
        return mean, variance

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> GPyTorchPosterior:
        r"""The joint posterior of the utility at ``q`` points.

        Args:
            X: ``b x q x d``-dim tensor of points, as given to the model.
            output_indices: ``[0]`` or ``None``; there is one output.
            observation_noise: ``True`` for that of values, if it is learnt. ``PreferenceGP``
                without values ignores it, as BoTorch's ``PairwiseGP`` does.
            posterior_transform: An optional transform of the posterior.

        Returns:
            A posterior over a ``broadcast(b, batch_shape) x q x 1``-dim utility.

        Raises:
            UnsupportedError: If another output or a noise that is not known is asked for.
        """
        if output_indices is not None and list(output_indices) != [0]:
            raise UnsupportedError(
                f"output_indices must be None or [0]: {type(self).__name__} has one output, "
                f"but got {output_indices}."
            )
        self.check_dimension("X", X)
        self.eval()
        normal = self._with_noise(self.forward(self.transform_inputs(X)), observation_noise)
        posterior = GPyTorchPosterior(normal)
        if posterior_transform is None:
            return posterior
        return cast(GPyTorchPosterior, posterior_transform(posterior=posterior, X=X))

    def _with_noise(self, normal: MultivariateNormal, noise: bool | Tensor) -> MultivariateNormal:
        """The distribution of an observation; raises if it has none."""
        if isinstance(noise, Tensor) or noise:
            raise UnsupportedError(
                f"observation_noise is not defined for {type(self).__name__}: utilities are "
                "compared, not measured."
            )
        return normal

    def check_dimension(self, argument: str, X: Tensor) -> None:
        """Raises ``ComparisonDataError`` if points have other dimensions than the items."""
        if X.dim() < 2:
            raise ComparisonDataError(f"`{argument}` must be b x q x d points, not {X.shape}.")
        # What acts on points alone may complete them, as `AppendFeatures` does.
        completes = getattr(self._transform, "completes", False)
        alike = getattr(self._transform, "transform_on_train", True) and not completes
        if self.num_observations and alike and X.shape[-1] != (dim := self.items.shape[-1]):
            raise ComparisonDataError(
                f"`{argument}` has {X.shape[-1]} columns, but the items have {dim}."
            )

    def _forget(self) -> None:
        """Drop all that was derived from data."""
        self._cache = HyperparameterCache[tuple[Tensor, LaplacePosterior]]()
        self._start = None

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Torch's, of what moves a module: data move, too, and what was derived is found again.

        Where nothing moves it is kept: BoTorch's analytic rules call ``to`` at every evaluation.
        """
        super()._apply(fn, recurse)
        items = self.items
        if fn(items) is items:
            return self
        for name in self._data_names:
            setattr(self, name, map_tensors(getattr(self, name), fn))
        self._forget()
        return self

    def __getstate__(self) -> dict[str, Any]:
        # Items with a graph behind them can be neither copied nor stored; values can.
        data = {name: map_tensors(getattr(self, name), Tensor.detach) for name in self._data_names}
        return {**self.__dict__, **data, "_start": None}


class LaplaceMarginalLogLikelihood(MarginalLogLikelihood):
    r"""The Laplace evidence of a model plus the log density of its priors.

    For :func:`botorch.fit.fit_gpytorch_mll`. BoTorch's own
    ``PairwiseLaplaceMarginalLogLikelihood`` works on these models as well and fits the
    very same objective: both defer to the model.

    Example:
        >>> mll = LaplaceMarginalLogLikelihood(model.likelihood, model)
        >>> fit_gpytorch_mll(mll)
    """

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """The scalar objective, a sum over the model's batch.

        GPyTorch passes an output and targets; the evidence is a function of the model alone.
        """
        return -self.model.compute_custom_loss(self)


def refit_is_due(size: int, num_fitted: int) -> bool:
    """Whether data have grown by a tenth since hyperparameters were fitted to them."""
    return size > num_fitted and 10 * size >= 11 * num_fitted


class _BatchElement(LaplaceGP):
    """Model ``i`` of a large batch as a batch of one, with copies of its hyperparameters."""

    def __init__(self, batch: LaplaceGP, i: int) -> None:
        parts = copy.deepcopy((batch.covar_module, batch.mean_module))
        for module in (module for part in parts for module in part.modules()):
            if getattr(module, "batch_shape", None) == batch.batch_shape:
                module.batch_shape = Size([1])
        for parameter in (parameter for part in parts for parameter in part.parameters()):
            parameter.data = parameter.data[i : i + 1].clone()
        super().__init__(*parts, batch.likelihood, None, batch.inference)
        self._items = batch.transformed_items().detach()[i : i + 1]
        self._observations = batch.observed().observations.select(slice(i, i + 1))
        self.num_observations = self._observations.num_rows
        self._start = None if batch._start is None else batch._start[i : i + 1]

    @property
    def items(self) -> Tensor:
        return self._items

    def observed(self) -> Observed:
        return Observed(self._observations)


def map_tensors(data: Any, fn: Callable[[Tensor], Tensor]) -> Any:
    """A tensor, a frozen dataclass or several, with a function applied to all tensors."""
    if data is None or isinstance(data, Tensor):
        return None if data is None else fn(data)
    if isinstance(data, tuple):
        return tuple(map_tensors(part, fn) for part in data)
    new = copy.copy(data)
    for field in fields(data):
        if isinstance(value := getattr(data, field.name), Tensor):
            object.__setattr__(new, field.name, fn(value))
    return new


def transformed(transform: InputTransform | None, X: Tensor) -> Tensor:
    """Points of predictions, ``... x q x d``-dim, transformed."""
    if transform is None:
        return X
    transform.eval()  # bounds are learnt from data, never from points of predictions
    return transform(X)


def transformed_rows(transform: InputTransform | None, X: Tensor) -> Tensor:
    """The same; raises ``UnsupportedError`` if several points are made of one."""
    inputs = transformed(transform, X)
    if inputs.shape[-2] != X.shape[-2]:
        raise UnsupportedError(
            f"{type(transform).__name__} makes {inputs.shape[-2] // X.shape[-2]} rows of one: "
            "only posteriors of points can be computed, not pairs or paths."
        )
    return inputs


def transformed_items(transform: InputTransform | None, items: Tensor) -> Tensor:
    """A model's own items, ``... x n x d``-dim, transformed."""
    return items if transform is None else transform.preprocess_transform(items)


def learn_bounds(transform: InputTransform | None, items: Tensor) -> None:
    """Let a transform learn its bounds from ``... x n x d``-dim items, if there are any."""
    if transform is not None and items.shape[-2]:
        transform.to(items)
        mode = transform.training
        transform.train()
        with torch.no_grad():
            transform(items)
        transform.train(mode)  # or it would learn from whatever comes next


def num_columns(items: Tensor | None, transform: InputTransform | None) -> int | None:
    """The number of columns of transformed ``... x n x d``-dim items; ``None`` without items."""
    if items is None:
        return None
    if transform is None or not items.shape[-2]:
        return items.shape[-1]
    with torch.no_grad():
        return transformed_items(transform.to(items), items[..., :1, :]).shape[-1]
