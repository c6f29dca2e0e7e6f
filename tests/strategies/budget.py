"""Judges of all kinds of queries, and a run until nothing can be paid."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.queries import Query
from botorch_pref.strategies import Strategy
from tests.models.common import rand

WIDE = torch.tensor([[-1.0, 0.0], [2.0, 4.0]], dtype=torch.float64)
TABLE = rand(40, 2, seed=8)
BOX = torch.tensor([[0.0, -0.2], [1.2, 1.0]], dtype=torch.float64)


def value(items: Tensor) -> Tensor:
    """Largest, 0, near the middle of the box ``WIDE``."""
    return -((items.cpu() - torch.tensor([0.6, 0.4], dtype=torch.float64)) ** 2).sum(-1)


def reply(query: Query) -> float:
    """Without noise; an item is accepted near the best one."""
    if query.measures:
        return float(value(query.items))
    if not query.compares:
        return float(value(query.items) > -0.5)
    first, second = value(query.items)
    return float(first > second)


def play(
    strategy: Strategy, most: int = 1000, judge: Callable[[Query], float | None] = reply
) -> list[Query]:
    """Ask and answer until nothing can be paid, or so often."""
    queries: list[Query] = []
    while not getattr(strategy, "finished", False) and len(queries) < most:
        try:
            queries.append(strategy.ask())
        except UnsupportedError:
            break
        strategy.tell(queries[-1], judge(queries[-1]))
    return queries
