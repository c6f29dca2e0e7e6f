r"""Likelihoods of answers: links, of people, of grades, the choice of the best, measured values.

Notation: ``h`` difference, ``mu`` link, ``g = log mu``, ``y`` answer, ``w`` weight (how often
the question was so answered). Links are elementwise, with answers in ``[0, 1]``. Nothing is
clamped, and every value stays finite for finite latent values.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from numbers import Real
from typing import Any, Self

import numpy as np
import torch
from botorch.exceptions.errors import InputDataError
from torch import Tensor
from torch.nn import Module
from torch.nn.functional import logsigmoid, one_hot

from botorch_pref.exceptions import UnsupportedError

__all__ = [
    "AnnotatedLikelihood",
    "BernoulliLikelihood",
    "IntervalLikelihood",
    "LogitLikelihood",
    "ProbitLikelihood",
    "RowLikelihood",
    "SoftmaxLikelihood",
    "StandardNormal",
    "link_of",
]

_GAUSS_HERMITE_NODES = 32
_WIDE = 0.7  # standard deviations, in units of the link, above which a Gaussian is wide
_SERIES_START = 12.0  # below minus this, Mills' ratio comes from its series
# Its coefficients, which r' = r (r - t) fixes.
_SERIES = (
    *(1, -2, 10, -74, 706, -8162, 110410, -1708394, 29752066, -576037442),
    *(12277827850, -285764591114, 7213364729026),
)


class ScaledLikelihood(Module):
    """A likelihood of answers, which are compared at ``scale`` times the utility.

    The scale is a constant of the likelihood, not a parameter: in a model the output
    scale of the kernel is the only scale that is learnt, unless values are measured too.

    Args:
        scale: What utilities are multiplied by, from 1e-100 to 1e100.

    Raises:
        InputDataError: If ``scale`` is no such number.
    """

    has_bounded_score = True

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        given: Any = scale
        is_number = isinstance(given, Real)
        if not is_number or not 1e-100 <= given <= 1e100:
            raise InputDataError(
                f"`scale` must be a positive number, 1e-100 to 1e100, got {scale!r}."
            )
        self.scale = float(scale)

    def extra_repr(self) -> str:
        """The scale, for ``repr``."""
        return f"scale={self.scale:g}"


class BernoulliLikelihood(ScaledLikelihood, ABC):
    r"""``P(first wins) = mu(h)`` with ``mu(h) = link(scale * h)``, ``mu(-h) = 1 - mu(h)``.

    A link is a subclass with the three abstract methods below; its density is to be log-concave.
    """

    def forward(self, difference: Tensor) -> Tensor:
        """``mu(h)``, the probability that the first item wins."""
        return self._link(self.scale * difference)

    def log_cdf(self, difference: Tensor) -> Tensor:
        """``g(h) = log mu(h)``."""
        return self._log_link(_times(self.scale, difference))

    def log_cdf_derivatives(self, difference: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """``g'(h), g''(h), g'''(h)``, with respect to the unscaled difference."""
        first, second, third = self._log_link_derivatives(self.scale * difference)
        return self.scale * first, self.scale**2 * second, self.scale**3 * third

    def log_prob(self, difference: Tensor, answer: Tensor, weight: Tensor | float = 1.0) -> Tensor:
        """``w [y g(h) + (1 - y) g(-h)]``, of any shape.

        Args:
            difference: Differences.
            answer: Answers in ``[0, 1]``; 0.5 is half a win for each item.
            weight: Weights, or one for all.
        """
        wins = answer * self.log_cdf(difference)
        return weight * (wins + (1.0 - answer) * self.log_cdf(-difference))

    def derivatives(
        self, difference: Tensor, answer: Tensor, weight: Tensor | float = 1.0
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Derivatives of :meth:`log_prob` in ``h``, for the same arguments.

        Returns:
            The score, the curvature, *minus* the second derivative (never negative), and the third.
        """
        won1, won2, won3 = self.log_cdf_derivatives(difference)
        lost1, lost2, lost3 = self.log_cdf_derivatives(-difference)
        loss = 1.0 - answer
        score = weight * (answer * won1 - loss * lost1)
        curvature = -weight * (answer * won2 + loss * lost2)
        return score, curvature, weight * (answer * won3 - loss * lost3)

    def log_interval(self, upper: Tensor, lower: Tensor) -> Tensor:
        """``log(mu(upper) - mu(lower))``, for ``upper > lower``."""
        # Of the two tails in which a probability is small, that one which is nearer.
        flip = upper + lower > 0
        high, low = torch.where(flip, -lower, upper), torch.where(flip, -upper, lower)
        top = self.log_cdf(high)
        return top + _log_one_minus_exp(top - self.log_cdf(low))

    def log_interval_derivatives(
        self, upper: Tensor, lower: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Three derivatives of :meth:`log_interval`, where both arguments move together."""
        flip = upper + lower > 0
        high, low = torch.where(flip, -lower, upper), torch.where(flip, -upper, lower)
        gap = self.log_cdf(high) - self.log_cdf(low)
        below = torch.exp(-gap) / -torch.expm1(-gap)  # mu(low), in units of the mass between
        parts = []
        for value in (high, low):
            first, second, third = self.log_cdf_derivatives(value)
            third = third + 3.0 * first * second + first**3
            parts.append((first, second + first.square(), third))  # of mu, in units of mu
        one, two, three = (top + below * (top - end) for top, end in zip(*parts, strict=True))
        sign = torch.where(flip, -1.0, 1.0).to(one)
        second, third = two - one.square(), three - 3.0 * one * two + 2.0 * one**3
        return sign * one, second, sign * third

    def expected_probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        """``E[mu(h)]`` for ``h ~ N(mean, variance)``, of any shape.

        To 1e-8 for a smooth link about as wide as the logit; variances are not negative.
        """
        # A probit close to a logit is averaged in closed form. What is left is small, smooth
        # and local: a Gauss-Hermite rule serves a narrow Gaussian, the trapezoidal
        # rule over the link's own width (exponentially accurate) a wide one.
        # The floor keeps the gradient finite where items coincide.
        mean, deviation = self.scale * mean, self.scale * variance.clamp_min(1e-20).sqrt()
        match = math.pi / 8
        probit = _normal_cdf(mean * math.sqrt(match) / (1 + match * deviation**2).sqrt())

        def rest(value: Tensor) -> Tensor:
            return self._link(value) - _normal_cdf(math.sqrt(match) * value)

        nodes, weights = _gauss_hermite(mean.dtype, mean.device)
        points = mean.unsqueeze(-1) + deviation.unsqueeze(-1) * nodes
        narrow = (rest(points) * weights).sum(-1)
        wide_deviation = deviation.clamp_min(_WIDE)
        grid = torch.arange(-76, 77, dtype=mean.dtype, device=mean.device) / 2
        z = (grid - mean.unsqueeze(-1)) / wide_deviation.unsqueeze(-1)
        density = torch.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
        wide = (rest(grid) * density).sum(-1) / (2 * wide_deviation)
        return probit + torch.where(deviation < _WIDE, narrow, wide)

    @abstractmethod
    def _link(self, value: Tensor) -> Tensor:
        """The link at unit scale."""

    @abstractmethod
    def _log_link(self, value: Tensor) -> Tensor:
        """The logarithm of the link at unit scale."""

    @abstractmethod
    def _log_link_derivatives(self, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Three derivatives of the log link at unit scale."""


class LogitLikelihood(BernoulliLikelihood):
    r"""Bradley-Terry-Luce: ``mu(h) = 1 / (1 + exp(-scale * h))``."""

    def log_prob(self, difference: Tensor, answer: Tensor, weight: Tensor | float = 1.0) -> Tensor:
        # One logarithm for both: g(-h) = g(h) - h.
        value = _times(self.scale, torch.where(answer < 0.5, -difference, difference))
        return weight * (logsigmoid(value) - torch.minimum(answer, 1.0 - answer) * value)

    def derivatives(
        self, difference: Tensor, answer: Tensor, weight: Tensor | float = 1.0
    ) -> tuple[Tensor, Tensor, Tensor]:
        # The curvature does not depend on the answer.
        value = _times(self.scale, difference)
        won, lost = torch.sigmoid(value), torch.sigmoid(-value)
        score = weight * _times(self.scale, answer * lost - (1.0 - answer) * won)
        curvature = weight * _times(self.scale**2, won * lost)
        return score, curvature, curvature * _times(self.scale, won - lost)

    def log_interval(self, upper: Tensor, lower: Tensor) -> Tensor:
        # mu(a) - mu(b) = mu(a) mu(-b) (1 - exp(b - a))
        width = _log_one_minus_exp(_times(self.scale, upper - lower))
        return self.log_cdf(upper) + self.log_cdf(-lower) + width

    def log_interval_derivatives(
        self, upper: Tensor, lower: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        won, lost = self.log_cdf_derivatives(upper), self.log_cdf_derivatives(-lower)
        return won[0] - lost[0], won[1] + lost[1], won[2] - lost[2]

    def _link(self, value: Tensor) -> Tensor:
        return torch.sigmoid(value)

    def _log_link(self, value: Tensor) -> Tensor:
        return logsigmoid(value)

    def _log_link_derivatives(self, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        lost = torch.sigmoid(-value)
        curvature = torch.sigmoid(value) * lost
        return lost, -curvature, curvature * torch.tanh(value / 2)


class ProbitLikelihood(BernoulliLikelihood):
    r"""Thurstone: ``mu(h) = Phi(scale * h)``; BoTorch's probit has scale ``2 ** -0.5``."""

    def expected_probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        return _normal_cdf(self.scale * mean / (1 + self.scale**2 * variance).sqrt())

    def _link(self, value: Tensor) -> Tensor:
        return _normal_cdf(value)

    def _log_link(self, value: Tensor) -> Tensor:
        return torch.special.log_ndtr(value)

    def _log_link_derivatives(self, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        # With r = phi / Phi: g' = r, g'' = -r (z + r), g''' = r ((z + r)(z + 2r) - 1).
        # The two bracketed sums cancel in the lower tail, where r ~ -z.
        ratio = _mills(value)
        excess = value + ratio
        second = -ratio * excess
        third = ratio * (excess * (excess + ratio) - 1.0)
        tail = value < -_SERIES_START
        series = _mills_series(torch.where(tail, -value, _SERIES_START))
        return (
            torch.where(tail, series[0], ratio),
            torch.where(tail, series[1], second),
            torch.where(tail, series[2], third),
        )


@dataclass(frozen=True, eq=False)
class RowLikelihood(ABC):
    r"""A likelihood with parameters of its own for each observation, as a rule of one latent value.

    Args:
        link: The link, at whose scale latent values are compared.
    """

    link: BernoulliLikelihood

    has_bounded_score = True
    is_log_concave = True

    @property
    def scale(self) -> float:
        """The scale of the link."""
        return self.link.scale

    @property
    def parameters(self) -> dict[str, Tensor]:
        """The ``... x m``-dim tensors of parameters, by their names."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in found.items() if isinstance(value, Tensor)}

    @property
    def is_learnt(self) -> bool:
        """Whether a parameter requires a gradient."""
        return any(value.requires_grad for value in self.parameters.values())

    def select(self, elements: Tensor | slice | int) -> Self:
        """Some elements of the first dimension, of the batch or else of the observations."""
        own: dict[str, Any] = {name: value[elements] for name, value in self.parameters.items()}
        return replace(self, **own)

    @abstractmethod
    def log_prob(self, latent: Tensor, answer: Tensor, weight: Tensor) -> Tensor:
        """The log probabilities of the answers, ``... x m``-dim as all arguments."""

    @abstractmethod
    def derivatives(
        self, latent: Tensor, answer: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The first derivative of :meth:`log_prob`, minus the second, and the third."""


@dataclass(frozen=True, eq=False)
class IntervalLikelihood(RowLikelihood):
    r"""``P = mu(h - lower) - mu(h - upper)``: the latent value, with noise, is between two bounds.

    Ordered answers have bounds that adjoin (McCullagh 1980). With the logit and one interval
    around 0 for "no preference" this is the model of Rao and Kupper (1967). Log-concave.

    Args:
        link: The link.
        lower: ``... x m``-dim lower bounds.
        upper: ``... x m``-dim upper bounds, larger.
    """

    lower: Tensor
    upper: Tensor

    def log_prob(self, latent: Tensor, answer: Tensor, weight: Tensor) -> Tensor:
        """See the base class; the bounds are of the answers, which are not looked at."""
        return weight * self.link.log_interval(latent - self.lower, latent - self.upper)

    def derivatives(
        self, latent: Tensor, answer: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        bounds = latent - self.lower, latent - self.upper
        first, second, third = self.link.log_interval_derivatives(*bounds)
        return weight * first, weight * (-second).clamp_min(0.0), weight * third


@dataclass(frozen=True, eq=False)
class AnnotatedLikelihood(RowLikelihood):
    r"""``P = (1 - lapse) p(reliability h + offset) + lapse / num_answers``.

    What one person answers to any question, where ``p`` is the probability of the answer: some have
    larger differences beside their noise, some prefer what stands first, and some answers are given
    without looking. A lapse bounds how surprising an answer can be, so that the likelihood is
    log-concave only without one.

    Args:
        link: ``p``: a link, of answers in ``[0, 1]`` to duels, or the likelihood of another answer.
        reliability: ``... x m``-dim, positive.
        offset: What the first item has more than the others, in units of the link: ``... x m``-dim,
            or ``... x m x r``-dim where there are several latent values.
        lapse: ``... x m``-dim probabilities of an answer by chance, less than 1.
        num_answers: How many answers there are to a question.
    """

    link: Any
    reliability: Tensor
    offset: Tensor
    lapse: Tensor
    num_answers: int = 2

    is_log_concave = False

    @property
    def bend(self) -> tuple[Tensor, Tensor]:
        """Where one latent value is 0 to the person, and within which unit ``p`` changes."""
        return -self.offset / self.reliability, 1.0 / (self.scale * self.reliability)

    @property
    def is_learnt(self) -> bool:
        return super().is_learnt or getattr(self.link, "is_learnt", False)

    def select(self, elements: Tensor | slice | int) -> Self:
        link = self.link.select(elements) if isinstance(self.link, RowLikelihood) else self.link
        return replace(super().select(elements), link=link)

    def log_prob(self, latent: Tensor, answer: Tensor, weight: Tensor) -> Tensor:
        """See the base class; of choices latent values are ``... x m x r``-dim."""
        value = self._value(latent)
        if isinstance(self.link, BernoulliLikelihood):
            won, lost = (self._mixed(self.link.log_cdf(side)) for side in (value, -value))
            return weight * (answer * won + (1.0 - answer) * lost)
        own = self.link.log_prob(value, answer, torch.ones_like(answer))
        return weight * self._mixed(own)

    def derivatives(
        self, latent: Tensor, answer: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        value, size = self._value(latent), self.reliability
        if isinstance(self.link, SoftmaxLikelihood):
            parts = _Choice(self.scale * value, answer, self)
            unit = (self.scale * size).unsqueeze(-1)
            heavy = weight.unsqueeze(-1)
            return (
                unit * heavy * parts.score,
                (unit * heavy.sqrt()).unsqueeze(-1) * parts.root,
                (unit**3 * heavy)[..., None, None] * parts.third,
            )
        if isinstance(self.link, BernoulliLikelihood):
            won, lost = map(self._mixture_of_duel, (value, -value))
            loss = 1.0 - answer
            first = answer * won[0] - loss * lost[0]
            second = answer * won[1] + loss * lost[1]
            third = answer * won[2] - loss * lost[2]
        else:
            one = torch.ones_like(answer)
            slope, curvature, bend = self.link.derivatives(value, answer, one)
            log_p = self.link.log_prob(value, answer, one)
            first, second, third = self._mixture(log_p, slope, -curvature, bend)
        return weight * size * first, -weight * size.square() * second, weight * size**3 * third

    def excess(self, latent: Tensor, answer: Tensor, weight: Tensor) -> Tensor:
        """``... x m x r``-dim ``e`` of choices: curvatures less ``e e^T`` are minus the Hessian."""
        parts = _Choice(self.scale * self._value(latent), answer, self)
        return (self.scale * self.reliability * weight.sqrt()).unsqueeze(-1) * parts.excess

    def expected_probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        """``E[P(first wins)]`` of a duel for ``h ~ N(mean, variance)``."""
        mean, variance = self.reliability * mean + self.offset, self.reliability**2 * variance
        seen = self.link.expected_probability(mean, variance)
        return (1.0 - self.lapse) * seen + self.lapse / self.num_answers

    def seen(self, latent: Tensor, answer: Tensor) -> Tensor:
        """``... x m``-dim probabilities that an answer to a choice was not by chance."""
        one = torch.ones_like(answer)
        return self.share(self.link.log_prob(self._value(latent), answer, one))

    def share(self, log_p: Tensor) -> Tensor:
        """The share that is not by chance of the probability of an answer."""
        return torch.sigmoid(torch.log1p(-self.lapse) + log_p - self._log_chance)

    @property
    def _log_chance(self) -> Tensor:
        return (self.lapse / self.num_answers).log()

    def _value(self, latent: Tensor) -> Tensor:
        several = isinstance(self.link, SoftmaxLikelihood)
        size = self.reliability.unsqueeze(-1) if several else self.reliability
        return size * latent + self.offset

    def _mixed(self, log_p: Tensor) -> Tensor:
        return torch.logaddexp(torch.log1p(-self.lapse) + log_p, self._log_chance)

    def _mixture_of_duel(self, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self._mixture(self.link.log_cdf(value), *self.link.log_cdf_derivatives(value))

    def _mixture(
        self, log_p: Tensor, first: Tensor, second: Tensor, third: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Three derivatives of the log of ``(1 - lapse) p + lapse / num_answers``."""
        share = self.share(log_p)
        other = 1.0 - share
        mixed = 3.0 * first * second + (other - share) * first**3
        return (
            share * first,
            share * (second + other * first.square()),
            share * (third + other * mixed),
        )


class _Choice:
    r"""The derivatives of one person's choice ``c`` in the scaled utilities.

    With probabilities ``p`` of all items and ``q`` of those that were not chosen, ``u = e_c - p``,
    ``v = e_c - q`` and the share ``s`` that is not by chance, minus the Hessian is

        A (diag(q) - q q^T) + A b v v^T,  A = s (1 - p_c),  b = p_c - (1 - s) (1 - p_c)

    in which ``b`` below zero counts as zero: a choice that is surprising is taken for chance.

    Args:
        value: ``... x m x r``-dim scaled utilities.
        answer: ``... x m``-dim positions of the chosen items.
        person: Whose lapses they are.
    """

    def __init__(self, value: Tensor, answer: Tensor, person: AnnotatedLikelihood) -> None:
        self.unit = torch.eye(value.shape[-1], dtype=value.dtype, device=value.device)
        self.chosen = one_hot(answer.long(), value.shape[-1]).to(value)
        log_p = value.log_softmax(-1)
        self.p, rest = log_p.exp(), 1.0 - self.chosen
        self.q = value.masked_fill(self.chosen > 0, -torch.inf).softmax(-1)
        self.other = (rest * self.p).sum(-1, keepdim=True)
        own = (self.chosen * log_p).sum(-1, keepdim=True)
        self.p_c, self.s = own.exp(), person.share(own.squeeze(-1)).unsqueeze(-1)
        self.size = self.s * self.other
        self.raw = self.p_c - (1.0 - self.s) * self.other

    @property
    def score(self) -> Tensor:
        """The first derivatives."""
        return self.s * (self.chosen - self.p)

    @property
    def root(self) -> Tensor:
        """A root of the curvature."""
        # Not zero, where the gradient of a root is infinite.
        kept = self.raw.clamp_min(torch.finfo(self.p.dtype).tiny)
        weight = self.chosen * self.size * kept + (1.0 - self.chosen) * self.s * self.p
        return self._rows * weight.clamp_min(torch.finfo(self.p.dtype).tiny).sqrt().unsqueeze(-2)

    @property
    def excess(self) -> Tensor:
        """The vector whose square the curvature exceeds minus the Hessian by."""
        return (self.size * (-self.raw).clamp_min(0.0)).sqrt() * (self.chosen - self.q)

    @property
    def third(self) -> Tensor:
        """Minus the derivatives of the curvature, in the first index."""
        s, other, rows, q = self.s, self.other, self._rows, self.q
        u, v = self.chosen - self.p, self.chosen - q
        b, is_kept = self.raw.clamp_min(0.0), (self.raw > 0).to(q)
        spread = torch.diag_embed(q) - q.unsqueeze(-1) * q.unsqueeze(-2)
        size_by = (self.size * (1.0 - s) - s * self.p_c) * u
        b_by = is_kept * (self.p_c + s * (1.0 - s) * other + (1.0 - s) * self.p_c) * u
        square = v.unsqueeze(-1) * v.unsqueeze(-2)
        cross = spread.unsqueeze(-1) * v[..., None, None, :]
        turned = torch.einsum("...aj,...bj,...cj,...j->...abc", rows, rows, rows, q)
        inner = turned - b[..., None, None] * (cross + cross.mT)
        inner = inner + b_by[..., None, None] * square.unsqueeze(-3)
        outer = spread + b.unsqueeze(-1) * square
        return -(
            size_by[..., None, None] * outer.unsqueeze(-3) + self.size[..., None, None] * inner
        )

    @property
    def _rows(self) -> Tensor:
        return self.unit - self.q.unsqueeze(-1)


class SoftmaxLikelihood(ScaledLikelihood):
    r"""``P(item a is chosen of r) = exp(scale f_a) / sum_b exp(scale f_b)``.

    The multinomial logit of Luce (1959), and Xu et al. (2024), eq. (99). Of two items it is the
    link of :class:`LogitLikelihood`.
    """

    def forward(self, utilities: Tensor) -> Tensor:
        """The ``... x r``-dim probabilities of the items of a question."""
        return (self.scale * utilities).softmax(-1)

    def log_prob(self, latent: Tensor, answer: Tensor, weight: Tensor | float = 1.0) -> Tensor:
        """The ``... x m``-dim log probabilities of the choices.

        Args:
            latent: ``... x m x r``-dim utilities of the items of each question.
            answer: ``... x m``-dim positions, from 0, of the items that were chosen.
            weight: ``... x m``-dim weights, or one for all.
        """
        chosen = one_hot(answer.long(), latent.shape[-1]).to(latent)
        return weight * (chosen * (self.scale * latent).log_softmax(-1)).sum(-1)

    def derivatives(
        self, latent: Tensor, answer: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        r"""Score, a root of the curvature, and third derivatives of :meth:`log_prob`.

        With probabilities ``p`` the curvature is ``diag(p) - p p^T``, of which
        ``(I - p 1^T) diag(p)^1/2`` is a root.

        Returns:
            ``... x m x r``, ``... x m x r x r`` and ``... x m x r x r x r``-dim.
        """
        p, weight = self(latent), weight.unsqueeze(-1)
        unit = torch.eye(p.shape[-1], dtype=p.dtype, device=p.device)
        chosen = one_hot(answer.long(), p.shape[-1]).to(p)
        score = self.scale * weight * (chosen - p)
        rows = unit - p.unsqueeze(-1)
        root = self.scale * weight.sqrt().unsqueeze(-1) * rows * p.sqrt().unsqueeze(-2)
        # Minus the third cumulant of one draw: sum_j p_j (e_j - p) (x) (e_j - p) (x) (e_j - p).
        third = -torch.einsum("...aj,...bj,...cj,...j->...abc", rows, rows, rows, p)
        return score, root, self.scale**3 * weight[..., None, None] * third


class StandardNormal:
    """Values whose latent value is a residual in units of the noise; its score has no bound."""

    has_bounded_score = False

    def log_prob(self, latent: Tensor, answer: Tensor, weight: Tensor) -> Tensor:
        """The log densities; an answer is what its residual is measured from."""
        return weight * (-0.5 * (latent - answer).square() - 0.5 * math.log(2 * math.pi))

    def derivatives(
        self, latent: Tensor, answer: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The first derivative, minus the second, and the third."""
        return weight * (answer - latent), weight.expand_as(latent), torch.zeros_like(latent)


def _log_one_minus_exp(value: Tensor) -> Tensor:
    """``log(1 - exp(-value))`` for a positive value, with all its digits."""
    return torch.where(value < 0.7, (-torch.expm1(-value)).log(), torch.log1p(-torch.exp(-value)))


def _times(factor: float, value: Tensor) -> Tensor:
    """Their product; a factor of one, which is the usual one, costs nothing."""
    return value if factor == 1.0 else factor * value


def _normal_cdf(value: Tensor) -> Tensor:
    """``Phi(z)``; unlike ``torch.special.ndtr`` with all its digits in the lower tail."""
    return 0.5 * torch.special.erfc(-value / math.sqrt(2))


def _mills(value: Tensor) -> Tensor:
    """``phi(z) / Phi(z)``, to rounding for every ``z``."""
    lower = math.sqrt(2 / math.pi) / torch.special.erfcx(-value.clamp_max(0.0) / math.sqrt(2))
    upper = value.clamp_min(0.0)
    density = torch.exp(-(upper**2) / 2) / math.sqrt(2 * math.pi)
    return torch.where(value < 0, lower, density / _normal_cdf(upper))


def _mills_series(t: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    r"""``g', g'', g'''`` at ``z = -t`` from ``r(t) = t + sum_k c_k t^-(2k+1)``."""
    inverse_square = t**-2
    first, second, third = (torch.zeros_like(t) for _ in range(3))
    for k, c in reversed(list(enumerate(_SERIES))):
        order = 2 * k + 1
        first = first * inverse_square + c
        second = second * inverse_square - c * order
        third = third * inverse_square + c * order * (order + 1)
    return t + first / t, -(1.0 + second * inverse_square), third / t**3


@lru_cache
@torch.inference_mode(False)  # what is kept serves where gradients are taken, too
def _gauss_hermite(dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Nodes and weights for the expectation under a standard normal, sent to a device once."""
    x, w = np.polynomial.hermite_e.hermegauss(_GAUSS_HERMITE_NODES)
    nodes, weights = (torch.tensor(v, dtype=dtype, device=device) for v in (x, w / w.sum()))
    return nodes, weights


def known_link(likelihood: object) -> BernoulliLikelihood | None:
    """The link of this package that equals a likelihood of this package or BoTorch's; else None."""
    # By name, as this module is to import no model of BoTorch.
    names = {parent.__name__ for parent in type(likelihood).__mro__}
    if "PairwiseLogitLikelihood" in names:
        return LogitLikelihood()
    if "PairwiseProbitLikelihood" in names:
        return ProbitLikelihood(scale=2**-0.5)
    return likelihood if isinstance(likelihood, BernoulliLikelihood) else None


def checked_link(likelihood: Module | None) -> BernoulliLikelihood:
    r"""A model's argument ``likelihood`` as a link of this package; logit by default.

    Raises:
        UnsupportedError: If it has no known link.
    """
    link = LogitLikelihood() if likelihood is None else known_link(likelihood)
    if link is None:
        raise UnsupportedError(
            "`likelihood` must be one of botorch_pref or one of BoTorch's pairwise ones, not "
            f"{type(likelihood).__name__}."
        )
    return link


def link_of(model: Module) -> BernoulliLikelihood:
    r"""The link that a model was fitted with, as a likelihood of this package.

    Raises:
        UnsupportedError: If the model's ``likelihood`` is neither one of this package nor one of
            BoTorch's two pairwise ones.
    """
    if isinstance(own := getattr(model, "link", None), BernoulliLikelihood):
        return own
    found = getattr(model, "likelihood", None)
    if (link := known_link(found)) is not None:
        return link
    raise UnsupportedError(
        f"{type(found).__name__} of {type(model).__name__} has no known link: fit a model with, "
        "for instance, LogitLikelihood()."
    )
