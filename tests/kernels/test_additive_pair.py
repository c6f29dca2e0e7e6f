"""The additive pair kernel: a utility for each slot."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from botorch_pref.kernels import AdditivePairKernel, DuelingKernel
from tests._reference import kernels as reference
from tests.kernels.common import QUICK, base_kernel, dense, pairs_on_a_lattice, swap
from tests.models.common import rand

names = pytest.mark.parametrize("name", reference.KERNELS)


def _expected(name: str, z1: Tensor, z2: Tensor) -> np.ndarray:
    (x, x_), (w, w_) = (np.split(z.numpy(), 2, axis=1) for z in (z1, z2))
    return reference.gram(name, x, w, 0.5) + reference.gram(name, x_, w_, 0.5)


@names
def test_is_one_covariance_a_slot(name: str) -> None:
    kernel = AdditivePairKernel(base_kernel(name))
    z1, z2 = rand(40, 6), rand(30, 6, seed=1)
    pieces = [
        (dense(kernel, z1), _expected(name, z1, z1)),
        (dense(kernel, z1, z2), _expected(name, z1, z2)),
        (kernel(z1, diag=True), np.full(40, 2.0)),
        (kernel(z1[:30], z2, diag=True), np.diag(_expected(name, z1[:30], z2))),
    ]
    for got, expected in pieces:
        np.testing.assert_allclose(got.detach().numpy(), expected, rtol=0, atol=1e-12)


@names
def test_the_slots_are_told_apart(name: str) -> None:
    """Its symmetric part is the order effect that a dueling kernel cannot see."""
    kernel, dueling = AdditivePairKernel(base_kernel(name)), DuelingKernel(base_kernel(name))
    z1, z2 = rand(5, 4), rand(6, 4, seed=1)
    swapped = dense(kernel, z1, swap(z2))
    assert (swapped + dense(kernel, z1, z2)).min() > 0
    # odd part: k((x,x'), z) - k((x,x'), swap z) is the dueling kernel
    torch.testing.assert_close(
        dense(kernel, z1, z2) - swapped, dense(dueling, z1, z2), rtol=0, atol=1e-13
    )


@names
def test_gradients(name: str) -> None:
    kernel = AdditivePairKernel(base_kernel(name))
    z1, z2 = rand(3, 4).requires_grad_(), rand(4, 4, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: dense(kernel, a, b), (z1, z2))
    x = rand(3, 2)
    same = torch.cat([x, x], dim=-1).requires_grad_()
    (dense(kernel, same).square().sum() + kernel(same, diag=True).sum()).backward()
    assert torch.isfinite(same.grad).all()
    assert torch.isfinite(kernel.base_kernel.raw_lengthscale.grad).all()


# GPyTorch's distance of an item to itself can be 1e-8, which Matern-1/2 shows.
_SMOOTH = ("rbf", "matern32", "matern52")


@QUICK
@given(a=pairs_on_a_lattice, b=pairs_on_a_lattice, name=st.sampled_from(_SMOOTH))
def test_any_pairs_swap_and_permute(a: np.ndarray, b: np.ndarray, name: str) -> None:
    kernel = AdditivePairKernel(base_kernel(name))
    z1, z2 = torch.from_numpy(a), torch.from_numpy(b)
    covar = dense(kernel, z1, z2)
    assert torch.equal(dense(kernel, swap(z1), swap(z2)), covar)
    torch.testing.assert_close(dense(kernel, z2, z1), covar.T, rtol=0, atol=1e-13)
    reversed_rows = dense(kernel, z1.flip(0), z2).flip(0)
    torch.testing.assert_close(reversed_rows, covar, rtol=0, atol=1e-13)
    np.testing.assert_allclose(covar.detach().numpy(), _expected(name, z1, z2), rtol=0, atol=1e-12)
