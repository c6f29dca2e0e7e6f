r"""What the Laplace-approximated models share: prior, data, cached posterior, evidence."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import fields
from typing import Any, Generic, NamedTuple, Self, TypeVar, cast

import torch
from botorch.acquisition.objective import PosteriorTransform
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

from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.inference.laplace import LaplacePosterior, laplace_posterior
from botorch_pref.inference.observations import Observations
from botorch_pref.inference.systems import System, choose_system, keep_pages
from botorch_pref.kernels.evaluation import dense_covariance
from botorch_pref.likelihoods import checked_link
from botorch_pref.models.evidence import BatchElements, evidence_from, is_large_batch, scaled
from botorch_pref.models.fitting import (
    fit_from_best_mode,
    fits_by_element,
    has_modes,
    log_hyperposterior,
)
from botorch_pref.models.transforms import (
    learn_bounds,
    transformed,
    transformed_items,
    transformed_rows,
)

T = TypeVar("T")


class _Key(NamedTuple):
    modules: list[Module]
    constants: tuple[object, ...]
    values: Tensor

    def same(self, other: _Key) -> bool:
        return (
            self.constants == other.constants
            and len(self.modules) == len(other.modules)
            and all(a is b for a, b in zip(self.modules, other.modules, strict=True))
            and torch.equal(self.values, other.values)
        )


class HyperparameterCache(Generic[T]):
    r"""One value, valid while the hyperparameters of its model keep their values.

    Values are compared, not versions: GPyTorch sets parameters through ``.data``, which
    leaves no trace. A copy or a pickle of the cache is empty.
    """

    def __init__(self) -> None:
        self._key: _Key | None = None
        self._value: T | None = None

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return type(self), ()

    def clear(self) -> None:
        """Forget the value."""
        self._key, self._value = None, None

    def get(
        self,
        roots: tuple[Module | None, ...],
        constants: tuple[object, ...],
        like: Tensor,
        find: Callable[[], T],
    ) -> T:
        r"""The value, computed again if anything that it depends on has changed.

        Args:
            roots: Modules whose submodules, parameters and buffers it depends on.
            constants: Plain values that it depends on.
            like: A tensor whose type and device it depends on.
            find: Computes the value.

        Returns:
            The value.
        """
        modules = [module for root in roots if root is not None for module in root.modules()]
        tensors = [
            tensor
            for module in modules
            for tensor in (*module._parameters.values(), *module._buffers.values())
            if tensor is not None and tensor.is_floating_point()
        ]
        parts = [tensor.detach().reshape(-1).to(like) for tensor in tensors]
        values = torch.cat(parts) if parts else like.new_empty(0)
        key = _Key(modules, (*constants, like.dtype, like.device), values)
        if self._value is None or self._key is None or not self._key.same(key):
            self._key, self._value = key, find()
        return self._value


class Observed(NamedTuple):
    r"""A model's data in the coordinates of inference, under its hyperparameters.

    Attributes:
        observations: What was observed of the items.
        scaling: ``... x n`` factors of the items' utilities; ``None`` for ones.
        shift: ``... x m`` numbers that are subtracted from the latent values; ``None`` for zeros.
        log_units: ``...``-dim, what the log evidence of these coordinates exceeds that in the units
            of the data by; ``None`` for zero.
    """

    observations: Observations
    scaling: Tensor | None = None
    shift: Tensor | None = None
    log_units: Tensor | None = None

    def prior_latent(self, mean: Tensor) -> Tensor:
        """The prior mean ``... x m`` of the latent values, from ``... x n`` of the items."""
        mean = mean if self.scaling is None else self.scaling * mean
        latent = self.observations.incidence.apply(mean)
        return latent if self.shift is None else latent - self.shift


class LaplaceGP(Model, GP):
    r"""A Gaussian process over items whose observations have log-concave likelihoods.

    A subclass owns the data, and says by :meth:`observed` what inference sees of them. Items are
    kept as they were given and transformed where they meet the kernel. One attribute caches the
    posterior, keyed by the values of all hyperparameters: setting one, fitting, loading a state
    or moving the model never leaves a stale posterior behind. Data are plain attributes that
    move with the model and are in copies and pickles, but not in ``state_dict``.

    Attributes:
        covar_module: The prior covariance.
        mean_module: The prior mean.
        likelihood: The link of answers.
    """

    _data_names: tuple[str, ...] = ()  # attributes that hold data
    _start: Tensor | None  # the weights of the last mode of the evidence

    def __init__(
        self,
        covar_module: Kernel,
        mean_module: Mean,
        likelihood: Module | None,
        input_transform: InputTransform | None,
    ) -> None:
        super().__init__()
        self.covar_module = covar_module
        self.mean_module = mean_module
        self.likelihood = checked_link(likelihood)
        if input_transform is not None:
            self.input_transform = input_transform
        self._is_fitting = False
        self._forget()

    @property
    @abstractmethod
    def items(self) -> Tensor:
        """The ``batch_shape x n x d``-dim items as they were given."""

    @property
    @abstractmethod
    def num_observations(self) -> int:
        """The number of rows that were observed."""

    @abstractmethod
    def observed(self) -> Observed:
        """The data as inference sees them."""

    def constants(self) -> tuple[object, ...]:
        """Plain values, beside hyperparameters and data, that the posterior depends on."""
        return ()

    def variance_weight(self) -> Tensor | None:
        """The curvature for the covariance, or ``None`` for that at the mode."""
        return None

    def nodes(self) -> Tensor:
        """The transformed items that the posterior's weights belong to."""
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
        r"""Transform ``... x k x d``-dim inputs, each of which has to stay one.

        Raises:
            UnsupportedError: If the transform makes several of one.
        """
        return transformed_rows(self._transform, X)

    def transformed_items(self) -> Tensor:
        """The ``batch_shape x n x d``-dim items as the kernel sees them."""
        return transformed_items(self._transform, self.items)

    def _learn_transform(self) -> None:
        learn_bounds(self._transform, self.items)

    def _set_transformed_inputs(self) -> None:
        """Nothing: BoTorch's hook swaps the data, ours stay as they were given."""

    def _revert_to_original_inputs(self) -> None:
        """Nothing: see :meth:`_set_transformed_inputs`."""

    def system(self, items: Tensor, observed: Observed) -> System:
        """Prior and observations, for transformed items."""
        covariance = scaled(dense_covariance(self.covar_module, items), observed.scaling)
        latent = observed.prior_latent(self.mean_module(items))
        return choose_system(covariance, latent, observed.observations)

    def log_evidence(self) -> Tensor:
        r"""The ``batch_shape``-dim log marginal likelihood of what was observed.

        Differentiable with respect to hyperparameters, input transforms and items. While
        hyperparameters are fitted each mode is sought from the last one, which is close by.
        """
        if self.num_observations == 0:
            return self.items.new_zeros(self.batch_shape)
        keep_pages()
        items, observed = self.transformed_items(), self.observed()
        if is_large_batch(self.covar_module, items):
            value = self._elements(items, observed).evidence()
        else:
            value, self._start = evidence_from(self.system(items, observed), self._start)
        return value if observed.log_units is None else value - observed.log_units

    def element_evidence(self, i: int) -> Tensor:
        """The log evidence of one element of a large batch of models."""
        items, observed = self.transformed_items(), self.observed()
        value = self._elements(items, observed).evidence_of(i)
        return value if observed.log_units is None else value - observed.log_units[i]

    def _elements(self, items: Tensor, observed: Observed) -> BatchElements:
        if self._start is None:
            with torch.inference_mode(False):
                self._start = items.new_zeros(len(items), observed.observations.num_rows)
        self._start = self._start.to(items)  # which may have been moved since
        latent = observed.prior_latent(self.mean_module(items))
        return BatchElements(
            self.covar_module, items, latent, observed.observations, observed.scaling, self._start
        )

    @property
    def custom_fit(self) -> Callable[..., MarginalLogLikelihood]:
        """BoTorch's hook for fitting, from the best of several starts.

        Raises:
            AttributeError: If there is a single start and no large batch, or while it is fitted,
                which BoTorch takes for no hook.
        """
        special = fits_by_element(self) or any(has_modes(part) for part in self.modules())
        if self._is_fitting or not self.num_observations or not special:
            raise AttributeError("custom_fit")
        return self._fit

    def _fit(self, mll: MarginalLogLikelihood, **kwargs: Any) -> MarginalLogLikelihood:
        self._is_fitting = True
        try:
            return fit_from_best_mode(self, mll, **kwargs)
        finally:
            self._is_fitting = False

    def compute_custom_loss(self, mll: Module) -> Tensor:
        """The loss that BoTorch's fitting routines minimise, for any ``mll``."""
        return -log_hyperposterior(mll, self.log_evidence())

    def representer(self) -> tuple[Tensor, LaplacePosterior]:
        r"""The transformed items and the weights that predictions need, computed once.

        Where the items require a gradient, or under
        ``gpytorch.settings.detach_test_caches(False)``, nothing is cached and the result
        carries the graph through the mode.
        """
        if self.items.requires_grad or settings.detach_test_caches.off():
            return self._solve()
        roots, constants = tuple(self.children()), (self.likelihood.scale, *self.constants())
        # What is cached is used where gradients are taken, too.
        with torch.inference_mode(False), torch.no_grad():
            return self._cache.get(roots, constants, self.items, self._solve)

    def _solve(self) -> tuple[Tensor, LaplacePosterior]:
        system = self.system(self.transformed_items(), self.observed())
        return self.nodes(), laplace_posterior(system, self.variance_weight())

    def cross_covariance(self, inputs: Tensor, items: Tensor) -> Tensor:
        """``... x q x n`` covariance of transformed inputs and nodes, as inference sees these."""
        kernel, scaling = self.covar_module, self.node_scaling()
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
            items, found = self.representer()
            cross = self.cross_covariance(inputs, items)
            mean, covariance = found.predict(mean, covariance, cross)
        mean = mean.expand(covariance.shape[:-1])
        return MultivariateNormal(mean, to_linear_operator(covariance))

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
            observation_noise: ``True`` for that of values to be measured there, if their noise
                is learnt. ``PreferenceGP`` without values ignores it, as BoTorch's ``PairwiseGP``
                does: duels have no noise but that of the link.
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
        alike = getattr(self._transform, "transform_on_train", True)
        if self.num_observations and alike and X.shape[-1] != (dim := self.items.shape[-1]):
            raise ComparisonDataError(
                f"`{argument}` has {X.shape[-1]} columns, but the items have {dim}."
            )

    def _forget(self) -> None:
        """Drop all that was derived from data."""
        self._cache = HyperparameterCache[tuple[Tensor, LaplacePosterior]]()
        self._start = None

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Torch's, of what moves a module: data move, too."""
        super()._apply(fn, recurse)
        for name in self._data_names:
            setattr(self, name, map_tensors(getattr(self, name), fn))
        return self

    def __getstate__(self) -> dict[str, Any]:
        # Items with a graph behind them can be neither copied nor stored; values can.
        data = {name: map_tensors(getattr(self, name), Tensor.detach) for name in self._data_names}
        return {**self.__dict__, **data, "_start": None}


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
