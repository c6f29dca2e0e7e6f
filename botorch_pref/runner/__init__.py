r"""Simulations: strategies, simulated judges and what came of them."""

from botorch_pref.runner.history import History, replacing
from botorch_pref.runner.simulation import random_play, simulate

__all__ = ["History", "random_play", "replacing", "simulate"]
