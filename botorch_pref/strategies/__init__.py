r"""Ask/tell strategies, one published system a module."""

from botorch_pref.strategies.base import Strategy
from botorch_pref.strategies.pf_ts import PFTS
from botorch_pref.strategies.schedules import Schedule
from botorch_pref.strategies.utility import UtilityStrategy

__all__ = ["PFTS", "Schedule", "Strategy", "UtilityStrategy"]
