"""What an answer costs as answers grow in number, hyperparameters fixed."""

from __future__ import annotations

import statistics
import time
from typing import Any

import pytest
import torch

from botorch_pref.problems import get_problem
from botorch_pref.problems.judges import LogisticJudge
from botorch_pref.runner import num_threads
from botorch_pref.strategies import DTS, EUBO, PFTS, MaxMinLCBStrategy

KNOWN: dict[str, Any] = {"kernel": "rbf", "lengthscale": 0.5, "outputscale": 4.0}


@pytest.mark.slow
@pytest.mark.parametrize("kappa", ["laplace", 4.0])
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (PFTS, {}),
        (EUBO, {}),
        (DTS, {}),
        (MaxMinLCBStrategy, {}),
    ],
)
def test_the_hundredth_costs_at_most_four_times_the_tenth(
    kind: Any, options: dict[str, Any], kappa: Any
) -> None:
    """Ask and tell, six dimensions, one thread; each a median of five."""
    problem = get_problem("hartmann6")
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.float64).expand(2, 6)
    strategy = kind(bounds=bounds, hyperparameters=KNOWN, kappa=kappa, seed=0, **options)
    judge, seconds = LogisticJudge(problem, 0), []
    with num_threads(1):
        for step in range(103):
            begin = time.process_time()
            query = strategy.ask()
            asked = time.process_time() - begin
            answer = judge(query, step)
            begin = time.process_time()
            strategy.tell(query, answer)
            seconds.append(asked + time.process_time() - begin)
    tenth, hundredth = statistics.median(seconds[7:12]), statistics.median(seconds[97:102])
    assert hundredth <= 4.0 * tenth, (tenth, hundredth)
