r"""The search for hyperparameters where what annotators differ in is learnt, too.

BoTorch's search by L-BFGS-B counts on parameters in which an evidence is about equally curved. In
the offsets of people that grows with their answers, and so does that in the typical offset with all
answers, while the answers say next to nothing of lapses: unscaled, a search among a hundred
parameters takes two to three times as many evaluations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from botorch.optim.closures import get_loss_closure_with_grads
from botorch.optim.core import OptimizationResult
from botorch.optim.fit import fit_gpytorch_mll_scipy
from gpytorch.mlls import MarginalLogLikelihood
from torch import Tensor

from botorch_pref.models.answer_parameters import AnnotatorEffects

Closure = Callable[[], tuple[Tensor, Sequence[Tensor | None]]]
_MEMORY = {"maxcor": 50}  # steps, of many parameters


def search_by_steps(
    mll: MarginalLogLikelihood,
    closure: Closure | None = None,
    *,
    effects: AnnotatorEffects,
    count: Tensor,
    options: dict[str, Any] | None = None,
    **kwargs: Any,
) -> OptimizationResult:
    r"""BoTorch's search, in which parameters of annotators move by :meth:`AnnotatorEffects.moves`.

    Args:
        mll: What is maximised.
        closure: Evaluates loss and gradients of all parameters that require one.
        effects: Those parameters of its model that annotators have.
        count: ``... x A``-dim numbers of answers of the annotators.
        options: Of SciPy's method.
        **kwargs: Of BoTorch's ``fit_gpytorch_mll_scipy``.

    Returns:
        BoTorch's result.
    """
    parameters = {name: p for name, p in mll.named_parameters() if p.requires_grad}
    own = {id(p): name for name, p in effects.named_parameters()}
    start = {name: p.detach().clone() for name, p in parameters.items() if id(p) in own}
    sought = {
        name: torch.zeros_like(p, requires_grad=True) if name in start else p
        for name, p in parameters.items()
    }
    steps = [sought[name] for name in start]
    evaluate = closure or get_loss_closure_with_grads(mll, parameters)

    def move() -> list[Tensor]:
        named = {own[id(parameters[name])]: sought[name] for name in start}
        with torch.enable_grad():
            moves = [*effects.moves(named, count).values()]
        with torch.no_grad():
            for (name, value), change in zip(start.items(), moves, strict=True):
                parameters[name].copy_(value + change)
        return moves

    def by_steps() -> tuple[Tensor, list[Tensor | None]]:
        moves = move()
        loss, found = evaluate()
        slopes = dict(zip(parameters, found, strict=True))
        own_slopes = torch.autograd.grad(moves, steps, [slopes[name] for name in start])
        slopes.update(zip(start, own_slopes, strict=True))
        return loss, [*slopes.values()]

    options = _MEMORY | (options or {})
    result = fit_gpytorch_mll_scipy(mll, sought, closure=by_steps, options=options, **kwargs)
    move()
    return result
