import copy
import math
from importlib import resources

import pytest
import torch

from botorch_pref.problems import ItemError
from experiments.problems import DigitsTuning
from experiments.problems.tuning import HYPERPARAMETERS


def test_facts_of_the_data() -> None:
    problem = DigitsTuning()
    assert problem.name == "digitstuning"
    assert problem.dim == 5
    assert problem.bounds.tolist() == [[0.0] * 5, [1.0] * 5]
    assert problem.choices.shape == (40, 5)
    assert problem.choices.dtype == problem.utilities.dtype == torch.double
    assert len(problem.choices.unique(dim=0)) == 40
    table = problem.configurations
    repeats = [f"accuracy_{repeat}" for repeat in range(3)]
    assert list(table.columns) == [*HYPERPARAMETERS, *repeats, "accuracy"]
    assert len(table) == 40
    for name, lower, upper in (
        ("batch_size", 8, 256),
        ("units", 8, 256),
        ("learning_rate", 1e-4, 1e-1),
        ("momentum", 0.0, 0.99),
        ("weight_decay", 1e-6, 1e-1),
        ("accuracy", 0.0, 100.0),
    ):
        assert table[name].between(lower, upper).all()
    # Whole numbers of 900 validation images.
    images = torch.tensor(table[repeats].to_numpy()) * 9.0
    assert torch.allclose(images, images.round(), atol=1e-6)
    assert table["accuracy"].to_numpy() == pytest.approx(images.numpy().mean(axis=1) / 9.0)


def test_utilities_are_tenths_of_percent() -> None:
    problem = DigitsTuning()
    accuracies = problem.configurations["accuracy"]
    assert problem.utilities.tolist() == pytest.approx((accuracies / 10.0).tolist(), rel=1e-15)
    best, runner_up = problem.utilities.topk(2).values.tolist()
    assert best == problem.optimal_value == pytest.approx(9.737037, abs=1e-6)
    assert runner_up == pytest.approx(9.729630, abs=1e-6)
    assert problem.utilities.min().item() == pytest.approx(0.977778, abs=1e-6)
    assert problem.configurations["accuracy"].median() == pytest.approx(81.185185, abs=1e-6)
    winner = problem.configurations.iloc[int(problem.utilities.argmax())]
    assert winner[list(HYPERPARAMETERS)].tolist() == [19, 154, 0.04856, 0.2611, 0.0001404]


def test_choices_are_normalised_configurations() -> None:
    problem = DigitsTuning()
    assert problem.choices.amin(dim=0).tolist() == [0.0] * 5
    assert problem.choices.amax(dim=0).tolist() == [1.0] * 5
    for column, name in enumerate(HYPERPARAMETERS):
        raw = problem.configurations[name].tolist()
        values = raw if name == "momentum" else [math.log(value) for value in raw]
        low, high = min(values), max(values)
        expected = [(value - low) / (high - low) for value in values]
        assert problem.choices[:, column].tolist() == pytest.approx(expected, abs=1e-12)


def test_lookup() -> None:
    problem = DigitsTuning()
    assert torch.equal(problem(problem.choices), problem.utilities)
    assert torch.equal(copy.deepcopy(problem).utilities, DigitsTuning().utilities)
    middle = torch.full((5,), 0.5, dtype=torch.double)
    with pytest.raises(ItemError, match=r"not a measured configuration in row \[1\]"):
        problem(torch.stack([problem.choices[0], middle]))


def test_origin_is_shipped() -> None:
    notes = resources.files("botorch_pref.problems") / "data" / "README.md"
    text = notes.read_text(encoding="utf-8")
    section = text[text.index("digits_tuning.csv") :]
    for part in (
        "python -m experiments.problems.digits",
        "scikit-learn",
        "MIT",
        *HYPERPARAMETERS,
    ):
        assert part in section
