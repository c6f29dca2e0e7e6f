r"""What rules ask of a model: moments, bounds and its items."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast, runtime_checkable

import torch
from botorch.acquisition import PosteriorMean
from botorch.models.deterministic import GenericDeterministicModel
from botorch.models.model import Model
from botorch.posteriors import GPyTorchPosterior
from torch import Tensor

from botorch_pref.data.checks import finite, refuse
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.kernels.items import safe_deviation


@runtime_checkable
class ConfidenceSetModel(Protocol):
    r"""Bounds in place of a posterior; see :class:`~botorch_pref.models.LikelihoodRatioModel`.

    A bound has ``.value``.
    """

    @property
    def items(self) -> Tensor:
        """The ``n x d``-dim items as they were given."""

    def mle(self, X: Tensor) -> Tensor:
        """The most likely utilities of ``... x d``-dim items."""

    def bound(self, X: Tensor, x_ref: Tensor | None, *, tolerance: float) -> Any:
        """The largest utility of ``... x d``-dim items, or advantage over another item."""

    def advantage_over_all(self, X: Tensor, opponents: Tensor, *, tolerance: float) -> Any:
        """The largest least advantage of ``... x d``-dim items over ``J x d``-dim opponents."""

    def rough_upper(self, X: Tensor, x_ref: Tensor | None) -> Tensor:
        """About the largest utility, or advantage over an item, without a solve for each."""


@runtime_checkable
class IntervalModel(Protocol):
    r"""Bounds on the scale of probabilities; see :class:`~botorch_pref.models.BordaGP`."""

    @property
    def items(self) -> Tensor:
        """The ``n x d``-dim items as they were given."""

    def interval(self, X: Tensor, beta: float | Tensor) -> tuple[Tensor, Tensor]:
        """``mean -+ beta sd`` of ``... x d``-dim items."""


def mean_rule(mean: Callable[[Tensor], Tensor]) -> PosteriorMean:
    """BoTorch's rule of a mean, given as a function of ``... x d``-dim items."""
    return PosteriorMean(GenericDeterministicModel(lambda X: mean(X).unsqueeze(-1)))


def difference_moments(model: Model, X: Tensor) -> tuple[Tensor, Tensor]:
    r"""Posterior mean and variance of ``f(x) - f(x')``, pair by pair.

    Args:
        model: A :class:`~botorch_pref.models.PreferenceGP`, which keeps the digits of
            near-identical items, or any model with one output and a joint ``posterior``.
        X: ``... x 2 x d``-dim pairs.

    Returns:
        The ``...``-dim mean and variance, in the units of the utility and squared. Both
        are zero, with zero gradients, where the two items are one.
    """
    if hasattr(model, "difference_moments"):
        mean, variance = cast(Any, model).difference_moments(X)
    else:
        joint = cast(GPyTorchPosterior, model.posterior(X))
        first, second = joint.mean.squeeze(-1).unbind(dim=-1)
        covariance = joint.covariance_matrix
        mean = first - second
        variance = covariance[..., 0, 0] + covariance[..., 1, 1] - 2 * covariance[..., 0, 1]
    # By rounding and jitter, an item minus itself has a variance.
    same = (X[..., 0, :] == X[..., 1, :]).all(dim=-1)
    # GPyTorch's distance of an item from itself is a constant: this zero has a gradient.
    zero = 0.0 * (X[..., 0, :] - X[..., 1, :]).sum(dim=-1)
    mean, variance = mean.masked_fill(same, 0.0), variance.clamp_min(0.0).masked_fill(same, 0.0)
    return mean + zero, variance + zero


def moments_between(model: Model, X: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
    r"""Posterior mean and variance of ``f(x) - f(x')`` for each item and each of others.

    By one joint posterior of all items; of equal ones the variance may be a rounding error.

    Args:
        model: A model with one output and a joint ``posterior``.
        X: ``... x n x d``-dim items.
        others: ``... x w x d``-dim items.

    Returns:
        The ``... x n x w``-dim mean and variance, in the units of the utility and squared.

    Raises:
        UnsupportedError: If the model makes several rows of an item.
    """
    items, n = torch.cat([X, others], dim=-2), X.shape[-2]
    joint = cast(GPyTorchPosterior, model.posterior(items))
    mean, covariance = joint.mean.squeeze(-1), joint.covariance_matrix
    if rows := mean.shape[-1] // items.shape[-2] - 1:
        transform = type(model.input_transform).__name__
        raise UnsupportedError(f"{transform} makes {rows + 1} rows of one: an item has no utility.")
    own = covariance.diagonal(dim1=-2, dim2=-1)
    variance = own[..., :n, None] + own[..., None, n:] - 2 * covariance[..., :n, n:]
    return mean[..., :n, None] - mean[..., None, n:], variance.clamp_min(0.0)


def marginal_moments(model: Model, X: Tensor) -> tuple[Tensor, Tensor]:
    r"""``... x q``-dim posterior mean and variance of the latent of ``... x q x d``-dim items.

    The variance may be 0: GPyTorch's ``variance`` is at least a constant in the model's units.
    """
    normal = cast(GPyTorchPosterior, model.posterior(X)).distribution
    variance = normal.lazy_covariance_matrix.diagonal(dim1=-2, dim2=-1)
    return normal.mean, variance.clamp_min(0.0)


def upper_bound(model: Model, X: Tensor, beta: float | Tensor) -> Tensor:
    r"""``mean(x) + beta sd(x)`` of ``b x 1 x d``-dim single items, ``b``-dim in units of the model.

    The gradient is that of the mean where the deviation is zero.
    """
    if isinstance(model, IntervalModel):  # at a tenth of the cost of a posterior
        return model.interval(X.squeeze(-2), beta)[1]
    mean, variance = marginal_moments(model, X)
    return (mean + beta * safe_deviation(variance)).squeeze(-1)


def given_items(model: Model) -> Tensor:
    r"""The items of a model as they were given, without rows where it has none."""
    known = cast(Any, model)
    if isinstance(own := getattr(model, "items", None), Tensor):
        view = getattr(model, "input_transform", None)
        return own[..., : cast(Any, view).dim] if getattr(view, "completes", False) else own
    if not getattr(model, "train_inputs", None):  # BoTorch's PairwiseGP without data
        device = next(model.parameters(), torch.empty(0)).device
        return torch.empty(0, 1, dtype=torch.double, device=device)
    # BoTorch's exact models hold transformed ones.
    swapped = getattr(model, "_has_transformed_inputs", False)
    items: Tensor = known._original_train_inputs if swapped else known.train_inputs[0]
    return items


def check_columns(model: Model, argument: str, items: Tensor) -> None:
    r"""Raise a ``ComparisonDataError`` unless items are finite and have the model's columns."""
    known = given_items(model)
    if known.shape[-2] and known.shape[-1] != items.shape[-1]:
        raise ComparisonDataError(
            f"`{argument}` must have {known.shape[-1]} columns, as the model's items, not "
            f"{items.shape[-1]}."
        )
    refuse(finite(argument, items))


def checked_item(model: Model, argument: str, item: Tensor) -> Tensor:
    r"""A copy of a ``d``-dim item; a ``ComparisonDataError`` if it is no item of the model."""
    if item.dim() != 1:
        raise ComparisonDataError(f"`{argument}` must be d-dim, got {tuple(item.shape)}.")
    check_columns(model, argument, item.unsqueeze(0))
    return item.detach().clone()
