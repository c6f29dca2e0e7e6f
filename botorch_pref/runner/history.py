r"""What happened in a simulation.

References:
.. [Lazzaro2026] A. Lazzaro, D. Buffelli, D. Shiu, S. Vakili. A Finite Time Analysis of
    Thompson Sampling for Bayesian Optimization with Preferential Feedback.
    arXiv:2604.25025, 2026.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

# These are there in every history, in this order, behind the items and indices.
_COLUMNS = (
    "kind",
    "identical",
    "answer",
    "first_utility",
    "second_utility",
    "dueling_regret",
    "cumulative_regret",
    "utility_regret",
    "cumulative_utility_regret",
    "recommendation_regret",
    "simple_regret",
    "num_evaluations",
    "num_labels",
    "seconds",
)
_TOTALS = {
    "cumulative_regret": "dueling_regret",
    "cumulative_utility_regret": "utility_regret",
}
_TYPES = {
    "problem": "str",
    "strategy": "str",
    "seed": "int64",
    "step": "int64",
    "kind": "str",
    "identical": "bool",
    "num_evaluations": "Int64",
    "num_labels": "Int64",
    "finished": "boolean",
}


@dataclass(frozen=True)
class History:
    r"""What happened in one simulation.

    Attributes:
        problem: The problem's name.
        strategy: The strategy's name.
        horizon: The number of duels that were planned, or the most steps where evaluations
            are counted; the table is shorter if the simulation was interrupted, or all
            evaluations were made before.
        random_regret: The mean dueling regret of a duel of two items drawn uniformly.
        table: One row a duel, a choice, which may have more than two items, or a label or an
            evaluation, which have a first item alone; then what was recorded besides. Of a
            strategy with a budget there are ``cost``, of all queries so far, and ``finished``,
            true in the last row if it asks no more:

            ========================= ===================================================
            step                      1, 2, ...
            first_index, ...          the items' indices, if the problem has choices
            first_x1, second_x1, ...  the two items; of a choice also item3_x1, ...
            recommended_index         of the item recommended after the duel, likewise
            recommended_x1, ...       that item; missing where it was not asked for
            kind                      ``duel``, ``choice``, ``label`` or ``evaluate``
            identical                 whether an item met itself, and no other
            answer                    1 the first won, 0 the second, 0.5 neither; the
                                      position of a choice's favourite, from 0; the value;
                                      of a label 1 to accept and 0 to reject; or none
            first_utility, ...        the utilities of the items
            dueling_regret            a probability in [0, 1/2]: [Lazzaro2026], Eq. (2); of
                                      an evaluation that of the item paired with itself, of
                                      a choice the mean of those over its items; missing
                                      of a label, which pays no regret
            cumulative_regret         the sum of the dueling regrets so far
            utility_regret            the mean over the items, in units of the utility;
                                      missing of a label
            cumulative_utility_regret the sum of the utility regrets so far
            recommendation_regret     in units of the utility
            simple_regret             the least utility regret of the evaluations so far,
                                      those of an initial design included; missing before
                                      the first
            num_evaluations           of evaluations so far that were answered
            num_labels                of labels so far that were answered
            seconds                   that the strategy took to ask and to be told, less
                                      what the recommendation before had worked out
            ========================= ===================================================
    """

    problem: str
    strategy: str
    horizon: int
    random_regret: float
    table: pd.DataFrame

    @property
    def num_duels(self) -> int:
        """The number of duels that were played, all other kinds included."""
        return len(self.table)

    @property
    def cumulative_regret(self) -> float:
        """The sum of the dueling regrets; 0 before the first duel."""
        return float(self.table["dueling_regret"].sum())

    @property
    def num_identical(self) -> int:
        """The number of duels in which an item met itself."""
        return int(self.table["identical"].sum())

    @property
    def seconds(self) -> float:
        """The time that the strategy took, without the judge's and the bookkeeping's."""
        return float(self.table["seconds"].sum())

    @property
    def recommended(self) -> pd.Series[Any] | None:
        """The row with the latest recommendation, or ``None`` if there is none yet."""
        known = self.table[self.table["recommendation_regret"].notna()]
        return known.iloc[-1] if len(known) else None

    def save(self, path: str | os.PathLike[str]) -> Path:
        r"""Write the table as CSV, all of it or nothing.

        Args:
            path: The file; one that is there is replaced.

        Returns:
            The path.

        Raises:
            OSError: If the file cannot be written.
        """
        with replacing(path) as temporary:
            self.table.to_csv(temporary, index=False)
        return Path(path)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    r"""Write a file under another name, and move it into place when it is complete.

    Args:
        path: The file.

    Yields:
        The temporary path, in the same folder; removed if the block raises.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        yield temporary
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def column_type(name: str) -> str:
    """What pandas calls the type of a column of :class:`History`; indices may be missing."""
    return _TYPES.get(name, "Int64" if name.endswith("_index") else "float64")


def typed(table: pd.DataFrame) -> pd.DataFrame:
    """The table with every column in its own type, whatever rows there are."""
    # A copy, as astype leaves every column in a block of its own.
    return table.astype({name: column_type(str(name)) for name in table}).copy()


def history_table(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """The table of a :class:`History`, of what is known of each query by its columns."""
    columns = {name: None for row in rows for name in row if name not in _COLUMNS}
    table = typed(pd.DataFrame(rows, columns=[*columns, *_COLUMNS]))
    for total, regret in _TOTALS.items():
        table[total] = table[regret].fillna(0.0).cumsum()
    answered = table["answer"].notna()
    measured = answered & table["kind"].eq("evaluate")
    table["simple_regret"] = table["utility_regret"].where(measured).cummin().ffill()
    table["num_evaluations"] = measured.cumsum().astype("Int64")
    table["num_labels"] = (answered & table["kind"].eq("label")).cumsum().astype("Int64")
    return table
