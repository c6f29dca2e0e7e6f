"""The first queries in three dimensions, in one thread and in two, on one machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
import torch

from botorch_pref.randomness import torch_threads
from botorch_pref.space.search_space import MOST_EXACT
from botorch_pref.strategies import COBOL, EUBO, PFTS, RandomPairs, Strategy

BOX = {"bounds": torch.tensor([[0.0], [1.0]]).double().repeat(1, 3)}
SUBJECTS: dict[str, tuple[Any, dict[str, Any], int]] = {
    "PFTS": (PFTS, BOX, 6),
    "EUBO": (EUBO, BOX, 6),
    "COBOL": (COBOL, {**BOX, "num_initial_values": 3, "num_initial_labels": 3}, 9),
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


class _Counts(RandomPairs):
    """Says on how many threads it chooses."""

    def _pair(self, annotator: str | None) -> Any:
        self.threads = torch.get_num_threads()
        if self.fails:
            raise ArithmeticError
        return super()._pair(annotator)

    fails = False


def test_small_problems_are_on_one_thread() -> None:
    large = torch.rand(MOST_EXACT + 1, 2, generator=torch.Generator().manual_seed(0)).double()
    with torch_threads(3):
        for space, expected in ((BOX, 1), ({"choices": large[:-1]}, 1), ({"choices": large}, 3)):
            strategy = _Counts(**space, seed=0)
            strategy.ask()
            assert strategy.threads == expected
            assert torch.get_num_threads() == 3
            strategy.fails = True
            with pytest.raises(ArithmeticError):
                strategy.ask("ann")
            assert torch.get_num_threads() == 3


@pytest.mark.slow
def test_the_same_queries_in_one_thread_and_in_two() -> None:
    one, two = of_threads(1), of_threads(2)
    assert [name for name in SUBJECTS if one[name] != two[name]] == []


if __name__ == "__main__":
    threads: dict[str, Any] = {"threads": torch.get_num_threads()}
    json.dump(threads | {name: queries(name) for name in SUBJECTS}, sys.stdout)
