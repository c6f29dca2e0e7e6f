"""Strategies fit, maximise and keep what they find in whatever mode of autograd they are called."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor

from botorch_pref.queries import Evaluate
from botorch_pref.space import SearchSpace
from botorch_pref.strategies.registry import strategy_names
from tests.test_device_strategies import makers

STEPS = 5  # rounds of MR-LPF end on the way


def asked(name: str, mode: Callable[[], Any]) -> list[Tensor]:
    """The items of the queries and the recommendation, every second call in a mode."""
    space = SearchSpace(torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64))
    strategy = makers()[name](space)
    found = []
    for step in range(STEPS):
        with mode() if step % 2 else nullcontext():
            query = strategy.ask()
        answer = float(query.items.sum()) if isinstance(query, Evaluate) else 1.0
        with nullcontext() if step % 2 else mode():
            strategy.tell(query, answer)
        found.append(query.items)
    with mode():
        return [*found, strategy.recommend()]


@pytest.mark.usefixtures("short_searches")
@pytest.mark.parametrize("name", [*strategy_names(), "cobol", "cobohl"])
@pytest.mark.parametrize(
    "mode", [torch.inference_mode, pytest.param(torch.no_grad, marks=pytest.mark.slow)]
)
def test_a_mode_changes_nothing(mode: Callable[[], Any], name: str) -> None:
    """Inference mode refuses all that `no_grad` does, and more."""
    for mine, other in zip(asked(name, mode), asked(name, nullcontext), strict=True):
        assert torch.equal(mine, other)
        assert not mine.requires_grad
