r"""A Gaussian process over utilities, from comparisons of pairs."""

from __future__ import annotations

from typing import Any, Self

import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.models.transforms.input import InputTransform
from botorch.posteriors import GPyTorchPosterior
from botorch.sampling.base import MCSampler
from gpytorch import settings
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel
from gpytorch.means import Mean, ZeroMean
from linear_operator.operators import DiagLinearOperator
from torch import Size, Tensor

from botorch_pref.data import Comparisons
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.kernels import dueling_variance
from botorch_pref.likelihoods import BernoulliLikelihood, LogitLikelihood
from botorch_pref.models.comparison_model import (
    ComparisonModel,
    as_comparisons,
)
from botorch_pref.models.fitting import default_covar_module
from botorch_pref.models.laplace_gp import check_dimension


class PreferenceGP(ComparisonModel):
    r"""A utility ``f ~ GP(m, k)`` judged by ``P(i beats j) = mu(f(x_i) - f(x_j))``.

    A drop-in for BoTorch's ``PairwiseGP``. The posterior of the utility is Laplace's
    approximation (Rasmussen and Williams 2006, ch. 3); it is known up to a constant, as
    only differences are judged.

    Hyperparameters and input transforms are in ``state_dict``, data are not; copies,
    pickles and ``.to`` carry both.

    Example:
        >>> datapoints = torch.rand(4, 2, dtype=torch.float64)
        >>> model = PreferenceGP(datapoints, torch.tensor([[0, 1], [2, 1]]))
        >>> fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
        >>> model.win_probability(datapoints[:2])
    """

    def __init__(
        self,
        datapoints: Tensor | None,
        comparisons: Tensor | Comparisons | None,
        *,
        covar_module: Kernel | None = None,
        mean_module: Mean | None = None,
        likelihood: BernoulliLikelihood | None = None,
        input_transform: InputTransform | None = None,
        variance: str | float = "laplace",
    ) -> None:
        r"""Validate the data and set up the prior.

        Args:
            datapoints: ``batch_shape x n x d``-dim items; in the unit cube, or brought
                there by ``input_transform``, if the default kernel is used. ``None``
                with ``comparisons=None`` is the prior.
            comparisons: ``batch_shape x m x 2``-dim integer tensor of rows
                ``[winner, loser]`` that index the items; or :class:`Comparisons`, which
                also hold ties, over the very same datapoints.
            covar_module: The prior covariance, whose output scale is the model's only
                scale. By default a scaled RBF kernel with ARD and log-normal
                priors.
            mean_module: The prior mean; zero by default. A constant changes nothing.
            likelihood: The link; logit by default.
            input_transform: Applied where items meet the kernel, with gradients.
            variance: ``"laplace"``, or a positive ``kappa``: the answer-free covariance
                in which the curvature of a comparison is ``1 / kappa``. The mean does not
                depend on it.

        Raises:
            ComparisonDataError: If the data cannot be used; names argument and row.
        """
        data = as_comparisons(datapoints, comparisons)
        batch_shape = data.batch_shape if data is not None else Size()
        dim = data.datapoints.shape[-1] if data is not None else None
        super().__init__(
            data,
            variance,
            covar_module=covar_module or default_covar_module(dim, batch_shape),
            mean_module=mean_module or ZeroMean(),
            likelihood=likelihood or LogitLikelihood(),
            input_transform=input_transform,
        )

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
        r"""``E[mu(f(x) - f(x'))]`` under the posterior.

        Args:
            X: ``... x 2 x d``-dim pairs.

        Returns:
            ``...``-dim probabilities that the first item wins.
        """
        return self.likelihood.expected_probability(*self.difference_moments(X))

    def difference_moments(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance, each ``...``-dim and 0 included, of ``... x 2 x d``-dim pairs."""
        if X.dim() < 2 or X.shape[-2] != 2:
            raise ComparisonDataError(f"`X` must be ... x 2 x d pairs, got {tuple(X.shape)}.")
        check_dimension(self, X)
        self.eval()
        inputs = self.transform_inputs(X)
        first, second = inputs.unsqueeze(-3).unbind(dim=-2)  # shapes: (..., 1, d)
        prior_mean = self.mean_module(first) - self.mean_module(second)
        variance = dueling_variance(self.covar_module, first, second)
        mean = prior_mean.expand(variance.shape)
        if self.num_observations:
            items, found = self.representer()
            cross = self.cross_covariance(inputs, items)
            cross = cross[..., :1, :] - cross[..., 1:, :]
            mean, variance = found.predict_differences(mean, variance, cross)
        return mean.squeeze(-1), variance.squeeze(-1)

    def condition_on_pairs(self, pairs: Tensor, answers: Tensor) -> Self:
        r"""A copy that has also seen more answered duels, with the same hyperparameters.

        Args:
            pairs: ``m x 2 x d``-dim items; one equal to a stored item is that item.
            answers: ``m``-dim answers in ``{0, 0.5, 1}``.

        Raises:
            ComparisonDataError: If the data cannot be used; names argument and row.
        """
        if self.data is None:
            return self._with_data(Comparisons.from_pairs(pairs, answers))
        return self._with_data(self.data.append(pairs, answers))

    def condition_on_observations(self, X: Tensor, Y: Tensor, **kwargs: Any) -> Self:
        r"""A copy that has also seen comparisons among new items.

        Args:
            X: ``... x k x d``-dim new items.
            Y: ``... x m x 2``-dim integer rows ``[winner, loser]`` that index ``X``, as in
                BoTorch's ``PairwiseGP``; see :meth:`condition_on_pairs` for comparisons
                with stored items.
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
            return self._with_data(Comparisons.from_comparisons(X, Y))
        return self._with_data(self.data.with_fresh(X, Y))

    def fantasize(
        self, X: Tensor, sampler: MCSampler, observation_noise: Tensor | None = None
    ) -> Self:
        r"""Models that have seen one more duel, answered as this model predicts.

        The answers are drawn from :meth:`win_probability` by comparing it with the
        sampler's base samples, mapped to the unit interval. They are piecewise constant
        in ``X``, so a gradient taken through fantasies contains how each fantasised
        posterior moves with ``X``, but lacks the score-function term: how the
        probability of each answer moves.

        Args:
            X: ``b x 2 x d``-dim duels.
            sampler: A sampler with ``sample_shape`` ``S``.
            observation_noise: Must be ``None``; utilities are judged, not measured.

        Returns:
            A model of batch shape ``S x b``, differentiable with respect to ``X``.

        Raises:
            UnsupportedError: If ``X`` does not hold pairs, or noise is given.
        """
        if observation_noise is not None:
            raise UnsupportedError("`observation_noise` does not apply to comparisons.")
        if X.shape[-2] != 2:
            raise UnsupportedError(
                f"{type(self).__name__} fantasises duels: X must be b x 2 x d, but is "
                f"{tuple(X.shape)}."
            )
        with torch.no_grad():
            probability = self.win_probability(X)
            flat = probability.unsqueeze(-1)
            normal = MultivariateNormal(
                torch.zeros_like(flat), DiagLinearOperator(torch.ones_like(flat))
            )
            uniform = torch.special.ndtr(sampler(GPyTorchPosterior(normal)))
            answers = (uniform[..., 0, 0] < probability).to(X)
        data = self.merged_data
        if data is None:
            data = Comparisons.from_comparisons(
                X.new_empty(0, X.shape[-1]), torch.empty(0, 2, dtype=torch.long)
            )
        return self._with_data(data.append_fresh(X, answers))
