r"""The likelihood of standardised residuals of measured values."""

from __future__ import annotations

import math

import torch
from torch import Tensor


class StandardNormal:
    r"""Rows whose latent value is a residual in units of its standard deviation.

    Unlike that of an answer, the score of such a row has no bound: it is as large as the
    values are far from their prior mean, in units of their noise.
    """

    def log_prob(self, latent: Tensor, answer: Tensor, weight: Tensor) -> Tensor:
        """Log density of each row; the answer is what the residual is measured from."""
        return weight * (-0.5 * (latent - answer).square() - 0.5 * math.log(2 * math.pi))

    def derivatives(
        self, latent: Tensor, answer: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """First derivative, minus the second, and the third, of each row."""
        return weight * (answer - latent), weight.expand_as(latent), torch.zeros_like(latent)
