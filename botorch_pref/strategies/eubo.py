r"""EUBO: the pair whose better item is expected to be best."""

from __future__ import annotations

from typing import Literal, Unpack

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.preference import AnalyticExpectedUtilityOfBestOption
from torch import Tensor

from botorch_pref.acquisition.advantage_ucb import AdvantageUCB
from botorch_pref.acquisition.base import checked_beta
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.queries import Query
from botorch_pref.space.search_space import SearchSpace
from botorch_pref.strategies.utility import (
    ModelOptions,
    Pair,
    UtilityStrategy,
    difference_table,
)

_ANCHORS = (None, "incumbent", "previous_winner")
_NO_DEVIATION = 1e-12


class EUBO(UtilityStrategy):
    r"""``argmax E[max(f(x), f(x'))]`` under the posterior, with one arm fixed if wanted.

    The expected utility of the best option of Lin et al., *Preference Exploration for
    Efficient Bayesian Optimization with Multiple Outcomes* (2022). No item meets itself.

    Example:
        >>> strategy = EUBO(choices=table, anchor="incumbent", seed=0)
        >>> query = strategy.ask()
        >>> strategy.tell(query, 1.0)
    """

    def __init__(
        self,
        bounds: Tensor | None = None,
        choices: Tensor | None = None,
        space: SearchSpace | None = None,
        *,
        anchor: Literal["incumbent", "previous_winner"] | None = None,
        challenger: Literal["eubo", "ucb"] = "eubo",
        beta: float = 1.0,
        **model: Unpack[ModelOptions],
    ) -> None:
        r"""Set up a strategy without data.

        Args:
            bounds: ``2 x d``-dim box, or
            choices: ``n x d``-dim table of items, or
            space: a search space.
            anchor: What the first arm is: ``"incumbent"`` the maximiser of the posterior
                mean; ``"previous_winner"`` the winner of the last answered duel, the first
                item if there was no preference; ``None`` leaves both arms free.
            challenger: What the second arm maximises beside an anchor: ``"eubo"`` the
                expected utility of the better one; ``"ucb"`` the mean of its advantage
                over the anchor plus ``beta`` standard deviations.
            beta: Multiplies the model's own standard deviation; at least 0.
            **model: See :class:`~botorch_pref.strategies.utility.LearningStrategy`.

        Raises:
            ComparisonDataError: If an option is none of these, or "ucb" has no anchor.
            SearchSpaceError: If the domain cannot be used.
            UnsupportedError: If an option is not for this kind of domain.
        """
        super().__init__(bounds, choices, space, **model)
        if anchor not in _ANCHORS:
            raise ComparisonDataError(f"`anchor` must be one of {_ANCHORS}, got {anchor!r}.")
        if challenger not in ("eubo", "ucb"):
            raise ComparisonDataError(f"`challenger` must be eubo or ucb, got {challenger!r}.")
        if challenger == "ucb" and anchor is None:
            raise ComparisonDataError('`challenger` "ucb" needs an `anchor`.')
        self.anchor = anchor
        self.challenger = challenger
        self.beta = checked_beta(beta)

    def _pair(self, annotator: str | None) -> Pair:
        winner = self._winner() if self.anchor == "previous_winner" else None
        if self.space.choices is not None:
            return self._rows(*self._choices(winner))
        return self._on_a_box(winner), None

    def _winner(self) -> tuple[Query, int] | None:
        """The last answered query and its winning arm."""
        for query, answer in reversed(self.history):
            if answer is not None:
                return query, int(answer < 0.5)
        return None

    def _choices(self, winner: tuple[Query, int] | None) -> tuple[int, int]:
        posterior = self._posterior()
        mean, deviation = difference_table(posterior.mean, posterior.covariance)
        own = torch.eye(len(mean), dtype=torch.bool, device=mean.device)
        first = None
        if self.anchor == "incumbent":
            first = self._best_row(posterior.mean, "tie of the first arm")
        elif winner is not None:
            first = winner[0].indices[winner[1]]
        if first is not None and self.challenger == "ucb":
            values = self.beta * deviation - mean
        else:
            values = posterior.mean + _expected_gain(mean, deviation)
        values = values.masked_fill(own, -torch.inf)
        rows = slice(None) if first is None else slice(first, first + 1)
        values = values[rows]
        values = self._unbarred(values, rows)
        row, second = divmod(self._best_row(values.flatten()), len(mean))
        return (row if first is None else first), second

    def _on_a_box(self, winner: tuple[Query, int] | None) -> Tensor:
        model, seed = self._model(), self._seed("optimizer")
        rule: AcquisitionFunction
        if self.anchor == "incumbent":
            first = self._best_mean(model, "optimizer first arm")
        elif winner is not None:
            first = winner[0].items[winner[1]].to(self.space.bounds)
        else:
            asked = [done.query.items.to(self.space.bounds) for done in self.history]
            rule = AnalyticExpectedUtilityOfBestOption(model)
            starts = torch.stack(asked) if asked else None
            pair = self.space.maximize(rule, q=2, seed=seed, starts=starts).items
            first = pair[0]
            if not self._same(pair[1], self._taken(first)).any():
                return pair
        if self.challenger == "ucb" and (self.anchor == "incumbent" or winner is not None):
            rule = AdvantageUCB(model, first, self.beta)
        else:
            rule = AnalyticExpectedUtilityOfBestOption(model, previous_winner=first.unsqueeze(0))
        return torch.stack([first, self._opponent(rule, first, seed)])


def _expected_gain(mean: Tensor, deviation: Tensor) -> Tensor:
    """``E[max(h, 0)]`` for a normal difference ``h``."""
    deviation = deviation.clamp_min(_NO_DEVIATION)
    scaled = mean / deviation
    density = torch.exp(-0.5 * scaled.square()) / (2 * torch.pi) ** 0.5
    return deviation * (density + scaled * torch.special.ndtr(scaled))
