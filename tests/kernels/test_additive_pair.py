"""The additive pair kernel: a utility for each slot."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import Tensor

from botorch_pref.kernels import AdditivePairKernel, DuelingKernel
from tests._reference import kernels as reference

names = pytest.mark.parametrize("name", reference.KERNELS)
QUICK = settings(max_examples=40, deadline=None, database=None, derandomize=True)


def _base(name: str) -> Kernel:
    base = RBFKernel() if name == "rbf" else MaternKernel(nu=float(name[-2]) / 2)
    base = base.double()
    base.lengthscale = 0.5
    return base


def _rand(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, generator=generator, dtype=torch.float64)


def _swap(z: Tensor) -> Tensor:
    return torch.cat([z[..., z.shape[-1] // 2 :], z[..., : z.shape[-1] // 2]], dim=-1)


def _dense(kernel: Kernel, z1: Tensor, z2: Tensor | None = None) -> Tensor:
    return kernel(z1, z2).to_dense()


def _expected(name: str, z1: Tensor, z2: Tensor) -> np.ndarray:
    (x, x_), (w, w_) = (np.split(z.numpy(), 2, axis=1) for z in (z1, z2))
    return reference.gram(name, x, w, 0.5) + reference.gram(name, x_, w_, 0.5)


@names
def test_is_one_covariance_a_slot(name: str) -> None:
    kernel = AdditivePairKernel(_base(name))
    z1, z2 = _rand(40, 6), _rand(30, 6, seed=1)
    pieces = [
        (_dense(kernel, z1), _expected(name, z1, z1)),
        (_dense(kernel, z1, z2), _expected(name, z1, z2)),
        (kernel(z1, diag=True), np.full(40, 2.0)),
        (kernel(z1[:30], z2, diag=True), np.diag(_expected(name, z1[:30], z2))),
    ]
    for got, expected in pieces:
        np.testing.assert_allclose(got.detach().numpy(), expected, rtol=0, atol=1e-12)


@names
def test_the_slots_are_told_apart(name: str) -> None:
    """Its symmetric part is the order effect that a dueling kernel cannot see."""
    kernel, dueling = AdditivePairKernel(_base(name)), DuelingKernel(_base(name))
    z1, z2 = _rand(5, 4), _rand(6, 4, seed=1)
    swapped = _dense(kernel, z1, _swap(z2))
    assert (swapped + _dense(kernel, z1, z2)).min() > 0
    # odd part: k((x,x'), z) - k((x,x'), swap z) is the dueling kernel
    torch.testing.assert_close(
        _dense(kernel, z1, z2) - swapped, _dense(dueling, z1, z2), rtol=0, atol=1e-13
    )


@names
def test_gradients(name: str) -> None:
    kernel = AdditivePairKernel(_base(name))
    z1, z2 = _rand(3, 4).requires_grad_(), _rand(4, 4, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: _dense(kernel, a, b), (z1, z2))
    x = _rand(3, 2)
    same = torch.cat([x, x], dim=-1).requires_grad_()
    (_dense(kernel, same).square().sum() + kernel(same, diag=True).sum()).backward()
    assert torch.isfinite(same.grad).all()
    assert torch.isfinite(kernel.base_kernel.raw_lengthscale.grad).all()


# GPyTorch's distance of an item to itself can be 1e-8, which Matern-1/2 shows.
_SMOOTH = ("rbf", "matern32", "matern52")
# On a lattice: items often meet, but are never so close that the base kernel's own
# distances, which come from a quadratic expansion, have lost their digits.
_pairs_on_a_lattice = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 6), st.just(4)),
    elements=st.integers(-192, 192).map(lambda i: i / 64),
)


@QUICK
@given(a=_pairs_on_a_lattice, b=_pairs_on_a_lattice, name=st.sampled_from(_SMOOTH))
def test_any_pairs_swap_and_permute(a: np.ndarray, b: np.ndarray, name: str) -> None:
    kernel = AdditivePairKernel(_base(name))
    z1, z2 = torch.from_numpy(a), torch.from_numpy(b)
    covar = _dense(kernel, z1, z2)
    assert torch.equal(_dense(kernel, _swap(z1), _swap(z2)), covar)
    torch.testing.assert_close(_dense(kernel, z2, z1), covar.T, rtol=0, atol=1e-13)
    reversed_rows = _dense(kernel, z1.flip(0), z2).flip(0)
    torch.testing.assert_close(reversed_rows, covar, rtol=0, atol=1e-13)
    np.testing.assert_allclose(covar.detach().numpy(), _expected(name, z1, z2), rtol=0, atol=1e-12)
