r"""What the search for the mode and predictions ask of a prior and observations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Size, Tensor

from botorch_pref.inference.factors import Factor
from botorch_pref.inference.maps import broadcast
from botorch_pref.inference.observations import Observations


@dataclass(frozen=True, eq=False)
class Look:
    r"""What Newton's iteration sees at one point.

    Attributes:
        latent: ``... x m``-dim latent values ``eta``.
        weights: What :attr:`LaplaceMode.weights` would be, were this the mode.
        objective: ``...``-dim log joint density.
        curvature: ``... x m``-dim curvature ``w``.
        gradient: ``... x r``-dim gradient in Newton's coordinates; it vanishes at the mode.
        distance: ``...``-dim size of the gradient, in the side's own measure.
        cholesky: ``... x r x r``-dim factor of the Hessian, or of one near by, if the side has it.
        is_slow: ``...``-dim booleans: whether a Hessian that the side kept has become a poor one,
            and a step is to be taken by a new one; ``None`` if it kept none.
    """

    latent: Tensor
    weights: Tensor
    objective: Tensor
    curvature: Tensor
    gradient: Tensor
    distance: Tensor
    cholesky: Tensor | None = None
    is_slow: Tensor | None = None


class Side(ABC):
    r"""A prior and observations, as the search for the mode and predictions see them.

    Attributes:
        covariance: ``... x s x s``-dim prior covariance of the side's coordinates.
        prior_latent: ``... x m``-dim prior mean of the latent values.
        observations: The observations.
        is_dear: Whether a look is so dear that the first good enough one ends the search.
    """

    is_dear = False

    def __init__(
        self, covariance: Tensor, prior_latent: Tensor, observations: Observations
    ) -> None:
        self.covariance = covariance
        self.prior_latent = prior_latent
        self.observations = observations

    @property
    def shape(self) -> Size:
        """The batch shape."""
        return broadcast(
            self.covariance.shape[:-2], self.prior_latent.shape[:-1], self.observations.batch_shape
        )

    @property
    def tolerance(self) -> float:
        """The :attr:`Look.distance` below which an element counts as converged."""
        return float(0.5 * torch.finfo(self.covariance.dtype).eps ** 0.5)

    def tensors(self) -> dict[str, Tensor]:
        """The tensors, beside the observations, that the side consists of."""
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}

    @abstractmethod
    def columns(self, cross_covariance: Tensor) -> Tensor:
        """Covariance of points with the coordinates, from ``... x q x n`` with items."""

    @abstractmethod
    def begin(self, start: Tensor | None) -> Tensor:
        """Newton's coordinates ``... x r`` to begin a search with, given weights or none."""

    @abstractmethod
    def look(self, z: Tensor) -> Look:
        """The objective and its derivatives at Newton's coordinates ``z``."""

    def is_small(self, look: Look, z: Tensor) -> Tensor:
        """Whether the gradient is small beside its own terms, for each element."""
        return torch.ones_like(look.distance, dtype=torch.bool)

    @abstractmethod
    def newton(self, look: Look, slow: bool = False) -> tuple[Tensor, Tensor]:
        """Newton's direction, and the slope of the objective along it; ``slow`` as in the look."""

    @abstractmethod
    def factor(self, curvature: Tensor) -> Factor:
        """Factor the Hessian at a curvature ``... x m``."""
