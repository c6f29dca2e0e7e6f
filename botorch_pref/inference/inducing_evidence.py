r"""The evidence through inducing items, its gradient, and the posterior.

Notation as in :mod:`botorch_pref.inference.inducing`. The evidence is Laplace's under the prior
covariance ``Q`` of the rows, less half the prior variance that ``Q`` lacks, weighted by the
curvature (the trace term of Titsias 2009, *Variational Learning of Inducing Variables*):

    log Z = log p(y | eta) - 1/2 |z|^2 - 1/2 log det M - 1/2 sum_i w_i rho_i

With ``a`` the score at the mode, ``g = 1/2 third (diag(D M^-1 D^T) + rho)`` the derivative of the
last two terms in the latent values, ``q = M^-1 D^T g`` and ``t = g - W D q``, which carries the
movement of the mode,

    d log Z / d C = [(a + t) z^T + a q^T + W D (I - M^-1)] L^-1
    d log Z / d K_zz = -1/2 L^-T [z z^T + q z^T + z q^T + M - 2 I + M^-1] L^-1
    d log Z / d prior_latent = a + t,    d log Z / d diag(P) = -w / 2

so that one pass finds ``q`` and another sends each block's share through its kernel: nothing of
size ``m x p`` is stored, and no root is differentiated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.inference.base import Look
from botorch_pref.inference.evidence import log_evidence, refuse_second_derivatives
from botorch_pref.inference.implicit import represent
from botorch_pref.inference.inducing import InducingSide, identity
from botorch_pref.inference.inducing_rows import ItemKernel, RowBlock, cross_rows, variance_rows
from botorch_pref.inference.mode import LaplaceMode, locate
from botorch_pref.inference.predict import Representer


@represent.register
def represent_by_inducing_items(
    side: InducingSide, variance_weight: Tensor | None = None, *, start: Tensor | None = None
) -> Representer:
    r"""See :func:`~botorch_pref.inference.represent`; coordinates are whitened.

    The side keeps a Hessian near the mode, and rows that are few, for answers to be added.

    Raises:
        UnsupportedError: If the prior requires a gradient: that of a posterior through
            inducing items is not implemented.
    """
    if torch.is_grad_enabled() and any(t.requires_grad for t in _inputs_of(side)):
        raise UnsupportedError(
            "The posterior through inducing items cannot be differentiated with respect to "
            "its items or hyperparameters."
        )
    with torch.no_grad():
        if start is not None:
            side.hold(side.held)
        if variance_weight is not None:
            side.tighten()
        mode, look = locate(side, start=start)
        if variance_weight is None:
            factor = side.factor_at(look)
            side.hold(factor.cholesky)
            # A search that ends early leaves a step by the Hessian that covariances need anyway.
            move = torch.where(mode.converged, factor.solve(look.gradient), 0.0)
            mode = mode._replace(weights=mode.weights + move)
        else:
            side.hold(look.cholesky)
            factor = side.factor(variance_weight)
        return Representer(side, mode.weights, factor.gamma(), mode)


@log_evidence.register
def log_evidence_by_inducing_items(
    side: InducingSide, *, start: Tensor | None = None
) -> tuple[Tensor, LaplaceMode]:
    """See :func:`~botorch_pref.inference.log_evidence` and the formulas of this module."""
    side.tighten()
    mode, look = locate(side, start=start)
    value: Tensor = _Evidence.apply(side, look, *_inputs_of(side))
    side.forget()
    return value, mode


def _inputs_of(side: InducingSide) -> tuple[Tensor, ...]:
    return side.prior_latent, *side.kernel.inputs


def draw_weights(found: Representer, prior_values: Tensor, noise: Tensor) -> Tensor:
    r"""Weights of the kernel at the inducing items that turn prior into posterior draws.

    Args:
        found: The posterior, through inducing items.
        prior_values: ``... x p``-dim prior draws at the inducing items, less their mean.
        noise: ``... x p``-dim standard normal numbers.

    Returns:
        ``... x p``-dim ``L^-T [z - L^-1 f0(Z) + M^-1/2 e]``.
    """
    side = found.side
    assert isinstance(side, InducingSide)
    root = torch.linalg.cholesky(identity(found.gamma) - found.gamma)
    return side.unwhiten(found.weights + noise @ root.mT - side.whiten(prior_values))


class _Evidence(Function):
    """The gradient is found with the value, a block at a time, and waits for its factor."""

    @staticmethod
    def forward(ctx: Any, side: InducingSide, look: Look, *inputs: Tensor) -> Tensor:
        slope = _Slope(side, look)
        grads: Sequence[Tensor] = []
        ctx.wanted = ctx.needs_input_grad[2:]
        if any(ctx.wanted):
            grads = slope.gradients(list(ctx.wanted[1:]))
        ctx.save_for_backward(*(g for g, w in zip(grads, ctx.wanted, strict=False) if w))
        return look.objective - 0.5 * slope.factor.log_det - 0.5 * slope.lost

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives()
        saved = iter(ctx.saved_tensors)
        return None, None, *(next(saved) * grads[0] if w else None for w in ctx.wanted)


class _Slope:
    """What a first pass over the data at the mode finds.

    Attributes:
        factor: That of the Hessian.
        lost: The sum of ``w_i rho_i``.
        latent_slope: ``m``-dim ``g``.
        moved: ``p``-dim ``q``.
    """

    def __init__(self, side: InducingSide, look: Look) -> None:
        self.side, self.look, self.factor = side, look, side.factor_at(look)
        self.shrink = self.factor.gamma()
        self.lost = look.objective.new_zeros(())
        self.latent_slope = torch.empty_like(look.latent)
        total = torch.zeros_like(look.weights)
        for (rows, observations), design in side.design():
            latent, curvature = look.latent[rows], look.curvature[rows]
            _, _, third = observations.derivatives(latent)
            explained = design.square().sum(-1)
            lost = variance_rows(side.kernel, observations.map) - explained
            left = explained - ((design @ self.shrink) * design).sum(-1)
            self.lost += curvature @ lost
            self.latent_slope[rows] = slope = 0.5 * third * (left + lost)
            total += slope @ design
        self.moved = self.factor.solve(total)

    def gradients(self, wanted: Sequence[bool]) -> list[Tensor]:
        """Those with respect to the prior latent mean and the inputs of the kernel."""
        kernel = _Adjoint(self.side, wanted)
        latent = torch.empty_like(self.look.latent)
        z, q = self.look.weights, self.moved
        for block, design in self.side.design():
            rows, observations = block
            curvature = self.look.curvature[rows]
            score, _, _ = observations.derivatives(self.look.latent[rows])
            moved = self.latent_slope[rows] - curvature * (design @ q)
            latent[rows] = score + moved
            if not any(wanted):
                continue
            slope = (curvature.unsqueeze(-1) * design) @ self.shrink
            slope.addr_(score + moved, z).addr_(score, q)
            kernel.add(block, self.side.unwhiten(slope), -0.5 * curvature)
        return [latent, *(kernel.finish(self._of_inducing()) if any(wanted) else [])]

    def _of_inducing(self) -> Tensor:
        z, q = self.look.weights, self.moved
        inner = self.factor.hessian() - self.shrink
        inner.diagonal().sub_(1.0)
        inner += torch.outer(z, z) + torch.outer(q, z) + torch.outer(z, q)
        slope = -0.5 * self.side.unwhiten(self.side.unwhiten(inner).mT)
        slope.diagonal().add_(self.side.jitter_share * slope.diagonal().mean())
        return slope


class _Adjoint:
    """Gathers the gradient with respect to the inputs of a kernel, block by block."""

    def __init__(self, side: InducingSide, wanted: Sequence[bool]) -> None:
        inputs = zip(side.kernel.inputs, wanted, strict=True)
        self.leaves = [value.detach().requires_grad_(w) for value, w in inputs]
        self.kernel: ItemKernel = side.kernel.bound(self.leaves)
        self.totals = [torch.zeros_like(leaf) for leaf in self.leaves]
        self.rows = side.rows
        self.kept = None if side.rows.kept is None else torch.zeros_like(side.rows.kept)

    def add(self, block: RowBlock, slope: Tensor, variance_slope: Tensor) -> None:
        """Adds the share of a block: slopes with respect to its rows of ``C`` and ``P_ii``."""
        if self.kept is not None:
            sparse = block.observations.map
            for i, factor in enumerate(sparse.coefficients):
                share = (factor.unsqueeze(-1) if isinstance(factor, Tensor) else factor) * slope
                self.kept.index_add_(0, sparse.items[:, i], share)
        for rows, sparse in self.rows.chunks(block):
            with torch.enable_grad():
                value = variance_slope[rows] @ variance_rows(self.kernel, sparse)
                if self.kept is None:
                    value = value + (slope[rows] * cross_rows(self.kernel, sparse)).sum()
            self._add(value)

    def finish(self, inducing_slope: Tensor) -> list[Tensor]:
        """The gradients, given the slope with respect to ``K_zz``."""
        with torch.enable_grad():
            self._add((inducing_slope * self.kernel.inducing()).sum())
            if self.kept is not None:
                self._add((self.kept * self.kernel.cross(None)).sum())
        return self.totals

    def _add(self, value: Tensor) -> None:
        if not value.requires_grad:
            return
        needed = [i for i, leaf in enumerate(self.leaves) if leaf.requires_grad]
        leaves = [self.leaves[i] for i in needed]
        found = torch.autograd.grad(value, leaves, allow_unused=True)
        for i, grad in zip(needed, found, strict=True):
            if grad is not None:
                self.totals[i] += grad
