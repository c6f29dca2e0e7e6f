r"""The knowledge gradient of a duel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from botorch.models.model import Model
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor
from torch.nn import Module

from botorch_pref.acquisition.base import (
    PairAcquisitionFunction,
    difference_moments,
    link_of,
)
from botorch_pref.acquisition.expected_gain import less_the_best
from botorch_pref.acquisition.knowledge_gradient import (
    REPEATS,
    KnowledgeGradient,
    Moments,
    Project,
)
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.laplace import Block
from botorch_pref.models import PreferenceGP

_NO_VARIANCE = 1e-16
_REACH, _STEP = 8.0, 0.25  # of the grid, in standard deviations of the difference
_SHARPEST = 12.0  # a link's scale in standard deviations, which the grid resolves


class DuelingKnowledgeGradient(KnowledgeGradient, PairAcquisitionFunction):
    r"""Expected growth of the largest posterior mean by the answer of a duel.

    What an answer tells is told of the difference ``d = f(x) - f(x')``, so the posterior means
    after ``k`` wins in ``n`` duels are

        ``mean_j + cov(f_j, d) / sd(d) E[z | k]``,  ``d = mean(d) + sd(d) z``,

    with ``P(k)`` and ``E[z | k]`` from one-dimensional averages over ``z``. The gain over the
    reference and both items, per duel at the best ``n``.

    Of a :class:`~botorch_pref.models.PreferenceGP` the law of ``z`` is not the normal one. It is
    the posterior along the line on which the utilities follow ``d``, as in the simplified Laplace
    marginals of Rue, Martino and Chopin (2009),

        ``log p(z) = -z^2 / 2 + sum_i [l_i(h_i + r_i z) - its quadratic expansion]``

    over all answered duels ``i`` with log likelihood ``l_i``, mode ``h_i`` and ``r_i =
    cov(h_i, d) / sd(d)``. It matters: where the link is steep, a normal law keeps a tail in which
    what was answered ten times is otherwise, and the gain of asking it again.

    Swapping both items changes nothing, and an item against itself is worth nothing. It is
    continuous with kinks, and 0 where no answer would change what is best.

    Example:
        >>> rule = DuelingKnowledgeGradient(model, reference)
        >>> pair, gain = optimize_acqf(rule, bounds, q=2, num_restarts=4, raw_samples=128)
    """

    nodes: Tensor

    def __init__(
        self,
        model: Model,
        reference: Tensor,
        *,
        likelihood: Module | None = None,
        project: Project | None = None,
        repeats: Sequence[int] = REPEATS,
    ) -> None:
        r"""Fix what may be best, and the link.

        Args:
            model: See :class:`~botorch_pref.acquisition.knowledge_gradient.KnowledgeGradient`.
            reference: ``M x d``-dim items.
            likelihood: The link; by default the model's.
            project: See the base class.
            repeats: See the base class.

        Raises:
            ComparisonDataError: If an argument is out of range.
            UnsupportedError: If the model is batched, has several outputs, or its link is
                unknown and ``likelihood`` not given.
        """
        super().__init__(model, reference, project=project, repeats=repeats)
        self.likelihood = link_of(model, likelihood)
        count = round(_REACH / _STEP)
        nodes = _STEP * torch.arange(-count, count + 1, dtype=torch.double)
        self.register_buffer("nodes", nodes)
        self._take_answers(model)

    def set_pending_pairs(self, pairs: Tensor | None) -> None:
        r"""Condition the model on pairs that are asked but not answered, as it expects them.

        Args:
            pairs: ``k x 2 x d``-dim pairs, or ``None`` for none.

        Raises:
            UnsupportedError: If the model has no ``condition_on_pairs``.
        """
        believed = self.model
        if pairs is not None:
            pairs = pairs[(pairs[:, 0] != pairs[:, 1]).any(dim=-1)]
            if not hasattr(self.model, "condition_on_pairs"):
                raise UnsupportedError(
                    f"{type(self.model).__name__} has no condition_on_pairs, so pending pairs "
                    "cannot be taken into account; use PreferenceGP, or choose pairs one by one."
                )
            if len(pairs):
                mean, _ = difference_moments(self.model, pairs)
                answers = 0.5 * (1.0 + mean.detach().sign())
                believed = cast(Any, self.model).condition_on_pairs(pairs, answers)
        self.believed = believed
        self._take_answers(believed)

    @t_batch_mode_transform(expected_q=2)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        r"""The gain per duel.

        Args:
            X: ``b x 2 x d``-dim pairs.

        Returns:
            ``b``-dim gains, in units of the utility.
        """
        return self.per_answer(X)

    @torch.no_grad()
    def _take_answers(self, model: Model) -> None:
        """Keep the answers that the model has seen, and what it believes of their duels."""
        self.answered: Block | None = None
        self.witnesses = self.reference[:0]
        if not isinstance(model, PreferenceGP) or model.variance != "laplace":
            return
        data = model.merged_data
        if data is None or not data.pairs.shape[-2]:
            return
        count = data.count.clamp_min(1.0)
        block = Block(data.pairs, (1.0, -1.0), data.wins / count, data.count, model.link)
        mean = model.posterior(data.datapoints).mean.squeeze(-1)
        self.answered = block
        self.mode = mean[data.pairs[:, 0]] - mean[data.pairs[:, 1]]
        self.witnesses = data.datapoints

    def _gains(self, moments: Moments) -> list[Tensor]:
        own = moments.asked
        variance = own[..., 0, 0] + own[..., 1, 1] - 2 * own[..., 0, 1]
        deviation = variance.clamp_min(_NO_VARIANCE).sqrt().unsqueeze(-1)
        slopes = (moments.cross[..., 0] - moments.cross[..., 1]) / deviation
        witnesses = (moments.witnesses[..., 0] - moments.witnesses[..., 1]) / deviation
        weights = self._law(witnesses).unsqueeze(-1)  # shape: b x Q x 1
        mean = (moments.asked_mean[..., 0] - moments.asked_mean[..., 1]).unsqueeze(-1)
        won, lost = self._log_probabilities(mean, deviation)
        gains = []
        for number in self.repeats:
            likely = weights * _likelihoods(won, lost, number)  # shape: b x Q x (n + 1)
            tilt = (self.nodes.to(mean).unsqueeze(-1) * likely).sum(-2)
            gains.append(_gain(moments.mean, slopes, likely.sum(-2), tilt))
        return gains

    def _law(self, witnesses: Tensor) -> Tensor:
        """``b x Q``-dim probabilities of ``z``; ``witnesses`` are ``b x n`` covariances with it."""
        z = self.nodes.to(witnesses)
        log = -0.5 * z.square().expand(len(witnesses), -1)
        if self.answered is not None:
            rows, z = self.answered, z.unsqueeze(-1)
            first, second = self.answered.items.unbind(-1)
            slope = (witnesses[..., first] - witnesses[..., second]).unsqueeze(-2)  # b x 1 x m
            told = rows.answer, rows.weight
            score, curvature, _ = rows.likelihood.derivatives(self.mode, *told)
            moved = rows.likelihood.log_prob(self.mode + slope * z, *told)
            expansion = z * (slope * score) - 0.5 * z.square() * (slope.square() * curvature)
            log = log + (moved - rows.likelihood.log_prob(self.mode, *told) - expansion).sum(-1)
        return log.softmax(-1)

    def _log_probabilities(self, mean: Tensor, deviation: Tensor) -> tuple[Tensor, Tensor]:
        """``b x Q x 1``-dim log probabilities that either item wins, at the nodes."""
        # Of a link that is a step on the grid, the gain is that of the steepest smooth one.
        steepness = self.likelihood.scale * deviation
        factor = (_SHARPEST / steepness.clamp_min(_SHARPEST)).detach()
        difference = (factor * (mean + deviation * self.nodes.to(mean))).unsqueeze(-1)
        return self.likelihood.log_cdf(difference), self.likelihood.log_cdf(-difference)


def _likelihoods(won: Tensor, lost: Tensor, number: int) -> Tensor:
    """``b x Q x (n + 1)``-dim probabilities of ``k`` wins in ``n`` duels at the nodes."""
    wins = torch.arange(number + 1, dtype=won.dtype, device=won.device)
    ways = torch.lgamma(wins.new_tensor(number + 1.0)) - torch.lgamma(wins + 1)
    ways = ways - torch.lgamma(number - wins + 1)
    return (ways + wins * won + (number - wins) * lost).exp()


def _gain(mean: Tensor, slopes: Tensor, probability: Tensor, tilt: Tensor) -> Tensor:
    """``sum_k P(k) max_j (mean_j + slope_j E[z | k]) - max_j (mean_j + slope_j E[z])``."""
    now = mean + slopes * tilt.sum(-1, keepdim=True)
    a, c = less_the_best(now, slopes)
    tilt = tilt - probability * tilt.sum(-1, keepdim=True)
    reached = probability.unsqueeze(-2) * a.unsqueeze(-1)  # shape: b x (M + 2) x (n + 1)
    return (reached + tilt.unsqueeze(-2) * c.unsqueeze(-1)).amax(-2).sum(-1)
