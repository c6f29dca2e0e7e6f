r"""How fast this package is to be, and whether it was."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pandas as pd

from experiments.speed.pairwise import (
    BATCH_SIZE,
    EVIDENCE,
    FIT,
    NUM_CHOLESKYS,
    POSTERIOR,
)


class Aim(NamedTuple):
    r"""A bound on what is measured of some cases.

    Attributes:
        case: A pattern of their names.
        package: Of which row: another's, or this package's own.
        column: Which number of it.
        bound: The bound.
        is_least: Whether the number is to be at least the bound, not at most.
    """

    case: str
    package: str
    column: str
    bound: float
    is_least: bool = True


_FRESH, _CHOLESKYS = r" fresh duels, d=6: ", f"{NUM_CHOLESKYS} Choleskys and the kernel"
_BATCHES = f"{BATCH_SIZE} models of "
AIMS = (
    Aim(f"^400{_FRESH}{FIT}$", "PairwiseGP", "ratio", 30.0),
    Aim(f"^50 items, 25,600 duels: {FIT}$", "PairwiseGP", "ratio", 10.0),
    Aim(f"^400{_FRESH}{POSTERIOR}$", "PairwiseGP", "ratio", 100.0),
    Aim(f": {EVIDENCE}$", _CHOLESKYS, "ratio", 1.0),
    Aim(f"^{_BATCHES}25 ", "one of them", "ratio", 1 / 3),
    Aim(f"^{_BATCHES}", f"loop of {BATCH_SIZE}", "ratio", 1.0),
    Aim("^1,000,000 .*: mode and posterior", "PreferenceGP", "seconds", 120.0, False),
    Aim("^1,000,000 .*: mode and posterior", "PreferenceGP", "gigabytes", 8.0, False),
    Aim(r"\(tell, ask\)$", "", "longest", 1.0, False),
    Aim("^30 items, .* bounds", "CVXPY", "ratio", 10.0),
    Aim("^100 items, .* bounds", "CVXPY", "ratio", 3.0),
)
SLOPE = 1.1  # of what goes through inducing items


class Reached(NamedTuple):
    """An aim, and what was measured."""

    name: str
    value: float
    bound: float
    is_least: bool

    @property
    def met(self) -> bool:
        """Whether it was reached."""
        return self.value >= self.bound if self.is_least else self.value <= self.bound

    def __str__(self) -> str:
        word = "at least" if self.is_least else "at most"
        return f"{'met' if self.met else 'MISSED':<6}  {self.value:>7.3g}  {word} {self.bound:.3g}"


def reached(table: pd.DataFrame, slopes: Sequence[tuple[str, float]]) -> list[Reached]:
    r"""What came of the aims, as far as they were measured.

    Args:
        table: What :func:`~experiments.speed.timing.time_cases` returns.
        slopes: Names and slopes of this package's curves.

    Returns:
        The aims in the order of :data:`AIMS`, those of slopes last.
    """
    memory = table["note"].fillna("").str.extract(r"peak memory ([\d.]+) GB", expand=False)
    rows = table.assign(gigabytes=memory.astype(float))
    found = [one for aim in AIMS for one in _of_rows(aim, rows)]
    linear = [(name, slope) for name, slope in slopes if "inducing items" in name]
    return found + [Reached(f"slope of {name}", slope, SLOPE, False) for name, slope in linear]


def _of_rows(aim: Aim, rows: pd.DataFrame) -> Iterator[Reached]:
    for _, row in rows.iterrows():
        package = aim.package or row["ours"]
        if row["package"].startswith(package) and re.search(aim.case, row["case"]):
            value = float(row[aim.column])
            if value == value:
                against = f", against {row['package']}" if aim.column == "ratio" else ""
                by = {"ratio": "times as fast", "gigabytes": "GB"}.get(aim.column, "s")
                name = f"{by}: {row['case']}{against}" + ("" if aim.package else f", {row['ours']}")
                yield Reached(name, value, aim.bound, aim.is_least)
