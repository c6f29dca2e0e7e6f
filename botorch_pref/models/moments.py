r"""Standard deviations that can be differentiated."""

from __future__ import annotations

import torch
from torch import Tensor


def safe_deviation(variance: Tensor) -> Tensor:
    r"""The square root of ``...``-dim variances, of gradient zero where they are zero."""
    positive = variance > 0
    return torch.where(positive, torch.where(positive, variance, 1.0).sqrt(), 0.0)
