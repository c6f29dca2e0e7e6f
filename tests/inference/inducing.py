"""What the tests of inducing items share: a kernel given by tensors, and a dense oracle."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from botorch_pref.inference import InducingSystem, ItemKernel, Observations
from tests._reference import laplace as reference
from tests.inference.common import design, matern, oracle

LENGTHSCALE, OUTPUTSCALE = 0.4, 4.0


def matern_items(inputs: Sequence[Tensor]) -> ItemKernel:
    """That of items, inducing items, a lengthscale, an output scale and factors."""
    X, Z, lengthscale, outputscale, factors = inputs

    def covariance(left: Tensor, right: Tensor, diag: bool = False) -> Tensor:
        if not diag:
            return matern(left, right, lengthscale, outputscale)
        pairs = left.unsqueeze(-2), right.unsqueeze(-2)
        return matern(*pairs, lengthscale, outputscale)[..., 0, 0]

    return ItemKernel(covariance, X, Z, factors, (lengthscale, outputscale))


def kernel_inputs(X: Tensor, Z: Tensor, factors: Tensor | None = None) -> list[Tensor]:
    """Those of :func:`matern_items` at the usual hyperparameters."""
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
        matern_items(inputs), observations.incidence.apply(inputs[-1] * mean), observations
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
