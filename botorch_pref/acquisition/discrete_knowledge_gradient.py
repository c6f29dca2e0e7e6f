r"""The knowledge gradient of a measured value."""

from __future__ import annotations

from collections.abc import Sequence

from botorch.models.model import Model
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from botorch_pref.acquisition.base import ItemAcquisitionFunction
from botorch_pref.acquisition.expected_gain import expected_gain
from botorch_pref.acquisition.knowledge_gradient import (
    REPEATS,
    KnowledgeGradient,
    Moments,
    Project,
)
from botorch_pref.exceptions import ComparisonDataError

_NO_VARIANCE = 1e-16


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

    _instead = (
        "chooses one item at a time and has no pending points. Condition the model on what is "
        "pending (condition_on_pairs, condition_on_values) and build the rule on the new model."
    )

    def __init__(
        self,
        model: Model,
        reference: Tensor,
        *,
        noise: float,
        project: Project | None = None,
        repeats: Sequence[int] = REPEATS,
    ) -> None:
        r"""Fix what may be best, and the noise.

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
            observed = (variance + self.noise / number).clamp_min(_NO_VARIANCE)
            gains.append(expected_gain(moments.mean, cross / observed.sqrt()))
        return gains
