r"""What the dimensions of a space are called, so that a person can read an item."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from botorch_pref.exceptions import StudyError

_DIGITS = 3  # a shown number is exact to so many digits of its range
_MOST_DECIMALS = 12
_NAME = re.compile(r"(?P<name>[^()]+?)\s*(?:\((?P<unit>[^()]*)\))?")
# Columns of a study's history that are no dimension.
RESERVED = ("step", "kind", "index", "answer", "annotator", "told")


class Dimension(NamedTuple):
    r"""A dimension's name and unit.

    Attributes:
        name: Its name, such as ``"milk"``.
        unit: Its unit, such as ``"ml"``, or nothing.
    """

    name: str
    unit: str = ""

    @property
    def label(self) -> str:
        """Name and unit, as in ``"milk (ml)"``."""
        return f"{self.name} ({self.unit})" if self.unit else self.name

    @classmethod
    def parse(cls, text: str) -> Dimension:
        r"""Read a name with its unit in brackets, as in ``"milk (ml)"``.

        Args:
            text: Name and unit, or the name alone.

        Raises:
            StudyError: If it is no such text, or a name that a history's column has.
        """
        found = _NAME.fullmatch(text.strip()) if isinstance(text, str) else None
        if found is None:
            raise StudyError(f'`names`: {text!r} is no name such as "milk" or "milk (ml)".')
        if found["name"] in RESERVED:
            raise StudyError(
                f"`names`: {found['name']!r} is a column of the history; choose another."
            )
        return cls(found["name"], (found["unit"] or "").strip())


def dimensions_of(names: Sequence[str] | None, dim: int) -> tuple[Dimension, ...]:
    r"""The dimensions of a ``d``-dim space.

    Args:
        names: As :meth:`Dimension.parse` reads them; ``x1``, ``x2``, ... by default.
        dim: ``d``.

    Raises:
        StudyError: If there are not ``d`` names that differ.
    """
    if names is None:
        return tuple(Dimension(f"x{i + 1}") for i in range(dim))
    if isinstance(names, str):
        raise StudyError(f"`names` must be a list of names, not the text {names!r}.")
    dimensions = tuple(Dimension.parse(name) for name in names)
    if len(dimensions) != dim:
        raise StudyError(f"`names` has {len(dimensions)} entries, but the space {dim} dimensions.")
    own = [dimension.name for dimension in dimensions]
    if twice := sorted({name for name in own if own.count(name) > 1}):
        raise StudyError(f"`names` has {', '.join(map(repr, twice))} more than once.")
    return dimensions


def item_text(item: Tensor, dimensions: Sequence[Dimension], bounds: Tensor) -> str:
    r"""An item for a person, as in ``"milk 34.48 ml, temperature 71.2 C"``.

    Args:
        item: The ``d``-dim item.
        dimensions: Its ``d`` dimensions.
        bounds: ``2 x d``-dim; each number is shown to a thousandth of its range or finer.
    """
    parts = []
    for dimension, value, lower, upper in zip(
        dimensions, item.tolist(), *bounds.tolist(), strict=True
    ):
        decimals = _DIGITS - math.floor(math.log10(upper - lower))
        text = f"{value:.{min(max(decimals, 0), _MOST_DECIMALS)}f}"
        parts.append(" ".join(part for part in (dimension.name, text, dimension.unit) if part))
    return ", ".join(parts)
