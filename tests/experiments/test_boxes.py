"""The boxes on which MR-LPF is measured with its defaults."""

from __future__ import annotations

from dataclasses import replace

from botorch_pref.problems import PreferenceProblem
from botorch_pref.strategies import MRLPF, RandomPairs
from experiments.mr_lpf.boxes import BoxExperiment, box_experiments
from experiments.papers import experiments
from experiments.report import report


def test_the_defaults_are_played_on_boxes() -> None:
    names = [experiment.name for experiment in box_experiments()]
    assert names == ["mr-lpf-branin", "mr-lpf-hartmann6"]
    for experiment in box_experiments():
        assert isinstance(experiments()[experiment.name], BoxExperiment)
        problem = experiment.problem()
        assert isinstance(problem, PreferenceProblem)
        assert problem.choices is None
        # Neither a ridge nor a penalty is set: these are the strategies as users get them.
        assert experiment.strategies == {"mr-lpf": MRLPF, "random": RandomPairs}
        assert experiment._set("random", RandomPairs) is RandomPairs
        assert "learnt hyperparameters" in experiment.setting


def test_a_tiny_run() -> None:
    experiment = replace(box_experiments()[0], horizon=6, seeds=2)
    table = experiment.play(jobs=1, directory=None, progress=False)
    measures = experiment.measures(table)
    assert sorted(measures["strategy"].unique()) == ["mr-lpf", "random"]
    assert measures["recommendation"].notna().all()
    assert table["recommendation_regret"].notna().sum() == 2 * 2 * 6
    text = report(experiment, measures)
    assert "learnt hyperparameters" in text
