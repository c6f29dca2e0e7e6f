"""What the tests of inducing items share: a kernel given by tensors, and a dense oracle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor

from botorch_pref.laplace import InducingSide, Observations
from tests.laplace.common import matern


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


def inducing_side(
    X: Tensor,
    Z: Tensor,
    observations: Observations,
    *,
    mean: Tensor | None = None,
    lengthscale: float = 0.4,
    outputscale: float = 4.0,
    factors: Tensor | None = None,
) -> InducingSide:
    scales = (X.new_tensor(lengthscale), X.new_tensor(outputscale))
    factors = torch.ones_like(X[:, 0]) if factors is None else factors
    mean = torch.zeros_like(X[:, 0]) if mean is None else mean
    kernel = MaternItems([X, Z, *scales, factors])
    return InducingSide(kernel, observations.map.apply(factors * mean), observations)
