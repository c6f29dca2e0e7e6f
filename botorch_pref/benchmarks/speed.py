r"""Speed, side by side with other packages in one run.

BoTorch's ``PairwiseGP`` gets the same data as ``PreferenceGP``, a logit link and kernels of
one class with the same priors and the same start: those of ``PreferenceGP``. For the bounds
of likelihood-ratio sets see :mod:`~botorch_pref.benchmarks.likelihood_ratio_speed`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, cast, get_args

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

from botorch_pref.benchmarks.likelihood_ratio_speed import likelihood_ratio_cases
from botorch_pref.benchmarks.loop import StandardisedProblem
from botorch_pref.benchmarks.timing import Case, Run, time_cases
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.models import LaplaceMarginalLogLikelihood, PreferenceGP
from botorch_pref.models.fitting import default_covar_module
from botorch_pref.problems import get_problem

DIM = 6
BATCH_SIZE = 16
NUM_ITEMS = 50

Section = Literal["models", "likelihood-ratio"]
SECTIONS: tuple[Section, ...] = get_args(Section)
Build = Callable[[Tensor, Tensor], Model]
# Sets up a model of datapoints and comparisons, and returns what is timed of it.
Operation = Callable[[Build, Tensor, Tensor], Run]


def speed_table(
    device: str = "cpu",
    quick: bool = False,
    threads: int = 1,
    progress: bool = True,
    section: Section | None = None,
) -> pd.DataFrame:
    r"""Time this package against others, and batches against loops.

    Args:
        device: ``"cpu"`` or ``"cuda"``.
        quick: Whether to take 100 fresh duels instead of 400, a tenth of the repeated
            ones, and bounds of 30 items alone: half a minute instead of two or three.
        threads: The number of threads of torch.
        progress: Whether to show a progress bar on the standard error stream.
        section: ``"models"``, against ``PairwiseGP``; ``"likelihood-ratio"``, against
            CVXPY with Clarabel and CasADi with IPOPT; both if omitted.

    Returns:
        The table of :func:`~botorch_pref.benchmarks.timing.time_cases`.

    Raises:
        UnsupportedError: If the device is not there, there are no threads, or there is no
            such section.
    """
    if device not in ("cpu", "cuda") or (device == "cuda" and not torch.cuda.is_available()):
        raise UnsupportedError(f"device {device!r} is not available here; use 'cpu' or 'cuda'.")
    if threads < 1:
        raise UnsupportedError(f"threads must be at least 1, got {threads}.")
    if section not in (None, *SECTIONS):
        raise UnsupportedError(f"section must be one of {', '.join(SECTIONS)}, got {section!r}.")
    cases = []
    if section != "likelihood-ratio":
        cases += _cases(torch.device(device), quick)
    if section != "models":
        cases += likelihood_ratio_cases(torch.device(device), quick)
    return time_cases(cases, device, threads, progress)


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
