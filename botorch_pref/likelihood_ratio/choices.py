r"""Answers to "which of these is your favourite?" as rows that are differences of two items.

A choice of ``k`` items with utilities ``z`` has the log likelihood ``z_r - logsumexp z``, Xu et
al. (2024), eq. (99). It depends on the ``k (k - 1) / 2`` differences ``D z`` of all pairs alone,
and minus its Hessian in ``z`` is

``diag(p) - p p^T = sum_{i < j} p_i p_j (e_i - e_j) (e_i - e_j)^T = D^T diag(p_i p_j) D``:

diagonal in the differences. A choice is thus one row a pair, with the curvature ``p_i p_j``;
two items are a duel. The score is ``D (y - p) / k`` with ``y`` the favourite, as ``D^T D`` is
``k I - 1 1^T``. Value, ``H^T`` score and ``H^T W H`` are exact, and no more is asked for here.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from botorch_pref.data.blocks import Block
from botorch_pref.data.checks import Check, as_indices, check_shape, checked_positive, refuse
from botorch_pref.exceptions import ComparisonDataError

__all__ = ["ChoiceLikelihood", "choice_block"]


class ChoiceLikelihood:
    r"""``P(r) = exp(scale z_r) / sum_j exp(scale z_j)``, on the differences of all pairs.

    A row's answer is 1 where its first item is the favourite, 0 where its second one is, and
    1/2 where neither is. The rows of a question stand together, pairs in the order of
    ``torch.combinations``, and have one weight.

    Args:
        num_items: The number ``k`` of items of each question, at least 2.
        scale: What utilities are multiplied by.

    Raises:
        ComparisonDataError: If there are fewer items, or ``scale`` is not positive and finite.
    """

    def __init__(self, num_items: int, scale: float = 1.0) -> None:
        if num_items < 2:
            raise ComparisonDataError(f"A choice is of at least 2 items, not of {num_items}.")
        self.num_items = num_items
        self.scale = checked_positive("scale", scale)

    def log_prob(self, latent: Tensor, answer: Tensor, weight: Tensor) -> Tensor:
        """A question's log probability on the first of its rows, and zero on the others.

        Args:
            latent: ``... x m``-dim differences.
            answer: ``... x m``-dim answers.
            weight: ``... x m``-dim weights.

        Returns:
            ``... x m``-dim log probabilities.
        """
        design = _design(self.num_items, latent.dtype, latent.device)
        favourite, utilities = self._favourite(answer, design), self._utilities(latent, design)
        total = (favourite * utilities.log_softmax(-1)).sum(-1, keepdim=True)
        rows = torch.nn.functional.pad(total, (0, len(design) - 1)).flatten(-2)
        return weight * rows

    def derivatives(
        self, latent: Tensor, answer: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Score and curvature of each row; arguments as of :meth:`log_prob`.

        Returns:
            The score, the curvature, and no third derivative, but NaN, as a question's third
            derivatives mix its rows.
        """
        design = _design(self.num_items, latent.dtype, latent.device)
        probability = self._utilities(latent, design).softmax(-1)
        excess = self._favourite(answer, design) - probability
        score = self.scale / self.num_items * (excess @ design.T)
        both = probability[..., _pairs(self.num_items, latent.device)].prod(-1)
        curvature = weight * (self.scale**2 * both).flatten(-2)
        return weight * score.flatten(-2), curvature, torch.full_like(curvature, torch.nan)

    def _utilities(self, latent: Tensor, design: Tensor) -> Tensor:
        """Scaled utilities less their mean, one question a row."""
        return self.scale / self.num_items * (_questions(latent, design) @ design)

    def _favourite(self, answer: Tensor, design: Tensor) -> Tensor:
        """One where an item is the favourite of its question, else zero."""
        return (1.0 + _questions(2.0 * answer - 1.0, design) @ design) / self.num_items


def choice_block(
    items: Tensor, favourite: Tensor, weight: Tensor | None = None, *, scale: float = 1.0
) -> Block:
    r"""Choices of the best of ``k`` items; questions of another size are another block.

    Args:
        items: ``m x k``-dim indices of the items shown, ``k`` at least 2.
        favourite: ``m``-dim positions, from 0, of the favourites among them.
        weight: ``m``-dim weights, how often a question was so answered; 1 by default.
        scale: What utilities are multiplied by.

    Returns:
        The ``m k (k - 1) / 2`` rows, in float64. Of likelihood-ratio sets only; evidence and
        its gradients need third derivatives, which the rows do not have.

    Raises:
        ComparisonDataError: If an argument cannot be used; names it, and the row.
    """
    items = as_indices("items", items, items, "m", "k")
    check_shape("items", items, "m", "k", batch=False)
    m, k = items.shape
    likelihood = ChoiceLikelihood(k, scale)
    favourite = as_indices("favourite", favourite, items, m)
    check_shape("favourite", favourite, m, batch=False)
    weight = torch.ones(m, device=items.device) if weight is None else weight
    check_shape("weight", weight, m, batch=False)
    refuse(
        Check("items", items, (items < 0).any(-1), "an index is negative"),
        Check(
            "favourite",
            favourite,
            (favourite < 0) | (favourite >= k),
            f"the favourite is one of 0 to {k - 1}",
        ),
        Check("weight", weight, ~((weight >= 0) & weight.isfinite()), "not a weight"),
    )
    pairs = _pairs(k, items.device)
    won = (favourite.view(-1, 1, 1) == pairs).to(torch.float64)
    return Block(
        items[:, pairs].flatten(0, 1),
        (1.0, -1.0),
        (0.5 * (1.0 + won[..., 0] - won[..., 1])).flatten(),
        weight.double().repeat_interleave(len(pairs)),
        likelihood,
    )


def _questions(rows: Tensor, design: Tensor) -> Tensor:
    """``... x m`` rows by question."""
    return rows.unflatten(-1, (rows.shape[-1] // len(design), len(design)))


@lru_cache
def _pairs(num_items: int, device: torch.device) -> Tensor:
    """``k (k - 1) / 2 x 2``-dim positions of the items of a question's rows."""
    return torch.combinations(torch.arange(num_items, device=device))


@lru_cache
def _design(num_items: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """``D: k (k - 1) / 2 x k``."""
    corners = torch.eye(num_items, dtype=dtype, device=device)
    first, second = corners[_pairs(num_items, device)].unbind(1)
    return first - second
