"""What the tests of inducing items share: a kernel given by tensors, and a dense oracle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
import torch
from torch import Tensor

from botorch_pref.inference import InducingSystem, Observations
from tests._reference import laplace as reference
from tests.inference.common import design, matern, oracle

LENGTHSCALE, OUTPUTSCALE = 0.4, 4.0


class MaternItems:
    """The covariance of items and inducing items as a function of five tensors."""

    def __init__(self, inputs: Sequence[Tensor]) -> None:
        self.inputs = inputs  # items, inducing items, lengthscale, output scale, factors
        self.num_inducing = len(inputs[1])

    def bound(self, inputs: Sequence[Tensor]) -> Self:
        return type(self)(inputs)

    def inducing(self) -> Tensor:
        _, Z, lengthscale, outputscale, _ = self.inputs
        return matern(Z, Z, lengthscale, outputscale)

    def cross(self, items: Tensor | None) -> Tensor:
        X, Z, lengthscale, outputscale, factors = self.inputs
        rows = slice(None) if items is None else items
        return factors[rows].unsqueeze(-1) * matern(X[rows], Z, lengthscale, outputscale)

    def covariance(self, first: Tensor, second: Tensor) -> Tensor:
        X, _, lengthscale, outputscale, factors = self.inputs
        value = matern(X[first].unsqueeze(-2), X[second].unsqueeze(-2), lengthscale, outputscale)
        return factors[first] * factors[second] * value[..., 0, 0]


def kernel_inputs(X: Tensor, Z: Tensor, factors: Tensor | None = None) -> list[Tensor]:
    """The inputs of :class:`MaternItems` at the usual hyperparameters."""
    scales = X.new_tensor(LENGTHSCALE), X.new_tensor(OUTPUTSCALE)
    return [X, Z, *scales, torch.ones_like(X[:, 0]) if factors is None else factors]


def inducing_side(
    X: Tensor,
    Z: Tensor,
    observations: Observations,
    mean: Tensor | None = None,
    factors: Tensor | None = None,
) -> InducingSystem:
    inputs = kernel_inputs(X, Z, factors)
    mean = torch.zeros_like(X[:, 0]) if mean is None else mean
    return InducingSystem(
        MaternItems(inputs), observations.incidence.apply(inputs[-1] * mean), observations
    )


class Dense:
    """The same by matrices of all items: Laplace's approximation under ``Q``, and what it lacks."""

    def __init__(
        self,
        X: Tensor,
        Z: Tensor,
        observations: Observations,
        mean: Tensor,
        link: str,
        scale: float,
    ) -> None:
        self.Z, self.mean = Z, mean
        Kzz, Kxz = matern(Z).numpy(), matern(X, Z).numpy()
        jitter = 1e-10 * np.mean(np.diag(Kzz)) * np.eye(len(Z))
        self.weights = np.linalg.solve(Kzz + jitter, Kxz.T)  # shape: (p, n)
        self.Q = Kxz @ self.weights
        self.H = design(observations)
        self.fitted = oracle(torch.from_numpy(self.Q), mean, observations, link, scale)
        self.lost = np.diag(self.H @ (matern(X).numpy() - self.Q) @ self.H.T)

    @property
    def log_evidence(self) -> float:
        return float(self.fitted.log_evidence - 0.5 * self.fitted.curvature @ self.lost)

    def predict(self, X: Tensor) -> tuple[np.ndarray, np.ndarray]:
        """Mean less the prior's, and covariance, at ``q x d``-dim points."""
        cross = matern(X, self.Z).numpy() @ self.weights
        return reference.predict(self.fitted, self.Q, self.H, cross, matern(X).numpy())

    def answer_free(self, X: Tensor, weights: Tensor) -> np.ndarray:
        cross = matern(X, self.Z).numpy() @ self.weights
        prior = matern(X).numpy()
        return reference.conditioned_covariance(prior, cross, self.Q, self.H, weights.numpy())
