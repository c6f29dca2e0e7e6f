r"""The mode of the posterior, by damped Newton steps, batched."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_pref.exceptions import LaplaceConvergenceWarning
from botorch_pref.inference.base import Look, Side
from botorch_pref.inference.factors import matvec
from botorch_pref.inference.sides import ExactSide

MAX_STEPS = 100
_SUFFICIENT_INCREASE = 1e-4
_DONE, _SLOW, _RISING = 1, 2, 4
_TRIALS_A_STEP = 5  # on average; a hard problem halves many a step


class LaplaceMode(NamedTuple):
    r"""The mode and how it was found.

    Attributes:
        latent: ``... x m``-dim latent values ``eta`` at the mode.
        weights: ``... x m``-dim score there, which are the representer weights, or the
            ``p``-dim coordinates of inducing items; a start for a related problem.
        log_joint: ``...``-dim log likelihood minus half the squared prior norm.
        gradient: ``...``-dim size of the gradient, in the side's own relative measure.
        converged: ``...``-dim booleans.
        num_steps: ``...``-dim number of Newton steps taken.
    """

    latent: Tensor
    weights: Tensor
    log_joint: Tensor
    gradient: Tensor
    converged: Tensor
    num_steps: Tensor


def find_mode(
    side: Side, *, start: Tensor | None = None, max_steps: int = MAX_STEPS
) -> LaplaceMode:
    r"""Maximise ``sum log p(eta) - 1/2 |f|^2_K``, which is concave.

    Every batch element takes full Newton steps and halves one that does not increase
    the objective enough. An element that has converged is frozen; the only value that
    leaves the device is one number a step, which says whether all are done, whether any
    aims anew, and whether a Hessian that was kept is too old for that.

    Args:
        side: The prior and the observations.
        start: Weights of another mode to start from; the side's own choice by default.
        max_steps: The most steps taken.

    Returns:
        The mode. Elements that did not converge are marked and warned of.
    """
    return locate(side, start=start, max_steps=max_steps)[0]


@torch.no_grad()
def locate(
    side: Side, *, start: Tensor | None = None, max_steps: int = MAX_STEPS
) -> tuple[LaplaceMode, Look]:
    """The same as :func:`find_mode`, and the last look that was taken, which is one there."""
    newton = _Newton(side, start, max_steps)
    newton.run()
    mode = newton.result()
    failed = not bool(mode.converged.all())
    if failed and newton.is_reopened():
        newton.run()
        mode = newton.result()
        failed = not bool(mode.converged.all())
    if side.observations.has_residuals and isinstance(side, ExactSide):
        mode = _with_solved_weights(side, mode)
    if failed:
        _warn_of_non_convergence(mode, max_steps)
    return mode, newton.look


class _Newton:
    """A damped Newton iteration over a batch: a base, a direction and a step size."""

    look: Look

    def __init__(self, side: Side, start: Tensor | None, max_steps: int) -> None:
        self.side, self.max_steps, self.tolerance = side, max_steps, side.tolerance
        self.base = side.begin(start)
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
            state = int(self.state())
            if state & _DONE:
                break
            if state & _RISING:
                self.aim(slow=bool(state & _SLOW))
            self.move()

    def evaluate(self) -> None:
        """Look at the current candidates, and find out which elements are done."""
        self.z = torch.addcmul(self.base, self.step.unsqueeze(-1), self.direction)
        self.look = self.side.look(self.z)
        objective, distance = self.look.objective, self.look.distance
        size = 1.0 + objective.abs()
        falling = distance <= self.half_distance
        # Rounding hides the last increase where answers are many and nearly the same;
        # a gradient that falls tells as much.
        gain = self.step * self.sufficient - 10 * self.eps * size
        least = self.base_objective + torch.where(falling, -(self.eps**0.5) * size, gain)
        self.rising = (objective >= least) | (self.step < self.eps)
        # Newton converges quadratically: below the tolerance it goes on for as long as the
        # gradient still falls, that is to the rounding floor, unless a look is dear.
        floor = self.tolerance if self.side.is_dear else 100 * self.eps
        settled = distance <= torch.where(falling, floor, self.tolerance)
        spent = self.num_steps >= self.max_steps
        lost = ~(distance < torch.inf)
        self.done = self.done | (self.rising & (settled | spent)) | lost

    def state(self) -> Tensor:
        """A scalar: whether all are :data:`_DONE`, any is :data:`_RISING`, the look is slow."""
        self.moving = self.rising & ~self.done
        state = torch.where(self.done.all(), _DONE, _RISING * self.moving.any())
        slow = self.look.is_slow
        return state if slow is None else state + _SLOW * (slow & self.moving).any()

    def aim(self, slow: bool) -> None:
        """Aim anew from the candidates that rose."""
        direction, slope = self.side.newton(self.look, slow)
        move = self.moving.unsqueeze(-1)
        self.base = torch.where(move, self.z, self.base)
        self.direction = torch.where(move, direction, self.direction)
        self.base_objective = torch.where(self.moving, self.look.objective, self.base_objective)
        self.half_distance = torch.where(self.moving, 0.5 * self.look.distance, self.half_distance)
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
        look = self.look
        return LaplaceMode(
            latent=look.latent,
            weights=look.weights,
            log_joint=look.objective,
            gradient=look.distance,
            converged=self._near() & self._is_small(),
            num_steps=self.num_steps,
        )

    def is_reopened(self) -> bool:
        """Whether some gradients are small as all their terms are; these go on to the floor."""
        reopened = self._near() & ~self._is_small()
        self.tolerance, self.done = 100 * self.eps, self.done & ~reopened
        return bool(reopened.any())

    def _near(self) -> Tensor:
        return (self.look.distance <= self.side.tolerance) & torch.isfinite(self.look.objective)

    def _is_small(self) -> Tensor:
        """Under a huge prior variance scores are tiny far from the mode: so is their difference."""
        small = self.side.is_small(self.look, self.z)
        return small | (self.look.distance <= 100 * self.eps)


def _with_solved_weights(side: ExactSide, mode: LaplaceMode) -> LaplaceMode:
    """The mode with weights that solve ``a = score(prior_latent + P a)``.

    The score of a precise value amplifies the rounding error of its latent value by the
    precision; predictions and gradients would amplify it once more. A Newton step for the
    weights themselves damps it.
    """
    shift = side.map.apply(matvec(side.covariance, side.map.adjoint(mode.weights)))
    score, curvature, _ = side.observations.derivatives(side.prior_latent + shift)
    step = side.factor(curvature).solve_adjoint(score - mode.weights)
    return mode._replace(weights=mode.weights + step)


def _warn_of_non_convergence(mode: LaplaceMode, max_steps: int) -> None:
    failed = int((~mode.converged).sum())
    warnings.warn(
        f"The mode was not found for {failed} of {mode.converged.numel()} models within "
        f"{max_steps} Newton steps: the largest relative gradient is "
        f"{mode.gradient.max().item():.1e}.",
        LaplaceConvergenceWarning,
        stacklevel=3,
    )
