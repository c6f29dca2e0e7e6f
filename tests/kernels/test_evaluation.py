"""Kernels evaluated at once."""

from __future__ import annotations

import torch
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, ScaleKernel
from linear_operator import to_dense
from torch import Size, Tensor

from botorch_pref.kernels.evaluation import dense_covariance

SIZES = (5, 4)


def points(*shape: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.rand(*shape, n, 3, generator=generator).double() for n in SIZES]


def kernels() -> list[Kernel]:
    own = [
        ScaleKernel(RBFKernel(ard_num_dims=3)),
        ScaleKernel(MaternKernel(nu=1.5, batch_shape=Size([2])), batch_shape=Size([2])),
        RBFKernel(active_dims=(0, 2)) + MaternKernel(nu=2.5, active_dims=(1,)),
    ]
    return [kernel.double() for kernel in own]


def test_is_what_gpytorch_evaluates_lazily() -> None:
    for kernel in kernels():
        x, z = points(2)
        parameters = list(kernel.parameters())
        for right in (None, z):
            found, expected = dense_covariance(kernel, x, right), to_dense(kernel(x, right))
            assert torch.equal(found, expected)
            grads = (
                torch.autograd.grad(value.sin().sum(), parameters) for value in (found, expected)
            )
            for mine, other in zip(*grads, strict=True):
                torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-14)
        found = dense_covariance(kernel, x, x, diag=True)
        assert torch.equal(found, kernel(x, x, diag=True))
