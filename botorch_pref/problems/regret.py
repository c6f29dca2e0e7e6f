r"""Regrets of a round of duels, elementwise in the utilities ([Lazzaro2026], Eq. (2)).

``f*`` is the utility of the best item: on a table of choices, the best of those. The
link ``mu`` is any callable of differences; the likelihoods of this package are.

References:
.. [Lazzaro2026] A. Lazzaro, D. Buffelli, D. Shiu, S. Vakili. A Finite Time Analysis of
    Thompson Sampling for Bayesian Optimization with Preferential Feedback.
    arXiv:2604.25025, 2026.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def dueling_regret(
    best: Tensor | float,
    first: Tensor,
    second: Tensor,
    link: Callable[[Tensor], Tensor] = torch.sigmoid,
) -> Tensor:
    r"""``[mu(f* - f(x)) + mu(f* - f(x')) - 1] / 2``, in ``[0, 1/2]``.

    This is the regret of the pair that was asked, not of a recommendation.

    Args:
        best: ``...``-dim utilities of the best item, or one for all.
        first: ``...``-dim utilities of the first items.
        second: ``...``-dim utilities of the second items.
        link: The link ``mu``.

    Returns:
        ``...``-dim probabilities above one half; 1/2 itself only by rounding.
    """
    return 0.5 * ((link(best - first) - 0.5) + (link(best - second) - 0.5))


def scalar_regret(
    best: Tensor | float,
    utility: Tensor,
    link: Callable[[Tensor], Tensor] = torch.sigmoid,
) -> Tensor:
    r"""``mu(f* - f(x)) - 1/2``: a strategy that buys values, on the scale of duels.

    Args:
        best: ``...``-dim utilities of the best item, or one for all.
        utility: ``...``-dim utilities of the evaluated items.
        link: The link ``mu``.

    Returns:
        The ``...``-dim dueling regret of an item paired with itself.
    """
    return dueling_regret(best, utility, utility, link=link)


def simple_regret(best: Tensor | float, recommended: Tensor) -> Tensor:
    """``f* - f(x)`` for ``...``-dim utilities of recommended items, in their units."""
    return best - recommended


def random_play_regret(
    utilities: Tensor, link: Callable[[Tensor], Tensor] = torch.sigmoid
) -> Tensor:
    r"""The exact mean dueling regret of a round whose pair is drawn uniformly.

    Args:
        utilities: ``... x n``-dim utilities of the choices.
        link: The link ``mu``.

    Returns:
        ``...``-dim means, the same whether or not the two items may coincide, as the
        regret is a sum over the two slots.
    """
    best = utilities.max(dim=-1, keepdim=True).values
    return scalar_regret(best, utilities, link=link).mean(dim=-1)
