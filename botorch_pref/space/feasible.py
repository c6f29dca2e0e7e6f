r"""Maximisation where items are constrained by a slack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.generation import gen_candidates_scipy
from torch import Tensor

from botorch_pref.exceptions import SearchSpaceError

# How much of a step that left the feasible set is taken back: the end is often just outside.
_BACKTRACKS = (0.0, 1e-6, 1e-4, 1e-2, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
_ROUNDING = 1e-9  # of a slack

# Slack of ``... x d`` items, ``...``-dim: at least 0 where they are feasible.
Feasible = Callable[[Tensor], Tensor]


def all_feasible(feasible: Feasible | None, items: Tensor) -> Tensor:
    r"""Which of ``b x q x d`` sets of items are feasible.

    Args:
        feasible: The slack of items; ``None`` if there is no constraint.
        items: The items.

    Returns:
        A ``b``-dim mask.

    Raises:
        SearchSpaceError: If none is.
    """
    if feasible is None:
        return torch.ones(len(items), dtype=torch.bool, device=items.device)
    found = (feasible(items) >= -_ROUNDING).all(dim=-1)
    if not bool(found.any()):
        raise SearchSpaceError("`feasible` holds at none of the starting points.")
    return found


class _Remembered:
    """A slack of single items: BoTorch asks for value and gradient one after the other."""

    def __init__(self, feasible: Feasible) -> None:
        self.feasible = feasible
        self.known: dict[tuple[float, ...], tuple[Tensor, Tensor]] = {}

    def __call__(self, item: Tensor) -> Tensor:
        at = item.detach()
        key = tuple(at.tolist())
        if key not in self.known:
            point = at.clone().requires_grad_()
            with torch.enable_grad():
                value = self.feasible(point)
                gradient = torch.autograd.grad(value, point)[0]
            self.known[key] = value.detach(), gradient
        value, gradient = self.known[key]
        return value + (item - at) @ gradient


def feasible_candidates(
    initial_conditions: Tensor,
    acquisition_function: AcquisitionFunction,
    *,
    nonlinear_inequality_constraints: list[tuple[Feasible, bool]],
    **kwargs: Any,
) -> tuple[Tensor, Tensor]:
    r"""BoTorch's candidates, each led back towards its start until it is feasible.

    SLSQP may end outside, most often when its iterations are used up.

    Args:
        initial_conditions: ``b x q x d``-dim feasible starts.
        acquisition_function: The rule.
        nonlinear_inequality_constraints: Slacks of single items, in BoTorch's form.
        **kwargs: As for ``gen_candidates_scipy``.

    Returns:
        ``b x q x d``-dim items, no worse than where they started, and the rule's ``b`` values.
    """
    remembered: list[tuple[Feasible, bool]] = [
        (_Remembered(one), intra) for one, intra in nonlinear_inequality_constraints
    ]
    ends, _ = gen_candidates_scipy(
        initial_conditions,
        acquisition_function,
        nonlinear_inequality_constraints=remembered,
        **kwargs,
    )
    back = ends.new_tensor(_BACKTRACKS)[:, None, None, None]
    with torch.no_grad():
        path = torch.lerp(ends, initial_conditions, back)
        values = acquisition_function(path.flatten(end_dim=1)).view(path.shape[:2])
        for feasible, _ in nonlinear_inequality_constraints:
            outside = (feasible(path[:-1]) < -_ROUNDING).any(dim=-1)
            values[:-1] = values[:-1].masked_fill(outside, -torch.inf)
        best = values.max(dim=0)
    return path[best.indices, torch.arange(path.shape[1])], best.values
