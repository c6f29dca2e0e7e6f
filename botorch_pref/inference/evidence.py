r"""The Laplace evidence and its gradient.

Notation as in :mod:`botorch_pref.inference.systems`; ``a`` are the representer weights (the
score at the mode), ``alpha = G^T a``. With ``s`` the derivative of ``-1/2 log det`` with
respect to the latent values and ``t = (I + W P)^-1 s``,

    d log Z / d C            = 1/2 alpha alpha^T - 1/2 Gamma + sym(G^T t alpha^T)
    d log Z / d prior_latent = a + t

where the terms in ``t`` carry the movement of the mode (Rasmussen and Williams 2006,
sec. 5.5.1).
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.inference.mode import LaplaceMode, find_mode
from botorch_pref.inference.systems import ExactSystem, System

_LARGE = 256  # coordinates


@singledispatch
def log_evidence(system: System, *, start: Tensor | None = None) -> tuple[Tensor, LaplaceMode]:
    r"""The log marginal likelihood under the Laplace approximation.

    Args:
        system: The prior and the observations.
        start: Weights of another mode to start from; the system's own choice by default.

    Returns:
        The ``...``-dim log evidence, differentiable with respect to the system's
        ``covariance`` and ``prior_latent``, and the mode.
    """
    assert isinstance(system, ExactSystem)  # other kinds are registered
    # An evaluation is cheaper than a factorisation only where matrices are large.
    system.shares_hessians = start is not None and system.covariance.shape[-1] >= _LARGE
    mode = find_mode(system, start=start)
    system.forget()
    return _Evidence.apply(system.covariance, system.prior_latent, system, mode), mode


class _Evidence(Function):
    @staticmethod
    def forward(
        ctx: Any, covariance: Tensor, prior_latent: Tensor, system: ExactSystem, mode: LaplaceMode
    ) -> Tensor:
        _, curvature = system.observations.derivatives(mode.latent)
        factor = system.factor(curvature)
        ctx.system, ctx.mode, ctx.factor = system, mode, factor
        ctx.shapes = covariance.shape, prior_latent.shape
        return mode.log_joint - 0.5 * factor.log_det

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives()
        (grad,) = grads
        system, mode, factor = ctx.system, ctx.mode, ctx.factor
        gamma = factor.gamma()
        slope = 0.5 * factor.curvature.contract(factor.marginals(gamma))
        moved = factor.solve_adjoint(slope)
        alpha = system.incidence.adjoint(mode.weights)
        grad_covariance = symmetric_outer(
            0.5 * alpha + system.incidence.adjoint(moved), alpha
        ).sub_(gamma, alpha=0.5)
        covariance_shape, latent_shape = ctx.shapes
        return (
            (grad[..., None, None] * grad_covariance).sum_to_size(covariance_shape),
            (grad.unsqueeze(-1) * (mode.weights + moved)).sum_to_size(latent_shape),
            None,
            None,
        )


def refuse_second_derivatives() -> None:
    """Raises, inside a backward pass, if it is itself to be differentiated.

    Raises:
        UnsupportedError: If a graph of the backward pass is asked for: what is held fixed in
            it, curvatures and factors, would make a second derivative silently wrong.
    """
    if torch.is_grad_enabled():
        raise UnsupportedError("Laplace inference has first derivatives only.")


def symmetric_outer(left: Tensor, right: Tensor) -> Tensor:
    """The symmetric part of ``left right^T``, for ``... x s`` vectors."""
    # A product of rank two goes over the matrix once; a sum with a transpose three times.
    half = 0.5 * left
    return torch.stack([half, right], dim=-1) @ torch.stack([right, half], dim=-2)
