r"""Laplace's approximation: the mode, the evidence and the posterior of the utility.

Notation as in :mod:`botorch_pref.inference.systems`; ``a`` are the representer weights, the
score at the mode, and ``alpha = G^T a``. The mode maximises a concave objective and is found by
damped Newton steps.

The evidence (Rasmussen and Williams 2006, sec. 5.5.1): with ``s`` the derivative of
``-1/2 log det`` with respect to the latent values and ``t = (I + W P)^-1 s``, which carries the
movement of the mode,

    d log Z / d C            = 1/2 alpha alpha^T - 1/2 Gamma + sym(G^T t alpha^T)
    d log Z / d prior_latent = a + t

The posterior: ``mean(x) = m(x) + c(x)^T alpha`` and ``cov(x, w) = k(x, w) - c(x)^T Gamma c(w)``,
where ``c`` is the covariance of a point with the system's coordinates. The mode is a fixed point
``eta = prior_latent + P a(eta)``, so by the implicit function theorem

    d eta   = (I + P W)^-1 (G dC alpha + d prior_latent),      d a = -W d eta
    d Gamma = -Gamma dC Gamma + T^T (G^T dW G) T,   T = I - C Gamma,   dW = -third d eta

which needs no derivative of a root or of a Newton step.
"""

from __future__ import annotations

import warnings
from functools import cached_property, singledispatch
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.autograd import Function

from botorch_pref.exceptions import LaplaceConvergenceWarning, UnsupportedError
from botorch_pref.inference.observations import IdentityIncidence, Incidence, Marginals, matvec
from botorch_pref.inference.systems import ExactFactor, ExactSystem, Factor, NewtonState, System

MAX_STEPS = 100
_SUFFICIENT_INCREASE = 1e-4
_DONE, _RISING = 1, 2
_MOVED, _MOVED_STEPS = 1e-9, 200  # of the movement of a mode, where a curvature was cut off
_TRIALS_A_STEP = 5  # on average; a hard problem halves many a step


class LaplaceMode(NamedTuple):
    r"""The mode and how it was found.

    Attributes:
        state: The last state of the search.
        weights: ``... x M``-dim score there, which are the representer weights, or the
            ``p``-dim coordinates of inducing items; a start for a related problem.
        converged: ``...``-dim booleans.
        num_steps: ``...``-dim number of Newton steps taken.
    """

    state: NewtonState
    weights: Tensor
    converged: Tensor
    num_steps: Tensor

    @property
    def latent(self) -> Tensor:
        """``... x M``-dim latent values ``eta`` at the mode."""
        return self.state.latent

    @property
    def start(self) -> Tensor:
        """The weights as a start for a related problem; zeros where the search failed."""
        return self.weights.masked_fill(~self.converged.unsqueeze(-1), 0.0)


@torch.no_grad()
def find_mode(
    system: System, *, start: Tensor | None = None, max_steps: int = MAX_STEPS
) -> LaplaceMode:
    r"""Maximise ``sum log p(eta) - 1/2 |f|^2_K``, which is concave.

    Every batch element takes full Newton steps and halves one that does not increase the
    objective enough. An element that has converged is frozen; the only value that leaves the
    device is one number a step.

    Args:
        system: The prior and the observations.
        start: Weights of another mode to start from; the system's own choice by default.
        max_steps: The most steps taken.

    Returns:
        The mode. Elements that did not converge are marked and warned of.
    """
    newton = _Newton(system, start, max_steps)
    newton.run()
    mode = newton.result()
    failed = not bool(mode.converged.all())
    if failed and newton.is_reopened():
        newton.run()
        mode = newton.result()
        failed = not bool(mode.converged.all())
    if not system.observations.has_bounded_scores and isinstance(system, ExactSystem):
        mode = _with_solved_weights(system, mode)
    if failed:
        number, largest = int((~mode.converged).sum()), mode.state.distance.max().item()
        warnings.warn(
            f"The mode was not found for {number} of {mode.converged.numel()} models within "
            f"{max_steps} Newton steps: the largest relative gradient is {largest:.1e}.",
            LaplaceConvergenceWarning,
            stacklevel=3,
        )
    return mode


class _Newton:
    """A damped Newton iteration over a batch: a base, a direction and a step size."""

    state: NewtonState

    def __init__(self, system: System, start: Tensor | None, max_steps: int) -> None:
        self.system, self.max_steps, self.tolerance = system, max_steps, system.tolerance
        self.base = system.begin(start)
        shape, new = self.base.shape[:-1], self.base.new_full
        self.eps = torch.finfo(self.base.dtype).eps
        self.direction = torch.zeros_like(self.base)
        self.step, self.sufficient = new(shape, 1.0), new(shape, 0.0)
        self.base_objective = new(shape, -torch.inf)
        self.half_distance = new(shape, torch.inf)
        self.done = torch.zeros(shape, dtype=torch.bool, device=self.base.device)
        self.num_steps = torch.zeros(shape, dtype=torch.long, device=self.base.device)

    def run(self) -> None:
        """Take steps until all elements are done."""
        for _ in range(_TRIALS_A_STEP * self.max_steps):
            self.evaluate()
            flags = int(self.progress())
            if flags & _DONE:
                break
            if flags & _RISING:
                self.aim()
            self.move()

    def evaluate(self) -> None:
        """Evaluate the current candidates, and find out which elements are done."""
        self.z = torch.addcmul(self.base, self.step.unsqueeze(-1), self.direction)
        self.state = self.system.evaluate(self.z)
        objective, distance = self.state.objective, self.state.distance
        size = 1.0 + objective.abs()
        falling = distance <= self.half_distance
        # Rounding hides the last increase where answers are many and nearly the same;
        # there a falling gradient shows progress.
        gain = self.step * self.sufficient - 10 * self.eps * size
        least = self.base_objective + torch.where(falling, -(self.eps**0.5) * size, gain)
        self.rising = (objective >= least) | (self.step < self.eps)
        # Newton converges quadratically: below the tolerance it goes on for as long as the
        # gradient still falls, that is to the rounding floor, unless an evaluation is expensive.
        floor = self.tolerance if self.system.is_expensive else 100 * self.eps
        settled = distance <= torch.where(falling, floor, self.tolerance)
        spent = self.num_steps >= self.max_steps
        lost = ~(distance < torch.inf)
        self.done = self.done | (self.rising & (settled | spent)) | lost

    def progress(self) -> Tensor:
        """A scalar: whether all elements are done, or any rise."""
        self.moving = self.rising & ~self.done
        return torch.where(self.done.all(), _DONE, _RISING * self.moving.any())

    def aim(self) -> None:
        """A new direction from the candidates that rose."""
        direction, slope = self.system.newton(self.state)
        move = self.moving.unsqueeze(-1)
        self.base = torch.where(move, self.z, self.base)
        self.direction = torch.where(move, direction, self.direction)
        self.base_objective = torch.where(self.moving, self.state.objective, self.base_objective)
        self.half_distance = torch.where(self.moving, 0.5 * self.state.distance, self.half_distance)
        self.sufficient = torch.where(self.moving, _SUFFICIENT_INCREASE * slope, self.sufficient)

    def move(self) -> None:
        """A full step where there is a new aim; half of the last one where it rose too little."""
        halved = torch.where(self.done, self.step, 0.5 * self.step)
        self.step = torch.where(self.moving, 1.0, halved)
        self.num_steps = self.num_steps + self.moving

    def result(self) -> LaplaceMode:
        """The candidates as they stand, or their base where a trial was the last thing."""
        on_trial = ~(self.rising | self.done)
        if bool(on_trial.any()):
            self.step = torch.where(on_trial, 0.0, self.step)
            self.evaluate()
        converged = self._near() & self._is_small()
        return LaplaceMode(self.state, self.state.weights, converged, self.num_steps)

    def is_reopened(self) -> bool:
        """Whether some gradients are small as all their terms are; these go on to the floor."""
        reopened = self._near() & ~self._is_small()
        self.tolerance, self.done = 100 * self.eps, self.done & ~reopened
        return bool(reopened.any())

    def _near(self) -> Tensor:
        return (self.state.distance <= self.system.tolerance) & torch.isfinite(self.state.objective)

    def _is_small(self) -> Tensor:
        """Under a huge prior variance scores are tiny far from the mode: so is their difference."""
        small = self.system.is_small(self.state, self.z)
        return small | (self.state.distance <= 100 * self.eps)


def _with_solved_weights(system: ExactSystem, mode: LaplaceMode) -> LaplaceMode:
    """The mode with weights that solve ``a = score(prior_latent + P a)``.

    The score of a precise value amplifies the rounding error of its latent value by the
    precision; predictions and gradients would amplify it once more. A Newton step for the
    weights themselves damps it.
    """
    latent = system.prior_latent + system.gain(mode.weights)
    score, curvature = system.observations.derivatives(latent)
    step = system.factor(curvature).solve_adjoint(score - mode.weights)
    return mode._replace(weights=mode.weights + step)


@singledispatch
def log_evidence(system: System, *, start: Tensor | None = None) -> tuple[Tensor, LaplaceMode]:
    r"""The log marginal likelihood under the Laplace approximation.

    Args:
        system: The prior and the observations.
        start: Weights of another mode to start from; the system's own choice by default.

    Returns:
        The ``...``-dim log evidence, differentiable with respect to the system's
        ``covariance`` and ``prior_latent`` and the parameters of likelihoods, and the mode.
    """
    assert isinstance(system, ExactSystem)  # other kinds are registered
    mode = find_mode(system, start=start)
    with torch.no_grad():
        factor = system.factor(mode.state.curvature)
        value = mode.state.objective - 0.5 * factor.log_det
    inputs = system.covariance, system.prior_latent, value, mode.weights, system.incidence, factor
    slope = _Slope(system, mode, factor)
    evidence: Tensor = Evidence.apply(*inputs, slope)
    return evidence + _slope_of_likelihoods(slope), mode


class _Slope:
    """What the gradients of an evidence share, found once.

    Args:
        system: The prior and the observations.
        mode: The mode.
        factor: The factored Hessian there.
    """

    def __init__(self, system: ExactSystem, mode: LaplaceMode, factor: ExactFactor) -> None:
        self.system, self.mode, self.factor = system, mode, factor

    @cached_property
    def gamma(self) -> Tensor:
        """``Gamma``."""
        return self.factor.gamma()

    @cached_property
    def marginals(self) -> Marginals:
        """Posterior variances of the latent values."""
        return self.factor.marginals(self.gamma)

    @cached_property
    def moved(self) -> Tensor:
        """``t: ... x M``, which carries the movement of the mode."""
        slope = 0.5 * self.factor.curvature.contract(self.marginals)
        return _solve_moved(self.system, self.mode, self.factor, slope)


def _solve_moved(system: ExactSystem, mode: LaplaceMode, factor: ExactFactor, x: Tensor) -> Tensor:
    """``t`` with ``(I + W P) t = x``, of the curvature ``W`` that has not been cut off at zero.

    Where it has been, ``W`` is that of the factor, ``W_0``, less ``D``, and
    ``t = (I + W_0 P)^-1 (x + D P t)`` is iterated, which converges at a maximum.
    """
    solved = factor.solve_adjoint(x)
    curvature = mode.state.curvature
    if curvature.is_exact:
        return solved
    for _ in range(_MOVED_STEPS):
        last, solved = solved, factor.solve_adjoint(x + curvature.apply_excess(system.gain(solved)))
        size = solved.abs().amax(-1, keepdim=True)
        if bool(((solved - last).abs() <= _MOVED * size).all()):
            return solved
    warnings.warn(
        f"A gradient through answers that contradict others was not found in {_MOVED_STEPS} steps.",
        LaplaceConvergenceWarning,
        stacklevel=2,
    )
    return solved


def _slope_of_likelihoods(slope: _Slope) -> Tensor:
    """A zero whose gradient is the evidence's in the parameters of likelihoods.

    In a parameter it is that of ``log p - 1/2 sum_i V_i W_i`` with posterior variances ``V``, and
    of what the mode moves by, ``(P t)^T score``, all at the mode.
    """
    observations, mode = slope.system.observations, slope.mode
    total = mode.latent.new_zeros(())
    if not (torch.is_grad_enabled() and any(block.is_learnt for block in observations.blocks)):
        return total
    with torch.no_grad():
        moved = observations.split(slope.system.gain(slope.moved))
        latent, marginals = observations.split(mode.latent), slope.marginals
        if isinstance(marginals, Tensor):
            marginals = observations.split(marginals)
    for block, at, move, variance in zip(
        observations.blocks, latent, moved, marginals, strict=True
    ):
        if block.is_learnt:
            given = at, block.answer, block.weight
            score, curvature, _ = block.likelihood.derivatives(*given)
            pull, spread = move * score, variance
            if block.latent_dim > 1:
                pull, curvature = pull.sum(-1), curvature @ curvature.mT  # of its root
                spread, curvature = (variance * curvature).sum((-2, -1)), torch.ones_like(pull)
            else:
                curvature = curvature.clamp_min(0.0)
                spread = variance[..., 0, 0] if variance.dim() > at.dim() else variance
            own = block.likelihood.log_prob(*given) + pull - 0.5 * spread * curvature
            total = total + own.sum(-1)
    return total - total.detach()


class Evidence(Function):
    """A log evidence that was found, as a function of the prior.

    Laplace's moves with the mode, which ``slope`` knows; expectation propagation's is stationary in
    what was found.
    """

    @staticmethod
    def forward(
        ctx: Any,
        covariance: Tensor,
        prior_latent: Tensor,
        value: Tensor,
        weights: Tensor,
        incidence: Incidence | IdentityIncidence,
        factor: ExactFactor,
        slope: _Slope | None,
    ) -> Tensor:
        ctx.weights, ctx.incidence, ctx.factor = weights, incidence, factor
        ctx.slope, ctx.shapes = slope, (covariance.shape, prior_latent.shape)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives()
        (grad,), slope, grad_latent = grads, ctx.slope, ctx.weights
        gamma = ctx.factor.gamma() if slope is None else slope.gamma
        alpha = ctx.incidence.adjoint(ctx.weights)
        half = 0.5 * alpha
        if slope is not None:
            half = half + ctx.incidence.adjoint(slope.moved)
            grad_latent = grad_latent + slope.moved
        grad_covariance = symmetric_outer(half, alpha).sub_(gamma, alpha=0.5)
        covariance_shape, latent_shape = ctx.shapes
        found = (
            (grad[..., None, None] * grad_covariance).sum_to_size(covariance_shape),
            (grad.unsqueeze(-1) * grad_latent).sum_to_size(latent_shape),
        )
        return (*found, None, None, None, None, None)


def refuse_second_derivatives() -> None:
    """Raises inside a backward pass that is itself to be differentiated.

    It holds curvatures and factors fixed, so that a second derivative would be wrong.
    """
    if torch.is_grad_enabled():
        raise UnsupportedError("Laplace inference has first derivatives only.")


def symmetric_outer(left: Tensor, right: Tensor) -> Tensor:
    """The symmetric part of ``left right^T``, for ``... x s`` vectors."""
    # A product of rank two goes over the matrix once; a sum with a transpose three times.
    half = 0.5 * left
    return torch.stack([half, right], dim=-1) @ torch.stack([right, half], dim=-2)


class Found(Protocol):
    """What the search of an inference ended at."""

    @property
    def latent(self) -> Tensor:
        """``... x M``-dim latent values: the mode, or their posterior mean."""

    @property
    def weights(self) -> Tensor:
        """``... x M``-dim representer weights, one a row."""


class LaplacePosterior(NamedTuple):
    r"""A posterior, reduced to what predictions need.

    Attributes:
        system: The prior and the observations.
        weights: ``... x s``-dim representer weights ``alpha``.
        gamma: ``... x s x s``-dim ``Gamma = (C + L_W^-1)^-1``.
        mode: The mode, or the sites, that it belongs to.
        factor: The factored Hessian that ``gamma`` follows from.
    """

    system: System
    weights: Tensor
    gamma: Tensor
    mode: Found
    factor: Factor

    def predict_mean(self, prior_mean: Tensor, cross_covariance: Tensor) -> Tensor:
        """The ``... x q``-dim mean of the utility at ``q`` points; see :meth:`predict`."""
        return prior_mean + matvec(self.system.columns(cross_covariance), self.weights)

    def predict(
        self, prior_mean: Tensor, prior_covariance: Tensor, cross_covariance: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The mean and the covariance of the utility at ``q`` points.

        Args:
            prior_mean: ``... x q``-dim prior mean at the points.
            prior_covariance: ``... x q x q``-dim prior covariance of the points.
            cross_covariance: ``... x q x n``-dim covariance of points and items.
        """
        columns = self.system.columns(cross_covariance)
        explained = columns @ self.gamma @ columns.mT
        return prior_mean + matvec(columns, self.weights), prior_covariance - explained

    def predict_differences(
        self, prior_mean: Tensor, prior_variance: Tensor, cross_covariance: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The means and the variances of ``b`` linear combinations of the utility.

        Args:
            prior_mean: ``... x b``-dim prior mean of the combinations.
            prior_variance: ``... x b``-dim prior variance of the combinations.
            cross_covariance: ``... x b x n``-dim covariance with the items.
        """
        columns = self.system.columns(cross_covariance).to(self.gamma)
        explained = ((columns @ self.gamma) * columns).sum(-1)
        variance = (prior_variance - explained).clamp_min(0.0)
        return prior_mean + matvec(columns, self.weights), variance


@singledispatch
def laplace_posterior(
    system: System, variance_weight: Tensor | None = None, *, start: Tensor | None = None
) -> LaplacePosterior:
    r"""Find the mode and what predictions need of it.

    Args:
        system: The prior and the observations.
        variance_weight: ``... x m``-dim answer-free curvature ``count / kappa`` for the
            covariance; by default the covariance uses the curvature at the mode.
        start: Weights of a mode near by to start from.

    Returns:
        The posterior, differentiable with respect to the system's ``covariance`` and
        ``prior_latent``.

    Raises:
        UnsupportedError: If the prior of inducing items requires a gradient.
    """
    assert isinstance(system, ExactSystem)  # other kinds are registered
    mode = find_mode(system, start=start)
    with torch.no_grad():
        factor = system.factor(mode.state.curvature if variance_weight is None else variance_weight)
    inputs = system.covariance, system.prior_latent, system, mode, factor
    weights, gamma = _Posterior.apply(*inputs, variance_weight is not None)
    return LaplacePosterior(system, weights, gamma, mode, factor)


class _Posterior(Function):
    @staticmethod
    def forward(
        ctx: Any,
        covariance: Tensor,
        prior_latent: Tensor,
        system: ExactSystem,
        mode: LaplaceMode,
        factor: ExactFactor,
        is_answer_free: bool,
    ) -> tuple[Tensor, Tensor]:
        gamma = factor.gamma()
        # An output kept on the context would be a cycle, and stay until collected.
        ctx.save_for_backward(gamma)
        ctx.system, ctx.mode, ctx.factor, ctx.is_answer_free = system, mode, factor, is_answer_free
        ctx.shapes = covariance.shape, prior_latent.shape
        return system.incidence.adjoint(mode.weights).clone(), gamma

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives()
        grad_weights, grad_gamma = grads
        system, (gamma,) = ctx.system, ctx.saved_tensors
        curvature = ctx.mode.state.curvature
        factor = system.factor(curvature) if ctx.is_answer_free else ctx.factor
        grad_gamma = 0.5 * (grad_gamma + grad_gamma.mT)
        moved = -curvature.apply(system.incidence.apply(grad_weights))
        if not ctx.is_answer_free:
            shrink = -system.covariance @ gamma
            shrink.diagonal(dim1=-2, dim2=-1).add_(1.0)
            inner = shrink @ grad_gamma @ shrink.mT
            marginals = curvature.marginals_of(system.incidence, inner)
            moved = moved - curvature.contract(marginals)
        moved = _solve_moved(system, ctx.mode, factor, moved)
        alpha = system.incidence.adjoint(ctx.mode.weights)
        grad_covariance = symmetric_outer(system.incidence.adjoint(moved), alpha)
        grad_covariance = grad_covariance - gamma @ grad_gamma @ gamma
        covariance_shape, latent_shape = ctx.shapes
        found = grad_covariance.sum_to_size(covariance_shape), moved.sum_to_size(latent_shape)
        return (*found, None, None, None, None)
