r"""Progress of what takes long: a bar where a person sees it, log messages elsewhere.

A bar is drawn on standard error if that is a terminal or a notebook. Elsewhere, as on a cluster,
its state is logged every half minute by BoTorch's logger at level INFO, which is not shown unless
it is asked for::

    with botorch.settings.log_level(logging.INFO):
        table = run_experiment(...)

A fit of one model is BoTorch's own loop, which calls
``fit_gpytorch_mll(mll, optimizer_kwargs={"callback": callback})`` after each of its steps.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from multiprocessing import current_process
from threading import Timer
from typing import Any, TypeVar

from tqdm import tqdm

__all__ = ["notice", "progress_bar", "quiet", "tracked"]

T = TypeVar("T")

# BoTorch's own, by its name: this module is imported before help is printed, BoTorch takes long.
_LOGGER = logging.getLogger("botorch")
_LOG_INTERVAL = 30.0  # seconds
_is_quiet = False  # of all threads


@contextmanager
def quiet(is_quiet: bool = True) -> Iterator[None]:
    """Show and log no progress while the block runs."""
    global _is_quiet
    before = _is_quiet
    _is_quiet = is_quiet or before
    try:
        yield
    finally:
        _is_quiet = before


@contextmanager
def progress_bar(
    text: str,
    total: int | None = None,
    *,
    unit: str = "it",
    initial: int = 0,
    show: bool = True,
    delay: float = 0.0,
) -> Iterator[tqdm[Any]]:
    r"""A bar, of which the block calls ``update()`` after each step.

    Args:
        text: What stands before the bar.
        total: The number of steps.
        unit: What a step is called.
        initial: How many steps are done already.
        show: Whether there is to be a bar.
        delay: Seconds after which it appears, if the block still runs; it vanishes at the end. By
            default it is there at once, and stays.
    """
    is_seen = _is_seen()
    if _is_quiet or not show or not (is_seen or _LOGGER.isEnabledFor(logging.INFO)):
        yield tqdm(disable=True)
        return
    with tqdm(
        desc=text,
        total=total,
        unit=unit,
        initial=initial,
        delay=delay,
        leave=not is_seen or not delay,
        file=sys.stderr if is_seen else _Log(),
        mininterval=0.1 if is_seen else _LOG_INTERVAL,
        maxinterval=_LOG_INTERVAL,
    ) as bar:
        # A bar is drawn when it is updated; a first step may take longer than the delay.
        timer = Timer(delay, _appear, [bar])
        timer.daemon = True
        if delay:
            timer.start()
        try:
            yield bar
        finally:
            timer.cancel()


def tracked(
    steps: Iterable[T], text: str, total: int | None = None, *, unit: str = "it", **options: Any
) -> Iterator[T]:
    """What is iterated over, with a :func:`progress_bar`."""
    with progress_bar(text, total, unit=unit, **options) as bar:
        for step in steps:
            yield step
            bar.update()


@contextmanager
def notice(text: str) -> Iterator[None]:
    """A line on a terminal while the block runs; nothing where standard error is no terminal."""
    is_seen = not _is_quiet and sys.stderr is not None and sys.stderr.isatty()
    if is_seen:
        print(text, end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if is_seen:
            print(f"\r{' ' * len(text)}\r", end="", file=sys.stderr, flush=True)


def _is_seen() -> bool:
    """Whether a person sees what is written on standard error now.

    One process has bars: those of its workers would write over each other.
    """
    if sys.stderr is None or current_process().name != "MainProcess":  # None in the background
        return False
    return sys.stderr.isatty() or type(sys.stderr).__module__.startswith("ipykernel")


def _appear(bar: tqdm[Any]) -> None:
    bar.delay = 0.0
    bar.refresh()


class _Log:
    """A file whose lines are log messages."""

    def write(self, text: str) -> None:
        if line := text.strip():
            _LOGGER.info(line)

    def flush(self) -> None:
        """Nothing is kept back."""
