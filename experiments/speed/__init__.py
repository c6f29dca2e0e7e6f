r"""``python -m experiments speed``: this package beside others, all in one process.

Sections, in the order in which they are timed:

* ``million``: very many duels through inducing items, of this package alone, with the memory;
* ``models``: :class:`~botorch_pref.models.PreferenceGP` beside BoTorch's ``PairwiseGP``, at 400
  duels of new items and 25,600 of 50 items;
* ``scaling``: the same over the number of duels, with Optuna's preferential sampler and a
  variational classifier of GPyTorch;
* ``batches``: 16 models at once beside a loop over them;
* ``ask``: a suggestion of every strategy after 100 answers;
* ``likelihood-ratio``: bounds over likelihood-ratio sets beside general solvers.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import pandas as pd
import torch

from botorch_pref.exceptions import UnsupportedError
from experiments.speed.duels import Grid
from experiments.speed.likelihood_ratio import likelihood_ratio_cases
from experiments.speed.own import ask_cases, million_cases
from experiments.speed.pairwise import batch_cases, pairwise_cases
from experiments.speed.peers import suggestion_cases, variational_cases
from experiments.speed.timing import LIMIT, Case, time_cases

__all__ = ["SECTIONS", "Section", "speed_cases", "speed_table"]

# Memory is measured first, as what came before would count.
Section = Literal["million", "models", "scaling", "batches", "ask", "likelihood-ratio"]
"""A section of the table."""
SECTIONS: tuple[Section, ...] = get_args(Section)
"""All sections, in the order in which they are timed."""


class _Sizes(NamedTuple):
    """How many duels there are."""

    million: tuple[int, ...]
    evidence: tuple[int, ...]
    inducing: int
    models: Grid
    scaling: Grid
    batches: tuple[int, ...]
    ask: int


_FULL = _Sizes(
    million=(10_000, 100_000, 1_000_000),
    evidence=(10_000, 100_000),
    inducing=512,
    models=Grid((400,), (25_600,)),
    scaling=Grid((25, 50, 100, 200, 400, 800, 1_600), (100, 400, 1_600, 6_400, 25_600)),
    batches=(25, 100, 400),
    ask=100,
)
_QUICK = _Sizes(
    million=(1_000, 2_000),
    evidence=(1_000, 2_000),
    inducing=64,
    models=Grid((12,), (24,)),
    scaling=Grid((6, 12), (24,)),
    batches=(25,),
    ask=2,
)


def speed_table(
    device: str = "cpu",
    quick: bool = False,
    threads: int = 1,
    progress: bool = True,
    sections: Iterable[Section] = SECTIONS,
    limit: float = LIMIT,
    path: Path | None = None,
) -> pd.DataFrame:
    """Time this package, others, and batches against loops.

    Raises:
        UnsupportedError: If the device is not there, there are no threads, or there is no
            such section.
        OSError: If the file cannot be written.
    """
    if device not in ("cpu", "cuda") or (device == "cuda" and not torch.cuda.is_available()):
        raise UnsupportedError(f"device {device!r} is not available here; use 'cpu' or 'cuda'.")
    if threads < 1:
        raise UnsupportedError(f"threads must be at least 1, got {threads}.")
    chosen = {*sections}
    if unknown := chosen - {*SECTIONS}:
        known = ", ".join(SECTIONS)
        raise UnsupportedError(f"sections must be of {known}, got {', '.join(map(str, unknown))}.")
    cases = speed_cases(torch.device(device), quick, chosen)
    return time_cases(cases, device, threads, progress, limit, once=quick, path=path)


def speed_cases(device: torch.device, quick: bool, sections: set[Section]) -> list[Case]:
    """What is timed."""
    sizes = _QUICK if quick else _FULL
    cases: list[Case] = []
    if "million" in sections:
        cases += million_cases("million", sizes.million, sizes.evidence, sizes.inducing, device)
    if "scaling" in sections:
        for peers in (pairwise_cases, suggestion_cases, variational_cases):
            cases += peers("scaling", sizes.scaling, device)
    elif "models" in sections:
        cases += pairwise_cases("models", sizes.models, device)
    if "batches" in sections:
        cases += batch_cases("batches", sizes.batches, device)
    if "ask" in sections:
        cases += ask_cases("ask", sizes.ask, device)
    if "likelihood-ratio" in sections:
        cases += likelihood_ratio_cases("likelihood-ratio", device, quick)
    return cases
