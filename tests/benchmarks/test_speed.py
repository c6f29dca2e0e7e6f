"""The speed table: both sides are the same problem."""

from typing import cast

import pytest
import torch
from botorch.models import PairwiseGP
from botorch.models.likelihoods.pairwise import PairwiseLogitLikelihood
from botorch.posteriors import GPyTorchPosterior
from torch import Size

from botorch_pref.benchmarks import speed
from botorch_pref.benchmarks.speed import speed_table
from botorch_pref.benchmarks.timing import Case, speed_text, time_cases
from botorch_pref.exceptions import UnsupportedError

CPU = torch.device("cpu")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> list[Case]:
    """All cases of the quick table, on a few duels each."""
    duels = speed._duels
    monkeypatch.setattr(
        speed,
        "_duels",
        lambda num, num_items, batch_shape, device: duels(
            64 if num_items is None and not batch_shape else 8,
            num_items,
            Size([2]) if batch_shape else batch_shape,
            device,
        ),
    )
    return speed._cases(CPU, quick=True)


def test_both_sides_are_the_same_problem() -> None:
    X, comparisons = speed._duels(12, None, Size(), CPU)
    ours, other = speed._ours(X, comparisons), speed._pairwise(X, comparisons)
    assert isinstance(other, PairwiseGP)
    assert isinstance(other.likelihood, PairwiseLogitLikelihood)
    assert type(ours.covar_module) is type(other.covar_module)
    assert type(ours.covar_module.base_kernel) is type(other.covar_module.base_kernel)
    state = other.covar_module.state_dict()
    for name, value in ours.covar_module.state_dict().items():
        assert torch.equal(value, state[name]), name
    assert len(list(ours.named_priors())) == len(list(other.named_priors())) == 2
    # Differences of utilities agree, as does the gradient of what a fit maximises: the
    # constants of PairwiseGP's evidence and its jitter are not ours.
    mine, theirs = (
        cast(GPyTorchPosterior, model.posterior(X[:6])).mean.squeeze(-1) for model in (ours, other)
    )
    assert torch.allclose(mine - mine[0], theirs - theirs[0], atol=1e-4)
    (_, first), (_, second) = (
        cast(tuple[object, list[torch.Tensor]], speed._evaluation(build, X, comparisons)())
        for build in (speed._ours, speed._pairwise)
    )
    for here, there in zip(first, second, strict=True):
        assert torch.allclose(here, there, rtol=1e-2, atol=1e-3)


def test_duels() -> None:
    X, comparisons = speed._duels(10, None, Size([3]), CPU)
    assert X.shape == (3, 20, speed.DIM)
    assert comparisons.sort(dim=-1).values.equal(torch.arange(20).view(10, 2).expand(3, 10, 2))
    X, comparisons = speed._duels(500, 50, Size(), CPU)
    assert X.shape == (50, speed.DIM)
    assert (comparisons[:, 0] != comparisons[:, 1]).all()
    assert comparisons.unique().numel() == 50


def test_the_table(small: list[Case]) -> None:
    table = time_cases(small, progress=False)
    assert table["other"].tolist() == ["PairwiseGP"] * 5 + ["loop of 16"] * 3
    assert (table[["ours_seconds", "other_seconds"]] > 0).all(axis=None)
    text = speed_text(table)
    assert all(name in text for name in table["case"])
    assert len(text.splitlines()) == 1 + len(table)


def test_bad_arguments() -> None:
    with pytest.raises(UnsupportedError, match="device 'abacus'"):
        speed_table("abacus")
    with pytest.raises(UnsupportedError, match="threads must be at least 1"):
        speed_table(threads=0)


@pytest.mark.cuda
def test_cuda(small: list[Case]) -> None:
    cases = speed._cases(torch.device("cuda"), quick=True)
    table = time_cases(cases, "cuda", progress=False)
    assert (table["ratio"] > 0).all()
    with pytest.raises(UnsupportedError, match="section must be one of models, likelihood-ratio"):
        speed_table(section="abacus")  # type: ignore[arg-type]


def test_sections(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(
        speed, "time_cases", lambda cases, *_: asked.append([case.other for case in cases])
    )
    for section in (None, *speed.SECTIONS):
        speed_table(quick=True, section=section)
    both, models, bounds = asked
    assert both == models + bounds
    assert {*models} == {"PairwiseGP", "loop of 16"}
    assert bounds == ["CVXPY + Clarabel", "CasADi + IPOPT"]
