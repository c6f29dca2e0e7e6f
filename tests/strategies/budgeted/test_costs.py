"""Costs that add up exactly."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.strategies.budgeted import BudgetSettings, Costs
from botorch_pref.strategies.budgeted.costs import exact


def test_amounts_are_what_was_written() -> None:
    assert exact("budget", 0.3) / exact("duel_cost", 0.1) == 3  # 2.9999999999999996 in floats
    assert exact("duel_cost", "1/3") == Fraction(1, 3)
    costs = BudgetSettings.checked(duel_cost=0.1, value_cost=1, budget=0.3).costs
    assert costs.affords(costs.duel, costs.spent(2, 0))
    assert not costs.affords(costs.duel, costs.spent(3, 0))
    assert BudgetSettings.checked(budget=100).costs.most_values == 100
    for wrong in (0, -1, "x", None, True, math.nan, math.inf):
        with pytest.raises(ComparisonDataError, match="`duel_cost` must be a positive"):
            exact("duel_cost", wrong)
        with pytest.raises(ComparisonDataError, match="`duel_cost` must be a positive"):
            BudgetSettings.checked(duel_cost=wrong)


def test_without_a_budget_everything_can_be_paid() -> None:
    costs = Costs(Fraction(1), Fraction(2), None)
    assert costs.affords(Fraction(10**9), Fraction(10**9))
    with pytest.raises(ComparisonDataError, match="`budget`"):
        costs.most_values  # noqa: B018
