r"""The knowledge gradient of a duel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self, cast

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
from botorch_pref.acquisition.difference_law import DifferenceLaw
from botorch_pref.acquisition.expected_gain import less_the_best
from botorch_pref.acquisition.knowledge_gradient import (
    REPEATS,
    KnowledgeGradient,
    Moments,
    Project,
)
from botorch_pref.exceptions import UnsupportedError

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

    Of a :class:`~botorch_pref.models.PreferenceGP` the law of ``z`` is not the normal one but
    that of :class:`~botorch_pref.acquisition.difference_law.DifferenceLaw`. It matters: where the
    link is steep, a normal law keeps a tail in which what was answered ten times is otherwise,
    and the gain of asking it again.

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
        self.law = DifferenceLaw.of(model)

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
        self.believed, self.law = believed, DifferenceLaw.of(believed)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Torch's, of what moves a module; the law is that of what the model has become."""
        super()._apply(fn, recurse)
        self.law = DifferenceLaw.of(self.believed)
        return self

    @t_batch_mode_transform(expected_q=2)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        r"""The gain per duel.

        Args:
            X: ``b x 2 x d``-dim pairs.

        Returns:
            ``b``-dim gains, in units of the utility.
        """
        return self.per_answer(X)

    def _gains(self, X: Tensor, moments: Moments) -> list[Tensor]:
        own = moments.asked
        variance = own[..., 0, 0] + own[..., 1, 1] - 2 * own[..., 0, 1]
        deviation = variance.clamp_min(_NO_VARIANCE).sqrt()
        slopes = (moments.cross[..., 0] - moments.cross[..., 1]) / deviation.unsqueeze(-1)
        mean = moments.asked_mean[..., 0] - moments.asked_mean[..., 1]
        won, lost = self._log_probabilities(mean.unsqueeze(-1), deviation.unsqueeze(-1))
        weights = self._weights(X, deviation).unsqueeze(-1)  # shape: b x Q x 1
        gains = []
        for number in self.repeats:
            likely = weights * _likelihoods(won, lost, number)  # shape: b x Q x (n + 1)
            tilt = (self.nodes.to(mean).unsqueeze(-1) * likely).sum(-2)
            gains.append(_gain(moments.mean, slopes, likely.sum(-2), tilt))
        return gains

    def _weights(self, X: Tensor, deviation: Tensor) -> Tensor:
        """``b x Q``-dim probabilities of the nodes."""
        z = self.nodes.to(deviation)
        log = -0.5 * z.square().expand(len(X), -1)
        if self.law is not None:
            log = log + self.law.log_ratio(X, deviation, z)
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
