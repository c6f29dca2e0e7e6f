r"""A search space as it is written on a command line, or in a table of choices."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from botorch.exceptions.errors import BotorchError
from pandas.errors import ParserWarning
from torch import Tensor

from botorch_pref.cli.parser import UsageError
from botorch_pref.exceptions import StudyError
from botorch_pref.space.search_space import SearchSpace
from botorch_pref.study.dimensions import Dimension, parse_names
from botorch_pref.study.study import Study

_UNNAMED = "Unnamed: "  # what pandas calls a column without a name, if it saves it again
_SHOWN = 5  # rows that are named in an error
_KIND = re.compile(r"(?P<number>.*):\s*(?P<kind>int|log)\s*")
_CATEGORY = re.compile(r"(?P<name>.+):\s*\{(?P<levels>[^{}]*)\}")
_COMMA = re.compile(r",(?![^{}]*\})")  # one that is not in braces


@dataclass(frozen=True)
class Domain:
    r"""A space and what its dimensions are called.

    Attributes:
        names: Names with units.
        space: The space.
        levels: The names of the levels of categories, by the names of dimensions.
    """

    names: tuple[str, ...]
    space: SearchSpace
    levels: dict[str, tuple[str, ...]]

    def is_that_of(self, study: Study) -> bool:
        """Whether a study was begun with it."""
        labels = [Dimension.parse(name).label for name in self.names]
        return (
            labels == [one.label for one in study.dimensions]
            and self.space.state_dict() == study.space.state_dict()
            and self.levels == {one.name: one.levels for one in study.dimensions if one.levels}
        )


def parse_bounds(text: str) -> Domain:
    r"""Read what ``--bounds`` says.

    Args:
        text: As in ``"milk (ml):0:80, shots:1:4:int, dose (g):0.01:10:log, roast:{light|dark}"``.

    Raises:
        UsageError: If it cannot be read; names the part.
    """
    names: list[str] = []
    ends: list[tuple[float, float]] = []
    kinds: dict[str, list[int]] = {"integer": [], "log": [], "categorical": []}
    levels: dict[int, tuple[str, ...]] = {}
    for number, part in enumerate(map(str.strip, _COMMA.split(text))):
        if category := _CATEGORY.fullmatch(part):
            names.append(_plain(category["name"]))
            found = tuple(_plain(level) for level in category["levels"].split("|"))
            if len(found) < 2 or "" in found or len(set(found)) < len(found):
                raise UsageError(f"--bounds: {part!r} needs two levels or more that differ.")
            levels[number] = found
            ends.append((0.0, len(found) - 1.0))
            kinds["categorical"].append(number)
            continue
        rest = part
        while kind := _KIND.fullmatch(rest):
            rest = kind["number"]
            kinds["integer" if kind["kind"] == "int" else "log"].append(number)
        try:
            name, lower, upper = rest.rsplit(":", 2)
            ends.append((float(lower), float(upper)))
        except ValueError:
            raise UsageError(
                f"--bounds: {part!r} is not NAME:LOW:HIGH, as in 'milk (ml):0:80'. A category is "
                "NAME:{A|B}."
            ) from None
        names.append(_plain(name))
        own = {kind: [0] for kind, numbers in kinds.items() if number in numbers}
        _space(f"--bounds: {part!r}", ends[-1:], own)  # an error names the part so
    dimensions = _parse_names("--bounds", names)
    space = _space("--bounds", ends, kinds)
    return Domain(tuple(names), space, {dimensions[i].name: found for i, found in levels.items()})


def read_choices(path: Path) -> Domain:
    r"""Read a table of choices.

    Args:
        path: A CSV file with a header and no row twice; a column that is not all numbers is a
            category.

    Raises:
        UsageError: If it cannot be read or used; says why.
    """
    table = _read_table(path)
    columns, levels, categorical = [], {}, []
    names = tuple(map(_plain, table.columns))
    dimensions = _parse_names("--choices", names)
    for number, name in enumerate(names):
        column = table.iloc[:, number]
        if column.isna().any():
            row = int(column.isna().to_numpy().argmax()) + 1
            raise UsageError(f"--choices: row {row} of {name!r} is empty.")
        if not pd.api.types.is_numeric_dtype(column) or column.dtype == bool:
            texts = column.astype(str)
            found = sorted(set(texts))
            if len(found) < 2:
                raise UsageError(f"--choices: {name!r} is {found[0]!r} in every row: leave it out.")
            levels[dimensions[number].name] = tuple(found)
            column = texts.map(found.index)
            categorical.append(number)
        values = torch.tensor(column.to_numpy(), dtype=torch.double)
        if not values.isfinite().all():
            row = int(values.isfinite().long().argmin()) + 1
            raise UsageError(f"--choices: row {row} of {name!r} is {float(values[row - 1])}.")
        columns.append(values)
    items = torch.stack(columns, dim=-1)
    _check_differ(items)
    try:
        space = SearchSpace(choices=items, categorical=categorical)
    except BotorchError as error:
        raise UsageError(f"--choices: {error}") from error
    return Domain(names, space, levels)


def _space(where: str, ends: Sequence[tuple[float, float]], kinds: Any) -> SearchSpace:
    try:
        return SearchSpace(torch.tensor(ends, dtype=torch.double).T, **kinds)
    except BotorchError as error:
        raise UsageError(f"{where}: {error}") from error


def _parse_names(option: str, names: Sequence[str]) -> list[Dimension]:
    """The dimensions of names that were not given as ``names``, but in an option."""
    try:
        return parse_names(names)
    except StudyError as error:
        raise UsageError(str(error).replace("`names`", option, 1)) from error


def _check_differ(items: Tensor) -> None:
    """Raises where a row repeats another: a person would be asked which of the two is better."""
    first: dict[tuple[float, ...], int] = {}
    numbered = enumerate(items.tolist(), start=1)
    found = [(row, first.setdefault(tuple(item), row)) for row, item in numbered]
    repeats = [(row, other) for row, other in found if row != other]
    if not repeats:
        return
    (row, other), *others = repeats[:_SHOWN]
    text = ", ".join([f"row {row} repeats row {other}", *(f"row {a} row {b}" for a, b in others)])
    more = f" and {len(repeats) - _SHOWN} more" if len(repeats) > _SHOWN else ""
    raise UsageError(f"--choices: {text}{more}: nobody can tell them apart. Leave repeats out.")


def _read_table(path: Path) -> pd.DataFrame:
    """The table in a file; only what is not there is missing: None and NA may be levels."""
    try:
        text = path.read_text(encoding="utf-8")
        with warnings.catch_warnings():
            warnings.simplefilter("error", ParserWarning)  # as of rows longer than the header
            table = _parsed(text, na_values=[""])
        # As they stand there: of two columns of one name pandas renames the second.
        table.columns = _parsed(text, header=None, nrows=1, dtype=str).iloc[0]
    except UnicodeDecodeError as error:
        raise UsageError(
            f"--choices: {str(path)!r} is not UTF-8 text: save it as UTF-8 (of a spreadsheet: as "
            '"CSV UTF-8").'
        ) from error
    except (OSError, ValueError, ParserWarning) as error:
        raise UsageError(
            f"--choices: {str(path)!r} cannot be read: {_plain(str(error))}"
        ) from error
    if not len(table):
        raise UsageError(f"--choices: {str(path)!r} has no rows below its header.")
    if len(table.columns) == 1 and set(";\t") & set(table.columns[0]):
        raise UsageError(f"--choices: the columns of {str(path)!r} are not separated by commas.")
    if any(not _plain(name) or name.startswith(_UNNAMED) for name in table.columns):
        raise UsageError(
            f"--choices: a column of {str(path)!r} has no name. If it only counts the rows, leave "
            "it out (pandas: to_csv(..., index=False))."
        )
    if pd.to_numeric(pd.Series(table.columns), errors="coerce").notna().all():
        raise UsageError(f"--choices: the first row of {str(path)!r} has no names but numbers.")
    return table


def _parsed(text: str, **options: Any) -> pd.DataFrame:
    return pd.read_csv(
        io.StringIO(text), skipinitialspace=True, index_col=False, keep_default_na=False, **options
    )


def _plain(text: str) -> str:
    return " ".join(text.split())
