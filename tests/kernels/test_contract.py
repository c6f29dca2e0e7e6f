"""What both kernels over pairs owe GPyTorch: its own checks, and batch plumbing."""

from __future__ import annotations

import copy
import pickle
import unittest
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import pytest
import torch
from botorch.exceptions.errors import BotorchError
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, ScaleKernel
from gpytorch.test.base_kernel_test_case import BaseKernelTestCase
from linear_operator import to_dense
from torch import Tensor

from botorch_pref.kernels import AdditivePairKernel, DuelingKernel

WRAPPERS = (DuelingKernel, AdditivePairKernel)
wrappers = pytest.mark.parametrize("wrapper", WRAPPERS)


class _PairKernelTestCase(BaseKernelTestCase):
    """GPyTorch's thirteen checks, on pairs of two-dimensional items."""

    wrapper: ClassVar[type[Kernel]]
    base: ClassVar[Callable[..., Kernel]]
    dtype: ClassVar[torch.dtype]
    seed = 0

    def setUp(self) -> None:
        self.previous_dtype = torch.get_default_dtype()
        torch.set_default_dtype(self.dtype)
        super().setUp()

    def tearDown(self) -> None:
        super().tearDown()
        torch.set_default_dtype(self.previous_dtype)

    def create_kernel_no_ard(self, active_dims: Any = None, **kwargs: Any) -> Kernel:
        return self.wrapper(type(self).base(**kwargs), active_dims=active_dims)

    def create_kernel_ard(self, num_dims: int, **kwargs: Any) -> Kernel:
        kernel = self.create_kernel_no_ard(ard_num_dims=num_dims, **kwargs)
        for module in kernel.modules():
            if isinstance(module, RBFKernel | MaternKernel):
                lengthscale = torch.linspace(0.5, 2.0, num_dims)
                module.lengthscale = lengthscale.expand_as(module.lengthscale)
        return kernel

    def create_data_single_batch(self) -> Tensor:
        return torch.randn(2, 3, 4)

    def create_data_double_batch(self) -> Tensor:
        return torch.randn(3, 2, 50, 4)


def _scaled_matern(batch_shape: torch.Size | None = None, **kwargs: Any) -> Kernel:
    base = MaternKernel(nu=1.5, batch_shape=batch_shape, **kwargs)
    return ScaleKernel(base, batch_shape=batch_shape)


_BASES = {"RBF": RBFKernel, "Matern": MaternKernel, "Scale": _scaled_matern}
for _wrapper in WRAPPERS:
    for _base_name, _base in _BASES.items():
        for _dtype in (torch.float32, torch.float64):
            _name = f"Test{_wrapper.__name__}{_base_name}{str(_dtype)[-2:]}"
            _fields = {"wrapper": _wrapper, "base": staticmethod(_base), "dtype": _dtype}
            globals()[_name] = type(_name, (_PairKernelTestCase, unittest.TestCase), _fields)


def dense(kernel: Kernel, z1: Tensor, z2: Tensor | None = None) -> Tensor:
    return kernel(z1, z2).to_dense()


def _pairs(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.rand(*shape, generator=generator, dtype=torch.float64)


def _varied(kernel: Kernel) -> Kernel:
    """Return the kernel in float64 with a different value in each parameter entry."""
    kernel = kernel.double()
    for parameter in kernel.parameters():
        values = torch.linspace(-1.0, 1.0, parameter.numel(), dtype=torch.float64)
        parameter.data = values.reshape(parameter.shape)
    return kernel


def _same(kernel: Kernel, reference: Kernel, z: Tensor, columns: list[int]) -> None:
    """Check the full matrix, a rectangle and the diagonal against fewer columns."""
    few = z[..., columns]
    pieces = [
        (dense(kernel, z), dense(reference, few)),
        (dense(kernel, z[:3], z[2:]), dense(reference, few[:3], few[2:])),
        (kernel(z, diag=True), reference(few, diag=True)),
        (kernel(z[:3], z[3:6], diag=True), reference(few[:3], few[3:6], diag=True)),
    ]
    for got, expected in pieces:
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-13)


@wrappers
def test_active_dims(wrapper: type[Kernel]) -> None:
    """Those of the wrapper are pair columns, those of the base are item dimensions."""
    kernel = wrapper(RBFKernel(), active_dims=[7, 1, 2, 0]).double()
    _same(kernel, wrapper(RBFKernel()).double(), _pairs(7, 8), [7, 1, 2, 0])
    for wrapped in (lambda base: base, ScaleKernel):
        kernel = wrapper(wrapped(MaternKernel(active_dims=[2, 0]))).double()
        _same(kernel, wrapper(wrapped(MaternKernel())).double(), _pairs(7, 6), [2, 0, 5, 3])


def _base(kind: str, batch_shape: torch.Size, active_dims: list[int] | None) -> Kernel:
    options: dict[str, Any] = {"batch_shape": batch_shape, "active_dims": active_dims}
    matern, rbf = MaternKernel(**options), RBFKernel(**options)
    scale = partial(ScaleKernel, batch_shape=batch_shape)
    kinds = {
        "plain": matern,
        "scaled": scale(rbf),
        "twice scaled": scale(scale(matern)),
        "scaled sum": scale(matern + rbf),
        "product": matern * rbf,
    }
    return kinds[kind]


# GPyTorch's own expand_batch fails for sums and products of kernels
EXPANDABLE = ("plain", "scaled", "twice scaled")
KINDS = (*EXPANDABLE, "scaled sum", "product")
# (wrapper's active_dims, base kernel's active_dims), for pairs with 6 columns
DIMS: list[tuple[list[int] | None, list[int] | None]] = [
    (None, None),
    ([5, 1, 2, 0], None),
    (None, [2, 0]),
    ([5, 1, 2, 0], [1, 0]),
]
dims = pytest.mark.parametrize("dims", DIMS)


@dims
@pytest.mark.parametrize("kind", KINDS)
@wrappers
def test_indexing_picks_a_batch_element(
    wrapper: type[Kernel], kind: str, dims: tuple[Any, Any]
) -> None:
    outer, inner = dims
    batch = torch.Size([3, 2])
    kernel = _varied(wrapper(_base(kind, batch, inner), active_dims=outer))
    z = _pairs(3, 2, 4, 6)
    whole = dense(kernel, z)
    assert kernel.batch_shape == batch
    element, row = kernel[1, 0], kernel[2]
    assert element.batch_shape == torch.Size([])
    assert row.batch_shape == torch.Size([2])
    assert list(element.state_dict()) == list(row.state_dict()) == list(kernel.state_dict())
    torch.testing.assert_close(dense(element, z[1, 0]), whole[1, 0])
    torch.testing.assert_close(dense(row, z[2]), whole[2])
    diagonal = whole[1, 0].diagonal()
    torch.testing.assert_close(element(z[1, 0], diag=True), diagonal)
    # the lazy matrix indexes the kernel along with the data
    torch.testing.assert_close(kernel(z)[1, 0].to_dense(), whole[1, 0])
    torch.testing.assert_close(dense(kernel, z), whole)


@dims
@pytest.mark.parametrize("kind", EXPANDABLE)
@wrappers
def test_expand_batch_repeats_the_kernel(
    wrapper: type[Kernel], kind: str, dims: tuple[Any, Any]
) -> None:
    outer, inner = dims
    kernel = _varied(wrapper(_base(kind, torch.Size([2]), inner), active_dims=outer))
    z = _pairs(3, 2, 4, 6)
    expanded = kernel.expand_batch(torch.Size([3, 2]))
    assert expanded.batch_shape == torch.Size([3, 2])
    assert kernel.batch_shape == torch.Size([2])
    large = wrapper(_base(kind, torch.Size([3, 2]), inner), active_dims=outer).double()
    large.load_state_dict(expanded.state_dict(), strict=True)
    whole = dense(expanded, z)
    torch.testing.assert_close(dense(large, z), whole)
    for i in range(3):
        torch.testing.assert_close(whole[i], dense(kernel, z[i]))
    torch.testing.assert_close(expanded(z, diag=True), whole.diagonal(dim1=-2, dim2=-1))
    one = _varied(wrapper(_base(kind, torch.Size([]), inner), active_dims=outer))
    many = one.expand_batch(3, 2)
    torch.testing.assert_close(dense(many, z), dense(one, z))
    torch.testing.assert_close(dense(many[2, 1], z[0, 0]), dense(one, z[0, 0]))


@wrappers
def test_an_odd_number_of_columns_is_refused(wrapper: type[Kernel]) -> None:
    for kernel, columns, diag in (
        (wrapper(RBFKernel()), 5, False),
        (wrapper(RBFKernel()), 7, True),
        (wrapper(RBFKernel(), active_dims=[0, 1, 2]), 3, False),
    ):
        z = _pairs(3, max(columns, 5))
        with pytest.raises(BotorchError, match=rf"\b{columns}\b"):
            to_dense(kernel.double()(z, diag=diag))


@wrappers
def test_copies_and_conversions_keep_the_kernel(wrapper: type[Kernel]) -> None:
    kernel = _varied(wrapper(_base("scaled", torch.Size([]), [1]), active_dims=[0, 1, 4, 5]))
    z = _pairs(4, 6)
    expected = dense(kernel, z)
    fresh = wrapper(_base("scaled", torch.Size([]), [1]), active_dims=[0, 1, 4, 5]).double()
    fresh.load_state_dict(kernel.state_dict(), strict=True)
    for other in (copy.deepcopy(kernel), pickle.loads(pickle.dumps(kernel)), fresh):
        torch.testing.assert_close(dense(other, z), expected)
    single = dense(copy.deepcopy(kernel).float(), z.float())
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), expected, rtol=1e-4, atol=1e-5)
