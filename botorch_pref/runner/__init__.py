r"""Simulations: strategies, simulated judges and what came of them."""

from botorch_pref.runner.experiment import run_experiment
from botorch_pref.runner.history import History, replacing
from botorch_pref.runner.run import RunError
from botorch_pref.runner.simulation import random_play, simulate
from botorch_pref.runner.summary import summarise

__all__ = [
    "History",
    "RunError",
    "random_play",
    "replacing",
    "run_experiment",
    "simulate",
    "summarise",
]
