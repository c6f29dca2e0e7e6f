r"""Exact inference on a finite set of items, with leading batch dimensions.

Notation: ``n`` items, ``r`` distinct pairs asked so far, ``K`` the unit kernel of the
items, ``lambda`` the penalty, ``H`` the map from items to pairs, ``N`` the counts. A
replicate of a simulation is one batch element; elements have asked different pairs, so
rows of count 0 pad the shorter ones.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, cast, get_args

import torch
from torch import Size, Tensor

from botorch_pref.data.blocks import DUEL, Block
from botorch_pref.data.checks import checked_kappa, checked_positive
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.inference.mode import find_mode
from botorch_pref.inference.observations import Observations, as_curvature
from botorch_pref.inference.systems import (
    DualFactor,
    DualSystem,
    PrimalFactor,
    PrimalSystem,
    choose_system,
    matvec,
    prior_root,
)
from botorch_pref.likelihoods import BernoulliLikelihood, LogitLikelihood

_TIE = 1e-9

Regularizer = Literal["rkhs", "theta", "theta_mean"]
"""The name of a penalty; :class:`FiniteEngine` says what each is."""


class FinitePosterior(NamedTuple):
    r"""The posterior of the utility of ``n`` items.

    Attributes:
        mean: ``... x n``-dim utilities at the mode.
        system: The dual or the primal system of the covariance.
        factor: The factored Hessian that the covariance is built on.
        prior_covariance: ``... x n x n``-dim prior covariance ``K / lambda``.
        root: ``... x n x n``-dim root of it.
    """

    mean: Tensor
    system: DualSystem | PrimalSystem
    factor: DualFactor | PrimalFactor
    prior_covariance: Tensor
    root: Tensor

    @property
    def curvature(self) -> Tensor:
        """The ``... x r``-dim curvature that the covariance is built on."""
        return self.factor.curvature.weight

    @property
    def covariance(self) -> Tensor:
        r"""The ``... x n x n``-dim posterior covariance, in the units of the mean.

        ``(lambda K^-1 + H^T W H)^-1``; times ``lambda`` it is the unit-kernel ``k_t`` of
        Lazzaro et al. (2026), eq. (19).
        """
        columns = self.system.columns(self.prior_covariance)
        return self.prior_covariance - columns @ self.factor.gamma() @ columns.mT

    def sample(self, prior_noise: Tensor, answer_noise: Tensor, scale: Tensor | float) -> Tensor:
        r"""Draws from ``N(mean, scale^2 covariance)``, by Matheron's rule.

        Args:
            prior_noise: ``S x ... x n``-dim standard normal noise.
            answer_noise: ``S x ... x r``-dim standard normal noise.
            scale: Multiplies the standard deviation; one number or ``...``-dim.

        Returns:
            ``S x ... x n``-dim utilities.
        """
        incidence, curvature = self.system.observations.incidence, self.factor.curvature
        prior = matvec(self.root, prior_noise)
        right = curvature.apply(incidence.apply(prior)) + curvature.root(answer_noise)
        weights = incidence.adjoint(self.factor.solve_adjoint(right))
        draw = prior - matvec(self.prior_covariance, weights)
        if isinstance(scale, Tensor):
            scale = scale.unsqueeze(-1)
        return self.mean + scale * draw


class FiniteEngine:
    r"""Wins and counts of pairs of ``n`` items, and the posterior that follows.

    Sec. 2.3 and 3.2 of Lazzaro et al., *A Finite Time Analysis of Thompson Sampling for
    Bayesian Optimization with Preferential Feedback* (2026).

    Args:
        covariance: ``... x n x n``-dim covariance ``K`` of the items.
        penalty: ``lambda``; the prior covariance is ``K / lambda``.
        kappa: ``"laplace"`` for the curvature at the mode, or a number for the answer-free
            curvature ``count / kappa``: the papers' ridge is ``rho = lambda kappa``.
        regularizer: The squared norm that ``lambda / 2`` multiplies: ``"rkhs"`` that of
            the function, which is the Gaussian process; ``"theta"`` that of the dual
            coefficients; ``"theta_mean"`` the same beside the mean log likelihood, a
            penalty that grows with the number of duels. The last two reproduce papers.
        likelihood: The link; logit by default.
        batch_shape: Leading dimensions of the data; those of ``covariance`` at least.
    """

    def __init__(
        self,
        covariance: Tensor,
        *,
        penalty: float = 1.0,
        kappa: Literal["laplace"] | float = "laplace",
        regularizer: Regularizer = "rkhs",
        likelihood: BernoulliLikelihood | None = None,
        batch_shape: Size | tuple[int, ...] = (),
    ) -> None:
        penalty = checked_positive("penalty", penalty)
        regularizer = checked_regularizer(regularizer)
        self.prior_covariance = covariance / penalty
        self.root = prior_root(self.prior_covariance)
        self.penalty, self.regularizer = penalty, regularizer
        self.kappa = checked_kappa("kappa", kappa)
        self.likelihood = likelihood or LogitLikelihood()
        self.batch_shape = torch.broadcast_shapes(covariance.shape[:-2], tuple(batch_shape))
        self.pairs = torch.zeros(
            *self.batch_shape, 0, 2, dtype=torch.long, device=covariance.device
        )
        self.wins = covariance.new_zeros(*self.batch_shape, 0)
        self.count = self.wins
        self.num_asked = covariance.new_zeros(self.batch_shape)
        self._weights = self.wins  # of the last mode, where the next one starts
        self._posterior: FinitePosterior | None = None

    @property
    def num_items(self) -> int:
        """The number ``n`` of items."""
        return self.prior_covariance.shape[-1]

    def append(self, pairs: Tensor, answers: Tensor) -> None:
        r"""Add one answered duel to every batch element.

        Args:
            pairs: ``... x 2``-dim long tensor of items. An identical pair tells nothing of
                the utility; it is counted, which matters to ``"theta_mean"`` alone.
            answers: ``...``-dim answers in ``{0, 0.5, 1}``.
        """
        answers = answers.to(self.wins)
        swap = pairs[..., 0] > pairs[..., 1]
        pairs = torch.where(swap.unsqueeze(-1), pairs.flip(-1), pairs)
        wins = torch.where(swap, 1.0 - answers, answers)
        self.num_asked = self.num_asked + 1.0
        distinct = pairs[..., 0] != pairs[..., 1]
        same = (self.pairs == pairs.unsqueeze(-2)).all(dim=-1) & (self.count > 0)
        fresh = distinct & ~same.any(dim=-1)
        if bool(fresh.any()):
            added = torch.where(fresh.unsqueeze(-1), pairs, 0).unsqueeze(-2)
            self.pairs = torch.cat([self.pairs, added], dim=-2)
            same = torch.cat([same, fresh.unsqueeze(-1)], dim=-1)
            none = self.wins.new_zeros(*self.batch_shape, 1)
            self.wins, self.count, self._weights = (
                torch.cat([rows, none], dim=-1) for rows in (self.wins, self.count, self._weights)
            )
        hit = (same & distinct.unsqueeze(-1)).to(self.wins)
        self.wins = self.wins + hit * wins.unsqueeze(-1)
        self.count = self.count + hit
        self._posterior = None

    def posterior(self) -> FinitePosterior:
        """The posterior after all answers so far; found once, from the last mode."""
        if self._posterior is None:
            self._posterior = self._find()
        return self._posterior

    def _find(self) -> FinitePosterior:
        observations, zero = self._observations(), torch.zeros_like(self.count)
        if zero.shape[-1]:
            prior = self._mean_covariance(observations)
            system = choose_system(prior, zero, observations)
            mode = find_mode(system, start=self._weights)
            self._weights = mode.weights
            mean = matvec(prior, observations.incidence.adjoint(mode.weights))
            curvature = observations.derivatives(mode.latent)[1]
        else:
            mean = self.prior_covariance.new_zeros(*self.batch_shape, self.num_items)
            curvature = as_curvature(zero)
        if self.kappa != "laplace":
            curvature = as_curvature(self.count / self.kappa)
        if self.regularizer != "rkhs" or not zero.shape[-1]:
            system = choose_system(self.prior_covariance, zero, observations)
        factor = system.factor(curvature)
        return FinitePosterior(mean, system, factor, self.prior_covariance, self.root)

    def _observations(self) -> Observations:
        answer = torch.where(self.count > 0, self.wins / self.count.clamp_min(1.0), 0.5)
        block = Block(self.pairs, DUEL, answer, self.count, self.likelihood)
        return Observations([block], self.num_items)

    def _mean_covariance(self, observations: Observations) -> Tensor:
        """The prior covariance of the mean's own penalty: ``K L_N K / lambda`` for theta."""
        if self.regularizer == "rkhs":
            return self.prior_covariance
        laplacian = observations.incidence.laplacian(self.count)
        covariance = self.penalty * self.prior_covariance @ laplacian @ self.prior_covariance
        if self.regularizer == "theta_mean":
            covariance = covariance / self.num_asked[..., None, None]
        return covariance


def checked_regularizer(regularizer: str) -> Regularizer:
    """The name of a penalty.

    Raises:
        ComparisonDataError: If there is none of this name.
    """
    for known in get_args(Regularizer):
        if regularizer == known:
            return cast(Regularizer, known)
    raise ComparisonDataError(
        f"`regularizer` must be rkhs, theta or theta_mean, got {regularizer!r}."
    )


def argmax_with_random_ties(values: Tensor, noise: Tensor) -> Tensor:
    r"""The index of the maximum, drawn uniformly among values that are equal to rounding.

    Items of equal features have equal draws, but for the last digits.

    Args:
        values: ``... x n``-dim values.
        noise: ``... x n``-dim uniform noise in ``[0, 1)``.

    Returns:
        ``...``-dim long tensor.
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
    a solve, and exact in any order. Leading dimensions are replicates that ask different
    pairs.

    Args:
        covariance: ``... x n x n``-dim kernel of the items, in the units of the papers.
        ridge: ``rho``, positive.

    Attributes:
        covariance: ``... x n x n``-dim covariance of the utility after the duels so far.
        gain: ``...``-dim information gain, ``sum_t log(1 + sigma_{t-1}^2(z_t) / rho) / 2``,
            which is ``log det(I + K_z / rho) / 2`` of the pairs' kernel ``K_z``.

    Raises:
        ComparisonDataError: If ``ridge`` is not positive and finite.

    Example:
        >>> table = PairVarianceTable(kernel, ridge=0.05)
        >>> table.append(torch.tensor([3, 7]))
        >>> table.variance[0, 1], table.gain
    """

    def __init__(self, covariance: Tensor, ridge: float) -> None:
        self.covariance = covariance
        self.ridge = checked_positive("ridge", ridge)
        self.gain = covariance.new_zeros(covariance.shape[:-2])

    @property
    def variance(self) -> Tensor:
        """The ``... x n x n``-dim table of ``sigma^2(x, x')``, squared units of the utility."""
        own = self.covariance.diagonal(dim1=-2, dim2=-1)
        return (own.unsqueeze(-1) + own.unsqueeze(-2) - 2.0 * self.covariance).clamp_min(0.0)

    def append(self, pairs: Tensor) -> Tensor:
        r"""Take one more duel into account in every batch element.

        Args:
            pairs: ``... x 2``-dim long tensor of items. An identical pair changes nothing.

        Returns:
            The ``...``-dim variance that the pair had before.
        """
        batch = torch.broadcast_shapes(self.covariance.shape[:-2], pairs.shape[:-1])
        covariance = self.covariance.expand(*batch, *self.covariance.shape[-2:])
        rows = pairs.expand(*batch, 2)
        columns = covariance.take_along_dim(rows.unsqueeze(-1), dim=-2)
        contrast = columns[..., 0, :] - columns[..., 1, :]
        ends = contrast.take_along_dim(rows, dim=-1)
        variance = (ends[..., 0] - ends[..., 1]).clamp_min(0.0)
        step = contrast / (self.ridge + variance).sqrt().unsqueeze(-1)
        self.covariance = covariance - step.unsqueeze(-1) * step.unsqueeze(-2)
        self.gain = self.gain + 0.5 * torch.log1p(variance / self.ridge)
        return variance
