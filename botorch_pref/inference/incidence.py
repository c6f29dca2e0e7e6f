r"""The maps through which answers see items, and the coordinates of a system see latent values.

Notation as in :mod:`botorch_pref.inference.observations`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Size, Tensor
from torch.autograd import Function


class Incidence:
    r"""``H``: every row a combination of ``k`` items.

    Args:
        items: ``... x m x k``-dim long tensor of item indices.
        coefficients: ``k`` coefficients, each one number for all rows or ``m``-dim.
        num_items: The number ``n`` of items.
    """

    def __init__(
        self, items: Tensor, coefficients: Sequence[float | Tensor], num_items: int
    ) -> None:
        self.items = items
        self.coefficients = coefficients
        self.num_items = num_items

    def rows(self, matrix: Tensor) -> Tensor:
        """``H C`` for ``C: ... x n x q``, so ``... x m x q``."""
        terms = (self._take(matrix, self.items[..., j]) for j in range(self.items.shape[-1]))
        factors = (
            factor.unsqueeze(-1) if isinstance(factor, Tensor) else factor
            for factor in self.coefficients
        )
        return scaled_sum(zip(terms, factors, strict=True))

    def dense(self, like: Tensor) -> Tensor:
        """``H``, ``... x m x n``-dim, of the type of another tensor."""
        return self.rows(torch.eye(self.num_items, dtype=like.dtype, device=like.device))

    def columns(self, matrix: Tensor) -> Tensor:
        """``C H^T`` for ``C: ... x q x n``, so ``... x q x m``."""
        if matrix.mT.is_contiguous():
            return self.rows(matrix.mT).mT
        return self._combined(matrix, self._items_of_rows())

    def apply(self, vector: Tensor) -> Tensor:
        """``H f`` for ``f: ... x n``, so ``... x m``."""
        return self._combined(vector, self.items)

    def adjoint(self, vector: Tensor) -> Tensor:
        """``H^T v`` for ``v: ... x m``, so ``... x n``."""
        return self._scattered(vector, self.items)

    def spread_columns(self, matrix: Tensor) -> Tensor:
        """``C H`` for ``C: ... x q x m``, so ``... x q x n``."""
        return self._scattered(matrix, self._items_of_rows())

    def spread(self, matrix: Tensor) -> Tensor:
        """``H^T C`` for ``C: ... x m x q``, so ``... x n x q``."""
        shape = broadcast(matrix.shape[:-2], self.items.shape[:-2])
        m, q = matrix.shape[-2:]
        tall = matrix.expand(*shape, m, q).reshape(shape.numel() * m, q).contiguous()
        out = tall.new_zeros(shape.numel() * self.num_items, q)
        for j, factor in enumerate(self.coefficients):
            index = _tall_index(self.items[..., j], shape, self.num_items)
            if isinstance(factor, Tensor):
                scaled = tall.view(*shape, m, q) * factor.unsqueeze(-1)
                out.index_add_(0, index, scaled.view_as(tall))
            else:
                out.index_add_(0, index, tall, alpha=factor)
        return out.view(*shape, self.num_items, q)

    def gram(self, covariance: Tensor) -> Tensor:
        """``H K H^T`` for ``K: ... x n x n``, so ``... x m x m``."""
        gram: Tensor = _Gram.apply(covariance, self)
        return gram

    def laplacian(self, weight: Tensor) -> Tensor:
        """``H^T diag(w) H`` for ``w: ... x m``, so ``... x n x n``."""
        n = self.num_items
        shape = broadcast(weight.shape[:-1], self.items.shape[:-2])
        out = weight.new_zeros(*shape, n * n)
        weight = weight.expand(*shape, weight.shape[-1])
        for j, left in enumerate(self.coefficients):
            for i, right in enumerate(self.coefficients):
                index = self.items[..., j] * n + self.items[..., i]
                values = weight * (left * right)
                out.scatter_add_(-1, index.expand(values.shape), values)
        return out.view(*shape, n, n)

    def diagonal(self, matrix: Tensor) -> Tensor:
        """``diag(H G H^T)`` for ``G: ... x n x n``, so ``... x m``."""
        flat, n = matrix.flatten(start_dim=-2), self.num_items

        def terms() -> Iterator[tuple[Tensor, float | Tensor]]:
            for j, left in enumerate(self.coefficients):
                for i, right in enumerate(self.coefficients):
                    index = self.items[..., j] * n + self.items[..., i]
                    yield _entries(flat, index), left * right

        return scaled_sum(terms())

    def _items_of_rows(self) -> Tensor:
        """The items, for vectors that are the rows of matrices."""
        return self.items if self.items.dim() == 2 else self.items.unsqueeze(-3)

    def _combined(self, values: Tensor, items: Tensor) -> Tensor:
        """``H v`` for values ``... x n`` and the items of ``H``, so ``... x m``."""
        terms = (_entries(values, items[..., j]) for j in range(items.shape[-1]))
        return scaled_sum(zip(terms, self.coefficients, strict=True))

    def _scattered(self, values: Tensor, items: Tensor) -> Tensor:
        """``H^T v`` for values ``... x m`` and the items of ``H``, so ``... x n``."""
        shape = broadcast(values.shape[:-1], items.shape[:-2])
        out = values.new_zeros(*shape, self.num_items)
        values = values.expand(*shape, values.shape[-1])
        for j, factor in enumerate(self.coefficients):
            out.scatter_add_(-1, items[..., j].expand(values.shape), scaled(values, factor))
        return out

    def _take(self, matrix: Tensor, index: Tensor) -> Tensor:
        """Rows of ``... x n x q`` at ``... x m`` indices."""
        if index.dim() == 1:
            return matrix.index_select(-2, index)
        # Whole rows of one tall matrix: far cheaper than a gather entry by entry.
        shape = broadcast(matrix.shape[:-2], index.shape[:-1])
        n, q = matrix.shape[-2:]
        tall = matrix.expand(*shape, n, q).reshape(shape.numel() * n, q)
        taken = tall.index_select(0, _tall_index(index, shape, n))
        return taken.view(*shape, index.shape[-1], q)


def _entries(values: Tensor, index: Tensor) -> Tensor:
    """Entries of ``... x n`` at ``... x m`` indices."""
    if values.dim() == index.dim() == 1:
        return values.index_select(-1, index)
    # Twice as fast as rows of a transpose that is to be made, with and without a gradient.
    shape = broadcast(values.shape[:-1], index.shape[:-1])
    return values.expand(*shape, values.shape[-1]).gather(-1, index.expand(*shape, index.shape[-1]))


class _Gram(Function):
    """Its own gradient: autograd's adds up a full matrix for each item of a row, twice."""

    @staticmethod
    def forward(ctx: Any, covariance: Tensor, rows: Incidence) -> Tensor:
        ctx.incidence, ctx.shape = rows, covariance.shape
        return rows.columns(rows.rows(covariance))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (grad,) = grads
        return ctx.incidence.spread(ctx.incidence.spread_columns(grad)).sum_to_size(ctx.shape), None


def _tall_index(index: Tensor, shape: Size, height: int) -> Tensor:
    """Where ``... x m`` rows are in one tall matrix of a batch's, each of ``height`` rows."""
    if not shape:
        return index
    size = shape.numel()
    index = index.expand(*shape, index.shape[-1]).reshape(size, index.shape[-1])
    start = height * torch.arange(size, device=index.device).unsqueeze(-1)
    return (index + start).flatten()


class IdentityIncidence:
    """The map of a system whose coordinates are the latent values themselves."""

    def columns(self, matrix: Tensor) -> Tensor:
        """``C`` itself."""
        return matrix

    def apply(self, vector: Tensor) -> Tensor:
        """``f`` itself."""
        return vector

    def adjoint(self, vector: Tensor) -> Tensor:
        """``v`` itself."""
        return vector

    def rows(self, matrix: Tensor) -> Tensor:
        """``C`` itself."""
        return matrix

    def dense(self, like: Tensor) -> Tensor:
        """The identity of the size of a matrix."""
        return torch.eye(like.shape[-1], dtype=like.dtype, device=like.device)

    def diagonal(self, matrix: Tensor) -> Tensor:
        """``diag(G)``."""
        return matrix.diagonal(dim1=-2, dim2=-1)


def broadcast(*shapes: Size) -> Size:
    """Torch's ``broadcast_shapes``, whose checks cost as much as three small products."""
    batches = [shape for shape in shapes if shape]
    if not batches:
        return Size()
    same = all(shape == batches[0] for shape in batches)
    return batches[0] if same else torch.broadcast_shapes(*batches)


def scaled_sum(terms: Iterable[tuple[Tensor, float | Tensor]]) -> Tensor:
    """The sum of ``factor * term``, without a product where the factor is plus or minus one."""
    total: Tensor | None = None
    for term, factor in terms:
        if total is None:
            total = scaled(term, factor)
        elif not isinstance(factor, Tensor) and factor == -1.0:
            total = total - term
        else:
            total = total + scaled(term, factor)
    assert total is not None  # a map has at least one coefficient
    return total


def scaled(term: Tensor, factor: float | Tensor) -> Tensor:
    """``factor * term``, without a product where the factor is plus or minus one."""
    if isinstance(factor, Tensor) or abs(factor) != 1.0:
        return term * factor
    return term if factor == 1.0 else -term
