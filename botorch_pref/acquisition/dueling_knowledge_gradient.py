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
    LaplaceUtility,
    PairAcquisitionFunction,
    difference_moments,
    link_of,
)
from botorch_pref.acquisition.knowledge_gradient import (
    NO_VARIANCE,
    REPEATS,
    KnowledgeGradient,
    Moments,
    Project,
    relative_to_best,
)
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.inference.observations import Observations
from botorch_pref.inference.systems import ExactSystem
from botorch_pref.likelihoods import BernoulliLikelihood

_REACH, _STEP = 8.0, 0.25  # of the grid, in standard deviations of the difference
_SHARPEST = 12.0  # a link's scale in standard deviations, which the grid resolves


class DuelingKnowledgeGradient(KnowledgeGradient, PairAcquisitionFunction):
    r"""Expected growth of the largest posterior mean by the answer of a duel.

    An answer depends on the difference ``d = f(x) - f(x')`` alone, so the posterior means after
    ``k`` wins in ``n`` duels are

        ``mean_j + cov(f_j, d) / sd(d) E[z | k]``,  ``d = mean(d) + sd(d) z``,

    with ``P(k)`` and ``E[z | k]`` from one-dimensional averages over ``z``. The gain over the
    reference and both items, per duel at the best ``n``.

    For a :class:`~botorch_pref.models.PreferenceGP` with ``variance="laplace"`` the law of ``z``
    is that of ``DifferenceLaw``, for other models the normal one. It matters: where the link
    is steep, a normal law keeps a tail that ten equal answers have ruled out, and a gain of asking
    the same duel again.

    Swapping both items changes nothing, and an item against itself has no value. The value is
    continuous with kinks, and 0 where no answer would change which item is best.

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
        r"""Set the candidates for the best item, and the link.

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
        self.law = _law(model)

    def set_pending_pairs(self, pairs: Tensor | None) -> None:
        r"""Condition the model on pairs that are open, with the answers that it expects.

        Args:
            pairs: ``k x 2 x d``-dim pairs, or ``None`` for none.

        Raises:
            UnsupportedError: If the model has no ``condition_on_pairs``.
        """
        conditioned = self.model
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
                conditioned = cast(Any, self.model).condition_on_pairs(pairs, answers)
        self.conditioned, self.law = conditioned, _law(conditioned)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Moving a module moves the model, so the law is computed again."""
        super()._apply(fn, recurse)
        self.law = _law(self.conditioned)
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
        deviation = variance.clamp_min(NO_VARIANCE).sqrt()
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
    a, c = relative_to_best(now, slopes)
    tilt = tilt - probability * tilt.sum(-1, keepdim=True)
    reached = probability.unsqueeze(-2) * a.unsqueeze(-1)  # shape: b x (M + 2) x (n + 1)
    return (reached + tilt.unsqueeze(-2) * c.unsqueeze(-1)).amax(-2).sum(-1)


class DifferenceLaw:
    r"""The posterior of ``d = f(x) - f(x')`` beyond its normal approximation.

    Laplace's approximation expands the log likelihood of each answer at the mode. Along the line
    of conditional means given ``d = mean(d) + sd(d) z`` the answers can be kept as they are,

        ``log p(z) = -z^2 / 2 + sum_i [l_i(eta_i + r_i z) - its quadratic expansion]``,

    with ``r_i = cov(eta_i, d) / sd(d)`` for the latent ``eta_i`` of answer ``i``: the marginals of
    Tierney and Kadane (1986) without their determinant; see Rue, Martino and Chopin (2009). Where
    a single pair was answered this is exact. Measured values add nothing, as they are quadratic.

    Args:
        model: A model that :meth:`is_known_for`, as it is now: after a fit build another law.
    """

    def __init__(self, model: LaplaceUtility) -> None:
        self.model = model
        with torch.no_grad():
            self.items, found = model.laplace_posterior()
            self.system = cast(ExactSystem, found.system)
            # A covariance with the system's coordinates given all answers: C - C Gamma C = C rest.
            self.rest = -(found.gamma @ self.system.covariance)
            self.rest.diagonal().add_(1.0)
            blocks = self.system.observations.blocks
            answers = [isinstance(block.likelihood, BernoulliLikelihood) for block in blocks]
            answered = [block for block, answer in zip(blocks, answers, strict=True) if answer]
            self.answers = Observations(answered, len(self.items))
            sizes = torch.tensor([block.weight.shape[-1] for block in blocks])
            rows = torch.tensor(answers).repeat_interleave(sizes).nonzero().squeeze(-1)
            self.rows = rows.to(self.items.device)
            self.mode = found.mode.latent[self.rows]
            self.score, self.curvature = self.answers.derivatives(self.mode)
            self.log_prob = self.answers.log_prob(self.mode)

    @staticmethod
    def is_known_for(model: Model) -> bool:
        """Whether a model has answers, ``variance="laplace"`` and no inducing items.

        Inducing items are for many answers, for which the normal law is good.
        """
        if not isinstance(model, LaplaceUtility) or getattr(model, "variance", None) != "laplace":
            return False
        if not model.num_observations:
            return False
        system = model.laplace_posterior()[1].system
        if not isinstance(system, ExactSystem):
            return False
        return any(
            isinstance(block.likelihood, BernoulliLikelihood)
            for block in system.observations.blocks
        )

    def log_ratio(self, X: Tensor, deviation: Tensor, z: Tensor) -> Tensor:
        r"""The log density less that of the normal law, up to a constant.

        Args:
            X: ``b x 2 x d``-dim pairs.
            deviation: ``b``-dim ``sd(d)``.
            z: ``Q``-dim standardised differences.

        Returns:
            ``b x Q``-dim values.
        """
        slope = self._slopes(X) / deviation.unsqueeze(-1)  # shape: b x m
        slope, z = slope.unsqueeze(-2), z.unsqueeze(-1)
        moved = self.answers.log_prob(self.mode + slope * z) - self.log_prob
        expansion = z * (slope * self.score) - 0.5 * (z * slope).square() * self.curvature.weight
        return (moved - expansion).sum(-1)

    def _slopes(self, X: Tensor) -> Tensor:
        """``b x m``-dim posterior covariances of the answers' latents and the difference."""
        inputs = self.model.transform_rows(X)
        cross = self.model.cross_covariance(inputs, self.items)
        columns = self.system.columns(cross[..., 0, :] - cross[..., 1, :])
        return self.system.incidence.apply(columns @ self.rest)[..., self.rows]


def _law(model: Model) -> DifferenceLaw | None:
    return DifferenceLaw(cast(Any, model)) if DifferenceLaw.is_known_for(model) else None
