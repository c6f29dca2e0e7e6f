r"""Answers that are added to a posterior through inducing items, which stay.

Notation as in :mod:`botorch_pref.inference.inducing`; ``D_c`` are the rows that say something new.
The former posterior is their prior: their latent values have covariance ``D_c M^-1 D_c^T`` and
take weights ``a_c`` in as many dimensions, by which ``z`` moves by ``M^-1 D_c^T a_c``. There Newton
starts, by ``M + D_c^T diag(w_c) D_c``. Rows of ``D`` that are stored are not computed again.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.linalg import solve_triangular

from botorch_pref.inference.extension import further_weight, grown_gamma
from botorch_pref.inference.inducing import InducingFactor, InducingSystem, ItemKernel
from botorch_pref.inference.mode import find_mode
from botorch_pref.inference.news import News, news_of
from botorch_pref.inference.observations import Observations
from botorch_pref.inference.posterior import LaplacePosterior, laplace_posterior
from botorch_pref.inference.systems import DualSystem, solve_vector


@torch.no_grad()
def extend_through_inducing_items(
    former: LaplacePosterior,
    kernel: ItemKernel,
    prior_latent: Tensor,
    observations: Observations,
    rows: Tensor,
    items: Tensor,
    variance_weight: Tensor | None = None,
) -> LaplacePosterior:
    r"""What predictions need after further answers, as :func:`laplace_posterior` finds it anew.

    Args:
        former: The representer before, through the same inducing items; it is left as it is.
        kernel: The covariances of all items, which were the same before.
        prior_latent: ``m``-dim prior mean of the latent values.
        observations: All observations, of all items.
        rows: Where the ``m0`` former rows are among the rows.
        items: Where the ``n0`` former items are among the items, in order.
        variance_weight: As in :func:`laplace_posterior`; proportional to the weights of the rows.

    Returns:
        The representer.
    """
    before = former.system
    assert isinstance(before, InducingSystem)
    system = before.grown(kernel, prior_latent, observations, rows, items)
    news = news_of(before.observations, observations, rows)
    held = before.held
    if news is None or held is None:
        return laplace_posterior(system, variance_weight, start=former.weights)
    design = system.some_design(news.rows)
    start, hessian = _start(former.weights, held, system, news, design)
    system.hold(hessian)
    if variance_weight is None:
        return laplace_posterior(system, start=start)
    further = further_weight(variance_weight, observations, news)
    gamma = grown_gamma(former.gamma, design, design, further)
    if gamma is None:
        return laplace_posterior(system, variance_weight, start=start)
    system.tighten()
    mode = find_mode(system, start=start)
    return LaplacePosterior(system, mode.weights, gamma, mode)


def _start(
    z: Tensor, held: Tensor, system: InducingSystem, news: News, design: Tensor
) -> tuple[Tensor, Tensor]:
    """Coordinates near the mode, and the factor of a Hessian there."""
    half = solve_triangular(held, design.mT, upper=False)
    latent = system.prior_latent[news.rows] + design @ z
    found = find_mode(DualSystem(half.mT @ half, latent, news.observations))
    move = solve_vector(held, design.mT @ found.weights)
    _, curvature, _ = news.observations.derivatives(found.latent)
    hessian = InducingFactor(held).hessian() + design.mT @ (curvature.unsqueeze(-1) * design)
    return z + move, torch.linalg.cholesky_ex(hessian).L
