from __future__ import annotations

from pathlib import Path

import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.trial import FrozenTrial, TrialState
from optuna_dashboard._preferential_history import NewHistory, remove_history, report_history
from optuna_dashboard.preferential import PreferentialStudy
from optuna_dashboard.preferential._system_attrs import report_skip

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.integrations.optuna import PreferentialSampler
from botorch_pref.integrations.optuna.answers import Answers, read_answers
from botorch_pref.integrations.optuna.parameters import Parameters
from tests.integrations.optuna.common import UNIT, new_study


@pytest.fixture(params=["memory", "sqlite"])
def study(request: pytest.FixtureRequest, tmp_path: Path) -> PreferentialStudy:
    url = None if request.param == "memory" else f"sqlite:///{tmp_path / 'study.db'}"
    study = new_study(PreferentialSampler(), url)
    for x in (0.1, 0.2, 0.3, 0.4):
        study.enqueue_trial({"x": x, "y": 0.5})
        study.ask(UNIT)
    return study


def read(study: PreferentialStudy, asked: int = 99) -> Answers:
    trial = optuna.trial.create_trial(state=TrialState.RUNNING)
    trial.number = asked
    return read_answers(study._study, trial)


def numbers(answers: Answers) -> list[tuple[int, int]]:
    return [(better.number, worse.number) for better, worse in answers.preferences]


def test_clicks_are_pairs_and_can_be_undone(study: PreferentialStudy) -> None:
    storage, study_id = study._study._storage, study._study._study_id
    late = report_history(study_id, storage, NewHistory("ChooseWorst", [1, 2, 3], 2))
    report_history(study_id, storage, NewHistory("ChooseWorst", [0, 1], 0))
    answers = read(study)
    assert numbers(answers) == [(1, 0), (1, 2), (3, 2)]
    assert [trial.number for trial in answers.active] == [1, 3]
    pairs = answers.pairs(Parameters(UNIT))
    assert pairs[..., 0].tolist() == [[0.2, 0.1], [0.2, 0.3], [0.4, 0.3]]
    remove_history(study_id, storage, late)
    assert numbers(read(study)) == [(1, 0)]
    assert [trial.number for trial in read(study).active] == [1, 2, 3]


@pytest.mark.parametrize("state", [TrialState.FAIL, TrialState.PRUNED])
def test_skipped_failed_and_asked_trials_are_not_in_play(
    study: PreferentialStudy, state: TrialState
) -> None:
    study_id, storage = study._study._study_id, study._study._storage
    trials = study.get_trials()
    report_skip(study_id, trials[1]._trial_id, storage)
    storage.set_trial_state_values(trials[2]._trial_id, state)
    answers = read(study, asked=3)
    assert [trial.number for trial in answers.active] == [0]
    assert [trial.number for trial in answers.refused] == [1, 2]


def test_the_space_is_what_compared_trials_share(study: PreferentialStudy) -> None:
    assert read(study).distributions() == UNIT
    trials = study.get_trials()
    study.report_preference(trials[0], trials[1])
    other = optuna.trial.create_trial(
        params={"x": 0.5, "new": 1.0},
        distributions={"x": FloatDistribution(0.15, 2.0), "new": FloatDistribution(0.0, 2.0)},
        value=0.0,
    )
    study.add_trial(other)
    assert read(study).distributions() == UNIT  # that trial was not compared with any
    trials = study.get_trials()
    study.report_preference(trials[4], trials[3])
    answers = read(study)
    assert answers.distributions() == {"x": FloatDistribution(0.15, 2.0)}
    # Trial 0 lies beyond the present range, and so its comparison says nothing here.
    pairs = answers.pairs(Parameters(answers.distributions()))
    assert pairs.tolist() == [[[0.5], [0.4]]]


def test_a_trial_that_broke_off_takes_no_parameter_away(study: PreferentialStudy) -> None:
    """It lacks some, and is only ever found worse."""
    trials = study.get_trials()
    study.report_preference(trials[0], trials[1])
    half = {"x": UNIT["x"]}
    study.add_trial(optuna.trial.create_trial(params={"x": 0.5}, distributions=half, value=0.0))
    trials = study.get_trials()
    study.report_preference(trials[0], trials[-1])
    assert read(study).distributions() == UNIT


def test_trials_that_differ_in_nothing_make_no_pair(study: PreferentialStudy) -> None:
    study.enqueue_trial({"x": 0.1, "y": 0.5})
    study.ask(UNIT)
    trials: list[FrozenTrial] = study.get_trials()
    study.report_preference(trials[0], trials[4])
    assert read(study).pairs(Parameters(UNIT)).shape == (0, 2, 2)


def test_other_studies_are_refused() -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    plain = optuna.create_study(sampler=PreferentialSampler(), study_name="loss")
    with pytest.raises(UnsupportedError, match="'loss' is not preferential"):
        plain.ask(UNIT)
    several = optuna.create_study(sampler=PreferentialSampler(), directions=["minimize"] * 2)
    with pytest.raises(UnsupportedError, match="2 objectives"):
        several.ask(UNIT)
