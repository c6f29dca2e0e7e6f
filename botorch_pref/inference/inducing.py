r"""Inference through inducing items: linear in the number of rows, which come in blocks.

Notation: ``Z`` inducing items (``p``), ``L L^T = K_zz``, ``C = H K_xz: m x p``,
``D = C L^-T``, so that ``Q = D D^T`` stands for ``P = H K_xx H^T`` (Quinonero-Candela and
Rasmussen 2005); ``rho = diag(P - Q)`` is the prior variance that is lost. Newton's
coordinates are ``z ~ N(0, I_p)`` with ``eta = prior_latent + D z``, the Hessian is
``M = I + D^T W D``. Where there are many rows neither ``C`` nor ``D`` is stored: each step is a
pass over the data, and memory grows by vectors of length ``m`` alone.

The utility itself keeps the variance that inducing items do not explain,
``cov(x, w) = k(x, w) - a(x)^T (I - M^-1) a(w)`` with ``a(x) = L^-1 k(Z, x)``.

The evidence is Laplace's under the prior covariance ``Q`` of the rows, less half the prior variance
that ``Q`` lacks, weighted by the curvature (the trace term of Titsias 2009, *Variational Learning
of Inducing Variables*):

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

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.autograd import Function
from torch.linalg import solve_triangular

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.inference.laplace import (
    LaplaceMode,
    LaplacePosterior,
    find_mode,
    laplace_posterior,
    log_evidence,
    refuse_second_derivatives,
)
from botorch_pref.inference.observations import Curvature, Incidence, Observations, scaled_sum
from botorch_pref.inference.systems import Factor, NewtonState, System, solve_vector

_STORED_ENTRIES = 2**24  # of a design matrix that is stored: 128 MiB in double precision
_BLOCK_ENTRIES = 2**18  # of a block of rows on a CPU, whose kernel is to fit into the cache
_DEVICE_ENTRIES = 2**26  # of one elsewhere
JITTER = 1e-10  # of the mean prior variance of the inducing items; more in single precision
_JITTER_A_POINT = 4  # times the precision, by which a factorisation rounds
_START_TOLERANCE = 1.0  # of the mode of a part of the rows, in posterior standard deviations
_LAST_TOLERANCE = 1e-5  # likewise, of a mode that a step without an evaluation improves
_SUBSAMPLE = 8  # one row in so many
_PANELS = 4  # of a symmetric matrix, of which 3 / 8 are not computed


@dataclass(frozen=True, eq=False)
class ItemKernel:
    r"""The prior covariance of items and inducing items.

    Args:
        covariance: A function of ``q x d`` and ``p x d``-dim points and ``diag``: their ``q x p``-
            dim covariance, or if ``q = p`` its diagonal.
        items: ``n x d``-dim transformed items.
        inducing: ``p x d``-dim transformed inducing items.
        scaling: ``n``-dim factors of the items' utilities in inference; ``None`` for ones.
        parameters: All tensors besides that ``covariance`` depends on.
    """

    covariance: Callable[..., Tensor]
    items: Tensor
    inducing: Tensor
    scaling: Tensor | None = None
    parameters: tuple[Tensor, ...] = ()

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """All tensors that the covariances depend on, with their graphs."""
        factors = () if self.scaling is None else (self.scaling,)
        return self.items, self.inducing, *factors, *self.parameters

    def with_leaves(self, wanted: Sequence[bool]) -> ItemKernel:
        """The same without the graphs; those of its inputs that are wanted require a gradient."""
        # A kernel reads its parameters from its modules, so they are not replaced.
        number = len(self.inputs) - len(self.parameters)
        given = zip(self.inputs[:number], wanted[:number], strict=True)
        items, inducing, *scaling = (v.detach().requires_grad_(w) for v, w in given)
        return replace(
            self, items=items, inducing=inducing, scaling=scaling[0] if scaling else None
        )

    def own(self) -> Tensor:
        """``p x p``-dim covariance of the inducing items."""
        return self.covariance(self.inducing, self.inducing)

    def cross(self, items: Tensor) -> Tensor:
        """``q x p``-dim covariance of ``q`` items, by index, with the inducing ones."""
        found = self.covariance(self.items[items], self.inducing)
        return found if self.scaling is None else self.scaling[items].unsqueeze(-1) * found

    def variances(self, rows: Incidence) -> Tensor:
        """``b``-dim diagonal of ``H K_xx H^T``."""
        columns = list(zip(rows.items.unbind(-1), rows.coefficients, strict=True))
        own = [(self._elements(i, i), a * a) for i, a in columns]
        pairs = combinations(columns, 2)
        return scaled_sum([*own, *((self._elements(i, j), 2 * a * b) for (i, a), (j, b) in pairs)])

    def _elements(self, first: Tensor, second: Tensor) -> Tensor:
        """``b``-dim covariances of items with items, by index."""
        found = self.covariance(self.items[first], self.items[second], diag=True)
        factors = self.scaling
        return found if factors is None else factors[first] * factors[second] * found


class RowBlock(NamedTuple):
    """Consecutive rows.

    Attributes:
        rows: Which ones.
        observations: What was observed there.
        items: The items that occur, each once, by index.
        incidence: The map to the rows from these items.
    """

    rows: slice
    observations: Observations
    items: Tensor
    incidence: Incidence


def spans(stop: int, size: int) -> list[slice]:
    """Consecutive slices of at most ``size`` up to ``stop``."""
    return [slice(i, min(i + size, stop)) for i in range(0, stop, size)]


class InducingSystem(System):
    r"""Coordinates are whitened utilities of the inducing items; no batches.

    Attributes:
        kernel: The covariances, with the graphs of their inputs.
        cholesky: ``p x p``-dim ``L``; NaN if ``K_zz`` has no root in spite of its jitter.
        jitter_share: The jitter of ``K_zz``, relative to the mean of its diagonal.
        blocks: The rows in blocks.
    """

    @torch.no_grad()
    def __init__(
        self, kernel: ItemKernel, prior_latent: Tensor, observations: Observations
    ) -> None:
        if not observations.is_elementwise:
            raise UnsupportedError("Choices of the best of several items need all items.")
        super().__init__(kernel.own(), prior_latent, observations)
        self.kernel = kernel
        eps, p = torch.finfo(self.covariance.dtype).eps, len(self.covariance)
        self.jitter_share = max(JITTER, max(100, _JITTER_A_POINT * p) * eps)
        jittered = self.covariance.clone()
        jittered.diagonal().add_(self.jitter_share * jittered.diagonal().mean())
        root, info = torch.linalg.cholesky_ex(jittered)
        self.cholesky = torch.where(info > 0, torch.nan, root)
        self.is_expensive = observations.num_rows * p > _STORED_ENTRIES
        on_cpu = prior_latent.device.type == "cpu"
        size = (_BLOCK_ENTRIES if on_cpu else _DEVICE_ENTRIES) // p
        self.blocks = [self._block(rows) for rows in spans(observations.num_rows, max(1, size))]
        self._designs: list[Tensor] | None = None

    def _block(self, rows: slice) -> RowBlock:
        observations = self.observations.rows(rows)
        whole = observations.incidence
        items, index = torch.unique(whole.items, return_inverse=True)
        own = Incidence(index, whole.coefficients, len(items))
        return RowBlock(rows, observations, items, own)

    def whiten(self, columns: Tensor) -> Tensor:
        """``... x p`` rows ``c L^-T`` of covariances with, or values at, the inducing items."""
        flat = columns.reshape(-1, columns.shape[-1])
        found = solve_triangular(self.cholesky, flat.mT, upper=False).mT
        return cast(Tensor, found.reshape(columns.shape))

    def unwhiten(self, z: Tensor) -> Tensor:
        """``... x p`` rows ``L^-T z``, weights of the kernel at the inducing items."""
        flat = z.reshape(-1, z.shape[-1])
        found = solve_triangular(self.cholesky.mT, flat.mT, upper=True).mT
        return cast(Tensor, found.reshape(z.shape))

    def columns(self, cross_covariance: Tensor) -> Tensor:
        """``a(x)``, from the covariance of points with the inducing items."""
        return self.whiten(cross_covariance)

    def design(self) -> Iterator[tuple[RowBlock, Tensor]]:
        """The blocks of rows and ``D`` there, which is stored only where it is small."""
        found = self._designs
        if found is None:
            parts = (self.whiten(b.incidence.rows(self.kernel.cross(b.items))) for b in self.blocks)
            if self.is_expensive:
                yield from zip(self.blocks, parts, strict=True)
                return
            self._designs = found = list(parts)
        yield from zip(self.blocks, found, strict=True)

    def refuse_gradient(self) -> None:
        """Raises if a gradient of the posterior would be expected."""
        if torch.is_grad_enabled() and any(t.requires_grad for t in _inputs_of(self)):
            raise UnsupportedError(
                "The posterior through inducing items cannot be differentiated with respect to "
                "its items or hyperparameters."
            )

    def forget(self) -> None:
        """Drop what can be computed again from the kernel."""
        self._designs = None

    def begin(self, start: Tensor | None) -> Tensor:
        """The mode of a part of the rows where there are many; else zero."""
        if start is not None:
            return start
        if not self.is_expensive:
            return self.covariance.new_zeros(len(self.covariance))
        part = slice(0, self.observations.num_rows, _SUBSAMPLE)
        few = InducingSystem(self.kernel, self.prior_latent[part], self.observations.rows(part))
        few.tolerance = _START_TOLERANCE
        return find_mode(few).weights

    def evaluate(self, z: Tensor) -> NewtonState:
        """One pass over the data. The distance is Newton's decrement."""
        latent, weight = torch.empty_like(self.prior_latent), torch.empty_like(self.prior_latent)
        objective, gradient = -0.5 * z.square().sum(), -z
        hessian = identity(self.covariance)
        for (rows, observations, *_), design in self.design():
            eta = self.prior_latent[rows] + design @ z
            score, own = observations.derivatives(eta)
            objective = objective + observations.log_prob(eta).sum()
            gradient = gradient + score @ design
            _add_gram(hessian, design, own.weight)
            latent[rows], weight[rows] = eta, own.weight
        cholesky = torch.linalg.cholesky_ex(hessian).L
        distance = solve_triangular(cholesky, gradient.unsqueeze(-1), upper=False).norm()
        return NewtonState(latent, z, objective, Curvature(weight), gradient, distance, cholesky)

    def newton(self, state: NewtonState) -> tuple[Tensor, Tensor]:
        direction = solve_vector(_factor_at(state).cholesky, state.gradient)
        return direction, state.gradient @ direction

    def factor(self, weight: Tensor) -> InducingFactor:
        """That of the Hessian at ``m``-dim curvatures, by one pass over the data."""
        hessian = identity(self.covariance)
        for block, design in self.design():
            _add_gram(hessian, design, weight[block.rows])
        return InducingFactor(torch.linalg.cholesky_ex(hessian).L)


@dataclass(eq=False)
class InducingFactor(Factor):
    """Cholesky of ``M = I + D^T W D``."""

    cholesky: Tensor

    def gamma(self) -> Tensor:
        """``I - M^-1``, which is ``Gamma`` in whitened coordinates."""
        one = identity(self.cholesky)
        return one - torch.cholesky_solve(one, self.cholesky)


def _factor_at(state: NewtonState) -> InducingFactor:
    assert state.cholesky is not None  # every state of this system has one
    return InducingFactor(state.cholesky)


def identity(like: Tensor) -> Tensor:
    """``p x p``-dim, for a matrix of that size."""
    return torch.eye(len(like), dtype=like.dtype, device=like.device)


def _add_gram(total: Tensor, design: Tensor, weight: Tensor) -> None:
    """Adds ``D^T diag(w) D``, which is symmetric, to the lower triangle of ``p x p``."""
    scaled = weight.unsqueeze(-1) * design
    for columns in spans(len(total), -(-len(total) // _PANELS)):
        total[columns, : columns.stop] += design[:, columns].mT @ scaled[:, : columns.stop]


@laplace_posterior.register
def _laplace_posterior(
    system: InducingSystem, variance_weight: Tensor | None = None, *, start: Tensor | None = None
) -> LaplacePosterior:
    """The posterior in whitened coordinates, without a gradient."""
    system.refuse_gradient()
    with torch.no_grad():
        if system.is_expensive:
            system.tolerance = max(system.tolerance, _LAST_TOLERANCE)
        mode = find_mode(system, start=start)
        factor = _factor_at(mode.state)
        step = solve_vector(factor.cholesky, mode.state.gradient)
        mode = mode._replace(weights=mode.weights + torch.where(mode.converged, step, 0.0))
        if variance_weight is not None:
            factor = system.factor(variance_weight)
        system.forget()
        return LaplacePosterior(system, mode.weights, factor.gamma(), mode, factor)


@log_evidence.register
def _log_evidence(
    system: InducingSystem, *, start: Tensor | None = None
) -> tuple[Tensor, LaplaceMode]:
    """The evidence by the formulas of this module."""
    mode = find_mode(system, start=start)
    value: Tensor = _Evidence.apply(system, mode.state, *_inputs_of(system))
    system.forget()
    return value, mode


def _inputs_of(system: InducingSystem) -> tuple[Tensor, ...]:
    return system.prior_latent, *system.kernel.inputs


def draw_weights(found: LaplacePosterior, prior_values: Tensor, noise: Tensor) -> Tensor:
    r"""Weights of the kernel at the inducing items that turn prior into posterior draws.

    Args:
        found: The posterior, through inducing items.
        prior_values: ``... x p``-dim prior draws at the inducing items, less their mean.
        noise: ``... x p``-dim standard normal numbers.

    Returns:
        ``... x p``-dim ``L^-T [z - L^-1 f0(Z) + M^-1/2 e]``.
    """
    system = found.system
    assert isinstance(system, InducingSystem)
    root = torch.linalg.cholesky(identity(found.gamma) - found.gamma)
    return system.unwhiten(found.weights + noise @ root.mT - system.whiten(prior_values))


class _Evidence(Function):
    """The gradient is computed with the value, block by block; `backward` only scales it."""

    @staticmethod
    def forward(ctx: Any, system: InducingSystem, state: NewtonState, *inputs: Tensor) -> Tensor:
        ctx.wanted = ctx.needs_input_grad[2:]
        value, grads = _evidence_and_gradients(system, state, ctx.wanted)
        ctx.save_for_backward(*(g for g, w in zip(grads, ctx.wanted, strict=False) if w))
        return value

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives()
        saved = iter(ctx.saved_tensors)
        return None, None, *(next(saved) * grads[0] if w else None for w in ctx.wanted)


def _evidence_and_gradients(
    system: InducingSystem, state: NewtonState, wanted: Sequence[bool]
) -> tuple[Tensor, list[Tensor]]:
    """The evidence at a mode and, if wanted, its gradients in ``prior_latent`` and the inputs."""
    factor, z = _factor_at(state), state.weights
    shrink, lost = factor.gamma(), torch.zeros_like(state.objective)
    latent_slope, total = torch.empty_like(state.latent), torch.zeros_like(z)
    for (rows, observations, *_), design in system.design():
        _, own = observations.derivatives(state.latent[rows])
        explained = design.square().sum(-1)
        missing = system.kernel.variances(observations.incidence) - explained
        left = explained - ((design @ shrink) * design).sum(-1)
        lost += own.weight @ missing
        latent_slope[rows] = slope = 0.5 * own.contract(left + missing)
        total += slope @ design
    value = state.objective - 0.5 * factor.log_det - 0.5 * lost
    if not any(wanted):
        return value, []
    q = solve_vector(factor.cholesky, total)
    kernel, latent = system.kernel.with_leaves(wanted[1:]), torch.empty_like(state.latent)
    totals = [torch.zeros_like(leaf) for leaf in kernel.inputs]
    for (rows, observations, items, incidence), design in system.design():
        score, own = observations.derivatives(state.latent[rows])
        moved = latent_slope[rows] - own.weight * (design @ q)
        latent[rows] = score + moved
        slope = (own.weight.unsqueeze(-1) * design) @ shrink
        slope.addr_(score + moved, z).addr_(score, q)
        slope = incidence.spread(system.unwhiten(slope))
        with torch.enable_grad():
            prior = own.weight @ kernel.variances(observations.incidence)
            share = (slope * kernel.cross(items)).sum() - 0.5 * prior
        _add_gradients(totals, share, kernel)
    inner = factor.cholesky @ factor.cholesky.mT - shrink
    inner.diagonal().sub_(1.0)
    inner += torch.outer(z, z) + torch.outer(q, z) + torch.outer(z, q)
    slope = -0.5 * system.unwhiten(system.unwhiten(inner).mT)
    slope.diagonal().add_(system.jitter_share * slope.diagonal().mean())
    with torch.enable_grad():
        share = (slope * kernel.own()).sum()
    _add_gradients(totals, share, kernel)
    return value, [latent, *totals]


def _add_gradients(totals: list[Tensor], value: Tensor, kernel: ItemKernel) -> None:
    """Adds the gradients of a value to those with respect to the inputs of a kernel."""
    if not value.requires_grad:
        return
    learnt = [(t, v) for t, v in zip(totals, kernel.inputs, strict=True) if v.requires_grad]
    grads = torch.autograd.grad(value, [v for _, v in learnt], allow_unused=True)
    for (total, _), grad in zip(learnt, grads, strict=True):
        if grad is not None:
            total += grad
