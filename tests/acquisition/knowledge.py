"""What the tests of both knowledge gradients share: models, and joint normals by brute force."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from botorch_pref.kernels import ComparisonBiasKernel
from botorch_pref.models import PreferenceGP
from tests.acquisition.common import make_model
from tests.models.common import make_duels, make_kernel, oracle, rand

Array = NDArray[np.float64]
REFERENCE = rand(6, 2, seed=11)


@cache
def model() -> PreferenceGP:
    return make_model()


def seen(items: Tensor, marker: float) -> Tensor:
    return torch.cat([items, torch.full_like(items[..., :1], marker)], dim=-1)


def project(items: Tensor) -> Tensor:
    return seen(items[..., :-1], 0.0)


@cache
def biased_model(bias: float = 0.3) -> PreferenceGP:
    items, duels = make_duels(8, 12, 2)
    kernel = ComparisonBiasKernel(make_kernel(2), bias=bias)
    return PreferenceGP(seen(items, 1.0), duels, covar_module=kernel)


def joint(of: PreferenceGP, items: Tensor) -> tuple[Array, Array]:
    """Posterior mean and covariance at ``k x d``-dim items, by the oracle."""
    mean, covariance, _ = oracle(of, items)
    return mean.numpy(), covariance.numpy()
