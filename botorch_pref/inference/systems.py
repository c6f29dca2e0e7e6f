r"""The dual and the primal system: one posterior in ``M`` latent values or in ``n`` items.

Notation: ``K: ... x n x n`` prior covariance of the items, ``H: M x n`` the incidence matrix,
``P = H K H^T: ... x M x M``, ``W = S S^T`` the curvature, ``C`` the covariance of a system's
coordinates (``P`` or ``K``), ``G`` the system's own map to the latent values (the identity or
``H``), so that ``P = G C G^T`` in both systems.

* dual: ``B = I + S^T P S``, whose eigenvalues are at least 1;
* primal: ``I + R^T L_W R`` with ``K = R R^T`` and ``L_W = H^T W H``.

All that the evidence and its gradient need of a factored Hessian is ``log det(I + W P)``,
``Gamma = G^T S B^-1 S^T G = (C + L_W^-1)^-1``, the solution of ``(I + W P) t = x`` and the
posterior variances of the latent values. No gradient is ever taken through a root.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache, cached_property

import torch
from torch import Tensor
from torch.linalg import solve_triangular

from botorch_pref.inference.observations import (
    BlockCurvature,
    Curvature,
    IdentityIncidence,
    Incidence,
    Marginals,
    Observations,
    as_curvature,
    broadcast,
    matvec,
)

_SMALL = 64  # roots of the rounding unit
_DRAW_JITTER = 1e-6  # of the mean variance
_LARGEST = 2**25 - 2**13  # bytes; blocks above 32 MiB do not raise the threshold of glibc


@dataclass(frozen=True, eq=False)
class NewtonState:
    r"""What a step of Newton's method needs of one point.

    Attributes:
        latent: ``... x M``-dim latent values ``eta``.
        weights: What :attr:`LaplaceMode.weights` would be, were this the mode.
        objective: ``...``-dim log joint density.
        curvature: The curvature of the log likelihood.
        gradient: ``... x r``-dim gradient in Newton's coordinates; it vanishes at the mode.
        distance: ``...``-dim size of the gradient, in the system's own measure.
        cholesky: ``... x r x r``-dim factor of the Hessian, if known.
    """

    latent: Tensor
    weights: Tensor
    objective: Tensor
    curvature: Curvature
    gradient: Tensor
    distance: Tensor
    cholesky: Tensor | None = None


class System(ABC):
    r"""A prior and observations, as the search for the mode and predictions use them.

    Attributes:
        covariance: ``... x s x s``-dim prior covariance of the system's coordinates.
        prior_latent: ``... x M``-dim prior mean of the latent values.
        observations: The observations.
        tolerance: The :attr:`NewtonState.distance` below which an element counts as converged.
        is_expensive: Whether an evaluation costs so much that the first state within the
            tolerance ends the search.
    """

    is_expensive = False

    def __init__(
        self, covariance: Tensor, prior_latent: Tensor, observations: Observations
    ) -> None:
        self.covariance = covariance
        self.prior_latent = prior_latent
        self.observations = observations
        self.tolerance = 0.5 * float(torch.finfo(covariance.dtype).eps ** 0.5)

    @abstractmethod
    def columns(self, cross_covariance: Tensor) -> Tensor:
        """Covariance of points with the coordinates, from ``... x q x n`` with items."""

    @abstractmethod
    def begin(self, start: Tensor | None) -> Tensor:
        """Newton's coordinates ``... x r`` to begin a search with, given weights or none."""

    @abstractmethod
    def evaluate(self, z: Tensor) -> NewtonState:
        """The objective and its derivatives at Newton's coordinates ``z``."""

    def is_small(self, state: NewtonState, z: Tensor) -> Tensor:
        """Whether the gradient is small beside its own terms, for each element."""
        return torch.ones_like(state.distance, dtype=torch.bool)

    @abstractmethod
    def newton(self, state: NewtonState) -> tuple[Tensor, Tensor]:
        """Newton's direction, and the slope of the objective along it."""


class ExactSystem(System):
    r"""A system with the full prior covariance.

    Attributes:
        incidence: The map ``G`` from the system's coordinates to the latent values.
        deviation: The largest derivative of a latent value in one of Newton's coordinates.
    """

    incidence: Incidence | IdentityIncidence
    deviation: Tensor | float
    _scale: Tensor  # of the gradient, in this search

    def begin(self, start: Tensor | None) -> Tensor:
        size = self.deviation * self.observations.score_scale(self.prior_latent)
        self._scale = size.clamp_min(1.0)
        covariance, shapes = self.covariance, (self.prior_latent.shape[:-1], size.shape)
        shape = broadcast(covariance.shape[:-2], *shapes)
        zero = covariance.new_zeros(*shape, covariance.shape[-1])
        if start is None:
            return zero
        # Weights found under another prior can be worse than zero.
        near = self.coordinates(start).expand_as(zero)
        better = self._objective(near)[1] > self._objective(zero)[1]
        return torch.where(better.unsqueeze(-1), near, zero)

    def evaluate(self, z: Tensor) -> NewtonState:
        """The distance is relative to the terms of the gradient."""
        latent, objective = self._objective(z)
        score, curvature = self.observations.derivatives(latent)
        gradient = self.coordinates(score) - z  # of the dual system, `P^-1` times it
        distance = gradient.abs().amax(-1) / self._scale
        return NewtonState(latent, score, objective, curvature, gradient, distance)

    def is_small(self, state: NewtonState, z: Tensor) -> Tensor:
        share = _SMALL * torch.finfo(z.dtype).eps ** 0.5
        return state.gradient.abs().amax(-1) <= share * z.abs().amax(-1)

    def gain(self, weights: Tensor) -> Tensor:
        """``P a: ... x M``, what latent values exceed their prior mean by, for weights ``a``."""
        alpha = self.incidence.adjoint(weights)
        return self.incidence.apply(matvec(self.covariance, alpha))

    def _objective(self, z: Tensor) -> tuple[Tensor, Tensor]:
        shift = self.latent(z)
        latent = self.prior_latent + shift
        return latent, self.observations.log_prob(latent).sum(-1) - self.penalty(z, shift)

    @abstractmethod
    def coordinates(self, weights: Tensor) -> Tensor:
        """Newton's coordinates ``z`` of ``... x M`` representer weights."""

    @abstractmethod
    def latent(self, z: Tensor) -> Tensor:
        """``eta - prior_latent`` at Newton's coordinates ``z``."""

    @abstractmethod
    def penalty(self, z: Tensor, latent: Tensor) -> Tensor:
        """Half the squared prior norm at ``z``, where ``latent = self.latent(z)``."""

    @abstractmethod
    def factor(self, curvature: Tensor | Curvature) -> ExactFactor:
        """Factor the Hessian at a curvature, of which a tensor is the diagonal."""


class DualSystem(ExactSystem):
    """Coordinates are the latent values; the representer weights are one a row.

    Args:
        item_covariance: ``... x n x n``-dim prior covariance of the items.
        prior_latent: ``... x M``-dim prior mean of the latent values.
        observations: The observations.
    """

    def __init__(
        self, item_covariance: Tensor, prior_latent: Tensor, observations: Observations
    ) -> None:
        super().__init__(observations.incidence.gram(item_covariance), prior_latent, observations)
        self.incidence = IdentityIncidence()
        self.deviation = 1.0  # the gradient is in the units of the score

    def columns(self, cross_covariance: Tensor) -> Tensor:
        return self.observations.incidence.columns(cross_covariance)

    def coordinates(self, weights: Tensor) -> Tensor:
        return weights

    def latent(self, z: Tensor) -> Tensor:
        return matvec(self.covariance, z)

    def penalty(self, z: Tensor, latent: Tensor) -> Tensor:
        return 0.5 * (z * latent).sum(-1)

    def newton(self, state: NewtonState) -> tuple[Tensor, Tensor]:
        direction = self.factor(state.curvature).solve_adjoint(state.gradient)
        return direction, (state.gradient * self.latent(direction)).sum(-1)

    def factor(self, curvature: Tensor | Curvature) -> DualFactor:
        return DualFactor(self.covariance, as_curvature(curvature))


class PrimalSystem(ExactSystem):
    """Coordinates are the utilities; the representer weights are one an item.

    For the arguments see :class:`DualSystem`.
    """

    incidence: Incidence

    def __init__(
        self, item_covariance: Tensor, prior_latent: Tensor, observations: Observations
    ) -> None:
        super().__init__(item_covariance, prior_latent, observations)
        self.incidence = observations.incidence
        variance = item_covariance.detach().diagonal(dim1=-2, dim2=-1)
        self.deviation = variance.amax(-1).sqrt()

    @cached_property
    def root(self) -> Tensor:
        """The ``... x n x n``-dim root ``R`` of the covariance."""
        return prior_root(self.covariance.detach())

    def columns(self, cross_covariance: Tensor) -> Tensor:
        return cross_covariance

    def coordinates(self, weights: Tensor) -> Tensor:
        return matvec(self.root.mT, self.incidence.adjoint(weights))

    def latent(self, z: Tensor) -> Tensor:
        return self.incidence.apply(matvec(self.root, z))

    def penalty(self, z: Tensor, latent: Tensor) -> Tensor:
        return 0.5 * z.square().sum(-1)

    def newton(self, state: NewtonState) -> tuple[Tensor, Tensor]:
        curvature, factor = state.curvature, None
        if (excess := curvature.excess) is not None:
            # With curvature below zero steps are Newton's own where they can be: others, which
            # count it as zero, converge linearly.
            factor = self.factor(curvature.weight - excess)
            factor = None if bool(factor.is_indefinite.any()) else factor
        factor = self.factor(curvature) if factor is None else factor
        direction = solve_vector(factor.cholesky, state.gradient)
        return direction, (state.gradient * direction).sum(-1)

    def factor(self, curvature: Tensor | Curvature) -> PrimalFactor:
        return PrimalFactor(self, as_curvature(curvature))


def choose_system(
    item_covariance: Tensor, prior_latent: Tensor, observations: Observations
) -> DualSystem | PrimalSystem:
    r"""The smaller system: the dual one where there are no more latent values than items.

    Its ``covariance`` carries the graph of ``item_covariance``, which may be singular. For the
    arguments see :class:`DualSystem`.
    """
    is_dual = observations.num_rows <= observations.num_items
    system = DualSystem if is_dual else PrimalSystem
    return system(item_covariance, prior_latent, observations)


def prior_root(covariance: Tensor) -> Tensor:
    """``R`` with ``R R^T = K``: Cholesky's, or of eigenvectors where ``K`` is singular."""
    root, info = torch.linalg.cholesky_ex(covariance)
    failed = info > 0
    if not bool(failed.any()):
        return root
    # What is not finite has no eigenvectors; its root, and no other, is not finite either.
    finite = covariance.isfinite().all(dim=-1, keepdim=True).all(dim=-2, keepdim=True)
    values, vectors = torch.linalg.eigh(torch.where(finite, covariance, 0.0))
    spectral = vectors * values.clamp_min(0.0).sqrt().unsqueeze(-2)
    spectral = torch.where(finite, spectral, torch.nan)
    return torch.where(failed[..., None, None], spectral, root)


def joint_draws(
    mean: Tensor, covariance: Tensor, number: int, generator: torch.Generator
) -> Tensor:
    """``number x n``-dim draws of ``N(mean, covariance)``, with a millionth more variance."""
    size = len(mean)
    jitter = _DRAW_JITTER * covariance.diagonal().mean() * torch.eye(size).to(covariance)
    normal = torch.randn(number, size, generator=generator, dtype=torch.double)
    return mean + normal.to(covariance) @ prior_root(covariance + jitter).mT


class Factor(ABC):
    """The factored Hessian of a system at one curvature."""

    cholesky: Tensor  # of the Hessian in Newton's coordinates, scaled

    @cached_property
    def log_det(self) -> Tensor:
        """``...``-dim ``log det(I + W P)``; only the evidence uses it."""
        return 2.0 * self.cholesky.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    @abstractmethod
    def gamma(self) -> Tensor:
        """``Gamma: ... x s x s``."""


class ExactFactor(Factor):
    """That of an :class:`ExactSystem`."""

    curvature: Curvature

    @abstractmethod
    def solve_adjoint(self, x: Tensor) -> Tensor:
        """``t: ... x M`` with ``(I + W P) t = x``."""

    @abstractmethod
    def marginals(self, gamma: Tensor) -> Marginals:
        """Posterior variances of the latent values, or covariances within an observation."""

    def solve_noisy(self, latent: Tensor, noise: Tensor) -> Tensor:
        """``t: ... x M`` with ``(I + W P) t = W h + S e`` for latent values and noise."""
        return self.solve_adjoint(self.curvature.apply(latent) + self.curvature.root(noise))


class DualFactor(ExactFactor):
    """Cholesky of ``B = I + S^T P S``."""

    def __init__(self, covariance: Tensor, curvature: Curvature) -> None:
        self.covariance, self.curvature = covariance, curvature
        scaled = curvature.scale(covariance)
        scaled.diagonal(dim1=-2, dim2=-1).add_(1.0)
        self.cholesky = torch.linalg.cholesky_ex(scaled).L

    def gamma(self) -> Tensor:
        # Well conditioned, as the smallest eigenvalue of ``B`` is 1 or more.
        return self.curvature.unscale(_inverse(self.cholesky))

    def solve_adjoint(self, x: Tensor) -> Tensor:
        right = self.curvature.root_adjoint(matvec(self.covariance, x))
        return x - self.curvature.root(solve_vector(self.cholesky, right))

    def marginals(self, gamma: Tensor) -> Marginals:
        curvature = self.curvature
        if isinstance(curvature, BlockCurvature):  # whose blocks may be singular
            right = curvature.adjoint_rows(self.covariance)
            half = solve_triangular(self.cholesky, right, upper=False).mT
            prior = curvature.marginals_of(IdentityIncidence(), self.covariance)
            explained = curvature.marginals(half, half)
            return [p - e for p, e in zip(prior, explained, strict=True)]
        weight = curvature.weight.clamp_min(torch.finfo(gamma.dtype).tiny)
        return (1.0 - gamma.diagonal(dim1=-2, dim2=-1) / weight) / weight


class PrimalFactor(ExactFactor):
    """Cholesky of ``I + R^T L_W R``."""

    def __init__(self, system: PrimalSystem, curvature: Curvature) -> None:
        self.system, self.curvature = system, curvature
        self.laplacian = curvature.laplacian(system.incidence)
        hessian = system.root.mT @ self.laplacian @ system.root
        hessian.diagonal(dim1=-2, dim2=-1).add_(1.0)
        self.cholesky, failed = torch.linalg.cholesky_ex(hessian)
        self.is_indefinite = failed > 0

    def gamma(self) -> Tensor:
        half = self._half() @ self.laplacian
        return self.laplacian - half.mT @ half

    def solve_adjoint(self, x: Tensor) -> Tensor:
        solution = solve_vector(self.cholesky, self.system.coordinates(x))
        return x - self.curvature.apply(self.system.latent(solution))

    def marginals(self, gamma: Tensor) -> Marginals:
        # Of utilities first: there are fewer of them than rows.
        half = self._half()
        return self.curvature.marginals_of(self.system.incidence, half.mT @ half)

    def _half(self) -> Tensor:
        # The posterior covariance of the utilities is the square of this.
        return solve_triangular(self.cholesky, self.system.root.mT, upper=False)


def solve_columns(cholesky: Tensor, columns: Tensor) -> Tensor:
    """``(L L^T)^{-1} X`` for ``... x p x p`` and ``... x p x k``."""
    # `torch.cholesky_solve` copies the factor, which takes longer than a few solutions.
    half = solve_triangular(cholesky, columns, upper=False)
    return solve_triangular(cholesky.mT, half, upper=True)


def solve_vector(cholesky: Tensor, vector: Tensor) -> Tensor:
    """``(L L^T)^{-1} v`` for ``... x p x p`` and ``... x p``."""
    return solve_columns(cholesky, vector.unsqueeze(-1)).squeeze(-1)


def _inverse(cholesky: Tensor) -> Tensor:
    """``(L L^T)^{-1}``."""
    if cholesky.device.type != "cuda":
        return torch.cholesky_inverse(cholesky)
    # There two batched products are faster: an evidence of 16 models of 400 duels by a quarter.
    identity = torch.eye(cholesky.shape[-1], dtype=cholesky.dtype, device=cholesky.device)
    root = solve_triangular(cholesky, identity.expand_as(cholesky), upper=False)
    return root.mT @ root


@cache
def keep_pages() -> None:
    """Have glibc keep up to 64 MiB of freed memory, which halves the time of a fit.

    Each evaluation or step of a loop needs the pages that the last one freed. glibc keeps twice the
    largest block that it has seen freed, which is this one; nothing is written to it.
    """
    torch.empty(_LARGEST, dtype=torch.uint8)
