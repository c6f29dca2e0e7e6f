r"""Widths of MR-LPF's intervals, and the bounds that follow from them.

All in the units of Kayal et al., *Bayesian Optimization from Human Feedback: Near-Optimal
Regret Bounds* (2025): a kernel ``k <= 1``, penalty ``lambda``, ridge ``rho = lambda kappa``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from botorch_pref.data.checks import is_positive
from botorch_pref.exceptions import ComparisonDataError

MAX_SLOPE = 0.25  # L, the largest slope of the sigmoid


class Width(NamedTuple):
    r"""``beta_(r)``, what ``sigma`` is multiplied by on the scale of probabilities.

    Attributes:
        kind: ``"bayes"``, ``"constant"`` or ``"theory"``.
        value: The constant of ``"constant"``; for ``"bayes"`` how many posterior standard
            deviations of the difference of utilities the interval has on either side.
        norm_bound: ``B`` of ``"theory"``, a bound on the norm of the utility.
        delta: The failure probability of ``"theory"``.
    """

    kind: str = "bayes"
    value: float = 1.0
    norm_bound: float = 1.0
    delta: float = 0.05

    def beta(self, penalty: float, kappa: float, num_rounds: int, log_num_items: float) -> float:
        r"""``beta_(r)`` for the unit kernel.

        Args:
            penalty: ``lambda``.
            kappa: ``kappa_r``.
            num_rounds: ``R``.
            log_num_items: ``log |X|``.

        Returns:
            ``L value lambda ** -0.5`` for ``"bayes"``; the constant; or eq. (14),
            ``L (B + sqrt(kappa_r / lambda log(2 R |X| / delta)))``.
        """
        if self.kind == "bayes":
            return MAX_SLOPE * self.value * penalty**-0.5
        if self.kind == "constant":
            return self.value
        log = math.log(2 * num_rounds / self.delta) + log_num_items
        return MAX_SLOPE * (self.norm_bound + math.sqrt(kappa / penalty * log))


def as_width(beta: float | Width | Mapping[str, Any]) -> Width:
    r"""A width from a constant, or its fields.

    Raises:
        ComparisonDataError: If it is neither, or not positive and finite.
    """
    found = Width("")  # names none
    if isinstance(beta, Width):
        found = beta
    elif isinstance(beta, Mapping) and not set(beta) - set(Width._fields):
        found = Width(**beta)
    elif isinstance(beta, int | float) and not isinstance(beta, bool):
        found = Width("constant", float(beta))
    numbers = [found.norm_bound, found.delta]
    if found.kind != "constant" or found.value != 0:
        numbers.append(found.value)
    if found.kind not in ("bayes", "constant", "theory") or not all(map(is_positive, numbers)):
        raise ComparisonDataError(
            "`beta` must be a finite number, at least 0, or a Width of kind bayes, constant or "
            f"theory whose numbers are positive, got {beta!r}."
        )
    if found.delta > 1:
        raise ComparisonDataError(f"`beta` has delta {found.delta!r}, which is no probability.")
    return found


def practical_width(first_size: int, dim: int) -> Width:
    r"""An interval as wide as the horizon affords; what eliminates nothing finds nothing.

    ``(N_1 / 7 d)^2`` posterior standard deviations, within ``[1/4, 1]``: one where the first
    round has seven duels a dimension. A heuristic, tried on Branin and Hartmann's function.

    Args:
        first_size: ``N_1``.
        dim: The dimension ``d`` of an item.
    """
    return Width("bayes", min(1.0, max(0.25, (first_size / (7 * dim)) ** 2)))


def steepness_bound(norm_bound: float) -> float:
    r"""``kappa = sup 1 / mu'(h)`` where only the norm of the utility is bounded.

    Args:
        norm_bound: ``B``.

    Returns:
        ``2 + 2 cosh(sqrt(2) B)``, as ``|h| <= sqrt(2) B`` for a kernel of unit variance that
        is nowhere negative.
    """
    return 2.0 + 2.0 * math.cosh(math.sqrt(2.0) * norm_bound)


def next_kappa(kappa: float, beta: float, sigma: float) -> float:
    r"""``kappa_{r+1}`` from the widest interval that a round leaves.

    With ``p = 1/2 + 2 beta sigma`` all pairs that are left have a win probability within
    ``[1 - p, p]``, so ``1 / mu' <= 1 / (p (1 - p))``; never more than before.

    Args:
        kappa: ``kappa_r``.
        beta: ``beta_(r)``.
        sigma: The largest ``sigma_(N_r, r)`` among the items that are left.
    """
    excess = 2.0 * beta * sigma
    return kappa if excess >= 0.5 else min(kappa, 1.0 / (0.25 - excess**2))


def selected_sigma(gram: Tensor, ridge: float) -> Tensor:
    r"""``sigma_{n-1}(z_n)``, how unsure each duel was when it was chosen.

    Args:
        gram: ``n x n``-dim dueling kernel of the pairs, in the order of the duels.
        ridge: ``rho``.

    Returns:
        ``n``-dim standard deviations, from one Cholesky factor.
    """
    eye = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    root = torch.linalg.cholesky(gram + ridge * eye).diagonal()
    return (root.square() - ridge).clamp_min(0.0).sqrt()


def information_gain(sigma: Tensor, ridge: float) -> Tensor:
    """``gamma_n = sum_{i <= n} log(1 + sigma_{i-1}^2(z_i) / rho) / 2``, ``n``-dim."""
    return 0.5 * torch.log1p(sigma.square() / ridge).cumsum(-1)


def variance_sum_bound(gain: float, ridge: float, prior_variance: float = 4.0) -> float:
    r"""A bound on ``sum_n sigma_{n-1}^2(z_n)``, eq. (20).

    Args:
        gain: ``gamma``, the information gain of the round.
        ridge: ``rho``.
        prior_variance: The largest prior variance of a difference: 4 as in the paper, or 2
            for a kernel of unit variance that is nowhere negative, which is tighter.

    Returns:
        ``2 v gamma / log(1 + v / rho)``.
    """
    return 2.0 * prior_variance * gain / math.log1p(prior_variance / ridge)


def sigma_bound(gain: float, ridge: float, size: int, prior_variance: float = 4.0) -> float:
    r"""A bound on ``sigma_(N, r)(x, x')`` of all active pairs, eq. (21).

    Args:
        gain: ``gamma``, the information gain of the round.
        ridge: ``rho``.
        size: ``N``, the number of its duels.
        prior_variance: As in :func:`variance_sum_bound`.
    """
    return math.sqrt(variance_sum_bound(gain, ridge, prior_variance) / size)
