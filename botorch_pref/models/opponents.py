r"""What an item may be better by than each of several others."""

from __future__ import annotations

from torch import Tensor

from botorch_pref.data.blocks import match_items
from botorch_pref.data.checks import Check, check_items, refuse
from botorch_pref.likelihood_ratio import FINAL
from botorch_pref.likelihood_ratio.minimax import LeastAdvantage, least_advantage
from botorch_pref.models.likelihood_ratio import LikelihoodRatioModel


def advantage_over_all(
    model: LikelihoodRatioModel, X: Tensor, opponents: Tensor, *, tolerance: float = FINAL
) -> LeastAdvantage:
    r"""``max min_j f(x) - f(x_j)`` over the set, Xu et al. (2024), problem (101) of App. I.

    Args:
        model: The confidence set.
        X: ``... x d``-dim points.
        opponents: ``J x d``-dim items of the model; see
            :meth:`~botorch_pref.models.judged_items.JudgedItems.with_items`.
        tolerance: The gap to stop at, in units of the utility.

    Returns:
        The ``...``-dim advantages, once differentiable in ``X`` (the envelope theorem), each
        with a certified gap.

    Raises:
        ComparisonDataError: If ``X`` or ``opponents`` has another shape or is not finite, or
            an opponent is no item of the model.
    """
    check_items("opponents", opponents, "J", model.items.shape[-1], batch=False)
    rows, _ = match_items(model.items, opponents)
    unknown = rows >= len(model.items)
    refuse(Check("opponents", opponents, unknown, "it is no item of the model"))
    points = model.functionals()
    a, s = points.value(X, model.checked_inputs(X))
    return least_advantage(
        model.confidence_set, a.unsqueeze(-2) - points.whitening.root[rows], s, tolerance=tolerance
    )
