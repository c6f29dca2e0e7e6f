r"""Local searches for the largest value of a rule, from chosen starting points.

On a box of real numbers BoTorch's ``optimize_acqf`` refines all starts at once. Over whole
numbers, categories, log scales and linear constraints, moves of whole numbers and categories
alternate with its search over the real numbers. BoTorch's own alternation
(``optimize_acqf_mixed_alternating``) takes no starts, no equality of whole numbers and no slack of
items, and rounds whole numbers of more than 20 values after the search.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.generation import gen_candidates_scipy
from botorch.generation.gen import get_reasons_against_fast_path
from botorch.optim import optimize_acqf
from torch import Tensor

from botorch_pref.exceptions import SearchSpaceError
from botorch_pref.space.parameters import Parameters
from botorch_pref.space.polytope import Polytope

# How much of a step that left the feasible set is taken back: the end is often just outside.
_BACKTRACKS = (0.0, 1e-6, 1e-4, 1e-2, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
_RESTARTS, _KNOWN_RESTARTS = 4, 2
_CONSTRAINED_RESTARTS = 8  # a constraint separates good regions from each other
_RAW_CHUNK = 512  # beyond, what random features of so many items take leaves the cache
_FEASIBLE_CHUNK = 4096
_ROUNDING = 1e-9  # of a slack, and of a value
_ROUNDS = 3  # of moves and a line search
_MOVES = 16
_GAIN = 1e-8
_OF_SLSQP = ("maxiter", "ftol")  # of the options of L-BFGS-B
_STRIDES = (4, 16)  # whole numbers also move by the range divided by these

Feasible = Callable[[Tensor], Tensor]
"""The slacks of items, at least 0 where these are feasible; takes ``n x d``-dim items."""


def all_feasible(feasible: Feasible, items: Tensor) -> Tensor:
    """A ``b``-dim mask of the feasible among ``b x q x d`` sets of items; raises if empty."""
    slacks = torch.cat([feasible(part) for part in items.split(_FEASIBLE_CHUNK)])
    found = (slacks >= -_ROUNDING).all(dim=-1)
    if not bool(found.any()):
        raise SearchSpaceError("`feasible` holds at none of the starting points.")
    return found


@torch.no_grad()
def starting_points(
    rule: AcquisitionFunction,
    bounds: Tensor,
    raw: Tensor,
    known: Tensor,
    number: int | None,
    feasible: Feasible | None,
) -> Tensor:
    r"""The best feasible ones of ``n x q x d`` raw and known items, at most ``number`` (4, or 8).

    Without a constraint and a number these are four raw and two known ones: the best of all would
    soon be crowded around one item that was asked, and the search would be a local one.
    """

    def values(items: Tensor) -> Tensor:
        return torch.cat([rule(part) for part in items.split(_RAW_CHUNK)])

    def best_of(items: Tensor, size: int) -> Tensor:
        return items[best_first(values(items))[:size]]

    if feasible is None and number is None and len(raw) and len(known):
        return torch.cat([best_of(raw, _RESTARTS), best_of(known, _KNOWN_RESTARTS)])
    items = torch.cat([raw, known])
    if feasible is None:
        return best_of(items, number or _RESTARTS)
    items = items[all_feasible(feasible, items)]
    return items[peaks_first(values(items), items, bounds, number or _CONSTRAINED_RESTARTS)]


def peaks_first(values: Tensor, items: Tensor, bounds: Tensor, number: int) -> Tensor:
    """Rows of items, those first that are no worse than their nearest neighbours, best first."""
    unit = ((items - bounds[0]) / (bounds[1] - bounds[0])).flatten(start_dim=1)
    count = min(2 * unit.shape[-1] + 1, len(unit))
    nearest = torch.cdist(unit, unit).topk(count, largest=False).indices
    peaks = values >= values[nearest].amax(dim=-1)
    order = best_first(values)
    return order[peaks[order].long().argsort(descending=True, stable=True)][:number]


def refine(
    rule: AcquisitionFunction,
    bounds: Tensor,
    starts: Tensor,
    options: dict[str, Any] | None,
    feasible: Feasible | None,
) -> tuple[Tensor, Tensor]:
    r"""The best ``q x d`` end of searches in a box from ``b x q x d`` feasible starts, its value.

    Infeasible ends are moved back towards their starts; a search by SLSQP follows from those that
    may still lead to more than the best feasible end.
    """
    ends, values = _local_search(rule, bounds, starts, options)
    if feasible is not None:
        with torch.no_grad():
            outside = (feasible(ends) < -_ROUNDING).any(dim=-1)
        if bool(outside.any()):
            inside, least = _backtrack(rule, feasible, starts[outside], ends[outside])
            # The value of an infeasible end bounds what lies near it; but a search that jumped to
            # a worse end may have crossed the best of all.
            most = torch.maximum(values[outside], least)
            ends = torch.cat([ends[~outside], inside])
            values = torch.cat([values[~outside], least])
            again = inside[most >= values.max()]
            if len(again):
                found = _local_search(
                    rule,
                    bounds,
                    again,
                    options,
                    gen_candidates=_feasible_candidates,
                    nonlinear_inequality_constraints=[(feasible, True)],
                )
                ends, values = torch.cat([ends, found[0]]), torch.cat([values, found[1]])
    best = best_first(values)[0]
    return ends[best], values[best]


def best_first(values: Tensor) -> Tensor:
    """Positions of ``... x k``-dim values, the largest first; those of ties in their order.

    Values that differ by rounding alone are ties, as it is another one on every device.
    """
    size = values.abs().nan_to_num(0.0, posinf=0.0).amax(-1, keepdim=True)
    steps = (values / size.clamp_min(torch.finfo(values.dtype).tiny) / _ROUNDING).round()
    return steps.argsort(dim=-1, descending=True, stable=True)


class MixedSearch:
    """Local searches over whole numbers, categories, log scales and linear constraints."""

    def __init__(
        self,
        rule: AcquisitionFunction,
        parameters: Parameters,
        polytope: Polytope | None,
        feasible: Feasible | None,
        options: dict[str, Any] | None,
    ) -> None:
        self.rule, self.parameters, self.polytope = rule, parameters, polytope
        self.feasible, self.options = feasible, options
        self._moves = _moves(parameters, polytope)

    def best(self, starts: Tensor) -> tuple[Tensor, Tensor]:
        """The best ``q x d`` end of searches from ``b x q x d`` feasible starts, and its value."""
        items, values = starts.clone(), self._values(starts)
        for _ in range(_ROUNDS):
            before = values
            if self.parameters.discrete:
                items, values = self._move_discrete(items, values)
            if self.parameters.real:
                items, values = self._move_real(items, values)
            if not self.parameters.discrete or bool((values - before <= _GAIN).all()):
                break
            best = best_first(values)[: -(-len(values) // 2)]  # the others hardly catch up
            items, values = items[best], values[best]
        best = best_first(values)[0]
        return items[best], values[best]

    @torch.no_grad()
    def _values(self, items: Tensor) -> Tensor:
        return self.rule(items)

    @torch.no_grad()
    def _move_discrete(self, items: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Take the best move of one item, as long as one gains."""
        items, values = items.clone(), values.clone()
        going = torch.ones(len(items), dtype=torch.bool, device=items.device)
        for _ in range(_MOVES):
            rows = going.nonzero().flatten()
            moved, allowed = self._neighbours(items[rows])
            found = values.new_full(allowed.shape, -torch.inf)
            if bool(allowed.any()):
                found[allowed] = self.rule(moved[allowed])
            at = best_first(found)[:, 0]
            most = found.gather(-1, at.unsqueeze(-1)).squeeze(-1)
            gains = most > values[rows] + _GAIN
            chosen = rows[gains]
            items[chosen] = moved[gains, at[gains]]
            values[chosen] = most[gains]
            going[rows] = gains
            if not bool(going.any()):
                break
        return items, values

    def _neighbours(self, items: Tensor) -> tuple[Tensor, Tensor]:
        """``b x k x q x d``-dim moves of ``b x q x d``-dim items, and which are allowed."""
        size, dim = items.shape[-2:]
        steps = torch.zeros(size, len(self._moves), size, dim).to(items)
        for position in range(size):
            steps[position, :, position] = self._moves.to(items)
        moved = items.unsqueeze(-3) + steps.flatten(end_dim=1)
        for i, number in self.parameters.levels.items():
            moved[..., i] = moved[..., i].remainder(number)
        within = self.parameters.contains(moved)
        if self.polytope is not None:
            moved = self.polytope.onto_equalities(moved)
            within = within & (self.polytope.slack(moved) >= 0.0)
        allowed = within.all(-1)
        if self.feasible is not None and bool(allowed.any()):
            allowed[allowed.clone()] = (self.feasible(moved[allowed]) >= -_ROUNDING).all(-1)
        return moved, allowed

    def _move_real(self, items: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Search over the real numbers, whole numbers and categories fixed."""
        ends = self.parameters.rounded(self.parameters.items(self._line_searches(items)))
        if self.polytope is not None:
            ends = self.polytope.backtrack(items, ends)
        if self.feasible is None:
            found = self._values(ends)
        else:
            ends, found = _backtrack(self.rule, self.feasible, items, ends)
        better = found > values
        items = torch.where(better[:, None, None], ends, items)
        return items, torch.where(better, found, values)

    def _line_searches(self, items: Tensor) -> Tensor:
        """BoTorch's line searches from ``b x q x d``-dim items, in coordinates."""
        parameters, (size, dim) = self.parameters, items.shape[-2:]
        columns = parameters.coordinates(items).flatten(start_dim=-2)
        fixed = [i + dim * k for k in range(size) for i in parameters.discrete]
        constraints: dict[str, Any] = {}
        if self.polytope is not None:
            constraints = self.polytope.botorch_form(size)
        rule = _OverColumns(self.rule, parameters, size)
        bounds = parameters.coordinate_bounds.repeat(1, size)
        ends = []
        # With constraints BoTorch takes fixed values that all searches share.
        for part in columns.split(1) if constraints else [columns]:
            values = {i: float(part[0, i]) if constraints else part[:, i] for i in fixed}
            found, _ = _local_search(
                rule,
                bounds,
                part.unsqueeze(-2),
                self.options,
                fixed_features=values or None,
                **constraints,
            )
            ends.append(found)
        return torch.cat(ends).view(items.shape)


class _OverColumns(AcquisitionFunction):
    """A rule of ``q x d``-dim items as one of ``1 x qd``-dim coordinates."""

    def __init__(self, rule: AcquisitionFunction, parameters: Parameters, size: int) -> None:
        super().__init__(model=getattr(rule, "model", None))  # type: ignore[arg-type]
        self.rule, self.kinds, self.size = rule, parameters, size

    def forward(self, X: Tensor) -> Tensor:
        """The rule's values at ``b x 1 x qd``-dim coordinates."""
        columns = X.reshape(*X.shape[:-2], self.size, -1)
        return self.rule(self.kinds.items(columns))


def _moves(parameters: Parameters, polytope: Polytope | None) -> Tensor:
    """All moves of one item, ``k x d``-dim; categories move in a circle."""
    dim = parameters.bounds.shape[-1]
    rows: list[dict[int, float]] = []
    for i in parameters.integer:
        width = int(parameters.bounds[1, i] - parameters.bounds[0, i])
        for stride in {1, *(width // part for part in _STRIDES if width >= 2 * part)}:
            rows += [{i: float(stride)}, {i: -float(stride)}]
    for i, number in parameters.levels.items():
        rows += [{i: float(step)} for step in range(1, number)]
    if polytope is not None:  # an equality is kept by moving two whole numbers
        coupled = polytope.coupled_integers
        rows += [{i: 1.0, j: -1.0} for i in coupled for j in coupled if i != j]
    moves = torch.zeros(len(rows), dim, dtype=torch.double)
    for move, row in zip(moves, rows, strict=True):
        move[list(row)] = torch.tensor(list(row.values()), dtype=torch.double)
    return moves


def _local_search(
    rule: AcquisitionFunction,
    bounds: Tensor,
    starts: Tensor,
    options: dict[str, Any] | None,
    **further: Any,
) -> tuple[Tensor, Tensor]:
    """BoTorch's local search from each of ``b x q x d``-dim starts.

    Options are those of SciPy's ``minimize``: of its SLSQP with constraints, else of L-BFGS-B.
    """
    options = dict(options or {})
    if any(name.endswith("constraints") for name in further):
        options = {name: options[name] for name in _OF_SLSQP if name in options}
    else:
        if "ftol" in options and not get_reasons_against_fast_path("L-BFGS-B", True, options, None):
            options["factr"] = None  # the same in BoTorch's own L-BFGS-B, which refuses both
        if further.get("fixed_features"):
            # Where BoTorch cannot search from all starts at once, it is to take each alone.
            options.setdefault("max_optimization_problem_aggregation_size", 1)
    ends, values = optimize_acqf(
        rule,
        bounds,
        q=starts.shape[-2],
        num_restarts=len(starts),
        batch_initial_conditions=starts,
        options=options,
        return_best_only=False,
        # The starts were chosen: BoTorch has no others to try where a line search ends at a kink,
        # and would only warn.
        retry_on_optimization_warning=False,
        **further,
    )
    return ends, torch.as_tensor(values)


def _feasible_candidates(
    initial_conditions: Tensor, acquisition_function: AcquisitionFunction, **kwargs: Any
) -> tuple[Tensor, Tensor]:
    """BoTorch's candidates by SLSQP, which may end outside, moved back until they are feasible."""
    ends, _ = gen_candidates_scipy(initial_conditions, acquisition_function, **kwargs)
    ((feasible, _),) = kwargs["nonlinear_inequality_constraints"]
    return _backtrack(acquisition_function, feasible, initial_conditions, ends)


@torch.no_grad()
def _backtrack(
    rule: AcquisitionFunction, feasible: Feasible, starts: Tensor, ends: Tensor
) -> tuple[Tensor, Tensor]:
    """The best feasible sets of items between ``b x q x d`` ends and their feasible starts."""
    back = ends.new_tensor(_BACKTRACKS)[:, None, None, None]
    path = torch.lerp(ends, starts, back)
    values = rule(path.flatten(end_dim=1)).view(path.shape[:2])
    outside = (feasible(path[:-1]) < -_ROUNDING).any(dim=-1)
    values[:-1] = values[:-1].masked_fill(outside, -torch.inf)
    best = values.max(dim=0)
    return path[best.indices, torch.arange(path.shape[1])], best.values
