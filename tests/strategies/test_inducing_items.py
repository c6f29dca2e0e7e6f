"""Inference through inducing items within strategies."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.queries import Duel
from botorch_pref.strategies import EUBO, PFTS, MaxMinLCBStrategy
from tests.models.common import rand
from tests.strategies.common import FIXED, GRID

BOX = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)


@pytest.mark.parametrize("kind", [PFTS, EUBO, MaxMinLCBStrategy])
def test_inducing_items_in_a_strategy(kind: Any) -> None:
    """Its model has so many; a state has them, too; and it is the same whenever asked for."""
    strategy = kind(bounds=BOX, inducing_points=6, hyperparameters=FIXED, seed=0)
    for number in range(12):
        items = rand(2, 2, seed=number)
        strategy.learner.add(Duel(number, items, None, None), float(items[0, 0] > items[1, 0]))
        strategy.learner.model()
    model = strategy.learner.model()
    assert model.inducing_points.shape == (6, 2)
    other = kind(bounds=BOX, inducing_points=6, hyperparameters=FIXED, seed=0)
    for number in range(12):
        items = rand(2, 2, seed=number)
        other.learner.add(Duel(number, items, None, None), float(items[0, 0] > items[1, 0]))
    at = rand(5, 2, seed=3)
    assert torch.equal(other.learner.model().posterior(at).mean, model.posterior(at).mean)
    query = strategy.ask()
    strategy.tell(query, 1.0)
    again = kind.from_state_dict(strategy.state_dict())
    assert again.learner.inducing_points == 6


def test_inducing_items_are_for_boxes() -> None:
    with pytest.raises(UnsupportedError, match="`inducing_points` are for boxes"):
        EUBO(choices=GRID, inducing_points=6)
    with pytest.raises(ComparisonDataError, match="`inducing_points`"):
        EUBO(bounds=BOX, inducing_points=0)
