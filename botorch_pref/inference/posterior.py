r"""Predictions of the utility from cached weights.

``mean(x) = m(x) + c(x)^T alpha`` and ``cov(x, w) = k(x, w) - c(x)^T Gamma c(w)``, where
``c`` is the covariance of a point with the system's coordinates.

Notation as in :mod:`botorch_pref.inference.evidence`. The mode is a fixed point
``eta = prior_latent + P a(eta)``, so by the implicit function theorem

    d eta   = (I + P W)^-1 (G dC alpha + d prior_latent),      d a = -W d eta
    d Gamma = -Gamma dC Gamma + T^T (G^T dW G) T,   T = I - C Gamma,   dW = -third d eta

which needs no derivative of a root or of a Newton step.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any, NamedTuple

from torch import Tensor
from torch.autograd import Function

from botorch_pref.inference.evidence import refuse_second_derivatives, symmetric_outer
from botorch_pref.inference.mode import LaplaceMode, find_mode
from botorch_pref.inference.systems import ExactSystem, System


class LaplacePosterior(NamedTuple):
    r"""A posterior, reduced to what predictions need.

    Attributes:
        system: The prior and the observations.
        weights: ``... x s``-dim representer weights ``alpha``.
        gamma: ``... x s x s``-dim ``Gamma = (C + L_W^-1)^-1``.
        mode: The mode it belongs to.
    """

    system: System
    weights: Tensor
    gamma: Tensor
    mode: LaplaceMode

    def predict(
        self, prior_mean: Tensor, prior_covariance: Tensor, cross_covariance: Tensor
    ) -> tuple[Tensor, Tensor]:
        r"""The joint posterior of the utility at ``q`` points.

        Args:
            prior_mean: ``... x q``-dim prior mean at the points.
            prior_covariance: ``... x q x q``-dim prior covariance of the points.
            cross_covariance: ``... x q x n``-dim covariance of points and items.

        Returns:
            The ``... x q``-dim mean and the ``... x q x q``-dim covariance.
        """
        columns = self.system.columns(cross_covariance)
        mean = prior_mean + (columns @ self.weights.unsqueeze(-1)).squeeze(-1)
        explained = columns @ self.gamma @ columns.transpose(-1, -2)
        return mean, prior_covariance - explained

    def predict_differences(
        self, prior_mean: Tensor, prior_variance: Tensor, cross_covariance: Tensor
    ) -> tuple[Tensor, Tensor]:
        r"""The posterior of ``b`` linear combinations of the utility, one by one.

        Args:
            prior_mean: ``... x b``-dim prior mean of the combinations.
            prior_variance: ``... x b``-dim prior variance of the combinations.
            cross_covariance: ``... x b x n``-dim covariance with the items.

        Returns:
            The ``... x b``-dim mean and variance.
        """
        columns = self.system.columns(cross_covariance)
        mean = prior_mean + (columns @ self.weights.unsqueeze(-1)).squeeze(-1)
        explained = ((columns @ self.gamma) * columns).sum(-1)
        return mean, (prior_variance - explained).clamp_min(0.0)


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
        The representer, differentiable with respect to the system's ``covariance`` and
        ``prior_latent``.
    """
    assert isinstance(system, ExactSystem)  # other kinds are registered
    mode = find_mode(system, start=start)
    weights, gamma = _Posterior.apply(
        system.covariance, system.prior_latent, system, mode, variance_weight
    )
    return LaplacePosterior(system, weights, gamma, mode)


class _Posterior(Function):
    @staticmethod
    def forward(
        ctx: Any,
        covariance: Tensor,
        prior_latent: Tensor,
        system: ExactSystem,
        mode: LaplaceMode,
        variance_weight: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        _, curvature = system.observations.derivatives(mode.latent)
        factor = system.factor(curvature if variance_weight is None else variance_weight)
        gamma = factor.gamma()
        # An output kept on the context would be a cycle, and stay until collected.
        ctx.save_for_backward(gamma)
        ctx.system, ctx.mode = system, mode
        ctx.curvature, ctx.factor = curvature, factor
        ctx.answer_free = variance_weight is not None
        ctx.shapes = covariance.shape, prior_latent.shape
        return system.incidence.adjoint(mode.weights).clone(), gamma

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives()
        grad_weights, grad_gamma = grads
        system, (gamma,) = ctx.system, ctx.saved_tensors
        factor = system.factor(ctx.curvature) if ctx.answer_free else ctx.factor
        grad_gamma = 0.5 * (grad_gamma + grad_gamma.transpose(-1, -2))
        curvature = ctx.curvature
        moved = -curvature.apply(system.incidence.apply(grad_weights))
        if not ctx.answer_free:
            shrink = -system.covariance @ gamma
            shrink.diagonal(dim1=-2, dim2=-1).add_(1.0)
            inner = shrink @ grad_gamma @ shrink.transpose(-1, -2)
            marginals = curvature.marginals_of(system.incidence, inner)
            moved = moved - curvature.contract(marginals)
        moved = factor.solve_adjoint(moved)
        alpha = system.incidence.adjoint(ctx.mode.weights)
        grad_covariance = symmetric_outer(system.incidence.adjoint(moved), alpha)
        grad_covariance = grad_covariance - gamma @ grad_gamma @ gamma
        covariance_shape, latent_shape = ctx.shapes
        return (
            grad_covariance.sum_to_size(covariance_shape),
            moved.sum_to_size(latent_shape),
            None,
            None,
            None,
        )
