"""The loop of BoTorch's tutorial."""

import pytest
import torch

from botorch_pref.exceptions import UnsupportedError
from experiments.defaults import tutorial_loop
from experiments.defaults.loop import DEFAULT, PAIRWISE_GP
from experiments.defaults.tutorial_loop import main, summary_text, tutorial_table


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tutorial_loop, "_CHECKPOINTS", (1, 2))


def test_the_table() -> None:
    table = tutorial_table([PAIRWISE_GP, DEFAULT], range(2))
    assert table["model"].tolist() == [PAIRWISE_GP, DEFAULT] * 2
    assert (table["best_1"] <= table["best_2"]).all()
    assert table["best_2"].between(0.0, 6.147).all()
    assert table[["tau_1", "tau_2"]].abs().le(1.0).all(axis=None)
    again = tutorial_table([DEFAULT], [1])
    assert again.iloc[0].to_dict() == table.iloc[3].to_dict()
    text = summary_text(table)
    gains = table["tau_2"].to_numpy()
    gain = (gains[1::2] - gains[::2]).mean()
    assert f"{DEFAULT} - {PAIRWISE_GP}" in text
    assert f"{gain:.3f} ± " in text


def test_the_better_item_wins_but_for_noise() -> None:
    torch.manual_seed(0)
    rows = torch.cat([tutorial_loop._answer(torch.tensor([1.0, 3.0]), 6) for _ in range(20)])
    assert rows.tolist() == [[7, 6]] * 20
    torch.manual_seed(0)
    close = torch.cat([tutorial_loop._answer(torch.tensor([1.0, 1.0]), 0) for _ in range(200)])
    assert 60 < int(close[:, 0].sum()) < 140


def test_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "1", "--models", DEFAULT]) == 0
    assert "tau_2" in capsys.readouterr().out
    with pytest.raises(UnsupportedError, match="unknown model"):
        tutorial_table(["nobody"])
    with pytest.raises(SystemExit):
        main(["--models", "nobody"])
