r"""The knowledge gradient of a measured value."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from botorch.models.model import Model
from botorch.utils.probability.utils import phi
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from botorch_pref.acquisition.base import ItemAcquisitionFunction
from botorch_pref.acquisition.knowledge_gradient import (
    NO_VARIANCE,
    REPEATS,
    KnowledgeGradient,
    Moments,
    Project,
    relative_to_best,
)
from botorch_pref.exceptions import ComparisonDataError


class DiscreteKnowledgeGradient(KnowledgeGradient, ItemAcquisitionFunction):
    r"""Expected growth of the largest posterior mean by a value of ``x``.

    With ``n`` values of noise ``s^2``, posterior means move along one direction,

        ``mean_j + cov(f_j, f(x)) / sqrt(var f(x) + s^2 / n) Z``,

    so the gain over the reference and ``x`` itself is exact (Frazier, Powell and Dayanik 2009;
    with ``x`` free: Scott, Frazier and Powell 2011). The same unit as
    :class:`~botorch_pref.acquisition.DuelingKnowledgeGradient`, with which it is compared at equal
    cost.

    Example:
        >>> rule = DiscreteKnowledgeGradient(model, reference, noise=1e-4)
        >>> item, gain = optimize_acqf(rule, bounds, q=1, num_restarts=4, raw_samples=128)
    """

    def __init__(
        self,
        model: Model,
        reference: Tensor,
        *,
        noise: float,
        project: Project | None = None,
        repeats: Sequence[int] = REPEATS,
    ) -> None:
        r"""Set the candidates for the best item, and the noise.

        Args:
            model: See :class:`~botorch_pref.acquisition.knowledge_gradient.KnowledgeGradient`.
            reference: ``M x d``-dim items.
            noise: ``s^2``, the variance of the noise of one value, in squared units of the
                utility; at least 0.
            project: See the base class.
            repeats: See the base class.

        Raises:
            ComparisonDataError: If an argument is out of range.
            UnsupportedError: If the model is batched, or has several outputs.
        """
        super().__init__(model, reference, project=project, repeats=repeats)
        if not 0 <= noise < float("inf"):
            raise ComparisonDataError(f"`noise` must be at least 0 and finite, not {noise!r}.")
        self.noise = float(noise)

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        r"""The gain per value.

        Args:
            X: ``b x 1 x d``-dim items.

        Returns:
            ``b``-dim gains, in units of the utility.
        """
        return self.per_answer(X)

    def _gains(self, X: Tensor, moments: Moments) -> list[Tensor]:
        variance, cross = moments.asked[..., 0], moments.cross[..., 0]
        gains = []
        for number in self.repeats:
            observed = (variance + self.noise / number).clamp_min(NO_VARIANCE)
            gains.append(expected_gain(moments.mean, cross / observed.sqrt()))
        return gains


def expected_gain(intercepts: Tensor, slopes: Tensor) -> Tensor:
    r"""``E[max_j (a_j + b_j Z)] - max_j a_j`` for a standard normal ``Z``, exactly.

    The upper envelope of Frazier, Powell and Dayanik, *The Knowledge-Gradient Policy for
    Correlated Normal Beliefs* (2009), without their sequential search: line ``j`` is the largest
    between the last crossing with a flatter line and the first one with a steeper line. The
    gradient is exact: by the envelope theorem the ends of that interval need none.

    Args:
        intercepts: ``... x M``-dim ``a``.
        slopes: ``... x M``-dim ``b``.

    Returns:
        ``...``-dim gains, not negative.
    """
    a, b = relative_to_best(intercepts, slopes)
    with torch.no_grad():
        lower, upper = _intervals(a, b)
        # In an interval beyond 0 the probabilities of the other tail keep their digits.
        flip = lower > 0
        near, far = torch.where(flip, -upper, lower), torch.where(flip, -lower, upper)
        probability = (_normal_cdf(far) - _normal_cdf(near)).clamp_min(0.0)
        density = torch.where(upper > lower, phi(lower) - phi(upper), 0.0)
    return (probability * a + density * b).sum(-1).clamp_min(0.0)


def _intervals(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The interval in which each line is above all others; ``(0, 0)`` if there is none."""
    fall = a.unsqueeze(-2) - a.unsqueeze(-1)  # a_k - a_j at [j, k]
    rise = b.unsqueeze(-1) - b.unsqueeze(-2)  # b_j - b_k
    crossing = fall / torch.where(rise == 0, 1.0, rise)
    lower = torch.where(rise > 0, crossing, -torch.inf).amax(-1)
    upper = torch.where(rise < 0, crossing, torch.inf).amin(-1)
    # Of parallel lines the highest one counts, of equal ones the first.
    index = torch.arange(a.shape[-1], device=a.device)
    earlier = index < index.unsqueeze(-1)  # k before j
    below = (rise == 0) & ((fall > 0) | ((fall == 0) & earlier))
    empty = below.any(-1) | (upper <= lower)
    return lower.masked_fill(empty, 0.0), upper.masked_fill(empty, 0.0)


def _normal_cdf(value: Tensor) -> Tensor:
    """More exact in the lower tail than ``torch.special.ndtr``."""
    return 0.5 * torch.special.erfc(-value / 2**0.5)
