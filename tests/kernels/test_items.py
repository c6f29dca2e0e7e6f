"""A kernel evaluated at once is what GPyTorch evaluates lazily."""

from __future__ import annotations

import pytest
import torch
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, ScaleKernel
from linear_operator import to_dense
from torch import Size

from botorch_pref.kernels.items import dense_covariance
from tests.models.common import rand

BATCHED = MaternKernel(nu=1.5, batch_shape=Size([2]))


@pytest.mark.parametrize(
    "kernel",
    [
        ScaleKernel(RBFKernel(ard_num_dims=3)),
        ScaleKernel(BATCHED, batch_shape=Size([2])),
        RBFKernel(active_dims=(0, 2)) + MaternKernel(nu=2.5, active_dims=(1,)),
    ],
)
def test_dense_covariance(kernel: Kernel) -> None:
    kernel = kernel.double()
    x, z, parameters = rand(2, 5, 3), rand(2, 4, 3, seed=1), list(kernel.parameters())
    for right in (None, z):
        found, expected = dense_covariance(kernel, x, right), to_dense(kernel(x, right))
        assert torch.equal(found, expected)
        grads = (torch.autograd.grad(value.sin().sum(), parameters) for value in (found, expected))
        torch.testing.assert_close(*grads, rtol=1e-12, atol=1e-14)
    assert torch.equal(dense_covariance(kernel, x, x, diag=True), kernel(x, x, diag=True))
