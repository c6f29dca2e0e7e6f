r"""MaxMinLCB: a Stackelberg game between the two arms of a duel."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal, Self

import torch
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from botorch_pref.acquisition.base import ItemAcquisitionFunction
from botorch_pref.acquisition.max_min_lcb import MaxMinLCB
from botorch_pref.acquisition.utils import difference_moments
from botorch_pref.data.checks import check_word, checked_nonnegative
from botorch_pref.data.options import checked_flag
from botorch_pref.kernels.items import safe_deviation
from botorch_pref.likelihoods import link_of
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.strategies.base import Pair, UtilityStrategy
from botorch_pref.strategies.utility import PAPER_MODEL, difference_table

Diagonal = Literal["exclude", "keep"]
_FOLLOWERS = 256
_TIE = 1e-9
_NO_EDGE = 1e-4  # in the probability of a win
_KINKED = {"maxfun": 40}  # where the follower changes, more steps gain nothing


@dataclass(kw_only=True, eq=False, repr=False)
class MaxMinLCBStrategy(UtilityStrategy):
    r"""The leader that does best against the follower that is worst for it.

    With ``LCB(x, x') = mu(h_t(x, x')) - beta sigma_t(x, x')``, a bound on the probability
    that ``x`` wins, the leader maximises ``min_x' LCB(x, x')`` and the follower is the
    minimiser: Pasztor, Kassraie and Krause (2024). Both are among the candidates, the
    items that may still be best: no other is known to beat them,
    ``mu(h_t(x, x')) + beta sigma_t(x, x') >= 1/2`` for all ``x'``.

    On a box the follower is chosen from a Sobol sample, the items asked so far and the
    maximiser of the posterior mean, and then refined. For the other arguments see
    :class:`~botorch_pref.strategies.UtilityStrategy`.

    Args:
        beta: Multiplies the papers' ``sigma_t``, which is ``sqrt(lambda)`` times the model's
            standard deviation, on the scale of probabilities; at least 0.
        candidate_filter: Whether both arms must be candidates.
        diagonal: Whether the leader may meet itself: ``"exclude"``, only if it is the last
            candidate among choices, and never on a box; ``"keep"``, if that pair's value, 1/2,
            is the least. Its answer is not learnt from.

    Example:
        >>> strategy = MaxMinLCBStrategy(choices=table, seed=0)
        >>> query = strategy.ask()
        >>> strategy.tell(query, 1.0)
    """

    beta: float = 1.0
    candidate_filter: bool = True
    diagonal: Diagonal = "exclude"

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        self.beta = checked_nonnegative("beta", self.beta)
        checked_flag("candidate_filter", self.candidate_filter)
        check_word("diagonal", self.diagonal, Diagonal)

    @classmethod
    def paper(cls, **kwargs: Any) -> Self:
        r"""The setting of the experiments of Kayal et al. (2025) and Lazzaro et al. (2026).

        The model is ``PAPER_MODEL`` with their predictor, the ridge ``lambda``; ``beta = 1``,
        candidates only, the diagonal kept. The arguments are those of the constructor.
        """
        setting = {"hyperparameters": PAPER_MODEL, "kappa": 1.0, "diagonal": "keep"}
        return cls(**{**setting, **kwargs})

    def _pair(self, annotator: str | None) -> Pair:
        if self.space.choices is None:
            return self._on_a_box(), None
        posterior = self._posterior()
        mean, deviation = difference_table(posterior.mean, posterior.covariance)
        lower = self.learner.likelihood(mean) - self._width() * deviation
        lower.fill_diagonal_(0.5)
        allowed = self._allowed(lower)
        worst = lower.masked_fill(~allowed, torch.inf).amin(-1)
        leader = self._best_row(worst.masked_fill(~allowed.any(-1), -torch.inf))
        follower = (-lower[leader]).masked_fill(~allowed[leader], -torch.inf)
        return self._rows(leader, self._best_row(follower, "tie of the follower"))

    def _allowed(self, lower: Tensor) -> Tensor:
        """Which of all ``n x n`` pairs may be asked."""
        candidates = self._candidates(lower)
        pairs = candidates.unsqueeze(-1) & candidates
        own = torch.eye(len(lower), dtype=torch.bool, device=lower.device)
        if self.diagonal == "exclude" and int(candidates.sum()) > 1:
            pairs = pairs & ~own
        if not self._barred_duels():
            return pairs
        # Where the candidates' pairs are all barred, a leader meets any other item.
        others = candidates.unsqueeze(-1) & ~own
        shut = self._barred_table()
        return next((p for p in (pairs & ~shut, others & ~shut) if bool(p.any())), pairs)

    def _candidates(self, lower: Tensor) -> Tensor:
        """Which items no other one is known to beat: ``UCB(x, x') = 1 - LCB(x', x)``."""
        if not self.candidate_filter:
            return torch.ones_like(lower[0], dtype=torch.bool)
        return lower.amax(0) <= 0.5 + _TIE

    def _on_a_box(self) -> Tensor:
        model, seed = self._model(), self._seed("optimizer")
        followers = self._followers(model, seed)
        rule = MaxMinLCB(model, self._width(), followers, diagonal=self.diagonal)
        with warnings.catch_warnings():
            # Line searches end where the follower changes; the best point so far is kept.
            warnings.filterwarnings("ignore", "Optimization failed", RuntimeWarning)
            leader = self._best_item(rule, seed, options=_KINKED)
        against = _Against(model, leader, self._width())
        start = rule.follower(leader).view(1, 1, -1)
        refined = self.space.maximize(
            against, seed=seed, starts=start, raw_samples=0, num_restarts=1
        )
        if self.diagonal == "keep" and float(refined.value) <= _NO_EDGE - 0.5:
            return torch.stack([leader, leader])
        taken = self._taken(leader)
        for follower in (refined.items[0], start[0, 0]):
            if not self._same(follower, taken).any():
                return torch.stack([leader, follower])
        return torch.stack([leader, self._best_item(against, seed, taken)])

    @torch.no_grad()
    def _followers(self, model: PreferenceGP, seed: int) -> Tensor:
        """The ``w x d``-dim items that the follower is chosen from."""
        best = self._best_mean(model, "optimizer follower")
        items = torch.cat(
            [self.space.sample(_FOLLOWERS, seed), self.asked_items(), best.unsqueeze(0)]
        )
        items = items.unique(dim=0)
        posterior = model.posterior(items)
        mean, deviation = difference_table(posterior.mean.squeeze(-1), posterior.covariance_matrix)
        lower = link_of(model)(mean) - self._width() * deviation
        return items[self._candidates(lower.fill_diagonal_(0.5))]

    def _width(self) -> float:
        """What the model's own standard deviation is multiplied by."""
        return float(self.beta * self.learner.penalty**0.5)


class _Against(ItemAcquisitionFunction):
    """Minus the bound of one leader: what its followers maximise."""

    def __init__(self, model: PreferenceGP, leader: Tensor, beta: float) -> None:
        super().__init__(model=model)
        self.leader, self.beta, self.link = leader, beta, link_of(model)

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """The value of ``b x 1 x d``-dim followers."""
        pairs = torch.cat([self.leader.expand_as(X), X], dim=-2)
        mean, variance = difference_moments(self.model, pairs)
        return self.beta * safe_deviation(variance) - self.link(mean)
