r"""Maximisation over whole numbers, categories, log scales and linear constraints.

From every start, moves of whole numbers and categories alternate with a line search over the real
numbers. BoTorch's own alternation (``optimize_acqf_mixed_alternating``) takes no starts, no
equality of whole numbers and no slack of items, and rounds whole numbers of more than 20 values
after the search; so its ``optimize_acqf`` does the line search alone, over all columns of a pair.
"""

from __future__ import annotations

from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.optim import optimize_acqf
from torch import Tensor

from botorch_pref.space.feasible import ROUNDING, Feasible, led_back
from botorch_pref.space.parameters import Parameters
from botorch_pref.space.polytope import Polytope

_ROUNDS = 3  # of moves and a line search
_MOVES = 16
_GAIN = 1e-8
_OF_SLSQP = ("maxiter", "ftol")
_STRIDES = (4, 16)  # whole numbers also move by the range divided by these


class MixedSearch:
    r"""Local searches over a space.

    Args:
        rule: The rule, of ``b x q x d``-dim items.
        parameters: The kinds of the dimensions.
        polytope: The linear constraints, if any.
        feasible: The slack of items, if they are constrained further.
        options: Passed to BoTorch's candidate generation.
    """

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
        self._shifts = _shifts(parameters, polytope)

    def best(self, starts: Tensor) -> tuple[Tensor, Tensor]:
        r"""The best end of all searches.

        Args:
            starts: ``b x q x d``-dim feasible items.

        Returns:
            ``q x d``-dim items, feasible and no worse than any start, and the rule's value.
        """
        items, values = starts.clone(), self._values(starts)
        for _ in range(_ROUNDS):
            before = values
            if self.parameters.discrete:
                items, values = self._moved(items, values)
            if self.parameters.real:
                items, values = self._searched(items, values)
            if not self.parameters.discrete or bool((values - before <= _GAIN).all()):
                break
            best = values.topk(-(-len(values) // 2)).indices  # the others are unlikely to catch up
            items, values = items[best], values[best]
        best = values.argmax()
        return items[best], values[best]

    @torch.no_grad()
    def _values(self, items: Tensor) -> Tensor:
        return self.rule(items)

    @torch.no_grad()
    def _moved(self, items: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """The best of all moves of one item, again and again, for as long as one gains."""
        items, values = items.clone(), values.clone()
        going = torch.ones(len(items), dtype=torch.bool, device=items.device)
        for _ in range(_MOVES):
            rows = going.nonzero().flatten()
            moved, allowed = self._neighbours(items[rows])
            shape = allowed.shape
            found = values.new_full(shape, -torch.inf)
            if bool(allowed.any()):
                found[allowed] = self.rule(moved[allowed])
            most, at = found.max(dim=-1)
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
        steps = torch.zeros(size, len(self._shifts), size, dim).to(items)
        for position in range(size):
            steps[position, :, position] = self._shifts.to(items)
        moved = items.unsqueeze(-3) + steps.flatten(end_dim=1)
        for i, number in self.parameters.levels.items():
            moved[..., i] = moved[..., i].remainder(number)
        within = self.parameters.contains(moved)
        if self.polytope is not None:
            moved = self.polytope.onto_equalities(moved)
            within = within & (self.polytope.slack(moved) >= 0.0)
        allowed = within.all(-1)
        if self.feasible is not None and bool(allowed.any()):
            kept = (self.feasible(moved[allowed]) >= -ROUNDING).all(-1)
            allowed[allowed.clone()] = kept
        return moved, allowed

    def _searched(self, items: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Where line searches over the real numbers end; the rest stays."""
        ends = self._line_searches(items)
        parameters = self.parameters
        ends = parameters.rounded(parameters.items(ends))
        if self.polytope is not None:
            ends = self.polytope.led_back(items, ends)
        if self.feasible is None:
            found = self._values(ends)
        else:
            ends, found = led_back(self.rule, [self.feasible], items, ends)
        better = found > values
        items = torch.where(better[:, None, None], ends, items)
        return items, torch.where(better, found, values)

    def _line_searches(self, items: Tensor) -> Tensor:
        """BoTorch's line searches from ``b x q x d``-dim items, in coordinates."""
        parameters, (size, dim) = self.parameters, items.shape[-2:]
        columns = parameters.coordinates(items).flatten(start_dim=-2)
        fixed = [i + dim * k for k in range(size) for i in parameters.discrete]
        constraints: dict[str, Any] = {}
        options = dict(self.options or {})
        if self.polytope is not None:
            constraints = self.polytope.botorch_form(size)
        if constraints:  # SLSQP knows few of the options of L-BFGS-B
            options = {name: options[name] for name in _OF_SLSQP if name in options}
        elif fixed:  # where BoTorch cannot search from all starts at once, it is to take each alone
            options = {"max_optimization_problem_aggregation_size": 1, **options}
        ends = []
        # With constraints BoTorch takes fixed values that all searches share.
        parts = columns.split(1) if constraints else [columns]
        for part in parts:
            values = {i: float(part[0, i]) if constraints else part[:, i] for i in fixed}
            found, _ = optimize_acqf(
                _OverColumns(self.rule, parameters, size),
                parameters.coordinate_bounds.repeat(1, size),
                q=1,
                num_restarts=len(part),
                batch_initial_conditions=part.unsqueeze(-2),
                fixed_features=values or None,
                options=options,
                return_best_only=False,
                retry_on_optimization_warning=False,
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


def _shifts(parameters: Parameters, polytope: Polytope | None) -> Tensor:
    """All moves of one item, ``k x d``-dim; those of levels go round in a circle."""
    dim = parameters.bounds.shape[-1]
    rows: list[dict[int, float]] = []
    for i in parameters.integer:
        width = int(parameters.bounds[1, i] - parameters.bounds[0, i])
        for stride in {1, *(width // part for part in _STRIDES if width >= 2 * part)}:
            rows += [{i: float(stride)}, {i: -float(stride)}]
    for i, number in parameters.levels.items():
        rows += [{i: float(step)} for step in range(1, number)]
    if polytope is not None:  # what one gains another may have to lose
        coupled = polytope.coupled_integers
        rows += [{i: 1.0, j: -1.0} for i in coupled for j in coupled if i != j]
    shifts = torch.zeros(len(rows), dim, dtype=torch.double)
    for shift, row in zip(shifts, rows, strict=True):
        shift[list(row)] = torch.tensor(list(row.values()), dtype=torch.double)
    return shifts
