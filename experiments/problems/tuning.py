r"""Tuning a network on digits: measured validation accuracies, and how they were measured.

References:
.. [Lazzaro2026] A. Lazzaro, D. Buffelli, D. Shiu, S. Vakili. A Finite Time Analysis of
    Thompson Sampling for Bayesian Optimization with Preferential Feedback.
    arXiv:2604.25025, 2026.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import resources
from itertools import pairwise
from pathlib import Path

import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.quasirandom import SobolEngine

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.problems.base import TableProblem
from botorch_pref.progress import tracked
from botorch_pref.randomness import derive_seed, seeded
from botorch_pref.runner import num_threads

HYPERPARAMETERS = ("batch_size", "units", "learning_rate", "momentum", "weight_decay")
_LOGARITHMIC = ("batch_size", "units", "learning_rate", "weight_decay")
_FILE = "digits_tuning.csv"


class DigitsTuning(TableProblem):
    r"""Validation accuracy of 40 configurations of a network on handwritten digits.

    A stand-in for the LCBench experiment of [Lazzaro2026], App. F, with the same five
    hyperparameters, on networks with four hidden layers; it is not LCBench. The table
    was measured once, by ``python -m experiments.problems.tuning``, which says how.

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


# Lower and upper bound, and whether the scale is logarithmic.
RANGES = {
    "batch_size": (8.0, 256.0, True),
    "units": (8.0, 256.0, True),
    "learning_rate": (1e-4, 1e-1, True),
    "momentum": (0.0, 0.99, False),
    "weight_decay": (1e-6, 1e-1, True),
}
HIDDEN_LAYERS = 4
NUM_CONFIGURATIONS = 40
NUM_REPEATS = 3
EPOCHS = 25


def configurations(num: int = NUM_CONFIGURATIONS, seed: int = 0) -> pd.DataFrame:
    r"""The first points of a scrambled Sobol sequence over ``RANGES``.

    Args:
        num: The number of configurations.
        seed: The seed of the scrambling.

    Returns:
        A row a configuration and a column a hyperparameter. Batch size and units are
        rounded to whole numbers, the others to four significant digits.
    """
    sobol = SobolEngine(len(RANGES), scramble=True, seed=derive_seed(seed, "problem", 0) % 2**32)
    points = sobol.draw(num, dtype=torch.double)
    columns: dict[str, list[float]] = {}
    for position, (name, (lower, upper, logarithmic)) in zip(
        points.unbind(-1), RANGES.items(), strict=True
    ):
        if logarithmic:
            values = lower * (upper / lower) ** position
        else:
            values = lower + (upper - lower) * position
        columns[name] = [float(f"{value:.4g}") for value in values.tolist()]
    table = pd.DataFrame(columns)
    whole = ["batch_size", "units"]
    table[whole] = table[whole].round().astype(int)
    return table


class DigitsData:
    r"""scikit-learn's 1797 handwritten digits, in two halves with like shares of each digit.

    Attributes:
        pixels: An ``897 x 64``-dim tensor of pixels in ``[0, 1]`` to train on.
        labels: Its ``897``-dim digits.
        held_out_pixels: The ``900 x 64``-dim tensor to validate on.
        held_out_labels: Its ``900``-dim digits.
    """

    def __init__(self) -> None:
        r"""Load and split the digits.

        Raises:
            UnsupportedError: If scikit-learn is not installed.
        """
        try:
            from sklearn.datasets import load_digits
            from sklearn.model_selection import train_test_split
        except ImportError as error:
            raise UnsupportedError(
                "the digits come with scikit-learn: pip install botorch-pref[bench]."
            ) from error
        pixels, labels = load_digits(return_X_y=True)
        halves = train_test_split(
            pixels / 16.0, labels, test_size=900, random_state=0, stratify=labels
        )
        self.pixels, self.held_out_pixels = (torch.tensor(part).float() for part in halves[:2])
        self.labels, self.held_out_labels = (torch.tensor(part) for part in halves[2:])


def network(units: int) -> nn.Sequential:
    r"""The network, its weights drawn from the global generator by He's rule, its biases zero.

    torch's own rule shrinks the signal from layer to layer, so that half of the
    configurations would never leave chance.

    Args:
        units: The width of each hidden layer.

    Returns:
        A module from ``... x 64``-dim pixels to ``... x 10``-dim logits.
    """
    widths = [64] + [units] * HIDDEN_LAYERS
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(units, 10))
    for parameter in model.parameters():
        if parameter.dim() == 2:
            nn.init.kaiming_normal_(parameter, nonlinearity="relu")
        else:
            nn.init.zeros_(parameter)
    return model


def validation_accuracy(
    data: DigitsData,
    batch_size: int,
    units: int,
    learning_rate: float,
    momentum: float,
    weight_decay: float,
    *,
    epochs: int = EPOCHS,
    seed: int = 0,
) -> float:
    r"""Train one network and validate it once, after the last epoch.

    Args:
        data: The digits.
        batch_size: The number of images a step; the last batch of an epoch is smaller.
        units: The width of each hidden layer.
        learning_rate: The step size.
        momentum: The momentum of the gradient.
        weight_decay: The factor of the weights that is added to the gradient.
        epochs: How often every training image is seen.
        seed: The seed of the initial weights and of the order of the images.

    Returns:
        The share of validation images that are classified rightly, in percent. A
        network whose weights overflow names one digit throughout: about 10 percent.
    """
    with seeded(derive_seed(seed, "fit", 0)):
        model = network(units)
        optimizer = torch.optim.SGD(
            model.parameters(), lr=learning_rate, momentum=momentum, weight_decay=weight_decay
        )
        for _ in range(epochs):
            for rows in torch.randperm(len(data.labels)).split(batch_size):
                optimizer.zero_grad()
                cross_entropy(model(data.pixels[rows]), data.labels[rows]).backward()
                optimizer.step()
        with torch.no_grad():
            predicted: Tensor = model(data.held_out_pixels).argmax(dim=-1)
    return 100.0 * (predicted == data.held_out_labels).double().mean().item()


def digits_table(
    num: int = NUM_CONFIGURATIONS,
    repeats: int = NUM_REPEATS,
    epochs: int = EPOCHS,
    seed: int = 0,
    progress: bool = True,
) -> pd.DataFrame:
    r"""Measure all configurations, on one thread.

    Args:
        num: The number of configurations.
        repeats: How often each is trained; repeat ``i`` has training seed ``i``.
        epochs: How often every training image is seen.
        seed: The seed of the configurations.
        progress: Whether to show a progress bar on the standard error stream.

    Returns:
        The table of :func:`configurations`, with a column ``accuracy_0``, ``accuracy_1``,
        ... a repeat and their mean in ``accuracy``: validation accuracies in percent.
    """
    data = DigitsData()
    table = configurations(num, seed)
    with num_threads():
        rows = [
            [
                validation_accuracy(data, *row, epochs=epochs, seed=repeat)
                for repeat in range(repeats)
            ]
            for row in tracked(table.itertuples(index=False), "digits", num, show=progress)
        ]
    accuracies = pd.DataFrame(rows, columns=[f"accuracy_{repeat}" for repeat in range(repeats)])
    return table.join(accuracies).assign(accuracy=accuracies.mean(axis=1))


def main(argv: Sequence[str] | None = None) -> int:
    """``python -m experiments.problems.tuning``."""
    parser = argparse.ArgumentParser(prog="python -m experiments.problems.tuning")
    parser.add_argument("--out", type=Path, required=True, help="the CSV file to write")
    for name, default in (
        ("configurations", NUM_CONFIGURATIONS),
        ("repeats", NUM_REPEATS),
        ("epochs", EPOCHS),
    ):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default {default}")
    arguments = parser.parse_args(argv)
    for name in ("configurations", "repeats", "epochs"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name} must be at least 1")
    table = digits_table(arguments.configurations, arguments.repeats, arguments.epochs)
    # Ten digits keep the file readable and every accuracy exact to far below one image.
    table.to_csv(arguments.out, index=False, float_format="%.10g", lineterminator="\n")
    best = table["accuracy"].max()
    print(f"{len(table)} configurations; best mean validation accuracy {best:.2f} %")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
