r"""Path following in the primal alone: slower, and sure.

Where the answers are explained so well that the log likelihood is flat, its tangent says
nothing of where the level is reached, and a primal-dual method's multipliers run away. With
every multiplier at ``mu`` over its margin, the very same linear system is that of Newton's
method for ``c^T p + mu sum log margins``, whose steps a line search can judge.
"""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_pref.likelihood_ratio.interior_point import InteriorPoint
from botorch_pref.likelihood_ratio.newton import Newton, State

_CENTRED = 0.1  # of ``mu``: what a step promises to gain where it is Newton's last but few
_FASTER = 0.1  # what ``mu`` is multiplied by there
_SHARE = 0.1  # of the tolerance: what the margins' multipliers are let down to
_HALVINGS = 39
_KEPT = 1e-3  # of a margin, which rounding must not carry outside
_ARMIJO = 0.1


class Barrier(InteriorPoint):
    """The method of the module, for bounds; arguments as of the base class."""

    patience = 1000  # the gap shrinks by stages, of which one can be long
    # In the end, no step: the point stays where it is, strictly inside.
    trial_lengths = (*(0.5**k for k in range(_HALVINGS + 1)), 0.0)

    def _advance(self, state: State) -> None:
        """One Newton step of every element towards its central point, and on once it is near."""
        mu = (state.margins * state.multipliers).mean(-1, keepdim=True)
        self._set_multipliers(state, mu)
        newton = Newton(self.constraints, state)
        move = newton.direction(torch.zeros_like(state.margins)).point
        slope = (newton.residual * move).sum(-1, keepdim=True)
        self._climb(state, move, slope, mu)
        count = state.margins.shape[-1]
        least = _SHARE / count * state.tolerance.unsqueeze(-1)
        mu = torch.where(slope <= _CENTRED * mu, torch.maximum(_FASTER * mu, least), mu)
        self._set_multipliers(state, mu)

    def _set_multipliers(self, state: State, mu: Tensor) -> None:
        state.multipliers = mu / state.margins
        if self.constraints.level is not None:
            state.weight = state.multipliers[:, 1]

    def _climb(self, state: State, move: Tensor, slope: Tensor, mu: Tensor) -> None:
        """Step along a direction, halved until the barrier function has risen."""
        before = self._height(state.linear, state.point, state.margins, mu)
        lengths = self.trials.expand(len(slope), -1).unsqueeze(-1)
        point, margins = state.tried(self.constraints, move, lengths)
        linear, mu, slope = (x.unsqueeze(-2) for x in (state.linear, mu, slope))
        gain = self._height(linear, point, margins, mu) - before.unsqueeze(-2)
        inside = (margins > _KEPT * state.margins.unsqueeze(-2)).all(-1, keepdim=True)
        # A comparison with what is not a number, outside, fails.
        risen = inside & (gain >= _ARMIJO * lengths * slope)
        state.land(self.constraints, move, lengths, risen.squeeze(-1))

    @staticmethod
    def _height(linear: Tensor, point: Tensor, margins: Tensor, mu: Tensor) -> Tensor:
        barrier = mu * margins.log().sum(-1, keepdim=True)
        return (linear * point).sum(-1, keepdim=True) + barrier
