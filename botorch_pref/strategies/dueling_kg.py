r"""Knowledge gradient of duels: the pair whose answers let the best expected utility grow most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from botorch_pref.acquisition.knowledge_gradient import gains_of_pairs
from botorch_pref.inference.systems import joint_draws
from botorch_pref.queries import Choice, Duel, Grade, Ranking
from botorch_pref.randomness import derive_seed
from botorch_pref.strategies.base import Pair, UtilityStrategy
from botorch_pref.strategies.utility import better_of_two, masked

_INITIAL = 8  # items that fill the space
_NOTHING = 1e-4  # gain of an answer, in units of the utility
_REPEATS = 4  # answers that are valued over discrete items, and where one gains nothing
_DRAWS = 256
_FIRST, _SECOND = 12, 80  # candidates of a pair


@dataclass(kw_only=True, eq=False, repr=False)
class DuelingKG(UtilityStrategy):
    r"""``argmax E[max_j E[f_j | answer]] - max_j E[f_j]`` over pairs of items that may be the best.

    The first eight items fill the space. Later ones are of items of a table: the choices, or on a
    box a sample of it, the items that were asked last, and items around the best one. Candidates
    of a pair are the items that are most often the best in draws from the posterior. The pair is
    asked whose answer is expected to let the largest posterior mean of the table grow most, the
    knowledge gradient of Frazier, Powell and Dayanik (2009). Over choices, whole numbers and
    categories, and where no single answer would, four answers to the same pair are valued (Frazier
    and Powell 2010): what is the best there seldom changes by one answer.

    On a box a judge who hardly errs is believed, by expectation propagation, once the evidence is
    for that; the pair is then the one whose better item is expected to be best (EUBO). For the
    arguments see :class:`~botorch_pref.strategies.UtilityStrategy`.

    Example:
        >>> strategy = DuelingKG(bounds=bounds, seed=0)
        >>> query = strategy.ask()
        >>> strategy.tell(query, 1.0)
    """

    _asks: ClassVar = (Duel, Choice, Ranking, Grade)
    _may_be_sure: ClassVar[bool] = True

    def _refit(self) -> None:
        if self._initial_pair(self.round + 1) is None:
            super()._refit()

    def _pair(self, annotator: str | None) -> Pair:
        if initial := self._initial_pair(self.round):
            return initial
        generator = Generator().manual_seed(self._seed("pair", annotator))
        if self.space.choices is None:
            model = self._model()
            items = self._items_to_compare(model, generator)
            with torch.no_grad():
                posterior = model.posterior(items)
                mean, covariance = posterior.mean.squeeze(-1), posterior.covariance_matrix
        else:
            found = self._posterior()
            items, mean, covariance = self.space.table, found.mean, found.covariance
        pairs = _candidates(mean, covariance, generator)
        is_discrete = self.space.choices is not None or bool(self.space.parameters.discrete)
        link, barred = self.learner.likelihood, self._is_barred(items, pairs)
        if self.learner.inference == "ep":
            values = masked(better_of_two(mean, covariance)[pairs[:, 0], pairs[:, 1]], barred)
        else:
            for repeats in (_REPEATS,) if is_discrete else (1, _REPEATS):
                values = masked(gains_of_pairs(mean, covariance, pairs, link, repeats), barred)
                if float(values.amax()) >= _NOTHING:
                    break
        best = pairs[self._best_row(values)].tolist()
        rows = self._with_more(best, items, mean, covariance)
        return (items[rows], None) if self.space.choices is None else self._rows(*rows)

    def _initial_pair(self, number: int) -> Pair | None:
        """The first items, of a sample that fills the space; None if there are not so many."""
        seed, choices = derive_seed(self.seed, "initial", 0), self.space.choices
        size = self.asked.num_items
        most = _INITIAL // size if choices is None else min(_INITIAL, len(choices)) // size
        if number > most:
            return None
        own = slice(size * (number - 1), size * number)
        if choices is not None:
            return self._rows(*self.space.sample_rows(size * most, seed)[own].tolist())
        items = self.space.sample(size * most, seed)[own]
        alike = self._same(items.unsqueeze(-2), items).triu(diagonal=1)
        return None if bool(alike.any()) else (items, None)

    def _is_barred(self, items: Tensor, pairs: Tensor) -> Tensor:
        """Which of ``P x 2``-dim pairs of rows are not asked now."""
        if self.space.choices is not None:
            return self._barred_table()[pairs[:, 0], pairs[:, 1]]
        barred = self._same(items[pairs[:, 0]], items[pairs[:, 1]])
        for duel in self._barred_duels():
            one, other = (self._same(items, item.to(items))[pairs] for item in duel.items[:2])
            barred |= (one[:, 0] & other[:, 1]) | (one[:, 1] & other[:, 0])
        return barred


def _candidates(mean: Tensor, covariance: Tensor, generator: Generator) -> Tensor:
    """``P x 2``-dim pairs of rows that are often the best of ``n`` in draws from the posterior."""
    draws = joint_draws(mean, covariance, _DRAWS, generator)
    times = torch.bincount(draws.argmax(-1), minlength=len(mean))
    ties = torch.rand(len(mean), generator=generator, dtype=torch.double).to(mean)
    order = (times + ties).argsort(descending=True)
    first = torch.cat([mean.argmax().unsqueeze(0), order[:_FIRST]]).unique()
    pairs = torch.cartesian_prod(first, order[:_SECOND].sort().values)
    return pairs[pairs[:, 0] != pairs[:, 1]]
