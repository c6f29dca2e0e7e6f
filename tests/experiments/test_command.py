"""``python -m experiments``."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import pandas as pd
import pytest

from botorch_pref.runner.run import Run
from experiments.__main__ import MEASUREMENTS, main
from experiments.papers import experiments
from experiments.report import FILES
from experiments.speed.timing import Case, Side, time_cases


def failure(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that a command fails with."""
    try:
        status: object = main([*arguments])
    except SystemExit as stopped:
        status = stopped.code
    assert status == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert len(shown.err.splitlines()) == 1
    return shown.err


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
    monkeypatch.setattr("experiments.speed.time_cases", timed)
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
    assert line.startswith("python -m experiments speed: error: device 'cuda' is not available")


def test_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []

    def measurement(argv: list[str]) -> int:
        seen.append(argv)
        return 0

    monkeypatch.setattr("experiments.defaults.closed_loop.main", measurement)
    assert main(["defaults", "--seeds", "2", "--help"]) == 0
    assert seen == [["--seeds", "2", "--help"]]


@pytest.mark.parametrize(("module", "what"), MEASUREMENTS.values(), ids=MEASUREMENTS)
def test_every_measurement_exists(module: str, what: str) -> None:
    assert callable(importlib.import_module(f"experiments.{module}").main)
    assert what
    assert not {*MEASUREMENTS} & {*experiments()}


BENCH = ["cost", "--seeds", "2", "--horizon", "6", "--jobs", "1"]


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
    assert main(["cost", *quick, "--ridge", "0.2", "--regularizer", "theta"]) == 0
    assert main(["anchor", *quick]) == 0
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
        ("cobol", "there is no such experiment; there are ackley, catalyst, cost, "),
        ("ackley --seeds 0", "--seeds: must be a whole number, at least 1, not '0'"),
        ("ackley --seeds=-3", "--seeds: must be a whole number, at least 1, not '-3'"),
        ("ackley --horizon 2.5", "--horizon: must be a whole number"),
        ("ackley --jobs 0", "--jobs: must be a whole number, at least 1"),
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
    line = failure(capsys, *arguments.split())
    assert line.startswith("python -m experiments")
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
        try:
            status: object = main([*arguments, "--help"])
        except SystemExit as stopped:
            status = stopped.code
        assert status == 0
        return " ".join(capsys.readouterr().out.split())

    text = shown()
    assert all(f"{name} " in text for name in (*experiments(), *MEASUREMENTS))
    assert all(experiment.title in text for experiment in experiments().values())
    text = shown("ackley")
    assert "Strategies: pf-ts, mr-lpf, max-min-lcb, pop-bo, gp-ts, random." in text
    assert "number of seeds; default: 30" in text
    assert "botorch_pref_runs/bench-ackley" in text
    assert "--ridge" not in shown("anchor")
