r"""How many standard deviations a bound is from the mean, step by step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, Self

from botorch_pref.data.checks import checked_positive, plain
from botorch_pref.exceptions import ComparisonDataError

BetaWord = Literal["log", "dimension"]


@dataclass(frozen=True)
class LogBeta:
    r"""``beta_t = scale log(factor t + epsilon)``, or the square root of that.

    The defaults are what Xu, Joshi, Singh and Dubrawski (2020), App. B, multiply standard
    deviations by. Their text also has ``0.2 d log(2 t)``, here ``LogBeta(0.2 * d)``; the public
    code of MF-GP-UCB has ``LogBeta(0.2 * d, 2 * d, root=True)``.

    Attributes:
        scale: Multiplies the logarithm.
        factor: Of the step ``t = 1, 2, ...``, which counts all queries after the initial design.
        epsilon: Added to that, for ``beta_1`` to be positive where the factor alone is 1 or less.
        root: Whether the square root is taken.
    """

    scale: float = 0.5
    factor: float = 2.0
    epsilon: float = 0.0
    root: bool = False

    def __post_init__(self) -> None:
        for name in ("scale", "factor"):
            checked_positive(f"beta.{name}", getattr(self, name))
        if not (is_number(self.epsilon) and self.factor + self.epsilon > 1):
            raise ComparisonDataError(
                "`beta.epsilon` must be a number that makes factor + epsilon larger than 1, as "
                f"beta_1 is not positive otherwise: {self.factor!r} and {self.epsilon!r}."
            )
        if not isinstance(self.root, bool):
            raise ComparisonDataError(f"`beta.root` must be True or False, not {self.root!r}.")

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> Self:
        r"""From plain JSON.

        Raises:
            ComparisonDataError: If an entry is unknown or out of range; names it.
        """
        names = [field.name for field in fields(cls)]
        if unknown := sorted(options.keys() - set(names)):
            raise ComparisonDataError(f"Unknown {unknown} in `beta`; there are {', '.join(names)}.")
        return cls(**{name: plain(value) for name, value in options.items()})

    def at(self, t: int) -> float:
        """``beta_t``."""
        found = self.scale * math.log(self.factor * t + self.epsilon)
        return math.sqrt(found) if self.root else found


def is_number(value: object) -> bool:
    """Whether it is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def named(word: BetaWord, dim: int) -> LogBeta:
    """The schedule that a word stands for, in ``dim`` dimensions."""
    return LogBeta() if word == "log" else LogBeta(0.2 * dim, 2.0 * dim, root=True)
