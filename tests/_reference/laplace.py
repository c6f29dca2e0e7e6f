r"""Laplace's approximation by brute force, in NumPy and SciPy float64.

Utilities :math:`f \sim N(m, K)` at ``n`` items, differences :math:`\eta = A f` for a
dense ``c x n`` design matrix ``A`` (a duel is a row with +1 and -1, a label a row with
a single 1), and for every row

.. math::

    \log p_i = w_i \{ y_i \log \mu(\eta_i) + (1 - y_i) \log \mu(-\eta_i) \},
    \qquad \mu(\eta) = \mathrm{link}(s \eta).

The mode is found in the whitened coordinates :math:`f = m + U \sqrt{\ell} u` of the
eigendecomposition of ``K``, where the problem is strongly convex whatever the rank of
``K``: Newton steps, each with an exact line search. Everything else is a dense formula
written out with general ``solve`` and ``slogdet``. Nothing here knows of merged rows,
of smaller sides or of Cholesky factors.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg, optimize, special

Array = NDArray[np.float64]
_Gradient = Callable[[Array], tuple[Array, Array]]


@dataclasses.dataclass(frozen=True)
class Laplace:
    """The approximation at the mode.

    Attributes:
        utilities: The mode at the items, an ``n``-vector.
        differences: ``A @ utilities``, a ``c``-vector.
        score: First derivative of each row's log probability, a ``c``-vector.
        curvature: Minus its second derivative, a ``c``-vector.
        log_likelihood: The sum of the log probabilities at the mode.
        penalty: ``(f - m)^T K^+ (f - m) / 2`` at the mode.
        log_evidence: The Laplace log marginal likelihood.
        gradient: The infinity norm of the whitened gradient that was reached.
        covariance: The posterior covariance at the items, ``n x n``.
    """

    utilities: Array
    differences: Array
    score: Array
    curvature: Array
    log_likelihood: float
    penalty: float
    log_evidence: float
    gradient: float
    covariance: Array


def incidence(pairs: ArrayLike, num_items: int) -> Array:
    """Return the ``c x n`` matrix with +1 at each first and -1 at each second item."""
    rows = np.asarray(pairs, dtype=int)
    design = np.zeros((len(rows), num_items))
    for i, (first, second) in enumerate(rows):
        design[i, first] += 1.0
        design[i, second] -= 1.0
    return design


def log_prob(
    eta: Array, answers: Array, weights: Array, link: str, scale: float
) -> tuple[Array, Array, Array]:
    """Return each row's log probability, score and curvature (elementwise)."""
    x = scale * eta
    g, g1, g2 = _LINKS[link](x)
    h, h1, h2 = _LINKS[link](-x)
    value = weights * (answers * g + (1 - answers) * h)
    score = weights * scale * (answers * g1 - (1 - answers) * h1)
    curvature = -weights * scale**2 * (answers * g2 + (1 - answers) * h2)
    return value, score, curvature


def fit(
    covariance: ArrayLike,
    mean: ArrayLike,
    design: ArrayLike,
    answers: ArrayLike,
    weights: ArrayLike | None = None,
    link: str = "logit",
    scale: float = 1.0,
) -> Laplace:
    """Return Laplace's approximation of one data set.

    Args:
        covariance: The prior covariance ``K`` of the utilities, ``n x n``, of any rank.
        mean: The prior mean ``m``, an ``n``-vector or a number.
        design: The matrix ``A``, ``c x n``.
        answers: The answers, a ``c``-vector within [0, 1].
        weights: How often each row counts, a ``c``-vector; ones by default.
        link: ``"logit"`` or ``"probit"``.
        scale: The link's scale.
    """
    K = np.asarray(covariance, dtype=float)
    A = np.asarray(design, dtype=float)
    y = np.asarray(answers, dtype=float)
    w = np.ones(len(A)) if weights is None else np.asarray(weights, dtype=float)
    m = np.broadcast_to(np.asarray(mean, dtype=float), len(K))
    values, vectors = np.linalg.eigh((K + K.T) / 2)
    keep = values > values.max() * 1e-15
    root = vectors[:, keep] * np.sqrt(values[keep])
    u, gradient = _mode(A @ root, A @ m, y, w, link, scale)
    f = m + root @ u
    eta = A @ f
    value, score, curvature = log_prob(eta, y, w, link, scale)
    K_h = A @ K @ A.T
    sign, log_det = np.linalg.slogdet(np.eye(len(A)) + curvature[:, None] * K_h)
    assert sign > 0
    return Laplace(
        utilities=f,
        differences=eta,
        score=score,
        curvature=curvature,
        log_likelihood=float(value.sum()),
        penalty=float(u @ u / 2),
        log_evidence=float(value.sum() - u @ u / 2 - log_det / 2),
        gradient=gradient,
        covariance=conditioned_covariance(K, K, K, A, curvature),
    )


def predict(
    fitted: Laplace,
    covariance: ArrayLike,
    design: ArrayLike,
    cross_covariance: ArrayLike,
    prior_covariance: ArrayLike,
    prior_mean: ArrayLike = 0.0,
) -> tuple[Array, Array]:
    """Return the latent mean (``p``) and covariance (``p x p``) at ``p`` points.

    The arguments are as of :func:`fit`; ``cross_covariance`` is ``p x n``.
    """
    cross = np.asarray(cross_covariance, dtype=float)
    A = np.asarray(design, dtype=float)
    mean = np.asarray(prior_mean) + cross @ (A.T @ fitted.score)
    posterior = conditioned_covariance(prior_covariance, cross, covariance, A, fitted.curvature)
    return mean, posterior


def answer_free_covariance(
    prior_covariance: ArrayLike,
    cross_covariance: ArrayLike,
    covariance: ArrayLike,
    design: ArrayLike,
    counts: ArrayLike,
    kappa: float,
) -> Array:
    """Return ``k - C^T (A K A^T + kappa diag(1 / counts))^-1 C``, ``p x p``."""
    weights = np.asarray(counts, dtype=float) / kappa
    return conditioned_covariance(prior_covariance, cross_covariance, covariance, design, weights)


def conditioned_covariance(
    prior_covariance: ArrayLike,
    cross_covariance: ArrayLike,
    covariance: ArrayLike,
    design: ArrayLike,
    weights: ArrayLike,
) -> Array:
    """Return ``k - C^T (A K A^T + W^-1)^-1 C`` with ``C = A k(X, .)``; ``W`` may be 0."""
    A, W = np.asarray(design, dtype=float), np.asarray(weights, dtype=float)
    K_h = A @ np.asarray(covariance, dtype=float) @ A.T
    C = A @ np.asarray(cross_covariance, dtype=float).T
    inner = W[:, None] * np.linalg.solve(np.eye(len(A)) + K_h * W, C)
    return np.asarray(prior_covariance, dtype=float) - C.T @ inner


def _mode(
    B: Array, offset: Array, y: Array, w: Array, link: str, scale: float
) -> tuple[Array, float]:
    """Minimise ``|u|^2 / 2 - log p(B u + offset)``; return ``u`` and its gradient."""

    def gradient_at(u: Array) -> tuple[Array, Array]:
        _, score, curvature = log_prob(B @ u + offset, y, w, link, scale)
        return u - B.T @ score, curvature

    u = np.zeros(B.shape[1])
    best, best_size, stalled = u, np.inf, 0
    for _ in range(500):
        gradient, curvature = gradient_at(u)
        size = float(np.abs(gradient).max(initial=0.0))
        if size < best_size:
            best, best_size, stalled = u, size, 0
        else:
            stalled += 1
        if size == 0.0 or stalled > 3:
            break
        hessian = np.eye(len(u)) + B.T @ (curvature[:, None] * B)
        step = -linalg.solve(hessian, gradient, assume_a="pos")
        u = u + _line_search(gradient_at, u, step) * step
    assert best_size < 1e-8, f"the oracle itself did not converge: {best_size}"
    return best, best_size


def _line_search(gradient_at: _Gradient, u: Array, step: Array) -> float:
    """Return the zero of a convex function's slope along a descent direction."""

    def slope(t: float) -> float:
        return float(step @ gradient_at(u + t * step)[0])

    upper, start = 1.0, slope(0.0)
    if start >= 0 or abs(slope(upper)) <= 1e-6 * abs(start):
        return upper  # at the mode within rounding, or a full step as good as exact
    while slope(upper) < 0:
        upper *= 2.0
    return float(optimize.brentq(slope, 0.0, upper, xtol=1e-12))


def _logit(x: Array) -> tuple[Array, Array, Array]:
    q = special.expit(-x)
    return special.log_expit(x), q, -special.expit(x) * q


def _probit(x: Array) -> tuple[Array, Array, Array]:
    # erfcx overflows to inf below -26, where phi / Phi is a plain quotient
    with np.errstate(over="ignore"):
        mills = np.sqrt(2 / np.pi) / special.erfcx(-x / np.sqrt(2))
    return special.log_ndtr(x), mills, -mills * (x + mills)


_LINKS = {"logit": _logit, "probit": _probit}
