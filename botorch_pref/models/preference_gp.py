r"""A Gaussian process over utilities, from comparisons of pairs and measured values."""

from __future__ import annotations

from typing import Any, Self

import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.models.transforms.input import InputTransform
from botorch.posteriors import GPyTorchPosterior
from botorch.sampling.base import MCSampler
from botorch.sampling.pairwise_samplers import PairwiseMCSampler
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel
from gpytorch.means import ConstantMean, Mean, ZeroMean
from linear_operator.operators import DiagLinearOperator
from torch import Size, Tensor
from torch.nn import Module

from botorch_pref.data import Comparisons, Values
from botorch_pref.models.comparison_model import ValuesArgument, as_comparisons, shape_of
from botorch_pref.models.fitting import default_covar_module
from botorch_pref.models.inducing_model import InducingModel
from botorch_pref.models.measured_values import calibration_of
from botorch_pref.models.transformed_items import num_columns


class PreferenceGP(InducingModel):
    r"""A utility ``f ~ GP(m, k)`` judged by ``P(i beats j) = mu(s (f(x_i) - f(x_j)))``.

    A drop-in for BoTorch's ``PairwiseGP``. The posterior of the utility is Laplace's
    approximation (Rasmussen and Williams 2006, ch. 3); it is known up to a constant, as
    only differences are judged, unless values ``y = f(x) + e``, ``e ~ N(0, v)``, were
    measured as well. These have the units of the utility, and the link's scale ``s``, under a
    log-normal prior of median 1, says what a unit is to the judge. Without known ``v`` one is
    learnt, with the prior of BoTorch's ``SingleTaskGP``. Values alone are exact regression; ``v``
    of less than some 1e-6 of the prior variance costs posterior variances their digits.
    For many items ``inducing_points`` make inference linear in the number of duels.

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
        likelihood: Module | None = None,
        covar_module: Kernel | None = None,
        input_transform: InputTransform | None = None,
        *,
        values: ValuesArgument = None,
        mean_module: Mean | None = None,
        variance: str | float = "laplace",
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
                link. By default a scaled RBF kernel with ARD and log-normal priors.
            input_transform: Applied where items meet the kernel, with gradients.
            values: ``(X, Y)`` or ``(X, Y, Yvar)``, ``batch_shape x k x d`` and twice ``... x 1``:
                items, values, variances of noise; ``Y`` standardised under the default prior.
            mean_module: The prior mean; by default zero, or a learnt constant with values.
            variance: ``"laplace"``, or a positive ``kappa``: the answer-free covariance, where
                the curvature of ``s`` times a difference is ``1 / kappa``. The mean is the same.
            link_scale: ``s`` to fix it; else it is learnt, or 1 without comparisons or values.
            inducing_points: ``p x d``-dim inducing items or their number; see the base class.
            jitter: Accepted as by BoTorch's ``PairwiseGP``, like the arguments below, and not
                used: Newton's method ends at a fixed accuracy, no jitter is added, and items
                are the same only where a caller says so.
            xtol: Not used.
            consolidate_rtol: Not used.
            consolidate_atol: Not used.
            maxfev: Not used.

        Raises:
            ComparisonDataError: If the data cannot be used; names argument and row.
        """
        data, measured = as_comparisons(datapoints, comparisons), Values.from_argument(values)
        batch_shape, items = shape_of(data, measured)
        dim = num_columns(items, input_transform)
        super().__init__(
            data,
            measured,
            variance,
            calibration_of(data, measured, batch_shape, link_scale),
            covar_module=covar_module or default_covar_module(dim, batch_shape),
            mean_module=mean_module or _default_mean(measured, batch_shape),
            likelihood=likelihood,
            input_transform=input_transform,
            inducing_points=inducing_points,
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

    def condition_on_pairs(self, pairs: Tensor, answers: Tensor) -> Self:
        r"""A copy that has also seen more answered duels, with the same hyperparameters.

        Args:
            pairs: ``m x 2 x d``-dim items; one equal to a stored item is that item.
            answers: ``m``-dim answers in ``{0, 0.5, 1}``.

        Raises:
            ComparisonDataError: If the data cannot be used; names argument and row.
        """
        if self.data is None:
            return self.with_data(Comparisons.from_pairs(pairs, answers), self.values)
        return self.with_data(self.data.append(pairs, answers), self.values)

    def condition_on_values(self, X: Tensor, Y: Tensor, Yvar: Tensor | None = None) -> Self:
        r"""A copy that has also seen more measured values, with the same hyperparameters.

        Args:
            X: ``batch_shape x k x d``-dim items.
            Y: ``batch_shape x k x 1``-dim values.
            Yvar: ``batch_shape x k x 1``-dim variances of their noise; ``None`` if and only
                if the model learns the noise.

        Raises:
            ComparisonDataError: If the data cannot be used; names argument and row.
        """
        values = Values(X, Y, Yvar)
        self.calibration.check(values)
        stored = self.values
        return self.with_data(self.data, values if stored is None else stored.append(values))

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
            return self.with_data(Comparisons.from_comparisons(X, Y), self.values)
        return self.with_data(self.data.with_fresh(X, Y), self.values)

    def fantasize(
        self,
        X: Tensor,
        sampler: MCSampler | PairwiseMCSampler,
        observation_noise: Tensor | None = None,
        **kwargs: Any,
    ) -> Self:
        r"""Models that have seen one more duel, answered as this model predicts.

        The answers are drawn from :meth:`win_probability` by comparing it with the
        sampler's base samples, mapped to the unit interval. They are piecewise constant
        in ``X``, so a gradient taken through fantasies contains how each fantasised
        posterior moves with ``X``, but lacks the score-function term: how the
        probability of each answer moves.

        Args:
            X: ``b x 2 x d``-dim duels.
            sampler: A sampler with ``sample_shape`` ``S``. BoTorch's pairwise samplers draw
                comparisons of ``b x q x d``-dim items themselves, as for ``PairwiseGP``.
            observation_noise: Must be ``None``; utilities are judged, not measured.
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
                X.new_empty(0, X.shape[-1]), X.new_empty(0, 2, dtype=torch.long)
            )
        return self.with_data(data.append_fresh(X, answers), self.values)


def _default_mean(values: Values | None, batch_shape: Size) -> Mean:
    """Zero for comparisons alone: then a constant changes nothing."""
    return ZeroMean() if values is None else ConstantMean(batch_shape=batch_shape)
