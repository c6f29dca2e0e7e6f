r"""What the dimensions of a space are called, so that a person can read an item."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from botorch_pref.exceptions import StudyError
from botorch_pref.space.search_space import SearchSpace

_COARSE = 0.02  # of its range, to which a number is rounded to 1, 2 or 5 times a power of ten
_DIGITS = 3  # of its range, to which it is exact where that is wanted
_LOG_DIGITS, _MOST_DIGITS, _MOST_DECIMALS = 2, 6, 12
_MOST_COLUMNS = 30  # of a table that a person reads: what a screen has room for
_NAME = re.compile(r"(?P<name>[^()]+?)\s*(?:\((?P<unit>[^()]*)\))?")
# Columns of a study's history that are no dimension.
_RESERVED = ("step", "kind", "index", "answer", "annotator", "told")
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

        Raises:
            StudyError: If it is no such text, or a name that a history's column has.
        """
        found = _NAME.fullmatch(text.strip()) if isinstance(text, str) else None
        if found is None:
            raise StudyError(f'`names`: {text!r} is no name such as "milk" or "milk (ml)".')
        if found["name"] in _RESERVED:
            raise StudyError(
                f"`names`: {found['name']!r} is a column of the history; choose another name."
            )
        return cls(found["name"], (found["unit"] or "").strip())

    def value(self, number: float) -> float | str:
        """A number of this dimension; of a category, the name of its level."""
        return self.levels[int(number)] if self.levels else number

    def number(self, value: float | str) -> float:
        """The number that :meth:`value` has for what it returned.

        Raises:
            ValueError: If it is no such value.
        """
        if not self.levels:
            return float(value)
        if value not in self.levels:
            raise ValueError(f"{self.name!r} has no level {value!r}")
        return float(self.levels.index(str(value)))


ROW = Dimension("choice")
"""What the number of a row in a table is called."""


def read_by_people(dimensions: Sequence[Dimension], space: SearchSpace) -> list[int]:
    """The dimensions that tell a person what an item is: of a table of more than 30, its texts."""
    numbers = range(len(dimensions))
    if space.choices is None or len(dimensions) <= _MOST_COLUMNS:
        return [*numbers]
    return [i for i in numbers if dimensions[i].levels]


def dimensions_of(
    names: Sequence[str | Dimension] | None,
    space: SearchSpace,
    levels: Mapping[str, Sequence[str]] | None = None,
    *,
    new: bool = True,
) -> tuple[Dimension, ...]:
    r"""The dimensions of a ``d``-dim space; the arguments are those of ``Study.create``.

    A new study may not have a name that gives a column of the history two meanings: it may ask for
    one item and for several, and ``first_x`` is the column of ``x`` then.

    Raises:
        StudyError: If there are not ``d`` names that differ, or levels are not those of a
            category.
    """
    if isinstance(names, str):
        raise StudyError(f"`names` must be a list of names, not the text {names!r}.")
    names = [f"x{i + 1}" for i in range(space.dim)] if names is None else names
    labels = [one.label if isinstance(one, Dimension) else one for one in names]
    dimensions = [Dimension.parse(label) for label in labels]
    given: dict[str, Sequence[str]] = {
        one.name: one.levels for one in names if isinstance(one, Dimension)
    }
    given |= levels or {}
    own = [dimension.name for dimension in dimensions]
    if twice := sorted({name for name in own if own.count(name) > 1}):
        raise StudyError(f"`names` has {', '.join(map(repr, twice))} more than once.")
    for name in own if new else ():
        if name == "shown":
            raise StudyError(f"`names`: {name!r} is a column of the history; choose another name.")
        found = _OF_SEVERAL.fullmatch(name)
        if found is not None and found["name"] in {"index", *own}:
            raise StudyError(
                f"`names`: {name!r} is the column of the history for the {found['name']!r} of one "
                "of several items; choose another name."
            )
    if len(own) != space.dim:
        raise StudyError(f"`names` has {len(own)} entries, but the space {space.dim} dimensions.")
    if unknown := sorted(given.keys() - own):
        raise StudyError(f"`levels` has {unknown[0]!r}, which is no dimension.")
    for i, name in enumerate(own):
        number = space.parameters.levels.get(i, 0)
        texts = tuple(given.get(name, ())) or tuple(map(str, range(number)))
        if len(texts) != number:
            raise StudyError(f"`levels` of {name!r} are {len(texts)}, but the space has {number}.")
        if not all(isinstance(text, str) for text in texts) or len(set(texts)) < number:
            raise StudyError(f"`levels` of {name!r} must be texts that differ: {texts}.")
        dimensions[i] = dimensions[i]._replace(levels=texts)
    return tuple(dimensions)


def value_text(value: float | str, i: int, space: SearchSpace, fine: bool = False) -> str:
    """A number to a fiftieth of its range, or to a thousandth; of choices six digits."""
    if isinstance(value, str):
        return value
    if i in space.parameters.integer or (space.choices is not None and value.is_integer()):
        return f"{value + 0.0:.0f}"  # 0 for -0
    if space.choices is not None:  # as they were given: ranges tell nothing of their digits
        return f"{value:.{_MOST_DIGITS}g}"
    if i in space.parameters.log:
        digits = _DIGITS + 1 if fine else _LOG_DIGITS
        return f"{float(f'{value:.{digits}g}'):.{_MOST_DIGITS}g}"
    lower, upper = space.bounds[:, i].tolist()
    number = value
    if fine:
        exponent = math.floor(math.log10(upper - lower)) - _DIGITS
    else:
        step = _COARSE * (upper - lower)
        exponent = math.floor(math.log10(step))
        step = 10.0**exponent * max(k for k in (1, 2, 5) if k == 1 or k * 10.0**exponent <= step)
        number = min(max(step * round(value / step), lower), upper)
    return f"{number + 0.0:.{min(max(-exponent, 0), _MOST_DECIMALS)}f}"
