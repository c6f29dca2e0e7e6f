"""Whether an expert harms or helps, over many searches."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pandas as pd
import pytest

from botorch_pref.problems import Ackley, SyntheticExpert
from botorch_pref.runner import run_experiment
from botorch_pref.strategies import COBOL

SEEDS, VALUES, EVALUATIONS = 20, 5, 25


def simple_regrets(accuracy: float, **options: Any) -> pd.Series[float]:
    """The simple regret of every seed, after equal numbers of evaluations."""
    table = run_experiment(
        Ackley(dim=2, half_width=1.0),
        {"strategy": partial(COBOL, num_initial_values=VALUES, **options)},
        15 + VALUES + 6 * EVALUATIONS,
        SEEDS,
        partial(SyntheticExpert, accuracy=accuracy, rho_range=(-3.63, 0.0)),  # of the box
        evaluations=VALUES + EVALUATIONS,
        progress=False,
    )
    assert (table.groupby("seed")["num_evaluations"].last() == VALUES + EVALUATIONS).all()
    return table.groupby("seed")["simple_regret"].last()


@pytest.mark.slow
def test_no_harm_and_help() -> None:
    """Both on Ackley's function in two dimensions, paired by seed."""
    plain = {"candidate": "primal-dual", "trust_weight": 0.0, "rate": 0.0}
    alone = simple_regrets(1.0, threshold=math.inf, num_initial_labels=0, **plain)
    for accuracy in (-2.0, 2.0):
        more = simple_regrets(accuracy) - alone
        assert more.mean() <= 2.0 * more.std() / math.sqrt(SEEDS)
