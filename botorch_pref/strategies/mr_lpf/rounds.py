r"""How many duels a round has, and what is kept of a round."""

from __future__ import annotations

import math
import operator
from typing import NamedTuple

from botorch_pref.exceptions import ComparisonDataError


def round_sizes(horizon: int, *, merge_last: bool = False) -> tuple[int, ...]:
    r"""The numbers of duels of MR-LPF's rounds (Kayal et al. 2025, sec. 3).

    ``N_r = ceil(sqrt(N_{r-1} T))`` with ``N_0 = 1``; the last round gets what is left.
    Whole numbers throughout, so no rounding decides a size.

    Args:
        horizon: ``T``, the number of duels in all.
        merge_last: Whether a last round smaller than the first joins the one before it: it
            would eliminate next to nothing.

    Returns:
        The sizes, whose sum is ``horizon``; at most ``ceil(log2(log2(T))) + 1`` of them.

    Raises:
        ComparisonDataError: If ``horizon`` is no whole number, or less than 1.
    """
    total = checked_horizon(horizon)
    sizes: list[int] = []
    left = total
    while left:
        sizes.append(min(full_size(len(sizes) + 1, total), left))
        left -= sizes[-1]
    if merge_last and len(sizes) > 1 and sizes[-1] < sizes[0]:
        last = sizes.pop()
        sizes[-1] += last
    return tuple(sizes)


def full_size(number: int, horizon: int) -> int:
    """``N_r = ceil(sqrt(N_{r-1} T))``, the size of a round, from 1, that is not cut short."""
    size = 1
    for _ in range(number):
        size = math.isqrt(size * horizon - 1) + 1
    return size


def checked_horizon(horizon: int) -> int:
    """The number of duels.

    Raises:
        ComparisonDataError: If it is no whole number, or less than 1.
    """
    try:
        total = operator.index(horizon)
    except TypeError:
        total = 0
    if total < 1 or isinstance(horizon, bool):
        raise ComparisonDataError(f"`horizon` must be a whole number, at least 1, not {horizon!r}.")
    return total


class RoundSetting(NamedTuple):
    r"""What a round is played with, in the units of Kayal et al. (2025).

    Attributes:
        number: The round ``r``, from 1.
        size: The number ``N_r`` of its duels.
        full: Whether it is not cut short by the horizon.
        penalty: ``lambda``.
        kappa: ``kappa_r``, the inverse curvature that the variance assumes.
        beta: ``beta_(r)``, what ``sigma`` is multiplied by on the scale of probabilities.
    """

    number: int
    size: int
    full: bool
    penalty: float
    kappa: float
    beta: float

    @property
    def ridge(self) -> float:
        """``rho_r = lambda kappa_r``."""
        return self.penalty * self.kappa


class Outcome(NamedTuple):
    r"""What an elimination found, in the units of Kayal et al. (2025).

    On a box, maxima over the active set are taken over a sample of it.

    Attributes:
        max_sigma: The largest ``sigma_(N_r, r)(x, x')`` on the active set of the round.
        left_sigma: The same on what is left of it.
        width: The largest over what is left of ``max_x' sigma_(N_r, r)(x, x')``, where ``x'``
            is any item of the active set of the round.
        steepness: The largest ``1 / mu'(h_t(z_i))`` of its duels, which theory takes to be
            ``kappa_r`` at most; 4 without answers.
        share: The share of all choices, or of a sample of the box, that is left.
        num_left: The number of choices that are left; ``None`` on a box.
    """

    max_sigma: float
    left_sigma: float
    width: float
    steepness: float
    share: float
    num_left: int | None


class RoundRecord(NamedTuple):
    r"""A completed round; hyperparameters that are learnt were fitted at its end.

    Attributes:
        setting: What it was played with, up to its last duel.
        closing: What it was closed with: the same but for hyperparameters that are learnt.
        outcome: What its elimination found.
        share: The share of all items that were active in it.
        num_items: The number of choices that were active in it; ``None`` on a box, unless one
            item alone was left there.
    """

    setting: RoundSetting
    closing: RoundSetting
    outcome: Outcome
    share: float
    num_items: int | None

    @property
    def certificate(self) -> float:
        r"""A bound on ``P(x* beats x) - 1/2`` for every item ``x`` that is left.

        ``min{1/2, 2 beta_(r) max_x' sigma_(N_r, r)(x, x')}``; Kayal et al. (2025), eq. (31).
        As good as ``beta`` is: it holds with the probability of the confidence interval.
        """
        return min(0.5, 2.0 * self.closing.beta * self.outcome.width)
