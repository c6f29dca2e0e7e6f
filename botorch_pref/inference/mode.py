r"""The mode of the posterior, by damped Newton steps, batched."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_pref.exceptions import LaplaceConvergenceWarning
from botorch_pref.inference.systems import ExactSystem, NewtonState, System, matvec

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
        gradient: ``...``-dim size of the gradient, in the system's own relative measure.
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
    system: System, *, start: Tensor | None = None, max_steps: int = MAX_STEPS
) -> LaplaceMode:
    r"""Maximise ``sum log p(eta) - 1/2 |f|^2_K``, which is concave.

    Every batch element takes full Newton steps and halves one that does not increase
    the objective enough. An element that has converged is frozen; the only value that
    leaves the device is one number a step, which says whether all are done, whether any needs
    a new direction, and whether that needs a new Hessian.

    Args:
        system: The prior and the observations.
        start: Weights of another mode to start from; the system's own choice by default.
        max_steps: The most steps taken.

    Returns:
        The mode. Elements that did not converge are marked and warned of.
    """
    return find_mode_and_state(system, start=start, max_steps=max_steps)[0]


@torch.no_grad()
def find_mode_and_state(
    system: System, *, start: Tensor | None = None, max_steps: int = MAX_STEPS
) -> tuple[LaplaceMode, NewtonState]:
    """The same as :func:`find_mode`, and the state at the mode."""
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
        _warn_of_non_convergence(mode, max_steps)
    return mode, newton.state


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
                self.aim(slow=bool(flags & _SLOW))
            self.move()

    def evaluate(self) -> None:
        """Look at the current candidates, and find out which elements are done."""
        self.z = torch.addcmul(self.base, self.step.unsqueeze(-1), self.direction)
        self.state = self.system.evaluate(self.z)
        objective, distance = self.state.objective, self.state.distance
        size = 1.0 + objective.abs()
        falling = distance <= self.half_distance
        # Rounding hides the last increase where answers are many and nearly the same;
        # a gradient that falls tells as much.
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
        """A scalar: the flags of all (done) or any (rising, slow) elements, summed up."""
        self.moving = self.rising & ~self.done
        flags = torch.where(self.done.all(), _DONE, _RISING * self.moving.any())
        slow = self.state.is_slow
        return flags if slow is None else flags + _SLOW * (slow & self.moving).any()

    def aim(self, slow: bool) -> None:
        """A new direction from the candidates that rose."""
        direction, slope = self.system.newton(self.state, slow)
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
        state = self.state
        return LaplaceMode(
            latent=state.latent,
            weights=state.weights,
            log_joint=state.objective,
            gradient=state.distance,
            converged=self._near() & self._is_small(),
            num_steps=self.num_steps,
        )

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
    shift = system.incidence.apply(
        matvec(system.covariance, system.incidence.adjoint(mode.weights))
    )
    score, curvature = system.observations.derivatives(system.prior_latent + shift)
    step = system.factor(curvature).solve_adjoint(score - mode.weights)
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
