r"""A preference model over samples of its hyperparameters, by the conventions of ensembles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, cast

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.transforms.input import InputTransform
from botorch.posteriors.fully_bayesian import MCMC_DIM, GaussianMixturePosterior
from gpytorch.mlls import MarginalLogLikelihood
from torch import Size, Tensor
from torch.distributions import (
    Categorical,
    Independent,
    MixtureSameFamily,
    MultivariateNormal,
    Normal,
)
from torch.nn import Module

from botorch_pref.data.blocks import BlockData
from botorch_pref.data.checks import check_count, check_shape
from botorch_pref.data.comparisons import Comparisons
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.kernels.items import (
    LENGTHSCALE_WIDTH,
    OUTPUT_SCALE_WIDTH,
    ScalesPrior,
    default_covar_module,
    read_scales,
    write_scales,
)
from botorch_pref.models.base import Inference, num_columns
from botorch_pref.models.preference_gp import PreferenceGP

_CANDIDATES_A_SAMPLE = 4  # draws from the prior, of which the chains' starts are chosen
_SMALLEST_BRACKET = 1e-6
_LEAST, _LONGEST, _LARGEST = 1.01e-3, 99.0, 9.9e3  # inside the bounds of the kernel's scales


class FullyBayesianPreferenceGP(PreferenceGP):
    r"""A :class:`PreferenceGP` over samples of the lengthscales and the output scale.

    ``fit_gpytorch_mll`` samples in place of a search for the maximum: ``num_samples`` chains of
    elliptical slice sampling (Murray, Adams and MacKay 2010) in the logarithms of the scales run
    side by side, under Laplace's evidence and the default prior, both modes of which have half its
    mass; the last state of each is kept. With few answers predictions then carry the uncertainty of
    the hyperparameters.

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
        r"""Validate the data and set up the prior, at whose first mode all samples are.

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
        kernel, prior = self.covar_module, cast(ScalesPrior, self.covar_module.scales_prior)
        like, size = read_scales(kernel).squeeze(-2), self.num_mcmc_samples
        dim = like.shape[-1] - 1
        widths = like.new_tensor([LENGTHSCALE_WIDTH] * dim + [OUTPUT_SCALE_WIDTH])
        modes = like.new_tensor([[a] * dim + [b] for a, b in prior.modes]).log()
        # The mode of a log-normal variable is below its median.
        parts = Independent(Normal(modes + widths.square(), widths), 1)
        law = MixtureSameFamily(Categorical(logits=torch.zeros_like(modes[:, 0])), parts)
        apart = parts.mean - law.mean
        spread = torch.diag(widths.square()) + apart.mT @ apart / len(apart)
        normal = MultivariateNormal(law.mean, spread)
        root = normal.scale_tril
        largest = like.new_tensor([_LONGEST] * dim + [_LARGEST])

        def uniform(*shape: int) -> Tensor:
            return torch.rand(shape, dtype=like.dtype).to(like)

        def offsets() -> Tensor:
            return torch.randn(like.shape, dtype=like.dtype).to(like) @ root.mT

        def log_density(offset: Tensor) -> Tensor:
            """Relative to the normal that proposals are drawn from."""
            logs = law.mean + offset
            scales = logs.exp().clamp_min(_LEAST).minimum(largest)
            write_scales(kernel, scales.unsqueeze(-2))
            return self.log_evidence() + law.log_prob(logs) - normal.log_prob(logs)

        drawn = [offsets() for _ in range(_CANDIDATES_A_SAMPLE)]
        weights = torch.cat([log_density(own) for own in drawn])
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
                found = log_density(new)
                level = torch.where(is_open, found, level)
                # A bracket that has shrunk to nothing is the state itself.
                is_open = is_open & (found <= floor) & (high - low > _SMALLEST_BRACKET)
                low, high = torch.where(angle < 0, angle, low), torch.where(angle < 0, high, angle)
                angle = torch.where(is_open, low + (high - low) * uniform(size), angle)
            state = new
        log_density(state)

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
