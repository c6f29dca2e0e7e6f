"""Shared by the tests of the rules: models, and brute force over all pairs."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from botorch.models import PairwiseGP
from botorch.models.likelihoods.pairwise import PairwiseLogitLikelihood
from numpy.typing import NDArray
from torch import Tensor

from botorch_pref.kernels import ComparisonBiasKernel
from botorch_pref.models import PreferenceGP
from tests.models.common import make_duels, make_kernel, rand
from tests.models.mixed import oracle

Array = NDArray[np.float64]
REFERENCE = rand(6, 2, seed=11)  # of the knowledge gradients
REF = torch.tensor([0.35, 0.6], dtype=torch.float64)  # the other item of a difference


def make_model(dim: int = 2, **kwargs: object) -> PreferenceGP:
    items, duels = make_duels(8, 12, dim)
    return PreferenceGP(items, duels, **{"covar_module": make_kernel(dim), **kwargs})


def make_botorch_model(dim: int = 2, **kwargs: object) -> PairwiseGP:
    """BoTorch's own model of the same data under the same prior."""
    items, duels = make_duels(8, 12, dim)
    options = {"covar_module": make_kernel(dim), "likelihood": PairwiseLogitLikelihood()}
    model = PairwiseGP(items, duels, **{**options, **kwargs})
    model.eval()
    return model


@cache
def botorch_model() -> PairwiseGP:
    """The same one at every call: its mode depends on a random start, in the last digits."""
    return make_botorch_model()


def make_batched_model(num: int = 3, **kwargs: object) -> tuple[PreferenceGP, list[PreferenceGP]]:
    """A batched model over two columns, and its elements alone."""
    data = [make_duels(6, 9, 2, seed=seed) for seed in range(num)]
    items, duels = (torch.stack(parts) for parts in zip(*data, strict=True))
    kernel = make_kernel(2, batch_shape=(num,))
    alone = [PreferenceGP(X, Y, covar_module=make_kernel(2), **kwargs) for X, Y in data]
    return PreferenceGP(items, duels, covar_module=kernel, **kwargs), alone


def tables(mean: Tensor, covariance: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of ``f(x) - f(x')`` for all ordered pairs of items."""
    own = covariance.diagonal()
    variance = own[:, None] + own[None, :] - covariance - covariance.T
    return mean[:, None] - mean[None, :], variance.clamp_min(0.0).sqrt()


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
