r"""Constants and bounds of Xu et al. (2024b), COBOL: an objective, and an expert who labels.

Notation: ``B`` bound on the norm of a function, and with ``k(x, x) <= 1`` on its values; ``r``
ridge on the diagonal of Gram matrices; ``gamma`` information gain at ``r``; ``n`` number of labels
and ``t`` number of steps, of which some ask for none; ``delta`` probability of failure;
``epsilon`` radius of a cover of the ball in the sup norm, ``log_covering`` the logarithm of its
size ``N``. Both orientations of labels and latents have the same constants. Where a printed
constant is not what its proof gives, the proof decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import Tensor

from botorch_pref.data.checks import checked_positive
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.likelihood_ratio.theory import bt_constants, check_confidence, log_union


def gain_of_factor(factor: Tensor, ridge: float) -> Tensor:
    r"""``log |I + K / r| / 2``, eq. (3), from a factor that is at hand.

    Args:
        factor: ``... x n x n``-dim Cholesky factor of ``K + r I``; with ``ridge=1`` that of
            ``K / r + I``.
        ridge: ``r``.

    Returns:
        ``...``-dim gains, of the points observed and not the largest of any ``n``.

    Raises:
        ComparisonDataError: If ``ridge`` is not positive.
    """
    shift = 0.5 * factor.shape[-1] * math.log(checked_positive("ridge", ridge))
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1) - shift


def objective_beta(norm_bound: float, noise: float, gain: float, delta: float) -> float:
    r"""``B + sigma sqrt(2 (gamma + 1 + log(2 / delta)))``, Lemma 3.1.

    With this multiple of the standard deviation the bounds of the objective hold for all points
    and steps at once with probability ``1 - delta / 2``.

    Args:
        norm_bound: ``B``, of the objective in the units in which its model works.
        noise: ``sigma``, the scale of the sub-Gaussian noise in these units; 0 for none.
        gain: ``gamma`` of the values seen so far.
        delta: The probability of failure, of which the labels' set has the other half.

    Returns:
        The multiple.

    Raises:
        ComparisonDataError: If an argument is out of range.
    """
    check_confidence(0.0, delta, 0, 0.0)
    bound = checked_positive("norm_bound", norm_bound)
    noise, gain = _not_negative("noise", noise), _not_negative("gain", gain)
    return bound + noise * math.sqrt(2.0 * (gain + 1.0 + math.log(2.0 / delta)))


def alpha1_theory(
    num_labels: int,
    t: int,
    norm_bound: float,
    delta: float,
    epsilon: float,
    log_covering: float = 0.0,
    constant: float = 32.0,
) -> float:
    r"""``sqrt(c n B^2 log(pi^2 t^2 N / (6 delta))) + 2 epsilon t``, the slack of Lemma 3.2.

    Args:
        num_labels: ``n``, at most ``t``.
        t: The number of steps; before the first one the slack is 0.
        norm_bound: ``B``.
        delta: The probability of failure.
        epsilon: The radius of the cover; ``1 / T`` in the paper.
        log_covering: The logarithm of the cover's size.
        constant: ``c``: 32 as stated, which is right for differences; 8 by the proof for
            labels, which has ``n`` for ``t`` in the last term as well.

    Returns:
        The slack, in units of the log likelihood.

    Raises:
        ComparisonDataError: If an argument is out of range.
    """
    _check(num_labels, t, delta, epsilon, log_covering)
    bound = checked_positive("norm_bound", norm_bound)
    if t == 0:
        return 0.0
    union = checked_positive("constant", constant) * log_union(delta, t, log_covering)
    return bound * math.sqrt(num_labels * union) + 2.0 * epsilon * t


def label_alpha(
    num_labels: int,
    t: int,
    norm_bound: float,
    delta: float,
    epsilon: float,
    log_covering: float = 0.0,
    *,
    slack: float,
) -> float:
    r"""The bound of Lemma B.1 on the summed squared errors: ``(alpha2 + 2 alpha1) / (H s^2)``.

    ``alpha2 = 8 H s'^2 epsilon^2 t + 4 epsilon t + sqrt(8 n B_p^2 log(pi^2 t^2 N / (3 delta)))``
    with ``s`` the least and ``s'`` the largest slope of the link on values of at most ``B``. The
    paper prints ``(alpha2 + 2 alpha1) s^2 / H``; its last step divides by ``s^2``.

    Args:
        num_labels: ``n``, at most ``t``.
        t: The number of steps.
        norm_bound: ``B``.
        delta: The probability of failure; this bound has half of it.
        epsilon: The radius of the cover.
        log_covering: The logarithm of the cover's size.
        slack: ``alpha1`` of the set, as of :func:`alpha1_theory` where the truth has to be in it.

    Returns:
        The bound on ``sum (f'(x) - f(x))^2`` over the labelled items, for any ``f'`` in the set.

    Raises:
        ComparisonDataError: If an argument is out of range.
    """
    _check(num_labels, t, delta, epsilon, log_covering)
    # That of differences is of values of at most 2 B.
    found = bt_constants(0.5 * checked_positive("norm_bound", norm_bound))
    alpha2 = 0.0
    if t:
        union = log_union(0.5 * delta, t, log_covering)
        near = 8.0 * found.curvature * found.largest_slope**2 * epsilon**2 + 4.0 * epsilon
        alpha2 = near * t + found.likelihood_range * math.sqrt(8.0 * num_labels * union)
    least = found.curvature * found.least_slope**2
    return (alpha2 + 2.0 * _not_negative("slack", slack)) / max(least, math.ulp(0.0))


def label_width_bound(
    deviation: Tensor, alpha: float, norm_bound: float, ridge: float, factor: float = 4.0
) -> Tensor:
    r"""``4 (2 B + sqrt(alpha / r)) sigma``, eq. (53).

    Args:
        deviation: ``...``-dim ``sigma``: the standard deviation of a Gaussian process of the
            latent's kernel given the labelled items and the noise variance ``r``.
        alpha: As of :func:`label_alpha`.
        norm_bound: ``B``.
        ridge: ``r``.
        factor: 4 as printed; 2 by the proof of Lemma B.2, which (53) doubles twice.

    Returns:
        ``...``-dim bounds on the largest minus the smallest latent of the set.

    Raises:
        ComparisonDataError: If an argument is out of range.
    """
    return _width(alpha, norm_bound, ridge, factor) * deviation


def max_labels(
    threshold: float,
    alpha: float,
    norm_bound: float,
    ridge: float,
    gain: float | Callable[[int], float],
    horizon: int,
    factor: float = 4.0,
) -> int:
    r"""The most labels that are ever asked for: (55)-(59), solved for their number ``Q``.

    Each has an interval wider than the threshold, so ``threshold Q`` is at most
    ``4 (2 B + sqrt(alpha / r)) sqrt(4 (Q + 2) gamma_Q)``.

    Args:
        threshold: The width beyond which the expert is asked, in logits.
        alpha: As of :func:`label_alpha`, at the horizon.
        norm_bound: ``B``.
        ridge: ``r``, at most 1, without which deviations may sum to more than that root.
        gain: ``gamma``, the largest information gain of that many labels: a function that does
            not decrease, or its value at the horizon.
        horizon: ``T``, the number of steps.
        factor: As of :func:`label_width_bound`.

    Returns:
        The number, at most ``T``.

    Raises:
        ComparisonDataError: If an argument is out of range.
    """
    if ridge > 1.0:
        raise ComparisonDataError(f"`ridge` must be at most 1, not {ridge!r}.")
    relative = _width(alpha, norm_bound, ridge, factor) / checked_positive("threshold", threshold)
    found = _whole("horizon", horizon)
    previous = found + 1
    while found < previous:  # a number that is too large bounds itself by a smaller one
        previous = found
        gamma = _not_negative("gain", gain(previous) if callable(gain) else gain)
        square = 4.0 * relative**2 * gamma  # Q^2 <= square (Q + 2)
        found = min(previous, math.floor(0.5 * (square + math.sqrt(square**2 + 8.0 * square))))
    return found


def regret_ratio(eta: float) -> float:
    r"""``1 + eta``, what the guarantee against harm costs.

    The steps of Theorem 4.1's proof bound the cumulative regret by ``1 + eta`` times the bound
    of the rule without an expert, where it is printed with ``2 + eta``.

    Args:
        eta: The trust weight, at least 1.

    Raises:
        ComparisonDataError: If it is less.
    """
    if not 1.0 <= eta < math.inf:
        raise ComparisonDataError(f"`eta` must be finite and at least 1, not {eta!r}.")
    return 1.0 + eta


def objective_regret_bound(num_evaluations: int, beta: float, gain: float, eta: float) -> float:
    r"""``2 (1 + eta) beta sqrt(4 (n + 2) gamma)``, of the proof of Theorem 4.1.

    Args:
        num_evaluations: ``n``, evaluations of the objective; steps that end in a rejection have
            no regret.
        beta: As of :func:`objective_beta`, at the end.
        gain: ``gamma`` of ``n`` values at a ridge of at most 1.
        eta: The trust weight, at least 1.

    Returns:
        The bound on the cumulative regret of the evaluations.

    Raises:
        ComparisonDataError: If an argument is out of range.
    """
    beta, gain = _not_negative("beta", beta), _not_negative("gain", gain)
    root = math.sqrt(4.0 * (_whole("num_evaluations", num_evaluations) + 2) * gain)
    return 2.0 * regret_ratio(eta) * beta * root


def _width(alpha: float, norm_bound: float, ridge: float, factor: float) -> float:
    root = math.sqrt(_not_negative("alpha", alpha) / checked_positive("ridge", ridge))
    bound = 2.0 * checked_positive("norm_bound", norm_bound) + root
    return checked_positive("factor", factor) * bound


def _check(num_labels: int, t: int, delta: float, epsilon: float, log_covering: float) -> None:
    check_confidence(epsilon, delta, t, log_covering)
    if _whole("num_labels", num_labels) > t:
        raise ComparisonDataError(f"`num_labels` must be at most `t`, not {num_labels!r}.")


def _whole(argument: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ComparisonDataError(
            f"`{argument}` must be a whole number, at least 0, not {value!r}."
        )
    return value


def _not_negative(argument: str, value: float) -> float:
    if not 0.0 <= value < math.inf:
        raise ComparisonDataError(f"`{argument}` must be finite and at least 0, not {value!r}.")
    return float(value)
