r"""Maximisation where items are constrained by a slack."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.generation import gen_candidates_scipy
from botorch.optim import optimize_acqf
from torch import Tensor

from botorch_pref._memory import keep_pages
from botorch_pref.exceptions import SearchSpaceError

# How much of a step that left the feasible set is taken back: the end is often just outside.
_BACKTRACKS = (0.0, 1e-6, 1e-4, 1e-2, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
_RESTARTS, _KNOWN_RESTARTS = 4, 2
_CONSTRAINED_RESTARTS = 8  # a constraint cuts what is promising into pieces
_RAW_CHUNK = 128  # what random features of so many items take stays in the cache
ROUNDING = 1e-9  # of a slack

Feasible = Callable[[Tensor], Tensor]
"""The slack of items, at least 0 where they are feasible.

That of ``... x d``-dim items is ``...``-dim.
"""


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
    found = (feasible(items) >= -ROUNDING).all(dim=-1)
    if not bool(found.any()):
        raise SearchSpaceError("`feasible` holds at none of the starting points.")
    return found


def feasible_rows(feasible: Feasible, table: Tensor, rows: Tensor) -> Tensor:
    """Those of ``k x q``-dim rows of a table whose items are all feasible; as above."""
    found = rows[all_feasible(feasible, table.unsqueeze(-2))[rows].all(-1)]
    if not len(found):
        raise SearchSpaceError(f"`feasible` holds at less than {rows.shape[-1]} of the choices.")
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
    slacks = [feasible for feasible, _ in nonlinear_inequality_constraints]
    return led_back(acquisition_function, slacks, initial_conditions, ends)


def refine(
    acq_function: AcquisitionFunction,
    bounds: Tensor,
    starts: Tensor,
    options: dict[str, Any] | None,
    feasible: Feasible | None,
) -> tuple[Tensor, Tensor]:
    r"""The best of local searches, all of them at once as long as no constraint is met.

    Only from where that led outside, and to more than the best feasible end, another search
    follows, by SLSQP, which takes its starts one after the other.

    Args:
        acq_function: The rule.
        bounds: ``2 x d``-dim box.
        starts: ``b x q x d``-dim starts, feasible ones.
        options: Passed to BoTorch's candidate generation.
        feasible: The slack of items, if they are constrained.

    Returns:
        ``q x d``-dim items, and the rule's value there.
    """
    search = partial(_search, acq_function, bounds, options)
    ends, values = search(starts)
    if feasible is not None:
        ends, values, again = _within(acq_function, feasible, starts, ends, values)
        if len(again):
            constraint = {"nonlinear_inequality_constraints": [(feasible, True)]}
            found = search(again, gen_candidates=feasible_candidates, **constraint)
            ends, values = torch.cat([ends, found[0]]), torch.cat([values, found[1]])
    best = values.argmax()
    return ends[best], values[best]


def _search(
    acq_function: AcquisitionFunction,
    bounds: Tensor,
    options: dict[str, Any] | None,
    starts: Tensor,
    **further: Any,
) -> tuple[Tensor, Tensor]:
    """BoTorch's local search from each of ``b x q x d``-dim starts."""
    ends, values = optimize_acqf(
        acq_function,
        bounds,
        q=starts.shape[-2],
        num_restarts=len(starts),
        batch_initial_conditions=starts,
        options=options,
        return_best_only=False,
        # The starts were chosen: BoTorch has none to try anew where a line search ends at a
        # kink, and would only warn.
        retry_on_optimization_warning=False,
        **further,
    )
    return ends, torch.as_tensor(values)


@torch.no_grad()
def _within(
    rule: AcquisitionFunction,
    feasible: Feasible,
    starts: Tensor,
    ends: Tensor,
    values: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Free ends, those outside led back; their values; and where to search along the border."""
    outside = (feasible(ends) < -ROUNDING).any(dim=-1)
    if not bool(outside.any()):
        return ends, values, ends[:0]
    led, least = led_back(rule, [feasible], starts[outside], ends[outside])
    # What is found without the constraint bounds what lies near it; but a search that jumped to a
    # worse end may have crossed the best of all.
    most = torch.maximum(values[outside], least)
    ends, values = torch.cat([ends[~outside], led]), torch.cat([values[~outside], least])
    return ends, values, led[most >= values.max()]


@torch.no_grad()
def promising(
    rule: AcquisitionFunction,
    bounds: Tensor,
    raw: Tensor,
    known: Tensor,
    number: int | None,
    feasible: Feasible | None,
) -> Tensor:
    r"""Where searches start.

    Args:
        rule: The rule.
        bounds: ``2 x d``-dim box.
        raw: ``n x q x d``-dim sample.
        known: ``k x q x d``-dim items that may be good.
        number: How many are wanted; 4, or 8 with ``feasible``.
        feasible: The slack of items, if they are constrained.

    Returns:
        At most so many of the items, feasible ones. Without a constraint and a number, two of the
        known ones are added: were the best of all taken, these would soon be crowded around
        one that was asked, and in many dimensions the search would be a local one.
    """
    keep_pages()  # for what follows
    if feasible is None and number is None and len(raw) and len(known):
        parts = ((raw, _RESTARTS), (known, _KNOWN_RESTARTS))
        return torch.cat([_best_of(rule, items, size) for items, size in parts])
    items = torch.cat([raw, known])
    if feasible is None:
        return _best_of(rule, items, number or _RESTARTS)
    items = items[all_feasible(feasible, items)]
    return items[spread(_values(rule, items), items, bounds, number or _CONSTRAINED_RESTARTS)]


def _best_of(rule: AcquisitionFunction, items: Tensor, number: int) -> Tensor:
    return items[_values(rule, items).topk(min(number, len(items))).indices]


def _values(rule: AcquisitionFunction, items: Tensor) -> Tensor:
    return torch.cat([rule(part) for part in items.split(_RAW_CHUNK)])


def spread(values: Tensor, items: Tensor, bounds: Tensor, number: int) -> Tensor:
    r"""Which items searches should start from: peaks first, lest all stand at the same one.

    Args:
        values: The rule's ``n`` values.
        items: ``n x q x d``-dim items.
        bounds: ``2 x d``-dim box.
        number: How many are wanted.

    Returns:
        At most ``number`` rows: those none of whose nearest neighbours is better, best first, and
        then the others.
    """
    unit = ((items - bounds[0]) / (bounds[1] - bounds[0])).flatten(start_dim=1)
    count = min(2 * unit.shape[-1] + 1, len(unit))
    nearest = torch.cdist(unit, unit).topk(count, largest=False).indices
    peaks = values >= values[nearest].amax(dim=-1)
    order = values.argsort(descending=True)
    return order[peaks[order].long().argsort(descending=True, stable=True)][:number]


@torch.no_grad()
def led_back(
    rule: AcquisitionFunction, slacks: list[Feasible], starts: Tensor, ends: Tensor
) -> tuple[Tensor, Tensor]:
    r"""The best feasible items on the ways from where searches ended to their feasible starts.

    Args:
        rule: The rule.
        slacks: The constraints.
        starts: ``b x q x d``-dim feasible starts.
        ends: ``b x q x d``-dim ends, feasible or not.

    Returns:
        ``b x q x d``-dim items, and the rule's ``b`` values.
    """
    back = ends.new_tensor(_BACKTRACKS)[:, None, None, None]
    path = torch.lerp(ends, starts, back)
    values = rule(path.flatten(end_dim=1)).view(path.shape[:2])
    for feasible in slacks:
        outside = (feasible(path[:-1]) < -ROUNDING).any(dim=-1)
        values[:-1] = values[:-1].masked_fill(outside, -torch.inf)
    best = values.max(dim=0)
    return path[best.indices, torch.arange(path.shape[1])], best.values
