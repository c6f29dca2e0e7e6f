r"""Simulations: strategies, simulated judges and what came of them."""

from botorch_pref.runner.cost_regrets import cost_regrets, regrets_at
from botorch_pref.runner.experiment import run_experiment
from botorch_pref.runner.history import History, replacing
from botorch_pref.runner.run import RunError
from botorch_pref.runner.simulation import random_play, simulate
from botorch_pref.runner.summary import summarise

__all__ = [
    "History",
    "RunError",
    "cost_regrets",
    "random_play",
    "regrets_at",
    "replacing",
    "run_experiment",
    "simulate",
    "summarise",
]
