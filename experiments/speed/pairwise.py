r"""``PreferenceGP`` beside BoTorch's ``PairwiseGP``, and batches beside loops.

``PairwiseGP`` gets the same data, a logit link and kernels of one class with the same priors
and the same start: those of ``PreferenceGP``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import torch
from botorch.acquisition.preference import AnalyticExpectedUtilityOfBestOption
from botorch.fit import fit_gpytorch_mll
from botorch.models import PairwiseGP, PairwiseLaplaceMarginalLogLikelihood
from botorch.models.likelihoods.pairwise import PairwiseLogitLikelihood
from botorch.models.model import Model
from botorch.optim import optimize_acqf
from botorch.optim.closures import get_loss_closure_with_grads
from botorch.posteriors import GPyTorchPosterior
from gpytorch.kernels import ScaleKernel
from gpytorch.mlls import MarginalLogLikelihood
from linear_operator import to_dense
from torch import Size, Tensor

from botorch_pref.kernels.items import default_covar_module
from botorch_pref.models import LaplaceMarginalLogLikelihood, PreferenceGP
from experiments.speed.duels import DIM, FRESH, Duels, Grid, duels, probes
from experiments.speed.timing import Case, Run, Side

BATCH_SIZE = 16
NUM_PAIRS = 64
NUM_CHOLESKYS = 15
EVIDENCE = "log evidence and gradient"
FIT = "fit_gpytorch_mll"
POSTERIOR = f"posterior of {NUM_PAIRS} pairs, mean and covariance"
FIRST_MEAN = "construction and first posterior mean"
_OURS, _OTHER = "PreferenceGP", "PairwiseGP"

Build = Callable[[Tensor, Tensor], Model]
# Sets up a model of datapoints and comparisons, and returns what is timed of it.
Operation = Callable[[Build, Tensor, Tensor], Run]


def pairwise_cases(section: str, grid: Grid, device: torch.device) -> list[Case]:
    """The rows against ``PairwiseGP``."""
    operations: tuple[tuple[str, Operation, int], ...] = (
        (FIRST_MEAN, first_mean, 5),
        (FIT, fit, 3),
        (EVIDENCE, evaluation, 11),
        (POSTERIOR, posterior, 21),
        ("EUBO by optimize_acqf", _eubo, 3),
    )
    cases = []
    for data, size, num_items in grid.points():
        known = duels(size, num_items, device=device)
        for name, operation, repeats in operations:
            ours = Side(_OURS, partial(operation, ours_of, *known), repeats)
            others = _others(operation, known, repeats)
            remark = _REMARKS.get(operation)
            cases.append(Case(section, name, data, size, ours, others, remark))
    return cases


def _others(operation: Operation, known: Duels, repeats: int) -> tuple[Side, ...]:
    # PairwiseGP copies three n x n matrices for each pair, and keeps more of them for a gradient:
    # its EUBO took more than 23 GB at 3,200 items.
    copies = 3 * NUM_PAIRS if operation is posterior else 300 * (operation is _eubo)
    gigabytes = copies * len(known.X) ** 2 * 8e-9
    prepare = partial(operation, pairwise_of, *known)
    other = Side(_OTHER, prepare, min(repeats, 3), gigabytes=gigabytes)
    if operation is not evaluation:
        return (other,)
    name = f"{NUM_CHOLESKYS} Choleskys and the kernel"
    return other, Side(name, partial(_choleskys, *known), repeats)


def batch_cases(section: str, sizes: Sequence[int], device: torch.device) -> list[Case]:
    """A batch of models beside a loop over them, and beside one of them."""
    cases = []
    for size in sizes:
        data = duels(size, batch_shape=Size([BATCH_SIZE]), device=device)
        one = (data.X[0], data.comparisons[0])
        for name, operation, repeats in (
            (FIRST_MEAN, first_mean, 7),
            (EVIDENCE, evaluation, 7),
            (FIT, fit, 3),
        ):
            ours = Side("a batch", partial(operation, ours_of, *data), repeats)
            others = (
                Side(f"loop of {BATCH_SIZE}", partial(_looped, operation, *data), repeats),
                Side("one of them", partial(operation, ours_of, *one), repeats),
            )
            cases.append(Case(section, name, f"{BATCH_SIZE} models of {FRESH}", size, ours, others))
    return cases


# ------------------------------------------------------------------ models and operations


def ours_of(X: Tensor, comparisons: Tensor) -> PreferenceGP:
    """This package's model."""
    return PreferenceGP(X, comparisons, covar_module=_kernel(X))


def pairwise_of(X: Tensor, comparisons: Tensor) -> PairwiseGP:
    """BoTorch's model, with this package's link and prior."""
    return PairwiseGP(X, comparisons, PairwiseLogitLikelihood(), _kernel(X))


def _kernel(X: Tensor) -> ScaleKernel:
    """The default kernel, of both models."""
    return default_covar_module(X.shape[-1], X.shape[:-2]).to(X)


def fit(build: Build, X: Tensor, comparisons: Tensor) -> Run:
    """Prepares a fit of the hyperparameters, which returns the fitted objective."""
    return partial(fit_gpytorch_mll, _mll(build(X, comparisons)))


def first_mean(build: Build, X: Tensor, comparisons: Tensor) -> Run:
    """Prepares nothing: a model and the mean of two items, up to a constant."""
    return lambda: cast(GPyTorchPosterior, build(X, comparisons).posterior(X[..., :2, :])).mean


def evaluation(build: Build, X: Tensor, comparisons: Tensor) -> Run:
    """Prepares an evaluation of the evidence, a step of an optimizer from the last one."""
    mll = _mll(build(X, comparisons)).train()
    kernel = mll.model.covar_module.base_kernel
    parameters = {name: p for name, p in mll.named_parameters() if p.requires_grad}
    closure = get_loss_closure_with_grads(mll, parameters)
    closure()
    # A step of an optimizer away, as PairwiseGP starts from its last mode.
    kernel.lengthscale = 1.05 * kernel.lengthscale.detach()
    return closure


def posterior(build: Build, X: Tensor, comparisons: Tensor) -> Run:
    """Prepares predictions of pairs from a model that has made some."""
    model, pairs = build(X, comparisons), probes(X, NUM_PAIRS)

    def run() -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            found = cast(GPyTorchPosterior, model.posterior(pairs))
            return found.mean, found.distribution.covariance_matrix

    run()  # both models cache what does not depend on the pairs
    return run


def _eubo(build: Build, X: Tensor, comparisons: Tensor) -> Run:
    rule = AnalyticExpectedUtilityOfBestOption(build(X, comparisons))
    rule(probes(X, 1))
    return partial(
        optimize_acqf,
        rule,
        X.new_tensor([[0.0], [1.0]]).expand(2, DIM),
        q=2,
        num_restarts=4,
        raw_samples=64,
        options={"maxiter": 50, "batch_limit": 4, "init_batch_limit": 16},
    )


def _looped(operation: Operation, X: Tensor, comparisons: Tensor) -> Run:
    runs = [operation(ours_of, *one) for one in zip(X, comparisons, strict=True)]
    return lambda: [run() for run in runs]


def _choleskys(X: Tensor, comparisons: Tensor) -> Run:
    """What an evidence is measured by: the kernel with its gradient, and factorisations."""
    kernel, weight = default_covar_module(DIM, Size()).to(X), X.new_ones(len(X), len(X))
    size = min(len(X), len(comparisons))
    matrix = to_dense(kernel(X[:size])).detach() + torch.eye(size).to(X)

    def run() -> None:
        torch.autograd.grad(to_dense(kernel(X)), [*kernel.parameters()], weight)
        for _ in range(NUM_CHOLESKYS):
            torch.linalg.cholesky_ex(matrix)

    return run


def _mll(model: Model) -> MarginalLogLikelihood:
    ours = isinstance(model, PreferenceGP)
    kind = LaplaceMarginalLogLikelihood if ours else PairwiseLaplaceMarginalLogLikelihood
    return kind(model.likelihood, model)


# ------------------------------------------------------------------ what both have found


def _means(results: Sequence[object]) -> str:
    ours, other = cast(Sequence[tuple[Tensor, Tensor] | None], results)
    if ours is None or other is None:
        return ""
    differences = [mean[..., 0, 0] - mean[..., 1, 0] for mean, _ in (ours, other)]
    return f"mean differences agree to {float((differences[0] - differences[1]).abs().max()):.0e}"


def _values(results: Sequence[object]) -> str:
    found = [cast(tuple[Tensor, Tensor], result) for result in results if result is not None]
    return "largest EUBO found: " + ", ".join(f"{float(value):.4f}" for _, value in found)


def _objectives(results: Sequence[object]) -> str:
    ours, other = cast(Sequence[MarginalLogLikelihood | None], results)
    if ours is None or other is None:
        return ""
    values = [float(ours(None, None))]
    ours.model.covar_module.load_state_dict(other.model.covar_module.state_dict())
    values.append(float(ours(None, None)))
    return f"our objective at both optima: {values[0]:.4f}, {values[1]:.4f}"


_REMARKS: dict[Operation, Callable[[Sequence[object]], str]] = {
    fit: _objectives,
    posterior: _means,
    _eubo: _values,
}
