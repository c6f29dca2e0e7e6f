"""Models of comparisons and values for the tests, and the brute-force oracle of both."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from botorch_pref.models import PreferenceGP
from tests._reference import mixed as reference
from tests.models.common import LinearMean, make_duels, make_kernel, rand, utility


def measure(num_values: int, noise: float = 0.2, seed: int = 7) -> tuple[Tensor, Tensor]:
    """Items in the unit square and noisy values of their utility."""
    X = rand(num_values, 2, seed=seed)
    error = torch.randn(num_values, generator=torch.Generator().manual_seed(seed)).to(X)
    return X, (utility(X) + noise * error).unsqueeze(-1)


def variances(Y: Tensor) -> Tensor:
    """Known variances that differ from value to value."""
    return 0.02 + 0.1 * rand(*Y.shape, seed=3)


def make_mixed(
    num_items: int = 6,
    num_duels: int = 5,
    num_values: int = 4,
    known: bool = True,
    link_scale: float | None = None,
    **options: Any,
) -> PreferenceGP:
    """A model of both kinds of data, at hyperparameters that are not the initial ones."""
    X, comparisons = make_duels(num_items, num_duels, 2)
    Z, Y = measure(num_values)
    values = (Z, Y, variances(Y)) if known else (Z, Y)
    options = {"covar_module": make_kernel(2), "mean_module": LinearMean(0.7), **options}
    model = PreferenceGP(X, comparisons, values=values, link_scale=link_scale, **options)
    if link_scale is None:
        model.link_scale = 1.7
    if not known:
        model.noise_model.noise = 0.05
    return model


def oracle(
    model: PreferenceGP, X: Tensor, link: str = "logit", scale: float = 1.0
) -> tuple[Tensor, Tensor, float]:
    """Posterior mean and covariance at ``X: q x d``, and the evidence, by brute force."""
    duels, values, n = model.data, model.values, len(model.items)
    link_scale = float(model.link_scale.detach())
    rows, targets, variances = np.arange(duels.num_items, n), np.zeros(0), np.ones(0)
    if values is not None:
        targets = values.targets.squeeze(-1).numpy()
        noise = model.noise_model.noise if values.variances is None else values.variances
        variances = np.broadcast_to(noise.detach().numpy().ravel(), len(rows))
    answers = (part.numpy() for part in (duels.pairs, duels.wins, duels.count))
    data = reference.Data(*answers, rows, targets, variances, scale * link_scale, link)
    everything = torch.cat([model.items, X])
    with torch.no_grad():
        K = model.covar_module(everything).to_dense().numpy()
        mean = model.mean_module(everything).numpy()
    mode, curvature, evidence = reference.fit(mean[:n], K[:n, :n], data)
    if not isinstance(model.variance, str):
        A = link_scale * reference.incidence(data.pairs, n)
        curvature = A.T @ np.diag(data.count / model.variance) @ A + data.precision(n)
    found = reference.predict(mean[n:], K[n:, n:], K[n:, :n], K[:n, :n], mode - mean[:n], curvature)
    return torch.from_numpy(found[0]), torch.from_numpy(found[1]), evidence
