r"""Measured utilities as tensors, validated once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Size, Tensor

from botorch_pref.data.blocks import ITEM, Block
from botorch_pref.data.checks import (
    Check,
    check_items,
    check_like,
    check_shape,
    common_batch_shape,
    finite,
    refuse,
)
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.likelihoods import StandardNormal

_ROW_NAMES = ("X", "Y", "Yvar")
_ARGUMENT_NAMES = ("values[0]", "values[1]", "values[2]")


@dataclass(frozen=True, eq=False)
class Values:
    r"""Items whose utility was measured, with noise.

    The constructor broadcasts the batch shapes. Gradients of items are kept; measurements
    and their variances are constants.

    Args:
        items: A ``batch_shape x n x d``-dim tensor of items.
        targets: A ``batch_shape x n x 1``-dim tensor of measured utilities.
        variances: A ``batch_shape x n x 1``-dim tensor of the known variances of the noise,
            in squared units of the targets; None where these are not known.
        names: What messages call the three.

    Raises:
        ComparisonDataError: If an argument has a wrong shape, type or device, or a row with
            NaN or infinite entries, or a variance that is not positive. Names argument and row.
    """

    items: Tensor
    targets: Tensor
    variances: Tensor | None = None
    names: tuple[str, str, str] = _ROW_NAMES

    def __post_init__(self) -> None:
        items, targets, variances = self.names
        check_items(items, self.items, "n", "d")
        columns = {targets: self.targets}
        if self.variances is not None:
            columns[variances] = self.variances
        shapes, checks = {items: self.items.shape[:-2]}, [finite(items, self.items)]
        for name, value in columns.items():
            check_shape(name, value, self.items.shape[-2], 1)
            check_like(name, value, self.items)
            shapes[name] = value.shape[:-2]
            checks.append(finite(name, value))
        if self.variances is not None:
            bad = self.variances.squeeze(-1) <= 0
            checks.append(Check(variances, self.variances, bad, "a variance is positive"))
        refuse(*checks)
        self._set(common_batch_shape(**shapes))

    @classmethod
    def unchecked(cls, items: Tensor, targets: Tensor, variances: Tensor | None) -> Values:
        """Builds from fields of one batch shape known to be valid: no check, no warning."""
        new = object.__new__(cls)
        fields = {"items": items, "targets": targets, "variances": variances}
        for name, value in (*fields.items(), ("names", _ROW_NAMES)):
            object.__setattr__(new, name, value)
        return new

    @classmethod
    def from_argument(cls, values: Any) -> Values | None:
        """Those of a model's argument ``values``: ``(X, Y)``, ``(X, Y, Yvar)`` or the like.

        Raises:
            ComparisonDataError: If it is anything else, or as the constructor.
        """
        if values is None or isinstance(values, cls):
            return values
        if not isinstance(values, tuple | list) or len(values) not in (2, 3):
            raise ComparisonDataError("`values` must be (X, Y) or (X, Y, Yvar).")
        return cls(*values, names=_ARGUMENT_NAMES)  # type: ignore[misc]  # two or three

    @property
    def batch_shape(self) -> Size:
        """The batch shape, which all fields share."""
        return self.items.shape[:-2]

    @property
    def num_values(self) -> int:
        """The number ``n`` of measurements."""
        return self.items.shape[-2]

    def expand(self, batch_shape: Size) -> Values:
        """The same measurements in every element of a larger batch; copies nothing."""
        new = self.unchecked(self.items, self.targets, self.variances)
        new._set(batch_shape)
        return new

    def append(self, other: Values) -> Values:
        """These measurements and then others; batch shapes are broadcast.

        Raises:
            ComparisonDataError: If the others have items of another size, type or device, or
                only one of the two knows variances.
        """
        other.check_items_like(self.items)
        if (self.variances is None) != (other.variances is None):
            reason = "was not given, but is for" if other.variances is None else "is not for"
            raise ComparisonDataError(f"`{other.names[2]}` {reason} the values already there.")
        shapes = {"values": self.batch_shape, other.names[0]: other.batch_shape}
        batch = common_batch_shape(**shapes)
        old, new = self.expand(batch), other.expand(batch)
        variances = None
        if old.variances is not None and new.variances is not None:
            variances = torch.cat([old.variances, new.variances], dim=-2)
        items = torch.cat([old.items, new.items], dim=-2)
        targets = torch.cat([old.targets, new.targets], dim=-2)
        return self.unchecked(items, targets, variances)

    def block(self, first: int = 0) -> Block:
        r"""One observation a measurement, of its residual in units of its standard deviation.

        The prior of the items is to be in these units, ``(f - y) / sd`` for a utility ``f``.

        Args:
            first: The number of the first item among the items of inference.
        """
        weight = torch.ones_like(self.targets.squeeze(-1))
        rows = torch.arange(first, first + self.num_values, device=weight.device)
        rows = rows.expand(weight.shape).unsqueeze(-1)
        return Block(rows, ITEM, torch.zeros_like(weight), weight, StandardNormal())

    def check_items_like(self, like: Tensor) -> None:
        """Checks that the items could be stored with ``... x d``-dim others.

        Raises:
            ComparisonDataError: If their size, type or device differ.
        """
        check_shape(self.names[0], self.items, "n", like.shape[-1])
        check_like(self.names[0], self.items, like)

    def _set(self, batch: Size) -> None:
        """Broadcasts the fields."""
        for name in ("items", "targets", "variances"):
            value: Tensor | None = getattr(self, name)
            if value is not None:
                value = value if name == "items" else value.detach()
                object.__setattr__(self, name, value.expand(*batch, *value.shape[-2:]))
