r"""Why COMP-GP-UCB asked what it asked."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

Phase = Literal["initial", "duels", "filtered"]


@dataclass(frozen=True)
class QueryRecord:
    r"""What was known when a query was chosen.

    Attributes:
        kind: ``"duel"`` or ``"value"``.
        phase: The initial design, phase 1 (duels alone) or phase 2 (filtered values).
        width: ``beta_r sd_r(x)`` before the query, a probability.
        gamma: What a width was compared with.
        slack: By how much an item may fall short of the best in duels.
        lower_bound: What the best item in duels was taken to reach.
        feasibility: ``phi(x)``.
        empty: Whether no item passed the filter, so that the most promising in duels was taken.
    """

    kind: Literal["duel", "value"]
    phase: Phase
    width: float = math.nan
    gamma: float = math.nan
    slack: float = math.nan
    lower_bound: float = math.nan
    feasibility: float = math.nan
    empty: bool = False

    def to_json(self) -> dict[str, Any]:
        """As plain JSON; what is not a number is null."""
        return {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in asdict(self).items()
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Reads what :meth:`to_json` wrote."""
        known: dict[str, Any] = {
            name: math.nan if value is None else value for name, value in data.items()
        }
        return cls(**known)
