"""Kernels evaluated at once, with their own parameters and with others."""

from __future__ import annotations

import torch
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, ScaleKernel
from linear_operator import to_dense
from torch import Size, Tensor

from botorch_pref.kernels.evaluation import KernelFunction, dense_covariance

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


def test_other_parameters_than_its_own() -> None:
    kernel, other = (ScaleKernel(RBFKernel(ard_num_dims=3)).double() for _ in range(2))
    other.outputscale, other.base_kernel.lengthscale = 3.0, torch.tensor([0.2, 0.5, 0.9])
    function = KernelFunction(kernel)
    x, z = points()
    given = [value.detach().requires_grad_() for value in KernelFunction(other).parameters]
    found = function(given, x, z)
    torch.testing.assert_close(found, to_dense(other(x, z)), rtol=1e-14, atol=0.0)
    assert torch.equal(function(function.parameters, x, z), to_dense(kernel(x, z)))
    torch.autograd.grad(found.sum(), given)
    torch.testing.assert_close(
        function(given, x, x, diag=True), other(x, x, diag=True), rtol=1e-14, atol=0.0
    )


def test_a_part_that_occurs_twice() -> None:
    """Whose parameter has two names: it must neither keep its value at one nor be lost."""
    shared = RBFKernel().double()
    kernel = shared * ScaleKernel(shared).double()
    function = KernelFunction(kernel)
    x, z = points()
    own = list(kernel.parameters())
    assert len(function.parameters) == len(own) == 2
    given = [torch.full_like(value, 0.7) for value in function.parameters]
    found = function(given, x, z)
    assert all(a is b for a, b in zip(kernel.parameters(), own, strict=True))
    for value in own:
        value.data.fill_(0.7)
    torch.testing.assert_close(found, to_dense(kernel(x, z)), rtol=1e-14, atol=0.0)
