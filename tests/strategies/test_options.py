"""Options that are not Python's own numbers: a state is plain JSON whatever was given."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from botorch_pref.strategies import COBOL, POPBO, CompGPUCB, CostAwareKG, Strategy

BOX = torch.tensor([[0.0], [1.0]], dtype=torch.float64)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (COBOL, {"num_initial_values": np.int64(3), "noise": np.float32(0.5)}),
        (COBOL, {"threshold": math.inf}),
        (POPBO, {"slack": math.inf}),
        (CostAwareKG, {"bias": np.float64(0.5), "budget": Fraction(41, 2)}),
        (CompGPUCB, {"gamma": Fraction(1, 10), "num_initial_duels": np.int64(4)}),
        (CompGPUCB, {"gamma": math.inf}),
    ],
)
def test_a_state_is_plain_json(kind: type[Strategy], options: dict[str, Any]) -> None:
    strategy = kind(bounds=BOX, seed=np.int64(3), **options)  # type: ignore[call-arg]
    text = json.dumps(strategy.state_dict(), allow_nan=False)
    read = kind.from_state_dict(json.loads(text))
    assert json.dumps(read.state_dict(), allow_nan=False) == text
    assert torch.equal(read.ask().items, strategy.ask().items)
