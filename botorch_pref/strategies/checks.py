r"""What is read from a stored state, checked; every error names the row or the key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from botorch_pref.data.checks import check_count
from botorch_pref.exceptions import ComparisonDataError, SearchSpaceError
from botorch_pref.queries import Query
from botorch_pref.space import SearchSpace

_COUNTS = {"round", "num_fitted", "num_deadlocks", "streak"}


@contextmanager
def reading(part: str) -> Iterator[None]:
    """Errors of the block say of which part of a state they are, whatever they were."""
    try:
        yield
    except (ComparisonDataError, SearchSpaceError) as error:
        raise ComparisonDataError(f"`state` {part}: {error}") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ComparisonDataError(f"`state` {part} cannot be read: {error!r}.") from error


def check_counts(progress: Mapping[str, Any]) -> None:
    """Checks what strategies count.

    Raises:
        ComparisonDataError: If a count is none; names it.
    """
    for name in _COUNTS & progress.keys():
        check_count(name, progress[name], 0)


def checked_list(name: str, rows: object) -> list[Any]:
    """An entry of a state that has rows."""
    if not isinstance(rows, list):
        raise ComparisonDataError(f"`state` {name} must be a list, not {rows!r}.")
    return rows


def check_query(query: Query, kinds: tuple[type[Query], ...], space: SearchSpace) -> None:
    """Raises unless a stored query is of one of these kinds, and of this space."""
    if not isinstance(query, kinds):
        known = " or ".join(f"a {kind.kind}" for kind in kinds)
        raise ComparisonDataError(f"Query {query.id} is a {query.kind}, not {known}.")
    if (dim := query.items.shape[-1]) != space.dim:
        raise ComparisonDataError(
            f"Query {query.id} has items of {dim} dimensions, but the space {space.dim}."
        )
    rows = query.row_indices
    if space.choices is not None and rows is not None and max(rows) >= len(space.choices):
        raise ComparisonDataError(
            f"Query {query.id} is of rows {rows}, but there are {len(space.choices)} choices."
        )


def checked_next_id(next_id: object, known: Iterable[int]) -> int:
    """The number of the next query, above all others."""
    least = max(known, default=-1) + 1
    if not isinstance(next_id, int) or isinstance(next_id, bool) or next_id < least:
        raise ComparisonDataError(
            f"`state` next_id must be a whole number, at least {least}, not {next_id!r}."
        )
    return next_id
