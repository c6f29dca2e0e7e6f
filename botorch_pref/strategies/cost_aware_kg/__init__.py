r"""Duels or values, whichever is expected to gain more for its price."""

from botorch_pref.strategies.cost_aware_kg.record import GainRecord
from botorch_pref.strategies.cost_aware_kg.strategy import CostAwareKG

__all__ = ["CostAwareKG", "GainRecord"]
