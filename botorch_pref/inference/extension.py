r"""A posterior that a few answers are added to, from the one before.

Notation as in :mod:`botorch_pref.inference.systems`; ``E`` picks the rows ``c`` that say something
new.
The former posterior is their prior: with the Hessian of the former rows, ``T = (I + W P)^-1 E``,

* their latent values have covariance ``E^T P T`` and take the weights ``a_c`` of a mode of their
  own, in as many dimensions, and all weights move by ``T a_c``, which is where Newton starts; of
  Laplace's ``Gamma`` there is no need to factor that Hessian, as ``P T = (P - P Gamma P) E``;
* with further curvature ``w_c`` an answer-free ``Gamma`` moves by one rank for each of these rows,
  by ``V (diag(1 / w_c) + E^T G C V)^-1 V^T`` with ``V = (I - Gamma C) G^T E``.

A root of the prior covariance gets rows by a triangular solve.
"""

from __future__ import annotations

import torch
from linear_operator import to_linear_operator
from torch import Tensor
from torch.linalg import solve_triangular

from botorch_pref.inference.incidence import complement
from botorch_pref.inference.inducing import some_rows
from botorch_pref.inference.mode import find_mode
from botorch_pref.inference.news import News, news_of
from botorch_pref.inference.observations import Observations
from botorch_pref.inference.posterior import LaplacePosterior, laplace_posterior
from botorch_pref.inference.systems import (
    DualSystem,
    ExactSystem,
    PrimalSystem,
    choose_system,
    matvec,
    preferred_system,
    prior_root,
)

_PATIENCE = 0.3
_CANCELLED = 1e3  # times the rounding error of a variance, which must be left of it
_MOST_LOST = 4  # roundings an item, of a correlation by a root
_LEAST_LEFT = 64  # of a prior variance, in roots of the rounding unit, to update a covariance


@torch.no_grad()
def extend(
    former: LaplacePosterior,
    item_covariance: Tensor,
    prior_latent: Tensor,
    observations: Observations,
    rows: Tensor,
    items: Tensor,
    variance_weight: Tensor | None = None,
) -> LaplacePosterior:
    r"""What predictions need after further answers, as :func:`laplace_posterior` finds it anew.

    The prior of former items and the likelihood of former answers must be the same as before.

    Args:
        former: The representer before, without a batch; it is left as it is.
        item_covariance: ``n x n``-dim prior covariance of the items.
        prior_latent: ``m``-dim prior mean of the latent values.
        observations: All observations, of all items.
        rows: Where the ``m0`` former rows are among the rows.
        items: Where the ``n0`` former items are among the items, in order.
        variance_weight: As in :func:`laplace_posterior`; proportional to the weights of the rows.

    Returns:
        The representer, which carries no graph.
    """
    before = former.system
    assert isinstance(before, ExactSystem)  # others are not extended
    system = _grown_system(before, item_covariance, prior_latent, observations, rows, items)
    news, wide = news_of(before.observations, observations, rows), None
    if news is None:
        return laplace_posterior(system, variance_weight)
    if type(system) is type(before):
        wide = _padded(former.gamma, rows if isinstance(system, DualSystem) else items, system)
    system.patience = _PATIENCE
    at_mode = wide if variance_weight is None else None
    mode = find_mode(system, start=_start(former, system, rows, news, at_mode))
    system.forget()
    gamma = None
    if variance_weight is None:
        _, variance_weight, _ = observations.derivatives(mode.latent)
    elif wide is not None:
        picked = system.map.adjoint(_picks(system, news.rows))
        further = further_weight(variance_weight, observations, news)
        gamma = grown_gamma(wide, picked, picked @ system.covariance, further)
    gamma = system.factor(variance_weight).gamma() if gamma is None else gamma
    return LaplacePosterior(system, system.map.adjoint(mode.weights), gamma, mode)


def bordered(former: Tensor, kept: Tensor, new: Tensor, cross: Tensor, corner: Tensor) -> Tensor:
    r"""A symmetric matrix of which a part is known.

    Args:
        former: ``n0 x n0``-dim known part.
        kept: ``n0``-dim positions of its rows, ascending.
        new: ``k``-dim positions of the other rows, ascending.
        cross: ``k x n0``-dim part of these rows.
        corner: ``k x k``-dim part of these rows.

    Returns:
        The ``(n0 + k) x (n0 + k)``-dim matrix.
    """
    if not len(new):
        return former
    whole = torch.cat([torch.cat([former, cross], -2), torch.cat([cross, corner], -1).mT], -1)
    if bool(new[0] == len(former)):
        return whole
    order = torch.cat([kept, new]).argsort()
    return whole[order][:, order]


def _grown_system(
    before: ExactSystem,
    item_covariance: Tensor,
    prior_latent: Tensor,
    observations: Observations,
    rows: Tensor,
    items: Tensor,
) -> ExactSystem:
    """The system of all observations, from the former one where it is of the same kind."""
    if not isinstance(before, preferred_system(observations)):
        return choose_system(item_covariance, prior_latent, observations)
    tensors = {"prior_latent": prior_latent, "covariance": item_covariance}
    if isinstance(before, PrimalSystem):
        order = torch.arange(len(items), device=items.device)
        order = order if before.order is None else before.order
        tensors["root"], tensors["order"] = _grown_root(before.root, order, item_covariance, items)
    else:
        new = complement(rows, observations.num_rows)
        gram = before.covariance
        if len(new):
            fresh = some_rows(observations, new).map.rows(item_covariance)
            block = observations.map.columns(fresh)
            gram = bordered(gram, rows, new, block[:, rows], block[:, new])
        tensors["covariance"] = gram
    return before.replaced(observations, tensors)


def _start(
    former: LaplacePosterior,
    system: ExactSystem,
    rows: Tensor,
    news: News,
    gamma: Tensor | None,
) -> Tensor:
    """Weights near those of the mode; ``gamma`` of the former mode's own curvature, if known."""
    changed = news.rows
    known, curvature = system.prior_latent.new_zeros(2, system.observations.num_rows)
    known[rows] = former.mode.weights
    curvature[rows] = former.system.observations.derivatives(former.mode.latent)[1]
    picks = _picks(system, changed)
    spread = None if gamma is None else _explained(system, gamma, picks, changed)
    if spread is None:
        moves = system.factor(curvature).solve_adjoint(picks)
        spread = _latent(system, moves)
    else:
        moves = picks - curvature * spread
    covariance = spread[:, changed]
    latent = (system.prior_latent + _latent(system, known))[changed]
    found = find_mode(DualSystem(0.5 * (covariance + covariance.mT), latent, news.observations))
    return known + found.weights @ moves


def _explained(system: ExactSystem, gamma: Tensor, picks: Tensor, changed: Tensor) -> Tensor | None:
    """``(P - P Gamma P) E``, by rows; None if too many digits would be lost."""
    columns = system.map.adjoint(picks) @ system.covariance
    prior = system.map.apply(columns)
    spread = prior - system.map.apply(columns @ gamma @ system.covariance)
    before, left = (part[:, changed].diagonal() for part in (prior, spread))
    rounding = torch.finfo(spread.dtype).eps * before.square()
    return None if bool((left <= _CANCELLED * rounding).any()) else spread


def _picks(system: ExactSystem, changed: Tensor) -> Tensor:
    """``E^T``: one row for each of some rows of a system."""
    picks = system.prior_latent.new_zeros(len(changed), system.observations.num_rows)
    return picks.scatter_(-1, changed.unsqueeze(-1), 1.0)


def _latent(system: ExactSystem, weights: Tensor) -> Tensor:
    """``P a``."""
    return system.map.apply(matvec(system.covariance, system.map.adjoint(weights)))


def further_weight(variance_weight: Tensor, observations: Observations, news: News) -> Tensor:
    """``k``-dim share of the rows' answer-free curvature that is new."""
    gain, rows = news.observations.weight, news.rows
    return variance_weight[rows] * gain / observations.weight[rows]


def grown_gamma(gamma: Tensor, picked: Tensor, columns: Tensor, further: Tensor) -> Tensor | None:
    r"""``Gamma`` after further curvature of some rows, by one rank each.

    Args:
        gamma: ``s x s``-dim ``Gamma`` before.
        picked: ``k x s``-dim rows ``E^T G`` of the system's map.
        columns: ``k x s``-dim ``E^T G C``.
        further: ``k``-dim curvature that these rows gain.

    Returns:
        ``s x s``-dim ``Gamma``; ``None`` if too many digits would be lost.
    """
    moved = picked - columns @ gamma
    inner = torch.diag(further.reciprocal()) + columns @ moved.mT
    root, info = torch.linalg.cholesky_ex(inner)
    # What is left of prior variances: the rest cancelled.
    left = inner.diagonal() / (columns * picked).sum(-1)
    least = _LEAST_LEFT * torch.finfo(gamma.dtype).eps ** 0.5
    if bool((info > 0) | (left < least).any()):
        return None
    half = solve_triangular(root, moved, upper=False)
    return gamma + half.mT @ half


def _padded(gamma: Tensor, kept: Tensor, system: ExactSystem) -> Tensor:
    """``Gamma`` with zeros for the coordinates that are new."""
    new = complement(kept, len(system.covariance))
    none = gamma.new_zeros(len(new), len(gamma) + len(new))
    return bordered(gamma, kept, new, *none.tensor_split([len(gamma)], dim=-1))


def _grown_root(
    root: Tensor, order: Tensor, covariance: Tensor, items: Tensor
) -> tuple[Tensor, Tensor]:
    """A root of a covariance, by new rows of the one of former items where that is right.

    New items may come between former ones: ``order`` is that of rows in which a root is triangular.
    An item that others determine has a row, but no column and no place in this order.
    """
    if len(root) == len(covariance):
        return root, order
    # In correlations, as items may have other units than values.
    scale = covariance.diagonal().sqrt()
    scale = torch.where(scale > 0, scale, 1.0)
    unit = covariance / scale / scale.unsqueeze(-1)
    floor = len(unit) * torch.finfo(unit.dtype).eps
    found = _with_rows(root / scale[items].unsqueeze(-1), order, unit, items, floor)
    found = _pivoted_root(unit, floor) if found is None else found
    if found is not None:
        return scale.unsqueeze(-1) * found[0], found[1]
    return prior_root(covariance), torch.arange(len(covariance), device=order.device)


def _with_rows(
    root: Tensor, order: Tensor, unit: Tensor, items: Tensor, floor: float
) -> tuple[Tensor, Tensor] | None:
    """A root of correlations, from that of some items; ``None`` if it is lost in rounding."""
    triangle, known, new = root[order], items[order], complement(items, len(unit))
    regular = torch.equal(triangle, triangle.tril())
    if not regular or bool((triangle.diagonal().square() <= floor).any()):
        return None
    row = solve_triangular(triangle, unit[known][:, new], upper=False).mT
    left = unit[new][:, new] - row @ row.mT
    corner, info = torch.linalg.cholesky_ex(left)
    own = torch.arange(len(new), device=new.device)
    if bool((info > 0) | (corner.diagonal().square() <= floor).any()):
        found = _pivoted_root(left, floor)
        corner, own = (left[:, :0], own[:0]) if found is None else found
    grown = root.new_zeros(len(unit), root.shape[-1] + corner.shape[-1])
    grown[items, : root.shape[-1]] = root
    grown[new] = torch.cat([row, corner], -1)
    return _checked(grown, torch.cat([known, new[own]]), unit, new, floor)


def _pivoted_root(matrix: Tensor, floor: float) -> tuple[Tensor, Tensor] | None:
    """A root of as few columns as leave rounding errors alone; ``None`` if it has no column."""
    root, pivots = to_linear_operator(matrix).pivoted_cholesky(len(matrix), floor, True)
    order = pivots[: root.shape[-1]]
    # It ends by the sum of what is left, which can be of either sign: the last may be no numbers.
    rank = int((root[order].diagonal().square() > floor).sum())
    if not rank:
        return None
    return _checked(root[:, :rank], order[:rank], matrix, slice(None), floor)


def _checked(
    root: Tensor, order: Tensor, matrix: Tensor, rows: Tensor | slice, floor: float
) -> tuple[Tensor, Tensor] | None:
    """A root and its order, if it is one in some rows; ``None`` if not."""
    error = (root[rows] @ root.mT - matrix[rows]).abs().amax()
    return (root, order) if bool(error <= _MOST_LOST * floor) else None
