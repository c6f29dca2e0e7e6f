r"""What was observed: blocks, stacked into one incidence matrix and one likelihood.

Notation as in :mod:`botorch_pref.data.blocks`; ``M`` is the number of latent values of all
blocks, ``H: M x n`` their sparse map, ``eta = H f: ... x M``, and ``W = S S^T: M x M`` the
curvature, minus the second derivatives of the log likelihood. It is diagonal where every
observation has one latent value; else block diagonal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, reduce
from itertools import product
from typing import Any

import torch
from torch import Size, Tensor
from torch.autograd import Function

from botorch_pref.data.blocks import Block
from botorch_pref.likelihoods import AnnotatedLikelihood

Marginals = Tensor | list[Tensor]


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
        taken = (_rows_at(matrix, index) for index in self.items.unbind(-1))
        factors = (f.unsqueeze(-1) if isinstance(f, Tensor) else f for f in self.coefficients)
        return scaled_sum(zip(taken, factors, strict=True))

    def dense(self, like: Tensor) -> Tensor:
        """``H``, ``... x m x n``-dim, of the type of another tensor."""
        return self.rows(torch.eye(self.num_items, dtype=like.dtype, device=like.device))

    def columns(self, matrix: Tensor) -> Tensor:
        """``C H^T`` for ``C: ... x q x n``, so ``... x q x m``."""
        if matrix.mT.is_contiguous():
            return self.rows(matrix.mT).mT
        items = self.items if self.items.dim() == 2 else self.items.unsqueeze(-3)
        return self._combined(matrix, items)

    def apply(self, vector: Tensor) -> Tensor:
        """``H f`` for ``f: ... x n``, so ``... x m``."""
        return self._combined(vector, self.items)

    def adjoint(self, vector: Tensor) -> Tensor:
        """``H^T v`` for ``v: ... x m``, so ``... x n``."""
        shape = broadcast(vector.shape[:-1], self.items.shape[:-2])
        out = vector.new_zeros(*shape, self.num_items)
        vector = vector.expand(*shape, vector.shape[-1])
        for j, factor in enumerate(self.coefficients):
            index = self.items[..., j].expand(vector.shape)
            out.scatter_add_(-1, index, scaled(vector, factor))
        return out

    def spread(self, matrix: Tensor) -> Tensor:
        """``H^T C`` for ``C: ... x m x q``, so ``... x n x q``."""
        shape = broadcast(matrix.shape[:-2], self.items.shape[:-2])
        m, q = matrix.shape[-2:]
        tall = matrix.expand(*shape, m, q).reshape(shape.numel() * m, q).contiguous()
        out = tall.new_zeros(shape.numel() * self.num_items, q)
        for j, factor in enumerate(self.coefficients):
            index = _tall_index(self.items[..., j], shape, self.num_items)
            if isinstance(factor, Tensor):
                share = tall.view(*shape, m, q) * factor.unsqueeze(-1)
                out.index_add_(0, index, share.view_as(tall))
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
        for index, factor in self._products():
            out.scatter_add_(-1, index.expand(weight.shape), weight * factor)
        return out.view(*shape, n, n)

    def diagonal(self, matrix: Tensor) -> Tensor:
        """``diag(H G H^T)`` for ``G: ... x n x n``, so ``... x m``."""
        flat = matrix.flatten(start_dim=-2)
        terms = ((_entries(flat, index), factor) for index, factor in self._products())
        return scaled_sum(terms)

    def _products(self) -> Iterator[tuple[Tensor, float | Tensor]]:
        """Flat indices into ``n x n`` and factors of the products of two items of each row."""
        columns = list(zip(self.items.unbind(-1), self.coefficients, strict=True))
        for (first, left), (second, right) in product(columns, columns):
            yield first * self.num_items + second, left * right

    def _combined(self, values: Tensor, items: Tensor) -> Tensor:
        """``H v`` for values ``... x n`` and the items of ``H``, so ``... x m``."""
        terms = (_entries(values, index) for index in items.unbind(-1))
        return scaled_sum(zip(terms, self.coefficients, strict=True))


def _rows_at(matrix: Tensor, index: Tensor) -> Tensor:
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
        spread = ctx.incidence.spread
        return spread(spread(grad.mT).mT).sum_to_size(ctx.shape), None


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

    def apply(self, values: Tensor) -> Tensor:
        """The values themselves."""
        return values

    adjoint = rows = columns = apply

    def dense(self, like: Tensor) -> Tensor:
        """The identity of the size of a matrix."""
        return torch.eye(like.shape[-1], dtype=like.dtype, device=like.device)

    def diagonal(self, matrix: Tensor) -> Tensor:
        """``diag(G)``."""
        return matrix.diagonal(dim1=-2, dim2=-1)


class Curvature:
    r"""``W = S S^T``, here diagonal: every observation has one latent value.

    Marginals are the entries of an ``M x M`` matrix at which ``W`` may differ from zero: ``... x
    M``-dim, or for each block ``... x m x r x r``-dim.

    Args:
        weight: ``... x M``-dim diagonal of ``W``.
        third: ``... x M``-dim third derivatives of the log likelihood, if they are needed.
        excess: ``... x M``-dim, what ``W`` exceeds minus the second derivatives by, where a
            likelihood is not log-concave: curvatures below zero count as zero.
    """

    excess: Tensor | None = None

    def __init__(
        self, weight: Tensor, third: Tensor | None = None, excess: Tensor | None = None
    ) -> None:
        self.weight, self._third, self.excess = weight, third, excess

    @property
    def is_exact(self) -> bool:
        """Whether ``W`` is minus the second derivatives."""
        return self.excess is None

    def apply_excess(self, vector: Tensor) -> Tensor:
        """``D v`` for ``v: ... x M``, where ``W - D`` is minus the second derivatives."""
        return vector if self.excess is None else self.excess * vector

    def __getitem__(self, elements: Tensor) -> Curvature:
        """That of some elements of the batch, without third derivatives."""
        return Curvature(self.weight[elements])

    @cached_property
    def _root(self) -> Tensor:
        return self.weight.sqrt()

    def apply(self, vector: Tensor) -> Tensor:
        """``W v`` for ``v: ... x M``."""
        return self.weight * vector

    def root(self, vector: Tensor) -> Tensor:
        """``S v`` for ``v: ... x M``; :meth:`root_adjoint` is ``S^T v``, here the same."""
        return self._root * vector

    root_adjoint = root

    def scale(self, matrix: Tensor) -> Tensor:
        """``S^T P S`` for a symmetric ``P: ... x M x M``; :meth:`unscale` is ``S P S^T``."""
        return self._root.unsqueeze(-1) * matrix * self._root.unsqueeze(-2)

    unscale = scale

    def quadratic(self, rows: Tensor) -> Tensor:
        """``Z^T W Z: ... x q x q`` for ``Z: M x q``."""
        # One tall product is far cheaper than a batch of small ones.
        scaled = rows.mT * self.weight.unsqueeze(-2)
        product = scaled.flatten(end_dim=-2) @ rows
        return product.view(*scaled.shape[:-1], rows.shape[-1])

    def laplacian(self, incidence: Incidence) -> Tensor:
        """``H^T W H: ... x n x n``."""
        return incidence.laplacian(self.weight)

    def marginals(self, left: Tensor, right: Tensor) -> Marginals:
        """Those of ``X Y^T`` for ``X, Y: ... x M x q``."""
        return (left * right).sum(-1)

    def marginals_of(self, incidence: Incidence | IdentityIncidence, matrix: Tensor) -> Marginals:
        """Those of ``H G H^T`` for ``G: ... x n x n``."""
        return incidence.diagonal(matrix)

    def contract(self, marginals: Marginals) -> Tensor:
        """``sum_bc T_abc V_bc: ... x M`` of third derivatives ``T`` and marginals ``V``."""
        assert self._third is not None
        assert isinstance(marginals, Tensor)
        return self._third * marginals


class BlockCurvature(Curvature):
    r"""A block diagonal ``W``: some observations have several latent values.

    Args:
        roots: For each block, in order, ``... x m x r x r``-dim roots of the curvatures.
        thirds: For each block ``... x m x r x r x r``-dim third derivatives, if they are needed.
        cut: For each block, where likelihoods are not log-concave, ``... x m x r``-dim vectors
            ``e``: ``W`` exceeds minus the second derivatives by ``e e^T``.
    """

    def __init__(
        self,
        roots: Sequence[Tensor],
        thirds: Sequence[Tensor] = (),
        cut: Sequence[Tensor] = (),
    ) -> None:
        weight = torch.cat([s.square().sum(-1).flatten(-2) for s in roots], dim=-1)
        super().__init__(weight)
        self.roots, self.thirds, self._cut = roots, thirds, cut

    @property
    def is_exact(self) -> bool:
        return not self._cut

    def apply_excess(self, vector: Tensor) -> Tensor:
        own = zip(self._cut, self._by_observation(vector.unsqueeze(-1)), strict=True)
        parts = [(e * (e * at.squeeze(-1)).sum(-1, keepdim=True)).flatten(-2) for e, at in own]
        return torch.cat(parts, dim=-1)

    def __getitem__(self, elements: Tensor) -> BlockCurvature:
        return BlockCurvature([root[elements] for root in self.roots])

    def apply(self, vector: Tensor) -> Tensor:
        return self.root(self.root_adjoint(vector))

    def root(self, vector: Tensor) -> Tensor:
        return self._rows(vector.unsqueeze(-1)).squeeze(-1)

    def root_adjoint(self, vector: Tensor) -> Tensor:
        return self.adjoint_rows(vector.unsqueeze(-1)).squeeze(-1)

    def scale(self, matrix: Tensor) -> Tensor:
        return self.adjoint_rows(self.adjoint_rows(matrix).mT)

    def unscale(self, matrix: Tensor) -> Tensor:
        return self._rows(self._rows(matrix).mT)

    def quadratic(self, rows: Tensor) -> Tensor:
        scaled = self.adjoint_rows(rows)
        return scaled.mT @ scaled

    def laplacian(self, incidence: Incidence) -> Tensor:
        return incidence.spread(self._rows(self.adjoint_rows(incidence.dense(self.roots[0]))))

    def marginals(self, left: Tensor, right: Tensor) -> list[Tensor]:
        pairs = zip(self._by_observation(left), self._by_observation(right), strict=True)
        return [x @ y.mT for x, y in pairs]

    def marginals_of(
        self, incidence: Incidence | IdentityIncidence, matrix: Tensor
    ) -> list[Tensor]:
        return self.marginals(incidence.rows(matrix), incidence.dense(matrix))

    def contract(self, marginals: Marginals) -> Tensor:
        parts = zip(self.thirds, marginals, strict=True)
        found = [torch.einsum("...abc,...bc->...a", t, v).flatten(-2) for t, v in parts]
        return torch.cat(found, dim=-1)

    def adjoint_rows(self, matrix: Tensor) -> Tensor:
        """``S^T X`` for ``X: ... x M x q``."""
        return self._products([root.mT for root in self.roots], matrix)

    def _rows(self, matrix: Tensor) -> Tensor:
        """``S X`` for ``X: ... x M x q``."""
        return self._products(self.roots, matrix)

    def _products(self, blocks: Sequence[Tensor], matrix: Tensor) -> Tensor:
        parts = zip(blocks, self._by_observation(matrix), strict=True)
        return torch.cat([(block @ part).flatten(-3, -2) for block, part in parts], dim=-2)

    def _by_observation(self, matrix: Tensor) -> list[Tensor]:
        """``... x M x q`` rows as ``... x m x r x q``-dim parts, one a block."""
        shapes = [root.shape[-3:-1] for root in self.roots]
        parts = matrix.split([m * r for m, r in shapes], dim=-2)
        return [part.unflatten(-2, shape) for part, shape in zip(parts, shapes, strict=True)]


def as_curvature(curvature: Curvature | Tensor) -> Curvature:
    """A curvature, of which a tensor is the diagonal."""
    return Curvature(curvature) if isinstance(curvature, Tensor) else curvature


class Observations:
    r"""Blocks stacked into one incidence matrix and one likelihood.

    Args:
        blocks: At least one block, all with the same leading batch dimensions.
        num_items: The number ``n`` of items that the blocks index.
    """

    def __init__(self, blocks: Sequence[Block], num_items: int) -> None:
        self.blocks = tuple(blocks)
        self.num_items = num_items
        self.is_elementwise = all(block.latent_dim == 1 for block in self.blocks)
        self.is_log_concave = all(
            getattr(block.likelihood, "is_log_concave", True) for block in self.blocks
        )
        self.incidence = self._stack_incidence()
        self.weight = _joined(
            b.weight.repeat_interleave(r, dim=-1) if (r := b.latent_dim) > 1 else b.weight
            for b in self.blocks
        )

    @property
    def num_rows(self) -> int:
        """The number ``M`` of latent values."""
        return self.weight.shape[-1]

    @property
    def batch_shape(self) -> Size:
        """Leading dimensions of the rows."""
        return self.weight.shape[:-1]

    @property
    def has_bounded_scores(self) -> bool:
        """Whether the weights bound all scores, so that measured values are not among the rows."""
        return all(block.likelihood.has_bounded_score for block in self.blocks)

    def score_scale(self, prior_latent: Tensor) -> Tensor:
        """How large the scores ``... x M`` can be, by their weights or the prior's residuals."""
        scale = self.weight.amax(-1)
        if self.has_bounded_scores:
            return scale
        return torch.maximum(scale, prior_latent.abs().amax(-1))

    def select(self, elements: Tensor | slice | int) -> Observations:
        """Some elements of the first batch dimension, or one without that dimension."""
        return Observations([block.select(elements) for block in self.blocks], self.num_items)

    def rows(self, kept: slice) -> Observations:
        """Some of unbatched observations, by a slice with a start and a stop."""
        blocks, first, step = [], 0, kept.step or 1
        for block in self.blocks:
            start = kept.start - first
            own = slice(start if start > 0 else start % step, max(kept.stop - first, 0), step)
            part = block.select(own)
            if part.weight.shape[-1]:
                blocks.append(part)
            first += block.weight.shape[-1]
        return Observations(blocks, self.num_items)

    def log_prob(self, latent: Tensor) -> Tensor:
        """Log probability of each observation at ``eta: ... x M``."""
        return _joined(
            block.likelihood.log_prob(part, block.answer, block.weight)
            for block, part in zip(self.blocks, self.split(latent), strict=True)
        )

    def derivatives(self, latent: Tensor) -> tuple[Tensor, Curvature]:
        """The ``... x M``-dim score and the curvature at ``eta: ... x M``."""
        parts, cut = [], []
        for block, at in zip(self.blocks, self.split(latent), strict=True):
            score, curvature, third = block.likelihood.derivatives(at, block.answer, block.weight)
            if not self.is_log_concave:
                if block.latent_dim == 1:
                    third = torch.where(curvature > 0, third, 0.0)
                    over, curvature = (-curvature).clamp_min(0.0), curvature.clamp_min(0.0)
                elif isinstance(block.likelihood, AnnotatedLikelihood):
                    over = block.likelihood.excess(at, block.answer, block.weight)
                else:
                    over = torch.zeros_like(score)
                cut.append(over)
            parts.append((score, curvature, third))
        if self.is_elementwise:
            score, weight, third = (_joined(own) for own in zip(*parts, strict=True))
            return score, Curvature(weight, third, _joined(cut) if cut else None)
        scores, roots, thirds = [], [], []
        for i, (block, (score, root, third)) in enumerate(zip(self.blocks, parts, strict=True)):
            if block.latent_dim == 1:
                if cut:
                    cut[i] = cut[i].sqrt().unsqueeze(-1)
                score, third = score.unsqueeze(-1), third[..., None, None, None]
                root = root.sqrt()[..., None, None]
            scores.append(score.flatten(-2))
            roots.append(root)
            thirds.append(third)
        return torch.cat(scores, dim=-1), BlockCurvature(roots, thirds, cut)

    def split(self, latent: Tensor) -> list[Tensor]:
        """The latent values of each block, ``... x m`` or ``... x m x r``."""
        parts = latent.split([block.num_rows for block in self.blocks], dim=-1)
        return [
            part if block.latent_dim == 1 else part.unflatten(-1, (-1, block.latent_dim))
            for block, part in zip(self.blocks, parts, strict=True)
        ]

    def _stack_incidence(self) -> Incidence:
        if len(self.blocks) == 1 and self.is_elementwise:
            block = self.blocks[0]
            return Incidence(block.items, block.design[0], self.num_items)
        designs = [
            [[(j, c) for j, c in enumerate(row) if c] for row in b.design] for b in self.blocks
        ]
        width = max(len(row) for design in designs for row in design)
        items, factors = [], []
        for block, design in zip(self.blocks, designs, strict=True):
            # A row with fewer items than the widest repeats the first one with factor 0.
            rows = [row + [(0, 0.0)] * (width - len(row)) for row in design]
            # One place after the other: a list of them would be sent to a device, which waits.
            chosen = [torch.stack([block.items[..., j] for j, _ in row], -1) for row in rows]
            items.append(torch.stack(chosen, dim=-2).flatten(-3, -2))
            shape = block.items.shape[-2:-1]
            factors.append(
                [
                    torch.stack([block.weight.new_full(shape, c) for _, c in column], -1).flatten()
                    for column in zip(*rows, strict=True)
                ]
            )
        columns = [torch.cat(column) for column in zip(*factors, strict=True)]
        return Incidence(torch.cat(items, dim=-2), columns, self.num_items)


def _joined(parts: Iterable[Tensor]) -> Tensor:
    """Parts of all blocks, one after the other."""
    parts = list(parts)
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


def broadcast(*shapes: Size) -> Size:
    """Torch's ``broadcast_shapes``, whose checks cost as much as three small products."""
    return shapes[0] if len(set(shapes)) == 1 else torch.broadcast_shapes(*shapes)


def matvec(matrix: Tensor, vector: Tensor) -> Tensor:
    """``A v`` for ``... x p x q`` and ``... x q``."""
    if matrix.dim() == 2 and vector.dim() == 1:
        return matrix.mv(vector)
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def scaled_sum(terms: Iterable[tuple[Tensor, float | Tensor]]) -> Tensor:
    """The sum of ``factor * term``, of one term at least."""
    return reduce(torch.add, (scaled(*term) for term in terms))


def scaled(term: Tensor, factor: float | Tensor) -> Tensor:
    """``factor * term``, without a product where the factor is plus or minus one."""
    if isinstance(factor, Tensor) or abs(factor) != 1.0:
        return term * factor
    return term if factor == 1.0 else -term
