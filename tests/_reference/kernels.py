r"""Base kernels by direct differences: NumPy for matrices, mpmath for close items."""

from __future__ import annotations

import math
from collections.abc import Sequence

import mpmath
import numpy as np
from mpmath import mpf
from numpy.typing import NDArray

Array = NDArray[np.float64]
KERNELS = ("rbf", "matern12", "matern32", "matern52")


def gram(name: str, x1: Array, x2: Array, lengthscale: Array | float) -> Array:
    """Return the ``n1 x n2`` unit-variance Gram matrix of two sets of items.

    Args:
        name: One of ``KERNELS``.
        x1: An ``n1 x d`` array of items.
        x2: An ``n2 x d`` array of items.
        lengthscale: One lengthscale, or ``d`` of them.
    """
    scaled = (x1[:, None, :] - x2[None, :, :]) / lengthscale
    r = np.sqrt((scaled**2).sum(-1))
    if name == "rbf":
        return np.exp(-(r**2) / 2)
    if name == "matern12":
        return np.exp(-r)
    if name == "matern32":
        return (1 + math.sqrt(3) * r) * np.exp(-math.sqrt(3) * r)
    if name == "matern52":
        return (1 + math.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-math.sqrt(5) * r)
    raise ValueError(f"Unknown kernel {name!r}.")


def dueling_variance(
    name: str, first: Sequence[float], second: Sequence[float], lengthscale: float
) -> mpf:
    """Return ``2 (1 - k(x, x'))`` to 50 digits, for items as the floats they are."""
    with mpmath.workdps(50):
        square = mpmath.fsum(
            ((mpf(a) - mpf(b)) / mpf(lengthscale)) ** 2 for a, b in zip(first, second, strict=True)
        )
        r = mpmath.sqrt(square)
        if name == "rbf":
            k = mpmath.exp(-square / 2)
        elif name == "matern12":
            k = mpmath.exp(-r)
        elif name == "matern32":
            k = (1 + mpmath.sqrt(3) * r) * mpmath.exp(-mpmath.sqrt(3) * r)
        elif name == "matern52":
            root = mpmath.sqrt(5) * r
            k = (1 + root + root**2 / 3) * mpmath.exp(-root)
        else:
            raise ValueError(f"Unknown kernel {name!r}.")
        return 2 * (1 - k)
