r"""Options of strategies: their checks, and their form as plain JSON."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from botorch_pref.exceptions import ComparisonDataError


def checked_flag(argument: str, value: object) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise ComparisonDataError(f"`{argument}` must be True or False, not {value!r}.")
    return value


def checked_seed(value: object) -> int:
    """A whole number, also of NumPy's, as an ``int``."""
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError as error:
        raise ComparisonDataError(f"`seed` must be a whole number, not {value!r}.") from error


def plain(value: Any) -> Any:
    """NumPy's numbers and arrays, and fractions, as Python's numbers, for JSON."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Fraction):
        return float(value)
    if type(value) in (list, tuple):
        return type(value)(map(plain, value))
    return value


def endless_to_json(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options with infinite values and NaN as strings, since JSON has no such numbers."""
    return {
        name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in options.items()
    }


def endless_from_json(options: Mapping[str, Any]) -> dict[str, Any]:
    """Reads what :func:`endless_to_json` wrote."""
    return {
        name: float(value) if isinstance(value, str) and value in ("inf", "-inf", "nan") else value
        for name, value in options.items()
    }
