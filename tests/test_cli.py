from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from botorch_pref import __version__, cli
from botorch_pref.cli import main
from botorch_pref.problems import Catalyst, problem_names
from botorch_pref.runner import random_play
from botorch_pref.strategies import PFTS, registry
from tests.cli.common import fields

# A process that was started in the background ignores Ctrl-C, and so do those it starts.
CODE = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from botorch_pref.cli import main
sys.exit(main())
"""


def failure(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that a command fails with."""
    with pytest.raises(SystemExit) as stopped:
        main([*arguments])
    assert stopped.value.code == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert len(shown.err.splitlines()) == 1
    return shown.err


def test_the_main_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "deep" / "out"
    arguments = ["run", "catalyst", "--strategy", "pf-ts", "--horizon", "12", "--seed", "3"]
    assert main([*arguments, "--out", str(out)]) == 0
    shown = capsys.readouterr()
    assert "12/12" in shown.err
    report = fields(shown.out)
    table = pd.read_csv(out / "history.csv")
    problem = Catalyst()
    index = int(table["recommended_index"].iloc[-1])
    assert report["recommended"].startswith(problem.names[index] + " (silver ")
    assert f"gold {float(problem.choices[index, 1]):.3f}" in report["recommended"]
    assert report["measured yield"].startswith(f"{10 * float(problem.utilities[index]):.2f} %")
    rank = 1 + int((problem.utilities > problem.utilities[index]).sum())
    assert f", rank {rank} of 63 (the best: " in report["measured yield"]
    assert report["measured yield"].endswith("93.72 %, Au-0.6-Zn-0.4)")
    better = (table["first_utility"] - table["second_utility"]) * (table["answer"] - 0.5)
    assert report["answers"] == (
        f"simulated with noise: {(better < 0).sum()} of 12 duels went to the worse item"
    )
    assert re.fullmatch(
        r"\d\d\.\d ± \d\.\d % hydrogen after as many duels \(mean of 10 runs\)",
        report["random pairs"],
    )
    assert report["cumulative regret"].startswith(f"{table['dueling_regret'].sum():.2f} ")
    assert f"random play expects {12 * random_play(problem):.2f})" in report["cumulative regret"]
    assert report["identical pairs"] == "0 of 12 duels (0%)"
    assert report["history"] == str(out / "history.csv")
    assert report["regret plot"] == str(out / "regret.png")
    assert len(table) == 12
    assert (out / "regret.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(file.name for file in out.iterdir()) == ["history.csv", "regret.png"]

    assert main([*arguments, "--out", str(out), "--quiet"]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    again = pd.read_csv(out / "history.csv")
    pd.testing.assert_frame_equal(table.drop(columns="seconds"), again.drop(columns="seconds"))


def test_a_box(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", "ackley", "--dim", "2", "--horizon", "3", "--quiet"]) == 0
    report = fields(capsys.readouterr().out)
    folder = Path("botorch_pref_runs") / "ackley-2d-eubo-incumbent-seed0"
    assert report["history"] == str(folder / "history.csv")
    row = pd.read_csv(folder / "history.csv").iloc[-1]
    x = [row["recommended_x1"], row["recommended_x2"]]
    assert report["recommended item"] == f"({x[0]:.4f}, {x[1]:.4f})"
    assert report["in its own units"] == f"({10 * x[0] - 5:.4f}, {10 * x[1] - 5:.4f})"
    assert report["utility"] == f"{-row['recommendation_regret']:.4g} (the best: 0)"


def test_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    quick = ["--strategy", "pf-ts", "--horizon", "2", "--quiet", "--preset", "paper"]
    assert main(["run", "catalyst", "--dedupe", "mean", *quick]) == 0
    assert main(["run", "Ackley", "--num-choices", "7", "--seed", "5", *quick]) == 0
    runs = sorted(folder.name for folder in Path("botorch_pref_runs").iterdir())
    assert runs == ["ackley-7choices-pf-ts-paper-seed5", "catalyst-mean-pf-ts-paper-seed0"]
    table = pd.read_csv(Path("botorch_pref_runs") / runs[0] / "history.csv")
    assert table["first_index"].max() < 7


def test_the_paper_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = []

    def paper(**options: object) -> PFTS:
        seeds.append(options["seed"])
        return PFTS(**options)  # type: ignore[arg-type]

    monkeypatch.setattr(PFTS, "paper", paper)
    run = ["run", "rkhs", "--horizon", "1", "--quiet", "--seed", "9", "--out", str(tmp_path)]
    assert main(run) == 0
    assert seeds == []
    assert main([*run, "--strategy", "pf-ts", "--preset", "paper"]) == 0
    assert seeds == [9]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("catalist", "unknown problem 'catalist'; there are catalyst, ackley"),
        (
            "catalyst --strategy ucb",
            "unknown strategy 'ucb'; there are eubo-incumbent, pf-ts, mr-lpf, ",
        ),
        ("catalyst --horizon 0", "--horizon: must be a whole number, at least 1, not '0'"),
        ("catalyst --horizon=-5", "--horizon: must be a whole number, at least 1, not '-5'"),
        ("catalyst --horizon 2.5", "--horizon: must be a whole number"),
        ("catalyst --horizon ten", "--horizon: must be a whole number"),
        ("catalyst --horizon", "--horizon: expected one argument"),
        ("catalyst --seed x", "--seed: must be a whole number, at least 0, not 'x'"),
        ("catalyst --seed=-1", "--seed: must be a whole number, at least 0, not '-1'"),
        ("catalyst --dim 2", "problem 'catalyst' has no option 'dim'"),
        ("catalyst --threads 0", "--threads: must be a whole number, at least 1"),
        ("ackley --dim 0", "--dim: must be a whole number, at least 1"),
        ("ackley --dim 2 --num-choices 9", "num_choices needs dim=1"),
        ("ackley --num-choices 1", "num_choices must be at least 2"),
        ("ackley --dedupe mean", "problem 'ackley' has no option 'dedupe'"),
        ("catalyst --dedupe median", "invalid choice: 'median'"),
        ("michalewicz --dim 3", "regret needs the largest utility"),
        ("catalyst --preset best", "invalid choice: 'best'"),
        ("catalyst --horizn 5", "unrecognized arguments"),
        ("", "the following arguments are required: problem"),
    ],
)
def test_wrong_arguments(
    arguments: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = failure(capsys, "run", "--out", str(tmp_path / "out"), *arguments.split())
    assert line.startswith("botorch-pref")
    assert "error: " in line
    assert message in line
    assert not (tmp_path / "out").exists()


def test_folders_that_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*arguments: object, **options: object) -> None:
        raise AssertionError("no duel may be played")

    monkeypatch.setattr("botorch_pref.cli.run.simulate", never)
    file = tmp_path / "file"
    file.write_text("")
    (tmp_path / "taken" / "regret.png").mkdir(parents=True)
    for folder, reason in (
        (file, "File exists"),
        (file / "below", "Not a directory"),
        (tmp_path / "taken", "regret.png is a folder there"),
        (tmp_path / ("x" * 300), "File name too long"),
    ):
        line = failure(capsys, "run", "catalyst", "--out", str(folder))
        assert f"cannot write to {str(folder)!r}: {reason}" in line


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tmp_path.chmod(0o500)
    line = failure(capsys, "run", "catalyst", "--out", str(tmp_path))
    assert "Permission denied" in line


def test_a_disk_that_fills_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("botorch_pref.cli.run.save_figure", full)
    arguments = ["run", "rkhs", "--horizon", "1", "--quiet", "--out", str(tmp_path)]
    assert "No space left on device" in failure(capsys, *arguments)
    assert [file.name for file in tmp_path.iterdir()] == ["history.csv"]


class Interrupted(PFTS):
    """Is interrupted when it has heard three answers."""

    num_told = 3

    def ask(self, annotator: str | None = None):  # type: ignore[no-untyped-def]
        if self.num_answers == self.num_told:
            raise KeyboardInterrupt
        return super().ask(annotator)


def test_ctrl_c_keeps_what_was_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry._STRATEGIES, registry.DEFAULT_STRATEGY, Interrupted)
    arguments = ["run", "catalyst", "--horizon", "9", "--quiet", "--out", str(tmp_path)]
    assert main(arguments) == 130
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("interrupted after 3 of 9 duels; what was done is saved in ")
    assert len(shown.err.splitlines()) == 1
    assert len(pd.read_csv(tmp_path / "history.csv")) == 3
    assert (tmp_path / "regret.png").stat().st_size > 0


def test_ctrl_c_before_anything_was_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Interrupted, "num_told", 0)
    monkeypatch.setitem(registry._STRATEGIES, registry.DEFAULT_STRATEGY, Interrupted)
    assert main(["run", "catalyst", "--quiet", "--out", str(tmp_path)]) == 130
    line = "interrupted before the first query was answered; nothing was saved\n"
    assert capsys.readouterr().err == line
    assert [*tmp_path.iterdir()] == []

    def interrupted(arguments: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_run", interrupted)
    assert main(["run", "catalyst"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_a_real_interrupt(tmp_path: Path) -> None:
    arguments = ["run", "rkhs", "--strategy", "pf-ts", "--preset", "paper"]
    arguments += ["--horizon", "1000000"]
    process = subprocess.Popen(
        [sys.executable, "-c", CODE, *arguments, "--out", str(tmp_path)],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    shown = ""
    while not re.search(r" [1-9]\d*/1000000 ", shown):
        character = process.stderr.read(1)
        assert character, shown
        shown += character
    process.send_signal(signal.SIGINT)
    last = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert last.splitlines()[-1].startswith("interrupted after ")
    assert len(pd.read_csv(tmp_path / "history.csv")) > 0


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["run", "--help"])
    assert stopped.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert all(name in shown for name in (*problem_names(), *registry.strategy_names()))
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    assert "botorch-pref run catalyst --horizon 100 --seed 0" in shown
    for command in ("run", "ask", "advise"):
        assert f"\n    {command} " in shown


def test_help_and_version_are_immediate() -> None:
    code = (
        "import sys; from botorch_pref.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "finally: print('torch' in sys.modules)"
    )
    for argument in ("--help", "--version"):
        command = [sys.executable, "-c", code, argument]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == "False"
    assert f"botorch-pref {__version__}" in done.stdout


def test_without_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert "required: COMMAND" in failure(capsys)
    assert "invalid choice: 'walk'" in failure(capsys, "walk")
