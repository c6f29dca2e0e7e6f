r"""EUBO: the pair whose better item is expected to be best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from botorch.acquisition.preference import AnalyticExpectedUtilityOfBestOption
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.queries import Choice, Duel, Grade, Ranking
from botorch_pref.strategies.base import Pair, UtilityStrategy
from botorch_pref.strategies.utility import better_of_two


@dataclass(kw_only=True, eq=False, repr=False)
class EUBO(UtilityStrategy):
    r"""``argmax E[max(f(x), f(x'))]`` under the posterior, with one arm fixed if wanted.

    The expected utility of the best option of Lin et al., *Preference Exploration for
    Efficient Bayesian Optimization with Multiple Outcomes* (2022). No item meets itself. Further
    items of a larger question let that expectation grow most, one after the other.
    For the other arguments see :class:`~botorch_pref.strategies.UtilityStrategy`.

    Args:
        anchor: What the first arm is: ``"incumbent"`` the maximiser of the posterior mean;
            ``None`` leaves both arms free.

    Example:
        >>> strategy = EUBO(choices=table, anchor="incumbent", seed=0)
        >>> query = strategy.ask()
        >>> strategy.tell(query, 1.0)
    """

    anchor: Literal["incumbent"] | None = None

    _asks: ClassVar = (Duel, Choice, Ranking, Grade)

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        if self.anchor not in (None, "incumbent"):
            raise ComparisonDataError(f"`anchor` must be incumbent or None, not {self.anchor!r}.")

    def _pair(self, annotator: str | None) -> Pair:
        if self.space.choices is None:
            model = self._model()
            both = self._on_a_box(model)
            if self.asked.num_items == 2:
                return both, None
            generator = torch.Generator().manual_seed(self._seed("table of more items"))
            items = torch.cat([both, self._items_to_compare(model, generator)])
            with torch.no_grad():
                found = model.posterior(items)
            mean, covariance = found.mean.squeeze(-1), found.covariance_matrix
            return items[self._with_more([0, 1], items, mean, covariance)], None
        posterior = self._posterior()
        values = better_of_two(posterior.mean, posterior.covariance)
        values.fill_diagonal_(-torch.inf)
        rows = slice(None)
        if self.anchor is not None:
            first = self._best_row(posterior.mean, "tie of the first arm")
            rows = slice(first, first + 1)
        values = self._unbarred(values[rows], rows)
        row, second = divmod(self._best_row(values.flatten()), values.shape[-1])
        pair = [row if self.anchor is None else first, second]
        more = self._with_more(pair, self._table, posterior.mean, posterior.covariance)
        return self._rows(*more)

    def _on_a_box(self, model: PreferenceGP) -> Tensor:
        seed = self._seed("optimizer")
        if self.anchor is not None:
            first = self._best_mean(model, "optimizer first arm")
        else:
            asked = [done.query.items[:2].to(self.space.bounds) for done in self.history]
            starts = torch.stack(asked) if asked else None
            joint = AnalyticExpectedUtilityOfBestOption(model)
            pair = self.space.maximize(joint, q=2, seed=seed, starts=starts).items
            first = pair[0]
            if not self._same(pair[1], self._taken(first)).any():
                return pair
        rule = AnalyticExpectedUtilityOfBestOption(model, previous_winner=first.unsqueeze(0))
        return torch.stack([first, self._opponent(rule, first, seed)])
