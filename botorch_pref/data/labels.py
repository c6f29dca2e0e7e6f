r"""Accepted and rejected items as tensors, validated once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_pref.data.blocks import ITEM, Block, BlockLikelihood
from botorch_pref.data.checks import (
    Check,
    check_items,
    check_like,
    check_shape,
    common_batch_shape,
    finite,
    refuse,
)


@dataclass(frozen=True, eq=False)
class Labels:
    r"""Items with a verdict each.

    Args:
        items: A ``batch_shape x n x d``-dim tensor of items.
        labels: A ``batch_shape x n x 1``-dim tensor: 1 accept, 0 reject, 0.5 undecided.
        names: What messages call the two; a model's users know them by other names.

    Raises:
        ComparisonDataError: If an argument has a wrong shape, type or device, or a row with
            NaN or infinite items, or another label. Names argument and row.
    """

    items: Tensor
    labels: Tensor
    names: tuple[str, str] = ("items", "labels")

    def __post_init__(self) -> None:
        items, labels = self.names
        check_items(items, self.items, "n", "d")
        check_shape(labels, self.labels, self.items.shape[-2], 1)
        check_like(labels, self.labels, self.items)
        batches = {items: self.items.shape[:-2], labels: self.labels.shape[:-2]}
        shape = common_batch_shape(**batches)
        for name, rows in (("items", self.items), ("labels", self.labels)):
            object.__setattr__(self, name, rows.expand(*shape, *rows.shape[-2:]))
        values = self.labels.squeeze(-1)
        known = (values == 0) | (values == 0.5) | (values == 1)
        reason = "a label is 1 (accept), 0 (reject) or 0.5 (undecided)"
        refuse(finite(items, self.items), Check(labels, values, ~known, reason))

    def block(self, likelihood: BlockLikelihood, first: int = 0) -> Block:
        """One observation a label, of the utility of its item.

        Args:
            likelihood: The link.
            first: The number of the first item among the items of inference.
        """
        answer = self.labels.squeeze(-1)
        rows = torch.arange(first, first + answer.shape[-1], device=answer.device)
        rows = rows.expand(answer.shape).unsqueeze(-1)
        return Block(rows, ITEM, answer, torch.ones_like(answer), likelihood)
