"""Kernels over pairs: brute force, the identities of a difference, and the digits it keeps."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, ScaleKernel
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import Tensor

from botorch_pref.kernels import AdditivePairKernel, DuelingKernel
from tests._reference import kernels as reference
from tests.models.common import rand

WRAPPERS = (DuelingKernel, AdditivePairKernel)
wrappers = pytest.mark.parametrize("wrapper", WRAPPERS)
names = pytest.mark.parametrize("name", reference.KERNELS)
ards = pytest.mark.parametrize("ard", [False, True])
# On a lattice: items often meet, but are never so close that the base kernel's own
# distances, which come from a quadratic expansion, have lost their digits.
on_a_lattice = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 6), st.just(4)),
    elements=st.integers(-192, 192).map(lambda i: i / 64),
)


def base_kernel(name: str, lengthscale: float | list[float] = 0.5) -> Kernel:
    """The kernel of that name in the reference, with ARD if there are several lengthscales."""
    num = len(lengthscale) if isinstance(lengthscale, list) else None
    if name == "rbf":
        base: Kernel = RBFKernel(ard_num_dims=num)
    else:
        base = MaternKernel(nu=float(name[-2]) / 2, ard_num_dims=num)
    base = base.double()
    base.lengthscale = torch.tensor(lengthscale, dtype=torch.float64)
    return base


def swap(z: Tensor) -> Tensor:
    """Each pair with its items in the other order."""
    return torch.cat([z[..., z.shape[-1] // 2 :], z[..., : z.shape[-1] // 2]], dim=-1)


def dense(kernel: Kernel, z1: Tensor, z2: Tensor | None = None) -> Tensor:
    return kernel(z1, z2).to_dense()


def brute_force(
    wrapper: type[Kernel], name: str, z1: Tensor, z2: Tensor, lengthscale: float | list[float]
) -> np.ndarray:
    (x, x_), (w, w_) = (np.split(z.numpy(), 2, axis=1) for z in (z1, z2))

    def k(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return reference.gram(name, a, b, np.array(lengthscale))

    same = k(x, w) + k(x_, w_)
    return same if wrapper is AdditivePairKernel else same - k(x, w_) - k(x_, w)


@ards
@names
@wrappers
def test_covariances_by_brute_force(wrapper: type[Kernel], name: str, ard: bool) -> None:
    """In the square, the rectangle and the diagonals; of duels that share items."""
    lengthscale = [0.3, 0.9, 0.5] if ard else 0.4
    items, generator = rand(12, 3), torch.Generator().manual_seed(1)
    first, gap = torch.randint(1, 12, (2, 60), generator=generator)
    z1 = torch.cat([items[first], items[(first + gap) % 12]], dim=-1)
    z2, atol = z1.flip(0), 1e-12
    if wrapper is AdditivePairKernel:  # GPyTorch's distance of equal items can be 1e-8
        z1, z2 = rand(60, 6), rand(60, 6, seed=1)
        atol = 1e-7 if ard and name == "matern12" else atol
    kernel = wrapper(base_kernel(name, lengthscale))
    square, other = (brute_force(wrapper, name, z1, z, lengthscale) for z in (z1, z2))
    for got, expected in (
        (dense(kernel, z1), square),
        (dense(kernel, z1, z2), other),
        (dense(kernel, z1[:4], z2[:7]), other[:4, :7]),
        (kernel(z1, diag=True), np.diag(square)),
        (kernel(z1, z2, diag=True), np.diag(other)),
    ):
        np.testing.assert_allclose(got.detach().numpy(), expected, rtol=0, atol=atol)


@names
def test_odd_part_of_the_additive_kernel_is_the_dueling_kernel(name: str) -> None:
    """Its even part is the order effect that a dueling kernel cannot see."""
    kernel, dueling = (wrapper(base_kernel(name)) for wrapper in WRAPPERS[::-1])
    z1, z2 = rand(5, 4), rand(6, 4, seed=1)
    direct, swapped = dense(kernel, z1, z2), dense(kernel, z1, swap(z2))
    assert (swapped + direct).min() > 0
    torch.testing.assert_close(direct - swapped, dense(dueling, z1, z2), rtol=0, atol=1e-13)


@ards
@names
def test_swapping_a_pair_flips_the_sign_exactly(name: str, ard: bool) -> None:
    kernel = DuelingKernel(base_kernel(name, [0.3, 0.9] if ard else 0.4))
    z1, z2 = rand(2, 40, 4), rand(2, 42, 4, seed=1)
    covar, square = dense(kernel, z1, z2), dense(kernel, z1)
    assert torch.equal(dense(kernel, swap(z1), z2), -covar)
    assert torch.equal(dense(kernel, z1, swap(z2)), -covar)
    assert torch.equal(dense(kernel, swap(z1), swap(z2)), covar)
    assert torch.equal(dense(kernel, swap(z1)), square)
    assert torch.equal(dense(kernel, z1, swap(z1)), -square)
    same = z2[:, :40]
    assert torch.equal(kernel(swap(z1), same, diag=True), -kernel(z1, same, diag=True))
    assert torch.equal(kernel(z1, swap(z1), diag=True), -kernel(z1, diag=True))


@names
def test_an_item_against_itself_has_no_covariance(name: str) -> None:
    kernel = DuelingKernel(base_kernel(name))
    x, z = rand(6, 2), rand(40, 4, seed=1)
    mixed = torch.cat([z, torch.cat([x, x], dim=-1)])
    assert dense(kernel, mixed[40:], z).abs().max() <= 1e-12
    square = dense(kernel, mixed)
    assert square[40:].abs().max() <= 1e-12
    for diagonal in (kernel(mixed, diag=True), square.diagonal()):
        assert (diagonal[40:] == 0).all()
        assert (diagonal[:40] > 0).all()


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("ratio", [1e-4, 1e-3, 1e-2, 1.0])
@pytest.mark.parametrize("lengthscale", [[0.1], [0.02], [0.1, 0.1, 0.1]])
@names
def test_near_identical_items_keep_their_digits(
    name: str, lengthscale: list[float], ratio: float, grad: bool
) -> None:
    d = len(lengthscale)
    first, direction = rand(40, d), rand(40, d, seed=1) - 0.5
    direction = direction / direction.norm(dim=-1, keepdim=True)
    step = ratio * direction * torch.tensor(lengthscale, dtype=torch.float64)
    z = torch.cat([first, first + step], dim=-1)
    rows = (reference.dueling_variance(name, r[:d], r[d:], lengthscale[0]) for r in z.tolist())
    exact = torch.tensor([float(v) for v in rows], dtype=torch.float64)
    z.requires_grad_(grad)
    for scale in (lengthscale[0], lengthscale):
        kernel = DuelingKernel(base_kernel(name, scale))
        for values in (
            kernel(z, diag=True),
            dense(kernel, z).diagonal(),
            dense(kernel, z, z.clone()).diagonal(),
            dense(ScaleKernel(kernel).double(), z).diagonal() / np.log(2.0),
        ):
            torch.testing.assert_close(values.detach(), exact, rtol=1e-6, atol=0)


@names
@wrappers
def test_gradients_are_finite_at_identical_items(wrapper: type[Kernel], name: str) -> None:
    x = rand(5, 2)
    identical = torch.cat([x, x], dim=-1)
    mixed, other = (
        torch.cat([identical, rand(30, 4, seed=1)]),
        torch.cat([identical[:2], rand(28, 4)]),
    )
    kernel, z = wrapper(base_kernel(name)), mixed.requires_grad_()
    total = kernel(z, diag=True).sum() + kernel(z[:30], other, diag=True).sum()
    (total + dense(kernel, z).sum() + dense(kernel, z, other).square().sum()).backward()
    assert torch.isfinite(z.grad).all()
    assert torch.isfinite(kernel.base_kernel.raw_lengthscale.grad).all()


@ards
@names
@wrappers
def test_gradients(wrapper: type[Kernel], name: str, ard: bool) -> None:
    kernel = wrapper(base_kernel(name, [0.3, 0.9] if ard else 0.4))

    def evaluate(z1: Tensor, z2: Tensor, value: Tensor, diag: bool) -> Tensor:
        covar = torch.func.functional_call(
            kernel, {"base_kernel.raw_lengthscale": value}, (z1, z2), {"diag": diag}
        )
        return covar if diag else covar.to_dense()

    z1, z2 = rand(3, 4).requires_grad_(), rand(3, 4, seed=1).requires_grad_()
    value = kernel.base_kernel.raw_lengthscale.detach().clone().requires_grad_()
    for diag in (False, True):
        assert torch.autograd.gradcheck(lambda *at, diag=diag: evaluate(*at, diag), (z1, z2, value))
        assert torch.autograd.gradcheck(
            lambda a, v, diag=diag: evaluate(a, a, v, diag), (z1, value)
        )


@settings(max_examples=80, deadline=None, database=None, derandomize=True)
@given(
    a=on_a_lattice,
    b=on_a_lattice,
    name=st.sampled_from(reference.KERNELS),
    wrapper=st.sampled_from(WRAPPERS),
)
def test_any_pairs_swap_and_permute(
    a: np.ndarray, b: np.ndarray, name: str, wrapper: type[Kernel]
) -> None:
    # GPyTorch's distance of equal items can be 1e-8, which Matern-1/2 shows.
    assume(name != "matern12" or wrapper is DuelingKernel)
    kernel, z1, z2 = wrapper(base_kernel(name)), torch.from_numpy(a), torch.from_numpy(b)
    covar = dense(kernel, z1, z2)
    torch.testing.assert_close(dense(kernel, z2, z1), covar.T, rtol=0, atol=1e-13)
    reversed_rows = dense(kernel, z1.flip(0), z2).flip(0)
    torch.testing.assert_close(reversed_rows, covar, rtol=0, atol=1e-13)
    if wrapper is AdditivePairKernel:
        assert torch.equal(dense(kernel, swap(z1), swap(z2)), covar)
        expected = brute_force(wrapper, name, z1, z2, 0.5)
        np.testing.assert_allclose(covar.detach().numpy(), expected, rtol=0, atol=1e-12)
        return
    # pairs of one item with itself have none but rounding
    duel1, duel2 = ((z[:, :2] != z[:, 2:]).any(-1) for z in (z1, z2))
    assert torch.equal(dense(kernel, swap(z1), z2)[duel1], -covar[duel1])
    assert torch.equal(dense(kernel, z1, swap(z2))[:, duel2], -covar[:, duel2])
    assert (covar[~duel1].abs() <= 1e-12).all()
    assert (covar[:, ~duel2].abs() <= 1e-12).all()
    diagonal = kernel(z1, diag=True)
    assert ((diagonal >= 0) & (diagonal <= 2)).all()
