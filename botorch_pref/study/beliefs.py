r"""What the answers of a study say of the items that were asked, whichever strategy asked them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from botorch.fit import fit_gpytorch_mll
from torch import Size, Tensor

from botorch_pref.inference.systems import prior_root
from botorch_pref.models import LaplaceMarginalLogLikelihood, PreferenceGP
from botorch_pref.models.fitting import default_covar_module
from botorch_pref.queries import Choice, Duel, Evaluate
from botorch_pref.randomness import derive_seed, seeded
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import Strategy
from botorch_pref.strategies.base import Answered

_DRAWS = 4096
_JITTER = 1e-9
_ALIKE = 0.05  # of the range of every number


@dataclass(frozen=True)
class Beliefs:
    r"""A model of all answers, and the items that were asked.

    It is the package's default model with hyperparameters learnt from these answers, and has
    Laplace's covariance, whatever the strategy's own model is: one statement for all of them.
    Where values were measured it is one of these values alone, in standard deviations.

    Attributes:
        model: The model.
        space: The domain.
        items: ``n x d``-dim distinct items that were asked.
        measured: Whether it is a model of values.
        num_answers: How many answers it is of.
        seed: Of the draws.
    """

    model: PreferenceGP
    space: SearchSpace
    items: Tensor
    measured: bool
    num_answers: int
    seed: int

    @classmethod
    def of(cls, strategy: Strategy) -> Beliefs | None:
        """What a strategy's answers say; None if there are neither comparisons nor values."""
        told = [answered for answered in strategy.history if answered.answer is not None]
        values = [(query.items, a) for query, a in told if isinstance(query, Evaluate)]
        options = {
            "covar_module": default_covar_module(strategy.space.num_features, Size()),
            "input_transform": strategy.space.input_transform(),
        }
        if values:
            items = torch.stack([item for item, _ in values])
            model = PreferenceGP(None, None, values=(items, _standard(values).to(items)), **options)
            number = len(values)
        else:
            pairs, answers = _pairs(told)
            if not len(pairs):
                return None
            items = pairs.flatten(end_dim=1)
            model = PreferenceGP.from_pairs(pairs, answers, **options)
            number = min(len(pairs), sum(isinstance(query, Duel | Choice) for query, _ in told))
        with seeded(derive_seed(strategy.seed, "fit beliefs", len(told)), items.device):
            fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
        seed = derive_seed(strategy.seed, "draws of beliefs", len(told))
        return cls(model.eval(), strategy.space, items.unique(dim=0), bool(values), number, seed)

    @cached_property
    def mean(self) -> Tensor:
        """The ``n``-dim posterior means of the items."""
        with torch.no_grad():
            return self.model.posterior(self.items).mean.squeeze(-1)

    def with_item(self, item: Tensor) -> tuple[Beliefs, int]:
        """With a ``d``-dim item among the items, and its row."""
        if (self.items == item).all(-1).any():
            return self, self.row_of(item)
        items = torch.cat([self.items, item.unsqueeze(0).to(self.items)])
        return replace(self, items=items), len(items) - 1

    def row_of(self, item: Tensor) -> int:
        """The row of a ``d``-dim item that is among the items."""
        return int((self.items == item).all(-1).nonzero()[0])

    def alike(self, row: int) -> Tensor:
        """Which of the items hardly differ from one: on a box by 5 % of every range at most.

        Strategies ask many items close to the best one, of which each is as good.
        """
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
        posterior = self.model.posterior(self.items)
        covariance = posterior.covariance_matrix
        jitter = _JITTER * covariance.diagonal().mean() * torch.eye(len(covariance)).to(covariance)
        root = prior_root(covariance + jitter)
        generator = torch.Generator().manual_seed(self.seed)
        normal = torch.randn(_DRAWS, len(root), generator=generator, dtype=torch.double)
        draws = self.mean + normal.to(root) @ root.mT
        return draws - draws[:, row : row + 1]

    @torch.no_grad()
    def win_probability(self, first: int, second: int) -> float:
        """How likely one row's item wins a duel with another's; that its value is larger."""
        pair = self.items[[first, second]]
        if not self.measured:
            return float(self.model.win_probability(pair))
        gap = self.model.pair_posterior(pair)
        return float(torch.special.ndtr(gap.mean / gap.variance.clamp_min(1e-24).sqrt()))

    def noticeable(self, margin: float) -> float:
        """The difference of utility at which the better item wins by a margin above 1/2."""
        if self.measured:
            return margin
        return math.log((0.5 + margin) / (0.5 - margin))


def _pairs(told: Sequence[Answered]) -> tuple[Tensor, Tensor]:
    """All comparisons of two different items; a choice is one of its favourite with each other."""
    pairs, answers = [torch.empty(0)], []
    for query, answer in told:
        assert answer is not None
        if isinstance(query, Duel):
            found, wins = [query.items], [answer]
        elif isinstance(query, Choice):
            best = query.items[int(answer)]
            found = [torch.stack([best, other]) for other in query.items]
            wins = [1.0] * len(found)
        else:
            continue
        for pair, win in zip(found, wins, strict=True):
            if not torch.equal(pair[0], pair[1]):
                pairs.append(pair)
                answers.append(win)
    if not answers:
        return pairs[0], torch.tensor(answers)
    shown = torch.stack(pairs[1:]).double()
    return shown, torch.tensor(answers, dtype=torch.double).to(shown)


def _standard(values: Sequence[tuple[Tensor, float | None]]) -> Tensor:
    """``k x 1``-dim values in standard deviations."""
    told = torch.tensor([value for _, value in values], dtype=torch.double).unsqueeze(-1)
    spread = float(told.std(correction=0))
    largest = float(told.abs().max())
    return (told - told.mean()) / (spread if spread > 1e-12 * largest else 1.0)
