r"""Answers, and what is read from a stored state, checked; every error names the row or the key."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from botorch_pref.data.options import check_count
from botorch_pref.exceptions import ComparisonDataError, SearchSpaceError
from botorch_pref.queries import Choice, Duel, Label, Query
from botorch_pref.space import SearchSpace

_COUNTS = {"round", "num_fitted", "num_deadlocks", "streak"}
_DUEL_ANSWERS = "1 (the first wins), 0 (the second), 0.5 (no preference)"


def checked_answer(query: Query, answer: object) -> float | None:
    """The answer to a query as a number, or None."""
    if answer is None:
        return None
    try:
        # A tensor or a NumPy number of one element is as good as a Python one.
        value = math.nan if isinstance(answer, str) else float(answer)  # type: ignore[arg-type]
    except (OverflowError, TypeError, ValueError, RuntimeError):
        value = math.nan
    if isinstance(query, Duel):
        known, meaning = value in (0.0, 0.5, 1.0), _DUEL_ANSWERS
    elif isinstance(query, Choice):
        last = len(query.items) - 1
        known = value.is_integer() and 0 <= value <= last
        meaning = f"the position of the favourite, a whole number from 0 to {last},"
    elif isinstance(query, Label):
        known, meaning = value in (0.0, 1.0), "1 (accept), 0 (reject)"
    else:
        known, meaning = math.isfinite(value), "a finite number"
    if not known:
        raise ComparisonDataError(
            f"`answer` to query {query.id} is {answer!r}: an answer is {meaning} or None (skip)."
        )
    return value


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
    if space.choices is not None and query.indices is not None:
        rows = query.indices if isinstance(query.indices, tuple) else (query.indices,)
        if max(rows) >= len(space.choices):
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
