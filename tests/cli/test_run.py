"""The command line as a whole, and ``run``: what it says of a simulation, saves and refuses."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from botorch_pref import __version__
from botorch_pref.cli import main
from botorch_pref.problems import Ackley, Catalyst, problem_names
from botorch_pref.runner import random_play, run_experiment
from botorch_pref.runner.simulation import seeds_of_run
from botorch_pref.strategies import PFTS, CompGPUCB, registry
from experiments.baselines import GPTS
from tests.cli.common import Capture, failure, fields, full_disk
from tests.terminal import on_terminal


def command(*arguments: str) -> int:
    return main([*arguments])


def test_the_main_job(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    out = tmp_path / "deep" / "out"
    arguments = ["run", "catalyst", "--strategy", "pf-ts", "--horizon", "4", "--seed", "3"]
    assert main([*arguments, "--out", str(out)]) == 0
    shown = capsys.readouterr()
    assert "4/4" in terminal.getvalue()
    report = fields(shown.out)
    table = pd.read_csv(out / "history.csv")
    problem = Catalyst()
    index = int(table["recommended_index"].iloc[-1])
    assert report["recommended"].startswith(problem.names[index] + " (silver ")
    assert f"gold {float(problem.choices[index, 1]):.3f}" in report["recommended"]
    rank = 1 + int((problem.utilities > problem.utilities[index]).sum())
    assert report["hydrogen yield"] == (
        f"{10 * float(problem.utilities[index]):.2f} %, rank {rank} of 63 "
        "(best: 93.72 %, Au-0.6-Zn-0.4)"
    )
    better = (table["first_utility"] - table["second_utility"]) * (table["answer"] - 0.5)
    assert report["answers"] == (
        f"simulated with noise: {(better < 0).sum()} of 4 duels went to the worse item"
    )
    assert re.fullmatch(
        r"\d\d\.\d ± \d\.\d % after 4 duels \(10 runs; \d+ found the best\)",
        report["random pairs"],
    )
    assert report["cumulative regret"] == (
        f"{table['dueling_regret'].sum():.2f} (random: {4 * random_play(problem):.2f}); "
        "low where good items were shown"
    )
    assert max(map(len, shown.out.splitlines()[:7])) <= 80  # paths are the user's
    assert report["history"] == str(out / "history.csv")
    assert report["regret plot"] == str(out / "regret.png")
    assert len(table) == 4
    assert (out / "regret.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(file.name for file in out.iterdir()) == ["history.csv", "regret.png"]

    assert main([*arguments, "--out", str(out), "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    again = pd.read_csv(out / "history.csv")
    pd.testing.assert_frame_equal(table.drop(columns="seconds"), again.drop(columns="seconds"))
    # One seed asks the same in an experiment.
    other = run_experiment(problem, {"pf-ts": PFTS}, 4, [3], progress=False)
    for column in ("first_index", "second_index", "answer", "recommended_index"):
        assert other[column].tolist() == table[column].tolist()


@pytest.mark.usefixtures("short_searches")
def test_a_box(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    quick = ["--strategy", "pf-ts", "--preset", "paper", "--horizon", "2", "--quiet"]
    assert main(["run", "Ackley", "--dim", "2", "--seed", "5", *quick]) == 0
    report = fields(capsys.readouterr().out)
    folder = Path("botorch_pref_runs") / "ackley-2d-pf-ts-paper-seed5"
    assert report["run"] == "ackley, pf-ts (paper), 2 duels, seed 5"
    assert report["history"] == str(folder / "history.csv")
    table = pd.read_csv(folder / "history.csv")
    row = table.iloc[-1]
    x = [row["recommended_x1"], row["recommended_x2"]]
    assert report["recommended item"] == f"({x[0]:.4f}, {x[1]:.4f})"
    assert report["in its own units"] == f"({10 * x[0] - 5:.4f}, {10 * x[1] - 5:.4f})"
    assert report["utility"] == f"{-row['recommendation_regret']:.4g} (the best: 0)"
    asked = PFTS.paper(bounds=Ackley(dim=2).bounds, seed=seeds_of_run(5)[1]).ask()
    with (folder / "history.csv").open() as file:  # pandas may read another last digit
        first = next(csv.DictReader(file))
    assert [float(first[x]) for x in ("first_x1", "second_x2")] == asked.items.diag().tolist()


@pytest.mark.usefixtures("short_searches")
def test_values_are_no_duels(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {"num_initial_duels": 3, "num_initial_values": 2}
    monkeypatch.setitem(registry._STRATEGIES, "values", (GPTS, {}))
    monkeypatch.setitem(registry._STRATEGIES, "mixed", (CompGPUCB, few))
    reports = []
    for name, horizon in (("values", 3), ("mixed", 5)):
        arguments = ["--strategy", name, "--horizon", str(horizon), "--quiet"]
        assert main(["run", "branin", *arguments, "--out", str(tmp_path)]) == 0
        reports.append(fields(capsys.readouterr().out))
    values, mixed = reports
    assert values["run"] == "branin, values, 3 values, seed 0"
    assert not {"answers", "random pairs"} & values.keys()
    assert values["time"].endswith(" ms a value)")
    # 3 duels at 1/10 each, and 2 values.
    assert mixed["run"].endswith(", 3 duels, 2 values, cost 2.3, seed 0")
    assert mixed["time"].endswith(" ms a query)")
    assert "random pairs" not in mixed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("catalist", "unknown problem 'catalist'; there are catalyst, ackley"),
        (
            "catalyst --strategy ucb",
            "unknown strategy 'ucb'; there are dueling-kg, eubo-incumbent, ",
        ),
        ("catalyst --horizon 0", "--horizon: must be a whole number, at least 1, not '0'"),
        ("catalyst --horizon 1000001", "--horizon: must be a whole number, at most 1,000,000"),
        ("catalyst --seed=-1", "--seed: must be a whole number, at least 0, not '-1'"),
        ("catalyst --dim 2", "problem 'catalyst' has no option 'dim'"),
        ("michalewicz --dim 3", "regret needs the largest utility"),
        ("catalyst --horizn 5", "unrecognized arguments"),
    ],
)
def test_wrong_arguments(arguments: str, message: str, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "out"
    line = failure(capsys, command, "run", "--out", str(out), *arguments.split())
    assert line.startswith("botorch-pref")
    assert message in line
    assert not out.exists()


def test_folders_that_cannot_be_written(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*arguments: object, **options: object) -> None:
        raise AssertionError("no duel may be asked")

    monkeypatch.setattr("botorch_pref.cli.run.simulate", never)
    file = tmp_path / "file"
    file.write_text("")
    (tmp_path / "taken" / "regret.png").mkdir(parents=True)
    for folder, reason in (
        (file, "File exists"),
        (file / "below", "Not a directory"),
        (tmp_path / "taken", "regret.png is a folder there"),
    ):
        line = failure(capsys, command, "run", "catalyst", "--out", str(folder))
        assert f"cannot write to {str(folder)!r}: {reason}" in line


def test_a_disk_that_fills_up(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("botorch_pref.cli.run.save_figure", full_disk)
    arguments = ["run", "rkhs", "--horizon", "1", "--quiet", "--out", str(tmp_path)]
    assert "No space left on device" in failure(capsys, command, *arguments)
    assert [file.name for file in tmp_path.iterdir()] == ["history.csv"]


class Interrupted(PFTS):
    """Is interrupted when it has heard three answers."""

    num_told = 3

    def ask(self, annotator: str | None = None) -> Any:
        if self.num_answers == self.num_told:
            raise KeyboardInterrupt
        return super().ask(annotator)


def test_ctrl_c_keeps_what_was_done(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry._STRATEGIES, registry.DEFAULT_STRATEGY, (Interrupted, {}))
    arguments = ["run", "catalyst", "--horizon", "9", "--quiet", "--out", str(tmp_path)]
    with monkeypatch.context() as at_once:
        at_once.setattr(Interrupted, "num_told", 0)
        assert main(arguments) == 130
    line = "interrupted before the first query was answered; nothing was saved\n"
    assert capsys.readouterr().err == line
    assert [*tmp_path.iterdir()] == []
    assert main(arguments) == 130
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("interrupted after 3 of 9 duels; what was done is saved in ")
    assert len(shown.err.splitlines()) == 1
    assert len(pd.read_csv(tmp_path / "history.csv")) == 3
    assert (tmp_path / "regret.png").stat().st_size > 0


def test_help(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["run", "--help"])
    assert stopped.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert all(name in shown for name in (*problem_names(), *registry.strategy_names()))
    assert "--horizon N number of queries: duels, or values" in shown
    for name in ("ask", "advise"):
        with pytest.raises(SystemExit):
            main([name, "--help"])
        shown = capsys.readouterr().out
        assert f'botorch-pref {name} study.json --bounds "milk (ml):0:80,' in shown
        assert "saved after every answer" in shown


def test_help_and_version_are_immediate() -> None:
    code = (
        "import sys; from botorch_pref.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "finally: print('torch' in sys.modules)"
    )
    for argument in ("--help", "--version"):
        start = [sys.executable, "-c", code, argument]
        done = subprocess.run(start, capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == "False"
    assert f"botorch-pref {__version__}" in done.stdout


def test_the_package_is_run_and_cited_by_one_version() -> None:
    command = [sys.executable, "-m", "botorch_pref", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["botorch-pref", __version__]
    cited = Path(__file__).parents[2] / "CITATION.cff"
    assert f"\nversion: {__version__}\n" in cited.read_text()
