r"""Why COMP-GP-UCB asked what it asked."""

from __future__ import annotations

import math
from dataclasses import dataclass

from botorch_pref.strategies.budgeted import WidthRecord


@dataclass(frozen=True)
class FilterRecord(WidthRecord):
    r"""What was known when a query was chosen.

    The phase is ``"initial"``, ``"duels"`` (phase 1), ``"filtered"`` (phase 2), or ``"remainder"``
    where what should be measured cannot be paid any more and is duelled.

    Attributes:
        slack: By how much an item may fall short of the best in duels.
        lower_bound: What the best item in duels was taken to reach.
        feasibility: ``phi(x)``.
        empty: Whether no item passed the filter, so that the most promising in duels was taken.
    """

    slack: float = math.nan
    lower_bound: float = math.nan
    feasibility: float = math.nan
    empty: bool = False
