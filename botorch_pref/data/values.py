r"""Measured utilities as tensors, validated once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from botorch_pref.data.blocks import Block, BlockData
from botorch_pref.data.checks import Check, check_columns, finite, refuse
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.likelihoods import BernoulliLikelihood, StandardNormal


@dataclass(frozen=True, eq=False)
class Values(BlockData):
    r"""Items whose utility was measured, with noise.

    The constructor broadcasts the batch shapes. Gradients of items are kept; measurements
    and their variances are constants.

    Args:
        datapoints: A ``batch_shape x n x d``-dim tensor of items.
        targets: A ``batch_shape x n x 1``-dim tensor of measured utilities.
        variances: A ``batch_shape x n x 1``-dim tensor of the known variances of the noise,
            in squared units of the targets; None where these are not known.
        names: What messages call the three.

    Raises:
        ComparisonDataError: If an argument has a wrong shape, type or device, or a row with
            NaN or infinite entries, or a variance that is not positive. Names argument and row.
    """

    _dims: ClassVar = {"datapoints": 2, "targets": 2, "variances": 2}
    datapoints: Tensor
    targets: Tensor
    variances: Tensor | None = None
    names: tuple[str, str, str] = ("X", "Y", "Yvar")

    def __post_init__(self) -> None:
        items, targets, variances = self.names
        columns = {targets: self.targets}
        if self.variances is not None:
            columns[variances] = self.variances
        check_columns(items, self.datapoints, columns)
        checks = [finite(items, self.datapoints), *(finite(*column) for column in columns.items())]
        if self.variances is not None:
            bad = self.variances.squeeze(-1) <= 0
            checks.append(Check(variances, self.variances, bad, "a variance is positive"))
            object.__setattr__(self, "variances", self.variances.detach())
        refuse(*checks)
        object.__setattr__(self, "targets", self.targets.detach())
        self._broadcast(dict(zip(self._dims, self.names, strict=True)))

    @classmethod
    def from_argument(cls, values: Any) -> Values:
        """Those of a model's argument ``values``: ``(X, Y)``, ``(X, Y, Yvar)`` or the like.

        Raises:
            ComparisonDataError: If it is anything else, or as the constructor.
        """
        if isinstance(values, cls):
            return values
        if not isinstance(values, tuple | list) or len(values) not in (2, 3):
            raise ComparisonDataError("`values` must be (X, Y) or (X, Y, Yvar).")
        X, Y, Yvar = (*values, None)[:3]
        return cls(X, Y, Yvar, ("values[0]", "values[1]", "values[2]"))

    def blocks(self, likelihood: BernoulliLikelihood, learnt: Any = None) -> list[Block]:
        r"""One observation a measurement, of its residual in units of its standard deviation.

        The prior of the items is to be in these units, ``(f - y) / sd`` for a utility ``f``. The
        link is not used.
        """
        zero = torch.zeros_like(self.targets.squeeze(-1))
        return [self._item_block(zero, StandardNormal())]
