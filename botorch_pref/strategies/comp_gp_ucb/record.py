r"""Why COMP-GP-UCB asked what it asked."""

from __future__ import annotations

import math
from dataclasses import dataclass

from botorch_pref.strategies.budgeted import QueryRecord


@dataclass(frozen=True)
class FilterRecord(QueryRecord):
    r"""What was known when a query was chosen.

    The phase is ``"initial"``, ``"duels"`` (phase 1) or ``"filtered"`` (phase 2).

    Attributes:
        width: ``beta_r sd_r(x)`` before the query, a probability.
        gamma: What a width was compared with.
        slack: By how much an item may fall short of the best in duels.
        lower_bound: What the best item in duels was taken to reach.
        feasibility: ``phi(x)``.
        empty: Whether no item passed the filter, so that the most promising in duels was taken.
    """

    width: float = math.nan
    gamma: float = math.nan
    slack: float = math.nan
    lower_bound: float = math.nan
    feasibility: float = math.nan
    empty: bool = False
