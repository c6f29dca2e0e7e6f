r"""Speed, side by side with BoTorch's ``PairwiseGP`` in one run.

Both models get the same data, a logit link and kernels of one class with the same priors
and the same start: those of ``PreferenceGP``. Seconds are CPU seconds of this process on
one thread, else seconds on the clock (the device waited for), and medians over repeats.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import pandas as pd
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import PairwiseGP, PairwiseLaplaceMarginalLogLikelihood
from botorch.models.likelihoods.pairwise import PairwiseLogitLikelihood
from botorch.models.model import Model
from botorch.optim.closures import get_loss_closure_with_grads
from botorch.posteriors import GPyTorchPosterior
from gpytorch.mlls import MarginalLogLikelihood
from torch import Size, Tensor
from tqdm import tqdm

from botorch_pref.benchmarks.loop import StandardisedProblem
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.models import LaplaceMarginalLogLikelihood, PreferenceGP
from botorch_pref.models.fitting import default_covar_module
from botorch_pref.problems import get_problem
from botorch_pref.randomness import seeded
from botorch_pref.runner.threads import num_threads

DIM = 6
BATCH_SIZE = 16
NUM_ITEMS = 50

Run = Callable[[], object]
Build = Callable[[Tensor, Tensor], Model]
# Sets up a model of datapoints and comparisons, and returns what is timed of it.
Operation = Callable[[Build, Tensor, Tensor], Run]


@dataclass(frozen=True)
class Case:
    r"""One row of the table.

    Attributes:
        name: What is timed.
        other: What it is compared with.
        prepare_ours: Sets up this package's side and returns what is timed.
        prepare_other: Sets up the other side likewise.
        repeats: How often this package's side and the other are timed.
    """

    name: str
    other: str
    prepare_ours: Callable[[], Run]
    prepare_other: Callable[[], Run]
    repeats: tuple[int, int]


def speed_table(
    device: str = "cpu", quick: bool = False, threads: int = 1, progress: bool = True
) -> pd.DataFrame:
    r"""Time this package against ``PairwiseGP``, and batches against loops.

    Args:
        device: ``"cpu"`` or ``"cuda"``.
        quick: Whether to take 100 fresh duels instead of 400, and a tenth of the
            repeated ones: half a minute instead of two or three.
        threads: The number of threads of torch.
        progress: Whether to show a progress bar on the standard error stream.

    Returns:
        A row a case: ``case``, ``other``, ``ours_seconds``, ``other_seconds`` and
        ``ratio``, how many times faster this package is.

    Raises:
        UnsupportedError: If the device is not there, or there are no threads.
    """
    if device not in ("cpu", "cuda") or (device == "cuda" and not torch.cuda.is_available()):
        raise UnsupportedError(f"device {device!r} is not available here; use 'cpu' or 'cuda'.")
    if threads < 1:
        raise UnsupportedError(f"threads must be at least 1, got {threads}.")
    return time_cases(_cases(torch.device(device), quick), device, threads, progress)


def speed_text(table: pd.DataFrame) -> str:
    r"""The table as text.

    Args:
        table: What :func:`speed_table` returns.

    Returns:
        Several lines, without a final newline.
    """
    shown = table.rename(
        columns={"ours_seconds": "ours [s]", "other_seconds": "other [s]", "other": "against"}
    )
    return shown.to_string(
        index=False,
        formatters={
            "ours [s]": "{:.4f}".format,
            "other [s]": "{:.4f}".format,
            "ratio": "{:.1f}x".format,
        },
    )


def time_cases(
    cases: Sequence[Case], device: str = "cpu", threads: int = 1, progress: bool = True
) -> pd.DataFrame:
    r"""Time cases, one after the other.

    Args:
        cases: The cases.
        device: As in :func:`speed_table`.
        threads: Likewise.
        progress: Likewise.

    Returns:
        The table.
    """
    clock = _clock(device, threads)
    rows = []
    bar = tqdm(cases, "speed", disable=not progress)
    with num_threads(threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PairwiseGP tells of its jitter
        for case in bar:
            bar.set_postfix_str(case.name)
            ours, other = _seconds(case, clock)
            rows.append(
                {
                    "case": case.name,
                    "other": case.other,
                    "ours_seconds": ours,
                    "other_seconds": other,
                    "ratio": other / ours,
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


# ---------------------------------------------------------------------- the cases


def _cases(device: torch.device, quick: bool) -> list[Case]:
    """All rows of the table."""
    num_fresh, num_repeated = (100, 2_560) if quick else (400, 25_600)
    data = _duels(num_fresh, None, Size(), device)
    fresh, once = f"{num_fresh} fresh duels, d={DIM}", (3 if quick else 1)
    cases = [
        _against_pairwise(f"{fresh}: {what}", operation, data, repeats)
        for what, operation, repeats in (
            ("construction and first posterior mean", _first_mean, (5, 3)),
            ("fit_gpytorch_mll", _fit, (3, once)),
            ("posterior of 64 pairs, mean and covariance", _posterior, (21, 3)),
            ("log evidence and gradient, one evaluation", _evaluation, (11, 3)),
        )
    ]
    data = _duels(num_repeated, NUM_ITEMS, Size(), device)
    name = f"{NUM_ITEMS} items, {num_repeated} duels: fit_gpytorch_mll"
    cases.append(_against_pairwise(name, _fit, data, (3, once)))
    for num in (25,) if quick else (25, 100, 400):
        data = _duels(num, None, Size([BATCH_SIZE]), device)
        cases.extend(
            Case(
                f"{BATCH_SIZE} models of {num} fresh duels, d={DIM}: {what}",
                f"loop of {BATCH_SIZE}",
                partial(operation, _ours, *data),
                partial(_looped, operation, *data),
                (repeats, repeats),
            )
            for what, operation, repeats in (
                ("construction and first posterior mean", _first_mean, 7),
                ("log evidence and gradient, one evaluation", _evaluation, 7),
                ("fit_gpytorch_mll", _fit, 3),
            )
        )
    return cases


def _against_pairwise(
    name: str, operation: Operation, data: tuple[Tensor, Tensor], repeats: tuple[int, int]
) -> Case:
    ours, other = partial(operation, _ours, *data), partial(operation, _pairwise, *data)
    return Case(name, "PairwiseGP", ours, other, repeats)


def _duels(
    num: int, num_items: int | None, batch_shape: Size, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Random items and a judge's ``[winner, loser]`` rows; every duel has new items by default."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.arange(2 * num).view(num, 2)
    if num_items is not None:
        first = torch.randint(num_items, (num,), generator=generator)
        step = torch.randint(1, num_items, (num,), generator=generator)
        rows = torch.stack([first, (first + step) % num_items], dim=-1)
    shape = (*batch_shape, 2 * num if num_items is None else num_items, DIM)
    X = torch.rand(shape, generator=generator, dtype=torch.double)
    utilities: Tensor = StandardisedProblem(get_problem("hartmann6"))(X)
    first, second = utilities[..., rows].unbind(dim=-1)
    uniform = torch.rand(first.shape, generator=generator, dtype=torch.double)
    wins = (uniform < torch.sigmoid(first - second)).unsqueeze(-1)
    return X.to(device), torch.where(wins, rows, rows.flip(-1)).to(device)


def _ours(X: Tensor, comparisons: Tensor) -> PreferenceGP:
    return PreferenceGP(X, comparisons)


def _pairwise(X: Tensor, comparisons: Tensor) -> PairwiseGP:
    covar_module = default_covar_module(X.shape[-1], X.shape[:-2])
    return PairwiseGP(X, comparisons, PairwiseLogitLikelihood(), covar_module)


def _mll(model: Model) -> MarginalLogLikelihood:
    ours = isinstance(model, PreferenceGP)
    kind = LaplaceMarginalLogLikelihood if ours else PairwiseLaplaceMarginalLogLikelihood
    return kind(model.likelihood, model)


def _first_mean(build: Build, X: Tensor, comparisons: Tensor) -> Run:
    return lambda: cast(GPyTorchPosterior, build(X, comparisons).posterior(X[..., :2, :])).mean


def _fit(build: Build, X: Tensor, comparisons: Tensor) -> Run:
    return partial(fit_gpytorch_mll, _mll(build(X, comparisons)))


def _posterior(build: Build, X: Tensor, comparisons: Tensor) -> Run:
    model, pairs = build(X, comparisons), X[:128].flip(-1).view(64, 2, DIM)

    def run() -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            posterior = cast(GPyTorchPosterior, model.posterior(pairs))
            return posterior.mean, posterior.distribution.covariance_matrix

    run()  # both models cache what does not depend on the pairs
    return run


def _evaluation(build: Build, X: Tensor, comparisons: Tensor) -> Run:
    mll = _mll(build(X, comparisons)).train()
    kernel = mll.model.covar_module.base_kernel
    parameters = {name: p for name, p in mll.named_parameters() if p.requires_grad}
    closure = get_loss_closure_with_grads(mll, parameters)
    closure()
    # A step of an optimizer away, as PairwiseGP starts from its last mode.
    kernel.lengthscale = 1.05 * kernel.lengthscale.detach()
    return closure


def _looped(operation: Operation, X: Tensor, comparisons: Tensor) -> Run:
    runs = [operation(_ours, *one) for one in zip(X, comparisons, strict=True)]
    return lambda: [run() for run in runs]
