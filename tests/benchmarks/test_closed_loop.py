"""The closed-loop table: running, resuming, and the summaries."""

import math
from pathlib import Path

import pandas as pd
import pytest

from botorch_pref.benchmarks.closed_loop import (
    closed_loop_table,
    main,
    overall,
    paired_differences,
    summarise,
    summary_text,
)
from botorch_pref.benchmarks.loop import NUM_INITIAL, Cell
from botorch_pref.exceptions import UnsupportedError

HORIZON = NUM_INITIAL + 2
ARMS = [("matern", "eubo"), ("pairwise-gp", "eubo"), ("rbf", "pf-ts")]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    path = tmp_path_factory.mktemp("table") / "table.csv"
    return closed_loop_table(
        ["branin", "hartmann3"], ARMS, [0, 1], horizon=HORIZON, path=path, progress=False
    )


def made_up(**regrets: list[float]) -> pd.DataFrame:
    """Two functions of two seeds, in this order, for each model."""
    keys = [("one", 0), ("one", 1), ("two", 0), ("two", 1)]
    return pd.DataFrame(
        {"function": f, "seed": s, "model": model, "rule": "eubo", "relative_regret": value}
        for model, values in regrets.items()
        for (f, s), value in zip(keys, values, strict=True)
    )


def test_the_table(table: pd.DataFrame) -> None:
    assert len(table) == 2 * 2 * len(ARMS)
    # One fit for each chosen duel, and one for the recommendation.
    assert (table["fits"] == HORIZON - NUM_INITIAL + 1).all()
    ours = table[table["model"] != "pairwise-gp"]
    assert (ours[["failed_fits", "warned_fits", "failed_asks"]] == 0).all(axis=None)
    assert (table["regret"] >= -1e-9).all()
    assert table["duel_regret"].between(0.0, 0.5).all()
    # Seeds come one after the other, so that what a killed run leaves is balanced.
    assert table["seed"].is_monotonic_increasing
    # Functions and seeds have one best value, whatever the arm.
    best = (table["regret"] / table["relative_regret"]).groupby(table["function"])
    assert best.std().max() < 1e-9


def test_resuming(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "table.csv"
    some = [("matern", "eubo")]
    first = closed_loop_table(["branin"], some, [0], horizon=HORIZON, path=path, progress=False)
    ran: list[Cell] = []

    def run(cell: Cell) -> dict[str, object]:
        ran.append(cell)
        return first.iloc[0].to_dict() | {"seed": cell.seed}

    monkeypatch.setattr(Cell, "run", run)
    both = closed_loop_table(["branin"], some, [0, 1], horizon=HORIZON, path=path, progress=False)
    assert [cell.seed for cell in ran] == [1]
    assert both["seed"].tolist() == [0, 1]
    assert pd.read_csv(path)["seed"].tolist() == [0, 1]
    assert list(tmp_path.iterdir()) == [path]
    # What was not asked for stays in the file, and out of the result.
    again = closed_loop_table(["branin"], some, [1], horizon=HORIZON, path=path, progress=False)
    assert again["seed"].tolist() == [1]


@pytest.mark.slow
def test_processes_give_the_same_table(table: pd.DataFrame) -> None:
    arms = [("matern", "eubo"), ("pairwise-gp", "eubo")]
    parallel = closed_loop_table(["branin"], arms, [0], n_jobs=2, horizon=HORIZON, progress=False)
    serial = table[(table["function"] == "branin") & (table["seed"] == 0)]
    for model, _ in arms:
        here, there = (
            t[(t["model"] == model) & (t["rule"] == "eubo")]["regret"].item()
            for t in (parallel, serial)
        )
        assert here == there


def test_summaries(table: pd.DataFrame) -> None:
    summary = summarise(table)
    assert len(summary) == 2 * len(ARMS)
    assert (summary["seeds"] == 2).all()
    row = summary.iloc[0]
    mine = table[(table[["function", "model", "rule"]] == row.iloc[:3]).all(axis=1)]["regret"]
    assert row["regret"] == pytest.approx(mine.mean())
    assert row["regret_se"] == pytest.approx(mine.std() / math.sqrt(2))
    arms = overall(table)
    assert arms["loops"].tolist() == [4] * len(ARMS)
    assert arms["fits"].tolist() == [4 * (HORIZON - NUM_INITIAL + 1)] * len(ARMS)
    text = summary_text(table)
    assert all(model in text for model, _ in ARMS)


def test_paired_differences() -> None:
    table = made_up(a=[0.3, 0.5, 1.0, 0.8], b=[0.1, 0.1, 0.8, 0.8])
    (row,) = paired_differences(table).to_dict("records")
    assert (row["first"], row["second"], row["loops"]) == ("a", "b", 4)
    # The differences are 0.2 and 0.4, then 0.2 and 0.
    assert row["difference"] == pytest.approx(0.2)
    assert row["se_seeds"] == pytest.approx(math.sqrt(0.1**2 + 0.1**2) / 2)
    assert row["se_functions"] == pytest.approx(0.1)


def test_paired_differences_need_pairs() -> None:
    table = made_up(a=[0.3, 0.5, 1.0, 0.8], b=[0.1, 0.1, 0.8, 0.8])
    (row,) = paired_differences(table.iloc[:-1]).to_dict("records")
    assert row["loops"] == 3
    assert row["difference"] == pytest.approx(0.25)
    assert math.isnan(row["se_seeds"])


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("functions", ["nowhere"], "unknown function 'nowhere'"),
        ("arms", [("nobody", "eubo")], "unknown model 'nobody'"),
        ("arms", [("matern", "never")], "unknown rule 'never'"),
        ("horizon", NUM_INITIAL, "horizon must be more than"),
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
    options = ["--functions", "branin", "--arms", "matern:eubo", "--horizon", "5"]
    assert main([*options, "--seeds", "1", "--out", str(path)]) == 0
    assert "matern eubo" in capsys.readouterr().out
    assert len(pd.read_csv(path)) == 1


def test_command_line_errors(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["--functions", "nowhere"])
    assert exit_info.value.code == 2
    assert "unknown function 'nowhere'" in capsys.readouterr().err
