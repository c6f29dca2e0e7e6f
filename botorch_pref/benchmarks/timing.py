r"""Two sides of a case timed in one process, in turns.

Seconds are CPU seconds of this process on one thread, else seconds on the clock (the device
waited for), and medians over repeats.
"""

from __future__ import annotations

import math
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import pandas as pd
import torch
from tqdm import tqdm

from botorch_pref.randomness import seeded
from botorch_pref.runner.threads import num_threads

Run = Callable[[], object]


@dataclass(frozen=True)
class Case:
    r"""One row of the table.

    Attributes:
        name: What is timed.
        other: What it is compared with.
        prepare_ours: Sets up this package's side and returns what is timed.
        prepare_other: Sets up the other side likewise.
        repeats: How often this package's side and the other are timed.
        needs: Packages without which the case is left out.
    """

    name: str
    other: str
    prepare_ours: Callable[[], Run]
    prepare_other: Callable[[], Run]
    repeats: tuple[int, int]
    needs: tuple[str, ...] = ()

    @property
    def missing(self) -> str:
        """The packages that are not installed, comma-separated."""
        return ", ".join(name for name in self.needs if find_spec(name) is None)


def speed_text(table: pd.DataFrame) -> str:
    r"""The table as text.

    Args:
        table: What :func:`time_cases` returns.

    Returns:
        Several lines, without a final newline; below the table, what was left out.
    """
    left_out = table["missing"] != ""
    shown = table[~left_out].drop(columns="missing")
    shown = shown.rename(
        columns={"ours_seconds": "ours [s]", "other_seconds": "other [s]", "other": "against"}
    )
    text = shown.to_string(
        index=False,
        formatters={
            "ours [s]": "{:.4f}".format,
            "other [s]": "{:.4f}".format,
            "ratio": "{:.1f}x".format,
        },
    )
    notes = [
        f"left out: {row.case} against {row.other}; not installed: {row.missing}, which "
        "botorch-pref[bench] brings"
        for row in table[left_out].itertuples()
    ]
    return "\n".join([text, *notes])


def time_cases(
    cases: Sequence[Case], device: str = "cpu", threads: int = 1, progress: bool = True
) -> pd.DataFrame:
    r"""Time cases, one after the other.

    Args:
        cases: The cases.
        device: ``"cpu"`` or ``"cuda"``.
        threads: The number of threads of torch.
        progress: Whether to show a progress bar on the standard error stream.

    Returns:
        A row a case: ``case``, ``other``, ``ours_seconds``, ``other_seconds``, ``ratio``, how
        many times faster this package is, and ``missing``, the packages for want of which
        it was left out; its numbers are missing then.
    """
    clock = _clock(device, threads)
    rows = []
    bar = tqdm(cases, "speed", disable=not progress)
    with num_threads(threads), warnings.catch_warnings():
        # PairwiseGP tells of its jitter, Clarabel where it is not sure of its last digits.
        warnings.simplefilter("ignore")
        for case in bar:
            bar.set_postfix_str(case.name)
            missing = case.missing
            ours, other = (math.nan, math.nan) if missing else _seconds(case, clock)
            rows.append(
                {
                    "case": case.name,
                    "other": case.other,
                    "ours_seconds": ours,
                    "other_seconds": other,
                    "ratio": other / ours,
                    "missing": missing,
                }
            )
    return pd.DataFrame(rows)


def _seconds(case: Case, clock: Callable[[], float]) -> tuple[float, float]:
    """The medians of both sides, in turns: memory that one has touched is faster for the next."""
    sides = (case.prepare_ours, case.prepare_other)
    seconds: tuple[list[float], list[float]] = ([], [])
    for turn in range(max(case.repeats)):
        for side, (prepare, repeats) in enumerate(zip(sides, case.repeats, strict=True)):
            if turn >= repeats:
                continue
            with seeded(0):  # PairwiseGP draws where its solver starts
                run = prepare()
                start = clock()
                run()
                seconds[side].append(clock() - start)
    return statistics.median(seconds[0]), statistics.median(seconds[1])


def _clock(device: str, threads: int) -> Callable[[], float]:
    if device == "cpu":
        # CPU time is not disturbed by other programs, but adds up over threads.
        return time.process_time if threads == 1 else time.perf_counter

    def synchronized() -> float:
        torch.cuda.synchronize()
        return time.perf_counter()

    return synchronized
