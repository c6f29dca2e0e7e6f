r"""The history of a study as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from botorch_pref.queries import Query
from botorch_pref.strategies.base import Answered
from botorch_pref.study.dimensions import Dimension, item_values

_SLOTS = ("first", "second")


def history_table(
    history: Sequence[Answered], told: Sequence[str], dimensions: Sequence[Dimension]
) -> pd.DataFrame:
    r"""One row an answer.

    Args:
        history: The queries and their answers.
        told: When each was told, ISO 8601.
        dimensions: Whose names the columns of the items have.

    Returns:
        The table that :attr:`~botorch_pref.study.Study.history` describes.
    """
    rows, items, indices = [], dict[str, None](), dict[str, str]()
    for step, (query, answer) in enumerate(history, start=1):
        shown, numbers = _items(query, dimensions)
        rows.append({"step": step, "kind": query.kind, **shown, "answer": answer})
        items |= dict.fromkeys(shown)
        indices |= dict.fromkeys(numbers, "Int64")
    table = pd.DataFrame(rows, columns=["step", "kind", *items, "answer"])
    table = table.astype({"step": "int64", "kind": "str", "answer": "float64", **indices})
    annotators = [query.annotator for query, _ in history]
    table["annotator"] = pd.Series(annotators, dtype="object")
    table["told"] = pd.to_datetime(pd.Series([*told], dtype="str"), format="ISO8601", utc=True)
    return table


def _items(query: Query, dimensions: Sequence[Dimension]) -> tuple[dict[str, Any], list[str]]:
    """The columns of a query's items, their names alone where there is one; which are indices."""
    if query.items.dim() == 1:
        slots, rows, indices = [""], [query.items], [query.indices]
    else:
        rows = [*query.items]
        slots = [f"{slot}_" for slot in _SLOTS]
        slots += [f"item{number}_" for number in range(3, len(rows) + 1)]
        indices = query.indices or [None] * len(rows)
    columns: dict[str, Any] = {}
    numbers = [f"{slot}index" for slot in slots] if query.indices is not None else []
    for slot, row, index in zip(slots, rows, indices, strict=True):
        columns |= {} if index is None else {f"{slot}index": index}
        values = item_values(row, dimensions)
        columns |= {slot + name: value for name, value in values.items()}
    return columns, numbers
