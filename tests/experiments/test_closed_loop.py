"""The closed-loop table: running, resuming, and the summaries."""

import math
from pathlib import Path

import pandas as pd
import pytest

from botorch_pref.exceptions import UnsupportedError
from experiments.defaults.closed_loop import (
    closed_loop_table,
    main,
    paired_ratios,
    summarise,
    summary_text,
)
from experiments.defaults.loop import DEFAULT, NUM_INITIAL, PAIRWISE_GP, Cell

HORIZON = 3 * NUM_INITIAL
FUNCTIONS = ["branin", "linear4"]
MODELS = ["rbf:0.21:1.5", PAIRWISE_GP]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    path = tmp_path_factory.mktemp("table") / "table.csv"
    return closed_loop_table(FUNCTIONS, MODELS, [0, 1], horizon=HORIZON, path=path, progress=False)


def made_up(**shares: list[float]) -> pd.DataFrame:
    """A multimodal and a smooth function of two seeds, in this order, for each model."""
    keys = [("branin", 0), ("branin", 1), ("linear4", 0), ("linear4", 1)]
    return pd.DataFrame(
        {"function": f, "spread": 3.0, "seed": s, "model": model, "share_3": value}
        for model, values in shares.items()
        for (f, s), value in zip(keys, values, strict=True)
    )


def test_the_table(table: pd.DataFrame) -> None:
    assert len(table) == 2 * 2 * len(MODELS)
    # One fit for each chosen duel, and one for the recommendation.
    assert (table["fits"] == HORIZON - NUM_INITIAL + 1).all()
    ours = table[table["model"] != PAIRWISE_GP]
    assert (ours[["failed_fits", "warned_fits", "failed_asks"]] == 0).all(axis=None)
    for share in ("share_1", "share_2", "share_3"):
        assert table[share].between(0.0, 1.0, inclusive="neither").all()
    assert table["rank"].between(0.0, HORIZON - NUM_INITIAL).all()
    # Seeds come one after the other, so that what a killed run leaves is balanced.
    assert table["seed"].is_monotonic_increasing


def test_resuming(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, options = tmp_path / "table.csv", {"horizon": HORIZON, "progress": False}
    first = closed_loop_table(["branin"], [DEFAULT], [0], path=path, **options)
    ran: list[Cell] = []

    def run(cell: Cell) -> dict[str, object]:
        ran.append(cell)
        return first.iloc[0].to_dict() | {"seed": cell.seed}

    monkeypatch.setattr(Cell, "run", run)
    both = closed_loop_table(["branin"], [DEFAULT], [0, 1], path=path, **options)
    assert [cell.seed for cell in ran] == [1]
    assert both["seed"].tolist() == [0, 1]
    assert pd.read_csv(path)["seed"].tolist() == [0, 1]
    assert list(tmp_path.iterdir()) == [path]
    # What was not asked for stays in the file, and out of the result.
    again = closed_loop_table(["branin"], [DEFAULT], [1], path=path, **options)
    assert again["seed"].tolist() == [1]


@pytest.mark.slow
def test_processes_give_the_same_table(table: pd.DataFrame) -> None:
    parallel = closed_loop_table(["branin"], MODELS, [0], n_jobs=2, horizon=HORIZON, progress=False)
    serial = table[(table["function"] == "branin") & (table["seed"] == 0)]
    shares = [part.set_index("model")["share_3"].to_dict() for part in (parallel, serial)]
    assert shares[0] == shares[1]


def test_summaries(table: pd.DataFrame) -> None:
    summary = summarise(table)
    assert summary["kind"].tolist() == ["multimodal"] * 2 + ["smooth"] * 2
    assert (summary["loops"] == 2).all()
    row = summary.iloc[0]
    mine = table[(table["function"] == "branin") & (table["model"] == row["model"])]["share_3"]
    assert row["share_3"] == pytest.approx(math.sqrt(mine.iloc[0] * mine.iloc[1]))
    text = summary_text(table)
    assert all(model in text for model in MODELS)


def test_paired_ratios() -> None:
    table = made_up(a=[0.2, 0.4, 0.1, 0.1], b=[0.1, 0.4, 0.01, 0.1])
    multimodal, smooth = paired_ratios(table).to_dict("records")
    assert (multimodal["kind"], smooth["kind"]) == ("multimodal", "smooth")
    assert multimodal["model"] == smooth["model"] == "b"
    assert multimodal["log ratio"] == pytest.approx(-math.log(2) / 2)
    assert multimodal["se"] == pytest.approx(math.log(2) / 2)
    assert smooth["log ratio"] == pytest.approx(-math.log(10) / 2)
    # Loops without a partner are left out.
    assert paired_ratios(table.iloc[:-1])["loops"].tolist() == [2, 1]


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("functions", ["nowhere"], "unknown function 'nowhere'"),
        ("models", ["nobody"], "unknown model 'nobody'"),
        ("horizon", HORIZON - 1, "horizon must be at least 12, got 11"),
    ],
)
def test_bad_arguments(argument: str, value: object, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        closed_loop_table(**{argument: value})  # type: ignore[arg-type]


def test_a_foreign_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(UnsupportedError, match="no table of closed loops"):
        closed_loop_table(["branin"], path=path)
    assert path.read_text() == "a,b\n1,2\n"


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "table.csv"
    options = ["--functions", "linear4", "--models", "rbf:0.4:4", DEFAULT, "--horizon", "12"]
    assert main([*options, "--seeds", "1", "--first-seed", "3", "--out", str(path)]) == 0
    assert "rbf:0.4:4" in capsys.readouterr().out
    assert pd.read_csv(path)["seed"].tolist() == [3, 3]
