r"""Exact inference on a finite set of items, from their kernel matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

import torch
from torch import Tensor

from botorch_pref.data.blocks import DUEL, Block
from botorch_pref.data.checks import check_word, checked_kappa, checked_positive
from botorch_pref.inference.laplace import LaplacePosterior, find_mode, laplace_posterior
from botorch_pref.inference.observations import Observations, matvec
from botorch_pref.inference.systems import ExactFactor, choose_system, prior_root
from botorch_pref.likelihoods import BernoulliLikelihood, LogitLikelihood

_TIE = 1e-9

Regularizer = Literal["rkhs", "theta", "theta_mean"]
"""The name of a penalty; :class:`FinitePosterior` says what each is."""


class FinitePosterior:
    r"""The posterior of the utility of ``n`` items, updated duel by duel.

    Sec. 2.3 and 3.2 of Lazzaro et al., *A Finite Time Analysis of Thompson Sampling for
    Bayesian Optimization with Preferential Feedback* (2026).

    Args:
        covariance: ``n x n``-dim covariance ``K`` of the items.
        penalty: ``lambda``; the prior covariance is ``K / lambda``.
        kappa: ``"laplace"`` for the curvature at the mode, or a number for the answer-free
            curvature ``count / kappa``: the papers' ridge is ``rho = lambda kappa``.
        regularizer: The squared norm that ``lambda / 2`` multiplies: ``"rkhs"`` that of
            the function, which is the Gaussian process; ``"theta"`` that of the dual
            coefficients; ``"theta_mean"`` the same beside the mean log likelihood, a
            penalty that grows with the number of duels. The last two reproduce papers.
        likelihood: The link; logit by default.

    Attributes:
        prior_covariance: ``n x n``-dim prior covariance ``K / lambda``.
        num_asked: The number of duels, those of identical pairs included.

    Raises:
        ComparisonDataError: If an option cannot be used; names the argument.
    """

    def __init__(
        self,
        covariance: Tensor,
        *,
        penalty: float = 1.0,
        kappa: Literal["laplace"] | float = "laplace",
        regularizer: Regularizer = "rkhs",
        likelihood: BernoulliLikelihood | None = None,
    ) -> None:
        check_word("regularizer", regularizer, Regularizer)
        self.penalty, self.regularizer = checked_positive("penalty", penalty), regularizer
        self.kappa = checked_kappa("kappa", kappa)
        self.prior_covariance = covariance / self.penalty
        self._root = prior_root(self.prior_covariance)
        self.likelihood = likelihood or LogitLikelihood()
        self.num_asked = 0
        # Wins and count of each pair, its lower index first.
        self._answers: dict[tuple[int, int], tuple[float, float]] = {}
        self._start = covariance.new_zeros(0)  # the weights of the last mode
        self._found: LaplacePosterior | None = None

    @property
    def num_pairs(self) -> int:
        """The number ``r`` of distinct pairs that were asked."""
        return len(self._answers)

    def append(self, pair: Sequence[int], answer: float) -> None:
        r"""Add an answered duel.

        Args:
            pair: Two items. A pair of one item is only counted, which matters to
                ``"theta_mean"``: its answer does not depend on the utility.
            answer: 1 if the first wins, 0 if the second, 0.5 for no preference.
        """
        first, second = pair
        if first > second:
            first, second, answer = second, first, 1.0 - answer
        if first != second:
            wins, count = self._answers.get((first, second), (0.0, 0.0))
            self._answers[first, second] = wins + answer, count + 1.0
        self.num_asked += 1
        self._found = None

    @property
    def mean(self) -> Tensor:
        """The ``n``-dim utilities at the mode."""
        found = self._posterior()
        return matvec(found.system.columns(self.prior_covariance), found.weights)

    @property
    def covariance(self) -> Tensor:
        r"""The ``n x n``-dim posterior covariance, in the units of the mean.

        ``(lambda K^-1 + H^T W H)^-1``; times ``lambda`` it is the unit-kernel ``k_t`` of
        Lazzaro et al. (2026), eq. (19).
        """
        found = self._posterior()
        columns = found.system.columns(self.prior_covariance)
        return self.prior_covariance - columns @ found.gamma @ columns.mT

    def sample(self, prior_noise: Tensor, answer_noise: Tensor, scale: float) -> Tensor:
        """Draws ``... x n``-dim utilities from ``N(mean, scale^2 covariance)``, by Matheron's rule.

        Args:
            prior_noise: ``... x n``-dim standard normal noise.
            answer_noise: ``... x r``-dim standard normal noise.
            scale: Multiplies the standard deviation.
        """
        draw = matvec(self._root, prior_noise)
        if self._answers:
            found = self._posterior()
            incidence, factor = found.system.observations.incidence, cast(ExactFactor, found.factor)
            weights = factor.solve_noisy(incidence.apply(draw), answer_noise)
            draw = draw - matvec(self.prior_covariance, incidence.adjoint(weights))
        return self.mean + scale * draw

    def _posterior(self) -> LaplacePosterior:
        """The posterior after all answers so far, found once."""
        if self._found is None:
            self._found = self._find()
            self._start = self._found.mode.weights
        return self._found

    def _find(self) -> LaplacePosterior:
        """The posterior, searched for from the last mode."""
        prior = self.prior_covariance
        # Before any answer, one row of weight 0.
        answers = self._answers or {(0, 0): (0.0, 0.0)}
        pairs = torch.tensor([*answers], device=prior.device)
        wins, count = prior.new_tensor([*answers.values()]).unbind(-1)
        block = Block(pairs, DUEL, wins / count.clamp_min(1.0), count, self.likelihood)
        observations = Observations([block], len(prior))
        zero = torch.zeros_like(count)
        start = torch.cat([self._start, zero[len(self._start) :]])
        system = choose_system(prior, zero, observations)
        curvature = None if self.kappa == "laplace" else count / self.kappa
        if self.regularizer == "rkhs":
            return laplace_posterior(system, curvature, start=start)
        # The squared norm of the dual coefficients is that under `K L_N K / lambda`.
        mean = self.regularizer == "theta_mean"
        scale = self.penalty / max(self.num_asked, 1) if mean else self.penalty
        incidence = observations.incidence
        penalised = scale * prior @ incidence.laplacian(count) @ prior
        mode = find_mode(choose_system(penalised, zero, observations), start=start)
        factor = system.factor(mode.state.curvature if curvature is None else curvature)
        utilities = matvec(prior, incidence.adjoint(mode.weights))
        weights = system.incidence.adjoint(scale * count * incidence.apply(utilities))
        return LaplacePosterior(system, weights, factor.gamma(), mode, factor)


def argmax_with_random_ties(values: Tensor, noise: Tensor) -> Tensor:
    """The ``...``-dim index of the maximum, drawn uniformly among values equal to rounding.

    Args:
        values: ``... x n``-dim values. Items of equal features have equal draws, but for the last
            digits.
        noise: ``... x n``-dim uniform noise in ``[0, 1)``.
    """
    best = values.amax(dim=-1, keepdim=True)
    near = values >= best - _TIE * best.abs().clamp_min(1.0)
    return torch.where(near, noise.to(values), -1.0).argmax(dim=-1)


class PairVarianceTable:
    r"""``sigma_t^2(x, x')`` of all pairs of ``n`` items, which no answer moves.

    Eq. (10) of Kayal et al., *Bayesian Optimization from Human Feedback: Near-Optimal
    Regret Bounds* (2025), in their units: a kernel ``k <= 1`` and a ridge
    ``rho = lambda kappa``. A model with output scale ``1 / lambda`` and
    ``variance=kappa`` has ``1 / lambda`` times these variances.

    A duel of ``i`` and ``j`` takes ``a a^T / (rho + a_i - a_j)`` with
    ``a = C[:, i] - C[:, j]`` off the covariance ``C`` of the utility: ``O(n^2)``, without
    a solve, and exact in any order.

    Args:
        covariance: ``n x n``-dim kernel of the items, in the units of the papers.
        ridge: ``rho``, positive.

    Attributes:
        covariance: ``n x n``-dim covariance of the utility after the duels so far.

    Raises:
        ComparisonDataError: If ``ridge`` is not positive and finite.

    Example:
        >>> table = PairVarianceTable(kernel, ridge=0.05)
        >>> table.append(torch.tensor([3, 7]))
        >>> table.variance[0, 1]
    """

    def __init__(self, covariance: Tensor, ridge: float) -> None:
        self.covariance = covariance
        self.ridge = checked_positive("ridge", ridge)

    @property
    def variance(self) -> Tensor:
        """The ``n x n``-dim table of ``sigma^2(x, x')``, squared units of the utility."""
        own = self.covariance.diagonal()
        return (own.unsqueeze(-1) + own - 2.0 * self.covariance).clamp_min(0.0)

    def append(self, pair: Tensor) -> None:
        """Take one more duel into account, of ``2`` items; an identical pair changes nothing."""
        first, second = self.covariance[pair]
        contrast = first - second
        ends = contrast[pair]
        variance = (ends[0] - ends[1]).clamp_min(0.0)
        step = contrast / (self.ridge + variance).sqrt()
        self.covariance = self.covariance - torch.outer(step, step)
