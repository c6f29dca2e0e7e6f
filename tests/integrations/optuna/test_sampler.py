from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from botorch.exceptions.warnings import UserInputWarning
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from optuna_dashboard.preferential import load_study
from optuna_dashboard.preferential._system_attrs import report_skip
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.integrations.optuna import PreferentialSampler
from tests.integrations.optuna.common import MIXED, UNIT, in_play, new_study, play

PEAK = torch.tensor([0.3, 0.7], dtype=torch.double)


def utility(params: dict[str, Any]) -> float:
    return -((params["x"] - 0.3) ** 2) - (params["y"] - 0.7) ** 2


def point(params: dict[str, Any]) -> Tensor:
    return torch.tensor([params["x"], params["y"]], dtype=torch.double)


@pytest.mark.parametrize("rule", ["ts", "eubo"])
def test_proposals_follow_from_the_study_alone(rule: Any, tmp_path: Path) -> None:
    """One sampler throughout, and another process for every trial, propose the same."""
    together = play(new_study(PreferentialSampler(rule, seed=3)), UNIT, utility, 2)
    url = f"sqlite:///{tmp_path / 'study.db'}"
    new_study(PreferentialSampler(rule, seed=3), url)
    alone = []
    for trial in together:
        sampler = PreferentialSampler(rule, seed=3)
        study = load_study(study_name="study", storage=url, sampler=sampler)
        if not study.should_generate():
            better, worse = sorted(in_play(study), key=lambda t: -utility(t.params))
            study.report_preference(better, worse)
        alone.append(dict(study.ask(UNIT).params))
        assert alone[-1] == trial
    other = play(new_study(PreferentialSampler(rule, seed=4)), UNIT, utility, 0)
    assert other != alone[:2]


@pytest.mark.parametrize("rule", ["ts", "eubo"])
def test_the_next_trial_depends_on_the_answer(rule: Any) -> None:
    proposed = []
    for sign in (1.0, -1.0):
        study = new_study(PreferentialSampler(rule))
        proposed.append(play(study, UNIT, lambda p, sign=sign: sign * utility(p), 1))
    assert proposed[0][:2] == proposed[1][:2]
    assert (point(proposed[0][2]) - point(proposed[1][2])).abs().max() > 0.01


@pytest.mark.parametrize("rule", ["ts", "eubo"])
def test_the_first_trials_fill_the_space(rule: Any) -> None:
    plain, first, second = (
        play(new_study(PreferentialSampler(rule, n_startup_trials=count)), UNIT, u, 7)
        for count, u in ((0, utility), (4, utility), (4, lambda params: -utility(params)))
    )
    alike = [one == other for one, other in zip(first, second, strict=True)]
    assert alike == [True] * 4 + [False] * 5
    assert first[:2] == plain[:2]
    filled = torch.stack([point(params) for params in first[:4]])
    # Quarters of the square: a sequence that fills it has one item in each.
    assert len((2 * filled).floor().unique(dim=0)) == 4


def test_what_fills_the_space_is_new_while_it_can_be() -> None:
    names = ["a", "b", "c", "d", "e", "f"]
    few: dict[str, BaseDistribution] = {"c": CategoricalDistribution(names)}
    sampler = PreferentialSampler("eubo", n_startup_trials=10**6)
    asked = play(new_study(sampler), few, lambda params: -ord(params["c"]), 12)
    seen: set[str] = set()
    for params in asked:
        assert params["c"] not in seen or len(seen) == len(names)
        seen.add(params["c"])
    assert seen == set(names)


def test_the_best_trial_is_that_of_the_largest_mean() -> None:
    sampler = PreferentialSampler("eubo")
    study = new_study(sampler)
    with pytest.raises(UnsupportedError, match="no answers yet"):
        sampler.best_trial(study)
    for x in (0.5, 0.1, 0.9, 0.15, 0.12):
        study.enqueue_trial({"x": x, "y": 0.5})
        study.ask(UNIT)
    best, *others = study.get_trials()
    for worse in others[:3]:
        study.report_preference(best, worse)
    study.report_preference(others[3], best)  # a slip of the person
    assert [trial.number for trial in study.best_trials] == [4]
    assert sampler.best_trial(study).number == 0
    assert sampler.best_trial(study._study).number == 0  # as optuna.load_study has it
    report_skip(study._study._study_id, best._trial_id, study._study._storage)
    assert sampler.best_trial(study).number != 0


@pytest.mark.parametrize("answers", [0, 1])
def test_what_was_skipped_is_not_proposed_again(answers: int) -> None:
    """The model is the same as before, and so is the best item."""
    few: dict[str, BaseDistribution] = {"c": CategoricalDistribution(["a", "b", "c", "d"])}
    study = new_study(PreferentialSampler("eubo"))
    play(study, few, lambda params: -ord(params["c"]), answers)
    asked = study.get_trials()[-1]
    report_skip(study._study._study_id, asked._trial_id, study._study._storage)
    others = {trial.params["c"] for trial in in_play(study)}
    assert study.ask(few).params["c"] not in others


def test_an_undone_answer_is_forgotten() -> None:
    sampler = PreferentialSampler("eubo")
    study = new_study(sampler)
    play(study, UNIT, utility, 2)
    storage, study_id = study._study._storage, study._study._study_id
    keys = [k for k in storage.get_study_system_attrs(study_id) if "preference:values" in k]
    storage.set_study_system_attr(study_id, keys[0], [])
    study._study.sampler = PreferentialSampler("eubo")
    asked = study.ask(UNIT)
    frozen = study.get_trials()[asked.number]
    again = sampler.sample_relative(study._study, frozen, {**UNIT})
    assert again == asked.params


def test_eubo_maximises_the_expected_better_one() -> None:
    sampler = PreferentialSampler("eubo")
    study = new_study(sampler)
    proposed = play(study, UNIT, utility, 4)[-1]
    assert sampler._kept is not None
    model = sampler._kept.learner.model()
    rival = max((t for t in study.get_trials()[:-1]), key=lambda t: utility(t.params))

    def value(items: Tensor) -> Tensor:
        """By draws: E[max(f(x), f(rival))] under common random numbers."""
        pairs = torch.stack([items, point(rival.params).expand_as(items)], dim=-2)
        posterior = model.posterior(pairs)
        root = torch.linalg.cholesky(
            posterior.distribution.covariance_matrix + 1e-9 * torch.eye(2, dtype=torch.double)
        )
        noise = torch.randn(2, 4000, dtype=torch.double, generator=torch.Generator().manual_seed(0))
        return (posterior.mean + root @ noise).amax(-2).mean(-1)

    with torch.no_grad():
        sample = torch.rand(500, 2, dtype=torch.double, generator=torch.Generator().manual_seed(1))
        best = value(sample).max()
        assert float(value(point(proposed).unsqueeze(0))) > float(best) - 0.02 * float(best.abs())


def test_a_path_without_spread_is_the_mean() -> None:
    sampler = PreferentialSampler("ts", scale=1e-9)
    study = new_study(sampler)
    proposed = play(study, UNIT, utility, 4)[-1]
    assert sampler._kept is not None
    model = sampler._kept.learner.model()
    sample = torch.rand(500, 2, dtype=torch.double, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        mean = model.posterior(torch.cat([point(proposed)[None], sample]).unsqueeze(-2)).mean
    survivor = in_play(study)[0].params
    assert not torch.allclose(point(proposed), point(survivor))
    assert float(mean[0]) >= float(mean.max()) - 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["ts", "eubo"])
def test_a_truthful_person_is_led_to_the_peak(rule: Any) -> None:
    study = new_study(PreferentialSampler(rule))
    proposed = play(study, UNIT, utility, 14)
    gaps = [float((point(params) - PEAK).norm()) for params in proposed]
    assert min(gaps) < 0.1
    assert sum(gaps[-4:]) < sum(gaps[:4])


def test_all_kinds_of_parameters() -> None:
    study = new_study(PreferentialSampler("ts"))
    play(study, MIXED, lambda p: p["real"] + (p["kind"] == "red"), 2)
    for trial in study.get_trials():
        assert {*trial.params} == {*MIXED}


@pytest.mark.parametrize("rule", ["ts", "eubo"])
def test_no_trial_meets_itself(rule: Any) -> None:
    few: dict[str, BaseDistribution] = {"c": CategoricalDistribution(["a", "b", "c"])}
    study = new_study(PreferentialSampler(rule))
    for _ in range(4):
        while study.should_generate():
            study.ask(few)
        first, second = in_play(study)
        assert first.params != second.params
        better, worse = sorted((first, second), key=lambda t: str(t.params["c"]))
        study.report_preference(better, worse)


def test_the_worst_of_three_is_two_duels_and_a_warning() -> None:
    study = new_study(PreferentialSampler("eubo"), n_generate=3)
    study.ask(UNIT)
    with pytest.warns(UserInputWarning, match="worst of 3 is read as 2 duels"):
        play(study, UNIT, utility, 1)
    assert len(study.get_preferences()) == 2
    assert len({tuple(t.params.values()) for t in study.get_trials()}) == 4


def test_a_parameter_that_comes_later_is_drawn() -> None:
    study = new_study(PreferentialSampler())
    play(study, UNIT, utility, 1)
    wider = {**UNIT, "z": FloatDistribution(5.0, 6.0)}
    first, worst = in_play(study)
    study.report_preference(first, worst)
    trial = study.ask(wider)
    assert 5.0 <= trial.params["z"] <= 6.0
    assert {*trial.relative_params} == {"x", "y"}


def test_bad_options_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="`rule` must be one of"):
        PreferentialSampler("ucb")  # type: ignore[arg-type]
    with pytest.raises(ComparisonDataError, match="`scale`"):
        PreferentialSampler(scale=0.0)
    with pytest.raises(ComparisonDataError, match="`n_startup_trials`"):
        PreferentialSampler(n_startup_trials=-1)


def test_a_pickle_holds_no_data() -> None:
    sampler = PreferentialSampler("eubo", seed=5)
    play(new_study(sampler), UNIT, utility, 1)
    copy = pickle.loads(pickle.dumps(sampler))
    assert sampler._kept is not None
    assert copy._kept is None
    assert (copy.rule, copy.seed) == ("eubo", 5)


def test_the_package_does_not_import_optuna() -> None:
    code = "import sys, botorch_pref, botorch_pref.integrations; sys.exit('optuna' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna_dashboard", None)
    monkeypatch.delitem(sys.modules, "botorch_pref.integrations.optuna")
    with pytest.raises(ImportError, match=r"optuna_dashboard.*botorch-pref\[optuna\]"):
        importlib.import_module("botorch_pref.integrations.optuna")
