r"""What COBOL finds out about measured values, and keeps until there is another one."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Self


@dataclass(frozen=True)
class Kept:
    r"""The vanilla candidate and what is certain of the best value, of so many values.

    A label changes neither of them.

    Attributes:
        num_values: How many values there were.
        item: The coordinates of the vanilla candidate.
        row: Its row in the choices.
        best_lower: The largest ``mean - beta sd``, standardised; not a number while no test
            has looked at it.
    """

    num_values: int
    item: list[float]
    row: int | None
    best_lower: float = math.nan

    def to_json(self) -> dict[str, Any]:
        """As plain JSON; what is not a number is null."""
        known = None if math.isnan(self.best_lower) else self.best_lower
        return asdict(self) | {"best_lower": known}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Reads what :meth:`to_json` wrote."""
        known = math.nan if data["best_lower"] is None else data["best_lower"]
        return cls(**{**data, "best_lower": known})
