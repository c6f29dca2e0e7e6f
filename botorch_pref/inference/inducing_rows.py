r"""Rows of latent values and their covariance with inducing items, a block at a time.

Notation as in :mod:`botorch_pref.inference.inducing`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple, Protocol, Self

import torch
from torch import Tensor

from botorch_pref.inference.maps import SparseMap, others, scaled_sum
from botorch_pref.inference.observations import Observations

KEPT_ENTRIES = 2**24  # of a matrix that is kept: 128 MiB in double precision
_BLOCK_ENTRIES = 2**20  # of a block of rows on a CPU, whose matrix products pay so
_CHUNK_ENTRIES = 2**16  # a thread, of a part whose kernel, and its copies, fits into the cache
_DEVICE_ENTRIES = 2**26  # of either elsewhere


class ItemKernel(Protocol):
    r"""The prior covariance of the items, as inference sees these, and of inducing items.

    Attributes:
        inputs: All tensors that the covariance depends on, with their graphs.
        num_inducing: The number ``p`` of inducing items.
    """

    inputs: Sequence[Tensor]
    num_inducing: int

    def bound(self, inputs: Sequence[Tensor]) -> Self:
        """The same as a function of other inputs."""

    def inducing(self) -> Tensor:
        """``p x p``-dim covariance of the inducing items."""

    def cross(self, items: Tensor | None) -> Tensor:
        """``q x p``-dim covariance of ``q`` items, by index, or of all, with inducing ones."""

    def covariance(self, first: Tensor, second: Tensor) -> Tensor:
        """``q``-dim covariances of items with items, by index."""


class RowBlock(NamedTuple):
    """Consecutive rows and what was observed there."""

    rows: slice
    observations: Observations

    @property
    def size(self) -> int:
        """The number of rows."""
        return self.observations.num_rows


class InducingRows:
    r"""``C = H K_xz`` in blocks of rows.

    Args:
        kernel: The covariances.
        observations: The observations.
        kept: ``n x p``-dim ``K_xz`` if it is known.
    """

    def __init__(
        self, kernel: ItemKernel, observations: Observations, kept: Tensor | None = None
    ) -> None:
        self.kernel, self.kept = kernel, kept
        p, stop = max(kernel.num_inducing, 1), observations.num_rows
        on_cpu = observations.weight.device.type == "cpu"
        size, chunk = _BLOCK_ENTRIES, _CHUNK_ENTRIES * torch.get_num_threads()
        size, chunk = (size, chunk) if on_cpu else (_DEVICE_ENTRIES, _DEVICE_ENTRIES)
        size, self.chunk = max(1, size // p), max(1, chunk // p)
        self.blocks = [RowBlock(rows, some_rows(observations, rows)) for rows in spans(stop, size)]
        if kept is None and observations.num_items * kernel.num_inducing <= KEPT_ENTRIES:
            self.kept = kernel.cross(None)

    def __iter__(self) -> Iterator[tuple[RowBlock, Tensor]]:
        """All blocks, in order, and their ``b x p``-dim rows of ``C``."""
        for block in self.blocks:
            yield block, self.cross(block)

    def cross(self, block: RowBlock) -> Tensor:
        """``b x p``-dim rows of ``C``, without a graph."""
        if self.kept is not None:
            return self.some(block.observations.map)
        found = block.observations.weight.new_empty(block.size, self.kernel.num_inducing)
        for rows, sparse in self.chunks(block):
            found[rows] = cross_rows(self.kernel, sparse)
        return found

    def some(self, rows: SparseMap) -> Tensor:
        """``b x p``-dim rows of ``C``, for a few rows of the map."""
        return cross_rows(self.kernel, rows) if self.kept is None else rows.rows(self.kept)

    def grown(self, kernel: ItemKernel, observations: Observations, items: Tensor) -> InducingRows:
        """Those of further observations, where ``items`` are the positions of former ones."""
        kept, size = None, observations.num_items
        if self.kept is not None and size * kernel.num_inducing <= KEPT_ENTRIES:
            kept, new = self.kept.new_empty(size, kernel.num_inducing), others(items, size)
            kept[items] = self.kept
            if len(new):
                kept[new] = kernel.cross(new)
        return InducingRows(kernel, observations, kept)

    def chunks(self, block: RowBlock) -> Iterator[tuple[slice, SparseMap]]:
        """The parts of a block, as slices of its rows and of its map."""
        whole = block.observations.map
        for rows in spans(block.size, self.chunk):
            factors = [f[rows] if isinstance(f, Tensor) else f for f in whole.coefficients]
            yield rows, SparseMap(whole.items[rows], factors, whole.num_items)


def spans(stop: int, size: int) -> list[slice]:
    """Consecutive slices of at most ``size`` up to ``stop``."""
    return [slice(i, min(i + size, stop)) for i in range(0, stop, size)]


def cross_rows(kernel: ItemKernel, rows: SparseMap) -> Tensor:
    """``b x p``-dim rows of ``H K_xz``, from the covariance of the items of these rows alone."""
    size, width = rows.items.shape
    parts = kernel.cross(rows.items.T.reshape(-1)).view(width, size, -1)
    factors = (f.unsqueeze(-1) if isinstance(f, Tensor) else f for f in rows.coefficients)
    return scaled_sum(zip(parts.unbind(), factors, strict=True))


def variance_rows(kernel: ItemKernel, rows: SparseMap) -> Tensor:
    """``b``-dim diagonal of ``H K_xx H^T``."""
    columns = list(zip(rows.items.unbind(-1), rows.coefficients, strict=True))
    own = [(kernel.covariance(i, i), a * a) for i, a in columns]
    pairs = combinations(columns, 2)
    return scaled_sum([*own, *((kernel.covariance(i, j), 2 * a * b) for (i, a), (j, b) in pairs)])


def some_rows(observations: Observations, rows: slice | Tensor) -> Observations:
    r"""Some rows of unbatched observations.

    Args:
        observations: The observations.
        rows: A slice without a step, or sorted indices.
    """
    blocks, first = [], 0
    for block in observations.blocks:
        last = first + block.weight.shape[-1]
        own: slice | Tensor
        if isinstance(rows, slice):
            start, stop = max(rows.start, first), min(rows.stop, last)
            own = slice(start - first, max(start, stop) - first)
        else:
            own = rows[(rows >= first) & (rows < last)] - first
        part = replace(
            block, items=block.items[own], answer=block.answer[own], weight=block.weight[own]
        )
        if part.weight.shape[-1]:
            blocks.append(part)
        first = last
    return Observations(blocks, observations.num_items)
