r"""Why a duel or a value was bought."""

from __future__ import annotations

import math
from dataclasses import dataclass

from botorch_pref.strategies.budgeted import QueryRecord


@dataclass(frozen=True)
class GainRecord(QueryRecord):
    r"""What was expected of the best query of either kind.

    The phase is ``"initial"``; ``"gain"`` where what gains more for its price was asked; or
    ``"confirm"``, where the recommended item was measured with the last money.

    Attributes:
        duel_gain: The expected gain of the best duel for its price, in units of the utility per
            unit of money; not a number where duels could not be paid.
        value_gain: That of the best value.
    """

    duel_gain: float = math.nan
    value_gain: float = math.nan
