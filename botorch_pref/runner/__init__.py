r"""Simulations: strategies, simulated judges and what came of them."""

from botorch_pref.runner.experiment import run_experiment
from botorch_pref.runner.history import History, replacing
from botorch_pref.runner.run import RunError, num_threads
from botorch_pref.runner.simulation import random_play, simulate
from botorch_pref.runner.summary import cost_regrets, regrets_at, summarise

__all__ = [
    "History",
    "RunError",
    "cost_regrets",
    "num_threads",
    "random_play",
    "regrets_at",
    "replacing",
    "run_experiment",
    "simulate",
    "summarise",
]
