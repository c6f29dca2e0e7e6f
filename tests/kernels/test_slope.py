"""The slope beside a kernel: GPyTorch's own checks, values, its share of the variance, errors."""

from __future__ import annotations

import unittest
from typing import Any

import pytest
import torch
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, ScaleKernel
from gpytorch.test.base_kernel_test_case import BaseKernelTestCase

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.kernels import SlopeKernel
from botorch_pref.models import PreferenceGP
from botorch_pref.space import SearchSpace
from botorch_pref.strategies.utility import fitted_values, kernel_of
from tests.models.common import rand


class TestContract(BaseKernelTestCase, unittest.TestCase):
    """GPyTorch's thirteen checks."""

    def create_kernel_no_ard(self, active_dims: Any = None, **kwargs: Any) -> Kernel:
        # As in GPyTorch's own wrappers, the base kernel's columns are those that are left.
        kernel = SlopeKernel(RBFKernel(**kwargs), slope=0.5)
        kernel.active_dims = None if active_dims is None else torch.tensor(active_dims)
        return kernel

    def create_kernel_ard(self, num_dims: int, **kwargs: Any) -> Kernel:
        return self.create_kernel_no_ard(ard_num_dims=num_dims, **kwargs)


@pytest.mark.parametrize("dim", [1, 3, 12])
def test_it_is_the_formula(dim: int) -> None:
    items, others = rand(2, 4, dim), rand(2, 5, dim, seed=1)
    base = MaternKernel(nu=2.5).double()
    kernel = SlopeKernel(base, slope=0.8)
    found, own = kernel(items, others).to_dense(), base(items, others).to_dense()
    assert found.shape == (2, 4, 5)
    for batch in range(2):
        for i, one in enumerate(items[batch].tolist()):
            for j, other in enumerate(others[batch].tolist()):
                line = sum((a - 0.5) * (b - 0.5) for a, b in zip(one, other, strict=True))
                expected = 0.2 * own[batch, i, j].item() + 0.8 * 12.0 / dim * line
                assert found[batch, i, j].item() == pytest.approx(expected)
    diagonal = kernel(items, items).to_dense().diagonal(dim1=-2, dim2=-1)
    torch.testing.assert_close(kernel(items, diag=True), diagonal)


@pytest.mark.parametrize("dim", [1, 3, 20])
def test_its_variance_is_one_on_average(dim: int) -> None:
    items = rand(200_000, dim)
    variance = SlopeKernel(RBFKernel(), slope=0.8).double()(items, diag=True)
    assert variance.mean().item() == pytest.approx(1.0, rel=0.01)


def test_a_model_goes_on_uphill() -> None:
    """Answers in one half say which way is up in the other, where the base kernel knows nothing."""
    items = 0.3 * rand(40, 2)
    values = items.sum(-1)
    order = (values[0::2] < values[1::2]).long()
    pairs = torch.stack([2 * torch.arange(20) + order, 2 * torch.arange(20) + 1 - order], dim=-1)
    far = torch.tensor([[0.75, 0.75], [0.95, 0.95]], dtype=torch.double)
    rises = []
    for slope in (0.8, 1e-9):
        kernel = ScaleKernel(SlopeKernel(MaternKernel(nu=2.5), slope)).double()
        kernel.base_kernel.base_kernel.lengthscale, kernel.outputscale = 0.1, 4.0
        mean = PreferenceGP(items, pairs, covar_module=kernel).posterior(far).mean
        rises.append((mean[1] - mean[0]).item())
    assert rises[0] > 0.3
    assert abs(rises[1]) < 0.01


@pytest.mark.parametrize("nugget", [False, True])
def test_its_hyperparameters_are_read_and_written(nugget: bool) -> None:
    space = SearchSpace(torch.tensor([[0.0] * 9, [1.0] * 9], dtype=torch.double))
    values = {"lengthscale": [0.5] * 9, "outputscale": 2.0, "kernel": "matern", "slope": 0.7}
    values |= {"nugget": 0.1} if nugget else {}
    found = fitted_values(kernel_of(values, space, nugget))
    assert found.pop("lengthscale") == pytest.approx(values.pop("lengthscale"))
    assert found == pytest.approx(values)


@pytest.mark.parametrize("slope", [0.0, 1.0, -0.1, float("nan"), "steep"])
def test_a_share_out_of_range(slope: Any) -> None:
    with pytest.raises(ComparisonDataError, match="`slope`"):
        SlopeKernel(RBFKernel(), slope)
