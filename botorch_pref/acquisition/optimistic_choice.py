r"""POP-BO's rule where several items are shown at once."""

from __future__ import annotations

from typing import Any, cast

from botorch.models.model import Model
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from botorch_pref.acquisition.base import (
    TOLERANCE,
    ConfidenceSetModel,
    ItemAcquisitionFunction,
    as_confidence_set,
)
from botorch_pref.data.checks import checked_positive


class OptimisticChoice(ItemAcquisitionFunction):
    r"""``max min_j f(x) - f(x_j)`` over all ``f`` in a likelihood-ratio confidence set.

    The largest advantage of an item over every one of its opponents: Xu et al. (2024), App. I,
    problem (101), of which :class:`OptimisticAdvantage` is the case of one opponent. The
    gradient is that of the maximising function held fixed.

    Example:
        >>> rule = OptimisticChoice(model, opponents=shown)
        >>> item, _ = optimize_acqf(rule, bounds, q=1, num_restarts=4, raw_samples=256)
    """

    opponents: Tensor

    def __init__(self, model: Model, opponents: Tensor, *, tolerance: float = TOLERANCE) -> None:
        r"""Set the opponents.

        Args:
            model: A :class:`~botorch_pref.models.LikelihoodRatioModel`.
            opponents: ``J x d``-dim items; they become items of a copy of the model.
            tolerance: The gap to stop at, in the units of the utility.

        Raises:
            ComparisonDataError: If ``opponents`` are no such table.
            UnsupportedError: If it is another model.
        """
        as_confidence_set("model", model)
        super().__init__(model=cast(Any, model).with_items(opponents))
        self.tolerance = checked_positive("tolerance", tolerance)
        self.register_buffer("opponents", opponents.detach().clone())

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        r"""The largest least advantage.

        Args:
            X: ``b x 1 x d``-dim items.

        Returns:
            ``b``-dim values, in the units of the utility; attained in the set.
        """
        model = cast(ConfidenceSetModel, self.model)
        opponents = self.opponents.to(model.items)
        found = model.advantage_over_all(X.squeeze(-2), opponents, tolerance=self.tolerance)
        value: Tensor = found.value
        return value
