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
from botorch_pref.inference.factors import solve_vector
from botorch_pref.inference.implicit import represent
from botorch_pref.inference.inducing import InducingFactor, InducingSide
from botorch_pref.inference.inducing_rows import ItemKernel
from botorch_pref.inference.mode import find_mode
from botorch_pref.inference.news import News, news_of
from botorch_pref.inference.observations import Observations
from botorch_pref.inference.predict import Representer
from botorch_pref.inference.sides import AnswerSide


@torch.no_grad()
def extend_through_inducing_items(
    former: Representer,
    kernel: ItemKernel,
    prior_latent: Tensor,
    observations: Observations,
    rows: Tensor,
    items: Tensor,
    variance_weight: Tensor | None = None,
) -> Representer:
    r"""What predictions need after further answers, as :func:`represent` finds it anew.

    Args:
        former: The representer before, through the same inducing items; it is left as it is.
        kernel: The covariances of all items, which were the same before.
        prior_latent: ``m``-dim prior mean of the latent values.
        observations: All observations, of all items.
        rows: Where the ``m0`` former rows are among the rows.
        items: Where the ``n0`` former items are among the items, in order.
        variance_weight: As in :func:`represent`; proportional to the weights of the rows.

    Returns:
        The representer.
    """
    before = former.side
    assert isinstance(before, InducingSide)
    side = before.grown(kernel, prior_latent, observations, rows, items)
    news = news_of(before.observations, observations, rows)
    held = before.held
    if news is None or held is None:
        return represent(side, variance_weight, start=former.weights)
    design = side.some_design(news.rows)
    start, hessian = _start(former.weights, held, side, news, design)
    side.hold(hessian)
    if variance_weight is None:
        return represent(side, start=start)
    further = further_weight(variance_weight, observations, news)
    gamma = grown_gamma(former.gamma, design, design, further)
    if gamma is None:
        return represent(side, variance_weight, start=start)
    side.tighten()
    mode = find_mode(side, start=start)
    return Representer(side, mode.weights, gamma, mode)


def _start(
    z: Tensor, held: Tensor, side: InducingSide, news: News, design: Tensor
) -> tuple[Tensor, Tensor]:
    """Coordinates near the mode, and the factor of a Hessian there."""
    half = solve_triangular(held, design.mT, upper=False)
    latent = side.prior_latent[news.rows] + design @ z
    found = find_mode(AnswerSide(half.mT @ half, latent, news.observations))
    move = solve_vector(held, design.mT @ found.weights)
    _, curvature, _ = news.observations.derivatives(found.latent)
    hessian = InducingFactor(held).hessian() + design.mT @ (curvature.unsqueeze(-1) * design)
    return z + move, torch.linalg.cholesky_ex(hessian).L
