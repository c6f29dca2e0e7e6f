r"""A preference model over samples of its hyperparameters, by the conventions of ensembles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.transforms.input import InputTransform
from botorch.posteriors import GPyTorchPosterior
from botorch.posteriors.fully_bayesian import MCMC_DIM, GaussianMixturePosterior
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel
from gpytorch.mlls import MarginalLogLikelihood
from gpytorch.priors import LogNormalPrior, NormalPrior
from linear_operator import to_linear_operator
from torch import Size, Tensor
from torch.nn import Module

from botorch_pref.data.blocks import BlockData
from botorch_pref.data.checks import check_count, check_shape
from botorch_pref.data.comparisons import Comparisons
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.kernels.items import default_covar_module
from botorch_pref.models.base import Inference, num_columns
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.progress import tracked

_CANDIDATES_A_SAMPLE = 4  # draws from the prior, of which the chains' starts are chosen
_SMALLEST_BRACKET = 1e-6
_MOST_SAMPLES = 10_000
_INSIDE = 0.01  # the relative distance that a sample keeps from the bounds of its constraint


class FullyBayesianPreferenceGP(PreferenceGP):
    r"""A :class:`PreferenceGP` over samples of the hyperparameters of its kernel.

    ``fit_gpytorch_mll`` samples in place of a search for the maximum: ``num_samples`` chains of
    elliptical slice sampling (Murray, Adams and MacKay 2010) run side by side, in the logarithms of
    hyperparameters with log-normal priors and in what other priors are normal of, under Laplace's
    evidence; the last state of each is kept. With few answers predictions then carry the
    uncertainty of the hyperparameters.

    As in BoTorch's ``SaasFullyBayesianSingleTaskGP``, posteriors are mixtures with the samples in
    ``MCMC_DIM``, over which BoTorch's acquisition functions average. :meth:`win_probability` is
    that of the mixture, and :meth:`difference_moments` are its moments.

    Example:
        >>> model = FullyBayesianPreferenceGP(datapoints, comparisons)
        >>> fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
        >>> model.posterior(datapoints[:2]).mixture_mean
    """

    _is_fully_bayesian = True
    _is_ensemble = True

    def __init__(
        self,
        datapoints: Tensor,
        comparisons: Tensor | Comparisons | None,
        likelihood: Module | None = None,
        input_transform: InputTransform | None = None,
        *,
        covar_module: Kernel | None = None,
        choices: BlockData | Sequence[BlockData] = (),
        inference: Inference = "laplace",
        num_samples: int = 16,
        num_steps: int = 32,
    ) -> None:
        r"""Validate the data and set up the priors, at whose modes all samples are.

        Args:
            datapoints: ``n x d``-dim items in the unit cube after ``input_transform``.
            comparisons: As of :class:`PreferenceGP`.
            likelihood: The link; logit by default.
            input_transform: Applied where items meet the kernel.
            covar_module: A kernel of batch shape ``[num_samples]`` whose hyperparameters with
                priors are sampled; by default that of :class:`PreferenceGP`.
            choices: As of :class:`PreferenceGP`.
            inference: That of predictions; samples are drawn under Laplace's evidence.
            num_samples: The number of samples, of the default kernel.
            num_steps: The steps of each chain.

        Raises:
            ComparisonDataError: As :class:`PreferenceGP`, or if data come in a batch.
            UnsupportedError: If the kernel has no samples, or priors that are not normal, or if
                something is learnt beside the utility, as of annotators.
        """
        check_count("num_samples", num_samples, 1, _MOST_SAMPLES)
        check_count("num_steps", num_steps, 1)
        check_shape("datapoints", datapoints, "n", "d", batch=False)
        dim = num_columns(datapoints, input_transform)
        kernel = covar_module or default_covar_module(dim, Size([num_samples]))
        if len(kernel.batch_shape) != 1:
            raise UnsupportedError(
                "`covar_module` must have the batch shape [num_samples], not "
                f"{list(kernel.batch_shape)}."
            )
        priors = list(kernel.named_priors())
        if not priors:
            raise UnsupportedError("`covar_module` has no priors, so nothing to sample.")
        for name, _, prior, _, put in priors:
            if not isinstance(prior, NormalPrior | LogNormalPrior) or put is None:
                raise UnsupportedError(
                    f"`covar_module` has the prior {name}, which must be normal or log-normal and "
                    "know how to set what it is of."
                )
        super().__init__(
            datapoints,
            comparisons,
            likelihood,
            kernel,
            input_transform,
            choices=choices,
            inference=inference,
        )
        if len(self.learnt):
            raise UnsupportedError(
                "Only hyperparameters of the kernel are sampled, and not what is learnt of "
                f"{', '.join(self.learnt)}."
            )
        self.num_steps = num_steps

    @property
    def num_mcmc_samples(self) -> int:
        """The number of samples."""
        return int(self.covar_module.batch_shape[0])

    @property
    def custom_fit(self) -> Callable[..., MarginalLogLikelihood]:
        """BoTorch's hook for fitting."""
        return self._fit

    def _fit(self, mll: MarginalLogLikelihood, **kwargs: Any) -> MarginalLogLikelihood:
        if any(kwargs.values()):
            raise UnsupportedError(f"{type(self).__name__} is sampled: it takes no optimizer.")
        inference, self.inference = self.inference, "laplace"
        try:
            with torch.no_grad():
                self._sample()
        finally:
            self.inference = inference
        return mll.eval()

    def _sample(self) -> None:
        """Starts by sampling and resampling from the prior, then slices of ellipses."""
        size, like = self.num_mcmc_samples, self.items
        laws = [_Law(*law) for law in self.covar_module.named_priors()]
        middle = torch.cat([law.normal(size, "loc") for law in laws], dim=-1).to(like)
        widths = torch.cat([law.normal(size, "scale") for law in laws], dim=-1).to(like)

        def uniform(*shape: int) -> Tensor:
            return torch.rand(shape, dtype=like.dtype).to(like)

        def offsets() -> Tensor:
            return widths * torch.randn(widths.shape, dtype=like.dtype).to(like)

        def evidence_at(offset: Tensor) -> Tensor:
            parts = (middle + offset).split([law.size(size) for law in laws], dim=-1)
            for law, part in zip(laws, parts, strict=True):
                law.put(part)
            return self.log_evidence()

        drawn = [offsets() for _ in range(_CANDIDATES_A_SAMPLE)]
        weights = torch.cat([evidence_at(own) for own in drawn])
        chosen = torch.multinomial((weights - weights.amax()).exp().cpu(), size, replacement=True)
        chosen = chosen.to(like.device)
        state, level = torch.cat(drawn)[chosen], weights[chosen]
        steps = range(self.num_steps)
        for _ in tracked(steps, "sampling hyperparameters", len(steps), unit="step", delay=2.0):
            other, floor = offsets(), level + uniform(size).log()
            angle = 2.0 * torch.pi * uniform(size)
            low, high = angle - 2.0 * torch.pi, angle
            is_open = torch.ones_like(floor, dtype=torch.bool)
            new = state
            while bool(is_open.any()):
                turned = state * angle.cos().unsqueeze(-1) + other * angle.sin().unsqueeze(-1)
                new = torch.where(is_open.unsqueeze(-1), turned, new)
                found = evidence_at(new)
                level = torch.where(is_open, found, level)
                # A bracket that has shrunk to nothing is the state itself.
                is_open = is_open & (found <= floor) & (high - low > _SMALLEST_BRACKET)
                low, high = torch.where(angle < 0, angle, low), torch.where(angle < 0, high, angle)
                angle = torch.where(is_open, low + (high - low) * uniform(size), angle)
            state = new
        evidence_at(state)

    def fantasize(self, *args: Any, **kwargs: Any) -> Self:
        """Not supported.

        Raises:
            UnsupportedError: Always: fantasies are a batch, and samples are one already.
        """
        raise UnsupportedError(f"{type(self).__name__} has no fantasies; use a PreferenceGP.")

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> GaussianMixturePosterior:
        r"""The joint posterior of the utility at ``q`` points, a mixture over the samples.

        Args:
            X: ``b x q x d``-dim tensor of points.
            output_indices: ``[0]`` or ``None``.
            observation_noise: As of :class:`PreferenceGP`.
            posterior_transform: An optional transform of the posterior.

        Returns:
            A mixture of ``b x num_samples x q x 1``-dim posteriors.
        """
        found = super().posterior(
            X.unsqueeze(MCMC_DIM), output_indices, observation_noise, posterior_transform
        )
        return GaussianMixturePosterior(distribution=found.distribution)

    def win_probability(self, X: Tensor, annotator: Tensor | None = None) -> Tensor:
        """``E[mu(f(x) - f(x'))]`` of ``... x 2 x d``-dim pairs, averaged over the samples."""
        if annotator is not None:
            self._annotator_effects()  # raises: there are none
        moments = super().difference_moments(X.unsqueeze(MCMC_DIM))
        return self.likelihood.expected_probability(*moments).mean(-1)

    def posterior_mean(self, X: Tensor) -> Tensor:
        """The mean of the mixture; see the base class."""
        return super().posterior_mean(X.unsqueeze(MCMC_DIM)).mean(-2)

    def marginals(self, X: Tensor, rough: bool = False) -> tuple[Tensor, Tensor]:
        """Mean and variance of the mixture; see the base class."""
        mean, variance = super().marginals(X.unsqueeze(MCMC_DIM), rough)
        return mean.mean(-2), variance.mean(-2) + mean.var(-2, unbiased=False)

    def difference_moments(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance, each ``...``-dim, of the mixture, of ``... x 2 x d``-dim pairs."""
        mean, variance = super().difference_moments(X.unsqueeze(MCMC_DIM))
        return mean.mean(-1), variance.mean(-1) + mean.var(-1, unbiased=False)


class MomentMatchedPreferenceGP(FullyBayesianPreferenceGP):
    r"""The same as one Gaussian, of the mean and the covariance of the mixture.

    For rules that take one joint Gaussian posterior, and value what an answer would change in it.
    """

    _is_fully_bayesian = False
    _is_ensemble = False

    @property
    def batch_shape(self) -> Size:
        """Empty: that of the posterior."""
        return Size()

    def posterior(  # type: ignore[override]
        self, X: Tensor, *args: Any, **kwargs: Any
    ) -> GPyTorchPosterior:
        """A joint Gaussian posterior of ``b x q x 1`` utilities; see the base class."""
        found = super().posterior(X, *args, **kwargs)
        mean = found.mixture_mean.squeeze(-1)
        covariance = to_linear_operator(found.mixture_covariance_matrix)  # which needs no root
        return GPyTorchPosterior(MultivariateNormal(mean, covariance))


class _Law:
    """A prior of hyperparameters, in the coordinates in which it is normal."""

    def __init__(
        self,
        name: str,
        module: Any,
        prior: NormalPrior | LogNormalPrior,
        read: Callable[[Any], Tensor],
        write: Callable[[Any, Tensor], None],
    ) -> None:
        self._module, self._prior, self._write = module, prior, write
        self._shape = read(module).shape
        self._is_log = isinstance(prior, LogNormalPrior)
        # GPyTorch's kernels call it by the name of the prior; without one all values may be taken.
        own = name.rpartition(".")[-1].removesuffix("_prior")
        self._bounds = getattr(module, f"raw_{own}_constraint", None)

    def size(self, samples: int) -> int:
        """The number of values of one sample."""
        return self._shape.numel() // samples

    def normal(self, samples: int, name: str) -> Tensor:
        """``samples x size``-dim means or standard deviations, ``"loc"`` or ``"scale"``."""
        found: Tensor = getattr(self._prior, name)
        return found.expand(self._shape).reshape(samples, -1)

    def put(self, values: Tensor) -> None:
        """Set ``samples x size``-dim values."""
        values = values.exp() if self._is_log else values
        if self._is_log and self._bounds is not None:
            low, high = self._bounds.lower_bound, self._bounds.upper_bound
            values = values.clamp((1.0 + _INSIDE) * low, (1.0 - _INSIDE) * high)
        self._write(self._module, values.view(self._shape))
