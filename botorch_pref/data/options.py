r"""Checks of numbers and words that models, engines and strategies take as options."""

from __future__ import annotations

import math
import operator
from typing import Literal, TypeGuard

from botorch_pref.exceptions import ComparisonDataError


def is_positive(value: object) -> TypeGuard[float]:
    """Whether it is a positive, finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 < value < math.inf


def checked_positive(argument: str, value: object) -> float:
    """A positive, finite number as a float.

    Raises:
        ComparisonDataError: If it is anything else; names the argument.
    """
    if is_positive(value):
        return float(value)
    raise ComparisonDataError(f"`{argument}` must be a positive finite number, not {value!r}.")


def checked_kappa(argument: str, value: object) -> Literal["laplace"] | float:
    """``"laplace"``, or ``kappa``, the inverse of an answer-free curvature.

    Raises:
        ComparisonDataError: If it is neither; names the argument.
    """
    if isinstance(value, str):
        if value == "laplace":
            return "laplace"
        raise ComparisonDataError(
            f'`{argument}` must be "laplace" or a positive number, not {value!r}.'
        )
    return checked_positive(argument, value)


def check_count(argument: str, value: object, least: int) -> None:
    """Checks a whole number.

    Raises:
        ComparisonDataError: If it is none, or less than ``least``; names the argument.
    """
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or number < least:
        raise ComparisonDataError(
            f"`{argument}` must be a whole number, at least {least}, not {value!r}."
        )
