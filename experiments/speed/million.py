r"""Very many duels, of this package alone: time and memory."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from botorch_pref.models import PreferenceGP
from experiments.speed.duels import FRESH, duels, probes
from experiments.speed.pairwise import EVIDENCE, evaluation
from experiments.speed.timing import Case, Run, Side

_REPEATS = 3


def million_cases(
    section: str,
    sizes: Sequence[int],
    evidence_sizes: Sequence[int],
    num_inducing: int,
    device: torch.device,
) -> list[Case]:
    r"""The rows of very many duels of new items.

    Args:
        section: The part of the table.
        sizes: Numbers of duels, rising, for the mode and the posterior.
        evidence_sizes: Those for the evidence, each gradient of which takes several passes.
        num_inducing: The number of inducing items.
        device: Where it is computed.

    Returns:
        A case a size. The memory in their remarks is the largest that the process has had, so
        they are to be the first of all.
    """
    cases = []
    suffix = f", {num_inducing} inducing items"
    for size in sizes:
        prepare = partial(_mode_and_posterior, size, num_inducing, device)
        ours = Side("PreferenceGP", prepare, _REPEATS)
        name = "mode and posterior of 64 pairs" + suffix
        cases.append(Case(section, name, FRESH, size, ours, remark=_memory))
    for size in evidence_sizes:
        ours = Side("PreferenceGP", partial(_evidence, size, num_inducing, device), _REPEATS)
        cases.append(Case(section, EVIDENCE + suffix, FRESH, size, ours))
    return cases


def _mode_and_posterior(size: int, num_inducing: int, device: torch.device) -> Run:
    X, comparisons = duels(size, device=device)
    pairs = probes(X)

    def run() -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            model = PreferenceGP(X, comparisons, inducing_points=num_inducing)
            posterior = model.posterior(pairs)
            return posterior.mean, posterior.distribution.covariance_matrix

    return run


def _evidence(size: int, num_inducing: int, device: torch.device) -> Run:
    build = partial(PreferenceGP, inducing_points=num_inducing)
    return evaluation(build, *duels(size, device=device))


def _memory(results: Sequence[object]) -> str:
    text = f"peak memory {peak_gigabytes():.2f} GB"
    if torch.cuda.is_initialized():
        text += f", of the device {torch.cuda.max_memory_allocated() / 1e9:.2f} GB"
    return text


def peak_gigabytes() -> float:
    """The largest memory that this process has had so far; not a number where nobody knows."""
    try:
        import resource
    except ImportError:  # Windows
        return float("nan")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1.0 if sys.platform == "darwin" else 1024.0) / 1e9
