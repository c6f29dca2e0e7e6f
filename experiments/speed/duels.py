r"""The duels that models are timed on."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Size, Tensor

from botorch_pref.problems import get_problem
from experiments.defaults.loop import StandardisedProblem

DIM = 6
NUM_ITEMS = 50
FRESH = f"{{m}} fresh duels, d={DIM}"
REPEATED = f"{NUM_ITEMS} items, {{m}} duels"
_AT_ONCE = 2**16  # items whose utilities are computed together


class Grid(NamedTuple):
    r"""Numbers of duels.

    Attributes:
        fresh: Of duels of new items.
        repeated: Of duels of :data:`NUM_ITEMS` items.
    """

    fresh: tuple[int, ...]
    repeated: tuple[int, ...] = ()

    def points(self) -> Iterator[tuple[str, int, int | None]]:
        """The kind of data, the number of duels and that of the items, which is fixed or not."""
        for data, sizes, items in ((FRESH, self.fresh, None), (REPEATED, self.repeated, NUM_ITEMS)):
            for size in sizes:
                yield data, size, items


class Duels(NamedTuple):
    r"""Answered duels.

    Attributes:
        X: ``batch_shape x n x d``-dim items in the unit cube.
        comparisons: ``batch_shape x m x 2``-dim rows ``[winner, loser]``.
    """

    X: Tensor
    comparisons: Tensor


@lru_cache(maxsize=2)  # very many take longer than what is timed
def duels(
    num: int,
    num_items: int | None = None,
    batch_shape: Size = Size(),  # noqa: B008 (immutable)
    device: torch.device | None = None,
) -> Duels:
    """Random items, compared by Hartmann's function in six dimensions."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.arange(2 * num).view(num, 2)
    if num_items is not None:
        first = torch.randint(num_items, (num,), generator=generator)
        step = torch.randint(1, num_items, (num,), generator=generator)
        rows = torch.stack([first, (first + step) % num_items], dim=-1)
    shape = (*batch_shape, 2 * num if num_items is None else num_items, DIM)
    X = torch.rand(shape, generator=generator, dtype=torch.double)
    problem = StandardisedProblem(get_problem("hartmann6"))
    utilities = torch.cat([problem(part) for part in X.split(_AT_ONCE, dim=-2)], dim=-1)
    first, second = utilities[..., rows].unbind(dim=-1)
    uniform = torch.rand(first.shape, generator=generator, dtype=torch.double)
    wins = (uniform < torch.sigmoid(first - second)).unsqueeze(-1)
    return Duels(X.to(device), torch.where(wins, rows, rows.flip(-1)).to(device))


def probes(X: Tensor, num: int = 64) -> Tensor:
    """Pairs at which posteriors are wanted."""
    rows = torch.arange(2 * num, device=X.device) % len(X)
    return X[rows].flip(-1).view(num, 2, -1)
