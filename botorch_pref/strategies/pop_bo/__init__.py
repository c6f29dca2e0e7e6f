r"""POP-BO: every item meets the one before it, and may be much better.

Xu, Wang, Jiang, Svetozarevic and Jones, *Principled Preferential Bayesian Optimization* (2024).
"""

from botorch_pref.strategies.pop_bo.multiple_choice import MultipleChoicePOPBO
from botorch_pref.strategies.pop_bo.reports import Report
from botorch_pref.strategies.pop_bo.strategy import POPBO

__all__ = ["POPBO", "MultipleChoicePOPBO", "Report"]
