"""The speed table: both sides are the same problem, and the times are those of the cases."""

import time
from functools import partial
from typing import cast

import pandas as pd
import pytest
import torch
from botorch.models import PairwiseGP
from botorch.models.likelihoods.pairwise import PairwiseLogitLikelihood
from botorch.posteriors import GPyTorchPosterior
from torch import Size

from botorch_pref.benchmarks import speed
from botorch_pref.benchmarks.speed import Case, speed_table, speed_text, time_cases
from botorch_pref.exceptions import UnsupportedError

CPU = torch.device("cpu")


def spin(milliseconds: int) -> None:
    """Uses CPU time, which sleeping does not."""
    end = time.process_time() + 1e-3 * milliseconds
    while time.process_time() < end:
        pass


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


def test_timing() -> None:
    case = Case("spin", "slower spin", lambda: partial(spin, 5), lambda: partial(spin, 20), (3, 3))
    (row,) = time_cases([case], progress=False).to_dict("records")
    assert (row["case"], row["other"]) == ("spin", "slower spin")
    assert 0.005 <= row["ours_seconds"] < 0.02 <= row["other_seconds"]
    assert row["ratio"] == row["other_seconds"] / row["ours_seconds"]


def test_what_is_prepared_is_not_timed() -> None:
    def prepare() -> partial[None]:
        spin(100)
        return partial(spin, 1)

    (row,) = time_cases([Case("", "", prepare, prepare, (1, 1))], progress=False).to_dict("records")
    assert row["ours_seconds"] < 0.05


def test_the_median_of_the_repeats() -> None:
    durations = iter([1, 200, 3])
    case = Case("", "", lambda: partial(spin, next(durations)), lambda: partial(spin, 1), (3, 1))
    (row,) = time_cases([case], progress=False).to_dict("records")
    assert 0.003 <= row["ours_seconds"] < 0.1


def test_threads_are_put_back() -> None:
    before = torch.get_num_threads()
    seen: list[int] = []

    def prepare() -> partial[None]:
        seen.append(torch.get_num_threads())
        return partial(spin, 1)

    time_cases([Case("", "", prepare, prepare, (1, 1))], threads=2, progress=False)
    assert seen == [2, 2]
    assert torch.get_num_threads() == before


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


def test_the_text() -> None:
    row = {
        "case": "fit",
        "other": "PairwiseGP",
        "ours_seconds": 0.25,
        "other_seconds": 5.0,
        "ratio": 20.0,
    }
    lines = speed_text(pd.DataFrame([row])).splitlines()
    assert lines[0].split() == ["case", "against", "ours", "[s]", "other", "[s]", "ratio"]
    assert lines[1].split() == ["fit", "PairwiseGP", "0.2500", "5.0000", "20.0x"]


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
