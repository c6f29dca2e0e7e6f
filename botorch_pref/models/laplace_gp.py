r"""What every Laplace-approximated model shares: prior, posterior, evidence and cache."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, cast

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions.errors import UnsupportedError
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

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.inference import LaplacePosterior, Observations, choose_system, laplace_posterior
from botorch_pref.inference.systems import System
from botorch_pref.kernels.dense import dense_covariance
from botorch_pref.models.cache import HyperparameterCache
from botorch_pref.models.evidence import EvidenceEvaluator
from botorch_pref.models.fitting import has_modes, log_hyperposterior, start_at_best_mode
from botorch_pref.models.independent_fit import fit_independently, is_independent, understands
from botorch_pref.models.links import checked_link
from botorch_pref.models.pieces import represent_pieces, scaled, worth_splitting
from botorch_pref.models.transformed_items import TransformedItems


class LaplaceGP(TransformedItems, Model, GP):
    r"""A Gaussian process prior over items, and judgements seen through a sparse map.

    A subclass owns the data and says how the items are observed. Items are kept as they
    were given; they are transformed where they meet the kernel, so learnable transforms
    get gradients. One attribute caches the posterior, and it is keyed by the values of
    all hyperparameters: setting one, fitting, loading a state or moving the model never
    leaves a stale posterior behind.
    """

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
        self._posterior_cache = HyperparameterCache[tuple[Tensor, LaplacePosterior]]()
        self._evidence = EvidenceEvaluator()
        self._is_fitting = False

    @property
    @abstractmethod
    def num_observations(self) -> int:
        """The number of rows that were observed."""

    @abstractmethod
    def observations(self) -> Observations:
        """What was observed of the items."""

    def constants(self) -> tuple[object, ...]:
        """Plain values, beside hyperparameters and data, that the posterior depends on."""
        return ()

    def variance_weight(self) -> Tensor | None:
        """The curvature for the covariance, or ``None`` for that at the mode."""
        return None

    def scaling(self) -> Tensor | None:
        """``... x n`` factors of the items' utilities in inference; ``None`` for ones."""
        return None

    def prior_latent(self, mean: Tensor, observations: Observations) -> Tensor:
        """The prior mean ``... x m`` of the rows, from that of the items, ``... x n``."""
        return observations.map.apply(mean)

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

    def prior(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and covariance of the utility at transformed ``... x q x d`` inputs."""
        return self.mean_module(inputs), dense_covariance(self.covar_module, inputs)

    def side(self, items: Tensor) -> System:
        """Prior and observations, for transformed items."""
        return choose_system(*self.parts(items, dense_covariance(self.covar_module, items)))

    def parts(self, items: Tensor, covariance: Tensor) -> tuple[Tensor, Tensor, Observations]:
        """What a side is made of, for transformed items and their prior covariance."""
        observations = self.observations()
        latent = self.prior_latent(self.mean_module(items), observations)
        return scaled(covariance, self.scaling()), latent, observations

    def log_evidence(self) -> Tensor:
        r"""The ``batch_shape``-dim log marginal likelihood of the answers.

        Differentiable with respect to hyperparameters, input transforms and items.
        """
        if self.num_observations == 0:
            return self.items.new_zeros(self.batch_shape)
        return self._evidence(self)

    def element_evidence(self, elements: Tensor) -> Tensor:
        """That of some elements of a batch of models with items of their own."""
        return self._evidence(self, elements)

    @property
    def custom_fit(self) -> Callable[..., MarginalLogLikelihood]:
        """BoTorch's hook for fitting, from the best of several starts.

        Models of a batch that share nothing are fitted each alone.

        Raises:
            AttributeError: If there is a single start and no such batch, or while it is fitted,
                which BoTorch takes for no hook.
        """
        special = is_independent(self) or any(has_modes(part) for part in self.modules())
        if self._is_fitting or not self.num_observations or not special:
            raise AttributeError("custom_fit")
        return self._fit_from_best_start

    def _fit_from_best_start(
        self, mll: MarginalLogLikelihood, closure: Any = None, **kwargs: Any
    ) -> MarginalLogLikelihood:
        start_at_best_mode(self, self.log_evidence)
        plain = closure is None and kwargs.get("closure_kwargs") is None
        if plain and is_independent(self) and understands(kwargs.get("optimizer_kwargs") or {}):
            kwargs.setdefault("optimizer", fit_independently)
        self._is_fitting = True
        try:
            return fit_gpytorch_mll(mll, closure=closure, **kwargs)
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
            return self._represent()
        roots, constants = tuple(self.children()), (self.likelihood.scale, *self.constants())
        # What is kept serves where gradients are taken, too.
        with torch.inference_mode(False), torch.no_grad():
            return self._posterior_cache.get(roots, constants, self.items, self._represent)

    def _represent(self) -> tuple[Tensor, LaplacePosterior]:
        items, weight = self.transformed_items(), self.variance_weight()
        if torch.is_grad_enabled() or not worth_splitting(self, items):
            return items, laplace_posterior(self.side(items), weight)
        return items, represent_pieces(self, items, weight)

    def nodes(self) -> Tensor:
        """The transformed items that the posterior's weights belong to."""
        return self.transformed_items()

    def cross_covariance(self, inputs: Tensor, items: Tensor) -> Tensor:
        """``... x q x n`` covariance of transformed inputs and items, as inference sees these."""
        return _cross_covariance(self.covar_module, inputs, items)

    def forward(self, inputs: Tensor) -> MultivariateNormal:
        r"""The posterior of the utility at transformed inputs ``... x q x d``."""
        mean, covariance = self.prior(inputs)
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
            observation_noise: Must be ``False``: a utility is judged, not measured.
            posterior_transform: An optional transform of the posterior.

        Returns:
            A posterior over a ``broadcast(b, batch_shape) x q x 1``-dim utility.

        Raises:
            UnsupportedError: If another output or observation noise is asked for.
        """
        _check_outputs(type(self).__name__, output_indices, observation_noise)
        check_dimension(self, "X", X)
        self.eval()
        posterior = GPyTorchPosterior(self.forward(self.transform_inputs(X)))
        if posterior_transform is None:
            return posterior
        return cast(GPyTorchPosterior, posterior_transform(posterior=posterior, X=X))

    def __getstate__(self) -> dict[str, Any]:
        # Items with a graph behind them can be neither copied nor stored; values can.
        state = dict(self.__dict__)
        state["_buffers"] = {
            name: None if value is None else value.detach() for name, value in self._buffers.items()
        }
        return state


def _cross_covariance(kernel: Kernel, inputs: Tensor, items: Tensor) -> Tensor:
    if inputs.dim() > 2 and items.dim() == 2 and not kernel.batch_shape:
        flat = dense_covariance(kernel, inputs.flatten(end_dim=-2), items)
        return flat.view(*inputs.shape[:-1], items.shape[-2])
    shape = torch.broadcast_shapes(inputs.shape[:-2], items.shape[:-2])
    inputs = inputs.expand(*shape, *inputs.shape[-2:])
    return dense_covariance(kernel, inputs, items.expand(*shape, *items.shape[-2:]))


def _check_outputs(
    model: str, output_indices: list[int] | None, observation_noise: bool | Tensor
) -> None:
    if output_indices is not None and list(output_indices) != [0]:
        raise UnsupportedError(
            f"output_indices must be None or [0]: {model} has one output, but got {output_indices}."
        )
    if isinstance(observation_noise, Tensor) or observation_noise:
        raise UnsupportedError(
            f"observation_noise is not defined for {model}: utilities are judged, not measured."
        )


def check_dimension(model: LaplaceGP, argument: str, X: Tensor) -> None:
    """Raises ``ComparisonDataError`` if points have other dimensions than a model's items."""
    if X.dim() < 2:
        raise ComparisonDataError(f"`{argument}` must be b x q x d points, got {tuple(X.shape)}.")
    # What acts on points alone may complete them, as `AppendFeatures` does.
    alike = getattr(getattr(model, "input_transform", None), "transform_on_train", True)
    if model.num_observations and alike and X.shape[-1] != model.items.shape[-1]:
        raise ComparisonDataError(
            f"`{argument}` has {X.shape[-1]} columns, but the items have {model.items.shape[-1]}."
        )
