r"""A rule for pairs, seen as a rule for points with twice the columns."""

from __future__ import annotations

from botorch.acquisition import AcquisitionFunction
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from botorch_pref.acquisition.base import PairAcquisitionFunction


class PairAsPoint(AcquisitionFunction):
    r"""``q=1`` over ``2d`` columns ``[x, x']`` instead of ``q=2`` over ``d``.

    BoTorch's sequential, mixed and discrete optimizers choose points one by one; under
    this wrapper they choose pairs one by one. Bounds and choices are those of a pair,
    for instance ``torch.cat([bounds, bounds], dim=-1)``.

    Example:
        >>> rule = PairAsPoint(DuelingThompsonSampling(model))
        >>> pairs, _ = optimize_acqf(rule, bounds.repeat(1, 2), q=3, sequential=True, ...)
        >>> pairs.view(3, 2, d)
    """

    def __init__(self, acq_function: AcquisitionFunction) -> None:
        r"""Wrap a rule.

        Args:
            acq_function: A rule for ``b x 2 x d``-dim pairs: one of this package, or
                BoTorch's EUBO.
        """
        super().__init__(model=acq_function.model)
        self.acq_function = acq_function
        super().set_X_pending(None)

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        r"""Evaluate the wrapped rule.

        Args:
            X: ``b x 1 x 2d``-dim pairs.

        Returns:
            ``b``-dim values.
        """
        return self.acq_function(X.reshape(*X.shape[:-2], 2, X.shape[-1] // 2))

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        r"""Take pending pairs into account, as the wrapped rule does.

        Args:
            X_pending: ``k x 2d``-dim pairs, or ``None``.
        """
        super().set_X_pending(X_pending)
        pairs = None
        if self.X_pending is not None:
            pairs = self.X_pending.reshape(-1, 2, self.X_pending.shape[-1] // 2)
        if isinstance(self.acq_function, PairAcquisitionFunction):
            self.acq_function.set_pending_pairs(pairs)
        else:  # BoTorch's own rules know pending points
            points = None if pairs is None else pairs.flatten(end_dim=1)
            self.acq_function.set_X_pending(points)
