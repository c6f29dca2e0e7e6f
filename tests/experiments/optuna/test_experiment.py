"""The comparison of samplers: what is measured, on a made-up table and in a tiny run."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from botorch_pref.runner.run import Run
from experiments.optuna.experiment import SamplerExperiment
from experiments.papers import experiments
from experiments.report import claims_table, report


def experiment() -> SamplerExperiment:
    found = experiments()["optuna"]
    assert isinstance(found, SamplerExperiment)
    return found


@pytest.fixture(name="table", scope="module")
def made_up() -> pd.DataFrame:
    """Two seeds of every sampler on every problem, 40 answers each, without a simulation."""
    speeds = {
        "ts": 0.5,
        "eubo": 0.25,
        "ts-10": 0.5,
        "eubo-10": 0.25,
        "built-in": 1.0,
        "random": 0.1,
    }
    pace = {"ts": 20, "eubo": 40, "ts-10": 20, "eubo-10": 40, "built-in": 80, "random": 800}
    return pd.DataFrame(
        {
            "problem": problem.name,
            "strategy": name,
            "seed": seed,
            "step": step,
            "regret": max(0.0, 1.0 - (step + seed) / pace[name]),
            "survivor_regret": 0.75,
            "seconds": speeds[name] * (1.0 + seed),
        }
        for problem in experiment().problems
        for name in speeds
        for seed in (0, 1)
        for step in range(1, 41)
    )


def test_what_is_measured(table: pd.DataFrame) -> None:
    measures = experiment().measures(table).set_index(["strategy", "seed"])
    assert measures.notna().all(axis=None)
    eubo = measures.loc[("eubo", 1)]
    assert eubo["branin"] == 0.0
    assert eubo["branin at 10"] == pytest.approx(1.0 - 11 / 40)
    assert (eubo["branin answers 0.5"], eubo["branin answers 0.25"]) == (19.0, 29.0)
    assert (eubo["branin reached 0.5"], eubo["branin reached 0.25"]) == (1.0, 1.0)
    assert eubo["hartmann6 survivor"] == 0.75
    assert eubo["mixed-levy seconds"] == pytest.approx(0.5)
    assert eubo["mixed-levy speed"] == pytest.approx(4.0)
    late = measures.loc[("built-in", 0)]
    assert (late["branin answers 0.5"], late["branin reached 0.5"]) == (40.0, 1.0)
    assert (late["branin answers 0.25"], late["branin reached 0.25"]) == (41.0, 0.0)
    assert late["step"] == 40.0


def test_aims_and_the_figure(table: pd.DataFrame) -> None:
    full = experiment()
    measures = full.measures(table)
    claims = claims_table(full, measures)
    assert len(claims) == 4 * 4 * 3
    assert (claims["verdict"] == "seen").all()
    text = report(full, measures)
    assert "What was aimed at" in text
    assert "Answers until a regret of 0.5" in text
    assert "Runs until a regret of 0.25, %" in text
    titles = [axes.get_title(loc="left") for axes in full.figure(table).axes[:3]]
    assert titles == ["Branin", "Hartmann-6", "Levy, mixed"]


def test_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.optuna.experiment.find_spec", lambda name: None)
    assert "botorch-pref[optuna]" in experiment().missing


def test_a_tiny_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("optuna_dashboard") is None:
        pytest.skip("optuna_dashboard is not installed")
    full = experiment()
    assert full.missing == ""
    samplers = ("eubo", "built-in", "random")
    small = replace(full, problems=full.problems[2:], samplers=samplers, horizon=2, seeds=1)
    table = small.play(1, tmp_path, False)
    assert [path.name for path in tmp_path.iterdir()] == ["mixed-levy"]
    assert table.groupby("strategy").size().to_dict() == dict.fromkeys(samplers, 2)
    measures = small.measures(table).set_index(["strategy", "seed"])
    assert measures.notna().all(axis=None)
    assert measures.loc[("built-in", 0), "mixed-levy speed"] == 1.0
    # Who recommends the last winner has its regret.
    last = measures.loc[["built-in", "random"]]
    assert last["mixed-levy"].tolist() == pytest.approx(last["mixed-levy survivor"].tolist())
    monkeypatch.setattr(Run, "play", lambda self: pytest.fail("is to be read, not played"))
    pd.testing.assert_frame_equal(small.play(1, tmp_path, False), table)
