"""The sampler for preferential studies of Optuna Dashboard."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import optuna
import pytest
import torch
from botorch.acquisition.preference import AnalyticExpectedUtilityOfBestOption
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState
from optuna_dashboard._preferential_history import NewHistory, remove_history, report_history
from optuna_dashboard.preferential import PreferentialStudy, create_study, load_study
from optuna_dashboard.preferential._system_attrs import report_skip
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.integrations.optuna import (
    Answers,
    Parameters,
    PreferentialSampler,
    read_answers,
)
from botorch_pref.models import PreferenceGP
from botorch_pref.queries import Choice, Duel, Worst

UNIT: dict[str, BaseDistribution] = {
    "x": FloatDistribution(0.0, 1.0),
    "y": FloatDistribution(0.0, 1.0),
}
MIXED: dict[str, BaseDistribution] = {
    "real": FloatDistribution(-1.0, 2.0),
    "rate": FloatDistribution(1e-4, 1.0, log=True),
    "share": FloatDistribution(0.1, 0.7, step=0.2),
    "layers": IntDistribution(3, 9),
    "even": IntDistribution(2, 8, step=2),
    "width": IntDistribution(1, 1000, log=True),
    "kind": CategoricalDistribution(["red", None, 3]),
    "fixed": FloatDistribution(0.5, 0.5),
}


def new_study(
    sampler: PreferentialSampler, storage: Any = None, n_generate: int = 2, name: str = "study"
) -> PreferentialStudy:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return create_study(n_generate=n_generate, storage=storage, sampler=sampler, study_name=name)


def active(study: PreferentialStudy) -> list[optuna.trial.FrozenTrial]:
    worse = {loser.number for _, loser in study.get_preferences()}
    return [trial for trial in study.get_trials() if trial.number not in worse]


def play(
    study: PreferentialStudy,
    distributions: Mapping[str, BaseDistribution],
    utility: Callable[[dict[str, Any]], float],
    answers: int,
) -> list[dict[str, Any]]:
    """Answers truthfully, and returns what was proposed on the way."""
    proposed = []
    for number in range(answers + 1):
        while study.should_generate():
            proposed.append(dict(study.ask(dict(distributions)).params))
        if number < answers:
            *better, worst = sorted(active(study), key=lambda t: utility(t.params), reverse=True)
            study.report_preference(better, worst)
    return proposed


def model_of(sampler: PreferentialSampler, study: PreferentialStudy) -> PreferenceGP:
    answers = read_answers(study._study)
    parameters = Parameters(answers.distributions())
    return sampler._learner(parameters.space, answers.told(parameters)).model()


def utility(params: dict[str, Any]) -> float:
    return -((params["x"] - 0.3) ** 2) - (params["y"] - 0.7) ** 2


def point(params: dict[str, Any]) -> Tensor:
    return torch.tensor([params["x"], params["y"]], dtype=torch.double)


@pytest.mark.usefixtures("short_searches")
@pytest.mark.parametrize("rule", ["kg", "ts", "eubo"])
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
            better, worse = sorted(active(study), key=lambda t: -utility(t.params))
            study.report_preference(better, worse)
        alone.append(dict(study.ask(UNIT).params))
        assert alone[-1] == trial
    other = play(new_study(PreferentialSampler(rule, seed=4)), UNIT, utility, 0)
    assert other != alone[:2]


@pytest.mark.usefixtures("short_searches")
def test_a_sampler_of_two_studies_keeps_them_apart() -> None:
    """What was fitted last serves the same answers alone."""
    shared, utilities = PreferentialSampler(), (utility, lambda params: -utility(params))
    studies = [new_study(shared, name=str(i)) for i in range(2)]
    for number in range(3):
        for study, of in zip(studies, utilities, strict=True):
            play(study, UNIT, of, int(number > 0))
    for study, of in zip(studies, utilities, strict=True):
        alone = play(new_study(PreferentialSampler()), UNIT, of, 2)
        assert [dict(trial.params) for trial in study.get_trials()] == alone


def test_the_first_trials_fill_the_space() -> None:
    plain, first, second = (
        play(new_study(PreferentialSampler("eubo", n_startup_trials=count)), UNIT, u, answers)
        for count, u, answers in (
            (0, utility, 0),
            (4, utility, 3),
            (4, lambda params: -utility(params), 3),
        )
    )
    alike = [one == other for one, other in zip(first, second, strict=True)]
    assert alike == [True] * 4 + [False]
    assert first[:2] == plain
    filled = torch.stack([point(params) for params in first[:4]])
    # Quarters of the square: a sequence that fills it has one item in each.
    assert len((2 * filled).floor().unique(dim=0)) == 4


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
    others = {trial.params["c"] for trial in active(study)}
    assert study.ask(few).params["c"] not in others


@pytest.mark.parametrize("rule", ["ts", "eubo"])
def test_the_rule_is_maximised(rule: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of EUBO against the best trial; a path without spread is the mean."""
    monkeypatch.setattr("botorch_pref.integrations.optuna.TEMPERED", 1e-9)
    sampler = PreferentialSampler(rule)
    study = new_study(sampler)
    proposed = point(play(study, UNIT, utility, 3)[-1])
    model = model_of(sampler, study)
    rival = point(active(study)[0].params)
    sample = torch.rand(500, 2, dtype=torch.double, generator=torch.Generator().manual_seed(1))
    X = torch.cat([proposed[None], sample]).unsqueeze(-2)
    with torch.no_grad():
        if rule == "ts":
            value = model.posterior(X).mean
        else:
            value = AnalyticExpectedUtilityOfBestOption(model, previous_winner=rival[None])(X)
    assert not torch.allclose(proposed, rival)
    assert float(value[0]) >= float(value.max()) - 1e-6


@pytest.mark.parametrize("rule", ["kg", "ts", "eubo"])
def test_no_trial_meets_itself(rule: Any) -> None:
    few: dict[str, BaseDistribution] = {"c": CategoricalDistribution(["a", "b", "c"])}
    study = new_study(PreferentialSampler(rule))
    for _ in range(4):
        while study.should_generate():
            study.ask(few)
        first, second = active(study)
        assert first.params != second.params
        better, worse = sorted((first, second), key=lambda t: str(t.params["c"]))
        study.report_preference(better, worse)


def test_the_worst_of_three_is_read_as_what_it_is() -> None:
    study = new_study(PreferentialSampler("eubo"), n_generate=3)
    study.ask(UNIT)
    play(study, UNIT, utility, 4)
    assert len(study.get_preferences()) == 8
    trials = study.get_trials()
    assert len({tuple(t.params.values()) for t in trials}) == 7
    told = read(study).told(Parameters(UNIT))
    assert [type(query) for query, _ in told] == 4 * [Worst]
    for query, answer in told:
        values = [utility(dict(zip("xy", item.tolist(), strict=True))) for item in query.items]
        assert values.index(min(values)) == answer == 0.0
        assert len(query.items) == 3
    best = PreferentialSampler().best_trial(study)
    assert best.number in {trial.number for trial in trials}


def test_other_answers_are_the_best_of_several_or_duels(study: PreferentialStudy) -> None:
    trials = study.get_trials()
    study.report_preference(trials[0], trials[1:3])
    study.report_preference(trials[:2], trials[2:])
    (best, _), *duels = read(study).told(Parameters(UNIT))
    assert type(best) is Choice
    assert best.items[:, 0].tolist() == [0.1, 0.2, 0.3]
    assert [type(query) for query, _ in duels] == 4 * [Duel]
    assert [answer for _, answer in duels] == 4 * [1.0]
    assert [query.items[0, 0] for query, _ in duels] == [0.1, 0.1, 0.2, 0.2]


def test_a_parameter_that_comes_later_is_drawn() -> None:
    study = new_study(PreferentialSampler())
    play(study, UNIT, utility, 1)
    wider = {**UNIT, "z": FloatDistribution(5.0, 6.0)}
    first, worst = active(study)
    study.report_preference(first, worst)
    trial = study.ask(wider)
    assert 5.0 <= trial.params["z"] <= 6.0
    assert {*trial.relative_params} == {"x", "y"}


def test_bad_options_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="`rule` must be one of"):
        PreferentialSampler("ucb")  # type: ignore[arg-type]
    with pytest.raises(ComparisonDataError, match="`n_startup_trials`"):
        PreferentialSampler(n_startup_trials=-1)


@pytest.mark.parametrize(
    ("package", "module"), [("optuna_dashboard", "optuna"), ("ax", "ax")], ids=["optuna", "ax"]
)
def test_a_missing_package_names_the_extra(
    package: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"botorch_pref.integrations.{module}", raising=False)
    with pytest.raises(ImportError, match=rf"needs {package}.*botorch-pref\[{module}\]"):
        importlib.import_module(f"botorch_pref.integrations.{module}")


# What a study says.


@pytest.fixture(autouse=True)
def closed_storages(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Optuna leaves connections to the interpreter, of which Python 3.13 warns."""
    opened: list[RDBStorage] = []
    make = RDBStorage.__init__

    def kept(storage: RDBStorage, *args: Any, **kwargs: Any) -> None:
        make(storage, *args, **kwargs)
        opened.append(storage)

    monkeypatch.setattr(RDBStorage, "__init__", kept)
    yield
    for storage in opened:
        storage.remove_session()
        storage.engine.dispose()


@pytest.fixture
def study(request: pytest.FixtureRequest, tmp_path: Path) -> PreferentialStudy:
    in_file = getattr(request, "param", False)
    url = f"sqlite:///{tmp_path / 'study.db'}" if in_file else None
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
    pairs = (pair for told in answers.preferences for pair in told)
    return [(better.number, worse.number) for better, worse in pairs]


@pytest.mark.parametrize("study", [False, True], ids=["memory", "sqlite"], indirect=True)
def test_clicks_are_pairs_and_can_be_undone(study: PreferentialStudy) -> None:
    storage, study_id = study._study._storage, study._study._study_id
    late = report_history(study_id, storage, NewHistory("ChooseWorst", [1, 2, 3], 2))
    report_history(study_id, storage, NewHistory("ChooseWorst", [0, 1], 0))
    answers = read(study)
    assert numbers(answers) == [(1, 0), (1, 2), (3, 2)]
    assert [trial.number for trial in answers.active] == [1, 3]
    (duel, first), (worst, _) = answers.told(Parameters(UNIT))
    assert duel.items[:, 0].tolist() == [0.1, 0.2]
    assert first == 0.0
    assert worst.items[:, 0].tolist() == [0.3, 0.2, 0.4]
    remove_history(study_id, storage, late)
    assert numbers(read(study)) == [(1, 0)]
    assert [trial.number for trial in read(study).active] == [1, 2, 3]


@pytest.mark.parametrize("state", [TrialState.FAIL, TrialState.PRUNED])
def test_skipped_failed_and_asked_trials_are_not_active(
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
    ((query, answer),) = answers.told(Parameters(answers.distributions()))
    assert query.items.tolist() == [[0.4], [0.5]]
    assert answer == 0.0


def test_what_is_found_worse_takes_no_parameter_away_and_makes_no_pair_alone(
    study: PreferentialStudy,
) -> None:
    """A trial that broke off lacks some parameters; another equals the better one."""
    study.enqueue_trial({"x": 0.1, "y": 0.5})
    study.ask(UNIT)
    half = {"x": UNIT["x"]}
    study.add_trial(optuna.trial.create_trial(params={"x": 0.5}, distributions=half, value=0.0))
    trials: list[FrozenTrial] = study.get_trials()
    for worse in trials[4:]:
        study.report_preference(trials[0], worse)
    answers = read(study)
    assert answers.distributions() == UNIT
    assert answers.told(Parameters(UNIT)) == []


def test_other_studies_are_refused() -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    plain = optuna.create_study(sampler=PreferentialSampler(), study_name="loss")
    with pytest.raises(UnsupportedError, match="'loss' is not preferential"):
        plain.ask(UNIT)
    several = optuna.create_study(sampler=PreferentialSampler(), directions=["minimize"] * 2)
    with pytest.raises(UnsupportedError, match="2 objectives"):
        several.ask(UNIT)


# Parameters as items.

FREE = {name: distribution for name, distribution in MIXED.items() if not distribution.single()}


def test_values_are_of_their_distributions_and_come_back() -> None:
    parameters = Parameters(FREE)
    seen: dict[str, set[object]] = {name: set() for name in FREE}
    for item in parameters.space.sample(128, seed=1):
        values = parameters.values(item)
        for name, value in values.items():
            assert FREE[name]._contains(FREE[name].to_internal_repr(value)), (name, value)
            assert type(value) is int or not isinstance(FREE[name], IntDistribution)
            seen[name].add(value)
        again = parameters.item(values, FREE)
        assert again is not None
        torch.testing.assert_close(again, item, rtol=1e-12, atol=1e-12)
    low, high = (parameters.values(end) for end in parameters.space.bounds)
    assert (low["width"], high["width"], low["rate"], high["rate"]) == (1, 1000, 1e-4, 1.0)
    assert seen["layers"] == {3, 4, 5, 6, 7, 8, 9}
    assert seen["even"] == {2, 4, 6, 8}
    assert seen["kind"] == {"red", None, 3}
    assert sorted(seen["share"]) == pytest.approx([0.1, 0.3, 0.5, 0.7])  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("searched", "own", "value"),
    [
        (FloatDistribution(0.0, 1.0), FloatDistribution(0.0, 2.0), 1.5),  # beyond the range
        (FloatDistribution(0.0, 1.0), IntDistribution(0, 1), 1),  # of another kind
        (FloatDistribution(0.0, 1.0), None, None),  # not there
        (FloatDistribution(0.0, 1.0, step=0.25), FloatDistribution(0.0, 1.0), 0.3),  # off the grid
        (CategoricalDistribution(["a", "b"]), CategoricalDistribution(["b", "a"]), "b"),
    ],
)
def test_what_is_elsewhere_has_no_item(searched: Any, own: Any, value: Any) -> None:
    given = {} if own is None else {"x": own}
    assert Parameters({"x": searched}).item({"x": value}, given) is None
