r"""A rule for pairs, seen as a rule for points with twice the columns."""

from __future__ import annotations

from botorch.acquisition import AcquisitionFunction
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from botorch_pref.acquisition.base import PairAcquisitionFunction
from botorch_pref.exceptions import ComparisonDataError


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
                BoTorch's EUBO; ``qExpectedUtilityOfBestOption`` for several pairs, as the
                analytic one refuses pending points.
        """
        super().__init__(model=acq_function.model)
        self.acq_function = acq_function
        self._pending: Tensor | None = None

    @property  # type: ignore[override]
    def X_pending(self) -> Tensor | None:
        """``k x 2d``-dim pairs that are pending, or ``None``."""
        return self._pending

    @X_pending.setter
    def X_pending(self, value: Tensor | None) -> None:
        self.set_X_pending(value)

    @t_batch_mode_transform()  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        r"""Evaluate the wrapped rule.

        Args:
            X: ``b x q x 2d``-dim pairs; BoTorch also evaluates all ``q`` pairs that it chose one
                by one.

        Returns:
            ``b``-dim values, the sum over the ``q`` pairs.
        """
        if X.shape[-1] % 2:
            raise ComparisonDataError(f"`X` must be b x q x 2d pairs, got {tuple(X.shape)}.")
        pairs = X.reshape(-1, 2, X.shape[-1] // 2)
        return self.acq_function(pairs).view(X.shape[:-1]).sum(-1)

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        r"""Take ``k x 2d``-dim pending pairs into account, as the wrapped rule does."""
        self._pending = None if X_pending is None else X_pending.detach().clone()
        pairs = None
        if self._pending is not None:
            pairs = self._pending.reshape(-1, 2, self._pending.shape[-1] // 2)
        if isinstance(self.acq_function, PairAcquisitionFunction):
            self.acq_function.set_pending_pairs(pairs)
        else:  # BoTorch's own rules know pending points
            points = None if pairs is None else pairs.flatten(end_dim=1)
            self.acq_function.set_X_pending(points)
