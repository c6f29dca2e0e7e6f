r"""Tuning a network: a problem made of measured validation accuracies.

References:
.. [Lazzaro2026] A. Lazzaro, D. Buffelli, D. Shiu, S. Vakili. A Finite Time Analysis of
    Thompson Sampling for Bayesian Optimization with Preferential Feedback.
    arXiv:2604.25025, 2026.
"""

from __future__ import annotations

from importlib import resources

import pandas as pd
import torch

from botorch_pref.problems.table import TableProblem

HYPERPARAMETERS = ("batch_size", "units", "learning_rate", "momentum", "weight_decay")
_LOGARITHMIC = ("batch_size", "units", "learning_rate", "weight_decay")
_FILE = "digits_tuning.csv"


class DigitsTuning(TableProblem):
    r"""Validation accuracy of 40 configurations of a network on handwritten digits.

    A stand-in for the LCBench experiment of [Lazzaro2026], App. F, with the same five
    hyperparameters, on networks with four hidden layers; it is not LCBench. The table
    was measured once, by ``python -m experiments.problems.digits``, which says how.

    An item is a configuration: batch size, units a layer, learning rate, momentum and
    weight decay, in this order, all but momentum as logarithms, each shifted and scaled
    to ``[0, 1]`` over the table. The utility is the validation accuracy, mean of three
    trainings, divided by 10: from 0 to 10 for 0 to 100 percent. Only the measured
    configurations can be evaluated.

    Attributes:
        configurations: A row a choice: the five hyperparameters in their own units, and
            the accuracies in percent, ``accuracy_0`` to ``accuracy_2`` of a training
            each and ``accuracy`` their mean.
    """

    name = "digitstuning"
    _bounds = [(0.0, 1.0)] * 5
    _kind = "measured configuration"

    def __init__(self) -> None:
        r"""Load the measurements."""
        path = resources.files("experiments.problems") / "data" / _FILE
        with path.open(encoding="utf-8") as file:
            table = pd.read_csv(file)
        values = torch.tensor(table[list(HYPERPARAMETERS)].to_numpy(), dtype=torch.double)
        logarithmic = torch.tensor([name in _LOGARITHMIC for name in HYPERPARAMETERS])
        values[:, logarithmic] = values[:, logarithmic].log10()
        lower, upper = values.aminmax(dim=0)
        accuracies = torch.tensor(table["accuracy"].to_numpy(), dtype=torch.double)
        super().__init__((values - lower) / (upper - lower), accuracies / 10.0)
        self.configurations = table
