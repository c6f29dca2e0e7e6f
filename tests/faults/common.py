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

    def check(self) -> None:
        """Print the table, and fail if a trial did."""
        kinds = sorted({ending for _, ending in self.endings})
        width = max(len(subject) for subject, _ in self.endings)
        print("\n" + " ".join([f"{'':<{width}}", *(f"{kind:>10}" for kind in kinds)]))
        for subject in sorted({subject for subject, _ in self.endings}):
            counts = [f"{self.endings[subject, kind]:>10}" for kind in kinds]
            print(" ".join([f"{subject:<{width}}", *counts]))
        total = [sum(n for (_, k), n in self.endings.items() if k == kind) for kind in kinds]
        print(" ".join([f"{'all':<{width}}", *(f"{number:>10}" for number in total)]))
        assert not self.failures, "\n".join(self.failures)
