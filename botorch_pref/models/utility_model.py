r"""Comparisons and measured values of one utility, and what a model says of differences."""

from __future__ import annotations

from typing import cast

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.posteriors import GPyTorchPosterior
from gpytorch import settings
from gpytorch.distributions import MultivariateNormal
from linear_operator.operators import DiagLinearOperator
from torch import Tensor, cat

from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.inference import Observations
from botorch_pref.kernels import dueling_variance
from botorch_pref.likelihoods import BernoulliLikelihood
from botorch_pref.models.comparison_model import ComparisonModel
from botorch_pref.models.laplace_gp import check_dimension


class UtilityModel(ComparisonModel):
    r"""Inference in the coordinates of :mod:`~botorch_pref.models.measured_values`.

    With no values and a link of scale 1 these are the utilities themselves.
    """

    @property
    def link_scale(self) -> Tensor:
        """The scale ``s`` in ``P(i beats j) = mu(s (f(x_i) - f(x_j)))``; may be set."""
        return self.calibration.link_scale

    @link_scale.setter
    def link_scale(self, value: float | Tensor) -> None:
        self.calibration.set_link_scale(value)

    @property
    def utility(self) -> Tensor | None:
        """``batch_shape x n``-dim posterior means of ``datapoints``, the mode; ``None`` without."""
        if self.datapoints is None:
            return None
        return self.posterior(self.datapoints).mean.squeeze(-1)

    @property
    def link(self) -> BernoulliLikelihood:
        r"""The link of a difference of utilities, with ``s`` as it is now.

        Raises:
            UnsupportedError: If the scales of a batch differ.
        """
        if self.calibration.fixed_scale == 1.0:
            return self.likelihood
        scale = self.link_scale.detach().flatten()
        if bool((scale != scale[:1]).any()):
            raise UnsupportedError("A batch of models with scales of their own has no one link.")
        return type(self.likelihood)(self.likelihood.scale * float(scale[0]))

    def scaling(self) -> Tensor | None:
        """See the base class: ``s`` for compared items, ``1 / sigma`` for measured ones."""
        values, datapoints = self.values, self.datapoints
        if values is None and self.calibration.fixed_scale == 1.0:
            return None
        parts = []
        if datapoints is not None:
            scale = self.calibration.link_scale_like(datapoints)
            parts.append(scale.expand(*self.batch_shape, datapoints.shape[-2]))
        if values is not None:
            inverse = self.calibration.deviations(values).reciprocal()
            parts.append(inverse.expand(*self.batch_shape, values.num_values))
        return cat(parts, dim=-1)

    def prior_latent(self, mean: Tensor, observations: Observations) -> Tensor:
        """See the base class: less ``y / sigma`` for measured items."""
        scaling, values = self.scaling(), self.values
        if scaling is None:
            return super().prior_latent(mean, observations)
        latent = super().prior_latent(scaling * mean, observations)
        if values is None:
            return latent
        k = values.num_values
        measured = values.targets.squeeze(-1) * scaling[..., self.items.shape[-2] - k :]
        duels = latent.shape[-1] - k
        return cat([latent[..., :duels], latent[..., duels:] - measured], dim=-1)

    def cross_covariance(self, inputs: Tensor, items: Tensor) -> Tensor:
        """See the base class: the items' side of it is scaled as in inference."""
        cross, scaling = super().cross_covariance(inputs, items), self.node_scaling()
        return cross if scaling is None else cross * scaling.unsqueeze(-2)

    def node_scaling(self) -> Tensor | None:
        """Factors of the utilities of :meth:`nodes`; ``None`` for ones."""
        return self.scaling()

    def log_evidence(self) -> Tensor:
        r"""The ``batch_shape``-dim log marginal likelihood of answers and values.

        Differentiable with respect to hyperparameters, input transforms and items.
        """
        evidence = super().log_evidence()
        return evidence if self.values is None else evidence - self._log_units()

    def element_evidence(self, elements: Tensor) -> Tensor:
        """See the base class."""
        evidence = super().element_evidence(elements)
        return evidence if self.values is None else evidence - self._log_units()[elements]

    def _log_units(self) -> Tensor:
        """The log of the units in which inference sees the values: ``sum log sigma``."""
        values = self.values
        assert values is not None  # callers look first
        return self.calibration.deviations(values).log().sum(-1).expand(self.batch_shape)

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
            observation_noise: ``True`` for that of values to be measured there, if their
                noise is learnt. Without values it is ignored, as by BoTorch's ``PairwiseGP``:
                duels have no noise but that of the link.
            posterior_transform: An optional transform of the posterior.

        Returns:
            A posterior over a ``broadcast(b, batch_shape) x q x 1``-dim utility.

        Raises:
            UnsupportedError: If another output or a noise that is not known is asked for.
        """
        if observation_noise is True and self.values is None:
            observation_noise = False
        if observation_noise is not True or not self.calibration.learns_noise:
            return super().posterior(X, output_indices, observation_noise, posterior_transform)
        normal = super().posterior(X, output_indices).distribution
        posterior = GPyTorchPosterior(self.calibration.noise_model(normal))
        if posterior_transform is None:
            return posterior
        return cast(GPyTorchPosterior, posterior_transform(posterior=posterior, X=X))

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

    def win_probability(self, X: Tensor) -> Tensor:
        r"""``E[mu(s (f(x) - f(x')))]`` under the posterior.

        Args:
            X: ``... x 2 x d``-dim pairs.

        Returns:
            ``...``-dim probabilities that the first item wins.
        """
        mean, variance = self.difference_moments(X)
        if self.calibration.fixed_scale != 1.0:
            scale = self.calibration.link_scale_like(mean)
            scale = scale.squeeze(-1) if scale.dim() else scale
            mean, variance = scale * mean, scale.square() * variance
        return self.likelihood.expected_probability(mean, variance)

    def difference_moments(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance, each ``...``-dim and 0 included, of ``... x 2 x d``-dim pairs."""
        if X.dim() < 2 or X.shape[-2] != 2:
            raise ComparisonDataError(f"`X` must be ... x 2 x d pairs, got {tuple(X.shape)}.")
        check_dimension(self, "X", X)
        self.eval()
        inputs = self.transform_rows(X)
        first, second = inputs.unsqueeze(-3).unbind(dim=-2)  # shapes: (..., 1, d)
        prior_mean = self.mean_module(first) - self.mean_module(second)
        variance = dueling_variance(self.covar_module, first, second)
        mean, variance = torch.broadcast_tensors(prior_mean, variance)
        if self.num_observations:
            items, found = self.representer()
            cross = self.cross_covariance(inputs, items)
            cross = cross[..., :1, :] - cross[..., 1:, :]
            mean, variance = found.predict_differences(mean, variance, cross)
        return mean.squeeze(-1), variance.squeeze(-1)
