r"""Knowledge gradient of duels: the pair whose answers let the best expected utility grow most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from botorch_pref.acquisition.knowledge_gradient import (
    SeenTable,
    gain_of_question,
    gains_of_pairs,
)
from botorch_pref.data.checks import checked_positive
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.inference.systems import joint_draws
from botorch_pref.kernels.comparison_bias import marked
from botorch_pref.likelihoods import BernoulliLikelihood
from botorch_pref.queries import Choice, Duel, Grade, Query, Ranking
from botorch_pref.randomness import derive_seed
from botorch_pref.strategies.base import Pair, UtilityStrategy
from botorch_pref.strategies.state import Entry, named, number
from botorch_pref.strategies.utility import answers_to, better_of_two, masked

_INITIAL = 8  # items that fill the space
_REPEATS = 4  # answers to one pair that are valued
_HORIZON = 100  # questions for which what they gain counts; what is asked counts for one
_REST = 10  # questions before the same two choices are asked about again
_DRAWS = 256
_FIRST, _SECOND = 12, 80  # candidates of a pair


@dataclass(kw_only=True, eq=False, repr=False)
class DuelingKG(UtilityStrategy):
    r"""``argmax (E[f_i] + E[f_k]) / 2 + 100 (E[max_j E[f_j | answers]] - max_j E[f_j])``.

    The first eight items fill the space. Later ones are of items of a table: the choices, or on a
    box a sample of it, the items that were asked last, and items around the best one. Candidates
    of a pair are the items that are most often the best in draws from the posterior, and on a box
    items on opposite sides of the best one, which tell where between them it lies. The pair is
    asked whose items are good and whose answers are expected to let the largest posterior mean of
    the table grow, the knowledge gradient of Frazier, Powell and Dayanik (2009): the growth counts
    for a hundred later questions, the mean of the pair for the one that is asked (Ryzhov, Powell
    and Frazier 2012). Four answers to the same pair are valued, as one seldom changes what is the
    best (Frazier and Powell 2010). Two choices are asked about again after ten other questions or,
    of few choices, after half as many as there are pairs.

    On a box the middle is taken for a little better than the border before any answer, unless the
    answers speak against it (:class:`~botorch_pref.models.MiddleMean`). In more than eight
    dimensions the utility is taken for a slope as well, unless they speak against that
    (:class:`~botorch_pref.kernels.SlopeKernel`): noisy answers about the best items tell little of
    the others there. A judge who hardly errs is believed there, by expectation propagation,
    once the evidence is for that; the pair is then the one whose better item is expected to be best
    (EUBO). For the other arguments see :class:`~botorch_pref.strategies.UtilityStrategy`.

    Args:
        prices: What an answer of each judge costs, by their names. The first is the person whose
            utility is maximised; each other one, such as a language model, has a utility of their
            own, off by what is learnt. Who is asked is then the strategy's choice,
            ``query.annotator``: whose answer is expected to gain most per price. The first
            questions are put to each, so that it is seen where they differ.

    Attributes:
        gains: Why: the gain per price of each judge, by the numbers of the queries; that of as many
            answers as were valued.

    Example:
        >>> strategy = DuelingKG(bounds=bounds, seed=0)
        >>> query = strategy.ask()
        >>> strategy.tell(query, 1.0)
    """

    prices: Mapping[str, float] | None = None

    _asks: ClassVar = (Duel, Choice, Ranking, Grade)
    _may_be_sure: ClassVar[bool] = True
    _may_fall: ClassVar[bool] = True
    _entries = UtilityStrategy._entries | {
        "gains": Entry("gains", named(named(number()), int), optional=True)
    }

    def _refit(self) -> None:
        if self._initial_pair(self.round + 1) is None:
            super()._refit()

    def __post_init__(self) -> None:
        """Check the options."""
        if self.prices is not None:
            self.prices = _checked_prices(self.prices)
            self.own_utilities = True
        super().__post_init__()
        if self.prices:
            own = self.learner.people
            own += [name for name in self.prices if name not in own]
            self.learner.target = next(iter(self.prices))
        self.gains: dict[int, dict[str, float]] = {}

    @property
    def spent(self) -> float:
        """What the answers so far cost, with ``prices``."""
        told = (query.annotator for query, answer in self.history if answer is not None)
        return sum((self.prices or {}).get(name or "", 0.0) for name in told)

    def ask(self, annotator: str | None = None) -> Query:
        r"""See the base class; with ``prices`` and without a name, of whom it pays to ask.

        Raises:
            ComparisonDataError: If ``annotator`` is no string, or is not among ``prices``.
        """
        if self.prices and annotator is None and self._open:
            return next(iter(self._open.values()))
        return super().ask(annotator)

    def _choose(self, query_id: int, annotator: str | None) -> Query:
        if self.prices and annotator is not None and annotator not in self.prices:
            raise ComparisonDataError(
                f"`annotator` {annotator!r} has no price; `prices` are of {', '.join(self.prices)}."
            )
        if self.prices and annotator is None:
            self._refit()
            names = [*self.prices]
            annotator = names[self.round % len(names)]
            if self._initial_pair(self.round + 1) is None:
                gains = {name: self._best(name)[0] / self.prices[name] for name in names}
                self.gains[query_id] = gains
                if max(gains.values()) > 0.0:
                    annotator = max(gains, key=gains.__getitem__)
        return super()._choose(query_id, annotator)

    def _pair(self, annotator: str | None) -> Pair:
        return self._initial_pair(self.round) or self._best(annotator)[1]

    def _best(self, annotator: str | None) -> tuple[float, Pair]:
        """The largest gain by an answer of someone, and the items to ask about."""
        generator = Generator().manual_seed(self._seed("pair", annotator))
        items, table = self._seen_table(annotator, generator)
        pairs = _candidates(table.mean, table.covariance, generator)
        if self.space.choices is None:
            pairs = torch.cat([pairs, self._opposite_rows(items)])
        link = self.learner.link_of(annotator)
        gains, values = self._worth(table, pairs, link, self._is_barred(items, pairs))
        row = self._best_row(values)
        rows = self._with_more(pairs[row].tolist(), items, table.mean, table.covariance)
        found = (items[rows], None) if self.space.choices is None else self._rows(*rows)
        gain = float(gains[row])
        if self.prices and self.asked.kind is not Duel and gain > 0.0:
            seen = table.times(link.scale / self.learner.likelihood.scale)
            answers = answers_to(self.asked, self.learner.model())
            [gain] = gain_of_question(seen, rows, answers, (_REPEATS,))
        return gain, found

    def _worth(
        self, table: SeenTable, pairs: Tensor, link: BernoulliLikelihood, barred: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The gain and the value of ``P x 2``-dim pairs of rows, less those that are barred."""
        if self.learner.inference == "ep":
            either = better_of_two(table.mean, table.covariance)
            gains = masked(either[pairs[:, 0], pairs[:, 1]], barred)
            return gains, gains
        gains = masked(gains_of_pairs(table, pairs, link, _REPEATS), barred)
        return gains, table.mean[pairs].mean(-1) + _HORIZON * gains

    def challenger(self, item: Tensor, avoid: Tensor) -> Tensor:
        r"""The ``d``-dim item whose duel with a given one is worth most, where that one stays.

        Args:
            item: ``d``-dim, of the box.
            avoid: ``k x d``-dim items that a person must be able to tell it from.

        Raises:
            ComparisonDataError: If ``item`` is none of the box.
            UnsupportedError: Of choices.
        """
        if self.space.choices is not None:
            raise UnsupportedError("A challenger is of a box, not of `choices`.")
        if item.shape != (self.space.dim,) or not bool(self.space.contains(item)):
            raise ComparisonDataError(f"`item` must be one of the box, not {item.tolist()}.")
        self._refit()
        generator = Generator().manual_seed(self._seed("challenger"))
        further = [*(query.items for query, _ in self.known), item.unsqueeze(0)]
        items, table = self._seen_table(None, generator, torch.cat(further).to(item))
        rows = torch.arange(len(items) - 1, device=items.device)
        pairs = torch.stack([rows, torch.full_like(rows, len(rows))], dim=-1)
        taken = torch.cat([avoid, item.unsqueeze(0)])
        barred = self._same(items[:-1].unsqueeze(-2), taken).any(-1)
        _, values = self._worth(table, pairs, self.learner.likelihood, barred)
        return items[self._best_row(values)]

    def _seen_table(
        self, annotator: str | None, generator: Generator, further: Tensor | None = None
    ) -> tuple[Tensor, SeenTable]:
        """Items that may be the best, and what is known of them and of how someone sees them.

        On a box ``further`` items are the last ones.
        """
        learner = self.learner
        if self.space.choices is not None and not learner.own_utilities:
            found = self._posterior()
            return self._table, SeenTable.of_one(found.mean, found.covariance)
        model, is_box = self._model(), self.space.choices is None
        items = self._items_to_compare(model, generator) if is_box else self._table
        items = items if further is None else torch.cat([items, further])
        view = learner.view(annotator)
        both = torch.cat([marked(items, 0), marked(items, view)]) if view else items
        with torch.no_grad():
            posterior = model.posterior(both)
        mean, covariance = posterior.mean.squeeze(-1), posterior.covariance_matrix
        return items, (SeenTable.of_both if view else SeenTable.of_one)(mean, covariance)

    def _initial_pair(self, number: int) -> Pair | None:
        """The first items, of a sample that fills the space; None if there are not so many."""
        seed, choices = derive_seed(self.seed, "initial", 0), self.space.choices
        size = self.asked.num_items
        most = _INITIAL // size if choices is None else min(_INITIAL, len(choices)) // size
        if self.prices:  # of everyone, so that it is seen where they differ
            number = 1 + (number - 1) // len(self.prices)
        if number > most or self.known:
            return None
        own = slice(size * (number - 1), size * number)
        if choices is not None:
            rows = self.space.sample_rows(size * most, seed)[own]
            differ = len(choices[rows].unique(dim=0)) == size
            return self._choices(*rows.tolist()) if differ else None
        items = self.space.sample(size * most, seed)[own]
        alike = self._same(items.unsqueeze(-2), items).triu(diagonal=1)
        return None if bool(alike.any()) else (items, None)

    def _barred_duels(self) -> list[Query]:
        """Those of the base class, and the last about choices: of half of all pairs at most."""
        size = 0 if self.space.choices is None else len(self.space.choices)
        last = min(_REST, size * (size - 1) // 4)
        recent = self.history[-last:] if last else []
        return [*super()._barred_duels(), *(done.query for done in recent)]

    def _is_barred(self, items: Tensor, pairs: Tensor) -> Tensor:
        """Which of ``P x 2``-dim pairs of rows are not asked now."""
        if self.space.choices is not None:
            alike = (items[pairs[:, 0]] == items[pairs[:, 1]]).all(-1)
            return alike | self._barred_table()[pairs[:, 0], pairs[:, 1]]
        barred = self._same(items[pairs[:, 0]], items[pairs[:, 1]])
        for duel in self._barred_duels():
            one, other = (self._same(items, item.to(items))[pairs] for item in duel.items[:2])
            barred |= (one[:, 0] & other[:, 1]) | (one[:, 1] & other[:, 0])
        return barred


def _checked_prices(prices: object) -> dict[str, float]:
    """Two prices or more, by names."""
    if not isinstance(prices, Mapping) or len(prices) < 2:
        raise ComparisonDataError(f"`prices` must be of two judges or more, not {prices!r}.")
    if wrong := [name for name in prices if not isinstance(name, str)]:
        raise ComparisonDataError(f"`prices` are by the names of judges, not {wrong[0]!r}.")
    return {name: checked_positive(f"prices of {name}", price) for name, price in prices.items()}


def _candidates(mean: Tensor, covariance: Tensor, generator: Generator) -> Tensor:
    """``P x 2``-dim pairs of rows that are often the best of ``n`` in draws from the posterior."""
    draws = joint_draws(mean, covariance, _DRAWS, generator)
    times = torch.bincount(draws.argmax(-1), minlength=len(mean))
    ties = torch.rand(len(mean), generator=generator, dtype=torch.double).to(mean)
    order = (times + ties).argsort(descending=True)
    first = torch.cat([mean.argmax().unsqueeze(0), order[:_FIRST]]).unique()
    pairs = torch.cartesian_prod(first, order[:_SECOND].sort().values)
    return pairs[pairs[:, 0] != pairs[:, 1]]
