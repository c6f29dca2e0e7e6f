r"""What the rules that choose a whole pair share."""

from __future__ import annotations

from abc import abstractmethod

from botorch.acquisition import AcquisitionFunction
from torch import Tensor

from botorch_pref.exceptions import UnsupportedError


class PairAcquisitionFunction(AcquisitionFunction):
    r"""A rule whose value belongs to a pair, ``b x 2 x d``, maximised with ``q=2``.

    The two items of a pair are one query, so BoTorch's pending *points* mean nothing
    here; pending *pairs* do, and reach a rule through
    :class:`~botorch_pref.acquisition.PairAsPoint`.
    """

    @property  # type: ignore[override]
    def X_pending(self) -> Tensor | None:
        """Always ``None``."""
        return None

    @X_pending.setter
    def X_pending(self, value: Tensor | None) -> None:
        self.set_X_pending(value)

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        r"""Refuse pending points.

        Raises:
            UnsupportedError: If ``X_pending`` is not ``None``.
        """
        if X_pending is not None:
            raise UnsupportedError(
                f"{type(self).__name__} chooses pairs and has no pending points. Wrap it "
                "in PairAsPoint, under which a pending point is a pending pair."
            )

    @abstractmethod
    def set_pending_pairs(self, pairs: Tensor | None) -> None:
        r"""Take ``k x 2 x d``-dim pairs that are asked but not answered into account."""
