r"""What the dimensions of a space are called, so that a person can read an item."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torch import Tensor

from botorch_pref.exceptions import StudyError
from botorch_pref.space import SearchSpace

_DIGITS = 3  # a shown number is exact to so many digits of its range
_MOST_DECIMALS = 12
_MOST_DIGITS = 6
_NAME = re.compile(r"(?P<name>[^()]+?)\s*(?:\((?P<unit>[^()]*)\))?")
# Columns of a study's history that are no dimension.
RESERVED = ("step", "kind", "index", "answer", "annotator", "told")
# Where a query has several items, the columns of a dimension and of the index are these.
_OF_SEVERAL = re.compile(r"(?:first|second|item(?:[3-9]|[1-9]\d+))_(?P<name>.+)")


class Dimension(NamedTuple):
    r"""A dimension's name and unit.

    Attributes:
        name: Its name, such as ``"milk"``.
        unit: Its unit, such as ``"ml"``, or nothing.
        levels: Of a category, what its levels are called.
    """

    name: str
    unit: str = ""
    levels: tuple[str, ...] = ()

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
                f"`names`: {found['name']!r} is a column of the history; choose another name."
            )
        return cls(found["name"], (found["unit"] or "").strip())


def dimensions_of(
    names: Sequence[str] | None,
    space: SearchSpace,
    levels: Mapping[str, Sequence[str]] | None = None,
) -> tuple[Dimension, ...]:
    r"""The dimensions of a ``d``-dim space.

    Args:
        names: As :meth:`Dimension.parse` reads them; ``x1``, ``x2``, ... by default.
        space: The space.
        levels: What the levels of categories are called, by the name of the dimension; 0, 1, ...
            where none are given.

    Raises:
        StudyError: If there are not ``d`` names that differ, or levels are not those of a
            category.
    """
    dimensions = named([f"x{i + 1}" for i in range(space.dim)] if names is None else names)
    if len(dimensions) != space.dim:
        raise StudyError(
            f"`names` has {len(dimensions)} entries, but the space {space.dim} dimensions."
        )
    given = {name: tuple(found) for name, found in (levels or {}).items()}
    if unknown := sorted(given.keys() - {dimension.name for dimension in dimensions}):
        raise StudyError(f"`levels` has {unknown[0]!r}, which is no dimension.")
    for i, dimension in enumerate(dimensions):
        wanted = space.parameters.levels.get(i, 0)
        found = given.get(dimension.name) or tuple(str(level) for level in range(wanted))
        if len(found) != wanted:
            raise StudyError(
                f"`levels` of {dimension.name!r} are {len(found)}, but the space has {wanted}."
            )
        if not all(isinstance(name, str) for name in found) or len(set(found)) < len(found):
            raise StudyError(f"`levels` of {dimension.name!r} must be texts that differ: {found}.")
        dimensions[i] = dimension._replace(levels=found)
    return tuple(dimensions)


def named(names: Sequence[str]) -> list[Dimension]:
    r"""Dimensions of these names.

    Args:
        names: As :meth:`Dimension.parse` reads them.

    Raises:
        StudyError: If one cannot be read, or is there more than once.
    """
    if isinstance(names, str):
        raise StudyError(f"`names` must be a list of names, not the text {names!r}.")
    dimensions = [Dimension.parse(name) for name in names]
    own = [dimension.name for dimension in dimensions]
    if twice := sorted({name for name in own if own.count(name) > 1}):
        raise StudyError(f"`names` has {', '.join(map(repr, twice))} more than once.")
    return dimensions


def check_columns(dimensions: Sequence[Dimension]) -> None:
    r"""Refuse what would give a column of the history two meanings.

    A study may ask for one item and for several, so that the column ``first_x`` may be that of
    ``x`` and of a dimension of this name.

    Args:
        dimensions: All of a study that begins; one that was begun is read whatever it has.

    Raises:
        StudyError: If one has the name of such a column.
    """
    own = {"index", *(dimension.name for dimension in dimensions)}
    for dimension in dimensions:
        found = _OF_SEVERAL.fullmatch(dimension.name)
        if found is not None and found["name"] in own:
            raise StudyError(
                f"`names`: {dimension.name!r} is the column of the history for the "
                f"{found['name']!r} of one of several items; choose another name."
            )


def value_text(value: float, dimension: Dimension, i: int, space: SearchSpace) -> str:
    r"""A number for a person, without its unit, or the name of a level.

    Args:
        value: Of the dimension.
        dimension: Its name and levels.
        i: Its number.
        space: Tells how many digits are of use: to a thousandth of the range or finer; of choices
            the first six, or all of a whole number.
    """
    parameters = space.parameters
    if dimension.levels:
        return dimension.levels[int(value)]
    if i in parameters.integer or (space.choices is not None and value.is_integer()):
        return f"{value + 0.0:.0f}"  # 0 for -0
    if space.choices is not None:  # as they were given: ranges tell nothing of their digits
        return f"{value:.{_MOST_DIGITS}g}"
    if i in parameters.log:
        return f"{value:#.{_DIGITS + 1}g}".rstrip(".")
    lower, upper = space.bounds[:, i].tolist()
    decimals = _DIGITS - math.floor(math.log10(upper - lower))
    return f"{value:.{min(max(decimals, 0), _MOST_DECIMALS)}f}"


def item_text(item: Tensor, dimensions: Sequence[Dimension], space: SearchSpace) -> str:
    r"""An item for a person, as in ``"milk 34.48 ml, temperature 71.2 C"``.

    Args:
        item: The ``d``-dim item.
        dimensions: Its ``d`` dimensions.
        space: See :func:`value_text`.
    """
    parts = []
    for i, (dimension, value) in enumerate(zip(dimensions, item.tolist(), strict=True)):
        text = value_text(value, dimension, i, space)
        parts.append(" ".join(part for part in (dimension.name, text, dimension.unit) if part))
    return ", ".join(parts)


def item_values(item: Tensor, dimensions: Sequence[Dimension]) -> dict[str, float | str]:
    """The ``d``-dim item by the names of its dimensions, categories by the names of levels."""
    return {
        dimension.name: dimension.levels[int(value)] if dimension.levels else value
        for dimension, value in zip(dimensions, item.tolist(), strict=True)
    }
