r"""The factored Hessian of a side. Notation as in :mod:`botorch_pref.inference.sides`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.linalg import solve_triangular

if TYPE_CHECKING:
    from botorch_pref.inference.sides import ItemSide


class Factor(ABC):
    r"""The factored Hessian of a side at one curvature.

    Attributes:
        cholesky: ``... x p x p``-dim factor of the Hessian in Newton's coordinates, scaled.
    """

    cholesky: Tensor

    @cached_property
    def log_det(self) -> Tensor:
        """``...``-dim ``log det(I + W P)``; a step of a search has no need of it."""
        return 2.0 * self.cholesky.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    @abstractmethod
    def gamma(self) -> Tensor:
        """``Gamma: ... x s x s``."""


class ExactFactor(Factor):
    """That of a side which loses nothing of the prior."""

    @abstractmethod
    def solve_adjoint(self, x: Tensor) -> Tensor:
        """``t: ... x m`` with ``(I + W P) t = x``."""

    @abstractmethod
    def log_det_slope(self, gamma: Tensor, third: Tensor) -> Tensor:
        """Derivative of ``-1/2 log det`` with respect to the latent values."""


class AnswerFactor(ExactFactor):
    """Cholesky of ``B = I + S P S``."""

    def __init__(self, covariance: Tensor, curvature: Tensor) -> None:
        self.covariance = covariance
        self.curvature = curvature
        self.root = curvature.sqrt()
        scaled = self.root.unsqueeze(-1) * covariance * self.root.unsqueeze(-2)
        scaled.diagonal(dim1=-2, dim2=-1).add_(1.0)
        self.cholesky = torch.linalg.cholesky_ex(scaled).L

    def gamma(self) -> Tensor:
        """See the base class."""
        # All of ``S B^{-1} S`` is wanted, and LAPACK makes no full products of triangles for it;
        # the smallest eigenvalue of ``B`` is 1 or more.
        inverse = torch.cholesky_inverse(self.cholesky)
        return self.root.unsqueeze(-1) * inverse * self.root.unsqueeze(-2)

    def solve_adjoint(self, x: Tensor) -> Tensor:
        """See the base class."""
        right = self.root * matvec(self.covariance, x)
        return x - self.root * solve_vector(self.cholesky, right)

    def log_det_slope(self, gamma: Tensor, third: Tensor) -> Tensor:
        """See the base class."""
        # 1/2 var(eta_i | y) * third_i, with the variance (1 - gamma_ii / w_i) / w_i.
        # A curvature of zero comes with a third derivative of zero.
        shrunk = gamma.diagonal(dim1=-2, dim2=-1)
        curvature = self.curvature.clamp_min(torch.finfo(third.dtype).tiny)
        return 0.5 * (third / curvature) * (1.0 - shrunk / curvature)


class ItemFactor(ExactFactor):
    """Cholesky of ``M = I + R^T L_W R``."""

    def __init__(self, side: ItemSide, curvature: Tensor) -> None:
        self.side = side
        self.curvature = curvature
        self.laplacian = side.map.laplacian(curvature)
        hessian = side.root.transpose(-1, -2) @ self.laplacian @ side.root
        hessian.diagonal(dim1=-2, dim2=-1).add_(1.0)
        self.cholesky = torch.linalg.cholesky_ex(hessian).L

    def gamma(self) -> Tensor:
        """See the base class."""
        half = self._half() @ self.laplacian
        return self.laplacian - half.transpose(-1, -2) @ half

    def solve_adjoint(self, x: Tensor) -> Tensor:
        """See the base class."""
        solution = solve_vector(self.cholesky, self.side.coordinates(x))
        return x - self.curvature * self.side.latent(solution)

    def log_det_slope(self, gamma: Tensor, third: Tensor) -> Tensor:
        """See the base class."""
        variance = self.side.map.columns(self._half()).square().sum(-2)
        return 0.5 * variance * third

    def _half(self) -> Tensor:
        # The posterior covariance of the utilities is the square of this.
        return solve_triangular(self.cholesky, self.side.root.transpose(-1, -2), upper=False)


def matvec(matrix: Tensor, vector: Tensor) -> Tensor:
    """``A v`` for ``... x p x q`` and ``... x q``."""
    if matrix.dim() == 2 and vector.dim() == 1:
        return matrix.mv(vector)
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def solve_vector(cholesky: Tensor, vector: Tensor) -> Tensor:
    """``(L L^T)^{-1} v`` for ``... x p x p`` and ``... x p``."""
    # `torch.cholesky_solve` copies the factor, which takes longer than one solution.
    half = solve_triangular(cholesky, vector.unsqueeze(-1), upper=False)
    return solve_triangular(cholesky.mT, half, upper=True).squeeze(-1)
