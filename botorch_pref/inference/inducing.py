r"""Inference through inducing items: linear in the number of rows, which come in blocks.

Notation: ``Z`` inducing items (``p``), ``L L^T = K_zz``, ``C = H K_xz: m x p``,
``D = C L^-T``, so that ``Q = D D^T`` stands for ``P = H K_xx H^T`` (Quinonero-Candela and
Rasmussen 2005); ``rho = diag(P - Q)`` is the prior variance that is lost. Newton's
coordinates are ``z ~ N(0, I_p)`` with ``eta = prior_latent + D z``, the Hessian is
``M = I + D^T W D``. Where there are many rows neither ``C`` nor ``D`` is stored: an evaluation of
the objective is a pass over the data, a Hessian another, and memory grows by vectors of length
``m`` alone. As an evaluation then costs a fraction of a Hessian, several steps share one.

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

import copy
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, NamedTuple, Protocol, Self, cast

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
from botorch_pref.inference.observations import (
    Curvature,
    Incidence,
    Observations,
    as_curvature,
    scaled_sum,
)
from botorch_pref.inference.systems import Factor, NewtonState, System, solve_vector

_KEPT_ENTRIES = 2**24  # of a covariance of all items that is kept: 128 MiB in double precision
_STORED_ENTRIES = 2**24  # of a design matrix that is stored
_BLOCK_ENTRIES = 2**20  # of a block of rows on a CPU, whose matrix products pay so
_CHUNK_ENTRIES = 2**16  # a thread, of a part whose kernel, and its copies, fits into the cache
_DEVICE_ENTRIES = 2**26  # of either elsewhere
JITTER = 1e-10  # of the mean prior variance of the inducing items; more in single precision
_JITTER_A_POINT = 4  # times the precision, by which a factorisation rounds
_EXPENSIVE_TOLERANCE = 1e-6  # of the mode, in posterior standard deviations, where a step follows
_TIGHT_TOLERANCE = 1e-7  # likewise, where none does
_START_TOLERANCE = 1.0  # likewise, of that of a part of the rows
_FLOOR = 1000  # roundings, below which a decrement need not fall
_SLOW = 0.3  # the share of its distance that a step may leave before there is a new Hessian
_FEW_ROWS = 2**14  # below which no subsample is worth its mode
_SUBSAMPLE = 8  # one row in so many
_PANELS = 4  # of a symmetric matrix, of which 3 / 8 are not computed
_SEED = 719_206_511


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
        self.blocks = [RowBlock(rows, observations.rows(rows)) for rows in spans(stop, size)]
        if kept is None and observations.num_items * kernel.num_inducing <= _KEPT_ENTRIES:
            self.kept = kernel.cross(None)

    def __iter__(self) -> Iterator[tuple[RowBlock, Tensor]]:
        """All blocks, in order, and their ``b x p``-dim rows of ``C``."""
        for block in self.blocks:
            yield block, self.cross(block)

    def cross(self, block: RowBlock) -> Tensor:
        """``b x p``-dim rows of ``C``, without a graph."""
        if self.kept is not None:
            return block.observations.incidence.rows(self.kept)
        weight = block.observations.weight
        found = weight.new_empty(len(weight), self.kernel.num_inducing)
        for rows, sparse in self.chunks(block):
            found[rows] = cross_rows(self.kernel, sparse)
        return found

    def chunks(self, block: RowBlock) -> Iterator[tuple[slice, Incidence]]:
        """The parts of a block, as slices of its rows and of its map."""
        whole = block.observations.incidence
        for rows in spans(block.observations.num_rows, self.chunk):
            factors = [f[rows] if isinstance(f, Tensor) else f for f in whole.coefficients]
            yield rows, Incidence(whole.items[rows], factors, whole.num_items)


def spans(stop: int, size: int) -> list[slice]:
    """Consecutive slices of at most ``size`` up to ``stop``."""
    return [slice(i, min(i + size, stop)) for i in range(0, stop, size)]


def cross_rows(kernel: ItemKernel, rows: Incidence) -> Tensor:
    """``b x p``-dim rows of ``H K_xz``, from the covariance of the items of these rows alone."""
    size, width = rows.items.shape
    parts = kernel.cross(rows.items.T.reshape(-1)).view(width, size, -1)
    factors = (f.unsqueeze(-1) if isinstance(f, Tensor) else f for f in rows.coefficients)
    return scaled_sum(zip(parts.unbind(), factors, strict=True))


def variance_rows(kernel: ItemKernel, rows: Incidence) -> Tensor:
    """``b``-dim diagonal of ``H K_xx H^T``."""
    columns = list(zip(rows.items.unbind(-1), rows.coefficients, strict=True))
    own = [(kernel.covariance(i, i), a * a) for i, a in columns]
    pairs = combinations(columns, 2)
    return scaled_sum([*own, *((kernel.covariance(i, j), 2 * a * b) for (i, a), (j, b) in pairs)])


class InducingSystem(System):
    r"""Coordinates are whitened utilities of the inducing items; no batches.

    Attributes:
        kernel: The covariances, with the graphs of their inputs.
        cholesky: ``p x p``-dim ``L``; NaN if ``K_zz`` has no root in spite of its jitter.
        jitter_share: The jitter of ``K_zz``, relative to the mean of its diagonal.
        rows: The rows in blocks.
    """

    @torch.no_grad()
    def __init__(
        self, kernel: ItemKernel, prior_latent: Tensor, observations: Observations
    ) -> None:
        if not observations.is_elementwise:
            raise UnsupportedError("Choices of the best of several items need all items.")
        super().__init__(kernel.inducing(), prior_latent, observations)
        self.kernel = kernel
        eps, p = torch.finfo(self.covariance.dtype).eps, len(self.covariance)
        self.jitter_share = max(JITTER, max(100, _JITTER_A_POINT * p) * eps)
        jittered = self.covariance.clone()
        jittered.diagonal().add_(self.jitter_share * jittered.diagonal().mean())
        root, info = torch.linalg.cholesky_ex(jittered)
        self.cholesky = torch.where(info > 0, torch.nan, root)
        self._set_rows(InducingRows(kernel, observations))

    def _set_rows(self, rows: InducingRows) -> None:
        self._held: Tensor | None = None  # a factored Hessian near by, by which steps are taken
        self._last = self.covariance.new_full((), torch.inf)
        self.rows = rows
        self._is_stored = self.observations.num_rows * len(self.covariance) <= _STORED_ENTRIES
        self._whitened: Tensor | None = None
        self.is_expensive = not self._is_stored
        if self.is_expensive:
            self.tolerance = self._at_least(_EXPENSIVE_TOLERANCE)

    def tighten(self) -> None:
        """Search to the tolerance of a mode that no further Newton step improves."""
        self.tolerance = min(self.tolerance, self._at_least(_TIGHT_TOLERANCE))

    def _at_least(self, tolerance: float) -> float:
        """A decrement does not fall below some hundred roundings, which single precision shows."""
        return max(tolerance, _FLOOR * float(torch.finfo(self.covariance.dtype).eps))

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
        if not self._is_stored:
            yield from ((block, self.whiten(rows)) for block, rows in self.rows)
            return
        if self._whitened is None:
            size = self.observations.num_rows, len(self.covariance)
            self._whitened = self.covariance.new_empty(size)
            for block, rows in self.rows:
                self._whitened[block.rows] = self.whiten(rows)
        yield from ((block, self._whitened[block.rows]) for block in self.rows.blocks)

    def begin(self, start: Tensor | None) -> Tensor:
        """The mode of a part of the rows where there are many; else zero.

        The Hessian of that part, scaled up, serves until steps by it prove slow.
        """
        self._last = torch.full_like(self._last, torch.inf)
        if start is not None:
            return start
        self._held = None
        if self._is_stored or self.observations.num_rows <= _FEW_ROWS:
            return self.covariance.new_zeros(len(self.covariance))
        part = self._part()
        mode = find_mode(part)
        hessian = part.factor_at(mode.state).hessian() * _SUBSAMPLE
        hessian.diagonal().sub_(_SUBSAMPLE - 1)
        self._held = torch.linalg.cholesky_ex(hessian).L
        return mode.weights

    def evaluate(self, z: Tensor) -> NewtonState:
        """The distance is Newton's decrement."""
        latent, weight = torch.empty_like(self.prior_latent), torch.empty_like(self.prior_latent)
        objective, total = -0.5 * z.square().sum(), torch.zeros_like(z)
        stored = self._is_stored
        point = z if stored else self.unwhiten(z)
        for (rows, observations), matrix in self.design() if stored else self.rows:
            eta = self.prior_latent[rows] + matrix @ point
            score, own = observations.derivatives(eta)
            objective = objective + observations.log_prob(eta).sum()
            total += score @ matrix
            latent[rows], weight[rows] = eta, own.weight
        gradient = (total if stored else self.whiten(total)) - z
        held = self._held
        curvature = as_curvature(weight)
        cholesky = self.factor(curvature).cholesky if held is None else held
        distance = _decrement(cholesky, gradient)
        slow = None if held is None else distance > _SLOW * self._last
        # A design that is stored is cheap to evaluate, and each step is Newton's own as a rule.
        self._held = None if stored else cholesky
        return NewtonState(latent, z, objective, curvature, gradient, distance, cholesky, slow)

    def newton(self, state: NewtonState, slow: bool = False) -> tuple[Tensor, Tensor]:
        cholesky, self._last = state.cholesky, state.distance
        assert cholesky is not None  # every state of this system has one
        if slow:
            cholesky = self.factor(state.curvature).cholesky
            self._held, self._last = cholesky, _decrement(cholesky, state.gradient)
        direction = solve_vector(cholesky, state.gradient)
        return direction, state.gradient @ direction

    def factor(self, curvature: Tensor | Curvature) -> InducingFactor:
        """One pass over the data."""
        weight = as_curvature(curvature).weight
        hessian = identity(self.covariance)
        for (rows, _), design in self.design():
            _add_gram(hessian, design, weight[rows])
        return InducingFactor(torch.linalg.cholesky_ex(hessian).L)

    def factor_at(self, state: NewtonState) -> InducingFactor:
        """That of the Hessian at a state."""
        if self._is_stored and state.cholesky is not None:
            return InducingFactor(state.cholesky)
        return self.factor(state.curvature)

    def forget(self) -> None:
        """Drop what can be computed again from the kernel."""
        self._whitened = self._held = None

    def _part(self) -> InducingSystem:
        """The same system for a part of the rows, chosen at random."""
        generator = torch.Generator().manual_seed(_SEED)
        order = torch.randperm(self.observations.num_rows, generator=generator)
        chosen = order[: len(order) // _SUBSAMPLE].sort().values.to(self.prior_latent.device)
        part = copy.copy(self)
        part.observations = self.observations.rows(chosen)
        part.prior_latent = self.prior_latent[chosen]
        part._set_rows(InducingRows(self.kernel, part.observations, self.rows.kept))
        part.is_expensive, part.tolerance = True, _START_TOLERANCE
        return part


class InducingFactor(Factor):
    """Cholesky of ``M = I + D^T W D``."""

    def __init__(self, cholesky: Tensor) -> None:
        self.cholesky = cholesky

    def hessian(self) -> Tensor:
        """``M``."""
        return self.cholesky @ self.cholesky.mT

    def gamma(self) -> Tensor:
        """``I - M^-1``, which is ``Gamma`` in whitened coordinates."""
        one = identity(self.cholesky)
        return one - torch.cholesky_solve(one, self.cholesky)


def identity(like: Tensor) -> Tensor:
    """``p x p``-dim, for a matrix of that size."""
    return torch.eye(len(like), dtype=like.dtype, device=like.device)


def _decrement(cholesky: Tensor, gradient: Tensor) -> Tensor:
    """Newton's, of a factored Hessian."""
    return solve_triangular(cholesky, gradient.unsqueeze(-1), upper=False).norm()


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
    if torch.is_grad_enabled() and any(t.requires_grad for t in _inputs_of(system)):
        raise UnsupportedError(
            "The posterior through inducing items cannot be differentiated with respect to "
            "its items or hyperparameters."
        )
    with torch.no_grad():
        if variance_weight is not None:
            system.tighten()
        mode = find_mode(system, start=start)
        if variance_weight is None:
            factor = system.factor_at(mode.state)
            # A search that ends early leaves a step by the Hessian that covariances need anyway.
            step = solve_vector(factor.cholesky, mode.state.gradient)
            move = torch.where(mode.converged, step, 0.0)
            mode = mode._replace(weights=mode.weights + move)
        else:
            factor = system.factor(variance_weight)
        system.forget()
        return LaplacePosterior(system, mode.weights, factor.gamma(), mode, factor)


@log_evidence.register
def _log_evidence(
    system: InducingSystem, *, start: Tensor | None = None
) -> tuple[Tensor, LaplaceMode]:
    """The evidence by the formulas of this module."""
    system.tighten()
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
        slope = _Slope(system, state)
        grads: Sequence[Tensor] = []
        ctx.wanted = ctx.needs_input_grad[2:]
        if any(ctx.wanted):
            grads = slope.gradients(list(ctx.wanted[1:]))
        ctx.save_for_backward(*(g for g, w in zip(grads, ctx.wanted, strict=False) if w))
        return state.objective - 0.5 * slope.factor.log_det - 0.5 * slope.lost

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

    def __init__(self, system: InducingSystem, state: NewtonState) -> None:
        self.system, self.state, self.factor = system, state, system.factor_at(state)
        self.shrink = self.factor.gamma()
        self.lost = state.objective.new_zeros(())
        self.latent_slope = torch.empty_like(state.latent)
        total = torch.zeros_like(state.weights)
        for (rows, observations), design in system.design():
            latent, curvature = state.latent[rows], state.curvature.weight[rows]
            _, own = observations.derivatives(latent)
            explained = design.square().sum(-1)
            lost = variance_rows(system.kernel, observations.incidence) - explained
            left = explained - ((design @ self.shrink) * design).sum(-1)
            self.lost += curvature @ lost
            self.latent_slope[rows] = slope = 0.5 * own.contract(left + lost)
            total += slope @ design
        self.moved = solve_vector(self.factor.cholesky, total)

    def gradients(self, wanted: Sequence[bool]) -> list[Tensor]:
        """Those with respect to the prior latent mean and the inputs of the kernel."""
        kernel = _Adjoint(self.system, wanted)
        latent = torch.empty_like(self.state.latent)
        z, q = self.state.weights, self.moved
        for block, design in self.system.design():
            rows, observations = block
            curvature = self.state.curvature.weight[rows]
            score, _ = observations.derivatives(self.state.latent[rows])
            moved = self.latent_slope[rows] - curvature * (design @ q)
            latent[rows] = score + moved
            if not any(wanted):
                continue
            slope = (curvature.unsqueeze(-1) * design) @ self.shrink
            slope.addr_(score + moved, z).addr_(score, q)
            kernel.add(block, self.system.unwhiten(slope), -0.5 * curvature)
        if not any(wanted):
            return [latent]
        inner = self.factor.hessian() - self.shrink
        inner.diagonal().sub_(1.0)
        inner += torch.outer(z, z) + torch.outer(q, z) + torch.outer(z, q)
        slope = -0.5 * self.system.unwhiten(self.system.unwhiten(inner).mT)
        slope.diagonal().add_(self.system.jitter_share * slope.diagonal().mean())
        return [latent, *kernel.finish(slope)]


class _Adjoint:
    """Gathers the gradient with respect to the inputs of a kernel, block by block."""

    def __init__(self, system: InducingSystem, wanted: Sequence[bool]) -> None:
        inputs = zip(system.kernel.inputs, wanted, strict=True)
        # A kernel reads its parameters from its modules, so leaves are not replaced.
        self.leaves = [v if v.is_leaf else v.detach().requires_grad_(w) for v, w in inputs]
        self.kernel: ItemKernel = system.kernel.bound(self.leaves)
        self.totals = [torch.zeros_like(leaf) for leaf in self.leaves]
        self.rows = system.rows
        self.kept = None if system.rows.kept is None else torch.zeros_like(system.rows.kept)

    def add(self, block: RowBlock, slope: Tensor, variance_slope: Tensor) -> None:
        """Adds the share of a block: slopes with respect to its rows of ``C`` and ``P_ii``."""
        if self.kept is not None:
            sparse = block.observations.incidence
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
