"""What the tests of the rules share: models, and brute force over all pairs."""

from __future__ import annotations

from functools import cache

import torch
from botorch.models import PairwiseGP
from botorch.models.likelihoods.pairwise import PairwiseLogitLikelihood
from torch import Tensor

from botorch_pref.models import PreferenceGP
from tests.models.common import make_duels, make_kernel


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
