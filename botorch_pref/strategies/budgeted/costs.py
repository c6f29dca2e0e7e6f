r"""What queries cost, in exact arithmetic: in floats 0.3 / 0.1 is less than 3."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from botorch_pref.exceptions import ComparisonDataError

Amount = int | float | str | Fraction
"""A price or a budget, kept exactly; a string is a decimal number or a fraction."""


def exact(argument: str, amount: object) -> Fraction:
    r"""An amount as the decimal that it was written as.

    Args:
        argument: Its name, for the message.
        amount: A positive number, or a string such as ``"0.1"`` or ``"1/3"``.

    Raises:
        ComparisonDataError: If it is no positive number; names the argument.
    """
    try:
        number = None if isinstance(amount, bool) else Fraction(str(amount))
    except (ValueError, ZeroDivisionError):
        number = None
    if number is None or number <= 0:
        raise ComparisonDataError(f"`{argument}` must be a positive number, not {amount!r}.")
    return number


@dataclass(frozen=True)
class Costs:
    r"""The prices of both kinds of query, and what may be spent.

    Attributes:
        duel: Of a duel.
        value: Of a measured value.
        budget: What all queries together may cost; None for no limit.
    """

    duel: Fraction
    value: Fraction
    budget: Fraction | None

    def spent(self, num_duels: int, num_values: int) -> Fraction:
        """What so many queries cost."""
        return num_duels * self.duel + num_values * self.value

    def affords(self, price: Fraction, spent: Fraction) -> bool:
        """Whether one more query can be paid."""
        return self.budget is None or spent + price <= self.budget

    @property
    def most_values(self) -> int:
        """How many values alone the budget pays for, ``floor(Lambda / lambda_l)``.

        Raises:
            ComparisonDataError: If there is no budget.
        """
        if self.budget is None:
            raise ComparisonDataError("Without a `budget` there is no largest number of values.")
        return math.floor(self.budget / self.value)
