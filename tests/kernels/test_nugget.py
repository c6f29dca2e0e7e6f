"""The nugget: GPyTorch's own checks, values, gradients, priors, the default kernel of tables."""

from __future__ import annotations

import math
import unittest
from typing import Any

import pytest
import torch
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel
from gpytorch.test.base_kernel_test_case import BaseKernelTestCase
from scipy.stats import norm
from torch import Size, Tensor

from botorch_pref.kernels import IndependentKernel, NuggetKernel
from botorch_pref.kernels.items import DEFAULT_LENGTHSCALE
from botorch_pref.kernels.nugget import same_rows
from botorch_pref.space import SearchSpace
from botorch_pref.strategies.utility import fitted_values, kernel_of
from tests.models.common import rand


class TestContract(BaseKernelTestCase, unittest.TestCase):
    """GPyTorch's thirteen checks."""

    def create_kernel_no_ard(self, active_dims: Any = None, **kwargs: Any) -> Kernel:
        # As in GPyTorch's own wrappers, the base kernel's columns are those that are left.
        kernel = NuggetKernel(RBFKernel(**kwargs))
        kernel.active_dims = None if active_dims is None else torch.tensor(active_dims)
        return kernel

    def create_kernel_ard(self, num_dims: int, **kwargs: Any) -> Kernel:
        return self.create_kernel_no_ard(ard_num_dims=num_dims, **kwargs)


def dense(kernel: Kernel, one: Tensor, other: Tensor | None = None) -> Tensor:
    return kernel(one, other).to_dense()


@pytest.mark.parametrize("base", [RBFKernel(), MaternKernel(nu=2.5)])
def test_values(base: Kernel) -> None:
    """A share of the variance is an item's own, which equal items have in common."""
    items = rand(6, 2)
    items = torch.cat([items, items[:2]])
    kernel = NuggetKernel(base).double()
    kernel.nugget = 0.25
    same = torch.tensor([[float(torch.equal(a, b)) for b in items] for a in items]).double()
    expected = 0.75 * dense(kernel.base_kernel, items) + 0.25 * same
    torch.testing.assert_close(dense(kernel, items), expected)
    torch.testing.assert_close(dense(kernel, items[:3], items), expected[:3])
    torch.testing.assert_close(kernel(items, diag=True), torch.ones(8, dtype=torch.double))


@pytest.mark.parametrize("columns", [3, 12])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_which_rows_are_equal(dtype: torch.dtype, columns: int) -> None:
    """Also of a grid, where many sums are equal; batches are broadcast."""
    generator = torch.Generator().manual_seed(0)
    one = torch.randint(0, 3, (4, 1, 9, 3), generator=generator).to(dtype)
    other = torch.randint(0, 3, (5, 7, 3), generator=generator).to(dtype) + 0.0
    one, other = (part.repeat_interleave(columns // 3, dim=-1) for part in (one, other))
    expected = (one.unsqueeze(-2) == other.unsqueeze(-3)).all(-1)
    assert expected.any()
    assert torch.equal(same_rows(one, other), expected)
    mirrored = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1e-9], [0.0, 0.0]]).to(dtype)
    assert torch.equal(same_rows(mirrored, mirrored), torch.eye(4, dtype=torch.bool))
    assert same_rows(one[..., :0, :], other).shape == (4, 5, 0, 7)
    assert torch.equal(same_rows(-0.0 * other, 0.0 * other), torch.ones(5, 7, 7).bool())


def test_gradients_and_batches() -> None:
    items = rand(5, 2)
    kernel = NuggetKernel(RBFKernel(batch_shape=Size([2]))).double()
    assert kernel.nugget.shape == (2, 1)
    kernel.nugget = torch.tensor([[0.1], [0.6]])
    each = [NuggetKernel(RBFKernel()).double() for _ in range(2)]
    for one, share in zip(each, (0.1, 0.6), strict=True):
        one.nugget = share
    together = torch.stack([dense(one, items) for one in each])
    torch.testing.assert_close(dense(kernel, items), together)

    def total(raw: Tensor) -> Tensor:
        found = torch.func.functional_call(each[0], {"raw_nugget": raw}, (items, items))
        return (found * torch.arange(25.0).double().view(5, 5)).sum()

    raw = torch.tensor([0.3], dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(total, raw)


def test_the_prior_is_of_the_logit() -> None:
    """With its mode at 0.3, and 90 % between 0.08 and 0.69, as documented."""
    kernel = NuggetKernel(RBFKernel()).double()
    assert kernel.nugget.tolist() == pytest.approx([0.3])
    ((_, owner, prior, closure, _),) = kernel.named_priors()
    value = closure(owner)
    assert prior.log_prob(value).exp().tolist() == pytest.approx([norm.pdf(0.0)])
    ends = [1 / (1 + math.exp(-(math.log(0.3 / 0.7) + z))) for z in norm.ppf([0.05, 0.95])]
    assert [round(end, 2) for end in ends] == [0.08, 0.69]


def test_the_default_kernel_of_tables() -> None:
    """Its scales are those of the kernel inside."""
    kernel = kernel_of({}, SearchSpace(choices=rand(4, 3)), nugget=True)
    assert isinstance(kernel.base_kernel, NuggetKernel)
    lengthscale = kernel.base_kernel.base_kernel.lengthscale
    assert lengthscale.flatten().tolist() == pytest.approx([DEFAULT_LENGTHSCALE] * 3)
    values = {"lengthscale": [0.1, 0.2, 0.3], "outputscale": 2.0, "kernel": "rbf", "nugget": 0.4}
    kernel = kernel_of(values, SearchSpace(choices=rand(4, 3)), nugget=True)
    assert isinstance(kernel.base_kernel.base_kernel, RBFKernel)
    found = fitted_values(kernel)
    assert found.pop("lengthscale") == pytest.approx(values.pop("lengthscale"))
    assert found == pytest.approx(values | {"kernel": "matern"})


def test_independent_items() -> None:
    """Items have nothing in common unless they are equal."""
    items = torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]], dtype=torch.double)
    kernel = IndependentKernel()
    assert dense(kernel, items).tolist() == [[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
    assert dense(kernel, items[:1], items[1:]).tolist() == [[0.0, 1.0]]
    assert kernel(items, diag=True).tolist() == [1.0, 1.0, 1.0]
