r"""Simulations of strategies with simulated judges, and their results as tables."""

from botorch_pref.runner.experiment import RunError, num_threads, run_experiment, summarise
from botorch_pref.runner.simulation import History, random_play, simulate
from botorch_pref.runner.store import replacing

__all__ = [
    "History",
    "RunError",
    "num_threads",
    "random_play",
    "replacing",
    "run_experiment",
    "simulate",
    "summarise",
]
