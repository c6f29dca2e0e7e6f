r"""BoTorch's standardisation, for values in any unit."""

from __future__ import annotations

from botorch.models.transforms.outcome import Standardize
from torch import Tensor

_SAME = 1e-12  # of the largest value: a deviation below it is rounding


def standardising(values: Tensor) -> Standardize:
    r"""A transform that brings values to unit variance, however small they are.

    BoTorch's own takes every deviation below 1e-8 for none, which in farads is a lot.

    Args:
        values: ``n``-dim values.

    Returns:
        The transform, which is still to learn from data.
    """
    return Standardize(m=1, min_stdv=max(_SAME * float(values.abs().max()), 1e-300))
