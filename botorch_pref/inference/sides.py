r"""The two sides of one model: the same posterior in ``m`` answers or in ``n`` items.

Notation: ``K: ... x n x n`` prior covariance of the items, ``H`` the sparse map,
``P = H K H^T: ... x m x m``, ``W = diag(w): ... x m`` curvature, ``S = W^1/2``,
``C`` the covariance of a side's coordinates (``P`` or ``K``), ``G`` the side's own map
(the identity or ``H``), so that ``P = G C G^T`` on both sides.

* answer side: ``B = I + S P S``, whose eigenvalues are at least 1;
* item side: ``M = I + R^T L_W R`` with ``K = R R^T`` and ``L_W = H^T W H``.

Everything that the evidence and its gradient need is one of three quantities:
``log det(I + W P)``, ``Gamma = G^T S B^-1 S G = (C + L_W^-1)^-1`` and the solution of
``(I + W P) t = x``. No gradient is ever taken through a root.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from botorch_pref.inference.base import Look, Side
from botorch_pref.inference.factors import (
    AnswerFactor,
    ExactFactor,
    ItemFactor,
    matvec,
    solve_vector,
)
from botorch_pref.inference.maps import IdentityMap, SparseMap
from botorch_pref.inference.observations import Observations

_SMALL = 64  # roots of the rounding unit


class ExactSide(Side):
    r"""A side that loses nothing of the prior.

    Attributes:
        map: The map from the side's coordinates to the latent values.
        patience: What share of the gradient a step may leave for another by the same Hessian,
            which saves most factorisations from a start that is close by; 0 to keep none.
    """

    map: SparseMap | IdentityMap
    patience = 0.0
    _kept: tuple[ExactFactor, Tensor] | None = None  # a Hessian, and the distance of the last step
    _scale: Tensor  # of the gradient, in this search

    def replaced(self, observations: Observations, tensors: Mapping[str, Tensor]) -> Self:
        """The same kind of side with other observations and tensors."""
        side = copy.copy(self)
        side.__dict__.update(tensors, observations=observations)
        if isinstance(self.map, SparseMap):
            side.map = observations.map
        return side

    def begin(self, start: Tensor | None) -> Tensor:
        """See the base class."""
        self._scale, self._kept = self.gradient_scale(), None
        zero = self.covariance.new_zeros(*self.shape, self.num_coordinates)
        if start is None:
            return zero
        # Weights of another prior can be far off, and zero never is.
        near = self.coordinates(start).expand_as(zero)
        better = self._objective(near)[1] > self._objective(zero)[1]
        return torch.where(better.unsqueeze(-1), near, zero)

    def look(self, z: Tensor) -> Look:
        """See the base class; the distance is relative to the terms of the gradient."""
        latent, objective = self._objective(z)
        score, curvature, _ = self.observations.derivatives(latent)
        gradient = self.gradient(score, z)
        distance = gradient.abs().amax(-1) / self._scale
        kept = self._kept
        slow = None if kept is None else distance > self.patience * kept[1]
        return Look(latent, score, objective, curvature, gradient, distance, is_slow=slow)

    def is_small(self, look: Look, z: Tensor) -> Tensor:
        """See the base class; ``z`` is one of the two terms."""
        share = _SMALL * torch.finfo(z.dtype).eps ** 0.5
        return look.gradient.abs().amax(-1) <= share * z.abs().amax(-1)

    def _objective(self, z: Tensor) -> tuple[Tensor, Tensor]:
        shift = self.latent(z)
        latent = self.prior_latent + shift
        return latent, self.observations.log_prob(latent).sum(-1) - self.penalty(z, shift)

    def forget(self) -> None:
        """Let go of the Hessian that was kept, and keep none from now on."""
        self.patience, self._kept = 0.0, None

    def _hessian(self, look: Look, slow: bool) -> ExactFactor:
        """What a step is taken by: the factored Hessian here, or a kept one while it serves."""
        kept = self._kept
        factor = self.factor(look.curvature) if kept is None or slow else kept[0]
        if self.patience:
            self._kept = factor, look.distance
        return factor

    @property
    def num_coordinates(self) -> int:
        """The number of Newton's coordinates."""
        return self.covariance.shape[-1]

    @abstractmethod
    def coordinates(self, weights: Tensor) -> Tensor:
        """Newton's coordinates ``z`` of ``... x m`` representer weights."""

    @abstractmethod
    def latent(self, z: Tensor) -> Tensor:
        """``eta - prior_latent`` at Newton's coordinates ``z``."""

    @abstractmethod
    def penalty(self, z: Tensor, latent: Tensor) -> Tensor:
        """Half the squared prior norm at ``z``, where ``latent = self.latent(z)``."""

    @abstractmethod
    def gradient(self, score: Tensor, z: Tensor) -> Tensor:
        """What vanishes at the mode, in Newton's coordinates."""

    @abstractmethod
    def gradient_scale(self) -> Tensor:
        """The size of the terms whose difference :meth:`gradient` is, one an element."""

    @abstractmethod
    def factor(self, curvature: Tensor) -> ExactFactor:
        """See the base class."""


class AnswerSide(ExactSide):
    """Coordinates are the latent values; the representer weights are one a row."""

    map: IdentityMap

    def __init__(
        self, item_covariance: Tensor, prior_latent: Tensor, observations: Observations
    ) -> None:
        super().__init__(observations.map.gram(item_covariance), prior_latent, observations)
        self.map = IdentityMap()

    def columns(self, cross_covariance: Tensor) -> Tensor:
        """See the base class."""
        return self.observations.map.columns(cross_covariance)

    def coordinates(self, weights: Tensor) -> Tensor:
        """See the base class."""
        return weights

    def latent(self, z: Tensor) -> Tensor:
        """See the base class."""
        return matvec(self.covariance, z)

    def penalty(self, z: Tensor, latent: Tensor) -> Tensor:
        """See the base class."""
        return 0.5 * (z * latent).sum(-1)

    def gradient(self, score: Tensor, z: Tensor) -> Tensor:
        """See the base class."""
        return score - z

    def gradient_scale(self) -> Tensor:
        """See the base class."""
        return self.observations.score_scale(self.prior_latent).clamp_min(1.0)

    def newton(self, look: Look, slow: bool = False) -> tuple[Tensor, Tensor]:
        """See the base class."""
        direction = self._hessian(look, slow).solve_adjoint(look.gradient)
        return direction, (look.gradient * self.latent(direction)).sum(-1)

    def factor(self, curvature: Tensor) -> AnswerFactor:
        """See the base class."""
        return AnswerFactor(self.covariance, curvature)


class ItemSide(ExactSide):
    r"""Coordinates are the utilities; the representer weights are one an item.

    Attributes:
        order: ``r`` rows of which the root is a triangle, if there are any; None for all in order.
    """

    map: SparseMap
    order: Tensor | None = None

    def __init__(
        self, item_covariance: Tensor, prior_latent: Tensor, observations: Observations
    ) -> None:
        super().__init__(item_covariance, prior_latent, observations)
        self.map = observations.map

    @cached_property
    def root(self) -> Tensor:
        """The ``... x n x r``-dim root of the covariance; may be set where it is known."""
        return prior_root(self.covariance.detach())

    @property
    def num_coordinates(self) -> int:
        """See the base class; it is the rank of the root."""
        return self.root.shape[-1]

    def columns(self, cross_covariance: Tensor) -> Tensor:
        """See the base class."""
        return cross_covariance

    def coordinates(self, weights: Tensor) -> Tensor:
        """See the base class."""
        return matvec(self.root.transpose(-1, -2), self.map.adjoint(weights))

    def latent(self, z: Tensor) -> Tensor:
        """See the base class."""
        return self.map.apply(matvec(self.root, z))

    def penalty(self, z: Tensor, latent: Tensor) -> Tensor:
        """See the base class."""
        return 0.5 * z.square().sum(-1)

    def gradient(self, score: Tensor, z: Tensor) -> Tensor:
        """See the base class."""
        return self.coordinates(score) - z

    def gradient_scale(self) -> Tensor:
        """See the base class."""
        size = self.covariance.diagonal(dim1=-2, dim2=-1).amax(-1).sqrt()
        return (size * self.observations.score_scale(self.prior_latent)).clamp_min(1.0)

    def newton(self, look: Look, slow: bool = False) -> tuple[Tensor, Tensor]:
        """See the base class."""
        gradient, cholesky = look.gradient, self._hessian(look, slow).cholesky
        direction = solve_vector(cholesky, gradient)
        return direction, (gradient * direction).sum(-1)

    def factor(self, curvature: Tensor) -> ItemFactor:
        """See the base class."""
        return ItemFactor(self, curvature)


def choose_side(
    item_covariance: Tensor,
    prior_latent: Tensor,
    observations: Observations,
    *,
    side: type[ExactSide] | None = None,
    jitter: float = 0.0,
) -> AnswerSide | ItemSide:
    r"""The cheaper side: answers where there are no more rows than items.

    Args:
        item_covariance: ``... x n x n``-dim prior covariance of the items.
        prior_latent: ``... x m``-dim prior mean of the latent values.
        observations: The observations.
        side: ``AnswerSide`` or ``ItemSide`` to force one.
        jitter: Added to the diagonal of ``item_covariance``, on either side alike. A
            singular covariance needs none.

    Returns:
        The side, whose ``covariance`` carries the graph of ``item_covariance``.
    """
    if jitter:
        diagonal = torch.full_like(item_covariance[..., 0], jitter)
        item_covariance = item_covariance + torch.diag_embed(diagonal)
    if issubclass(side or preferred_side(observations), AnswerSide):
        return AnswerSide(item_covariance, prior_latent, observations)
    return ItemSide(item_covariance, prior_latent, observations)


def preferred_side(observations: Observations) -> type[AnswerSide] | type[ItemSide]:
    """The side in fewer dimensions."""
    return AnswerSide if observations.num_rows <= observations.num_items else ItemSide


def prior_root(covariance: Tensor) -> Tensor:
    r"""``R`` with ``R R^T = K``, by Cholesky, or by eigenvectors where ``K`` is singular.

    Args:
        covariance: ``... x n x n``-dim positive semi-definite matrix.

    Returns:
        ``... x n x n``-dim root.
    """
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
