r"""Expectation propagation: Gaussian sites, the evidence and the posterior of the utility.

Notation as in :mod:`botorch_pref.inference.systems`. Each row's likelihood is replaced by a
Gaussian site ``exp(-1/2 w eta^2 + nu eta)`` with precision ``w >= 0`` and shift ``nu``, times a
constant. The cavity ``N(m, v)`` of a row is its marginal under the posterior without its own site;
the tilted distribution is the cavity times the likelihood. The sites are a fixed point at which
every marginal has the mean and the variance of the tilted distribution (Minka 2001; Rasmussen and
Williams 2006, sec. 3.6). For log-concave likelihoods the tilted variance is at most ``v``.

With ``W = diag(w)``, ``P = G C G^T`` and ``a = (I + W P)^-1 (nu - W prior_latent)`` the posterior
mean of the latent values is ``prior_latent + P a``, and ``Gamma = (C + L_W^-1)^-1``. At the fixed
point the evidence is stationary in the sites, so that with ``alpha = G^T a``

    d log Z / d C = 1/2 alpha alpha^T - 1/2 Gamma,    d log Z / d prior_latent = a

A choice of the best of ``k`` items has one-dimensional rows as well. With utilities ``x`` and the
noise of Gumbel, the item ``c`` is chosen if its noisy utility ``v`` is the largest, so that

    P(c) = int exp(-(v - x_c)) prod_i exp(-exp(-(v - x_i))) dv

Each factor has a site in ``z_i = v - x_i`` of precision ``t_i`` and shift ``nu_i``. The Gaussian
integral over ``v`` leaves a site of the utilities with curvature ``diag(t) - t t^T / T``,
``T = sum t``, and shift ``t sum(nu) / T - nu``; given ``x``, ``v`` has the mean
``(t^T x + sum(nu)) / T`` and the variance ``1 / T``. The same choice made several times has as many
``v``, with equal sites.

All sites move at once, from those of Laplace's approximation. Steps are damped where that does
not bring tilted and marginal moments closer.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function, grad
from torch.linalg import solve_triangular
from torch.nn.functional import one_hot

from botorch_pref.data.blocks import Block, BlockLikelihood
from botorch_pref.exceptions import LaplaceConvergenceWarning, UnsupportedError
from botorch_pref.inference.inducing import InducingSystem
from botorch_pref.inference.laplace import (
    Evidence,
    LaplaceMode,
    LaplacePosterior,
    find_mode,
    log_evidence,
    refuse_second_derivatives,
)
from botorch_pref.inference.observations import (
    BlockCurvature,
    Curvature,
    IdentityIncidence,
    Marginals,
    Observations,
    matvec,
)
from botorch_pref.inference.systems import (
    DualFactor,
    DualSystem,
    ExactFactor,
    ExactSystem,
    Factor,
    System,
    solve_vector,
)
from botorch_pref.likelihoods import AnnotatedLikelihood, SoftmaxLikelihood

MAX_STEPS = 300
_TOLERANCE = 1e-6  # of sites, in units of the posterior; the evidence is found to its square
_LEAST_SHARE = 1e-12  # of the prior precision of a row, that a site has
_DAMPING, _RECOVERY = 0.6, 1.05  # of steps, where sites come no closer and where they do
_LEAST_LEVEL = -300.0  # of the factor of a choice, where its exponential is finite
# The mode of a tilted distribution places nodes; it is found to a share of a standard deviation.
_MODE_STEPS, _MODE_TOLERANCE = 60, 0.1
_ADJOINT_STEPS = 2000

# Edges of the panels of a quadrature: around the mode, in standard deviations there, and around
# zero, in units of the link, where a likelihood bends.
_AROUND_MODE = (0.8, 1.8, 3.0, 4.5, 6.5)
_AROUND_ZERO = (0.0, 1.5, 3.0, 5.0, 7.5, 11.0, 16.0, 24.0, 38.0)
_OUTER_PANELS, _NODES, _REACH = 3, 10, 9.0
# A grid serves where cavities are narrow beside the link and answers are few.
_GRID_SIZE, _GRID_REACH, _GRID_DEVIATION, _GRID_WEIGHT = 64, 8.5, 3.0, 4.0


class Moments(NamedTuple):
    r"""Of the tilted distribution of each row, all ``... x m``-dim.

    Attributes:
        log_mass: Log of the integral of the cavity times the likelihood.
        mean: The mean.
        variance: The variance.
        slope: The derivative of ``log_mass`` in the cavity's mean.
        bend: Minus the second one.
        mode: About where it is largest.
    """

    log_mass: Tensor
    mean: Tensor
    variance: Tensor
    slope: Tensor
    bend: Tensor
    mode: Tensor


class Sites(NamedTuple):
    r"""Sites, and the posterior that they make with the prior.

    Attributes:
        precision: ``... x M``-dim ``w``, or ``t`` in choices.
        shift: ``... x M``-dim ``nu``.
        latent: ``... x M``-dim posterior mean of the latent values.
        weights: ``... x M``-dim ``a``; ``p``-dim coordinates of inducing items.
        factor: The factored system at the precisions.
        log_evidence: ``...``-dim log evidence; NaN for inducing items.
        distance: ``...``-dim largest difference of the sites and those that match tilted moments,
            in units of the posterior.
        cavity: ``... x 2 x M``-dim means and variances of the cavities.
        matched: ``... x 2 x M``-dim precisions and shifts that match the tilted moments.
        mode: ``... x M``-dim modes of the tilted distributions.
    """

    precision: Tensor
    shift: Tensor
    latent: Tensor
    weights: Tensor
    factor: Factor
    log_evidence: Tensor
    distance: Tensor
    cavity: Tensor
    matched: Tensor
    mode: Tensor

    @property
    def stacked(self) -> Tensor:
        """``... x 2 x M``-dim precisions and shifts."""
        return torch.stack([self.precision, self.shift], dim=-2)

    @property
    def converged(self) -> Tensor:
        """``...``-dim booleans."""
        return self.distance <= _TOLERANCE

    @property
    def start(self) -> Tensor:
        """Precisions and shifts as a start for a related problem; zeros where the search failed."""
        return self.stacked.masked_fill(~self.converged[..., None, None], 0.0)


@torch.no_grad()
def find_sites(system: System, *, start: Tensor | None = None, max_steps: int = MAX_STEPS) -> Sites:
    r"""The sites whose marginals have the moments of the tilted distributions.

    Args:
        system: The prior and the observations.
        start: ``... x 2 x M``-dim precisions and shifts of related sites; Laplace's by default, and
            where an element has zeros.
        max_steps: The most steps taken.

    Returns:
        The sites. Elements that did not converge are marked and warned of.

    Raises:
        UnsupportedError: If several latent values of an observation are no choice of the best item.
    """
    rows, mode = _Rows(system.observations), None
    # From sites of precision zero the first step would be too long.
    if start is None or not bool(start[..., 0, :].any(-1).all()):
        start, mode = rows.laplace_sites(find_mode(system))
    sites = _sites_at(system, rows, start, mode)
    step = torch.ones_like(sites.distance)
    for _ in range(max_steps):
        done = sites.converged
        if bool((done | ~sites.distance.isfinite()).all()):
            break
        move = torch.where(done, 0.0, step)[..., None, None]
        moved = sites.stacked + move * (sites.matched - sites.stacked)
        new = _sites_at(system, rows, moved, sites.mode)
        slower = new.distance > sites.distance
        step = torch.where(slower, _DAMPING * step, (_RECOVERY * step).clamp_max(1.0))
        sites = new
    if not bool(sites.converged.all()):
        warnings.warn(
            f"Expectation propagation did not converge for {int((~sites.converged).sum())} of "
            f"{sites.converged.numel()} models within {max_steps} steps: the largest relative "
            f"change of a site is {sites.distance.max().item():.1e}.",
            LaplaceConvergenceWarning,
            stacklevel=2,
        )
    return sites


def _sites_at(system: System, rows: _Rows, stacked: Tensor, mode: Tensor | None) -> Sites:
    """The posterior of given sites, and the sites that would match the tilted moments."""
    precision, shift = stacked.unbind(-2)
    if isinstance(system, InducingSystem):
        return _inducing_sites_at(system, precision, shift, mode)
    assert isinstance(system, ExactSystem)
    prior = system.prior_latent
    if isinstance(system, DualSystem):  # variances are found from precisions
        largest = system.covariance.diagonal(dim1=-2, dim2=-1).clamp_min(_LEAST_SHARE)
        precision = torch.maximum(precision, _LEAST_SHARE / largest)
    curvature, total_shift = rows.curvature(precision), rows.total_shift(precision, shift)
    factor = system.factor(curvature)
    residual = total_shift - curvature.apply(prior)
    weights = factor.solve_adjoint(residual)
    # A second solution removes the rounding error of a large prior mean.
    weights = weights + factor.solve_adjoint(
        total_shift - curvature.apply(prior + system.gain(weights)) - weights
    )
    gain = system.gain(weights)
    latent = prior + gain
    if isinstance(factor, DualFactor) and system.observations.is_elementwise:
        unit = torch.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
        inverse = solve_triangular(factor.cholesky, unit, upper=False)
        left = inverse.square().sum(-2)
        mean, variance = latent, (1.0 - left) / precision
    else:
        marginals = factor.marginals(precision)  # which here do not need ``Gamma``
        mean, variance = rows.moments(precision, shift, latent, marginals)
        left = None
    found = _matched(rows, precision, shift, mean, variance, left, mode)
    matched, cavity, distance, mode, constant = found
    constant = rows.count * constant
    constant = constant + 0.5 * (prior * (total_shift + residual) + residual * gain)
    return Sites(
        precision=precision,
        shift=shift,
        latent=latent,
        weights=weights,
        factor=factor,
        log_evidence=constant.sum(-1) + rows.log_integral(precision, shift) - 0.5 * factor.log_det,
        distance=distance,
        cavity=cavity,
        matched=matched,
        mode=mode,
    )


def _inducing_sites_at(
    system: InducingSystem, precision: Tensor, shift: Tensor, mode: Tensor | None
) -> Sites:
    """The same, in blocks of rows; the weights are those of the whitened inducing items."""
    residual, factor = shift - precision * system.prior_latent, system.factor(precision)
    weights = torch.zeros_like(system.covariance[0])
    for block, design in system.design():
        weights += residual[block.rows] @ design
    weights = solve_vector(factor.cholesky, weights)
    latent, modes = torch.empty_like(precision), torch.empty_like(precision)
    matched, farthest = torch.stack([precision, shift]), []
    cavity = torch.empty_like(matched)
    for (rows, observations, *_), design in system.design():
        latent[rows] = mean = system.prior_latent[rows] + design @ weights
        variance = solve_triangular(factor.cholesky, design.mT, upper=False).square().sum(0)
        near = None if mode is None else mode[rows]
        matched[:, rows], cavity[:, rows], distance, modes[rows], _ = _matched(
            _Rows(observations), precision[rows], shift[rows], mean, variance, None, near
        )
        farthest.append(distance)
    return Sites(
        precision=precision,
        shift=shift,
        latent=latent,
        weights=weights,
        factor=factor,
        log_evidence=latent.new_full((), torch.nan),
        distance=torch.stack(farthest).amax(),
        cavity=cavity,
        matched=matched,
        mode=modes,
    )


def _matched(
    rows: _Rows,
    precision: Tensor,
    shift: Tensor,
    mean: Tensor,
    variance: Tensor,
    left: Tensor | None,
    mode: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The sites that match the tilted moments of given marginals.

    Args:
        rows: The factors.
        precision: ``... x M``-dim precisions of the present sites.
        shift: ``... x M``-dim shifts of them.
        mean: ``... x M``-dim means of the marginals.
        variance: ``... x M``-dim variances of the marginals.
        left: ``1 - precision * variance``, if it is known with all its digits.
        mode: Points near the modes of the tilted distributions; the means by default.

    Returns:
        ``... x 2 x M``-dim sites and cavities, how far the present sites are from these, the modes,
        and the log constants of the present sites.
    """
    if left is None:
        variance = variance.clamp_min(torch.finfo(variance.dtype).tiny)
        left = (1.0 - precision * variance).clamp_min(torch.finfo(variance.dtype).eps)
    m, v = (mean - variance * shift) / left, variance / left
    moments = rows.tilted(m, v, mean if mode is None else mode)
    matched = _matching_sites(m, v, moments)
    distance = torch.maximum(
        (matched[0] - precision).abs() * variance, (matched[1] - shift).abs() * variance.sqrt()
    )
    constants = _log_constants(m, v, precision, shift, moments.log_mass)
    cavity = torch.stack([m, v], dim=-2)
    return torch.stack(matched, dim=-2), cavity, distance.amax(-1), moments.mode, constants


class _Gumbel:
    """The factors of a choice: ``-exp(-z)``, less ``z`` for the item that was chosen."""

    has_bounded_score = True
    scale = 2.0  # bends within half the range of a logit

    def log_prob(self, latent: Tensor, answer: Tensor, weight: Tensor) -> Tensor:
        return -weight * (answer * latent + torch.exp(-latent.clamp_min(_LEAST_LEVEL)))

    def derivatives(
        self, latent: Tensor, answer: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        fall = weight * torch.exp(-latent.clamp_min(_LEAST_LEVEL))
        return fall - weight * answer, fall, fall


class _Rows:
    r"""The one-dimensional factors of observations, ``M`` as there are latent values.

    Attributes:
        count: How often each factor occurs: the weights of choices, and else one.
    """

    def __init__(self, observations: Observations) -> None:
        self.observations, self.blocks = observations, observations.blocks
        for block in self.blocks:
            likelihood = block.likelihood
            chosen = likelihood.link if isinstance(likelihood, AnnotatedLikelihood) else likelihood
            if block.latent_dim > 1 and not isinstance(chosen, SoftmaxLikelihood):
                raise UnsupportedError(
                    'inference="ep" needs answers to duels, labels, values or choices of the best '
                    f"item, not {type(chosen).__name__}."
                )
        counts = [
            torch.ones_like(block.weight)
            if block.latent_dim == 1
            else block.weight.repeat_interleave(block.latent_dim, dim=-1)
            for block in self.blocks
        ]
        self.count = torch.cat(counts, dim=-1)

    def _split(self, *vectors: Tensor) -> Iterator[tuple[Block, list[Tensor]]]:
        """Each block, and its rows of ``... x M`` vectors: ``... x m`` or ``... x m x r``."""
        parts = zip(*(self.observations.split(vector) for vector in vectors), strict=True)
        yield from zip(self.blocks, map(list, parts), strict=True)

    def laplace_sites(self, found: LaplaceMode) -> tuple[Tensor, Tensor]:
        """The sites of a mode, ``... x 2 x M``, and the mode ``... x M`` of each factor."""
        stacked, modes = [], []
        score, curvature = self.observations.derivatives(found.latent)
        for block, (latent, own_score, weight) in self._split(
            found.latent, score, curvature.weight
        ):
            if block.latent_dim > 1:
                size, shift = _told(block)
                values = size * latent + shift
                latent = (values.logsumexp(-1, keepdim=True) - values).flatten(-2)
                weight = torch.exp(-latent)
                own_score = weight - self._chosen(block, latent)
            stacked.append(torch.stack([weight, weight * latent + own_score], dim=-2))
            modes.append(latent)
        return torch.cat(stacked, dim=-1), torch.cat(modes, dim=-1)

    def curvature(self, precision: Tensor) -> Curvature:
        """``W``, of the latent values."""
        if self.observations.is_elementwise:
            return Curvature(precision)
        roots = []
        for block, (t,) in self._split(precision):
            if block.latent_dim == 1:
                roots.append(t.sqrt()[..., None, None])
                continue
            share = t / t.sum(-1, keepdim=True)
            root = torch.diag_embed(t.sqrt()) - share.unsqueeze(-1) * t.sqrt().unsqueeze(-2)
            size = _told(block)[0] * block.weight.sqrt().unsqueeze(-1)
            roots.append(size.unsqueeze(-1) * root)
        return BlockCurvature(roots)

    def total_shift(self, precision: Tensor, shift: Tensor) -> Tensor:
        """The shift of the latent values, ``... x M``-dim."""
        if self.observations.is_elementwise:
            return shift
        parts = []
        for block, (t, nu) in self._split(precision, shift):
            if block.latent_dim > 1:
                size, offset = _told(block)
                slope = _slope_at(t, nu, offset)
                nu = (size * block.weight.unsqueeze(-1) * slope).flatten(-2)
            parts.append(nu)
        return torch.cat(parts, dim=-1)

    def log_integral(self, precision: Tensor, shift: Tensor) -> Tensor:
        """The log constants ``...`` that the integrals over the largest noisy utilities leave."""
        total = precision.new_zeros(precision.shape[:-1])
        for block, (t, nu) in self._split(precision, shift):
            if block.latent_dim > 1:
                width, pull = t.sum(-1), nu.sum(-1)
                own = 0.5 * (math.log(2 * math.pi) - width.log() + pull.square() / width)
                offset = _told(block)[1]
                mean = 0.5 * (_slope_at(t, nu, 0.0) + _slope_at(t, nu, offset))
                total = total + (block.weight * (own + (offset * mean).sum(-1))).sum(-1)
        return total

    def moments(
        self, precision: Tensor, shift: Tensor, latent: Tensor, marginals: Marginals
    ) -> tuple[Tensor, Tensor]:
        """The posterior means and variances ``... x M`` of what the factors are functions of."""
        if isinstance(marginals, Tensor):
            return latent, marginals
        means, variances = [], []
        own = zip(self._split(precision, shift, latent), marginals, strict=True)
        for (block, (t, nu, mean)), covariance in own:
            variance = covariance.diagonal(dim1=-2, dim2=-1)
            if block.latent_dim == 1:
                variance = variance.squeeze(-1)
            else:
                (scale, offset), width = _told(block), t.sum(-1, keepdim=True)
                share, values = t / width, scale * mean + offset
                cross = scale**2 * matvec(covariance, share)
                common = (share * cross).sum(-1, keepdim=True) + 1.0 / width
                variance = (common - 2.0 * cross + scale**2 * variance).flatten(-2)
                winner = (share * values + nu / width).sum(-1, keepdim=True)
                mean = (winner - values).flatten(-2)
            means.append(mean)
            variances.append(variance)
        return torch.cat(means, dim=-1), torch.cat(variances, dim=-1)

    def tilted(self, m: Tensor, v: Tensor, near: Tensor) -> Moments:
        """The tilted moments, for cavities ``N(m, v)`` and points near the tilted modes."""
        parts, first = [], 0
        for block in self.blocks:
            own = slice(first, first + block.num_rows)
            parts.append(self._tilted_block(block, m[..., own], v[..., own], near[..., own]))
            first = own.stop
        if len(parts) == 1:
            return parts[0]
        return Moments(*(torch.cat(each, dim=-1) for each in zip(*parts, strict=True)))

    def slope_of_likelihoods(self, sites: Sites) -> Tensor:
        """A zero whose gradient is the evidence's in the parameters of likelihoods.

        As the evidence is stationary in the sites, that is the gradient of the tilted masses. Of
        choices there are parameters where annotators are told apart, whose evidence is Laplace's.
        """
        total = sites.mode.new_zeros(())
        if not torch.is_grad_enabled():
            return total
        for block, (m, v, near) in self._split(*sites.cavity.unbind(-2), sites.mode):
            if block.is_learnt:
                total = total + self._tilted_block(block, m, v, near).log_mass.sum(-1)
        return total - total.detach()

    def _tilted_block(self, block: Block, m: Tensor, v: Tensor, near: Tensor) -> Moments:
        if block.latent_dim > 1:
            chosen = self._chosen(block, m)
            return _tilted_rows(_Gumbel(), chosen, torch.ones_like(chosen), m, v, near)
        if not block.likelihood.has_bounded_score:  # a Gaussian
            return _gaussian_moments(block, m, v)
        return _tilted_rows(block.likelihood, block.answer, block.weight, m, v, near)

    @staticmethod
    def _chosen(block: Block, like: Tensor) -> Tensor:
        """``... x m r``-dim ones at the items that were chosen."""
        return one_hot(block.answer.long(), block.latent_dim).to(like).flatten(-2)


def _told(block: Block) -> tuple[float | Tensor, float | Tensor]:
    """What the utilities of a block of choices are multiplied by, and what is added to them.

    Of annotators both are ``... x m x r``-dim, or broadcast to that.
    """
    likelihood = block.likelihood
    if isinstance(likelihood, AnnotatedLikelihood):
        scale = likelihood.scale
        return (
            scale * likelihood.reliability.detach().unsqueeze(-1),
            scale * likelihood.offset.detach(),
        )
    return cast(SoftmaxLikelihood, likelihood).scale, 0.0


def _slope_at(t: Tensor, nu: Tensor, offset: float | Tensor) -> Tensor:
    """The slope of the site of a choice where its scaled utilities are ``offset``."""
    share = t / t.sum(-1, keepdim=True)
    level = (share * offset).sum(-1, keepdim=True)
    return share * nu.sum(-1, keepdim=True) - nu - t * (offset - level)


def _matching_sites(m: Tensor, v: Tensor, moments: Moments) -> tuple[Tensor, Tensor]:
    """Precisions and shifts for which the marginals would have the tilted moments, or the means."""
    # Differences of moments lose digits where a likelihood tells little, derivatives where much.
    is_weak = moments.variance > 0.5 * v
    share = torch.where(is_weak, 1.0 - v * moments.bend, moments.variance / v)
    precision = torch.where(is_weak, moments.bend / share, 1 / moments.variance - 1 / v)
    shift = torch.where(
        is_weak, (moments.slope + m * moments.bend) / share, moments.mean / moments.variance - m / v
    )
    # With a precision of zero, where no positive one does, the means match.
    shift = torch.where(precision > 0, shift, moments.slope)
    return precision.clamp_min(0.0), shift


def _log_constants(m: Tensor, v: Tensor, precision: Tensor, shift: Tensor, mass: Tensor) -> Tensor:
    """Log constants for which the sites have the mass of the likelihoods under the cavities."""
    total = 1.0 + precision * v
    square = 2.0 * m * shift + shift.square() * v - m.square() * precision
    return mass + 0.5 * total.log() - 0.5 * square / total


def _tilted_rows(
    likelihood: BlockLikelihood, answer: Tensor, weight: Tensor, m: Tensor, v: Tensor, near: Tensor
) -> Moments:
    """The moments of rows by quadrature."""
    with torch.no_grad():  # the integrals do not depend on where their nodes are
        x, deviation = _tilted_mode(likelihood, answer, weight, m, v, near)
        bend = getattr(likelihood, "bend", (0.0, 1.0 / getattr(likelihood, "scale", 1.0)))
        nodes, mass = _quadrature(x, deviation, v.sqrt(), bend, weight)
    log_density = likelihood.log_prob(nodes, answer, weight) - (nodes - m).square() / (2.0 * v)
    top = log_density.amax(0)
    density = mass * torch.exp(log_density - top)
    total = density.sum(0)
    density = density / total
    score, curvature, _ = likelihood.derivatives(nodes, answer, weight)
    slope, mean = (density * score).sum(0), (density * nodes).sum(0)
    spread = (density * (score - slope).square()).sum(0)
    return Moments(
        log_mass=top + total.log() - 0.5 * torch.log(2.0 * math.pi * v),
        mean=mean,
        variance=(density * (nodes - mean).square()).sum(0),
        slope=slope,
        bend=(density * curvature).sum(0) - spread,
        mode=x,
    )


def _tilted_mode(
    likelihood: BlockLikelihood, answer: Tensor, weight: Tensor, m: Tensor, v: Tensor, near: Tensor
) -> tuple[Tensor, Tensor]:
    """Modes, by Newton's method or bisection, and the standard deviations of Gaussians there."""
    score = likelihood.derivatives(m, answer, weight)[0]
    low, high = torch.minimum(m, m + v * score), torch.maximum(m, m + v * score)
    x = torch.minimum(torch.maximum(near, low), high)
    last = torch.full_like(x, torch.inf)
    for _ in range(_MODE_STEPS):
        score, curvature, _ = likelihood.derivatives(x, answer, weight)
        deviation = (curvature.clamp_min(0.0) + 1.0 / v).rsqrt()
        slope = score - (x - m) / v
        move = slope * deviation.square()
        done = move.abs() <= _MODE_TOLERANCE * deviation
        if bool(done.all()):
            break
        low, high = torch.where(slope > 0, x, low), torch.where(slope > 0, high, x)
        # Newton's method may go back and forth between the ends.
        good = (x + move > low) & (x + move < high) & (move.abs() < 0.5 * last.abs())
        last = torch.where(good, move, 0.5 * (low + high) - x)
        x = torch.where(done, x, x + last)
    return x, deviation


def _gaussian_moments(block: Block, m: Tensor, v: Tensor) -> Moments:
    """Those of values, in closed form."""
    zero = torch.zeros_like(m)
    shift, precision, _ = block.likelihood.derivatives(zero, block.answer, block.weight)
    constant = block.likelihood.log_prob(zero, block.answer, block.weight)
    total = 1.0 + precision * v
    mean = (m + v * shift) / total
    return Moments(
        log_mass=constant - _log_constants(m, v, precision, shift, zero),
        mean=mean,
        variance=v / total,
        slope=(mean - m) / v,
        bend=precision / total,
        mode=mean,
    )


def _quadrature(
    x: Tensor,
    deviation: Tensor,
    cavity: Tensor,
    bend: tuple[float | Tensor, float | Tensor],
    weight: Tensor,
) -> tuple[Tensor, Tensor]:
    r"""Nodes and their masses for the integral of a tilted distribution.

    The trapezoidal rule is exact to 1e-8 where the cavity is narrow beside the link; elsewhere
    Gauss-Legendre panels resolve the mode and the bend of the likelihood, which may be far apart.

    Args:
        x: ``... x m``-dim modes.
        deviation: ``... x m``-dim standard deviations of a Gaussian of the curvature there.
        cavity: ``... x m``-dim standard deviations of the cavities.
        bend: Around where, and within which unit, the likelihood bends.
        weight: ``... x m``-dim numbers of answers.

    Returns:
        ``k x ... x m``-dim nodes and masses.
    """
    centre, unit = bend
    narrow = (cavity <= _GRID_DEVIATION * unit) & (weight <= _GRID_WEIGHT)
    if cavity.device.type == "cpu" and bool((narrow & (deviation >= 0.35 * cavity)).all()):
        grid = torch.linspace(-_GRID_REACH, _GRID_REACH, _GRID_SIZE, dtype=x.dtype)
        nodes = x + cavity * grid.view(-1, *[1] * x.dim())
        return nodes, (cavity * (grid[1] - grid[0])).expand_as(nodes)
    inner = _AROUND_MODE[-1] * deviation
    far = torch.maximum(_REACH * cavity, inner)

    def column(values: Sequence[float]) -> Tensor:
        return x.new_tensor(values).view(-1, *[1] * x.dim())

    outer = column([k / _OUTER_PANELS for k in range(1, _OUTER_PANELS + 1)])
    offsets = torch.cat([column(_AROUND_MODE) * deviation, inner * (far / inner) ** outer])
    places = column(sorted({sign * place for place in _AROUND_ZERO for sign in (1, -1)}))
    bends = torch.clamp(centre + unit * places, x - far, x + far)
    edges = torch.cat([x.unsqueeze(0), x + offsets, x - offsets, bends])
    ordered = edges.sort(dim=0).values
    half, middle = 0.5 * ordered.diff(dim=0), 0.5 * (ordered[1:] + ordered[:-1])
    points, masses = (part.view(-1, *[1] * x.dim()) for part in _legendre(x.dtype, x.device))
    nodes = middle.unsqueeze(1) + half.unsqueeze(1) * points
    return nodes.flatten(0, 1), (half.unsqueeze(1) * masses).flatten(0, 1)


@lru_cache
@torch.inference_mode(False)  # what is kept serves where gradients are taken, too
def _legendre(dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Nodes and weights of Gauss and Legendre on ``[-1, 1]``, sent to a device once."""
    found = np.polynomial.legendre.leggauss(_NODES)
    points, masses = (torch.as_tensor(part).to(device=device, dtype=dtype) for part in found)
    return points, masses


def ep_evidence(
    system: System, *, start: Tensor | None = None
) -> tuple[Tensor, Sites | LaplaceMode]:
    r"""The log marginal likelihood by expectation propagation.

    It is Laplace's through inducing items, and where a likelihood is not log-concave, so that no
    site of positive precision need match it.

    Args:
        system: The prior and the observations.
        start: What a related evidence was found at; Laplace's mode by default.

    Returns:
        The ``...``-dim log evidence, differentiable with respect to the system's ``covariance``
        and ``prior_latent`` and the parameters of likelihoods, and the sites, or the mode.
    """
    if not (isinstance(system, ExactSystem) and system.observations.is_log_concave):
        return log_evidence(system, start=start)
    sites = find_sites(system, start=start)
    inputs = system.covariance, system.prior_latent, sites.log_evidence, sites.weights
    evidence: Tensor = Evidence.apply(*inputs, system.incidence, sites.factor, None)
    return evidence + _Rows(system.observations).slope_of_likelihoods(sites), sites


def ep_posterior(
    system: System, variance_weight: Tensor | None = None, *, start: Tensor | None = None
) -> LaplacePosterior:
    """The sites and what predictions need of them.

    As of :func:`~botorch_pref.inference.laplace.laplace_posterior`; without ``variance_weight`` the
    covariance uses the precisions of the sites, and ``start`` are those of related ones.
    """
    if isinstance(system, InducingSystem):
        system.refuse_gradient()
    system = _of_seen_choices(system)
    sites = find_sites(system, start=start)
    assert isinstance(system, InducingSystem | ExactSystem)  # there are no others
    with torch.no_grad():
        factor = sites.factor if variance_weight is None else system.factor(variance_weight)
    if isinstance(system, InducingSystem):
        system.forget()
        return LaplacePosterior(system, sites.weights, factor.gamma(), sites, factor)
    inputs = system.covariance, system.prior_latent, system, sites, variance_weight
    weights, gamma = _Posterior.apply(*inputs, factor)
    return LaplacePosterior(system, weights, gamma, sites, factor)


def _of_seen_choices(system: System) -> System:
    """The system in which a choice weighs as much as it is likely that it was not by chance.

    By chance, the factors of a choice are none. How likely that is, is found at Laplace's mode.
    """
    found, blocks = None, []
    for i, block in enumerate(system.observations.blocks):
        person = block.likelihood
        if isinstance(person, AnnotatedLikelihood) and block.latent_dim > 1:
            if found is None:
                with torch.no_grad():
                    found = system.observations.split(find_mode(system).latent)
            seen = person.seen(found[i], block.answer).detach()
            person = replace(person, lapse=torch.zeros_like(person.lapse))
            block = replace(block, weight=block.weight * seen, likelihood=person)
        blocks.append(block)
    if found is None:
        return system
    new = copy.copy(system)
    new.observations = Observations(blocks, system.observations.num_items)
    return new


class _Posterior(Function):
    """The gradient is that of a fixed point: of one more step, and of the sites it starts from."""

    @staticmethod
    def forward(
        ctx: Any,
        covariance: Tensor,
        prior_latent: Tensor,
        system: ExactSystem,
        sites: Sites,
        variance_weight: Tensor | None,
        factor: ExactFactor,
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(covariance, prior_latent)
        ctx.system, ctx.sites, ctx.variance_weight = system, sites, variance_weight
        return system.incidence.adjoint(sites.weights).clone(), factor.gamma()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives()
        with torch.enable_grad():
            inputs = [tensor.detach().requires_grad_() for tensor in ctx.saved_tensors]
            stacked = ctx.sites.stacked.requires_grad_()
            covariance, prior = inputs
            constants = stacked, ctx.sites, ctx.variance_weight
            outputs, matched = _step(ctx.system, covariance, prior, *constants)
            direct = grad(outputs, stacked, grads, retain_graph=True)[0]
            adjoint, step = direct, 1.0
            size = direct.abs().amax() * torch.finfo(direct.dtype).eps ** 0.5
            last = torch.inf
            for _ in range(_ADJOINT_STEPS):
                (carried,) = grad(matched, stacked, adjoint, retain_graph=True)
                change = direct + carried - adjoint
                largest = float(change.abs().amax())
                if largest <= size:
                    break
                step = min(_RECOVERY * step, 1.0) if largest < last else _DAMPING * step
                adjoint, last = adjoint + step * change, largest
            return (*grad([*outputs, matched], inputs, [*grads, adjoint]), None, None, None, None)


def _step(
    system: ExactSystem,
    covariance: Tensor,
    prior: Tensor,
    stacked: Tensor,
    sites: Sites,
    variance_weight: Tensor | None,
) -> tuple[list[Tensor], Tensor]:
    """The posterior of given sites and the sites that match it, in differentiable operations."""
    precision, shift = stacked.unbind(-2)
    incidence, rows = system.incidence, _Rows(system.observations)
    dual = incidence.rows(incidence.columns(covariance))
    unit = torch.eye(dual.shape[-1], dtype=dual.dtype, device=dual.device)
    # A root has no derivative at zero.
    curvature = rows.curvature(precision.clamp_min(torch.finfo(precision.dtype).tiny))
    weight = curvature.unscale(unit)
    # ``I + P W`` is well conditioned where its symmetric form is.
    solved = torch.linalg.solve(unit + dual @ weight, dual)
    weights = rows.total_shift(precision, shift) - matvec(weight, prior)
    weights = weights - matvec(weight, matvec(solved, weights))
    marginals = curvature.marginals_of(IdentityIncidence(), solved)
    mean, variance = rows.moments(precision, shift, prior + matvec(dual, weights), marginals)
    left = 1.0 - precision * variance
    m, v = (mean - variance * shift) / left, variance / left
    matched = torch.stack(_matching_sites(m, v, rows.tilted(m, v, sites.mode)), dim=-2)
    if variance_weight is not None:
        weight = torch.diag_embed(variance_weight.expand_as(precision))
        solved = torch.linalg.solve(unit + dual @ weight, dual)
    gamma = weight - weight @ solved @ weight
    dense = incidence.dense(dual)
    return [incidence.adjoint(weights), dense.mT @ gamma @ dense], matched
