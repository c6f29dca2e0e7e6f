from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna_dashboard.preferential import PreferentialStudy, create_study

from botorch_pref.integrations.optuna import PreferentialSampler

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


def in_play(study: PreferentialStudy) -> list[optuna.trial.FrozenTrial]:
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
            *better, worst = sorted(in_play(study), key=lambda t: utility(t.params), reverse=True)
            study.report_preference(better, worst)
    return proposed
