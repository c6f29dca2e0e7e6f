r"""The rows of a large table that may be the best, found without a table of all with all."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from botorch_pref.inference.systems import joint_draws
from botorch_pref.models.base import LaplaceGP

_POOL = 2048  # rows by each measure, of which draws select
_BLOCK, _DRAWS = 512, 32  # rows that are drawn jointly, and how often
_KEPT = 128  # rows by each measure that need no draw
_WIDTH = 2.0  # standard deviations of an upper bound


@torch.no_grad()
def shortlist(model: LaplaceGP, table: Tensor, seed: int) -> Tensor:
    """Sorted rows of ``n x d``-dim items, a thousand at most, that may be the best.

    All rows are screened by their posterior mean and by an upper bound, block by block and in
    single precision. Of the best ones by each, and of rows at random, those are taken that are
    the best of their block in a draw from its joint posterior; as well as the best by each
    measure, and some at random.

    Args:
        model: A model of the utility.
        table: The items.
        seed: Of the draws.
    """
    generator = Generator().manual_seed(seed)
    sample = torch.randperm(len(table), generator=generator)[:_POOL].to(table.device)
    if not model.num_observations:  # all are alike
        return sample[: 4 * _KEPT].sort().values
    mean, variance = model.marginals(table, rough=True)
    upper = mean + _WIDTH * variance.sqrt()
    best = [values.topk(min(_POOL, len(table))).indices for values in (mean, upper)]
    pool = torch.cat([*best, sample]).unique()
    winners = []
    for rows in pool[torch.randperm(len(pool), generator=generator).to(pool)].split(_BLOCK):
        found = model.posterior(table[rows])
        moments = found.mean.squeeze(-1), found.covariance_matrix
        winners.append(rows[joint_draws(*moments, _DRAWS, generator).argmax(-1)])
    return torch.cat([*(rows[:_KEPT] for rows in (*best, sample)), *winners]).unique()
