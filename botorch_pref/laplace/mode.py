r"""The mode of the posterior, by damped Newton steps, batched."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_pref.exceptions import LaplaceConvergenceWarning
from botorch_pref.laplace.factors import matvec
from botorch_pref.laplace.sides import Side

MAX_STEPS = 100
_SUFFICIENT_INCREASE = 1e-4
_TRIALS_A_STEP = 5  # on average; a hard problem halves many a step


class LaplaceMode(NamedTuple):
    r"""The mode and how it was found.

    Attributes:
        latent: ``... x m``-dim latent values ``eta`` at the mode.
        weights: ``... x m``-dim score there, which are the representer weights; a start
            for a related problem.
        log_joint: ``...``-dim log likelihood minus half the squared prior norm.
        gradient: ``...``-dim largest entry of the gradient, relative to its terms.
        converged: ``...``-dim booleans.
        num_steps: ``...``-dim number of Newton steps taken.
    """

    latent: Tensor
    weights: Tensor
    log_joint: Tensor
    gradient: Tensor
    converged: Tensor
    num_steps: Tensor


@torch.no_grad()
def find_mode(
    side: Side, *, start: Tensor | None = None, max_steps: int = MAX_STEPS
) -> LaplaceMode:
    r"""Maximise ``sum log p(eta) - 1/2 |f|^2_K``, which is concave.

    Every batch element takes full Newton steps and halves one that does not increase
    the objective enough. An element that has converged is frozen; the only value that
    leaves the device is one boolean a step.

    Args:
        side: The prior and the observations.
        start: ``... x m``-dim weights to start from; zero by default.
        max_steps: The most steps taken.

    Returns:
        The mode. Elements that did not converge are marked and warned of.
    """
    newton = _Newton(side, start, max_steps)
    for _ in range(_TRIALS_A_STEP * max_steps):
        newton.evaluate()
        if bool(newton.done.all()):
            break
        newton.advance()
    mode = newton.result()
    if side.observations.has_residuals:
        mode = _with_solved_weights(side, mode)
    if not bool(mode.converged.all()):
        _warn_of_non_convergence(mode, max_steps)
    return mode


class _Newton:
    """A damped Newton iteration over a batch: a base, a direction and a step size."""

    def __init__(self, side: Side, start: Tensor | None, max_steps: int) -> None:
        self.side, self.max_steps = side, max_steps
        shape = torch.broadcast_shapes(
            side.covariance.shape[:-2],
            side.prior_latent.shape[:-1],
            side.observations.batch_shape,
        )
        new = side.covariance.new_full
        self.eps = torch.finfo(side.covariance.dtype).eps
        self.scale = side.gradient_scale()
        size = (*shape, side.covariance.shape[-1])
        self.base = new(size, 0.0)
        if start is not None:
            # Weights of another prior can be far off, and zero never is.
            near, zero = side.coordinates(start).expand(size), self.base
            better = self.objective_at(near)[1] > self.objective_at(zero)[1]
            self.base = torch.where(better.unsqueeze(-1), near, zero)
        self.direction = torch.zeros_like(self.base)
        self.step, self.slope = new(shape, 1.0), new(shape, 0.0)
        self.base_objective = new(shape, -torch.inf)
        self.base_gradient = new(shape, torch.inf)
        self.done = torch.zeros(shape, dtype=torch.bool, device=self.base.device)
        self.num_steps = torch.zeros(shape, dtype=torch.long, device=self.base.device)

    @property
    def loose(self) -> float:
        """The relative gradient below which an element counts as converged."""
        return 0.5 * self.eps**0.5

    def objective_at(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """The latent values and the objective at Newton's coordinates."""
        shift = self.side.latent(z)
        latent = self.side.prior_latent + shift
        log_prob = self.side.observations.log_prob(latent).sum(-1)
        return latent, log_prob - self.side.penalty(z, shift)

    def evaluate(self) -> None:
        """Look at the current candidates, and find out which elements are done."""
        self.z = self.base + self.step.unsqueeze(-1) * self.direction
        self.latent, self.objective = self.objective_at(self.z)
        self.score, self.curvature, _ = self.side.observations.derivatives(self.latent)
        self.gradient = self.side.gradient(self.score, self.z)
        self.size = self.gradient.abs().amax(-1) / self.scale
        noise = 10 * self.eps * (1.0 + self.objective.abs())
        gain = _SUFFICIENT_INCREASE * self.step * self.slope
        self.rising = self.objective >= self.base_objective + gain - noise
        # Rounding hides the last increase where answers are many and nearly the same;
        # a gradient that falls tells as much.
        level = self.objective >= self.base_objective - self.eps**0.5 * (1.0 + self.objective.abs())
        self.rising |= level & (self.size <= 0.5 * self.base_gradient)
        self.rising |= self.step < self.eps
        # Newton converges quadratically: below ``loose`` it goes on for as long as the
        # gradient still falls, that is to the rounding floor.
        settled = self.size <= 100 * self.eps
        settled |= (self.size <= self.loose) & (self.size > 0.5 * self.base_gradient)
        spent = self.num_steps >= self.max_steps
        self.done = self.done | (self.rising & (settled | spent)) | ~torch.isfinite(self.size)

    def advance(self) -> None:
        """Aim anew from the candidates that rose, halve the step of the others."""
        direction, slope = self.side.newton(self.gradient, self.curvature)
        move = self.rising & ~self.done
        self.base = torch.where(move.unsqueeze(-1), self.z, self.base)
        self.direction = torch.where(move.unsqueeze(-1), direction, self.direction)
        self.base_objective = torch.where(move, self.objective, self.base_objective)
        self.base_gradient = torch.where(move, self.size, self.base_gradient)
        self.slope = torch.where(move, slope, self.slope)
        halved = torch.where(self.done, self.step, 0.5 * self.step)
        self.step = torch.where(move, 1.0, halved)
        self.num_steps = self.num_steps + move

    def result(self) -> LaplaceMode:
        """The candidates as they stand, or their base where a trial was the last thing."""
        on_trial = ~(self.rising | self.done)
        if bool(on_trial.any()):
            self.step = torch.where(on_trial, 0.0, self.step)
            self.evaluate()
        return LaplaceMode(
            latent=self.latent,
            weights=self.score,
            log_joint=self.objective,
            gradient=self.size,
            converged=(self.size <= self.loose) & torch.isfinite(self.objective),
            num_steps=self.num_steps,
        )


def _with_solved_weights(side: Side, mode: LaplaceMode) -> LaplaceMode:
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
