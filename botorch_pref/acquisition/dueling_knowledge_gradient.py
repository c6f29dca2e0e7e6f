r"""The knowledge gradient of a duel."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from botorch.models.model import Model
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor
from torch.nn import Module

from botorch_pref.acquisition.base import PairAcquisitionFunction, link_of
from botorch_pref.acquisition.expected_gain import less_the_best
from botorch_pref.acquisition.knowledge_gradient import (
    REPEATS,
    KnowledgeGradient,
    Moments,
    Project,
)
from botorch_pref.exceptions import UnsupportedError

_NO_VARIANCE = 1e-16
_REACH, _STEP = 6.0, 0.2  # of the grid, in standard deviations of the difference
_SHARPEST = 15.0  # a link's scale in standard deviations, which the grid resolves


class DuelingKnowledgeGradient(KnowledgeGradient, PairAcquisitionFunction):
    r"""Expected growth of the largest posterior mean by the answer of a duel.

    Under a Gaussian posterior all that an answer tells is told of the difference
    ``d = f(x) - f(x')``, so the posterior means after ``k`` wins in ``n`` duels are

        ``mean_j + cov(f_j, d) / sd(d) E[z | k]``,  ``d = mean(d) + sd(d) z``,

    with ``P(k)`` and ``E[z | k]`` from one-dimensional averages over ``z``. The gain over the
    reference and both items, per duel at the best ``n``. It is the gain of ``n`` answers that the
    posterior's Gaussian expects; Laplace's approximation of what they leave is not computed.

    Swapping both items changes nothing, and an item against itself is worth nothing. It is
    continuous with kinks, and 0 where no answer would change what is best.

    Example:
        >>> rule = DuelingKnowledgeGradient(model, reference)
        >>> pair, gain = optimize_acqf(rule, bounds, q=2, num_restarts=4, raw_samples=128)
    """

    nodes: Tensor
    weights: Tensor

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
        self.register_buffer("weights", torch.softmax(-0.5 * nodes.square(), dim=0))

    def set_pending_pairs(self, pairs: Tensor | None) -> None:
        r"""Refuse pending pairs.

        Raises:
            UnsupportedError: If there are any: build the rule on a model that is conditioned
                on them.
        """
        if pairs is not None and len(pairs):
            raise UnsupportedError(
                "DuelingKnowledgeGradient has no pending pairs. Build it on a model that is "
                "conditioned on the answers that these are expected to have (condition_on_pairs)."
            )

    @t_batch_mode_transform(expected_q=2)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        r"""The gain per duel.

        Args:
            X: ``b x 2 x d``-dim pairs.

        Returns:
            ``b``-dim gains, in units of the utility.
        """
        return self.per_answer(X)

    def _gains(self, moments: Moments) -> list[Tensor]:
        own = moments.asked
        variance = own[..., 0, 0] + own[..., 1, 1] - 2 * own[..., 0, 1]
        deviation = variance.clamp_min(_NO_VARIANCE).sqrt()
        slopes = (moments.cross[..., 0] - moments.cross[..., 1]) / deviation.unsqueeze(-1)
        a, c = less_the_best(moments.mean, slopes)
        mean = moments.asked_mean[..., 0] - moments.asked_mean[..., 1]
        won, lost = self._log_probabilities(mean, deviation)
        gains = []
        for number in self.repeats:
            probability, tilt = self._outcomes(won, lost, number)
            reached = probability.unsqueeze(-2) * a.unsqueeze(-1)  # shape: b x (M + 2) x (n + 1)
            reached = reached + tilt.unsqueeze(-2) * c.unsqueeze(-1)
            gains.append(reached.amax(-2).sum(-1))
        return gains

    def _log_probabilities(self, mean: Tensor, deviation: Tensor) -> tuple[Tensor, Tensor]:
        """``b x Q``-dim log probabilities that either item wins, at the nodes."""
        mean, deviation = mean.unsqueeze(-1), deviation.unsqueeze(-1)
        # Of a link that is a step on the grid, the gain is that of the steepest smooth one.
        steepness = self.likelihood.scale * deviation
        factor = (_SHARPEST / steepness.clamp_min(_SHARPEST)).detach()
        difference = factor * (mean + deviation * self.nodes.to(mean))
        return self.likelihood.log_cdf(difference), self.likelihood.log_cdf(-difference)

    def _outcomes(self, won: Tensor, lost: Tensor, number: int) -> tuple[Tensor, Tensor]:
        """``b x (n + 1)``-dim ``P(k)`` and ``P(k) E[z | k]`` for ``k`` wins in ``n`` duels."""
        wins = torch.arange(number + 1, dtype=won.dtype, device=won.device)
        ways = torch.lgamma(wins.new_tensor(number + 1.0)) - torch.lgamma(wins + 1)
        ways = ways - torch.lgamma(number - wins + 1)
        log = ways + wins * won.unsqueeze(-1) + (number - wins) * lost.unsqueeze(-1)
        likely = log.exp() * self.weights.to(won).unsqueeze(-1)  # shape: b x Q x (n + 1)
        return likely.sum(-2), (likely * self.nodes.to(won).unsqueeze(-1)).sum(-2)
