"""The answer-free widths of pairs, by eq. (16) and dense matrices."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.likelihood_ratio.theory import deviation_sum_bound, information_gain
from botorch_pref.models.duel_deviation import asked_deviations, duel_deviation
from tests.inference.common import matern
from tests.models.common import make_kernel, numerical_gradient, rand
from tests.models.judged import lengthscales, unit_kernel

KINDS = pytest.mark.parametrize("kind", ["additive", "difference"])
PENALTIES = pytest.mark.parametrize("penalty", [1.0, 0.1, 0.01])
ASKED, PAIRS = rand(15, 2, 2, seed=1), rand(7, 2, 2, seed=2)


def covariance(pairs: Tensor, others: Tensor, kind: str) -> Tensor:
    def k(i: int, j: int) -> Tensor:
        scales = lengthscales(pairs.shape[-1])
        return matern(pairs[:, i], others[:, j], lengthscale=scales, outputscale=1.0)

    own = k(0, 0) + k(1, 1)
    return own if kind == "additive" else own - k(0, 1) - k(1, 0)


def expected(pairs: Tensor, asked: Tensor, kind: str, penalty: float) -> Tensor:
    inner = covariance(asked, asked, kind) + penalty * torch.eye(len(asked)).double()
    cross = covariance(pairs, asked, kind)
    explained = (cross * torch.linalg.solve(inner, cross.T).T).sum(-1)
    return (covariance(pairs, pairs, kind).diagonal() - explained).clamp_min(0).sqrt()


@KINDS
@PENALTIES
def test_equation_16(kind: str, penalty: float) -> None:
    found = duel_deviation(unit_kernel(2), ASKED, PAIRS, kind, penalty)  # type: ignore[arg-type]
    torch.testing.assert_close(found, expected(PAIRS, ASKED, kind, penalty), atol=1e-9, rtol=0)
    shaped = PAIRS[:6].view(2, 3, 2, 2)
    again = duel_deviation(unit_kernel(2), ASKED, shaped, kind, penalty)  # type: ignore[arg-type]
    torch.testing.assert_close(again, found[:6].view(2, 3))
    alone = [duel_deviation(unit_kernel(2), ASKED, pair, kind, penalty) for pair in PAIRS]  # type: ignore[arg-type]
    torch.testing.assert_close(torch.stack(alone), found, atol=1e-10, rtol=0)


@KINDS
@PENALTIES
def test_never_grows(kind: str, penalty: float) -> None:
    tables = torch.stack(
        [duel_deviation(unit_kernel(2), ASKED[:t], PAIRS, kind, penalty) for t in range(16)]  # type: ignore[arg-type]
    )
    assert (tables.diff(dim=0) <= 1e-10).all()
    assert (tables[-1] < tables[0]).all()


@KINDS
@PENALTIES
def test_asked_duels_one_by_one(kind: str, penalty: float) -> None:
    kernel = unit_kernel(2)
    found = asked_deviations(kernel, ASKED, kind, penalty)  # type: ignore[arg-type]
    alone = [duel_deviation(kernel, ASKED[:t], ASKED[t], kind, penalty) for t in range(15)]  # type: ignore[arg-type]
    torch.testing.assert_close(found, torch.stack(alone), atol=1e-9, rtol=0)
    gain = float(information_gain(covariance(ASKED, ASKED, kind), penalty))
    total = 0.5 * torch.log1p(found.square() / penalty).sum()
    assert float(total) == pytest.approx(gain, abs=1e-10)
    assert float(found.sum()) <= deviation_sum_bound(15, gain, penalty)


@KINDS
def test_without_duels(kind: str) -> None:
    kernel = make_kernel(2, outputscale=3.0)
    none = PAIRS[:0]
    prior = duel_deviation(kernel, none, PAIRS, kind, 1.0)  # type: ignore[arg-type]
    torch.testing.assert_close(
        prior, (3.0 * covariance(PAIRS, PAIRS, kind).diagonal()).sqrt(), atol=1e-9, rtol=0
    )
    assert asked_deviations(kernel, none, kind, 1.0).shape == (0,)  # type: ignore[arg-type]
    assert duel_deviation(kernel, ASKED, none, kind, 1.0).shape == (0,)  # type: ignore[arg-type]


@PENALTIES
def test_the_difference_kernel_is_never_much_wider(penalty: float) -> None:
    kernel = unit_kernel(2)
    narrow = duel_deviation(kernel, ASKED, PAIRS, "difference", penalty)
    wide = duel_deviation(kernel, ASKED, PAIRS, "additive", penalty)
    assert (narrow <= math.sqrt(2) * wide + 1e-12).all()


def test_an_item_against_itself() -> None:
    pairs = PAIRS[:, :1].expand(-1, 2, -1)
    assert not duel_deviation(unit_kernel(2), ASKED, pairs, "difference", 0.1).any()
    assert (duel_deviation(unit_kernel(2), ASKED, pairs, "additive", 0.1) > 0.1).all()


@KINDS
def test_swapping_arms(kind: str) -> None:
    """The difference does not care for slots; the additive kernel has a function a slot."""
    swapped = duel_deviation(unit_kernel(2), ASKED, PAIRS.flip(-2), kind, 0.1)  # type: ignore[arg-type]
    same = torch.allclose(swapped, duel_deviation(unit_kernel(2), ASKED, PAIRS, kind, 0.1))  # type: ignore[arg-type]
    assert same == (kind == "difference")


@KINDS
def test_gradient(kind: str) -> None:
    at = PAIRS.clone().requires_grad_()

    def total(X: Tensor) -> Tensor:
        return duel_deviation(unit_kernel(2), ASKED, X, kind, 0.1).sum()  # type: ignore[arg-type]

    (gradient,) = torch.autograd.grad(total(at), at)
    torch.testing.assert_close(gradient, numerical_gradient(total, at), atol=1e-6, rtol=1e-6)


def test_bad_arguments() -> None:
    for call in (
        lambda kind, penalty: duel_deviation(unit_kernel(2), ASKED, PAIRS, kind, penalty),
        lambda kind, penalty: asked_deviations(unit_kernel(2), ASKED, kind, penalty),
    ):
        with pytest.raises(ComparisonDataError, match="`kernel` must be one of additive"):
            call("product", 1.0)
        for penalty in (0.0, -1.0, math.nan):
            with pytest.raises(ComparisonDataError, match="`penalty`"):
                call("additive", penalty)
