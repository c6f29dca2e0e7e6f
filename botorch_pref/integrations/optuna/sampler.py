r"""One new trial for a preferential study, beside those that are still in play."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, Literal

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.preference import AnalyticExpectedUtilityOfBestOption
from botorch.exceptions.warnings import UserInputWarning
from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial
from optuna_dashboard.preferential import PreferentialStudy
from torch import Tensor

from botorch_pref.acquisition import DuelingThompsonSampling
from botorch_pref.data.checks import check_count, checked_positive, checked_seed
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.integrations.optuna.answers import items_of, read_answers
from botorch_pref.integrations.optuna.kept import Kept, told
from botorch_pref.integrations.optuna.parameters import Parameters
from botorch_pref.models import PreferenceGP
from botorch_pref.randomness import derive_seed, derive_uniform
from botorch_pref.space import SearchSpace
from botorch_pref.strategies.base import best_of_sample, same_item
from botorch_pref.strategies.pf_ts import MAX_PATH_RESAMPLES, TEMPERED
from botorch_pref.strategies.utility import ArmPath

_RULES = ("ts", "eubo")


class PreferentialSampler(BaseSampler):
    r"""Proposes the next trial of a study of ``optuna_dashboard.preferential``.

    The page shows the trials still in play and asks for the worst of them; the others win against
    it, and the sampler proposes one in its place. What it proposes follows from its seed, the
    number of the trial and what the study's storage holds, so that a study may be resumed, or
    shared by several processes. Two trials that are asked for before either has its parameters are
    the same ones with ``"eubo"``. Until there is an answer, trials fill the space.

    ``"eubo"`` may settle where the first answers happen to lead, above all in many dimensions. With
    ``n_startup_trials=10``, say, it begins with a sample of the whole space.

    Show two at a time (``n_generate=2``). The worst of more is read as as many duels, which a
    person has not judged one by one, and a warning says so.

    Example:
        >>> from optuna_dashboard.preferential import create_study
        >>> study = create_study(
        ...     n_generate=2, storage="sqlite:///study.db", sampler=PreferentialSampler("eubo")
        ... )
        >>> while study.should_generate():
        ...     trial = study.ask({"x": optuna.distributions.FloatDistribution(0, 1)})

    Attributes:
        rule: As it was given.
        seed: As it was given.
        scale: As it was given.
        n_startup_trials: As it was given.
    """

    def __init__(
        self,
        rule: Literal["ts", "eubo"] = "ts",
        *,
        seed: int = 0,
        scale: float = TEMPERED.value,
        n_startup_trials: int = 0,
    ) -> None:
        r"""Set the rule.

        Args:
            rule: ``"ts"`` proposes the maximiser of one posterior path of the utility (Lazzaro et
                al. 2026), ``"eubo"`` the item whose duel with the best trial in play has the
                largest expected utility of the better one (Lin et al. 2022).
            seed: The seed of all draws.
            scale: What the standard deviation of the path is multiplied by, for ``"ts"``.
            n_startup_trials: How many trials fill the space, whatever the answers; with 0 the rule
                is followed from the first answer on.

        Raises:
            UnsupportedError: If there is no such rule.
            ComparisonDataError: If ``scale`` is not a positive number, ``seed`` no whole one, or
                ``n_startup_trials`` no count.
        """
        if rule not in _RULES:
            raise UnsupportedError(f"`rule` must be one of {_RULES}, got {rule!r}.")
        self.rule = rule
        self.seed = checked_seed(seed)
        self.scale = checked_positive("scale", scale)
        check_count("n_startup_trials", n_startup_trials, 0)
        self.n_startup_trials = n_startup_trials
        self._kept: Kept | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": None}  # it follows from the study

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        r"""The parameters that are proposed together: those that the study's trials share.

        Args:
            study: The study.
            trial: The trial that is being asked for.

        Returns:
            Distributions by name.

        Raises:
            UnsupportedError: If the study is not preferential, or has several objectives.
        """
        return read_answers(study, trial).distributions()

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        r"""The proposal.

        Args:
            study: The study.
            trial: The trial that is being asked for.
            search_space: What :meth:`infer_relative_search_space` returned.

        Returns:
            Values by name; none for an empty space.
        """
        if not search_space:
            return {}
        answers = read_answers(study, trial)
        if answers.n_generate > 2:
            warnings.warn(
                f"The worst of {answers.n_generate} is read as {answers.n_generate - 1} duels; "
                "show two trials at a time (n_generate=2) for answers that are judged one by one.",
                UserInputWarning,
                stacklevel=2,
            )
        parameters = Parameters(search_space)
        active = items_of(answers.active, parameters)
        avoid = torch.cat([active, items_of(answers.refused, parameters)])
        pairs = answers.pairs(parameters)
        if len(pairs) and trial.number >= self.n_startup_trials:
            item = self._proposal(parameters, pairs, active, avoid, trial.number)
        else:
            asked, seed = pairs.flatten(0, 1), derive_seed(self.seed, "start", 0)
            item = _filling(parameters.space, seed, trial.number, avoid, asked)
        return parameters.values(item)

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        r"""A uniform draw of a parameter that no earlier trial has.

        Args:
            study: The study.
            trial: The trial that is being asked for.
            param_name: The parameter.
            param_distribution: Its distribution.

        Returns:
            The value.
        """
        parameters = Parameters({param_name: param_distribution})
        unit = derive_uniform(self.seed, f"parameter {param_name}", trial.number)
        item = parameters.space.parameters.from_unit(torch.tensor([unit], dtype=torch.double))
        return parameters.values(item)[param_name]

    def best_trial(self, study: PreferentialStudy | Study) -> FrozenTrial:
        r"""The compared trial with the largest posterior mean.

        ``study.best_trials`` has the last survivors, whom a single wrong answer may have put
        there; this one all answers speak for.

        Args:
            study: The study, also as Optuna loads it.

        Returns:
            A trial that was neither skipped nor failed or pruned.

        Raises:
            UnsupportedError: If the study is not preferential, has several objectives, or has no
                answers yet.
        """
        answers = read_answers(getattr(study, "_study", study))
        distributions = answers.distributions()
        if answers.preferences and distributions:
            parameters = Parameters(distributions)
            found = answers.candidates(parameters)
            pairs = answers.pairs(parameters)
            if len(pairs) and found:
                model = self._model(parameters, pairs)
                items = torch.stack([item for _, item in found])
                with torch.no_grad():
                    means = model.posterior(items.unsqueeze(-2)).mean
                return found[int(means.argmax())][0]
        raise UnsupportedError("There are no answers yet that tell which trial is best.")

    def _proposal(
        self, parameters: Parameters, pairs: Tensor, active: Tensor, avoid: Tensor, number: int
    ) -> Tensor:
        space, seed = parameters.space, derive_seed(self.seed, "optimizer", number)
        model = self._model(parameters, pairs)
        asked = torch.cat([pairs.flatten(0, 1), active])
        for rule in self._acquisitions(model, active if len(active) else asked, number):
            item = space.maximize(rule, seed=seed, starts=asked.unsqueeze(-2)).items[0]
            if not same_item(space, item, avoid).any():
                return item
        return best_of_sample(space, rule, seed, asked, avoid)

    def _acquisitions(
        self, model: PreferenceGP, rivals: Tensor, number: int
    ) -> Iterator[AcquisitionFunction]:
        """The rule, and what to try instead while it leads to an item that is to be avoided."""
        if self.rule == "eubo":
            with torch.no_grad():
                best = rivals[model.posterior(rivals.unsqueeze(-2)).mean.argmax()]
            yield AnalyticExpectedUtilityOfBestOption(model, previous_winner=best.unsqueeze(0))
            return
        for attempt in range(1 + MAX_PATH_RESAMPLES):
            seed = derive_seed(self.seed, f"path {attempt}", number)
            yield ArmPath(DuelingThompsonSampling(model, scale=self.scale, seed=seed), 0)

    def _model(self, parameters: Parameters, pairs: Tensor) -> PreferenceGP:
        """The model of ``m x 2 x d``-dim pairs, the better item first."""
        kept, self._kept = self._kept, None  # in case it is interrupted
        self._kept = told(kept, parameters, pairs, self.seed)
        return self._kept.learner.model()


def _filling(space: SearchSpace, seed: int, number: int, avoid: Tensor, asked: Tensor) -> Tensor:
    """The next item of a sequence that fills the space, a new one if possible."""
    count = number + 1 + len(avoid) + len(asked)
    items = space.sample(count, seed)[number:].unsqueeze(-2)
    known = 2 * same_item(space, items, avoid).any(-1) + same_item(space, items, asked).any(-1)
    return items[int(known.argmin()), 0]
