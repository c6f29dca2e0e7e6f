r"""The posterior's weights and precision update, differentiated through the mode.

Notation as in :mod:`botorch_pref.inference.evidence`. The mode is a fixed point
``eta = prior_latent + P a(eta)``, so by the implicit function theorem

    d eta   = (I + P W)^-1 (G dC alpha + d prior_latent),      d a = -W d eta
    d Gamma = -Gamma dC Gamma + T^T (G^T dW G) T,   T = I - C Gamma,   dW = -third d eta

which needs no derivative of a root or of a Newton step.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from torch import Tensor
from torch.autograd import Function

from botorch_pref.inference.base import Side
from botorch_pref.inference.evidence import refuse_second_derivatives, symmetric_outer
from botorch_pref.inference.mode import LaplaceMode, find_mode
from botorch_pref.inference.predict import Representer
from botorch_pref.inference.sides import ExactSide


@singledispatch
def represent(
    side: Side, variance_weight: Tensor | None = None, *, start: Tensor | None = None
) -> Representer:
    r"""Find the mode and what predictions need of it.

    Args:
        side: The prior and the observations.
        variance_weight: ``... x m``-dim answer-free curvature ``count / kappa`` for the
            covariance; by default the covariance uses the curvature at the mode.
        start: Weights of a mode near by to start from.

    Returns:
        The representer, differentiable with respect to the side's ``covariance`` and
        ``prior_latent``.
    """
    assert isinstance(side, ExactSide)  # other kinds are registered
    mode = find_mode(side, start=start)
    weights, gamma = _Represent.apply(
        side.covariance, side.prior_latent, side, mode, variance_weight
    )
    return Representer(side, weights, gamma, mode)


class _Represent(Function):
    @staticmethod
    def forward(
        ctx: Any,
        covariance: Tensor,
        prior_latent: Tensor,
        side: ExactSide,
        mode: LaplaceMode,
        variance_weight: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        _, curvature, third = side.observations.derivatives(mode.latent)
        factor = side.factor(curvature if variance_weight is None else variance_weight)
        gamma = factor.gamma()
        # An output kept on the context would be a cycle, and stay until collected.
        ctx.save_for_backward(gamma)
        ctx.side, ctx.mode = side, mode
        ctx.curvature, ctx.third, ctx.factor = curvature, third, factor
        ctx.answer_free = variance_weight is not None
        ctx.shapes = covariance.shape, prior_latent.shape
        return side.map.adjoint(mode.weights).clone(), gamma

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives()
        grad_weights, grad_gamma = grads
        side, (gamma,) = ctx.side, ctx.saved_tensors
        factor = side.factor(ctx.curvature) if ctx.answer_free else ctx.factor
        grad_gamma = 0.5 * (grad_gamma + grad_gamma.transpose(-1, -2))
        moved = -ctx.curvature * side.map.apply(grad_weights)
        if not ctx.answer_free:
            shrink = -side.covariance @ gamma
            shrink.diagonal(dim1=-2, dim2=-1).add_(1.0)
            inner = shrink @ grad_gamma @ shrink.transpose(-1, -2)
            moved = moved - ctx.third * side.map.diagonal(inner)
        moved = factor.solve_adjoint(moved)
        alpha = side.map.adjoint(ctx.mode.weights)
        grad_covariance = symmetric_outer(side.map.adjoint(moved), alpha)
        grad_covariance = grad_covariance - gamma @ grad_gamma @ gamma
        covariance_shape, latent_shape = ctx.shapes
        return (
            grad_covariance.sum_to_size(covariance_shape),
            moved.sum_to_size(latent_shape),
            None,
            None,
            None,
        )
