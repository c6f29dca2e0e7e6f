r"""A search space as it is written on a command line, or in a table of choices."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch
from botorch.exceptions.errors import BotorchError
from pandas.errors import ParserWarning

from botorch_pref.cli.parser import UsageError
from botorch_pref.exceptions import StudyError
from botorch_pref.space.search_space import SearchSpace
from botorch_pref.study.dimensions import Dimension, dimensions_of

_UNNAMED = "Unnamed: "  # what pandas calls a column without a name, if it saves it again
_SHOWN = 5  # rows that are named in an error
_KIND = re.compile(r"(?P<number>.*):\s*(?P<kind>int|log)\s*")
_KINDS = {"int": "integer", "log": "log"}
_CATEGORY = re.compile(r"(?P<name>.+):\s*\{(?P<levels>[^{}]*)\}")
_COMMA = re.compile(r",(?![^{}]*\})")  # one that is not in braces


class Domain(NamedTuple):
    """A space and what its dimensions are called."""

    dimensions: tuple[Dimension, ...]
    space: SearchSpace
    files: tuple[str, ...] | None = None  # of the choices, what is shown of each


class _Part(NamedTuple):
    """One dimension of ``--bounds``."""

    dimension: Dimension
    ends: tuple[float, float]
    kinds: set[str]


def parse_bounds(text: str) -> Domain:
    """Read ``"milk (ml):0:80, shots:1:4:int, dose (g):0.01:10:log, roast:{light|dark}"``."""
    parts = [_parse_part(part) for part in map(str.strip, _COMMA.split(text))]
    with _blaming("--bounds"):
        space = _space(parts)
        return Domain(dimensions_of([part.dimension for part in parts], space), space)


def _parse_part(text: str) -> _Part:
    if category := _CATEGORY.fullmatch(text):
        levels = tuple(_plain(level) for level in category["levels"].split("|"))
        if len(levels) < 2 or "" in levels or len(set(levels)) < len(levels):
            raise UsageError(f"--bounds: {text!r} needs two levels or more that differ.")
        name, ends, kinds = category["name"], (0.0, len(levels) - 1.0), {"categorical"}
    else:
        rest, levels, kinds = text, (), set()
        while kind := _KIND.fullmatch(rest):
            rest = kind["number"]
            kinds.add(_KINDS[kind["kind"]])
        try:
            name, lower, upper = rest.rsplit(":", 2)
            ends = (float(lower), float(upper))
        except ValueError:
            raise UsageError(
                f"--bounds: {text!r} is not NAME:LOW:HIGH, as in 'milk (ml):0:80'. A category is "
                "NAME:{A|B}."
            ) from None
        if ends[0] >= ends[1]:
            raise UsageError(f"--bounds: {text!r}: the lower bound must be below the upper.")
    with _blaming("--bounds"):
        part = _Part(Dimension.parse(_plain(name))._replace(levels=levels), ends, kinds)
    with _blaming(f"--bounds: {text!r}"):
        _space([part])
    return part


def _space(parts: list[_Part]) -> SearchSpace:
    kinds: dict[str, Any] = {
        kind: [i for i, part in enumerate(parts) if kind in part.kinds]
        for kind in ("integer", "log", "categorical")
    }
    return SearchSpace(torch.tensor([part.ends for part in parts], dtype=torch.double).T, **kinds)


def read_choices(path: Path, media: Path | None = None) -> Domain:
    """Read a CSV file with a header; a column that is not all numbers is a category.

    With a folder one column names its files, which are shown.
    """
    table, files = read_table(path, "--choices"), None
    if media is not None:
        named = [
            number
            for number in range(len(table.columns))
            if all((media / str(name)).is_file() for name in table.iloc[:, number])
        ]
        if len(named) != 1:
            raise UsageError(
                f"--media: {len(named)} columns of {str(path)!r} name a file of {str(media)!r} in "
                "every row; one must."
            )
        files = tuple(table.iloc[:, named[0]].astype(str))
    columns, dimensions, categorical = [], [], []
    for number, name in enumerate(map(_plain, table.columns)):
        column, levels = table.iloc[:, number], tuple[str, ...]()
        if column.isna().any():
            row = int(column.isna().to_numpy().argmax()) + 1
            raise UsageError(f"--choices: row {row} of {name!r} is empty.")
        if not pd.api.types.is_numeric_dtype(column) or column.dtype == bool:
            texts = column.astype(str)
            levels = tuple(sorted(set(texts)))
            if len(levels) < 2:
                raise UsageError(
                    f"--choices: {name!r} is {levels[0]!r} in every row: leave it out."
                )
            column = texts.map(levels.index)
            categorical.append(number)
        values = torch.tensor(column.to_numpy(), dtype=torch.double)
        if not values.isfinite().all():
            row = int(values.isfinite().long().argmin()) + 1
            raise UsageError(f"--choices: row {row} of {name!r} is {float(values[row - 1])}.")
        columns.append(values)
        with _blaming("--choices"):
            dimensions.append(Dimension.parse(name)._replace(levels=levels))
    items = torch.stack(columns, dim=-1)
    repeats = pd.DataFrame(items.numpy()).duplicated().to_numpy().nonzero()[0] + 1
    if len(repeats):  # there is no better one of two equal items
        rows = ", ".join(map(str, repeats[:_SHOWN]))
        more = f" and {len(repeats) - _SHOWN} more" if len(repeats) > _SHOWN else ""
        raise UsageError(f"--choices: rows repeat earlier ones: {rows}{more}. Leave repeats out.")
    with _blaming("--choices"):
        space = SearchSpace(choices=items, categorical=categorical)
        return Domain(dimensions_of(dimensions, space), space, files)


@contextmanager
def _blaming(option: str) -> Iterator[None]:
    """Name the option in errors of the arguments that it becomes."""
    try:
        yield
    except StudyError as error:
        raise UsageError(str(error).replace("`names`", option, 1)) from error
    except BotorchError as error:
        raise UsageError(f"{option}: {error}") from error


def read_table(path: Path, argument: str, **options: Any) -> pd.DataFrame:
    """The table in a CSV file; only empty cells are missing values, not None or NA.

    Args:
        path: The file.
        argument: What errors call it by.
        **options: Those of pandas.
    """
    try:
        text = path.read_text(encoding="utf-8")
        with warnings.catch_warnings():
            warnings.simplefilter("error", ParserWarning)  # of rows longer than the header
            table = _parsed(text, na_values=[""], **options)
        # The names as in the file: of two columns of one name pandas renames the second.
        table.columns = _parsed(text, header=None, nrows=1, dtype=str).iloc[0]
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{argument}: {str(path)!r} is not UTF-8 text: save it as UTF-8 (of a spreadsheet: as "
            '"CSV UTF-8").'
        ) from error
    except (OSError, ValueError, ParserWarning) as error:
        raise UsageError(
            f"{argument}: {str(path)!r} cannot be read: {_plain(str(error))}"
        ) from error
    if not len(table):
        raise UsageError(f"{argument}: {str(path)!r} has no rows below its header.")
    if len(table.columns) == 1 and set(";\t") & set(table.columns[0]):
        raise UsageError(f"{argument}: the columns of {str(path)!r} are not separated by commas.")
    if any(not _plain(name) or name.startswith(_UNNAMED) for name in table.columns):
        raise UsageError(
            f"{argument}: a column of {str(path)!r} has no name. If it only counts the rows, leave "
            "it out (pandas: to_csv(..., index=False))."
        )
    if pd.to_numeric(pd.Series(table.columns), errors="coerce").notna().all():
        raise UsageError(f"{argument}: the first row of {str(path)!r} has no names but numbers.")
    return table


def _parsed(text: str, **options: Any) -> pd.DataFrame:
    return pd.read_csv(
        io.StringIO(text), skipinitialspace=True, index_col=False, keep_default_na=False, **options
    )


def _plain(text: str) -> str:
    return " ".join(text.split())
