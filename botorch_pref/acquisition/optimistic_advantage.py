r"""POP-BO's rules: the largest advantage that the answers allow, over one item or over several."""

from __future__ import annotations

from typing import Any, cast

from botorch.models.model import Model
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from botorch_pref.acquisition.base import ItemAcquisitionFunction
from botorch_pref.acquisition.utils import ConfidenceSetModel, checked_item
from botorch_pref.data.checks import checked_positive
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.likelihood_ratio.confidence_set import FINAL


class OptimisticAdvantage(ItemAcquisitionFunction):
    r"""``max f(x) - f(x_ref)`` over all ``f`` in a likelihood-ratio confidence set.

    Xu et al. (2024), *Principled Preferential Bayesian Optimization*, problem (24). All
    points of a batch are solved together, each from the solution of the last call of that
    batch where the two are near. The gradient is that of the maximising function held fixed
    (the envelope theorem): nothing is differentiated through the solver.

    The value has a kink at every item that was asked, a local minimum at ``x_ref``, and
    plateaus far from all items: use several restarts and many raw samples.

    Example:
        >>> rule = OptimisticAdvantage(model, x_ref=last_item)
        >>> item, _ = optimize_acqf(rule, bounds, q=1, num_restarts=4, raw_samples=256)
    """

    x_ref: Tensor

    def __init__(self, model: Model, x_ref: Tensor, *, tolerance: float = FINAL) -> None:
        r"""Set the other arm.

        Args:
            model: A :class:`~botorch_pref.models.LikelihoodRatioModel`.
            x_ref: ``d``-dim item that the advantage is over.
            tolerance: The gap to stop at, in the units of the utility. 1e-6 is enough for
                a line search, 1e-4 for a comparison of raw samples.

        Raises:
            ComparisonDataError: If ``x_ref`` is not one item, or ``tolerance`` not positive.
            UnsupportedError: If it is another model.
        """
        super().__init__(model=_checked_model(model))
        self.tolerance = checked_positive("tolerance", tolerance)
        self.register_buffer("x_ref", checked_item(model, "x_ref", x_ref))

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """The ``b``-dim advantages of ``b x 1 x d``-dim items, in the units of the utility."""
        model = cast(ConfidenceSetModel, self.model)
        found = model.bound(X.squeeze(-2), self.x_ref, tolerance=self.tolerance)
        return cast(Tensor, found.value)


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

    def __init__(self, model: Model, opponents: Tensor, *, tolerance: float = FINAL) -> None:
        r"""Set the opponents.

        Args:
            model: A :class:`~botorch_pref.models.LikelihoodRatioModel`.
            opponents: ``J x d``-dim items; they become items of a copy of the model.
            tolerance: The gap to stop at, in the units of the utility.

        Raises:
            ComparisonDataError: If ``opponents`` are no such table.
            UnsupportedError: If it is another model.
        """
        super().__init__(model=_checked_model(model).with_items(opponents))
        self.tolerance = checked_positive("tolerance", tolerance)
        self.register_buffer("opponents", opponents.detach().clone())

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """The ``b``-dim advantages of ``b x 1 x d``-dim items, in the units of the utility."""
        model = cast(ConfidenceSetModel, self.model)
        opponents = self.opponents.to(model.items)
        found = model.advantage_over_all(X.squeeze(-2), opponents, tolerance=self.tolerance)
        return cast(Tensor, found.value)


def _checked_model(model: Model) -> Any:
    if isinstance(model, ConfidenceSetModel):
        return model
    raise UnsupportedError(f"`model` must be a LikelihoodRatioModel, not {type(model)}.")
