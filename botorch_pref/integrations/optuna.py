r"""A sampler for the preferential studies of Optuna Dashboard (extra ``optuna``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

try:
    import optuna_dashboard  # noqa: F401
    from optuna import Study
except ImportError as error:
    raise ImportError(
        f"botorch_pref.integrations.optuna needs {error.name}, which the extra `optuna` installs: "
        "pip install 'botorch-pref[optuna]'"
    ) from error

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.preference import AnalyticExpectedUtilityOfBestOption
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState
from optuna_dashboard.preferential import PreferentialStudy
from optuna_dashboard.preferential._system_attrs import get_skipped_trial_ids
from torch import Tensor

from botorch_pref.acquisition.dueling_thompson import ArmPath, DuelingThompsonSampling
from botorch_pref.data.checks import check_count
from botorch_pref.data.options import checked_seed
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.queries import Answer, Answered, Choice, Duel, Worst
from botorch_pref.randomness import derive_seed, derive_uniform
from botorch_pref.space.search_space import SearchSpace
from botorch_pref.strategies.base import next_best, same_item
from botorch_pref.strategies.dueling_kg import DuelingKG
from botorch_pref.strategies.pf_ts import MAX_PATH_RESAMPLES, TEMPERED
from botorch_pref.strategies.utility import UtilityLearner, last_refit

__all__ = ["PreferentialSampler"]

_RULES = ("kg", "ts", "eubo")
_PREFERENTIAL = "preference:is_preferential"
_PREFERENCE = "preference:values"
_ON_THE_GRID = 1e-6


class PreferentialSampler(BaseSampler):
    r"""Proposes the next trial of a study of ``optuna_dashboard.preferential``.

    The page shows the trials that are still active and asks for the worst of them; the others win
    against it, and the sampler proposes one in its place. What it proposes follows from its seed,
    the number of the trial and what the study's storage holds, so that a study may be resumed, or
    shared by several processes. Two trials that are asked for before either has its parameters are
    the same ones with ``"eubo"``, and alike with ``"kg"``. Until there is an answer, trials fill
    the space.

    ``"eubo"`` begins in corners and may settle where the first answers happen to lead, above all in
    many dimensions. With ``n_startup_trials=10``, say, it begins with a sample of the whole space.

    The page asks for the worst of all active trials, which is learnt as that: a softmax of their
    utilities, and of two a duel. What else a study reports is the best of several where one trial
    is better than all others, or else duels.

    Args:
        rule: ``"kg"`` proposes the item whose duel with the best active trial is worth most, by the
            rule and the model of :class:`~botorch_pref.strategies.DuelingKG`; ``"ts"`` the
            maximiser of one posterior path of the utility (Lazzaro et al. 2026); ``"eubo"`` the
            item whose duel with the best active trial has the largest expected utility of the
            better one (Lin et al. 2022).
        seed: The seed of all draws.
        n_startup_trials: How many trials fill the space, whatever the answers.

    Raises:
        UnsupportedError: If there is no such rule.
        ComparisonDataError: If ``seed`` is no whole number, or ``n_startup_trials`` no count.

    Example:
        >>> import optuna
        >>> from optuna_dashboard.preferential import create_study
        >>> study = create_study(
        ...     n_generate=2, storage="sqlite:///study.db", sampler=PreferentialSampler()
        ... )
        >>> while study.should_generate():
        ...     trial = study.ask({"x": optuna.distributions.FloatDistribution(0, 1)})
    """

    def __init__(
        self,
        rule: Literal["kg", "ts", "eubo"] = "kg",
        *,
        seed: int = 0,
        n_startup_trials: int = 0,
    ) -> None:
        if rule not in _RULES:
            raise UnsupportedError(f"`rule` must be one of {_RULES}, got {rule!r}.")
        self.rule = rule
        self.seed = checked_seed(seed)
        self.n_startup_trials = check_count("n_startup_trials", n_startup_trials, 0)
        self._fitted: tuple[Any, dict[str, Any]] | None = None

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        r"""The parameters that are proposed together: those that the study's trials share.

        Raises:
            UnsupportedError: If the study is not preferential, or has several objectives.
        """
        return read_answers(study, trial).distributions()

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The proposal, by the names in the search space; nothing for an empty one."""
        if not search_space:
            return {}
        answers = read_answers(study, trial)
        parameters = Parameters(search_space)
        active = parameters.items(answers.active)
        avoid = torch.cat([active, parameters.items(answers.refused)])
        told = answers.told(parameters)
        if told and trial.number >= self.n_startup_trials:
            item = self._proposal(parameters, told, active, avoid, trial.number)
        else:
            item = self._space_filling_item(parameters.space, told, avoid, trial.number)
        return parameters.values(item)

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """A uniform draw of a parameter that no earlier trial has."""
        parameters = Parameters({param_name: param_distribution})
        unit = derive_uniform(self.seed, f"parameter {param_name}", trial.number)
        item = parameters.space.parameters.from_unit(torch.tensor([unit], dtype=torch.double))
        return parameters.values(item)[param_name]

    def best_trial(self, study: PreferentialStudy | Study) -> FrozenTrial:
        r"""The compared trial with the largest posterior mean, not skipped, failed or pruned.

        ``study.best_trials`` has the last survivors, which a single wrong answer may have put
        there; this one follows from all answers.

        Raises:
            UnsupportedError: If the study is not preferential, has several objectives, or has no
                answers yet.
        """
        answers = read_answers(getattr(study, "_study", study))
        distributions = answers.distributions() if answers.preferences else {}
        if distributions:
            parameters = Parameters(distributions)
            refused = {trial.number for trial in answers.refused}
            told = answers.told(parameters)
            found = [
                trial
                for trial in answers.compared()
                if trial.number not in refused and len(parameters.items([trial]))
            ]
            if told and found:
                model = self._learner(parameters.space, told).model()
                with torch.no_grad():
                    means = model.posterior_mean(parameters.items(found))
                return found[int(means.argmax())]
        raise UnsupportedError("There are no answers yet that tell which trial is best.")

    def _space_filling_item(
        self, space: SearchSpace, told: Sequence[Answered], avoid: Tensor, number: int
    ) -> Tensor:
        """The next item of a sequence that fills the space, a new one if possible."""
        asked = torch.cat([avoid[:0], *(query.items for query, _ in told)])
        count = number + 1 + len(avoid) + len(asked)
        items = space.sample(count, derive_seed(self.seed, "start", 0))[number:].unsqueeze(-2)
        known = 2 * same_item(space, items, avoid).any(-1) + same_item(space, items, asked).any(-1)
        return items[int(known.argmin()), 0]

    def _proposal(
        self,
        parameters: Parameters,
        told: Sequence[Answered],
        active: Tensor,
        avoid: Tensor,
        number: int,
    ) -> Tensor:
        """The maximiser of the rule that is not to be avoided."""
        space, seed = parameters.space, derive_seed(self.seed, "optimizer", number)
        asked = torch.cat([*(query.items for query, _ in told), active])
        learner = self._learner(space, told)
        model = learner.model()
        if self.rule == "kg":
            strategy = DuelingKG(space=space, seed=seed, known=told)
            strategy.learner = learner
            return strategy.challenger(_best_of(active if len(active) else asked, model), avoid)
        for rule in self._acquisitions(model, active if len(active) else asked, number):
            found = space.maximize(rule, seed=seed, starts=asked.unsqueeze(-2))
            if not same_item(space, found.items[0], avoid).any():
                break
        return next_best(found, space, rule, seed, avoid).items[0]

    def _acquisitions(
        self, model: PreferenceGP, opponents: Tensor, number: int
    ) -> Iterator[AcquisitionFunction]:
        """The rule, and what to try instead while it leads to an item that is to be avoided."""
        if self.rule == "eubo":
            best = _best_of(opponents, model).unsqueeze(0)
            yield AnalyticExpectedUtilityOfBestOption(model, previous_winner=best)
            return
        for attempt in range(1 + MAX_PATH_RESAMPLES):
            seed = derive_seed(self.seed, f"path {attempt}", number)
            yield ArmPath(DuelingThompsonSampling(model, scale=TEMPERED, seed=seed), 0)

    def _learner(self, space: SearchSpace, told: Sequence[Answered]) -> UtilityLearner:
        """What is learnt from some answers, from which alone it follows."""
        as_kg = self.rule == "kg"
        learner = UtilityLearner(space, seed=self.seed, sure=as_kg, falls=as_kg)
        fitted = last_refit(len(told))
        for number, (query, answer) in enumerate(told, start=1):
            learner.add(query, cast(Answer, answer))
            if number == fitted:
                self._fit(learner)
        return learner

    def _fit(self, learner: UtilityLearner) -> None:
        """Fit the hyperparameters, or take those that were fitted last to the same answers."""
        told = [(type(query), query.items.tolist(), answer) for query, answer in learner.answered]
        key, fitted = (learner.space.state_dict(), told), self._fitted
        if fitted is None or fitted[0] != key:
            learner.refit()
            self._fitted = fitted = key, learner.values
        learner.values, learner.num_fitted = fitted[1], learner.told.size


@torch.no_grad()
def _best_of(items: Tensor, model: PreferenceGP) -> Tensor:
    """That of ``k x d``-dim items with the largest posterior mean."""
    return items[model.posterior_mean(items).argmax()]


class Answers(NamedTuple):
    """The content of a study, apart from the trial that is being asked for, if there is one."""

    preferences: list[list[tuple[FrozenTrial, FrozenTrial]]]  # answers, as pairs: better, worse
    active: list[FrozenTrial]  # not found worse, not skipped, not failed
    refused: list[FrozenTrial]  # skipped, or failed

    def compared(self) -> list[FrozenTrial]:
        """All compared trials, by their numbers."""
        found = {one.number: one for told in self.preferences for pair in told for one in pair}
        return [found[number] for number in sorted(found)]

    def distributions(self) -> dict[str, BaseDistribution]:
        r"""What is searched: the parameters that all trials have that have won.

        A trial that broke off before it had them all is only ever found worse. Before any
        comparison it is those of all active trials. Ranges are those of the latest trial that has
        them all; parameters of a single value are left to Optuna.
        """
        won = {better.number for told in self.preferences for better, _ in told}
        trials = [trial for trial in self.compared() or self.active if trial.distributions]
        shared = [{*trial.distributions} for trial in trials if not won or trial.number in won]
        if not shared:
            return {}
        names = set.intersection(*shared)
        latest = next(t.distributions for t in trials[::-1] if names <= {*t.distributions})
        return {name: latest[name] for name in sorted(names) if not latest[name].single()}

    def told(self, parameters: Parameters) -> list[Answered]:
        """The answers, without trials that lie elsewhere, and what is then no comparison."""
        found: list[Answered] = []
        for kind, named, rest in (one for pairs in self.preferences for one in _questions(pairs)):
            own = parameters.items([named])
            items = [one for one in parameters.items(rest).unique(dim=0) if len(own)]
            items = [one for one in items if not torch.equal(one, own[0])]
            if not items:
                continue
            asked = torch.stack([own[0], *items])
            if len(items) == 1:
                found.append(Answered(Duel(len(found), asked), float(kind is Choice)))
            else:
                found.append(Answered(kind(len(found), asked), 0.0))
        return found


def _questions(
    pairs: Sequence[tuple[FrozenTrial, FrozenTrial]],
) -> Iterator[tuple[type[Choice], FrozenTrial, list[FrozenTrial]]]:
    """What pairs of a better and a worse trial say: which one was named, as what, among which."""
    better, worse = ({one.number: one for one in side} for side in zip(*pairs, strict=True))
    if len(worse) == 1:
        yield Worst, *worse.values(), [*better.values()]
    elif len(better) == 1:
        yield Choice, *better.values(), [*worse.values()]
    else:
        for one, other in pairs:
            yield Choice, one, [other]


def read_answers(study: Study, asked: FrozenTrial | None = None) -> Answers:
    """Read a study, whatever storage it is in; it must be preferential, of one objective."""
    if len(study.directions) != 1:
        raise UnsupportedError(
            f"PreferentialSampler takes no study of {len(study.directions)} objectives."
        )
    # Read before the trials, so that the trials of every preference are there.
    attributes = study._storage.get_study_system_attrs(study._study_id)
    if not attributes.get(_PREFERENTIAL):
        raise UnsupportedError(
            f"Study {study.study_name!r} is not preferential. PreferentialSampler needs one that "
            "optuna_dashboard.preferential.create_study made."
        )
    # Removed preferences are empty; by the latest trial of an answer.
    given = [value for key, value in attributes.items() if key.startswith(_PREFERENCE) and value]
    answers = sorted(
        (sorted(map(tuple, pairs)) for pairs in given),
        key=lambda pairs: (max(map(max, pairs)), min(map(min, pairs)), pairs),
    )
    trials = study.get_trials(deepcopy=False)
    skipped = set(get_skipped_trial_ids(attributes))
    worse = {loser for pairs in answers for _, loser in pairs}
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
    told = [[(trials[better], trials[worse]) for better, worse in pairs] for pairs in answers]
    return Answers(told, active, refused)


class Parameters:
    r"""Named parameters of one trial as a ``d``-dim item, in the order of the names.

    A category is the index of its choice. What has a step, whole numbers on a linear scale
    included, is the number of steps from the lower end.
    """

    def __init__(self, distributions: Mapping[str, BaseDistribution]) -> None:
        self.distributions: dict[str, Any] = dict(sorted(distributions.items()))
        kinds: dict[str, Any] = {"integer": [], "categorical": [], "log": []}
        ends = []
        for i, distribution in enumerate(self.distributions.values()):
            if isinstance(distribution, CategoricalDistribution):
                kinds["categorical"].append(i)
                ends.append((0.0, len(distribution.choices) - 1.0))
                continue
            low, high = distribution.low, distribution.high
            ends.append((_number(distribution, low), _number(distribution, high)))
            if _step(distribution) is not None or isinstance(distribution, IntDistribution):
                kinds["integer"].append(i)
            if distribution.log:
                kinds["log"].append(i)
        self.space = SearchSpace(torch.tensor(ends, dtype=torch.double).T, **kinds)

    def item(
        self, values: Mapping[str, Any], distributions: Mapping[str, BaseDistribution]
    ) -> Tensor | None:
        """The ``d``-dim item of a trial, or ``None`` where a value is not of this space."""
        numbers = []
        for name, distribution in self.distributions.items():
            own = distributions.get(name)
            if type(own) is not type(distribution):
                return None
            if isinstance(distribution, CategoricalDistribution) and own != distribution:
                return None
            numbers.append(_number(distribution, values[name]))
        item = torch.tensor(numbers, dtype=torch.double)
        return item if bool(self.space.contains(item)) else None

    def items(self, trials: Iterable[FrozenTrial]) -> Tensor:
        """``k x d``-dim items of those trials that lie in the space."""
        found = (self.item(trial.params, trial.distributions) for trial in trials)
        items = [item for item in found if item is not None]
        return torch.stack(items) if items else self.space.bounds[:0]

    def values(self, item: Tensor) -> dict[str, Any]:
        """What an item of the space is to Optuna: a value for each name."""
        pairs = zip(self.distributions.items(), item.tolist(), strict=True)
        return {name: _value(distribution, number) for (name, distribution), number in pairs}


def _step(distribution: Any) -> float | None:
    """The step of a grid; a whole number on a logarithmic scale has none."""
    return None if distribution.log else distribution.step


def _number(distribution: Any, value: Any) -> float:
    if isinstance(distribution, CategoricalDistribution):
        return float(distribution.to_internal_repr(value))
    step = _step(distribution)
    if step is None:
        return float(value)
    number = (value - distribution.low) / step
    # A value off the grid, of an earlier distribution, stays off the grid.
    return float(round(number)) if abs(number - round(number)) < _ON_THE_GRID else number


def _value(distribution: Any, number: float) -> Any:
    if isinstance(distribution, CategoricalDistribution):
        return distribution.to_external_repr(round(number))
    step = _step(distribution)
    if step is not None:
        number = min(distribution.low + step * round(number), distribution.high)
    return round(number) if isinstance(distribution, IntDistribution) else float(number)
