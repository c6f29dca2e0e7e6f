r"""Several sides of a case timed in one process, in turns."""

from __future__ import annotations

import math
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import torch

from botorch_pref.progress import progress_bar
from botorch_pref.randomness import seeded
from botorch_pref.runner import num_threads, replacing

LIMIT = 60.0
MAX_GIGABYTES = 8.0
_ENOUGH = 30.0  # seconds in all, after which a side is not repeated
_ON_CPU = "on the CPU, which is all that it knows"

Run = Callable[[], object]
Prepare = Callable[[], Run]


@dataclass(frozen=True)
class Side:
    r"""What does a case's work.

    Attributes:
        package: Its name.
        prepare: Sets it up, and returns what is timed.
        repeats: How often it is timed at most; half a minute in all is enough.
        needs: Packages without which it is left out.
        extra: This package's extra that brings them.
        gigabytes: What memory it would take, where that is much.
        knows_devices: Whether it computes on the device; if not, it is timed on the CPU.
    """

    package: str
    prepare: Prepare
    repeats: int = 3
    needs: tuple[str, ...] = ()
    extra: str = "bench"
    gigabytes: float = 0.0
    knows_devices: bool = True

    @property
    def obstacle(self) -> str:
        """Why it is not timed at any size; empty if it is."""
        if absent := [name for name in self.needs if find_spec(name) is None]:
            return f"needs {', '.join(absent)}, which botorch-pref[{self.extra}] brings"
        if self.gigabytes > MAX_GIGABYTES:
            return f"would take about {self.gigabytes:.0f} GB"
        return ""


@dataclass(frozen=True)
class Case:
    r"""One piece of work.

    Attributes:
        section: The part of the table.
        operation: What is timed.
        data: On what data; ``{m}`` stands for the size.
        size: The number of duels; ``None`` for a case that is no point of a curve.
        ours: This package's side.
        others: What it is compared with.
        remark: Called with what the sides returned last, ``None`` of one that was not timed; not
            at all where this package's was not.
    """

    section: str
    operation: str
    data: str
    size: int | None
    ours: Side
    others: tuple[Side, ...] = ()
    remark: Callable[[Sequence[object]], str] | None = None

    @property
    def name(self) -> str:
        """What is timed, on what."""
        return f"{self.data.format(m=_grouped(self.size))}: {self.operation}"


@dataclass
class _Timed:
    """What was measured of a side."""

    side: Side
    obstacle: str
    by_cpu: bool
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    result: object = None

    @property
    def spent(self) -> list[float]:
        return self.cpu if self.by_cpu else self.wall

    @property
    def seconds(self) -> float:
        return statistics.median(self.spent) if self.spent else math.nan

    def goes_on(self, enough: float) -> bool:
        few = len(self.spent) < self.side.repeats and sum(self.spent) < enough
        return (few or not self.spent) and not self.obstacle

    def once(self, synchronise: Callable[[], object]) -> None:
        self.result = None  # its memory is free for what comes
        with seeded(0):  # PairwiseGP draws where its solver starts
            run = self.side.prepare()
            synchronise()
            cpu, wall = time.process_time(), time.perf_counter()
            self.result = run()
            synchronise()
            self.cpu.append(time.process_time() - cpu)
            self.wall.append(time.perf_counter() - wall)


class Stopwatch:
    r"""Times cases one after another, and remembers which sides have become too slow.

    A side that took longer than the limit is not timed at larger sizes of the same operation
    on data of the same kind. One that is part of several cases is timed in the first.

    Attributes:
        synchronise: Waits for the device.

    Args:
        device: ``"cpu"`` or ``"cuda"``.
        threads: The number of threads of torch.
        limit: The limit in seconds.
        enough: After how many seconds in all a side is not repeated.
    """

    def __init__(self, device: str, threads: int, limit: float, enough: float) -> None:
        self.limit, self.enough, self.device = limit, enough, device
        # CPU time is not disturbed by other programs, but adds up over threads.
        self._by_cpu = device == "cpu" and threads == 1
        self.synchronise = _nothing if device == "cpu" else torch.cuda.synchronize
        self._known: dict[Side, _Timed] = {}
        self._slow: dict[tuple[str, str, str], str] = {}

    def rows(self, case: Case) -> list[dict[str, object]]:
        """A row a side, for the table of :func:`time_cases`."""
        sides = (case.ours, *case.others)
        timed = [self._known.get(side) or self._timed(case, side) for side in sides]
        # In turns, as memory that one has touched is faster for the next.
        while going_on := [one for one in timed if one.goes_on(self.enough)]:
            for one in going_on:
                self._once(one, ours=one is timed[0])
        remark = ""
        if case.remark and timed[0].spent:
            remark = case.remark([one.result for one in timed])
        rows = []
        for one in timed:
            one.result = None
            self._known[one.side] = one
            if one.seconds > self.limit:
                took = f"took {one.seconds:.0f} s at m = {case.size}"
                self._slow.setdefault(_line(case, one.side), took)
            note = remark if one is timed[0] else self._place(one.side)
            rows.append(_row(case, one, timed[0].seconds, note))
        return rows

    def _place(self, side: Side) -> str:
        return "" if side.knows_devices or self.device == "cpu" else _ON_CPU

    def _timed(self, case: Case, side: Side) -> _Timed:
        if self.device != "cpu":  # its memory is this side's alone
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        obstacle = side.obstacle or self._slow.get(_line(case, side), "")
        return _Timed(side, obstacle, self._by_cpu)

    def _once(self, one: _Timed, ours: bool) -> None:
        try:
            one.once(self.synchronise)
        except Exception as error:
            # What others cannot do is a finding, as is what does not fit into the memory, and no
            # reason to lose the rest of the table.
            if ours and not isinstance(error, (torch.OutOfMemoryError, MemoryError)):
                raise
            one.obstacle = f"{type(error).__name__}: {' '.join(str(error).split())[:80]}"
            one.cpu, one.wall = [], []


def time_cases(
    cases: Sequence[Case],
    device: str = "cpu",
    threads: int = 1,
    progress: bool = True,
    limit: float = LIMIT,
    once: bool = False,
    path: Path | None = None,
) -> pd.DataFrame:
    """Time cases, one after the other.

    Raises:
        OSError: If the file cannot be written.
    """
    stopwatch = Stopwatch(device, threads, limit, 0.0 if once else _ENOUGH)
    rows: list[dict[str, object]] = []
    bar = progress_bar("speed", len(cases), unit="case", show=progress)
    with num_threads(threads), warnings.catch_warnings(), bar as shown:
        if device != "cpu":
            warm_up(torch.device(device))
            stopwatch.synchronise()
        # PairwiseGP tells of its jitter, Clarabel where it is not sure of its last digits.
        warnings.simplefilter("ignore")
        for case in cases:
            shown.set_postfix_str(case.name)
            rows += stopwatch.rows(case)
            shown.update()
            if path is not None:
                write_table(pd.DataFrame(rows), path)
    return pd.DataFrame(rows)


def warm_up(device: torch.device) -> None:
    """Start what a device starts when it is first used, which is no part of any case."""
    matrix = torch.eye(8, dtype=torch.double, device=device).expand(2, 8, 8)
    for some in (matrix, matrix[0]):  # batches have other routines
        root = torch.linalg.cholesky_ex(some @ some.mT).L
        torch.linalg.solve_triangular(root, some, upper=False)
        torch.linalg.eigh(some)


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write the table as a CSV file, whole or not at all.

    Raises:
        OSError: If it cannot be written.
    """
    with replacing(path) as temporary:
        table.to_csv(temporary, index=False, float_format="%.6g")


def _row(case: Case, one: _Timed, ours: float, note: str) -> dict[str, object]:
    return {
        "section": case.section,
        "case": case.name,
        "operation": case.operation,
        "data": case.data,
        "size": math.nan if case.size is None else case.size,
        "ours": case.ours.package,
        "package": one.side.package,
        "seconds": one.seconds,
        "cpu": statistics.median(one.cpu) if one.cpu else math.nan,
        "wall": statistics.median(one.wall) if one.wall else math.nan,
        "longest": max(one.wall, default=math.nan),
        "repeats": len(one.wall),
        "ratio": one.seconds / ours,
        "note": f"not timed: {one.obstacle}" if one.obstacle else note,
    }


def _line(case: Case, side: Side) -> tuple[str, str, str]:
    """The curve that a side's time is a point of."""
    return case.operation, case.data, side.package


def _grouped(size: int | None) -> str:
    return "" if size is None else f"{size:,}"


def _nothing() -> None:
    """What a CPU need not be waited for."""
