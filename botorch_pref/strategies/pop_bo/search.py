r"""The item of the largest optimistic advantage, among choices and on a box."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, cast

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.models.model import Model
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor
from torch.quasirandom import SobolEngine

from botorch_pref.acquisition import OptimisticAdvantage, OptimisticChoice
from botorch_pref.likelihood_ratio import SCREENING
from botorch_pref.models import LikelihoodRatioModel
from botorch_pref.space import SearchSpace

_LINE_SEARCH = 1e-6  # the gap that L-BFGS-B does not see
_CHUNK = 256
_STARTS, _POOL = 4, 192  # items that are refined, of so many and their neighbours
_NEIGHBOURS, _REACH = 64, 0.2  # of the most likely item; of the range of every dimension


Rule = OptimisticAdvantage | OptimisticChoice


class Challenger(NamedTuple):
    r"""Who meets the reference.

    Attributes:
        row: The row in the table of candidates; of a box, None.
        item: The ``d``-dim item.
        deadlock: Whether nothing is hoped to beat the opponents, so that the pair of the
            largest answer-free width was taken instead.
    """

    row: int | None
    item: Tensor
    deadlock: bool


def challenger_among(
    model: LikelihoodRatioModel,
    table: Tensor,
    opponents: Tensor,
    taken: Tensor,
    best_row: Callable[[Tensor], int],
) -> Challenger:
    r"""The best of a table.

    Args:
        model: The confidence set.
        table: ``n x d``-dim candidates.
        opponents: ``J x d``-dim items that it is to be better than, all of them.
        taken: ``n``-dim booleans: candidates that are not to be asked unless all are.
        best_row: Picks the row of the largest of ``n`` values, ties at random.

    Returns:
        The challenger, never equal to an opponent where another item is left.
    """
    same = (table.unsqueeze(-2) == opponents).all(-1).any(-1)
    refused = same | taken
    if bool(refused.all()):
        refused = taken if bool(same.all()) else same
    values = _advantages(model, table, opponents).masked_fill(refused, -torch.inf)
    largest = values.amax()
    # Far from all answers the values are one number up to the solver's gap: a tie.
    tied = values >= largest - _LINE_SEARCH * model.norm_bound
    deadlock = not bool(largest > 0.0)
    if deadlock:
        values = _widths(model, table, opponents).masked_fill(refused, -torch.inf)
    else:
        values = torch.where(tied, largest, values)
    index = best_row(values)
    return Challenger(index, table[index], deadlock)


def challenger_on_box(
    model: LikelihoodRatioModel,
    space: SearchSpace,
    opponents: Tensor,
    taken: Callable[[Tensor], Tensor],
    seed: int,
) -> Challenger:
    r"""The best of a box: a screened sample, whose best items are refined by L-BFGS-B.

    Args:
        model: The confidence set.
        space: The box.
        opponents: ``J x d``-dim items that it is to be better than, all of them.
        taken: Which of ``... x d`` items are an opponent, or in an open duel with one.
        seed: Of the sample.

    Returns:
        The challenger.
    """
    pool = torch.cat([space.sample(_POOL, seed), _neighbours(model, space, seed + 1)])
    values = _advantages(model, pool, opponents)
    starts = pool[values.topk(min(_STARTS, len(pool))).indices].unsqueeze(-2)
    rule = rule_over(model, opponents, _LINE_SEARCH)
    found = space.maximize(rule, seed=seed, starts=starts, raw_samples=0)
    deadlock = not float(found.value) > 0.0
    if not deadlock and not bool(taken(found.items[0])):
        return Challenger(None, found.items[0], False)
    if deadlock:
        values = _widths(model, pool, opponents)
    refused = taken(pool)
    if bool(refused.all()):  # but an item never meets itself
        refused = (pool.unsqueeze(-2) == opponents).all(-1).any(-1)
    values = values.masked_fill(refused, -torch.inf)
    return Challenger(None, pool[int(values.argmax())], deadlock)


class MostLikelyUtility(AcquisitionFunction):
    """The most likely utility as a rule for single items, ``b x 1 x d``."""

    def __init__(self, model: Model) -> None:
        super().__init__(model=model)

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """The ``b``-dim utilities."""
        return cast(LikelihoodRatioModel, self.model).mle(X.squeeze(-2))


@torch.no_grad()
def _neighbours(model: LikelihoodRatioModel, space: SearchSpace, seed: int) -> Tensor:
    """Items around the most likely one of those asked; none before there are any."""
    if not len(model.items):
        return space.bounds[:0]
    best = model.items[model.mle(model.items).argmax()]
    unit = SobolEngine(space.dim, scramble=True, seed=seed % 2**31)
    steps = unit.draw(_NEIGHBOURS, dtype=torch.double).to(best) - 0.5
    return space.near(best.expand(_NEIGHBOURS, -1), steps, _REACH)


def rule_over(model: LikelihoodRatioModel, opponents: Tensor, tolerance: float) -> Rule:
    """The advantage over one opponent, or over all of several."""
    if len(opponents) == 1:
        return OptimisticAdvantage(model, opponents[0], tolerance=tolerance)
    return OptimisticChoice(model, opponents, tolerance=tolerance)


@torch.no_grad()
def _advantages(model: LikelihoodRatioModel, items: Tensor, opponents: Tensor) -> Tensor:
    """Of ``n x d`` items, the best exact to a line search's gap, others to a screening's."""
    rough, fine = (rule_over(model, opponents, gap) for gap in (SCREENING, _LINE_SEARCH))
    points = items.unsqueeze(-2)
    values = torch.cat([rough(part) for part in points.split(_CHUNK)])
    close = (values >= values.amax() - SCREENING).nonzero().squeeze(-1)
    for rows in close.split(_CHUNK):
        values[rows] = fine(points[rows])
    return values


def _widths(model: LikelihoodRatioModel, items: Tensor, opponents: Tensor) -> Tensor:
    """The least answer-free width of each of ``n x d`` items and an opponent."""
    shape = (len(items), *opponents.shape)
    pairs = torch.stack([items.unsqueeze(-2).expand(shape), opponents.expand(shape)], dim=-2)
    return model.duel_sigma(pairs).amin(-1)
