"""The same queries for any number of threads, on one machine with the same versions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
import torch

from botorch_pref.strategies import (
    COBOL,
    DTS,
    EUBO,
    MRLPF,
    PFTS,
    CompGPUCB,
    CostAwareKG,
    DuelingKG,
    LaplacePOPBO,
    MaxMinLCBStrategy,
    Strategy,
)
from tests.models.common import rand

BOX, TABLE = (
    {"bounds": torch.tensor([[0.0], [1.0]]).double().repeat(1, 3)},
    {"choices": rand(60, 3)},
)
PRICES = {"num_initial_duels": 3, "num_initial_values": 3, "budget": None}
SUBJECTS: dict[str, tuple[Any, dict[str, Any], int]] = {
    "PFTS": (PFTS, BOX, 6),
    "PFTS, a table": (PFTS, TABLE, 12),
    "PFTS, many rows": (PFTS, {"choices": rand(3000, 3)}, 6),
    "EUBO": (EUBO, BOX, 6),
    "EUBO, a table": (EUBO, TABLE, 12),
    "DTS, a table": (DTS, TABLE, 12),
    "DuelingKG": (DuelingKG, BOX, 10),
    "DuelingKG, a table": (DuelingKG, TABLE, 12),
    "MRLPF, a table": (MRLPF, {**TABLE, "horizon": 12}, 12),
    "MaxMinLCB": (MaxMinLCBStrategy, BOX, 4),
    "LaplacePOPBO": (LaplacePOPBO, BOX, 5),
    "COBOL": (COBOL, {**BOX, "num_initial_values": 3, "num_initial_labels": 3}, 9),
    "CompGPUCB": (CompGPUCB, {**BOX, **PRICES}, 10),
    "CostAwareKG, a table": (CostAwareKG, {**TABLE, **PRICES}, 9),
}


def queries(name: str) -> list[Any]:
    """What is asked by a strategy, whose judge likes what is near the middle."""
    kind, options, number = SUBJECTS[name]
    strategy: Strategy = kind(**options, seed=1)
    asked = []
    for _ in range(number):
        query = strategy.ask()
        asked.append(query.to_json())
        values = -(query.rows - 0.4).square().sum(-1)
        of_one = float(values[0]) if query.measures else float(values[0] > -0.2)
        strategy.tell(query, float(values[0] > values[-1]) if query.compares else of_one)
    return asked


def of_threads(number: int) -> dict[str, Any]:
    """What each strategy asks in a process of so many threads."""
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.strategies.test_threads"],
        env={**os.environ, "OMP_NUM_THREADS": str(number), "MKL_NUM_THREADS": str(number)},
        capture_output=True,
        text=True,
        check=True,
    )
    result: dict[str, Any] = json.loads(found.stdout)
    assert result.pop("threads") == number
    return result


@pytest.mark.slow
@pytest.mark.parametrize("number", [2, 4])
def test_the_same_queries_for_any_number_of_threads(number: int) -> None:
    one, several = of_threads(1), of_threads(number)
    assert [name for name in SUBJECTS if one[name] != several[name]] == []


if __name__ == "__main__":
    names = sys.argv[1:] or [*SUBJECTS]
    threads: dict[str, Any] = {"threads": torch.get_num_threads()}
    json.dump(threads | {name: queries(name) for name in names}, sys.stdout)
