r"""The latent of an expert's labels: an estimate, an optimistic bound, and that bound as a rule."""

from __future__ import annotations

import math
from typing import cast

import torch
from botorch.models.model import Model
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from botorch_pref.acquisition.base import ItemAcquisitionFunction
from botorch_pref.acquisition.utils import (
    ConfidenceSetModel,
    checked_item,
    difference_moments,
    marginal_moments,
)
from botorch_pref.data.checks import checked_positive
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.kernels.items import safe_deviation
from botorch_pref.likelihood_ratio.confidence_set import FINAL
from botorch_pref.likelihoods import link_of


class OptimisticAcceptance(ItemAcquisitionFunction):
    r"""``upper(x)``, the largest latent that an expert's labels allow.

    The latent is positive where accepting is more likely. This is the limit of
    :class:`ExpertAugmentedLCB` for a large weight, and the slack of the constraint
    ``upper(x) >= 0`` of Xu et al. (2024b), Alg. 2.

    Example:
        >>> item, _ = optimize_acqf(OptimisticAcceptance(labels), bounds, q=1, ...)
    """

    x_ref: Tensor | None

    def __init__(
        self, label_model: Model, *, x_ref: Tensor | None = None, tolerance: float = FINAL
    ) -> None:
        r"""Set the model and the reference.

        Args:
            label_model: A :class:`~botorch_pref.models.LikelihoodRatioModel`, or one with a
                Gaussian latent and a link: :class:`~botorch_pref.models.BernoulliGP`,
                :class:`~botorch_pref.models.PreferenceGP` or BoTorch's ``PairwiseGP``.
            x_ref: ``d``-dim item that the latent is compared with, as compared pairs determine it
                up to a constant only; None for the latent itself.
            tolerance: The gap to which bounds are solved, in logits; with infinity none is
                solved, but approximated.

        Raises:
            ComparisonDataError: If an option is out of range.
            UnsupportedError: If the model has no link.
        """
        super().__init__(model=label_model)
        try:
            link_of(label_model)
        except UnsupportedError as error:
            raise UnsupportedError(
                "`label_model` must be a model of answers, such as LikelihoodRatioModel, "
                f"BernoulliGP or PreferenceGP, not {type(label_model)}."
            ) from error
        rough = tolerance == math.inf
        self.tolerance = tolerance if rough else checked_positive("tolerance", tolerance)
        known = None if x_ref is None else checked_item(label_model, "x_ref", x_ref)
        self.register_buffer("x_ref", known)

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """``b``-dim latents, in logits, of ``b x 1 x d``-dim items."""
        return self.upper(X.squeeze(-2))

    def upper(self, X: Tensor) -> Tensor:
        r"""The optimistic end: the largest latent of the set, or mean plus deviation.

        Args:
            X: ``... x d``-dim items.

        Returns:
            ``...``-dim latents in logits (divided by the link's scale); once differentiable, with
            the maximising function held fixed (the envelope theorem).
        """
        model = self.model
        if not isinstance(model, ConfidenceSetModel):
            mean, variance = self._moments(X)
            return mean + safe_deviation(variance)
        X = X.to(model.items.dtype)
        if self.tolerance == math.inf:
            return model.rough_upper(X, self.x_ref)
        return cast(Tensor, model.bound(X, self.x_ref, tolerance=self.tolerance).value)

    def estimate(self, X: Tensor) -> Tensor:
        r"""The most likely latent, or the posterior mean; arguments as of :meth:`upper`."""
        model = self.model
        if not isinstance(model, ConfidenceSetModel):
            return self._moments(X)[0]
        X = X.to(model.items.dtype)
        if self.x_ref is None:
            return model.mle(X)
        first, second = model.mle(self._pairs(X)).unbind(dim=-1)
        return first - second

    def _moments(self, X: Tensor) -> tuple[Tensor, Tensor]:
        if self.x_ref is not None:
            return difference_moments(self.model, self._pairs(X))
        mean, variance = marginal_moments(self.model, X.unsqueeze(-2))
        return mean.squeeze(-1), variance.squeeze(-1)

    def _pairs(self, X: Tensor) -> Tensor:
        reference = cast(Tensor, self.x_ref).to(X)
        return torch.stack([X, reference.expand_as(X)], dim=-2)
