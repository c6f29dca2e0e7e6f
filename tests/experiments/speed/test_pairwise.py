"""Beside ``PairwiseGP``: both sides are the same problem."""

from typing import cast

import pytest
import torch
from botorch.models import PairwiseGP
from botorch.models.likelihoods.pairwise import PairwiseLogitLikelihood
from botorch.posteriors import GPyTorchPosterior
from torch import Size, Tensor

from experiments.speed import pairwise
from experiments.speed.duels import DIM, Grid, duels, probes
from experiments.speed.timing import time_cases

CPU = torch.device("cpu")


def test_both_sides_are_the_same_problem() -> None:
    X, comparisons = duels(12)
    ours, other = pairwise.ours_of(X, comparisons), pairwise.pairwise_of(X, comparisons)
    assert isinstance(other, PairwiseGP)
    assert isinstance(other.likelihood, PairwiseLogitLikelihood)
    assert type(ours.covar_module) is type(other.covar_module)
    assert type(ours.covar_module.base_kernel) is type(other.covar_module.base_kernel)
    state = other.covar_module.state_dict()
    for name, value in ours.covar_module.state_dict().items():
        assert torch.equal(value, state[name]), name
    assert len(list(ours.named_priors())) == len(list(other.named_priors())) == 1
    # Differences of utilities agree, as does the gradient of what a fit maximises: the
    # constants of PairwiseGP's evidence and its jitter are not ours.
    mine, theirs = (
        cast(GPyTorchPosterior, model.posterior(X[:6])).mean.squeeze(-1) for model in (ours, other)
    )
    assert torch.allclose(mine - mine[0], theirs - theirs[0], atol=1e-4)
    (_, first), (_, second) = (
        cast(tuple[object, list[Tensor]], pairwise.evaluation(build, X, comparisons)())
        for build in (pairwise.ours_of, pairwise.pairwise_of)
    )
    for here, there in zip(first, second, strict=True):
        assert torch.allclose(here, there, rtol=1e-2, atol=1e-3)


def test_duels() -> None:
    X, comparisons = duels(10, batch_shape=Size([3]))
    assert X.shape == (3, 20, DIM)
    assert comparisons.sort(dim=-1).values.equal(torch.arange(20).view(10, 2).expand(3, 10, 2))
    X, comparisons = duels(500, 50)
    assert X.shape == (50, DIM)
    assert (comparisons[:, 0] != comparisons[:, 1]).all()
    assert comparisons.unique().numel() == 50
    assert probes(X).shape == (64, 2, DIM)
    assert probes(X)[0, 0].equal(X[0].flip(-1))


def test_the_operations() -> None:
    table = time_cases(
        pairwise.pairwise_cases("models", Grid((), (60,)), CPU), progress=False, once=True
    )
    assert (table["package"] == "PreferenceGP").sum() == 5
    assert (table["package"] == "PairwiseGP").sum() == 5
    assert (table["package"] == "15 Choleskys and the kernel").sum() == 1
    assert (table["seconds"] > 0).all()
    notes = table[table["package"] == "PreferenceGP"].set_index("operation")["note"]
    agreement = notes[pairwise.POSTERIOR].removeprefix("mean differences agree to ")
    assert float(agreement) < 1e-3
    for operation, what in (
        (pairwise.FIT, "our objective at both optima: "),
        ("EUBO by optimize_acqf", "largest EUBO found: "),
    ):
        here, there = map(float, notes[operation].removeprefix(what).split(", "))
        assert here == pytest.approx(there, abs=0.02)
        assert here != 0


def test_what_would_not_fit_in_memory() -> None:
    cases = pairwise.pairwise_cases("scaling", Grid((1_600,)), CPU)
    obstacles = {
        case.operation: side.obstacle
        for case in cases
        for side in (case.ours, *case.others)
        if side.obstacle
    }
    assert obstacles == {
        pairwise.POSTERIOR: "would take about 16 GB",
        "EUBO by optimize_acqf": "would take about 25 GB",
    }


def test_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairwise, "BATCH_SIZE", 2)
    table = time_cases(pairwise.batch_cases("batches", (6,), CPU), progress=False, once=True)
    assert table["package"].tolist() == 3 * ["a batch", "loop of 2", "one of them"]
    assert (table["seconds"] > 0).all()


@pytest.mark.cuda
def test_cuda() -> None:
    cuda = torch.device("cuda")
    cases = pairwise.pairwise_cases("models", Grid((64,), (64,)), cuda)
    table = time_cases(cases + pairwise.batch_cases("batches", (8,), cuda), "cuda", progress=False)
    assert (table["ratio"] > 0).all()
