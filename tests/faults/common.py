"""What the campaigns share: a time limit, and a table of trials and failures."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Hang(BaseException):
    """It took too long; no ``Exception``, so that nothing on the way takes it for its own."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raises :class:`Hang` in the block after so many seconds."""

    def stop(*_: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


class Campaign:
    """Counts how trials ended, by a subject, and keeps those that ended wrongly."""

    def __init__(self) -> None:
        self.endings: Counter[tuple[str, str]] = Counter()
        self.failures: list[str] = []

    def run(self, subject: str, what: Any, trial: Callable[[], str], seconds: float = 20.0) -> None:
        """One trial, which returns how it ended; whatever it raises is a failure."""
        try:
            with within(seconds):
                ending = trial()
        except (Exception, Hang) as error:
            ending = "failed"
            self.failures.append(f"{subject}: {what}: {type(error).__name__}: {str(error)[:300]}")
        self.endings[subject, ending] += 1

    def add(self, other: Campaign) -> None:
        """Count the trials of another campaign as well."""
        self.endings += other.endings
        self.failures += other.failures

    def table(self) -> str:
        """How many trials of each subject ended in each way."""
        kinds = sorted({ending for _, ending in self.endings})
        rows: dict[str, list[int]] = {
            subject: [self.endings[subject, kind] for kind in kinds]
            for subject in sorted({subject for subject, _ in self.endings})
        }
        rows["all"] = [sum(column) for column in zip(*rows.values(), strict=True)]
        width = max(map(len, rows))
        lines = [" ".join([" " * width, *(f"{kind:>10}" for kind in kinds)])]
        for subject, counts in rows.items():
            lines.append(" ".join([f"{subject:<{width}}", *(f"{one:>10}" for one in counts)]))
        return "\n".join(lines)

    def check(self) -> None:
        """Print the table, and fail if a trial did."""
        print("\n" + self.table())
        assert not self.failures, "\n".join(self.failures)
