r"""Items in the order of their utilities, with what is not known of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.model import Model
from botorch.posteriors import GPyTorchPosterior
from torch import Tensor

from botorch_pref.data.checks import check_count, check_items, finite, refuse
from botorch_pref.data.tables import named_duels
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.kernels.items import scaled_kernel
from botorch_pref.kernels.nugget import IndependentKernel
from botorch_pref.models.answer_parameters import AnnotatorEffects
from botorch_pref.models.base import LaplaceMarginalLogLikelihood
from botorch_pref.models.preference_gp import PreferenceGP

_DRAWS = 4000
_TAIL = 0.025  # of a 95 % interval
_NORMAL_95 = 1.959964


@torch.no_grad()
def rank_items(
    model: Model, items: Tensor, labels: Sequence[str] | None = None, *, seed: int = 0
) -> pd.DataFrame:
    r"""The items by their posterior means, best first, with 95 % intervals of utility and rank.

    Comparisons tell a utility up to a constant, so utilities are those above the mean of the items.
    Items have the same ``rank`` where their order is not known: it is one more than the number of
    items that are better with a probability of 97.5 % or more. ``rank_from`` and ``rank_to`` are
    quantiles over 4000 draws of all utilities together.

    Args:
        model: A model of one output with a Gaussian posterior.
        items: ``n x d``-dim items.
        labels: Their ``n`` names; their row numbers, from 0, if omitted.
        seed: The seed of the draws.

    Returns:
        A row an item with ``item``, ``rank``, ``rank_from``, ``rank_to``, ``utility``, ``lower``
        and ``upper``; the index is its row in ``items``.

    Raises:
        ComparisonDataError: If the items have a wrong shape or are not finite, or there are fewer
            than two.
        UnsupportedError: If the posterior is no Gaussian of one output, or there are other than
            ``n`` labels.
    """
    check_items("items", items, "n", "d", batch=False)
    refuse(finite("items", items))
    number = check_count("len(items)", len(items), 2)
    if labels is None:
        labels = [f"#{row}" for row in range(number)]
    if isinstance(labels, str) or len(labels) != number:
        raise UnsupportedError(f"labels must be {number} names, got {labels!r}.")
    posterior = model.posterior(items)
    if not isinstance(posterior, GPyTorchPosterior) or posterior.mean.shape != (number, 1):
        raise UnsupportedError(
            f"The posterior of `model` is a {type(posterior).__name__}, or of several outputs or "
            "models, and not one Gaussian."
        )
    mean, covariance = posterior.mean.squeeze(-1), posterior.covariance_matrix
    # That of utilities above the mean of all: a constant, which may vary much, is in none of these.
    utility = mean - mean.mean()
    covariance = covariance - covariance.mean(-1, keepdim=True)
    covariance = covariance - covariance.mean(-2, keepdim=True)
    variance = covariance.diagonal()
    values, vectors = torch.linalg.eigh(covariance)
    noise = torch.from_numpy(np.random.default_rng(seed).standard_normal((_DRAWS, number)))
    draws = utility + noise.to(mean) * values.clamp_min(0.0).sqrt() @ vectors.mT
    between = variance.unsqueeze(-1) + variance - 2.0 * covariance
    gap = mean.unsqueeze(-1) - mean
    better = gap > _NORMAL_95 * between.clamp_min(0.0).sqrt()
    spread = _NORMAL_95 * variance.clamp_min(0.0).sqrt()
    ranks = (-draws).argsort(dim=-1).argsort(dim=-1).double() + 1.0
    tails = torch.tensor([_TAIL, 1.0 - _TAIL], dtype=torch.double).to(ranks)
    ends = ranks.quantile(tails, dim=0, interpolation="nearest")
    columns = {
        "rank": better.sum(0) + 1,
        "rank_from": ends[0].long(),
        "rank_to": ends[1].long(),
        "utility": utility,
        "lower": utility - spread,
        "upper": utility + spread,
    }
    table = pd.DataFrame({name: column.cpu().numpy() for name, column in columns.items()})
    table.insert(0, "item", [*labels])
    return table.sort_values("utility", ascending=False, kind="stable")


class Leaderboard:
    r"""Items without features, such as players or language models, ranked by their duels.

    A :class:`PreferenceGP` whose items are independent; the variance of their utilities is learnt.
    With a large one it is the model of Bradley and Terry (1952). Utilities have the units of the
    logit: the better of two items one unit apart wins 73 % of their duels. What annotators differ
    in is learnt, too, see :class:`AnnotatorEffects`; where it is not known which item was shown
    first, as of ``winner`` and ``loser``, no annotator prefers it.

    Args:
        duels: A row for each answer. The columns are ``winner`` and ``loser``, or ``first``,
            ``second`` and ``answer`` (1 the first is better, 0 the second, 0.5 neither), and
            ``annotator`` if it is known who answered, which may be empty. Others are not read.

    Attributes:
        model: The fitted :class:`PreferenceGP`; item ``i`` is ``[i]``.
        items: The names of the items, in order of appearance.
        table: What :func:`rank_items` says of them, and the number of ``duels`` of each.
        annotators: What :attr:`PreferenceGP.annotators` says, by their names; ``None`` without.

    Raises:
        ComparisonDataError: If columns are missing or a row is not a duel of two items; names the
            row, from 1.

    Example:
        >>> board = Leaderboard(pd.read_csv("duels.csv", dtype=str))
        >>> print(board.table.to_string(index=False))
    """

    def __init__(self, duels: pd.DataFrame) -> None:
        named = named_duels(duels)
        data, self.items = named.data, named.items
        self.model = PreferenceGP(
            data.datapoints, data, covar_module=scaled_kernel(IndependentKernel())
        )
        for part in self.model.learnt.values():
            if isinstance(part, AnnotatorEffects) and not named.has_order:
                part.offset.requires_grad_(False)
                part.typical_offset.requires_grad_(False)
        fit_gpytorch_mll(LaplaceMarginalLogLikelihood(self.model.likelihood, self.model))
        self.table = rank_items(self.model, data.datapoints, self.items)
        self.table["duels"] = data.pairs.flatten().bincount().numpy()[self.table.index]
        self.annotators: pd.DataFrame | None = None
        if named.annotators:
            table = self.model.annotators
            if not named.has_order:
                table = table.drop(columns=["offset", "offset_error"])
            self.annotators = table.set_axis([*named.annotators, "typical"], axis=0)
