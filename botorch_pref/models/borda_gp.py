r"""A Gaussian process over how often an item wins against a random one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self, cast

import torch
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import InputTransform
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from botorch.settings import validate_input_scaling
from gpytorch.kernels import Kernel, RBFKernel, ScaleKernel
from gpytorch.means import ConstantMean, Mean
from gpytorch.models.exact_prediction_strategies import DefaultPredictionStrategy
from gpytorch.priors import LogNormalPrior
from gpytorch.settings import debug, skip_posterior_variances
from torch import Tensor

from botorch_pref.data.checks import (
    Check,
    check_items,
    check_like,
    check_shape,
    checked_positive,
    finite,
    refuse,
)
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.kernels.items import safe_deviation

ANSWER_VARIANCE = 0.25  # the largest of an answer of 0 or 1
_PRIOR_MEAN = 0.5  # of the wins of random items against each other, whatever the utility
UNIFORM_VARIANCE = 1.0 / 12.0


class BordaGP(SingleTaskGP):
    r"""Exact regression on the answers of duels against uniformly random opponents.

    Each answer is an unbiased sample of the Borda function ``f_r(x) = P(x beats X)`` with ``X``
    uniform over the domain, so no link is assumed (Xu, Joshi, Singh and Dubrawski 2020, sec. 2).
    The prior mean is 1/2, the mean of ``f_r`` whatever the utility, and the variance of an answer
    1/4, its largest: both are fixed, and answers are not standardised, so that bounds are on the
    scale of probabilities. Opponents are no data: *their* opponents were not random.

    Example:
        >>> model = BordaGP.from_duels(items, wins)
        >>> fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        >>> lower, upper = model.interval(items, beta=2.0)
    """

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        *,
        counts: Tensor | None = None,
        noise: float = ANSWER_VARIANCE,
        covar_module: Kernel | None = None,
        input_transform: InputTransform | None = None,
    ) -> None:
        r"""Validate the data and set up the prior.

        Args:
            train_X: ``batch_shape x n x d``-dim items that were chosen, in the unit cube or brought
                there by ``input_transform`` if the default kernel is used.
            train_Y: ``batch_shape x n x 1``-dim answers in [0, 1]: 1 won, 0 lost, 0.5 no
                preference; or means of such answers.
            counts: ``batch_shape x n x 1``-dim numbers of duels behind each row; 1 by default.
            noise: The variance of an answer.
            covar_module: The prior covariance; by default a scaled squared exponential kernel
                with one lengthscale, and a variance around that of a uniform distribution, 1/12.
            input_transform: Applied to the items.

        Raises:
            ComparisonDataError: If the data cannot be used; names argument and row.
        """
        variance = _checked_variances(train_X, train_Y, counts, noise)
        mean = ConstantMean(batch_shape=train_X.shape[:-2])
        mean.constant.data.fill_(_PRIOR_MEAN)
        mean.requires_grad_(False)
        with validate_input_scaling(False):  # answers are not standardised
            super().__init__(
                train_X,
                train_Y,
                variance,
                covar_module=covar_module
                or isotropic_kernel(train_X.shape[:-2], train_X, UNIFORM_VARIANCE),
                mean_module=mean,
                outcome_transform=None,
                input_transform=input_transform,
            )

    @classmethod
    def from_duels(cls, X: Tensor, answers: Tensor, **options: Any) -> Self:
        r"""A model in which items that were chosen several times have one row.

        The posterior is that of a row a duel, the evidence up to a constant.

        Args:
            X: ``n x d``-dim items that were chosen, one a duel.
            answers: ``n``-dim answers: 1 the item won, 0 it lost, 0.5 no preference.
            **options: ``noise``, ``covar_module`` and ``input_transform`` of the constructor.

        Raises:
            ComparisonDataError: If the data cannot be used; names argument and row.
        """
        check_items("X", X, "n", "d", batch=False)
        check_shape("answers", answers, len(X), batch=False)
        known = (answers == 0) | (answers == 0.5) | (answers == 1)
        refuse(finite("X", X), Check("answers", answers, ~known, "an answer is 0, 0.5 or 1"))
        items, rows = torch.unique(X, dim=0, return_inverse=True)
        counts = torch.bincount(rows, minlength=len(items)).to(X)
        wins = X.new_zeros(len(items)).index_add_(0, rows, answers.to(X))
        means = (wins / counts).unsqueeze(-1)
        return cls(items, means, counts=counts.unsqueeze(-1), **options)

    @property
    def items(self) -> Tensor:
        """The ``batch_shape x n x d``-dim items as they were given, a row each."""
        original = self._original_train_inputs  # BoTorch's, of a model in evaluation mode
        inputs: Tensor = self.train_inputs[0]
        return inputs if self.training or original is None else original

    def interval(self, X: Tensor, beta: float | Tensor) -> tuple[Tensor, Tensor]:
        r"""``mean -+ beta sd`` of the Borda function, without the noise of an answer.

        Args:
            X: ``... x d``-dim items.
            beta: The multiple of the standard deviation, at least 0.

        Returns:
            ``...``-dim ends, not cut to [0, 1]; of gradient zero in the deviation where it is 0.

        Raises:
            ComparisonDataError: If items have another number of columns.
        """
        dim = self.items.shape[-1]
        if X.shape[-1] != dim:
            raise ComparisonDataError(f"`X` has {X.shape[-1]} columns, but the items have {dim}.")
        mean, variance = self._moments(X)
        deviation = safe_deviation(variance)
        return mean - beta * deviation, mean + beta * deviation

    def _moments(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance at ``... x d``-dim items: as the posterior's, at less cost."""
        # Without a batch shape one solve serves all items.
        points = X.unsqueeze(-2) if self.batch_shape else X.reshape(-1, X.shape[-1])
        self.eval()
        at, kernel = self.transform_inputs(points), cast(Kernel, self.covar_module)
        caches = self._caches(at[..., :1, :])
        # GPyTorch keeps both, as functions of the hyperparameters if a posterior was found first.
        factor = caches.lik_train_train_covar.cholesky().to_dense().detach()
        weights = caches.mean_cache.detach()
        cross = kernel(at, self.train_inputs[0]).to_dense()
        mean = cast(Mean, self.mean_module)(at) + (cross @ weights.unsqueeze(-1)).squeeze(-1)
        solved = torch.linalg.solve_triangular(factor, cross.mT, upper=False)
        variance = kernel(at, diag=True) - solved.square().sum(dim=-2)
        shape = torch.broadcast_shapes(X.shape[:-1], self.batch_shape)
        return mean.view(shape), variance.view(shape)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Torch's, of what moves a module; GPyTorch's caches stay where they were."""
        del recurse  # GPyTorch's method has no such argument
        super()._apply(fn)
        self.prediction_strategy = None
        if self._original_train_inputs is not None:
            self._original_train_inputs = fn(self._original_train_inputs)
        return self

    @torch.no_grad()
    def _caches(self, item: Tensor) -> DefaultPredictionStrategy:
        """GPyTorch's, which there are after a first posterior."""
        known = cast(DefaultPredictionStrategy | None, self.prediction_strategy)
        if known is None:
            # Debugging warns if the item is one of the data.
            with debug(False), skip_posterior_variances():
                self(item)
            known = cast(DefaultPredictionStrategy, self.prediction_strategy)
        return known


def _checked_variances(
    train_X: Tensor, train_Y: Tensor, counts: Tensor | None, noise: float
) -> Tensor:
    """The ``batch_shape x n x 1``-dim variances of the rows; raises if data cannot be used."""
    check_items("train_X", train_X, "n", "d")
    check_shape("train_Y", train_Y, train_X.shape[-2], 1)
    check_like("train_Y", train_Y, train_X)
    won = train_Y.squeeze(-1)
    reason = "an answer, or a mean of answers, lies between 0 and 1"
    refuse(finite("train_X", train_X), Check("train_Y", won, ~((won >= 0) & (won <= 1)), reason))
    variance = torch.full_like(train_Y, checked_positive("noise", noise))
    if counts is None:
        return variance
    check_shape("counts", counts, train_X.shape[-2], 1)
    counted = counts.squeeze(-1)
    wrong = ~(counted >= 1) | counted.isinf()
    refuse(Check("counts", counted, wrong, "a row stands for one duel or more"))
    return variance / counts.to(variance)


def isotropic_kernel(batch_shape: torch.Size, like: Tensor, variance: float) -> ScaleKernel:
    r"""A squared exponential kernel with one lengthscale, which has BoTorch's prior.

    Args:
        batch_shape: That of the data.
        like: ``... x d``-dim items in the unit cube, on whose dimension the prior depends.
        variance: The mode of the log-normal prior of the variance.
    """
    base = get_covar_module_with_dim_scaled_prior(ard_num_dims=like.shape[-1])
    prior = base.lengthscale_prior
    kernel = RBFKernel(
        batch_shape=batch_shape,
        lengthscale_prior=prior,
        lengthscale_constraint=base.raw_lengthscale_constraint,
    )
    width = 0.5
    spread = LogNormalPrior(math.log(variance) + width**2, width)
    scaled = ScaleKernel(kernel, batch_shape=batch_shape, outputscale_prior=spread)
    scaled.outputscale = torch.full(batch_shape, variance)
    kernel.lengthscale = prior.mode.to(like).expand(*batch_shape, 1, 1)
    return scaled.to(like)
