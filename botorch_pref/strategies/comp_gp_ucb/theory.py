r"""What the theory of Xu et al. (2020) says of a budget of duels and values.

``Phi`` is :func:`~botorch_pref.likelihood_ratio.theory.information_gain` of the prior covariance
of the items and the variance of the noise, ``eta^2``; that of an answer is at most 1/4. ``L_1``
comes from :meth:`~botorch_pref.problems.DuelLink.constants`.
"""

from __future__ import annotations

import math

from botorch_pref.data.checks import checked_positive
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.likelihood_ratio.theory import check_confidence, information_gain

__all__ = ["beta_theory", "duel_budget_rule", "information_gain", "phase1_regret_bound"]


def beta_theory(norm_bound: float, delta: float, info_gain: float) -> float:
    r"""``2 B + sqrt(2 (Phi + 1 + log(1 / delta)))``, Theorems 2 and 3 of Xu et al. (2020).

    With ``delta / 2`` in place of ``delta`` that of their Lemma 5, which has the band for one
    function at all items and steps with probability ``1 - delta / 2``.

    Args:
        norm_bound: ``B``, of the function in the units in which its model works.
        delta: The probability of failure.
        info_gain: ``Phi`` of the queries so far.

    Returns:
        The multiple of standard deviations.

    Raises:
        ComparisonDataError: If an argument is out of range; names it.
    """
    check_confidence(0.0, delta, 0, 0.0)
    gain = _not_negative("info_gain", info_gain)
    bound = checked_positive("norm_bound", norm_bound)
    return 2.0 * bound + math.sqrt(2.0 * (gain + 1.0 - math.log(delta)))


def phase1_regret_bound(l1: float, gamma: float, zeta: float) -> float:
    r"""``2 L_1 gamma + zeta``, the regret at which phase 1 ends, eqs. (5) and (8).

    Args:
        l1: ``L_1``, in units of the objective.
        gamma: The width that ends phase 1, a probability.
        zeta: The bias of comparisons, in units of the objective.

    Returns:
        The bound on ``f* - f(x)``, at the last item of phase 1.

    Raises:
        ComparisonDataError: If an argument is out of range; names it.
    """
    width = _not_negative("gamma", gamma)
    return 2.0 * checked_positive("l1", l1) * width + _not_negative("zeta", zeta)


def duel_budget_rule(noise: float, beta: float, gamma: float) -> float:
    r"""``eta^2 beta^2 / gamma^2``: about how many duels of one item bring its width to ``gamma``.

    A rule of thumb of this package. With 0.25 and 2.5 it takes 156 duels to get to 0.1, and 3,906
    to get to 0.02, which no budget of 1,000 duels pays for unless ``gamma`` is multiplied.

    Args:
        noise: ``eta^2``, the variance of an answer.
        beta: The multiple of standard deviations.
        gamma: The width, a probability.

    Returns:
        The number.

    Raises:
        ComparisonDataError: If an argument is not positive and finite; names it.
    """
    ratio = checked_positive("beta", beta) / checked_positive("gamma", gamma)
    return checked_positive("noise", noise) * ratio**2


def _not_negative(argument: str, value: float) -> float:
    if not 0.0 <= value < math.inf:
        raise ComparisonDataError(f"`{argument}` must be finite and at least 0, not {value!r}.")
    return float(value)
