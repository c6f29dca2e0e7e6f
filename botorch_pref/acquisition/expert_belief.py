r"""What a model of an expert's judgements says of items: an estimate, and how good they may be."""

from __future__ import annotations

import math
from typing import cast

import torch
from botorch.models.model import Model
from torch import Tensor
from torch.nn import Module

from botorch_pref.acquisition.base import (
    ItemAcquisitionFunction,
    checked_beta,
    difference_moments,
    link_of,
    usable_start,
)
from botorch_pref.data.checks import checked_positive, finite, refuse
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.likelihood_ratio import FINAL, Bound
from botorch_pref.models import LikelihoodRatioModel
from botorch_pref.models.laplace_gp import LaplaceGP
from botorch_pref.models.moments import safe_deviation


class ExpertAcquisitionFunction(ItemAcquisitionFunction):
    r"""A rule for items whose value is measured, and which an expert judges."""

    _instead = (
        "chooses one item at a time and has no pending points. Build the rule on an objective "
        "model that is conditioned on what is pending."
    )


class ExpertBelief(Module):
    r"""The latent of accept or reject, positive where accepting is more likely.

    With a reference it is the difference to it, as where pairs were judged, which tell the latent
    up to a constant only.
    """

    model: LikelihoodRatioModel | LaplaceGP
    x_ref: Tensor | None

    def __init__(
        self,
        model: Model,
        *,
        label_beta: float = 1.0,
        x_ref: Tensor | None = None,
        tolerance: float = FINAL,
    ) -> None:
        r"""Fix the model and what is optimistic.

        Args:
            model: A :class:`~botorch_pref.models.LikelihoodRatioModel`, or one with a
                Gaussian latent: :class:`~botorch_pref.models.BernoulliGP` or
                :class:`~botorch_pref.models.PreferenceGP`.
            label_beta: Multiplies the standard deviation of a Gaussian latent; at least 0. A
                confidence set needs none.
            x_ref: ``d``-dim item that the latent is compared with; None for the latent itself.
            tolerance: The gap to which bounds are solved, in logits; with infinity none is, and
                what is about the bound is taken.

        Raises:
            ComparisonDataError: If an option is out of range.
            UnsupportedError: If it is another model.
        """
        super().__init__()
        if not isinstance(model, LikelihoodRatioModel | LaplaceGP):
            raise UnsupportedError(
                "`label_model` must be a LikelihoodRatioModel, or a BernoulliGP or PreferenceGP, "
                f"not {type(model)}."
            )
        size = model.items.shape[-1]
        if x_ref is not None:
            if x_ref.shape != (size,):
                raise ComparisonDataError(f"`x_ref` must be {size}-dim, got {tuple(x_ref.shape)}.")
            refuse(finite("x_ref", x_ref.unsqueeze(0)))
            x_ref = x_ref.detach().clone()
        self.model = model
        self.label_beta = checked_beta(label_beta, "label_beta")
        rough = tolerance == math.inf
        self.tolerance = tolerance if rough else checked_positive("tolerance", tolerance)
        self.register_buffer("x_ref", x_ref)
        self._last: Bound | None = None

    def upper(self, X: Tensor) -> Tensor:
        r"""The optimistic end: the largest latent of the set, or mean plus deviations.

        Args:
            X: ``... x d``-dim items.

        Returns:
            ``...``-dim latents in logits (or what the link's scale makes of them), once
            differentiable in ``X`` with the maximising function held fixed.
        """
        model = self.model
        if isinstance(model, LikelihoodRatioModel):
            return self._largest(model, X.to(model.items.dtype))
        mean, variance = self._moments(model, X)
        return mean + self.label_beta * safe_deviation(variance)

    def estimate(self, X: Tensor) -> Tensor:
        r"""The most likely latent, or the posterior mean; arguments as of :meth:`upper`."""
        model = self.model
        if isinstance(model, LikelihoodRatioModel):
            return self._likely(model, X.to(model.items.dtype))
        return self._moments(model, X)[0]

    def log_probability(self, latent: Tensor) -> Tensor:
        r"""``log P(accept)`` of ``...``-dim latents, finite also where it is nearly 0."""
        return link_of(self.model).log_cdf(latent)

    def _likely(self, model: LikelihoodRatioModel, X: Tensor) -> Tensor:
        if self.x_ref is None:
            return model.mle(X)
        first, second = model.mle(self._pairs(X)).unbind(dim=-1)
        return first - second

    def _largest(self, model: LikelihoodRatioModel, X: Tensor) -> Tensor:
        """Each from the last solution of a batch of this shape, where the two are near."""
        if self.tolerance == math.inf:
            return model.rough_upper(X, self.x_ref)
        start = usable_start(self._last, model, X.shape[:-1])
        if self.x_ref is not None:
            pairs = self._pairs(X)
            bound = model.advantage_bound(pairs, tolerance=self.tolerance, start=start)
        else:
            functional = model.functionals().value(X, model.checked_inputs(X))
            found = model.confidence_set.upper(*functional, tolerance=self.tolerance, start=start)
            bound = model.certified(found)
        self._last = Bound(*(part.detach() for part in bound))
        if self.x_ref is None and model.box is not None:
            return bound.value.clamp(-model.box, model.box)
        return bound.value

    def _moments(self, model: LaplaceGP, X: Tensor) -> tuple[Tensor, Tensor]:
        if self.x_ref is not None:
            return difference_moments(model, self._pairs(X))
        normal = model.posterior(X.unsqueeze(-2)).distribution
        variance = normal.lazy_covariance_matrix.diagonal(dim1=-2, dim2=-1)
        return normal.mean.squeeze(-1), variance.squeeze(-1).clamp_min(0.0)

    def _pairs(self, X: Tensor) -> Tensor:
        reference = cast(Tensor, self.x_ref).to(X)
        return torch.stack([X, reference.expand_as(X)], dim=-2)
