"""The script that measured the table of DigitsTuning, on a few short trainings."""

from pathlib import Path

import pandas as pd
import pytest
import torch
from torch import nn

from botorch_pref.exceptions import UnsupportedError
from experiments.problems import DigitsTuning, digits
from experiments.problems.tuning import HYPERPARAMETERS

pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def data() -> digits.DigitsData:
    return digits.DigitsData()


def test_configurations_are_those_of_the_problem() -> None:
    table = digits.configurations()
    assert tuple(table.columns) == tuple(digits.RANGES) == HYPERPARAMETERS
    shipped = DigitsTuning().configurations[list(HYPERPARAMETERS)]
    pd.testing.assert_frame_equal(table, shipped, rtol=1e-9)
    pd.testing.assert_frame_equal(digits.configurations(7), table[:7])
    assert not digits.configurations(seed=1).equals(table)
    # A Sobol sequence: the first 32 points have two in each sixteenth of each range.
    for name, (lower, upper, logarithmic) in digits.RANGES.items():
        values = torch.tensor(table[name].to_numpy()[:32], dtype=torch.double)
        low, high = torch.tensor([lower, upper], dtype=torch.double)
        if logarithmic:
            values, low, high = values.log(), low.log(), high.log()
        position = (values - low) / (high - low)
        assert position.min() >= 0.0
        assert position.max() <= 1.0
        if name not in ("batch_size", "units"):  # rounded to whole numbers
            counts = torch.histc(position, bins=16, min=0.0, max=1.0)
            assert counts.tolist() == [2.0] * 16


def test_data(data: digits.DigitsData) -> None:
    assert data.pixels.shape == (897, 64)
    assert data.held_out_pixels.shape == (900, 64)
    assert data.pixels.dtype == torch.float
    assert data.pixels.min() == 0.0
    assert data.pixels.max() == 1.0
    for labels in (data.labels, data.held_out_labels):
        assert labels.dtype == torch.long
        assert labels.bincount().tolist() == pytest.approx([90] * 10, abs=4)
    again = digits.DigitsData()
    assert torch.equal(again.pixels, data.pixels)
    assert torch.equal(again.held_out_labels, data.held_out_labels)


def test_network_has_four_hidden_layers() -> None:
    model = digits.network(400)
    shapes = [tuple(layer.weight.shape) for layer in model if isinstance(layer, nn.Linear)]
    assert shapes == [(400, 64), (400, 400), (400, 400), (400, 400), (10, 400)]
    kinds = [type(layer) for layer in model]
    assert kinds == [nn.Linear, nn.ReLU] * 4 + [nn.Linear]
    for layer in model:
        if isinstance(layer, nn.Linear):
            assert layer.bias.abs().max() == 0.0
            he = (2.0 / layer.in_features) ** 0.5
            assert layer.weight.std().item() == pytest.approx(he, rel=0.05)


def test_accuracy(data: digits.DigitsData) -> None:
    state = torch.get_rng_state()
    options = {"batch_size": 32, "units": 32, "momentum": 0.9, "weight_decay": 1e-4}
    good = digits.validation_accuracy(data, learning_rate=0.03, **options, epochs=6, seed=0)
    assert good > 80.0
    assert good == digits.validation_accuracy(data, learning_rate=0.03, **options, epochs=6, seed=0)
    assert good != digits.validation_accuracy(data, learning_rate=0.03, **options, epochs=6, seed=1)
    assert digits.validation_accuracy(data, learning_rate=1e-9, **options, epochs=1) < 40.0
    assert digits.validation_accuracy(data, learning_rate=1e9, **options, epochs=1) < 15.0
    assert torch.equal(torch.get_rng_state(), state)


def test_main_writes_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    threads = torch.get_num_threads()
    path = tmp_path / "table.csv"
    arguments = ["--configurations", "3", "--repeats", "2", "--epochs", "1", "--out", str(path)]
    assert digits.main(arguments) == 0
    assert torch.get_num_threads() == threads
    assert "3 configurations" in capsys.readouterr().out
    table = pd.read_csv(path)
    assert list(table.columns) == [*HYPERPARAMETERS, "accuracy_0", "accuracy_1", "accuracy"]
    expected = digits.digits_table(num=3, repeats=2, epochs=1, progress=False)
    pd.testing.assert_frame_equal(table, expected, rtol=1e-9)
    mean = (table["accuracy_0"] + table["accuracy_1"]) / 2
    assert table["accuracy"].tolist() == pytest.approx(mean.tolist())


@pytest.mark.parametrize("option", ["--configurations", "--repeats", "--epochs"])
def test_bad_arguments(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        digits.main([option, "0", "--out", str(tmp_path / "table.csv")])
    assert f"{option} must be at least 1" in capsys.readouterr().err


def test_without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "sklearn.datasets", None)
    with pytest.raises(UnsupportedError, match=r"pip install botorch-pref\[bench\]"):
        digits.DigitsData()


@pytest.mark.slow
def test_shipped_accuracies_can_be_measured_again(data: digits.DigitsData) -> None:
    # Rounding differs between processors and grows over an epoch: a few images may change.
    table = DigitsTuning().configurations
    for index in table.nlargest(3, "accuracy").index:
        row = table.loc[index]
        units, batch_size = int(row["units"]), int(row["batch_size"])
        accuracy = digits.validation_accuracy(
            data, batch_size, units, *row[["learning_rate", "momentum", "weight_decay"]]
        )
        assert accuracy == pytest.approx(row["accuracy_0"], abs=1.5)
