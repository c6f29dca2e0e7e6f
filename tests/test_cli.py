from __future__ import annotations

import importlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from botorch_pref import __version__, cli
from botorch_pref.benchmarks.papers import experiments
from botorch_pref.benchmarks.report import FILES
from botorch_pref.benchmarks.speed.timing import Case, Side, time_cases
from botorch_pref.cli import MEASUREMENTS, main
from botorch_pref.problems import Catalyst, problem_names
from botorch_pref.runner import random_play
from botorch_pref.runner.run import Run
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
    for command in ("run", "advise", "speed", "bench"):
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


def test_speed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls: list[dict[str, object]] = []

    def timed(cases: list[Case], *options: object, once: bool, path: Path) -> pd.DataFrame:
        assert once
        assert path.name == "speed.csv"
        calls.append({"sections": [*dict.fromkeys(case.section for case in cases)], "is": options})
        ours, other = (Side(name, lambda: lambda: sum(range(9999))) for name in "AB")
        few = [Case("models", "a sum", "{m} duels", m, ours, (other,)) for m in (1, 2)]
        return time_cases(few, progress=False)

    monkeypatch.chdir(tmp_path)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "7")
    monkeypatch.setattr("botorch_pref.benchmarks.speed.time_cases", timed)
    assert main(["speed", "--threads", "2", "--quick", "--quiet", "--limit", "9"]) == 0
    assert calls[-1]["is"] == ("cpu", 2, False, 9.0)
    assert os.environ["OMP_NUM_THREADS"] == "2"
    shown = capsys.readouterr().out
    assert "2 threads" in shown.splitlines()[0]
    assert "slopes: " in shown
    for name in ("speed.csv", "speed.txt", "speed.png"):
        assert (tmp_path / "botorch_pref_runs" / "speed" / name).stat().st_size > 0
        assert f"botorch_pref_runs/speed/{name}" in shown
    assert main(["speed", "--what", "batches", "ask", "--out", "there", "--quick"]) == 0
    assert calls[-1]["sections"] == ["batches", "ask"]
    assert (tmp_path / "there" / "speed.txt").read_text() in capsys.readouterr().out
    assert "must be a whole number" in failure(capsys, "speed", "--threads", "0")
    assert "must be a positive number" in failure(capsys, "speed", "--limit", "0")
    assert "invalid choice: 'all'" in failure(capsys, "speed", "--what", "all")
    assert "invalid choice: 'tpu'" in failure(capsys, "speed", "--device", "tpu")


def test_speed_on_a_device_that_is_not_there(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.chdir(tmp_path)
    line = failure(capsys, "speed", "--device", "cuda")
    assert line.startswith("botorch-pref speed: error: device 'cuda' is not available")


def test_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []

    def measurement(argv: list[str]) -> int:
        seen.append(argv)
        return 0

    monkeypatch.setattr("botorch_pref.benchmarks.closed_loop.main", measurement)
    assert main(["bench", "defaults", "--seeds", "2", "--help"]) == 0
    assert seen == [["--seeds", "2", "--help"]]


@pytest.mark.parametrize(("module", "what"), MEASUREMENTS.values(), ids=MEASUREMENTS)
def test_every_measurement_exists(module: str, what: str) -> None:
    assert callable(importlib.import_module(f"botorch_pref.benchmarks.{module}").main)
    assert what
    assert not {*MEASUREMENTS} & {*experiments()}


BENCH = ["bench", "cost", "--seeds", "2", "--horizon", "6", "--jobs", "1"]


def test_bench(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "deep" / "out"
    assert main([*BENCH, "--out", str(out)]) == 0
    shown = capsys.readouterr()
    assert "4/4" in shown.err
    text, files = shown.out.split("\n\nreport ")
    assert text.startswith(
        "63 measured catalysts, by cost (Lazzaro et al. (2026), Fig. 3): 6 duels"
    )
    assert (out / "cost.md").read_text(encoding="utf-8") == text + "\n"
    assert sorted(path.name for path in out.iterdir()) == sorted(
        ["runs", *(f"cost{ending}" for ending in FILES)]
    )
    assert all(str(out / f"cost{ending}") in files for ending in FILES)
    runs = sorted(path.name for path in (out / "runs").iterdir())
    expected = [f"{name}-seed{seed}.csv" for name in ("gp-ts", "pf-ts") for seed in (0, 1)]
    assert runs == sorted([*expected, "experiment.json"])
    assert "finished before" not in files
    rows = pd.read_csv(out / "cost-rows.csv")
    assert len(rows) == 2 * 2 * 6
    assert not [name for name in rows if "_x1" in name]


def test_bench_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = [*BENCH, "--out", str(tmp_path), "--quiet"]
    assert main(arguments) == 0
    first = (tmp_path / "cost-rows.csv").read_bytes()
    assert capsys.readouterr().err == ""
    run = Run.play
    played: list[int] = []

    def counted(self: Run) -> pd.DataFrame:
        played.append(self.seed)
        return run(self)

    monkeypatch.setattr(Run, "play", counted)
    assert main(arguments) == 0
    assert "with 4 runs that were finished before" in capsys.readouterr().out
    assert played == []
    assert (tmp_path / "cost-rows.csv").read_bytes() == first
    assert main([*arguments, "--seeds", "3"]) == 0
    assert played == [2, 2]
    # Another horizon is another experiment; it needs a folder of its own, or a fresh start.
    capsys.readouterr()
    line = failure(capsys, *arguments, "--horizon", "7")
    assert "does not hold this experiment: its horizon is 6, not 7" in line
    assert "--out, or --fresh." in line
    assert main([*arguments, "--horizon", "7", "--fresh"]) == 0
    assert played == [2, 2, 0, 0, 1, 1]


def test_bench_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    quick = ["--seeds", "1", "--horizon", "2", "--jobs", "1", "--quiet"]
    assert main(["bench", "cost", *quick, "--ridge", "0.2", "--regularizer", "theta"]) == 0
    assert main(["bench", "anchor", *quick]) == 0
    suffix = "-horizon-2-ridge-0.2-regularizer-theta"
    root = Path("botorch_pref_runs")
    assert sorted(path.name for path in root.iterdir()) == sorted(
        [f"bench-cost{suffix}", f"bench-catalyst{suffix}", "bench-anchor-horizon-2"]
    )
    # Of the catalyst's own runs, from which its costs are computed.
    assert [path.name for path in (root / f"bench-catalyst{suffix}").iterdir()] == ["runs"]
    assert not (root / "bench-anchor-horizon-2" / "runs").exists()


def test_bench_interrupted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run.play

    def second_is_interrupted(self: Run) -> pd.DataFrame:
        if self.seed == 1:
            raise KeyboardInterrupt
        return run(self)

    monkeypatch.setattr(Run, "play", second_is_interrupted)
    assert main([*BENCH, "--out", str(tmp_path), "--quiet"]) == 130
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == f"interrupted; finished runs are kept in {tmp_path / 'runs'}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]
    assert len([*(tmp_path / "runs").glob("*-seed0.csv")]) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("cobol", "unknown experiment 'cobol'; there are ackley, catalyst, cost, "),
        ("", "the following arguments are required: NAME"),
        ("ackley --seeds 0", "--seeds: must be a whole number, at least 1, not '0'"),
        ("ackley --seeds=-3", "--seeds: must be a whole number, at least 1, not '-3'"),
        ("ackley --horizon 2.5", "--horizon: must be a whole number"),
        ("ackley --jobs 0", "--jobs: must be a whole number, at least 1, or -1 for one process"),
        ("ackley --jobs=-2", "--jobs: must be a whole number"),
        ("ackley --ridge 0", "--ridge: must be a positive number, not '0'"),
        ("ackley --ridge nan", "--ridge: must be a positive number, not 'nan'"),
        ("ackley --ridge much", "--ridge: must be a positive number, not 'much'"),
        ("ackley --regularizer lasso", "invalid choice: 'lasso'"),
        ("anchor --ridge 1", "unrecognized arguments: --ridge 1"),
        ("ackley --seed 3", "unrecognized arguments: --seed 3"),
        ("defaults --seeds x", "--seeds: must be a whole number, at least 1, not 'x'"),
        ("defaults --functions nowhere", "unknown function 'nowhere'"),
        ("tempering --seeds 1", "--seeds: must be at least 2"),
    ],
)
def test_wrong_arguments_of_bench(
    arguments: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = failure(capsys, "bench", *arguments.split())
    assert line.startswith("botorch-pref bench")
    assert "error: " in line
    assert message in line


def test_bench_in_a_folder_that_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Run, "play", None)
    (tmp_path / "cost.png").mkdir()
    line = failure(capsys, *BENCH, "--out", str(tmp_path))
    assert f"cannot write to {str(tmp_path)!r}: cost.png is a folder there" in line


def test_help_of_bench(capsys: pytest.CaptureFixture[str]) -> None:
    def shown(*arguments: str) -> str:
        with pytest.raises(SystemExit) as stopped:
            main(["bench", *arguments, "--help"])
        assert stopped.value.code == 0
        return " ".join(capsys.readouterr().out.split())

    text = shown()
    assert all(f"{name} " in text for name in (*experiments(), *MEASUREMENTS))
    assert all(experiment.title in text for experiment in experiments().values())
    text = shown("ackley")
    assert "Strategies: pf-ts, mr-lpf, max-min-lcb, pop-bo, gp-ts, random." in text
    assert "number of seeds; default: 30" in text
    assert "botorch_pref_runs/bench-ackley" in text
    assert "--ridge" not in shown("anchor")
