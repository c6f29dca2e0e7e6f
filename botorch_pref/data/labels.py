r"""Accepted and rejected items as tensors, validated once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from botorch_pref.data.blocks import Block, BlockData
from botorch_pref.data.checks import Check, check_columns, finite, refuse
from botorch_pref.likelihoods import BernoulliLikelihood


@dataclass(frozen=True, eq=False)
class Labels(BlockData):
    r"""Items that were accepted or rejected.

    Args:
        datapoints: A ``batch_shape x n x d``-dim tensor of items.
        labels: A ``batch_shape x n x 1``-dim tensor: 1 accept, 0 reject, 0.5 undecided.
        names: What messages call the two: the names of a caller's arguments.

    Raises:
        ComparisonDataError: If an argument has a wrong shape, type or device, or a row with
            NaN or infinite items, or another label. Names argument and row.
    """

    _dims: ClassVar = {"datapoints": 2, "labels": 2}
    datapoints: Tensor
    labels: Tensor
    names: tuple[str, str] = ("datapoints", "labels")

    def __post_init__(self) -> None:
        items, labels = self.names
        check_columns(items, self.datapoints, {labels: self.labels})
        self._broadcast(dict(zip(self._dims, self.names, strict=True)))
        values = self.labels.squeeze(-1)
        known = (values == 0) | (values == 0.5) | (values == 1)
        reason = "a label is 1 (accept), 0 (reject) or 0.5 (undecided)"
        refuse(finite(items, self.datapoints), Check(labels, values, ~known, reason))

    def blocks(self, likelihood: BernoulliLikelihood, learnt: Any = None) -> list[Block]:
        """One observation a label, of the utility of its item; see the base class."""
        return [self._item_block(self.labels.squeeze(-1), likelihood)]
