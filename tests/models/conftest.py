"""What is left undone where a posterior is added to, counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from gpytorch.kernels import MaternKernel
from torch import Tensor

from tests.models.common import Costs


@pytest.fixture
def costs(monkeypatch: pytest.MonkeyPatch) -> Costs:
    """Counts from where it is asked for."""
    costs, forward = Costs(), MaternKernel.forward

    def counting(self: MaternKernel, x1: Tensor, x2: Tensor, **kwargs: Any) -> Tensor:
        found = forward(self, x1, x2, **kwargs)
        costs.entries += found.numel()
        return found

    monkeypatch.setattr(MaternKernel, "forward", counting)
    for name in ("cholesky", "cholesky_ex", "eigh"):
        factor = getattr(torch.linalg, name)

        def watched(matrix: Tensor, factor: Callable[..., Any] = factor, **kwargs: Any) -> Any:
            costs.factorisations += matrix.shape[-1] >= 8
            return factor(matrix, **kwargs)

        monkeypatch.setattr(torch.linalg, name, watched)
    return costs
