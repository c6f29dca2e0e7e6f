"""What the tests of kernels over pairs share: base kernels, pairs and their covariances."""

from __future__ import annotations

import numpy as np
import torch
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import Tensor

QUICK = settings(max_examples=40, deadline=None, database=None, derandomize=True)
# On a lattice: items often meet, but are never so close that the base kernel's own
# distances, which come from a quadratic expansion, have lost their digits.
pairs_on_a_lattice = hnp.arrays(
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
