r"""What was observed: blocks, stacked into one incidence map and one likelihood.

Notation as in :mod:`botorch_pref.data.blocks`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Size, Tensor

from botorch_pref.data.blocks import Block
from botorch_pref.inference.incidence import Incidence
from botorch_pref.likelihoods import StandardNormal


class Observations:
    r"""Blocks stacked into one map and one elementwise likelihood.

    Args:
        blocks: At least one block, all with the same leading batch dimensions.
        num_items: The number ``n`` of items that the blocks index.
    """

    def __init__(self, blocks: Sequence[Block], num_items: int) -> None:
        self.blocks = tuple(blocks)
        self.num_items = num_items
        self.map = self._stack_maps()
        weights = [block.weight for block in self.blocks]
        self.weight = weights[0] if len(weights) == 1 else torch.cat(weights, dim=-1)

    @property
    def num_rows(self) -> int:
        """The number ``m`` of rows."""
        return self.weight.shape[-1]

    @property
    def batch_shape(self) -> Size:
        """Leading dimensions of the rows."""
        return self.weight.shape[:-1]

    @property
    def has_residuals(self) -> bool:
        """Whether there are rows whose scores have no bound."""
        return any(isinstance(block.likelihood, StandardNormal) for block in self.blocks)

    def score_scale(self, prior_latent: Tensor) -> Tensor:
        """How large the scores ``... x m`` can be, by their weights or the prior's residuals."""
        scale = self.weight.amax(-1)
        return torch.maximum(scale, prior_latent.abs().amax(-1)) if self.has_residuals else scale

    def select(self, elements: Tensor | slice | int) -> Observations:
        """Some elements of the first batch dimension, or one without that dimension."""
        return Observations([block.select(elements) for block in self.blocks], self.num_items)

    def log_prob(self, latent: Tensor) -> Tensor:
        """Log probability of each row at ``eta: ... x m``."""
        parts = [
            block.likelihood.log_prob(part, block.answer, block.weight)
            for block, part in zip(self.blocks, self._split(latent), strict=True)
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

    def derivatives(self, latent: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Score, curvature and third derivative of each row at ``eta: ... x m``."""
        parts = [
            block.likelihood.derivatives(part, block.answer, block.weight)
            for block, part in zip(self.blocks, self._split(latent), strict=True)
        ]
        if len(parts) == 1:
            return parts[0]
        score, curvature, third = (torch.cat(p, dim=-1) for p in zip(*parts, strict=True))
        return score, curvature, third

    def _split(self, latent: Tensor) -> Sequence[Tensor]:
        if len(self.blocks) == 1:
            return (latent,)
        return latent.split([b.answer.shape[-1] for b in self.blocks], dim=-1)

    def _stack_maps(self) -> Incidence:
        if len(self.blocks) == 1:
            block = self.blocks[0]
            return Incidence(block.items, block.coefficients, self.num_items)
        # A row with fewer items than the widest repeats its first one with factor 0.
        width = max(len(block.coefficients) for block in self.blocks)
        items, factors = [], []
        for block in self.blocks:
            missing, rows = width - len(block.coefficients), block.items.shape[-2:-1]
            padding = block.items[..., :1].expand(*block.items.shape[:-1], missing)
            items.append(torch.cat([block.items, padding], dim=-1))
            row = (*block.coefficients, *([0.0] * missing))
            # Filled where they are: a list would be sent to a device, which waits for it.
            factors.append([block.weight.new_full(rows, factor) for factor in row])
        columns = [torch.cat(column) for column in zip(*factors, strict=True)]
        return Incidence(torch.cat(items, dim=-2), columns, self.num_items)
