r"""The finite-set quantities of PF-TS (sec. 3.3 of its spec) by brute force.

Everything is built from explicit matrices over comparisons (``t x t``) or over all
ordered pairs of items (``n^2 x n^2``), and the predictors come from SciPy's
general-purpose minimiser. Pairs are rows ``(first, second)`` of item indices, answers
lie within [0, 1], the link is the unit logit, and the kernel has unit scale.
"""

from __future__ import annotations

import mpmath
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special

Array = NDArray[np.float64]
REGULARIZERS = ("rkhs", "theta", "theta_mean")


def all_pairs(num_items: int) -> NDArray[np.int64]:
    """Return the ``n^2 x 2`` table of ordered pairs, the second index running fastest."""
    first, second = np.divmod(np.arange(num_items**2), num_items)
    return np.stack([first, second], axis=1)


def dueling_gram(kernel: ArrayLike, rows: ArrayLike, columns: ArrayLike) -> Array:
    """Return ``k(x,w) + k(x',w') - k(x,w') - k(x',w)``, entry by entry."""
    K = np.asarray(kernel, dtype=float)
    out = np.empty((len(np.asarray(rows)), len(np.asarray(columns))))
    for i, (x, x_) in enumerate(np.asarray(rows, dtype=int)):
        for j, (w, w_) in enumerate(np.asarray(columns, dtype=int)):
            out[i, j] = K[x, w] + K[x_, w_] - K[x, w_] - K[x_, w]
    return out


def coefficients(
    kernel: ArrayLike,
    pairs: ArrayLike,
    answers: ArrayLike,
    penalty: float,
    regularizer: str = "rkhs",
) -> Array:
    r"""Return ``theta`` (``t``), with ``h(z) = sum_i theta_i k((z), z_i)``.

    ``rkhs`` minimises :math:`\sum_i \ell_i(G\theta) + \frac\lambda2\theta^\top G\theta`,
    ``theta`` has :math:`\frac\lambda2 |\theta|^2` instead, and ``theta_mean`` the mean
    of the losses as well (equations (6) and (8)). ``G`` is the Gram matrix of the
    pairs and ``penalty`` is :math:`\lambda`.
    """
    G = dueling_gram(kernel, pairs, pairs)
    y = np.asarray(answers, dtype=float)
    t = len(y)
    shrink = G if regularizer == "rkhs" else np.eye(t)
    share = 1.0 / t if regularizer == "theta_mean" else 1.0

    def loss(theta: Array) -> float:
        h = G @ theta
        fit = -(y * special.log_expit(h) + (1 - y) * special.log_expit(-h)).sum()
        return float(share * fit + penalty / 2 * theta @ shrink @ theta)

    def gradient(theta: Array) -> Array:
        residual = special.expit(G @ theta) - y
        return share * G @ residual + penalty * shrink @ theta

    def hessian(theta: Array) -> Array:
        h = G @ theta
        slope = special.expit(h) * special.expit(-h)
        return share * G @ (slope[:, None] * G) + penalty * shrink

    start = np.zeros(t)
    theta = optimize.minimize(loss, start, jac=gradient, hess=hessian, method="Newton-CG").x
    for _ in range(5):  # the minimiser stops where the loss has no digits left
        theta = theta - np.linalg.lstsq(hessian(theta), gradient(theta), rcond=1e-14)[0]
    assert np.abs(gradient(theta)).max(initial=0.0) < 1e-9
    if regularizer == "rkhs":  # G may be singular: the one theta that is stationary
        theta = (y - special.expit(G @ theta)) / penalty
    return theta


def utilities(kernel: ArrayLike, pairs: ArrayLike, theta: ArrayLike) -> Array:
    """Return ``g(x) = sum_i theta_i [k(x, x_i) - k(x, x'_i)]`` at all items (``n``)."""
    K, rows = np.asarray(kernel, dtype=float), np.asarray(pairs, dtype=int)
    out = np.zeros(len(K))
    for weight, (first, second) in zip(np.asarray(theta), rows, strict=True):
        out += weight * (K[:, first] - K[:, second])
    return out


def differences(kernel: ArrayLike, pairs: ArrayLike, theta: ArrayLike) -> Array:
    """Return ``h`` at all ordered pairs, as an ``n x n`` matrix."""
    n = len(np.asarray(kernel))
    gram = dueling_gram(kernel, all_pairs(n), pairs)
    return (gram @ np.asarray(theta, dtype=float)).reshape(n, n)


def pair_covariance(kernel: ArrayLike, pairs: ArrayLike, ridge: ArrayLike) -> Array:
    """Return equation (9) at all ordered pairs, an ``n^2 x n^2`` matrix.

    Args:
        kernel: The unit-scale Gram matrix of the items, ``n x n``.
        pairs: The comparisons' pairs, ``t x 2``.
        ridge: ``rho = lambda kappa``; or one for each comparison, which with
            ``lambda / W`` gives ``lambda`` times the Laplace covariance.
    """
    table = all_pairs(len(np.asarray(kernel)))
    cross = dueling_gram(kernel, pairs, table)
    G = dueling_gram(kernel, pairs, pairs)
    noisy = G + np.diag(np.broadcast_to(np.asarray(ridge, dtype=float), len(G)))
    return dueling_gram(kernel, table, table) - cross.T @ np.linalg.solve(noisy, cross)


def item_covariance(kernel: ArrayLike, pairs: ArrayLike, ridge: ArrayLike) -> Array:
    """Return ``k_t = (K^-1 + D^T diag(1/ridge) D)^-1``, ``n x n``.

    In 60 digits, so an ill-conditioned (but regular) ``K`` does no harm. ``ridge`` as
    in :func:`pair_covariance`.
    """
    K, rows = np.asarray(kernel, dtype=float), np.asarray(pairs, dtype=int)
    noise = np.broadcast_to(np.asarray(ridge, dtype=float), len(rows))
    with mpmath.workdps(60):
        precision = mpmath.inverse(mpmath.matrix(K.tolist()))
        for rho, (first, second) in zip(noise.tolist(), rows.tolist(), strict=True):
            if first == second:
                continue
            weight = 1 / mpmath.mpf(rho)
            precision[first, first] += weight
            precision[second, second] += weight
            precision[first, second] -= weight
            precision[second, first] -= weight
        return np.array(mpmath.inverse(precision).tolist(), dtype=float)


def information_gain(kernel: ArrayLike, pairs: ArrayLike, ridge: float) -> float:
    """Return ``log det(I + G / ridge) / 2`` for the realised comparisons."""
    G = dueling_gram(kernel, pairs, pairs)
    return float(np.linalg.slogdet(np.eye(len(G)) + G / ridge)[1] / 2)
