r"""A preference model over samples of its hyperparameters, by the conventions of ensembles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.transforms.input import InputTransform
from botorch.posteriors.fully_bayesian import MCMC_DIM, GaussianMixturePosterior
from gpytorch.mlls import MarginalLogLikelihood
from torch import Size, Tensor
from torch.nn import Module

from botorch_pref.data.blocks import BlockData
from botorch_pref.data.checks import check_count, check_shape
from botorch_pref.data.comparisons import Comparisons
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.kernels.items import default_covar_module
from botorch_pref.models.base import Inference, num_columns
from botorch_pref.models.preference_gp import PreferenceGP

_CANDIDATES_A_SAMPLE = 4  # draws from the prior, of which the chains' starts are chosen
_SMALLEST_BRACKET = 1e-6
_LEAST, _LONGEST, _LARGEST = 1.01e-3, 99.0, 9.9e3  # inside the bounds of the kernel's scales


class FullyBayesianPreferenceGP(PreferenceGP):
    r"""A :class:`PreferenceGP` over samples of the lengthscales and the output scale.

    ``fit_gpytorch_mll`` samples in place of a search for the maximum: ``num_samples`` chains of
    elliptical slice sampling (Murray, Adams and MacKay 2010) in the logarithms of the scales run
    side by side, under Laplace's evidence and the default priors; the last state of each is kept.
    With few answers predictions then carry the uncertainty of the hyperparameters.

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
            choices: As of :class:`PreferenceGP`.
            inference: That of predictions; samples are drawn under Laplace's evidence.
            num_samples: The number of samples.
            num_steps: The steps of each chain.

        Raises:
            ComparisonDataError: As :class:`PreferenceGP`, or if data come in a batch.
        """
        check_count("num_samples", num_samples, 1)
        check_count("num_steps", num_steps, 1)
        check_shape("datapoints", datapoints, "n", "d", batch=False)
        dim = num_columns(datapoints, input_transform)
        kernel = default_covar_module(dim, Size([num_samples]))
        super().__init__(
            datapoints,
            comparisons,
            likelihood,
            kernel,
            input_transform,
            choices=choices,
            inference=inference,
        )
        self.num_steps = num_steps

    @property
    def num_mcmc_samples(self) -> int:
        """The number of samples."""
        return len(self.covar_module.outputscale)

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
                self._sample_scales()
        finally:
            self.inference = inference
        return mll.eval()

    def _sample_scales(self) -> None:
        """Starts by sampling and resampling from the prior, then slices of ellipses."""
        kernel: Any = self.covar_module
        base, size = kernel.base_kernel, self.num_mcmc_samples
        like = base.lengthscale.squeeze(-2)
        dim = like.shape[-1]
        # The logarithms of all scales are normal under their priors.
        laws = [base.lengthscale_prior] * dim + [kernel.outputscale_prior]
        middle, widths = (like.new_tensor([getattr(p, a) for p in laws]) for a in ("loc", "scale"))
        largest = like.new_tensor([_LONGEST] * dim + [_LARGEST])

        def uniform(*shape: int) -> Tensor:
            return torch.rand(shape, dtype=like.dtype).to(like)

        def offsets() -> Tensor:
            return widths * torch.randn(size, dim + 1, dtype=like.dtype).to(like)

        def evidence_at(offset: Tensor) -> Tensor:
            scales = (middle + offset).exp().clamp_min(_LEAST).minimum(largest)
            base.lengthscale, kernel.outputscale = scales[:, None, :-1], scales[:, -1]
            return self.log_evidence()

        drawn = [offsets() for _ in range(_CANDIDATES_A_SAMPLE)]
        weights = torch.cat([evidence_at(own) for own in drawn])
        chosen = torch.multinomial((weights - weights.amax()).exp().cpu(), size, replacement=True)
        chosen = chosen.to(like.device)
        state, level = torch.cat(drawn)[chosen], weights[chosen]
        for _ in range(self.num_steps):
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

    def win_probability(self, X: Tensor) -> Tensor:
        """``E[mu(f(x) - f(x'))]`` of ``... x 2 x d``-dim pairs, averaged over the samples."""
        moments = super().difference_moments(X.unsqueeze(MCMC_DIM))
        return self.likelihood.expected_probability(*moments).mean(-1)

    def difference_moments(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance, each ``...``-dim, of the mixture, of ``... x 2 x d``-dim pairs."""
        mean, variance = super().difference_moments(X.unsqueeze(MCMC_DIM))
        return mean.mean(-1), variance.mean(-1) + mean.var(-1, unbiased=False)
