r"""Constants and bounds of POP-BO's theory (duels) and of COBOL's (labels).

Xu et al. (2024), *Principled Preferential Bayesian Optimization*, and Xu et al. (2024b),
*Principled Bayesian Optimisation in Collaboration with Human Experts*.

Notation: ``B`` bound on the norm, and with ``k(x, x) <= 1`` on every value of a function (with
``k(x, x) <= kappa^2`` it is ``kappa B`` that bounds values); ``t`` number of duels or steps;
``delta`` probability of failure; ``epsilon`` radius of a cover of the ball in the sup norm and
``log_covering`` the logarithm of its size ``N``, of which the papers give orders only; ``lambda``
penalty of the kernel over pairs. Where printed forms disagree, the proofs decide: Lemma 3.5
divides by the smallest slope squared, Theorem 5.2 has ``T`` under the root.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_pref.data.checks import check_count, checked_positive
from botorch_pref.exceptions import ComparisonDataError


class BradleyTerryConstants(NamedTuple):
    r"""The link on differences of at most ``2 B`` (App. B to D).

    Attributes:
        least_probability: ``1 / (1 + e^{2 B})``.
        largest_probability: ``1 / (1 + e^{-2 B})``.
        least_slope: ``1 / (2 + e^{2 B} + e^{-2 B})``, of the link.
        largest_slope: 1/4.
        likelihood_range: ``B_p = 2 sinh(2 B)``.
        curvature: ``H_sigma``, one over twice the largest probability squared.
        lipschitz: ``C_L = 1 + 2 / (1 + e^{-2 B})``, of an answer's log likelihood.
    """

    least_probability: float
    largest_probability: float
    least_slope: float
    largest_slope: float
    likelihood_range: float
    curvature: float
    lipschitz: float


def bt_constants(norm_bound: float) -> BradleyTerryConstants:
    r"""The constants at ``B``; those that grow like ``e^{2 B}`` are infinite beyond ``B = 350``.

    Raises:
        ComparisonDataError: If ``norm_bound`` is not positive and finite.
    """
    bound = checked_positive("norm_bound", norm_bound)
    small = math.exp(-2.0 * bound)
    largest = 1.0 / (1.0 + small)
    return BradleyTerryConstants(
        least_probability=small * largest,
        largest_probability=largest,
        least_slope=small * largest**2,
        largest_slope=0.25,
        likelihood_range=1.0 / small - small if small > 1e-304 else math.inf,
        curvature=0.5 / largest**2,
        lipschitz=1.0 + 2.0 * largest,
    )


def log_covering(dimension: int, value_bound: float, epsilon: float) -> float:
    r"""``D log(1 + 2 B / epsilon)``, for functions of ``D`` features, or on ``D`` choices."""
    ratio = (
        2.0 * checked_positive("value_bound", value_bound) / checked_positive("epsilon", epsilon)
    )
    return dimension * math.log1p(ratio)


def beta1(
    epsilon: float, delta: float, t: int, norm_bound: float, log_covering: float = 0.0
) -> float:
    r"""The slack of Theorem 3.1.

    ``sqrt(32 t B^2 log(pi^2 t^2 N / (6 delta))) + C_L epsilon t``.

    Args:
        epsilon: The radius of the cover; at least 0, the paper's theory takes ``1 / T``.
        delta: The probability of failure.
        t: The number of duels; without any, the slack is 0.
        norm_bound: ``B``.
        log_covering: The logarithm of the cover's size.

    Returns:
        The slack, in units of the log likelihood.

    Raises:
        ComparisonDataError: If an argument is out of range.
    """
    check_confidence(epsilon, delta, t, log_covering)
    if t == 0:
        return 0.0
    found = bt_constants(norm_bound)
    deviation = norm_bound * math.sqrt(32.0 * t * log_union(delta, t, log_covering))
    return deviation + found.lipschitz * epsilon * t


def beta_ville(
    epsilon: float, delta: float, t: int, norm_bound: float, log_covering: float = 0.0
) -> float:
    r"""``log(N / delta) + C_L epsilon t``: valid for all ``t`` at once, without ``sqrt(t)``.

    The likelihood ratio to the truth is a nonnegative martingale of mean one, so by Ville's
    inequality, and a union over the cover, it stays below ``N / delta``. Not in the paper.
    Arguments and errors as of :func:`beta1`.
    """
    check_confidence(epsilon, delta, t, log_covering)
    if t == 0:
        return 0.0
    return log_covering - math.log(delta) + bt_constants(norm_bound).lipschitz * epsilon * t


def beta2(
    epsilon: float, delta: float, t: int, norm_bound: float, log_covering: float = 0.0
) -> float:
    r"""A part of :func:`~botorch_pref.likelihood_ratio.theory.beta`.

    ``8 H sigma'^2 epsilon^2 t + 2 C_L epsilon t + sqrt(8 t B_p^2 log(pi^2 t^2 N / (6 delta)))``,
    of the proof of Lemma 3.5 (App. D), where ``sigma'`` is the largest slope; arguments and
    errors as of :func:`beta1`.
    """
    check_confidence(epsilon, delta, t, log_covering)
    if t == 0:
        return 0.0
    found = bt_constants(norm_bound)
    near = 8.0 * found.curvature * found.largest_slope**2 * epsilon**2 * t
    spread = found.likelihood_range * math.sqrt(8.0 * t * log_union(delta, t, log_covering))
    return near + 2.0 * found.lipschitz * epsilon * t + spread


def beta(
    epsilon: float, delta: float, t: int, norm_bound: float, log_covering: float = 0.0
) -> float:
    r"""The bound of Lemma 3.5 on the summed squared errors: ``(beta2 + 2 beta1) / (H s^2)``.

    ``s`` is the least slope. The lemma holds with ``delta / 2`` for ``delta``; arguments and
    errors as of :func:`beta1`.
    """
    found = bt_constants(norm_bound)
    given = (epsilon, delta, t, norm_bound, log_covering)
    total = beta2(*given) + 2.0 * beta1(*given)
    least = found.curvature * found.least_slope**2
    return total / max(least, math.ulp(0.0))


def duel_error_bound(
    deviation: Tensor, beta: float, norm_bound: float, penalty: float = 1.0, factor: float = 2.0
) -> Tensor:
    r"""``factor (2 B + sqrt(beta / lambda)) sigma``, Theorem 3.6.

    Args:
        deviation: ``...``-dim ``sigma`` of pairs, under the penalty ``lambda``.
        beta: The bound on the summed squared errors, as of :func:`beta`.
        norm_bound: ``B``.
        penalty: ``lambda``.
        factor: 2 for the additive kernel, as printed; 1 for the difference kernel, under
            which a difference of utilities has the norm of the utility (ours).

    Returns:
        ``...``-dim bounds on the error of the differences of any function in the set.
    """
    penalty = checked_positive("penalty", penalty)
    return factor * (2.0 * norm_bound + math.sqrt(beta / penalty)) * deviation


def information_gain(covariance: Tensor, penalty: float = 1.0) -> Tensor:
    r"""``log |I + K / lambda| / 2``, eq. (18), of covariances ``K`` of pairs.

    ``K`` is ``... x m x m``-dim and the result ``...``-dim.
    """
    penalty = checked_positive("penalty", penalty)
    scaled = covariance / penalty
    eye = torch.eye(scaled.shape[-1], dtype=scaled.dtype, device=scaled.device)
    factor = torch.linalg.cholesky(eye + scaled)
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def sequential_deviations(covariance: Tensor, penalty: float = 1.0) -> Tensor:
    r"""``sigma_t`` of eq. (16) for every pair, given those before it.

    Args:
        covariance: ``... x m x m``-dim prior covariance of the pairs, in their order.
        penalty: ``lambda``.

    Returns:
        ``... x m``-dim deviations, a diagonal entry of the factor of ``K + lambda I``,
        squared, is ``sigma_t^2 + lambda``.
    """
    penalty = checked_positive("penalty", penalty)
    eye = torch.eye(covariance.shape[-1], dtype=covariance.dtype, device=covariance.device)
    factor = torch.linalg.cholesky(covariance + penalty * eye)
    square = factor.diagonal(dim1=-2, dim2=-1).square() - penalty
    return square.clamp_min(0.0).sqrt()


def deviation_sum_bound(horizon: int, gain: float, penalty: float = 1.0) -> float:
    r"""``sqrt(4 T gamma / log(1 + 2 / lambda))``, never below the sum of all ``sigma_t``.

    It holds for any ``lambda`` where ``k(x, x) <= 1``. The paper's ``sqrt(4 (T + 2) gamma)``
    (Lemma J.1) is quoted for ``lambda = 1 + 2 / T`` and variances of at most 1, where those
    of pairs reach 2.
    """
    return math.sqrt(4.0 * horizon * gain / math.log1p(2.0 / checked_positive("penalty", penalty)))


def regret_bound(
    horizon: int, norm_bound: float, beta: float, gain: float, penalty: float = 1.0
) -> float:
    r"""``2 (2 B + sqrt(beta / lambda)) sqrt(4 (T + 2) gamma)``, Theorem 5.2 as proved in App. J.

    Args:
        horizon: ``T``. Over it, this bounds the suboptimality of the report (Theorem 5.4).
        norm_bound: ``B``.
        beta: ``beta(1 / T, delta / 2, T)``.
        gain: ``gamma``, the largest information gain of ``T`` pairs.
        penalty: ``lambda``.

    Returns:
        The bound on the cumulative regret of the first arms.
    """
    penalty = checked_positive("penalty", penalty)
    width = 2.0 * (2.0 * norm_bound + math.sqrt(beta / penalty))
    return width * math.sqrt(4.0 * (horizon + 2) * gain)


def objective_beta(norm_bound: float, noise: float, gain: float, delta: float) -> float:
    r"""``B + sigma sqrt(2 (gamma + 1 + log(2 / delta)))``, Xu et al. (2024b), Lemma 3.1.

    With this multiple of the standard deviation the bounds of the objective hold for all points
    and steps at once with probability ``1 - delta / 2``.

    Args:
        norm_bound: ``B``, of the objective in the units in which its model works.
        noise: ``sigma``, the scale of the sub-Gaussian noise in these units; 0 for none.
        gain: ``gamma``, the information gain of the values seen so far.
        delta: The probability of failure; the labels' set has the other half of it.

    Returns:
        The multiple.

    Raises:
        ComparisonDataError: If an argument is out of range.
    """
    check_confidence(0.0, delta, 0, 0.0)
    bound = checked_positive("norm_bound", norm_bound)
    for name, value in (("noise", noise), ("gain", gain)):
        if not 0.0 <= value < math.inf:
            raise ComparisonDataError(f"`{name}` must be finite and at least 0, not {value!r}.")
    return bound + noise * math.sqrt(2.0 * (gain + 1.0 + math.log(2.0 / delta)))


def log_union(delta: float, t: int, log_covering: float) -> float:
    """``log(pi^2 t^2 N / (6 delta))``: a union over all ``t`` and the cover, ``t > 0``."""
    return math.log(math.pi**2 * t**2 / (6.0 * delta)) + log_covering


def check_confidence(epsilon: float, delta: float, t: int, log_covering: float) -> None:
    """Check the arguments that all constants have.

    Raises:
        ComparisonDataError: If one is out of range; names it.
    """
    if not 0.0 < delta < 1.0:
        raise ComparisonDataError(f"`delta` must lie between 0 and 1, not {delta!r}.")
    check_count("t", t, 0)
    for name, value in (("epsilon", epsilon), ("log_covering", log_covering)):
        if not (value >= 0.0 and math.isfinite(value)):
            raise ComparisonDataError(f"`{name}` must be finite and at least 0, not {value!r}.")
