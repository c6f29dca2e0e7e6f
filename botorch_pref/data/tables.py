r"""Duels as rows of a table, whose items and annotators have names."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from botorch_pref.data.checks import ITSELF, UNKNOWN_ANNOTATOR
from botorch_pref.data.comparisons import Comparisons
from botorch_pref.exceptions import ComparisonDataError

_WON, _ASKED = ["winner", "loser"], ["first", "second", "answer"]
_ANNOTATOR = "annotator"


class NamedDuels(NamedTuple):
    """Duels, and the names of what they number.

    Attributes:
        items: The names of the items, in order of appearance.
        annotators: Those of the annotators; empty without such a column.
        data: The duels; the one column of its datapoints numbers the items.
        has_order: Whether the first of two items is the one that was shown first.
    """

    items: list[str]
    annotators: list[str]
    data: Comparisons
    has_order: bool


def named_duels(duels: pd.DataFrame) -> NamedDuels:
    """Read a table of duels.

    Args:
        duels: A row for each answer. The columns are ``winner`` and ``loser``, or ``first``,
            ``second`` and ``answer`` (1 the first is better, 0 the second, 0.5 neither), and
            ``annotator`` if it is known who answered, which may be empty. Others are not read.

    Raises:
        ComparisonDataError: If columns are missing, there is no row, or a row is not a duel of two
            items; names the row, from 1.
    """
    columns = {*duels.columns}
    has_order = {*_ASKED} <= columns
    if not has_order and not {*_WON} <= columns:
        raise ComparisonDataError(
            f"`duels` needs the columns {', '.join(_WON)} or {', '.join(_ASKED)}; it has "
            f"{', '.join(map(str, duels.columns))}."
        )
    if {*_WON} & columns and {*_ASKED[:2]} & columns:
        raise ComparisonDataError("`duels` has columns of both forms: leave out one of them.")
    if not len(duels):
        raise ComparisonDataError("`duels` has no rows.")
    names = [_names(duels, column) for column in (_ASKED[:2] if has_order else _WON)]
    for column in names:
        _refuse(column, column == "", "there is no name")
    _refuse(names[0], names[0] == names[1], ITSELF)
    answers = pd.Series(1.0, index=names[0].index)
    if has_order:
        given = duels["answer"].reset_index(drop=True)
        answers = pd.to_numeric(given, errors="coerce")
        reason = "an answer is 1 (the first is better), 0 (the second) or 0.5 (neither)"
        _refuse(given, ~answers.isin([0.0, 0.5, 1.0]), reason)
    both = np.stack([*names], axis=1)
    codes, items = pd.factorize(both.flatten())
    pairs = torch.from_numpy(codes).long().reshape(-1, 2)
    datapoints = torch.arange(len(items), dtype=torch.double).unsqueeze(-1)
    annotator, people = _annotators(duels) if _ANNOTATOR in columns else (None, [])
    wins = torch.tensor(answers.to_numpy(dtype=float))
    data = Comparisons(datapoints, pairs, wins, torch.ones_like(wins), annotator)
    return NamedDuels([*items], people, data, has_order)


def _names(duels: pd.DataFrame, column: str) -> pd.Series[str]:
    """The texts of a column, from row 0; empty where there is none."""
    given = duels[column].reset_index(drop=True)
    return given.astype(str).str.strip().where(given.notna(), "").rename(column)


def _annotators(duels: pd.DataFrame) -> tuple[Tensor, list[str]]:
    who = _names(duels, _ANNOTATOR)
    codes, people = pd.factorize(who.where(who != "", None))  # -1 where there is none
    assert UNKNOWN_ANNOTATOR == -1
    return torch.from_numpy(codes).long(), [*people]


def _refuse(column: pd.Series, bad: pd.Series[bool], reason: str) -> None:
    if bad.any():
        row = int(bad.to_numpy().argmax())
        raise ComparisonDataError(
            f"`duels` row {row + 1}: `{column.name}` is {str(column[row])!r}: {reason}."
        )
