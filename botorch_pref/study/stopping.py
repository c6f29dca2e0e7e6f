r"""When a study has asked enough."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from botorch_pref.exceptions import StudyError


@dataclass(frozen=True)
class StoppingRule:
    r"""Enough is asked when, with this probability, no asked item is noticeably better.

    That is ``P(max_i f(x_i) - f(x) <= h) >= probability`` under the posterior, for the recommended
    item ``x`` and the asked items ``x_i``; ``h`` is the difference at which the better of two
    items wins with probability ``1/2 + margin``. It speaks of items that were asked alone: that
    the best of all is near one of these is for the strategy to see to.

    Attributes:
        probability: How sure it has to be.
        margin: What is noticeable: the win probability above 1/2. Where values were measured,
            the difference in their standard deviations.
        min_answers: So many answers are wanted in any case: few may agree by chance. Where values
            were measured, so many of these, else so many comparisons of different items.

    Raises:
        StudyError: If a number is out of range.
    """

    probability: float = 0.9
    margin: float = 0.1
    min_answers: int = 15

    def __post_init__(self) -> None:
        for name, most in (("probability", 1.0), ("margin", 0.5)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise StudyError(f"`{name}` must be a number, got {value!r}.")
            if not 0.0 < value < most:
                raise StudyError(f"`{name}` must be between 0 and {most:g}, got {value!r}.")
        if not isinstance(self.min_answers, int) or self.min_answers < 1:
            raise StudyError(f"`min_answers` must be at least 1, got {self.min_answers!r}.")

    def progress(self, good_enough: float, num_answers: int) -> float:
        """How far a study is, from 0 to 1: what is lacking most of what is wanted."""
        answers = num_answers / self.min_answers
        return min(1.0, good_enough / self.probability, answers)

    def to_json(self) -> dict[str, Any]:
        """The attributes."""
        return asdict(self)

    @classmethod
    def from_json(cls, entries: dict[str, Any]) -> Self:
        """Reads what :meth:`to_json` wrote; raises StudyError if it is something else."""
        if unknown := sorted(entries.keys() - {field.name for field in fields(cls)}):
            raise StudyError(f"the stopping rule has no {unknown[0]!r}")
        return cls(**entries)
