r"""The latent of an expert's labels: an estimate, an optimistic bound, and that bound as a rule."""

from __future__ import annotations

import math
from typing import cast

import torch
from botorch.models.model import Model
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from botorch_pref.acquisition.base import ItemAcquisitionFunction
from botorch_pref.acquisition.utils import ConfidenceSetModel, checked_item, checked_set
from botorch_pref.data.checks import checked_positive
from botorch_pref.likelihood_ratio.confidence_set import FINAL


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
            label_model: A :class:`~botorch_pref.models.LikelihoodRatioModel`.
            x_ref: ``d``-dim item that the latent is compared with, as compared pairs determine it
                up to a constant only; None for the latent itself.
            tolerance: The gap to which bounds are solved, in logits; with infinity none is
                solved, but approximated.

        Raises:
            ComparisonDataError: If an option is out of range.
            UnsupportedError: If it is another model.
        """
        super().__init__(model=checked_set("label_model", label_model))
        rough = tolerance == math.inf
        self.tolerance = tolerance if rough else checked_positive("tolerance", tolerance)
        known = None if x_ref is None else checked_item(label_model, "x_ref", x_ref)
        self.register_buffer("x_ref", known)

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """``b``-dim latents, in logits, of ``b x 1 x d``-dim items."""
        return self.upper(X.squeeze(-2))

    def upper(self, X: Tensor) -> Tensor:
        r"""The optimistic end: the largest latent of the set.

        Args:
            X: ``... x d``-dim items.

        Returns:
            ``...``-dim latents in logits (divided by the link's scale); once differentiable, with
            the maximising function held fixed (the envelope theorem).
        """
        model = cast(ConfidenceSetModel, self.model)
        X = X.to(model.items.dtype)
        if self.tolerance == math.inf:
            return model.rough_upper(X, self.x_ref)
        return cast(Tensor, model.bound(X, self.x_ref, tolerance=self.tolerance).value)

    def estimate(self, X: Tensor) -> Tensor:
        r"""The most likely latent; arguments as of :meth:`upper`."""
        model = cast(ConfidenceSetModel, self.model)
        X = X.to(model.items.dtype)
        if self.x_ref is None:
            return model.mle(X)
        pairs = torch.stack([X, self.x_ref.to(X).expand_as(X)], dim=-2)
        first, second = model.mle(pairs).unbind(dim=-1)
        return first - second
