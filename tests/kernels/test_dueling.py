"""The dueling kernel: the identities of a difference, and the digits it keeps."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gpytorch.kernels import ScaleKernel
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from botorch_pref.kernels import DuelingKernel
from tests._reference import kernels as reference
from tests.kernels.common import QUICK, base_kernel, dense, pairs_on_a_lattice, swap
from tests.models.common import rand

names = pytest.mark.parametrize("name", reference.KERNELS)
ards = pytest.mark.parametrize("ard", [False, True])


def _kernel(name: str, lengthscale: float | list[float] = 0.5) -> DuelingKernel:
    return DuelingKernel(base_kernel(name, lengthscale))


def _random_pairs(num: int, num_items: int, seed: int) -> Tensor:
    """Return ``num x 2`` pairs of distinct items, many of them repeated."""
    generator = torch.Generator().manual_seed(seed)
    first = torch.randint(num_items, (num,), generator=generator)
    gap = torch.randint(1, num_items, (num,), generator=generator)
    return torch.stack([first, (first + gap) % num_items], dim=-1)


@pytest.mark.parametrize("num", [4, 60])
@ards
@names
def test_is_the_covariance_of_differences(name: str, ard: bool, num: int) -> None:
    """K = D K D^T, on pairs that share items, in the square and the rectangle."""
    lengthscale = [0.3, 0.9, 0.5] if ard else 0.4
    x = rand(12, 3)
    rows, columns = _random_pairs(num, 12, seed=1), _random_pairs(num, 12, seed=2)
    K = reference.gram(name, x.numpy(), x.numpy(), np.array(lengthscale))
    D1, D2 = (np.eye(12)[p[:, 0]] - np.eye(12)[p[:, 1]] for p in (rows, columns))
    kernel = _kernel(name, lengthscale)
    z1, z2 = x[rows].flatten(1), x[columns].flatten(1)
    pieces = [
        (dense(kernel, z1), D1 @ K @ D1.T),
        (dense(kernel, z1, z2), D1 @ K @ D2.T),
        (kernel(z1, diag=True), np.diag(D1 @ K @ D1.T)),
        (kernel(z1, z2, diag=True), np.diag(D1 @ K @ D2.T)),
    ]
    for got, expected in pieces:
        np.testing.assert_allclose(got.detach().numpy(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("num", [3, 40])
@ards
@names
def test_swapping_a_pair_flips_the_sign_exactly(name: str, ard: bool, num: int) -> None:
    kernel = _kernel(name, [0.3, 0.9] if ard else 0.4)
    z1, z2 = rand(2, num, 4), rand(2, num + 2, 4, seed=1)
    covar = dense(kernel, z1, z2)
    assert torch.equal(dense(kernel, swap(z1), z2), -covar)
    assert torch.equal(dense(kernel, z1, swap(z2)), -covar)
    assert torch.equal(dense(kernel, swap(z1), swap(z2)), covar)
    square = dense(kernel, z1)
    assert torch.equal(dense(kernel, swap(z1)), square)
    assert torch.equal(dense(kernel, z1, swap(z1)), -square)
    same = z2[:, :num]
    diagonal = kernel(z1, same, diag=True)
    assert torch.equal(kernel(swap(z1), same, diag=True), -diagonal)
    assert torch.equal(kernel(z1, swap(z1), diag=True), -kernel(z1, diag=True))


@names
def test_an_item_against_itself_has_no_covariance(name: str) -> None:
    kernel = _kernel(name)
    x, z = rand(6, 2), rand(40, 4, seed=1)
    identical = torch.cat([x, x], dim=-1)
    assert dense(kernel, identical, z).abs().max() <= 1e-12
    mixed = torch.cat([z, identical])
    square = dense(kernel, mixed)
    assert square[40:].abs().max() <= 1e-12
    for diagonal in (kernel(mixed, diag=True), square.diagonal()):
        assert (diagonal[40:] == 0).all()
        assert (diagonal[:40] > 0).all()


def _close_pairs(ratio: float, lengthscale: list[float]) -> Tensor:
    """Return 40 pairs over the unit cube, ``ratio`` scaled lengths apart."""
    d = len(lengthscale)
    first, direction = rand(40, d), rand(40, d, seed=1) - 0.5
    direction = direction / direction.norm(dim=-1, keepdim=True)
    step = ratio * direction * torch.tensor(lengthscale, dtype=torch.float64)
    return torch.cat([first, first + step], dim=-1)


def _exact(name: str, z: Tensor, lengthscale: float) -> Tensor:
    d = z.shape[-1] // 2
    exact = [reference.dueling_variance(name, row[:d], row[d:], lengthscale) for row in z.tolist()]
    return torch.tensor([float(v) for v in exact], dtype=torch.float64)


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("ratio", [1e-4, 1e-3, 1e-2, 1.0])
@pytest.mark.parametrize("lengthscale", [[0.1], [0.02], [0.1, 0.1, 0.1]])
@names
def test_near_identical_items_keep_their_digits(
    name: str, lengthscale: list[float], ratio: float, grad: bool
) -> None:
    z = _close_pairs(ratio, lengthscale)
    exact = _exact(name, z, lengthscale[0])
    z.requires_grad_(grad)
    shared = _kernel(name, lengthscale[0])
    for kernel in (shared, _kernel(name, lengthscale)):
        for values in (
            kernel(z, diag=True),
            dense(kernel, z).diagonal(),
            dense(kernel, z, z.clone()).diagonal(),
            dense(ScaleKernel(kernel).double(), z).diagonal() / np.log(2.0),
        ):
            torch.testing.assert_close(values.detach(), exact, rtol=1e-6, atol=0)


@names
def test_gradients_are_finite_at_identical_items(name: str) -> None:
    x = rand(5, 2)
    mixed = torch.cat([torch.cat([x, x], dim=-1), rand(30, 4, seed=1)])
    other = torch.cat([torch.cat([x, x], dim=-1)[:2], rand(28, 4, seed=2)])
    for make in (
        lambda k, z: k(z, diag=True).sum(),
        lambda k, z: dense(k, z).sum(),
        lambda k, z: dense(k, z, other).square().sum(),
        lambda k, z: k(z[:30], other, diag=True).sum(),
    ):
        kernel, z = _kernel(name), mixed.clone().requires_grad_()
        make(kernel, z).backward()
        assert torch.isfinite(z.grad).all()
        assert torch.isfinite(kernel.base_kernel.raw_lengthscale.grad).all()


@ards
@names
def test_gradcheck(name: str, ard: bool) -> None:
    kernel = _kernel(name, [0.3, 0.9] if ard else 0.4)
    raw = kernel.base_kernel.raw_lengthscale

    def evaluate(z1: Tensor, z2: Tensor, value: Tensor, diag: bool) -> Tensor:
        covar = torch.func.functional_call(
            kernel, {"base_kernel.raw_lengthscale": value}, (z1, z2), {"diag": diag}
        )
        return covar if diag else covar.to_dense()

    z1, z2 = rand(3, 4).requires_grad_(), rand(3, 4, seed=1).requires_grad_()
    value = raw.detach().clone().requires_grad_()
    for diag in (False, True):
        assert torch.autograd.gradcheck(
            lambda a, b, v, diag=diag: evaluate(a, b, v, diag), (z1, z2, value)
        )
        assert torch.autograd.gradcheck(
            lambda a, v, diag=diag: evaluate(a, a, v, diag), (z1, value)
        )


@QUICK
@given(a=pairs_on_a_lattice, b=pairs_on_a_lattice, name=st.sampled_from(reference.KERNELS))
def test_any_pairs_swap_and_permute(a: np.ndarray, b: np.ndarray, name: str) -> None:
    kernel, z1, z2 = _kernel(name), torch.from_numpy(a), torch.from_numpy(b)
    covar = dense(kernel, z1, z2)
    # pairs of one item with itself have none but rounding
    duel1, duel2 = ((z[:, :2] != z[:, 2:]).any(-1) for z in (z1, z2))
    assert torch.equal(dense(kernel, swap(z1), z2)[duel1], -covar[duel1])
    assert torch.equal(dense(kernel, z1, swap(z2))[:, duel2], -covar[:, duel2])
    assert (covar[~duel1].abs() <= 1e-12).all()
    assert (covar[:, ~duel2].abs() <= 1e-12).all()
    torch.testing.assert_close(dense(kernel, z2, z1), covar.T, rtol=0, atol=1e-13)
    reversed_rows = dense(kernel, z1.flip(0), z2).flip(0)
    torch.testing.assert_close(reversed_rows, covar, rtol=0, atol=1e-13)
    diagonal = kernel(z1, diag=True)
    assert ((diagonal >= 0) & (diagonal <= 2)).all()
