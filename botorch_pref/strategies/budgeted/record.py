r"""What was paid for, and why."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

from botorch_pref.data.checks import endless_from_json, endless_to_json

Kind = Literal["duel", "value"]
"""What a query is."""


@dataclass(frozen=True)
class QueryRecord:
    r"""A query that was chosen. Subclasses add numbers that say why.

    Attributes:
        kind: ``"duel"`` or ``"value"``.
        phase: ``"initial"`` in the initial design; else what the strategy calls it.
    """

    kind: Kind
    phase: str

    def to_json(self) -> dict[str, Any]:
        """As plain JSON; what is not a number is null, and what is infinite a word."""
        known = endless_to_json(asdict(self))
        return {name: None if value != value else value for name, value in known.items()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Reads what :meth:`to_json` wrote."""
        known = {name: math.nan if value is None else value for name, value in data.items()}
        return cls(**endless_from_json(known))


@dataclass(frozen=True)
class WidthRecord(QueryRecord):
    r"""A query of a strategy that duels an item for as long as duels know little of it.

    Attributes:
        width: ``beta sd(x)`` of how often the item wins, before the query; a probability.
        gamma: Below which width items are measured.
    """

    width: float = math.nan
    gamma: float = math.nan
