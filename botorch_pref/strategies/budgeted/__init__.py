r"""What every strategy shares that pays for duels and values out of one budget."""

from botorch_pref.strategies.budgeted.costs import Amount, Costs
from botorch_pref.strategies.budgeted.options import BudgetOptions, BudgetSettings
from botorch_pref.strategies.budgeted.record import Kind, QueryRecord
from botorch_pref.strategies.budgeted.strategy import BudgetedStrategy, Chosen

__all__ = [
    "Amount",
    "BudgetOptions",
    "BudgetSettings",
    "BudgetedStrategy",
    "Chosen",
    "Costs",
    "Kind",
    "QueryRecord",
]
