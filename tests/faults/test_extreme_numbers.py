"""Numbers whose squares, ranges or tables cannot be represented are refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from botorch_pref.exceptions import ComparisonDataError, SearchSpaceError, UnsupportedError
from botorch_pref.models import PreferenceGP
from botorch_pref.problems.registry import get_problem
from botorch_pref.queries import Duel, Evaluate
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import (
    COBOL,
    DTS,
    EUBO,
    PFTS,
    POPBO,
    CompGPUCB,
    CostAwareKG,
    DuelingKG,
    LaplacePOPBO,
    MaxMinLCBStrategy,
    RandomPairs,
)
from tests.models.common import rand

PAIRS = torch.tensor([[0, 1], [2, 3]])
BOX = torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double()
HUGE = torch.tensor([[1.7e308, 0.0], [-1.7e308, 1.0], [1.0, 2.0]]).double()


def box(lower: float, upper: float, **kinds: Any) -> SearchSpace:
    return SearchSpace(torch.tensor([[lower], [upper]], dtype=torch.double), **kinds)


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (
            lambda: PreferenceGP(rand(5, 2) * 1e300, PAIRS),
            ComparisonDataError,
            "`datapoints` row 0",
        ),
        (
            lambda: PreferenceGP(None, None, values=(rand(2, 2), rand(2, 1) * 1e300)),
            ComparisonDataError,
            r"`values\[1\]` row 0",
        ),
        (lambda: box(-1e308, 1e308), SearchSpaceError, "`bounds` row 0"),
        (lambda: box(0.0, 1e-320), SearchSpaceError, "`bounds` column 0"),
        (lambda: box(1.0, 1.0 + 1e-15), SearchSpaceError, "`bounds` column 0"),
        (lambda: box(0.0, 1e5, categorical=[0]), SearchSpaceError, "`categorical` dimension 0"),
        (lambda: EUBO(choices=HUGE), SearchSpaceError, "`choices` row 0"),
        (lambda: PFTS(choices=torch.ones(2, 2).double()), SearchSpaceError, "`choices` are all"),
        (
            lambda: EUBO(bounds=BOX, known=[(Duel(0, BOX * 2.0), 1.0)]),
            ComparisonDataError,
            "`known` row 0: its items .* outside",
        ),
        (lambda: Evaluate(0, BOX[0]).checked(1e300), ComparisonDataError, "`answer`"),
        (lambda: EUBO(bounds=BOX, kappa=10**400), ComparisonDataError, "`kappa`"),
        (
            lambda: EUBO(bounds=BOX, hyperparameters={"lengthscale": 1e60, "outputscale": 1.0}),
            ComparisonDataError,
            "`lengthscale`",
        ),
        (lambda: get_problem("ackley", num_choices=10**11), UnsupportedError, "`num_choices`"),
        (lambda: get_problem("ackley", dim=10**11), UnsupportedError, "`dim`"),
    ],
)
def test_they_are_refused(make: Callable[[], Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        make()


PRICES = {"num_initial_duels": 3, "num_initial_values": 2, "budget": None, "duel_cost": 0.01}


@pytest.mark.usefixtures("short_searches")
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        *((kind, {}) for kind in (DTS, DuelingKG, EUBO, LaplacePOPBO, MaxMinLCBStrategy, PFTS)),
        *((kind, {}) for kind in (POPBO, RandomPairs)),
        *((kind, PRICES) for kind in (CompGPUCB, CostAwareKG)),
        (PFTS, {"question": "best of 3"}),
        (COBOL, {"num_initial_values": 2, "num_initial_labels": 4, "feedback": "compare"}),
    ],
)
def test_equal_choices_do_not_meet(kind: Any, options: dict[str, Any]) -> None:
    for seed in range(2):
        items = rand(3, 1)[[0, 1, 0, 0, 2, 0, 0, 0]]
        strategy, asked = kind(choices=items, seed=seed, **options), 0
        for _ in range(8):
            query = strategy.ask()
            if query.compares:
                assert len(query.items.unique(dim=0)) == len(query.items)
                asked += 1
            strategy.tell(query, 1.0)
        assert asked > 2
