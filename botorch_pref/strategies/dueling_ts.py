r"""Dueling Thompson sampling: a draw's Condorcet winner against its least certain duel."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from botorch.models.model import Model
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from botorch_pref.acquisition.base import ItemAcquisitionFunction
from botorch_pref.acquisition.dueling_thompson import ArmPath, DuelingThompsonSampling
from botorch_pref.acquisition.utils import difference_moments, moments_between
from botorch_pref.kernels.items import safe_deviation
from botorch_pref.likelihoods import BernoulliLikelihood, link_of
from botorch_pref.randomness import derive_seed
from botorch_pref.strategies.base import Pair, UtilityStrategy
from botorch_pref.strategies.utility import difference_table

_OPPONENTS = 256
_ENTRIES = 2**14  # of a table of probabilities at a time, each of them an integral
_NODES, _RANGE = 129, 8.0  # of the integral over a standard normal


@dataclass(kw_only=True, eq=False, repr=False)
class DTS(UtilityStrategy):
    r"""Thompson sampling by the soft-Copeland score (Gonzalez et al. 2017).

    The soft-Copeland score ``C(x) = mean_x' mu(f(x) - f(x'))`` is the probability that ``x`` beats
    an item drawn uniformly from the domain. The first arm maximises the score under one draw of
    the utility, that is, as the link ``mu`` increases, the draw itself. The second arm maximises
    the posterior variance of ``mu(f(x) - f(x'))`` against the first. No item meets itself.

    The recommendation is the Condorcet winner, which maximises the posterior mean of ``C``; of all
    choices, or of the items of a box that were asked, with ``x'`` in a Sobol sample.

    Gonzalez, Dai, Damianou and Lawrence, *Preferential Bayesian Optimization* (2017), classify
    pairs by a Gaussian process on pairs, in which a draw need not be transitive. Here a utility
    compares them. For the arguments see :class:`~botorch_pref.strategies.UtilityStrategy`.

    Example:
        >>> strategy = DTS(choices=table, seed=0)
        >>> query = strategy.ask()
        >>> strategy.tell(query, 1.0)
    """

    def recommend_index(self) -> int:
        posterior, rows = self._posterior(pending=False), self._shortlist()
        moments = difference_table(posterior.mean, posterior.covariance)
        best = self._best_row(soft_copeland(self.learner.likelihood, *moments))
        return best if rows is None else int(rows[best])

    def _recommend_on_a_box(self) -> Tensor:
        asked = self.asked_items()
        others = self.space.sample(_OPPONENTS, derive_seed(self.seed, "opponents", 0))
        model = self.learner.model()
        with torch.no_grad():
            mean, variance = moments_between(model, asked, others)
            scores = soft_copeland(link_of(model), mean, variance.sqrt())
        return asked[int(scores.argmax())]

    def _pair(self, annotator: str | None) -> Pair:
        seed = self._seed("pair", annotator)
        if self.space.choices is not None:
            return self._rows(*self._draw_rows(seed))
        pending = self._expected()
        model = self.learner.model(pending)
        drawn = self.learner.drawn_model(derive_seed(seed, "sample", 0), pending)
        path = ArmPath(DuelingThompsonSampling(drawn, seed=seed), 0)
        first = self._best_item(path, self._seed("optimizer first arm"))
        second = self._opponent(WinVariance(model, first), first, self._seed("optimizer"))
        return torch.stack([first, second]), None

    def _draw_rows(self, seed: int) -> tuple[int, int]:
        posterior = self._posterior()
        generator = torch.Generator().manual_seed(seed)
        items, answers = posterior.mean.shape[-1], posterior.num_pairs
        noise = torch.randn(items + answers, generator=generator, dtype=torch.double)
        noise = noise.to(posterior.mean)
        draw = posterior.sample(noise[:items], noise[items:], 1.0)
        first = self._best_row(draw, "tie of the first arm")
        mean, deviation = difference_table(posterior.mean, posterior.covariance)
        values = win_variance(self.learner.likelihood, mean[first], deviation[first])
        values[first] = -torch.inf
        values = self._unbarred(values, first)
        return first, self._best_row(values)


class WinVariance(ItemAcquisitionFunction):
    """The posterior variance of the probability that an item beats the ``d``-dim ``x_ref``."""

    x_ref: Tensor

    def __init__(self, model: Model, x_ref: Tensor) -> None:
        super().__init__(model=model)
        self.link = link_of(model)
        self.register_buffer("x_ref", x_ref.detach().clone())

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """The ``b``-dim variances at ``b x 1 x d``-dim items."""
        pairs = torch.cat([X, self.x_ref.expand_as(X)], dim=-2)
        mean, variance = difference_moments(self.model, pairs)
        return win_variance(self.link, mean, safe_deviation(variance))


def win_variance(link: BernoulliLikelihood, mean: Tensor, deviation: Tensor) -> Tensor:
    """``Var[mu(h)]`` for normal differences ``h`` and a link ``mu``, by the trapezoidal rule.

    It is exact to 1e-6 for standard deviations from 0 to 10 in units of the link.
    """
    # Unlike a Gauss-Hermite rule of that size, equal steps resolve a link much narrower
    # than the Gaussian, and as both are analytic the error falls exponentially.
    nodes = torch.linspace(-_RANGE, _RANGE, _NODES, dtype=mean.dtype, device=mean.device)
    step = 2 * _RANGE / (_NODES - 1)
    weights = step * torch.exp(-0.5 * nodes.square()) / math.sqrt(2 * math.pi)
    chance = link(mean.unsqueeze(-1) + deviation.unsqueeze(-1) * nodes)
    average = (chance * weights).sum(-1, keepdim=True)
    return ((chance - average).square() * weights).sum(-1)


def soft_copeland(link: BernoulliLikelihood, mean: Tensor, deviation: Tensor) -> Tensor:
    """The posterior mean of the soft-Copeland score, Gonzalez et al. (2017), sec. 2.

    It is the ``n``-dim average of ``E[mu(h)]`` over ``k`` opponents, of ``n x k``-dim means and
    standard deviations of differences.
    """
    size = max(1, _ENTRIES // mean.shape[-1])
    parts = zip(mean.split(size), deviation.square().split(size), strict=True)
    return torch.cat([link.expected_probability(*part).mean(-1) for part in parts])
