r"""POP-BO's index on the shared model: an optimistic advantage over one item."""

from __future__ import annotations

import torch
from botorch.models.model import Model
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from botorch_pref.acquisition.base import ItemAcquisitionFunction
from botorch_pref.acquisition.utils import checked_item, difference_moments
from botorch_pref.data.checks import checked_nonnegative
from botorch_pref.kernels.items import safe_deviation


class AdvantageUCB(ItemAcquisitionFunction):
    r"""``E[f(x) - f(x_ref)] + beta sd(f(x) - f(x_ref))``, zero at ``x = x_ref``.

    The rule of Xu et al. (2024), POP-BO, with a Gaussian posterior in place of a
    likelihood-ratio set, as Lazzaro et al. (2026) run it; on the utility's scale.

    Example:
        >>> rule = AdvantageUCB(model, x_ref=last_item, beta=1.0)
        >>> item, _ = optimize_acqf(rule, bounds, q=1, num_restarts=4, raw_samples=256)
    """

    x_ref: Tensor

    def __init__(self, model: Model, x_ref: Tensor, beta: float) -> None:
        r"""Set the other arm.

        Args:
            model: A model of the utility; :class:`~botorch_pref.models.PreferenceGP`, or any
                other with a joint ``posterior``.
            x_ref: ``d``-dim item that the advantage is over.
            beta: Multiplies the model's standard deviation; at least 0. With the papers'
                unit-scale ``sigma`` it is their ``beta`` times ``sqrt(lambda)``, where
                ``lambda`` is one over the output scale.

        Raises:
            ComparisonDataError: If ``x_ref`` is not one item, or ``beta`` is negative.
        """
        super().__init__(model=model)
        self.beta = checked_nonnegative("beta", beta)
        self.register_buffer("x_ref", checked_item(model, "x_ref", x_ref))

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """The ``b``-dim bounds of ``b x 1 x d``-dim items, in the units of the utility."""
        pairs = torch.cat([X, self.x_ref.expand_as(X)], dim=-2)
        mean, variance = difference_moments(self.model, pairs)
        return mean + self.beta * safe_deviation(variance)
