r"""Likelihood-ratio confidence sets over a norm ball, and bounds of linear functions on them.

Notation: ``n`` items with utilities ``f = R u``, where ``K = R R^T`` is their prior covariance,
``R: n x r`` its root in its numerical rank, and ``|u|`` the norm of the smallest function through
``f``; ``eta = H f: m`` the answers' latent values (differences for duels, utilities for labels)
and ``ell`` their log likelihood. A function value off the items is ``a^T u + s w``, where ``w`` is
the part of the function that is orthogonal to all items. The confidence set of Xu et al. (2024),
eq. (9),

``C = {(u, w): |u|^2 + w^2 <= B^2, ell(u) >= ell_MLE - slack}``,

does not depend on the point, only ``(a, s)`` do. So ``max g^T u + s w`` over ``C``, which is
their problem (24), has the gradient ``(u*, w*)`` in ``(g, s)``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from botorch_pref.data.options import endless_from_json, endless_to_json, plain
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.inference.observations import Observations, matvec
from botorch_pref.inference.systems import keep_pages, solve_vector
from botorch_pref.likelihood_ratio.interior_point import (
    MAX_STEPS,
    Barrier,
    InteriorPoint,
    Program,
    solve,
)

SCREENING = 1e-4
"""The tolerance of bounds that are only ranked."""
FINAL = 1e-9
"""The tolerance of bounds that are reported."""
FLOOR = 1e-12  # of a squared coefficient: it keeps the slope of the root finite at an item

_FINEST = 1e-13  # of the largest value in the ball: the smallest gap above rounding
_LEAST_SLACK = 1e-9  # of the ellipsoid


@dataclass(frozen=True)
class SqrtSlack:
    r"""``scale sqrt(t + offset)`` after ``t`` answers, times ``kappa B`` if wanted.

    Xu et al. (2024), App. P, with the scale 1. Their scale is ``beta_0``. It is no confidence
    bound: under the true kernel and norm the set contained the truth in about 7 runs of 10 up
    to 40 random duels, and with twice the slack in nearly all.

    Args:
        scale: The slack of one answer, at least 0.
        offset: What is added to the number of answers.
        times_bound: Whether the slack is proportional to ``kappa B``, the bound on the values of
            all functions of the ball.
    """

    rule: ClassVar[str] = "sqrt"

    scale: float = 1.0
    offset: float = 0.0
    times_bound: bool = False

    def __call__(self, num_answers: int, value_bound: float) -> float:
        """The slack, at least 0."""
        slack = self.scale * math.sqrt(num_answers + self.offset)
        return slack * value_bound if self.times_bound else slack


@dataclass(frozen=True)
class ConstantSlack:
    r"""The same slack for any number of answers, as in Figure 1 of Xu et al. (2024).

    Args:
        value: The slack, at least 0.
    """

    rule: ClassVar[str] = "constant"

    value: float = 1.0

    def __call__(self, num_answers: int, value_bound: float) -> float:
        """The slack, at least 0."""
        return float(self.value)


SlackRule = SqrtSlack | ConstantSlack


def slack_rule(slack: float | str | Mapping[str, Any] | SlackRule) -> SlackRule:
    r"""The slack rule of an argument.

    Args:
        slack: A number, at least 0, for a constant slack; ``"sqrt"`` or ``"constant"`` for a rule
            with its defaults; a mapping of ``"rule"`` and its options; or a rule.

    Raises:
        ComparisonDataError: If it is none of these, or an option is out of range.
    """
    if isinstance(slack, SlackRule):
        return slack
    options: Mapping[str, Any] = {}
    if isinstance(slack, str):
        options = {"rule": slack}
    elif isinstance(slack, Mapping):
        options = slack
    elif isinstance(value := plain(slack), int | float) and not isinstance(value, bool):
        options = {"rule": "constant", "value": value}
    options = endless_from_json(options)
    kinds = {kind.rule: kind for kind in (SqrtSlack, ConstantSlack)}
    try:
        rule: SlackRule = kinds[options.pop("rule", "")](**options)
        valid = rule(0, 1.0) >= 0.0 and rule(1, 1.0) >= 0.0
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise ComparisonDataError(
            f"`slack` must be a number, one of {', '.join(kinds)}, a mapping of that `rule` and "
            f"its options, or a rule, not {slack!r}."
        ) from error
    if not valid:
        raise ComparisonDataError(f"`slack` must be at least 0, but {rule!r} is not.")
    return rule


def slack_to_json(rule: SlackRule) -> dict[str, Any]:
    r"""A rule as the mapping that :func:`slack_rule` reads."""
    return endless_to_json({"rule": rule.rule, **asdict(rule)})


class Whitening(NamedTuple):
    r"""A root of a covariance and its inverse on the range.

    Attributes:
        root: ``n x r``-dim ``R`` with ``R R^T = K`` up to the cutoff.
        inverse: ``r x n``-dim pseudo-inverse of ``R``.
    """

    root: Tensor
    inverse: Tensor

    def split(self, cross: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        r"""A point's coefficients: ``f(x) = a^T u + s w``, with ``|w|`` a norm of its own.

        Args:
            cross: ``... x n``-dim prior covariance of the points with the items.
            variance: ``...``-dim prior variance of the points.

        Returns:
            ``... x r``-dim ``a`` and ``...``-dim ``s``; Xu et al. (2024), eq. (98).
        """
        coordinates = cross @ self.inverse.T
        left = variance - coordinates.square().sum(-1)
        return coordinates, left.clamp_min(FLOOR).sqrt()


def whiten(covariance: Tensor, *, cutoff: float = 1e-10) -> Whitening:
    r"""Whiten a prior covariance in its numerical rank.

    Args:
        covariance: ``n x n``-dim positive semi-definite matrix; jitter, if any, is in it.
        cutoff: Eigenvalues below this share of the largest are left out.

    Returns:
        The root and its inverse, in float64.
    """
    values, vectors = torch.linalg.eigh(covariance.detach().double())
    kept = values > cutoff * values.amax(dim=-1, keepdim=True).clamp_min(0.0) if len(values) else []
    scale, vectors = values[kept].sqrt(), vectors[:, kept]
    return Whitening(vectors * scale, (vectors / scale).T)


class MaximumLikelihood(NamedTuple):
    r"""The maximum likelihood in the ball, Xu et al. (2024), eq. (8) and (22).

    Attributes:
        coordinates: ``r``-dim ``u``; of all maximisers the one of the smallest norm.
        log_likelihood: 0-dim log likelihood there.
        converged: 0-dim boolean: whether it is certified to be within rounding of the maximum.
    """

    coordinates: Tensor
    log_likelihood: Tensor
    converged: Tensor


class Bound(NamedTuple):
    r"""A bound over the set, one an element.

    Attributes:
        value: ``...``-dim bounds, attained in the set: never wider than the exact bound.
            Differentiable once in ``g`` and ``s``.
        coordinates: ``... x r``-dim ``u*``.
        beyond: ``...``-dim ``w*``.
        gap: ``...``-dim certified distance to the exact bound, and 0 where the value is enough.
        converged: ``...``-dim booleans: whether the gap is within the tolerance.
        num_steps: ``...``-dim number of Newton steps.
    """

    value: Tensor
    coordinates: Tensor
    beyond: Tensor
    gap: Tensor
    converged: Tensor
    num_steps: Tensor


class ConfidenceSet:
    r"""``{(u, w): |u|^2 + w^2 <= B^2, ell(u) >= ell_MLE - slack}``, within the box if any.

    Xu et al. (2024), eq. (9); their ``beta_1`` is the slack.

    Args:
        root: ``n x r``-dim ``R``, as of :func:`~botorch_pref.likelihood_ratio.whiten`.
        observations: The answers to the items, unbatched; None where there are none.
        norm_bound: ``B``, in the units of the utilities over those of ``R``.
        slack: By how much a function may be below the maximal log likelihood; 0 to infinity,
            which it is where there are no answers.
        box: The largest absolute utility of the items; None for no such bound.

    Attributes:
        mle: The maximum likelihood in the ball and the box.
    """

    def __init__(
        self,
        root: Tensor,
        observations: Observations | None,
        *,
        norm_bound: float,
        slack: float = math.inf,
        box: float | None = None,
    ) -> None:
        keep_pages()  # of a step's matrices
        self.root = root.detach().double()
        self.observations = observations
        self.norm_bound, self.box = norm_bound, box
        self.slack = math.inf if observations is None else float(slack)
        seen = [] if observations is None else [observations.incidence.rows(self.root)]
        bounded = self.root[:0] if box is None else self.root
        # Points of the solver are (u, w) / B, and answers do not depend on w.
        rows = norm_bound * pad(torch.cat([*seen, bounded]), (0, 1))
        self._program = Program(observations, rows, box, weight=1.0)
        self.mle = self._maximum_likelihood()
        level = self.mle.log_likelihood - self.slack if math.isfinite(self.slack) else None
        self._program = replace(self._program, level=level, weight=0.0)

    @cached_property
    def _centre(self) -> Tensor:
        """Where searches begin: from near the border they can take hundreds of steps."""
        # Strictly inside: by concavity the start keeps half the slack.
        u = self.mle.coordinates
        drop = self.mle.log_likelihood - self.log_likelihood(torch.zeros_like(u))
        inwards = 0.5 * self.slack / drop.clamp_min(torch.finfo(u.dtype).tiny)
        start = self._point((1.0 - inwards.clamp_max(0.5)) * u)
        return Barrier(self._program).centre(start) if self.slack else start

    def log_likelihood(self, coordinates: Tensor) -> Tensor:
        """``ell: ...`` at ``u: ... x r``; Xu et al. (2024), eq. (7)."""
        return self._program.log_likelihood(self._program.values(self._point(coordinates)))

    def upper(
        self, g: Tensor, s: Tensor, *, tolerance: float = FINAL, enough: float = math.inf
    ) -> Bound:
        r"""``max g^T u + s w`` over the set; Xu et al. (2024), problem (24).

        Args:
            g: ``... x r``-dim coefficients: of a function value ``a(x)``, of an advantage
                ``a(x) - a(x')``.
            s: ``...``-dim coefficients of the part of the function off the items, at least 0.
            tolerance: The gap to stop at, in the units of the value.
            enough: What a value need not exceed, as one that is clamped there.
        """
        return self.upper_of_least(g.unsqueeze(-2), s, tolerance=tolerance, enough=enough)

    def lower(
        self, g: Tensor, s: Tensor, *, tolerance: float = FINAL, enough: float = math.inf
    ) -> Bound:
        """``min g^T u + s w`` over the set; as :meth:`upper`, and ``-enough`` is enough."""
        # The sign of w is free.
        found = self.upper(-g, s, tolerance=tolerance, enough=enough)
        return found._replace(value=-found.value, beyond=-found.beyond)

    def upper_of_least(
        self, g: Tensor, s: Tensor, *, tolerance: float = FINAL, enough: float = math.inf
    ) -> Bound:
        r"""``max min_j g_j^T u + s w`` over the set; Xu et al. (2024), problem (101).

        Args:
            g: ``... x J x r``-dim coefficients, ``a(x) - a(x_j)`` for opponents ``x_j``.
            s: ``...``-dim coefficients of the part of the function off the items, at least 0.
            tolerance: The gap to stop at, in the units of the value.
            enough: See :meth:`upper`.
        """
        shape = torch.broadcast_shapes(g.shape[:-2], s.shape)
        with torch.no_grad():
            beyond = s[..., None, None].expand(*shape, g.shape[-2], 1)
            functions = torch.cat([g.expand(*shape, *g.shape[-2:]), beyond], dim=-1).double()
            functions = functions.reshape(shape.numel(), *functions.shape[-2:])
            size = functions.norm(dim=-1).amax(-1).clamp_min(torch.finfo(functions.dtype).tiny)
            functions = functions / size[:, None, None]
            #: The largest value in the ball, which is 1 in the scaled problem.
            scale = self.norm_bound * size
            limit = (tolerance / scale).clamp_min(_FINEST)
            # The smallest of one function is the function.
            linear = functions[:, 0] if g.shape[-2] == 1 else torch.zeros_like(functions[:, 0])
            several = functions[:, :0] if g.shape[-2] == 1 else functions
            # Without slack the set is the maximum likelihood itself.
            steps = MAX_STEPS if self.slack else 0
            most = enough / scale
            found = solve(self._program, linear, several, self._centre, limit, steps, most)
            point = (self.norm_bound * found.point).view(*shape, functions.shape[-1])
            u, w = point[..., :-1], point[..., -1]
            gap = (found.upper - found.lower).clamp_min(0.0)
            gap = gap.masked_fill(found.lower >= most, 0.0)
            weights = found.weights.view(*shape, several.shape[-2], 1)
        if g.shape[-2] == 1:
            value = _envelope(g.squeeze(-2), s, u, w)
        else:
            value = _envelope((weights * g).sum(-2), s, u, w)
            # Functions of positive weight are equal in the optimum; here, up to the gap.
            least = matvec(g.detach().to(u), u).amin(-1) + s.detach() * w
            value = value + (least - value.detach())
        return Bound(
            value=value,
            coordinates=u,
            beyond=w,
            gap=(gap * scale).view(shape),
            converged=(gap <= limit).view(shape),
            num_steps=found.num_steps.view(shape),
        )

    @torch.no_grad()
    def rough_upper(self, g: Tensor, s: Tensor) -> Tensor:
        r"""An estimate of :meth:`upper` for ranking, without a solve for every element.

        It is the largest value on an ellipsoid around the set that one gets with a quadratic for
        the log likelihood: with the maximum ``v``, the gradient ``b`` and the Hessian ``-H``
        there, a slack ``alpha`` leaves ``d = p - v`` with ``d^T H d / 2 - b^T d <= alpha`` and
        ``|p|^2 <= 1``, which is inside ``(d^T H d / 2 - b^T d) / alpha + |p|^2 <= 2``. The box is
        left out. Arguments as of :meth:`upper`; the ``...``-dim values have no gradients.
        """
        factor, centre, radius = self._ellipsoid
        linear = self.norm_bound * torch.cat([g, s.unsqueeze(-1)], dim=-1).double()
        flat = linear.reshape(-1, linear.shape[-1])
        solved = torch.linalg.solve_triangular(factor, flat.mT, upper=False)
        return (flat @ centre + radius * solved.norm(dim=0)).view(linear.shape[:-1])

    @cached_property
    def _ellipsoid(self) -> tuple[Tensor, Tensor, Tensor]:
        """Cholesky factor, centre and radius of the ellipsoid of :meth:`rough_upper`."""
        program, alpha = self._program, max(self.slack, _LEAST_SLACK)
        v = self._point(self.mle.coordinates)
        gradient, curvature = program.derivatives(program.values(v))
        quadratic = curvature.quadratic(program.answer_rows) / (2.0 * alpha)
        linear = quadratic @ v + 0.5 * gradient / alpha
        factor = torch.linalg.cholesky_ex(quadratic + torch.eye(len(v)).to(v)).L
        centre = solve_vector(factor, linear)
        constant = v @ quadratic @ v + gradient @ v / alpha
        return factor, centre, (2.0 - constant + centre @ linear).clamp_min(0.0).sqrt()

    def _point(self, coordinates: Tensor) -> Tensor:
        """The point ``... x (r + 1)`` of the unit ball at ``u: ... x r`` and ``w = 0``."""
        return pad(coordinates, (0, 1)) / self.norm_bound

    def _maximum_likelihood(self) -> MaximumLikelihood:
        program = self._program
        rows = program.distinct.rows[:, :-1]
        start = program.rows.new_zeros(program.rows.shape[-1])
        total = program.log_likelihood(program.values(start)).abs()
        tolerance = 1e-13 * (1.0 + total).unsqueeze(0)
        nothing = torch.zeros_like(start).unsqueeze(0)
        solver = InteriorPoint(program)
        found = solver.maximize(nothing, nothing[:, None][:, :0], start, tolerance)
        # Rounding in directions that neither answers nor box depend on leaves.
        _, sizes, basis = torch.linalg.svd(rows, full_matrices=False)
        basis = basis[sizes > torch.finfo(rows.dtype).eps * max(rows.shape) * rows.norm()]
        v = basis.T @ (basis @ found.point[0, :-1])
        return MaximumLikelihood(
            coordinates=self.norm_bound * v,
            log_likelihood=found.lower[0],
            converged=(found.upper - found.lower)[0] <= FINAL * (1.0 + total),
        )


def _envelope(g: Tensor, s: Tensor, u: Tensor, w: Tensor) -> Tensor:
    """``g^T u* + s w*``; its gradient is ``(u*, w*)``, as the set does not depend on ``g, s``."""
    value = (g * u).sum(-1) + s * w
    if value.requires_grad:
        value.register_hook(_refuse_second_derivatives)
    return value


def _refuse_second_derivatives(gradient: Tensor) -> None:
    """Raises in a backward pass that is itself differentiated: maximisers were held fixed."""
    if torch.is_grad_enabled():
        raise UnsupportedError("Bounds over a confidence set have first derivatives only.")
