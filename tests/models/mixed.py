"""Models of comparisons and values for the tests, and the brute-force oracle of both."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from botorch_pref.models import PreferenceGP
from tests._reference import laplace as reference
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
    """Posterior mean and covariance at ``X: q x d``, and the evidence, by brute force.

    Values condition the prior of the comparisons, for which Laplace's approximation is written out.
    """
    duels, values, n, evidence = model.data, model.values, len(model.items), 0.0
    everything = torch.cat([model.items, X])
    with torch.no_grad():
        K = model.covar_module(everything).to_dense().numpy()
        mean = model.mean_module(everything).numpy()
    if values is not None:
        noise = model.noise_model.noise if values.variances is None else values.variances
        rows, targets = np.arange(duels.num_items, n), values.targets.squeeze(-1).numpy()
        measured = K[np.ix_(rows, rows)] + np.eye(len(rows)) * noise.detach().numpy().ravel()
        evidence = stats.multivariate_normal(mean[rows], measured).logpdf(targets)
        gain = np.linalg.solve(measured, K[rows])
        mean, K = mean + (targets - mean[rows]) @ gain, K - K[:, rows] @ gain
    pairs, wins, count = (part.numpy() for part in (duels.pairs, duels.wins, duels.count))
    A, link_scale = reference.incidence(pairs, n), float(model.link_scale.detach())
    at_items, cross, prior = K[:n, :n], K[n:, :n], K[n:, n:]
    fitted = reference.fit(at_items, mean[:n], A, wins / count, count, link, scale * link_scale)
    found, covariance = reference.predict(fitted, at_items, A, cross, prior, mean[n:])
    if not isinstance(model.variance, str):
        covariance = reference.answer_free_covariance(
            prior, cross, at_items, link_scale * A, count, model.variance
        )
    return torch.from_numpy(found), torch.from_numpy(covariance), fitted.log_evidence + evidence
