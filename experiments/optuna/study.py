r"""Preferential studies of Optuna Dashboard as strategies that are asked and told.

Importing this module needs the extra ``optuna``.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Callable
from typing import Any

import optuna
import torch
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.samplers import BaseSampler, RandomSampler
from optuna.trial import FrozenTrial
from optuna_dashboard.preferential import PreferentialStudy, create_study
from optuna_dashboard.preferential.samplers.gp import PreferentialGPSampler
from torch import Tensor

from botorch_pref.integrations.optuna import PreferentialSampler
from botorch_pref.queries import Duel
from botorch_pref.randomness import derive_seed
from experiments.optuna.problems import LEVELS, LOG_RANGE, WHOLE, Kind, ShownProblem

_LOG = logging.getLogger(__name__)
_SEEDS = 2**32  # NumPy knows no more
_DISTRIBUTIONS: dict[Kind, BaseDistribution] = {
    "real": FloatDistribution(0.0, 1.0),
    "log": FloatDistribution(*LOG_RANGE, log=True),
    "whole": IntDistribution(0, WHOLE),
    "category": CategoricalDistribution([*LEVELS]),
}


def new_study(sampler: BaseSampler, n_generate: int = 2) -> PreferentialStudy:
    """A study in memory, which is made in silence."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = create_study(n_generate=n_generate, sampler=sampler)
    optuna.logging.set_verbosity(verbosity)
    return study


def survivor(study: PreferentialStudy) -> FrozenTrial:
    """The trial that won last: all that Optuna tells of what is best."""
    (trial,) = study.best_trials
    return trial


class BuiltInSampler(BaseSampler):
    r"""Optuna Dashboard's sampler, started again where its own fit fails.

    Its fit can end in hyperparameters that are no numbers, from which it does not recover. Its
    user would start the program again; the trial that was asked for is then a uniform draw.
    """

    def __init__(self, seed: int) -> None:
        """Make a sampler."""
        self._seed, self._starts = seed, 0
        self._begin()

    def _begin(self) -> None:
        seed = derive_seed(self._seed, "start", self._starts) if self._starts else self._seed
        self._sampler = PreferentialGPSampler(seed=seed % _SEEDS)
        self._starts += 1

    def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, BaseDistribution]:
        return self._sampler.infer_relative_search_space(study, trial)

    def sample_relative(self, study: Any, trial: Any, search_space: Any) -> dict[str, Any]:
        try:
            return self._sampler.sample_relative(study, trial, search_space)
        except RuntimeError as error:
            _LOG.warning("Optuna's sampler failed at trial %d: %s", trial.number, error)
            self._begin()
            return {}

    def sample_independent(self, study: Any, trial: Any, *parameter: Any) -> Any:
        return self._sampler.sample_independent(study, trial, *parameter)


class PlayedStudy:
    r"""A study that shows two trials at a time, as the page does, until one is found worse.

    Attributes:
        study: The study.
    """

    def __init__(
        self,
        problem: ShownProblem,
        sampler: BaseSampler,
        best: Callable[[PreferentialStudy], FrozenTrial] = survivor,
    ) -> None:
        """Make a study."""
        self.study = new_study(sampler)
        self._kinds = {f"x{i}": kind for i, kind in enumerate(problem.kinds, start=1)}
        self._best = best
        self._asked: list[FrozenTrial] = []

    def ask(self) -> Duel:
        """The two trials that are shown, the older one first."""
        distributions = {name: _DISTRIBUTIONS[kind] for name, kind in self._kinds.items()}
        with warnings.catch_warnings():
            # The built-in sampler says of mixed spaces, at every trial, that it is bad at them.
            warnings.simplefilter("ignore")
            while self.study.should_generate():
                self.study.ask(distributions)
        worse = {loser.number for _, loser in self.study.get_preferences(deepcopy=False)}
        trials = self.study.get_trials(deepcopy=False)
        self._asked = [trial for trial in trials if trial.number not in worse]
        return Duel(len(worse), torch.stack([self._item(trial) for trial in self._asked]))

    def tell(self, query: Duel, answer: float) -> None:
        """Take an answer: 1 if the first trial is the better one, else 0."""
        first, second = self._asked
        self.study.report_preference(*((first, second) if answer else (second, first)))

    def recommend(self) -> Tensor:
        """The ``d``-dim item of the best trial."""
        return self._item(self._best(self.study))

    def _item(self, trial: FrozenTrial) -> Tensor:
        numbers = [_coordinate(kind, trial.params[name]) for name, kind in self._kinds.items()]
        return torch.tensor(numbers, dtype=torch.double)


def played_study(sampler: str, problem: ShownProblem, seed: int) -> PlayedStudy:
    """A study with one of the samplers, whose first two trials follow from the seed alone."""
    played = _new_study(sampler, problem, seed)
    # Uniform draws, as the built-in sampler and the random one begin by themselves.
    start = PlayedStudy(problem, RandomSampler(seed=derive_seed(seed, "start", 0) % _SEEDS))
    start.ask()
    for trial in start.study.get_trials():
        played.study.enqueue_trial(trial.params)
    return played


def _new_study(sampler: str, problem: ShownProblem, seed: int) -> PlayedStudy:
    if sampler == "built-in":
        return PlayedStudy(problem, BuiltInSampler(seed))
    if sampler == "random":
        return PlayedStudy(problem, RandomSampler(seed=seed % _SEEDS))
    rule: Any
    rule, _, filling = sampler.partition("-")
    # Of two samplers, so that what is learnt for a proposal counts as time of the proposal.
    best = PreferentialSampler(rule, seed=seed).best_trial
    proposing = PreferentialSampler(rule, seed=seed, n_startup_trials=int(filling or 0))
    return PlayedStudy(problem, proposing, best)


def _coordinate(kind: Kind, value: Any) -> float:
    """The coordinate of the unit cube that a parameter's value stands for."""
    if kind == "log":
        low, high = map(math.log, LOG_RANGE)
        return min(max((math.log(value) - low) / (high - low), 0.0), 1.0)
    if kind == "category":
        return LEVELS[value]
    return value / WHOLE if kind == "whole" else float(value)
