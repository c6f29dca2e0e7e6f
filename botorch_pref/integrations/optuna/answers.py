r"""What a preferential study of Optuna Dashboard says, whatever storage it is in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial, TrialState
from optuna_dashboard.preferential._system_attrs import (
    get_n_generate,
    get_preferences,
    get_skipped_trial_ids,
)
from torch import Tensor

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.integrations.optuna.parameters import Parameters

_PREFERENTIAL = "preference:is_preferential"


class Answers(NamedTuple):
    r"""The content of a study, apart from the trial that is being asked for, if there is one.

    Attributes:
        preferences: Pairs of a better and a worse trial, by the later of the two, so that the
            order does not depend on the storage.
        active: Trials that may still be compared: not found worse, not skipped, not failed.
        refused: Trials that are not to be proposed again: skipped, or failed.
        n_generate: Of how many active trials the page shows the worst is asked for.
    """

    preferences: list[tuple[FrozenTrial, FrozenTrial]]
    active: list[FrozenTrial]
    refused: list[FrozenTrial]
    n_generate: int

    def judged(self) -> list[FrozenTrial]:
        """All compared trials, by their numbers."""
        found = {trial.number: trial for pair in self.preferences for trial in pair}
        return [found[number] for number in sorted(found)]

    def distributions(self) -> dict[str, BaseDistribution]:
        r"""What is searched: the parameters that all trials have that have won.

        A trial that broke off before it had them all is only ever found worse. Before any
        comparison it is those of all active trials. Ranges are those of the latest trial that has
        them all; parameters of a single value are left to Optuna.
        """
        won = {better.number for better, _ in self.preferences}
        trials = [trial for trial in self.judged() or self.active if trial.distributions]
        shared = [{*trial.distributions} for trial in trials if not won or trial.number in won]
        if not shared:
            return {}
        names = set.intersection(*shared)
        latest = next(t.distributions for t in trials[::-1] if names <= {*t.distributions})
        return {name: latest[name] for name in sorted(names) if not latest[name].single()}

    def pairs(self, parameters: Parameters) -> Tensor:
        """``m x 2 x d``-dim pairs, the better item first, without those that lie elsewhere."""
        found = []
        for pair in self.preferences:
            items = items_of(pair, parameters)
            if len(items) == 2 and not torch.equal(items[0], items[1]):
                found.append(items)
        none = parameters.space.bounds.new_zeros(0, 2, parameters.space.dim)
        return torch.stack(found) if found else none

    def candidates(self, parameters: Parameters) -> list[tuple[FrozenTrial, Tensor]]:
        """The compared trials, but for those refused, that lie in a space; ``d``-dim items."""
        refused = {trial.number for trial in self.refused}
        trials = (trial for trial in self.judged() if trial.number not in refused)
        return [*_placed(trials, parameters)]


def read_answers(study: Study, asked: FrozenTrial | None = None) -> Answers:
    r"""Read a study.

    Args:
        study: The study.
        asked: The trial that is being asked for, if there is one.

    Returns:
        Its content.

    Raises:
        UnsupportedError: If the study is not preferential, or has several objectives.
    """
    if len(study.directions) != 1:
        raise UnsupportedError(
            f"PreferentialSampler takes no study of {len(study.directions)} objectives."
        )
    # Before the trials: a preference whose trials are not there yet could not be read.
    attributes = study._storage.get_study_system_attrs(study._study_id)
    if not attributes.get(_PREFERENTIAL):
        raise UnsupportedError(
            f"Study {study.study_name!r} is not preferential. PreferentialSampler needs one that "
            "optuna_dashboard.preferential.create_study made."
        )
    preferences = sorted(
        (tuple(pair) for pair in get_preferences(attributes)),
        key=lambda pair: (max(pair), min(pair), pair),
    )
    trials = study.get_trials(deepcopy=False)
    skipped = set(get_skipped_trial_ids(attributes))
    worse = {loser for _, loser in preferences}
    active, refused = [], []
    for trial in trials:
        if trial._trial_id in skipped or trial.state in (TrialState.FAIL, TrialState.PRUNED):
            refused.append(trial)
        elif (
            trial.number not in worse
            and trial.state in (TrialState.COMPLETE, TrialState.RUNNING)
            and (asked is None or trial.number != asked.number)
        ):
            active.append(trial)
    pairs = [(trials[better], trials[worse]) for better, worse in preferences]
    return Answers(pairs, active, refused, get_n_generate(attributes))


def items_of(trials: Iterable[FrozenTrial], parameters: Parameters) -> Tensor:
    """``k x d``-dim items of those trials that lie in a space."""
    items = [item for _, item in _placed(trials, parameters)]
    return torch.stack(items) if items else parameters.space.bounds[:0]


def _placed(
    trials: Iterable[FrozenTrial], parameters: Parameters
) -> Iterator[tuple[FrozenTrial, Tensor]]:
    """Those trials that lie in a space, with their items."""
    for trial in trials:
        item = parameters.item(trial.params, trial.distributions)
        if item is not None:
            yield trial, item
