r"""Checks of numbers and words that models, engines and strategies take as options."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Literal, TypeGuard

import numpy as np

from botorch_pref.exceptions import ComparisonDataError

ENDLESS = "inf"


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


def checked_seed(value: object) -> int:
    """A whole number, also of NumPy's, as an ``int``.

    Raises:
        ComparisonDataError: If it is none.
    """
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError as error:
        raise ComparisonDataError(f"`seed` must be a whole number, not {value!r}.") from error


def plain(value: Any) -> Any:
    """NumPy's numbers and arrays, and fractions, as Python's numbers, which JSON knows."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Fraction):
        return float(value)
    if type(value) in (list, tuple):
        return type(value)(map(plain, value))
    return value


def endless_to_json(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options with a word for what is infinite, for which JSON has no number."""
    return {name: ENDLESS if value == math.inf else value for name, value in options.items()}


def endless_from_json(options: Mapping[str, Any]) -> dict[str, Any]:
    """Reads what :func:`endless_to_json` wrote."""
    return {
        name: math.inf if isinstance(value, str) and value == ENDLESS else value
        for name, value in options.items()
    }


def plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as a user gave them, or as :func:`endless_to_json` wrote them."""
    return endless_from_json({name: plain(value) for name, value in options.items()})
