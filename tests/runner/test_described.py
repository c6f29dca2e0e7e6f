"""What tells factories apart in a folder of runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.problems import TableProblem
from botorch_pref.runner import run_experiment
from botorch_pref.runner.described import described
from botorch_pref.strategies import PFTS, MaxMinLCBStrategy, RandomPairs


class Plain:
    def __init__(self, number: float) -> None:
        self.number = number

    def method(self) -> None: ...


def made(beta: float) -> Callable[..., Any]:
    def factory(space: Any, seed: int) -> Any:
        return MaxMinLCBStrategy(space=space, seed=seed, beta=beta)

    return factory


def test_names_and_arguments() -> None:
    assert described(PFTS) == "PFTS"
    assert described(PFTS.paper) == "PFTS.paper"
    text = described(partial(PFTS.paper, kappa=4.0, hyperparameters={"penalty": 0.1}))
    assert text == "PFTS.paper(kappa=4.0, hyperparameters={'penalty': 0.1})"
    # An address would differ in the next process.
    for factory in (partial(PFTS, Plain(1.0)), Plain(1.0).method):
        assert "0x" not in described(factory)


def test_functions_without_a_name_of_their_own_are_told_apart() -> None:
    assert described(made(0.1)) == described(made(0.1))
    assert described(made(0.1)) != described(made(5.0))
    one, two = (lambda seed: seed), (lambda seed: seed + 1)
    assert described(one) != described(two)
    assert described(partial(PFTS, link=one)) != described(partial(PFTS, link=two))

    def with_default(seed: int, beta: float = 1.0) -> float:
        return beta * seed

    before = described(with_default)
    with_default.__defaults__ = (2.0,)
    assert described(with_default) != before


@pytest.mark.parametrize("kind", [torch.tensor, np.array])
def test_long_tables_count_to_the_last_row(kind: Any) -> None:
    rows = [[float(k), 0.5] for k in range(2000)]
    other = [*rows[:1000], [-1.0, 0.5], *rows[1001:]]
    texts = [described(partial(PFTS, choices=kind(table))) for table in (rows, other)]
    assert texts[0] != texts[1]
    nested = [described(partial(PFTS, options={"x": [kind(table)]})) for table in (rows, other)]
    assert nested[0] != nested[1]


def test_other_settings_are_not_taken_for_those_of_a_folder(tmp_path: Path) -> None:
    items = torch.linspace(0.0, 1.0, 6, dtype=torch.double).unsqueeze(-1)
    utilities = (items - 0.4).square().neg().squeeze(-1)

    class Table(TableProblem):
        name = "table"

    def play(table: torch.Tensor, factory: Any) -> None:
        problem = Table(table, utilities, [(0.0, 1.0)])
        run_experiment(problem, {"m": factory}, 2, seeds=1, directory=tmp_path, progress=False)

    play(items, made(0.1))
    play(items, made(0.1))
    for other in (made(5.0), RandomPairs):
        with pytest.raises(UnsupportedError, match="its strategy 'm' is"):
            play(items, other)
    with pytest.raises(UnsupportedError, match="its items is"):
        play(items.flip(0), made(0.1))
