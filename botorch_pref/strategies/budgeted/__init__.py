r"""What every strategy shares that pays for duels and values out of one budget."""

from botorch_pref.strategies.budgeted.costs import Amount, Costs
from botorch_pref.strategies.budgeted.multiples import BetaWord, LogBeta
from botorch_pref.strategies.budgeted.options import (
    BudgetOptions,
    BudgetSettings,
    ModelOptions,
    ModelSettings,
    WidthOptions,
    WidthSettings,
)
from botorch_pref.strategies.budgeted.record import Kind, QueryRecord, WidthRecord
from botorch_pref.strategies.budgeted.strategy import BudgetedStrategy, Chosen
from botorch_pref.strategies.budgeted.two_models import TwoModelStrategy

__all__ = [
    "Amount",
    "BetaWord",
    "BudgetOptions",
    "BudgetSettings",
    "BudgetedStrategy",
    "Chosen",
    "Costs",
    "Kind",
    "LogBeta",
    "ModelOptions",
    "ModelSettings",
    "QueryRecord",
    "TwoModelStrategy",
    "WidthOptions",
    "WidthRecord",
    "WidthSettings",
]
