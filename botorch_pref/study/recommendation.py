r"""A model of the answers of a study, a recommendation from it, and when to stop asking."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from botorch.fit import fit_gpytorch_mll
from scipy.optimize import brentq
from torch import Size, Tensor

from botorch_pref.exceptions import StudyError
from botorch_pref.inference.systems import joint_draws
from botorch_pref.kernels.items import default_covar_module, default_lengthscale
from botorch_pref.models.base import LaplaceMarginalLogLikelihood
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.randomness import derive_seed, seeded
from botorch_pref.space.search_space import SearchSpace
from botorch_pref.strategies.base import Strategy
from botorch_pref.strategies.utility import UtilityLearner

_DRAWS = 4096
_FAR = 1e6  # a difference of utility at which the better item surely wins
_ALIKE = 0.05  # of the range of every number


@dataclass(frozen=True)
class StoppingRule:
    r"""A study may stop when, with this probability, no asked item is noticeably better.

    That is ``P(max_i f(x_i) - f(x) <= h) >= probability`` under the posterior, for the recommended
    item ``x`` and the asked items ``x_i``; ``h`` is the difference at which the better of two
    items wins with probability ``1/2 + margin``.

    Attributes:
        probability: The probability that has to be reached.
        margin: The win probability above 1/2 that is noticeable.
        min_answers: The least number of comparisons, as few may agree by chance.

    Raises:
        StudyError: If a number is out of range.
    """

    probability: float = 0.9
    margin: float = 0.1
    min_answers: int = 15

    def __post_init__(self) -> None:
        for name, most in (("probability", 1.0), ("margin", 0.5)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise StudyError(f"`{name}` must be a number, got {value!r}.")
            if not 0.0 < value < most:
                raise StudyError(f"`{name}` must be between 0 and {most:g}, got {value!r}.")
        if not isinstance(self.min_answers, int) or self.min_answers < 1:
            raise StudyError(f"`min_answers` must be at least 1, got {self.min_answers!r}.")


@dataclass(frozen=True)
class Beliefs:
    r"""A model of all comparisons, and the ``n x d``-dim distinct items that were compared.

    The model has the kernel and the link of the strategy where that learns a utility from duels,
    else the package's defaults; hyperparameters are learnt from these answers, and the covariance
    is Laplace's whatever the strategy is.
    """

    model: PreferenceGP
    space: SearchSpace
    items: Tensor
    num_answers: int
    seed: int

    @classmethod
    def of(cls, strategy: Strategy) -> Beliefs | None:
        """The model of a strategy's answers; None if there are no comparisons."""
        told = [(query, answer) for query, answer in strategy.history if answer is not None]
        others = getattr(strategy, "known", ())
        found = [pair for query, answer in (*others, *told) for pair in query.comparisons(answer)]
        if not found:
            return None
        pairs = torch.stack([pair for pair, _ in found]).double()
        learner = copy(getattr(strategy, "learner", None))
        if isinstance(learner, UtilityLearner) and learner.learns:
            learner.kappa = "laplace"
            learner.refit(at_once=True)
            model = learner.model()
        else:
            space = strategy.space
            lengthscale = default_lengthscale(len(space.parameters.seen))  # of a category: one
            model = PreferenceGP.from_pairs(
                pairs,
                pairs.new_tensor([answer for _, answer in found]),
                covar_module=default_covar_module(
                    space.num_features, Size(), lengthscale=lengthscale
                ),
                input_transform=space.input_transform(),
            )
            with seeded(derive_seed(strategy.seed, "fit beliefs", len(told)), pairs.device):
                fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
        # A choice of several items is one answer with several comparisons; others' count for none.
        own = sum(bool(query.comparisons(answer)) for query, answer in told)
        seed = derive_seed(strategy.seed, "draws of beliefs", len(told))
        items = pairs.flatten(end_dim=-2).unique(dim=0)
        return cls(model.eval(), strategy.space, items, own, seed)

    @cached_property
    def mean(self) -> Tensor:
        """The ``n``-dim posterior means of the items."""
        with torch.no_grad():
            return self.model.posterior_mean(self.items)

    def with_item(self, item: Tensor) -> tuple[Beliefs, int]:
        """With a ``d``-dim item among the items, behind them if it is a new one, and its row."""
        found = (self.items == item).all(-1).nonzero()
        if len(found):
            return self, int(found[0])
        items = torch.cat([self.items, item.unsqueeze(0).to(self.items)])
        return replace(self, items=items), len(items) - 1

    def alike(self, row: int) -> Tensor:
        """Which of the items hardly differ from one: on a box by 5 % of every range at most."""
        if self.space.choices is not None:
            return (self.items == self.items[row]).all(-1)
        seen = self.space.normalize(self.items)
        return ((seen - seen[row]).abs() <= _ALIKE).all(-1)

    def distinct(self, number: int, first: int) -> list[int]:
        """The rows of the best items by the posterior mean that are not alike, from one row on."""
        rows = [first]
        taken = self.alike(first)
        for row in self.mean.argsort(descending=True).tolist():
            if len(rows) < number and not bool(taken[row]):
                rows.append(row)
                taken = taken | self.alike(row)
        return rows

    @torch.no_grad()
    def advantages(self, row: int) -> Tensor:
        """``k x n``-dim draws of how much better each item is than that of a row."""
        covariance = self.model.posterior(self.items).covariance_matrix
        generator = torch.Generator().manual_seed(self.seed)
        draws = joint_draws(self.mean, covariance, _DRAWS, generator)
        return draws - draws[:, row : row + 1]

    def noticeable(self, margin: float) -> float:
        """The difference of utility at which the better item wins by a margin above 1/2."""
        link = self.model.likelihood
        found = brentq(lambda h: float(link(torch.tensor(h).double())) - 0.5 - margin, 0.0, _FAR)
        return float(found)


@dataclass(frozen=True)
class Recommendation:
    r"""The best item of the whole space by the strategy, and probabilities by all comparisons.

    The probabilities, and ``best_asked``, are ``None`` while there are no comparisons. Before the
    stopping rule's ``min_answers`` they mostly tell of the prior, and the statement has none.

    Attributes:
        item: The ``d``-dim item.
        values: The same by the names of dimensions, categories by the names of levels.
        num_answers: The number of answers, skipped ones aside.
        num_items: The number of items that it is compared with.
        probability_best: The posterior probability that it, or on a box one that differs by 5 %
            of every range at most and in no category, is the best of these.
        best_asked: The ``d``-dim item of the largest posterior mean of those that were asked.
        runner_up: The ``d``-dim item of the largest posterior mean that is not alike, if any.
        win_probability: That the recommended item wins a duel with that one.
        good_enough: The posterior probability that none of these is noticeably better.
        progress: How far the study is, from 0 to 1: what is lacking most of what the
            :class:`StoppingRule` wants.
        statement: All this in a sentence or two.
    """

    item: Tensor
    values: dict[str, float | str]
    num_answers: int
    num_items: int = 1
    probability_best: float | None = None
    best_asked: Tensor | None = None
    runner_up: Tensor | None = None
    win_probability: float | None = None
    good_enough: float | None = None
    progress: float = 0.0
    statement: str = ""

    @property
    def is_settled(self) -> bool:
        """Whether the stopping rule is met."""
        return self.progress >= 1.0


def recommendation(
    item: Tensor,
    values: dict[str, float | str],
    num_answers: int,
    beliefs: Beliefs | None,
    rule: StoppingRule,
    describe: Callable[[Tensor], str],
) -> Recommendation:
    """The recommendation of a ``d``-dim item; ``describe`` returns an item as text."""
    if beliefs is None:
        statement = f"{describe(item)}; no comparison says how sure that is."
        return Recommendation(item, values, num_answers, statement=statement)
    best = int(beliefs.mean.argmax())
    best_asked = beliefs.items[best]
    beliefs, row = beliefs.with_item(item)
    number, alike = len(beliefs.items), beliefs.alike(row)
    advantages, noticeable = beliefs.advantages(row), beliefs.noticeable(rule.margin)
    probability_best = float(alike[advantages.argmax(-1)].double().mean())
    good_enough = float((advantages.amax(-1) <= noticeable).double().mean())
    shares = (1.0, good_enough / rule.probability, beliefs.num_answers / rule.min_answers)
    or_alike = "" if beliefs.space.choices is not None else ", or one that hardly differs,"
    texts = [
        f"{describe(item)}. It{or_alike} is the best of {number} items with probability "
        f"{_chance(probability_best)}."
    ]
    runner_up, wins = None, None
    called = "the runner-up" if alike[best] else "the best of those asked"
    for other in beliefs.distinct(2, row)[1:]:
        runner_up = beliefs.items[other]
        with torch.no_grad():
            wins = float(beliefs.model.win_probability(beliefs.items[[row, other]]))
        texts.append(
            f"Against {called} ({describe(runner_up)}) it wins a duel with probability "
            f"{_chance(wins)}."
        )
    wins_more = f"would win more than {100 * (0.5 + rule.margin):.0f} % of duels with it"
    texts.append(f"With probability {_chance(good_enough)} no asked item {wins_more}.")
    if beliefs.num_answers < rule.min_answers:
        texts = [f"{describe(item)}; too few answers to say how sure that is."]
        if not alike[best]:
            texts.append(f"The best of those asked: {describe(best_asked)}.")
    return Recommendation(
        item,
        values,
        num_answers,
        num_items=number,
        probability_best=probability_best,
        best_asked=best_asked,
        runner_up=runner_up,
        win_probability=wins,
        good_enough=good_enough,
        progress=min(shares) if number > 1 else 0.0,
        statement=" ".join(texts),
    )


def _chance(probability: float) -> str:
    if 0.005 <= probability <= 0.995:
        return f"{probability:.2f}"
    return "above 0.99" if probability > 0.5 else "below 0.01"
