r"""Base classes of the rules, protocols of the models they need, moments of a difference, links."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Protocol, cast, runtime_checkable

from botorch.acquisition import AcquisitionFunction
from botorch.models.model import Model
from botorch.posteriors import GPyTorchPosterior
from torch import Tensor
from torch.nn import Module

from botorch_pref.data.checks import finite, is_positive, refuse
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.inference.laplace import LaplacePosterior
from botorch_pref.kernels.evaluation import safe_deviation
from botorch_pref.likelihoods import BernoulliLikelihood, known_link

TOLERANCE = 1e-9
"""The gap to which bounds over a confidence set are solved by default."""


@runtime_checkable
class ConfidenceSetModel(Protocol):
    r"""Bounds in place of a posterior; see :class:`~botorch_pref.models.LikelihoodRatioModel`.

    A bound has ``.value``, and serves as the ``start`` of the next one.
    """

    @property
    def items(self) -> Tensor:
        """The ``n x d``-dim items as they were given."""

    def mle(self, X: Tensor) -> Tensor:
        """The most likely utilities of ``... x d``-dim items."""

    def upper_bound(self, X: Tensor, *, tolerance: float, start: Any) -> Any:
        """The largest utility of ``... x d``-dim items."""

    def advantage_bound(self, X: Tensor, *, tolerance: float, start: Any) -> Any:
        """The largest advantage of ``... x 2 x d``-dim pairs."""

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


@runtime_checkable
class LaplaceUtility(Protocol):
    r"""The parts of the posterior of a :class:`~botorch_pref.models.PreferenceGP`."""

    @property
    def num_observations(self) -> int:
        """The number of rows that were observed."""

    def laplace_posterior(self) -> tuple[Tensor, LaplacePosterior]:
        """The transformed items and what predictions need."""

    def transform_rows(self, X: Tensor) -> Tensor:
        """``... x d``-dim items as the kernel sees them."""

    def cross_covariance(self, inputs: Tensor, items: Tensor) -> Tensor:
        """``... x q x n`` prior covariance of transformed inputs and items."""


class _NoPendingPoints(AcquisitionFunction):
    """A rule without pending points; ``pending_hint`` names the alternative for its error."""

    pending_hint: ClassVar[str]

    @property  # type: ignore[override]
    def X_pending(self) -> Tensor | None:
        """Always ``None``."""
        return None

    @X_pending.setter
    def X_pending(self, value: Tensor | None) -> None:
        self.set_X_pending(value)

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        r"""Refuse pending points.

        Raises:
            UnsupportedError: If ``X_pending`` is not ``None``.
        """
        if X_pending is not None:
            raise UnsupportedError(f"{type(self).__name__} {self.pending_hint}")


class PairAcquisitionFunction(_NoPendingPoints):
    r"""A rule whose value belongs to a pair, ``b x 2 x d``, maximised with ``q=2``.

    The two items of a pair are one query, so BoTorch's pending *points* do not apply;
    pending *pairs* reach a rule through :class:`~botorch_pref.acquisition.PairAsPoint`.
    """

    pending_hint = (
        "chooses pairs and has no pending points. Wrap it in PairAsPoint, under which a "
        "pending point is a pending pair."
    )

    def __call__(self, X: Tensor) -> Tensor:
        r"""The values of ``b x 2 x d``-dim pairs, ``b``-dim.

        Raises:
            UnsupportedError: If ``X`` has another number of items.
        """
        if X.dim() >= 2 and X.shape[-2] != 2:
            raise UnsupportedError(
                f"{type(self).__name__} chooses one pair at a time (q=2), but X has q="
                f"{X.shape[-2]} items. For several pairs at a time wrap it in PairAsPoint, "
                "under which a pair is one point of 2d columns, and use sequential=True."
            )
        value: Tensor = super().__call__(X)
        return value

    @abstractmethod
    def set_pending_pairs(self, pairs: Tensor | None) -> None:
        r"""Take ``k x 2 x d``-dim pairs that are asked but not answered into account."""


class ItemAcquisitionFunction(_NoPendingPoints):
    r"""A rule whose value belongs to a single item, ``b x 1 x d``, maximised with ``q=1``.

    A pending query may be a duel, of which an item is one half, so pending points do not apply
    here either.
    """

    pending_hint = (
        "chooses one item at a time and has no pending points. Build the rule on models that "
        "are conditioned on what is pending, for instance by condition_on_pairs."
    )


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


def marginal_moments(model: Model, X: Tensor) -> tuple[Tensor, Tensor]:
    r"""Posterior mean and variance of the latent, item by item.

    Args:
        model: A model with one output and a Gaussian posterior.
        X: ``... x q x d``-dim items.

    Returns:
        The ``... x q``-dim mean and variance, which may be 0: GPyTorch's ``variance`` is at
        least a constant in the units of the model.
    """
    normal = cast(GPyTorchPosterior, model.posterior(X)).distribution
    variance = normal.lazy_covariance_matrix.diagonal(dim1=-2, dim2=-1)
    return normal.mean, variance.clamp_min(0.0)


def upper_bound(model: Model, X: Tensor, beta: float | Tensor) -> Tensor:
    r"""``mean(x) + beta sd(x)`` of single items.

    Args:
        model: A model with one output and a Gaussian posterior.
        X: ``b x 1 x d``-dim items.
        beta: The multiple of the standard deviation.

    Returns:
        ``b``-dim bounds, in units of the model; of gradient zero in a deviation of zero.
    """
    if isinstance(model, IntervalModel):  # at a tenth of the cost of a posterior
        return model.interval(X.squeeze(-2), beta)[1]
    mean, variance = marginal_moments(model, X)
    return (mean + beta * safe_deviation(variance)).squeeze(-1)


def link_of(model: Model, likelihood: Module | None = None) -> BernoulliLikelihood:
    r"""The link that a model was fitted with.

    Args:
        model: A model whose ``likelihood`` is one of this package or one of BoTorch's two
            pairwise ones.
        likelihood: Used instead of the model's.

    Returns:
        The link as a likelihood of this package.

    Raises:
        UnsupportedError: If the likelihood is none of these.
    """
    if likelihood is None and isinstance(own := getattr(model, "link", None), BernoulliLikelihood):
        return own
    found = getattr(model, "likelihood", None) if likelihood is None else likelihood
    if (link := known_link(found)) is not None:
        return link
    raise UnsupportedError(
        f"{type(found).__name__} of {type(model).__name__} has no known link: give "
        "`likelihood`, for instance LogitLikelihood()."
    )


def as_confidence_set(argument: str, model: object) -> ConfidenceSetModel:
    r"""A model as one with bounds in place of a posterior.

    Raises:
        UnsupportedError: If it is another model; names the argument.
    """
    if isinstance(model, ConfidenceSetModel):
        return model
    raise UnsupportedError(f"`{argument}` must be a LikelihoodRatioModel, not {type(model)}.")


def given_items(model: Model) -> Tensor:
    r"""The items of a model as they were given; BoTorch's exact models hold transformed ones."""
    known = cast(Any, model)
    if isinstance(own := getattr(model, "items", None), Tensor):
        return own
    swapped = getattr(model, "_has_transformed_inputs", False)
    items: Tensor = known._original_train_inputs if swapped else known.train_inputs[0]
    return items


def check_columns(model: Model, argument: str, items: Tensor) -> None:
    r"""Check ``... x d``-dim items against those of a model that has any.

    Raises:
        ComparisonDataError: If they have another number of columns, or are not finite; names the
            argument and the row.
    """
    has_items = getattr(model, "train_inputs", None) or isinstance(model, ConfidenceSetModel)
    known = given_items(model) if has_items else items[..., :0, :]
    if known.shape[-2] and known.shape[-1] != items.shape[-1]:
        raise ComparisonDataError(
            f"`{argument}` must have {known.shape[-1]} columns, as the model's items, not "
            f"{items.shape[-1]}."
        )
    refuse(finite(argument, items))


def checked_item(model: Model, argument: str, item: Tensor) -> Tensor:
    r"""A copy of a ``d``-dim item, checked against those of a model.

    Raises:
        ComparisonDataError: If it is not one such item, or not finite; names the argument.
    """
    if item.dim() != 1:
        raise ComparisonDataError(f"`{argument}` must be d-dim, got {tuple(item.shape)}.")
    check_columns(model, argument, item.unsqueeze(0))
    return item.detach().clone()


def checked_beta(beta: float, argument: str = "beta") -> float:
    r"""The multiple of a standard deviation.

    Raises:
        ComparisonDataError: If it is neither zero nor a positive, finite number; names the
            argument.
    """
    if beta == 0 or is_positive(beta):
        return float(beta)
    raise ComparisonDataError(f"`{argument}` must be 0 or a positive finite number, not {beta!r}.")
