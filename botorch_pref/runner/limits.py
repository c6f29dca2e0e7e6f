r"""When a simulation ends."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.queries import Evaluate


class Limits(NamedTuple):
    r"""When a simulation ends, and when it asks what is best.

    Attributes:
        horizon: After how many steps it ends.
        evaluations: After how many evaluations it ends, if they are counted.
        recommend_every: After how many steps to ask what is best.
    """

    horizon: int
    evaluations: int | None
    recommend_every: int

    @classmethod
    def checked(cls, horizon: int, evaluations: int | None, recommend_every: int) -> Self:
        r"""Limits of a user.

        Raises:
            UnsupportedError: If one is no positive whole number; names it.
        """
        if evaluations is not None:
            evaluations = checked_count("evaluations", evaluations)
        every = checked_count("recommend_every", recommend_every)
        return cls(checked_count("horizon", horizon), evaluations, every)

    @property
    def bar(self) -> dict[str, Any]:
        """What a progress bar counts, and up to what."""
        if self.evaluations is None:
            return {"total": self.horizon, "unit": "duel"}
        return {"total": self.evaluations, "unit": "evaluation"}

    def counts(self, row: Mapping[str, Any]) -> bool:
        """Whether a step is one of those that are counted."""
        evaluated = row["kind"] == Evaluate.kind and row["answer"] is not None
        return evaluated or self.evaluations is None


def checked_count(argument: str, value: int) -> int:
    r"""A whole number, at least 1.

    Args:
        argument: What it is called.
        value: The number.

    Returns:
        The number, as Python's own.

    Raises:
        UnsupportedError: If it is anything else; names the argument.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise UnsupportedError(f"{argument} must be a whole number, at least 1, got {value!r}.")
    return number
