r"""Items under linear constraints: which are feasible, and a sample of them.

A sample is drawn by hit-and-run (Smith, 1984) within the affine space of the equalities, as many
chains side by side as items are wanted. Whole numbers are rounded then and the real ones moved
back onto the equalities; what is not feasible afterwards is drawn again. BoTorch's
``sample_polytope`` runs one chain, a Python step for every step of it, and knows no whole numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import torch
from botorch.exceptions.errors import InfeasibilityError
from botorch.utils.sampling import find_interior_point
from scipy.optimize import Bounds, milp
from scipy.optimize import LinearConstraint as MilpConstraint
from torch import Tensor

from botorch_pref.data.checks import LARGEST
from botorch_pref.exceptions import SearchSpaceError
from botorch_pref.space.parameters import checked_dimensions

FEASIBILITY = 1e-9  # of a constraint, relative to a right-hand side above 1; see _tolerance
_STEPS, _STEPS_A_DIMENSION = 32, 16
_ROUNDS, _SURPLUS, _LEAST = 8, 2, 256  # of draws where whole numbers were rounded
_ROUNDING = 64 * torch.finfo(torch.double).eps  # of a sum, relative to its terms
_FLAT = 1e-9
_BOTH = "`inequality_constraints` and `equality_constraints`"


# Indices, coefficients and right-hand side: ``sum_i coefficients_i x[indices_i]`` at least, or
# equal to, ``rhs``.
LinearConstraint = tuple[tuple[int, ...], tuple[float, ...], float]


def checked_constraints(
    name: str, constraints: Sequence[Any], dim: int, unconstrained: Collection[int]
) -> tuple[LinearConstraint, ...]:
    """Constraints in BoTorch's form, checked; some dimensions cannot be constrained."""
    checked: list[LinearConstraint] = []
    listed: object = constraints
    if not isinstance(listed, Sequence):
        raise SearchSpaceError(f"`{name}` must be a list of constraints, got {constraints!r}.")
    for row, entry in enumerate(constraints):
        try:
            indices, coefficients, rhs = entry
            indices = torch.as_tensor(indices, device="cpu")
            given = torch.as_tensor(coefficients, dtype=torch.double, device="cpu")
            found = checked_dimensions(name, indices.tolist(), dim)
            fits = given.shape == indices.shape == (len(found),) and bool(len(found))
            numbers = torch.cat([given.flatten(), torch.tensor([float(rhs)], dtype=torch.double)])
        except (OverflowError, TypeError, ValueError, RuntimeError):
            fits = False
        if not fits or not bool((numbers.abs() <= LARGEST).all()):
            raise SearchSpaceError(
                f"`{name}` row {row} must be (indices, coefficients, rhs): the dimensions, as many "
                f"numbers, and a number, none above {LARGEST:g}; got {entry!r}."
            )
        if clash := sorted(set(found) & set(unconstrained)):
            raise SearchSpaceError(
                f"`{name}` row {row} has dimension {clash[0]}, which is categorical or "
                "log-scaled: only real and whole numbers on a linear scale can be constrained."
            )
        if not bool(given.any()):
            raise SearchSpaceError(f"`{name}` row {row} has no coefficient but 0.")
        checked.append((tuple(indices.tolist()), tuple(given.tolist()), float(rhs)))
    return tuple(checked)


class Polytope:
    """Linear constraints within a ``2 x d``-dim box, some of whose dimensions are whole numbers.

    Attributes:
        coupled: The dimensions that are in a constraint.

    Raises:
        SearchSpaceError: If no item is feasible, or if together they leave no interior.
    """

    def __init__(
        self,
        bounds: Tensor,
        inequalities: Sequence[LinearConstraint],
        equalities: Sequence[LinearConstraint],
        integer: Sequence[int],
    ) -> None:
        self.bounds = bounds
        self._at_least, self._least = _dense(inequalities, bounds)
        self._equal, self._rhs = _dense(equalities, bounds)
        used = (torch.cat([self._at_least, self._equal]) != 0).any(0)
        self.coupled = used.nonzero().flatten().tolist()
        self.coupled_integers = [i for i in integer if i in self.coupled]
        self._coupled_reals = [i for i in self.coupled if i not in self.coupled_integers]
        real_part = self._equal[:, self._coupled_reals]
        self._onto = torch.linalg.pinv(real_part)  # of a residual of the equalities
        self._reference = self._feasible_item()
        if not bool(self._fits(self._reference)):  # scipy's solver tolerates 1e-6
            raise SearchSpaceError(
                f"No item was found that satisfies the constraints to {FEASIBILITY:g}."
            )
        self._prepare_chains()

    def slack(self, items: Tensor) -> Tensor:
        """The ``...``-dim least slack of ``... x d`` items; feasible where not below 0."""
        above = items @ self._at_least.mT - self._least
        above = above + self._tolerance(self._at_least, self._least)
        off = self._tolerance(self._equal, self._rhs)
        within = off - (items @ self._equal.mT - self._rhs).abs()
        return torch.cat([above, within], dim=-1).amin(-1)

    def _tolerance(self, rows: Tensor, sides: Tensor) -> Tensor:
        """The tolerance of each constraint, at least the rounding error of its sum."""
        terms = (rows.abs() @ self.bounds.abs().amax(0)).to(sides)
        return torch.maximum(FEASIBILITY * sides.abs().clamp_min(1.0), _ROUNDING * terms)

    def sample(self, n: int, seed: int) -> Tensor:
        """``n x c``-dim feasible values of the coupled dimensions."""
        generator = torch.Generator().manual_seed(seed)
        if not self.coupled_integers:
            return self._chains(n, generator)[:, self.coupled]
        found = self._reference.expand(0, -1)
        for _ in range(_ROUNDS):
            drawn = self._chains(max(_SURPLUS * n, _LEAST), generator)
            whole = self.coupled_integers
            drawn[:, whole] = drawn[:, whole].round() + 0.0  # no -0
            drawn = self.onto_equalities(drawn)
            found = torch.cat([found, drawn[self._fits(drawn)]])
            if len(found) >= n:
                return found[:n, self.coupled]
        if not len(found):  # whole numbers so rare that none were hit
            found = self._reference.unsqueeze(0)
        return found[torch.arange(n) % len(found)][:, self.coupled]

    def onto_equalities(self, items: Tensor) -> Tensor:
        """``... x d`` items whose real coupled values were moved to meet the equalities."""
        residual = self._rhs - items @ self._equal.mT
        moved = items.clone()
        moved[..., self._coupled_reals] += residual @ self._onto.mT
        return torch.minimum(torch.maximum(moved, self.bounds[0]), self.bounds[1])

    def backtrack(self, starts: Tensor, ends: Tensor) -> Tensor:
        """The last feasible items on the lines from feasible ``... x d`` starts to ends.

        Ends differ from their starts in real values alone.
        """
        ends = self.onto_equalities(ends)
        change = (ends - starts) @ self._at_least.mT
        spare = (starts @ self._at_least.mT - self._least).clamp_min(0.0)
        share = torch.where(change < -spare, spare / (-change).clamp_min(1e-300), 1.0)
        share = share.amin(-1, keepdim=True) if share.shape[-1] else torch.ones_like(ends[..., :1])
        found = torch.where(self._fits(ends).unsqueeze(-1), ends, torch.lerp(starts, ends, share))
        return torch.where(self._fits(found).unsqueeze(-1), found, starts)

    def botorch_form(self, size: int) -> dict[str, list[tuple[Tensor, Tensor, float]]]:
        """Constraints of ``optimize_acqf`` on the real values of ``size`` items side by side."""
        dim = self.bounds.shape[-1]
        given = {
            "inequality_constraints": (self._at_least, self._least),
            "equality_constraints": (self._equal, self._rhs),
        }
        found: dict[str, list[tuple[Tensor, Tensor, float]]] = {}
        for name, (rows, sides) in given.items():
            for row, side in zip(rows, sides.tolist(), strict=True):
                if not bool(row[self._coupled_reals].any()):
                    continue
                at = row.nonzero().flatten()
                shifted = [(at + dim * k, row[at], side) for k in range(size)]
                found.setdefault(name, []).extend(shifted)
        return found

    def _fits(self, items: Tensor) -> Tensor:
        within = ((self.bounds[0] <= items) & (items <= self.bounds[1])).all(-1)
        return within & (self.slack(items) >= 0.0)

    def _feasible_item(self) -> Tensor:
        """Some item, whole numbers included, its real values as far from all borders as can be."""
        reals, (lower, upper) = self._coupled_reals, self.bounds
        ranges = (upper - lower)[reals].unsqueeze(-1)
        unit = torch.eye(len(lower)).to(lower)[reals]
        # The last unknown is the distance from the borders, as a share of the ranges.
        width = self._at_least[:, reals].abs() @ ranges
        rows = torch.cat([self._at_least, self._equal, unit, -unit])
        shares = torch.cat([-width, 0.0 * self._rhs.unsqueeze(-1), -ranges, -ranges])
        system = torch.cat([rows, shares], dim=-1)
        low = torch.cat([self._least, self._rhs, lower[reals], -upper[reals]])
        high = torch.full_like(low, torch.inf)
        high[len(self._least) : len(self._least) + len(self._rhs)] = self._rhs
        objective, integrality = np.zeros(len(lower) + 1), np.zeros(len(lower) + 1, dtype=np.int64)
        objective[-1], integrality[self.coupled_integers] = -1.0, 1
        found = milp(
            objective,
            integrality=integrality,
            bounds=Bounds(np.append(lower.cpu(), 0.0), np.append(upper.cpu(), 1.0)),
            constraints=MilpConstraint(*(part.cpu().numpy() for part in (system, low, high))),
        )
        if found.x is None:
            raise SearchSpaceError(f"No item satisfies {_BOTH} within `bounds`.")
        item = torch.tensor(found.x[:-1]).to(self.bounds)
        whole = self.coupled_integers
        item[whole] = item[whole].round() + 0.0  # no -0
        return self.onto_equalities(item)

    def _prepare_chains(self) -> None:
        """Compute where chains start, their directions, and the inequalities that end a step."""
        lower, upper = self.bounds[:, self.coupled]
        cells = torch.stack([lower, upper])
        at = [self.coupled.index(i) for i in self.coupled_integers]
        cells[0, at], cells[1, at] = cells[0, at] - 0.5, cells[1, at] + 0.5
        at_least, equal = self._at_least[:, self.coupled], self._equal[:, self.coupled]
        try:
            self._centre = _interior(cells, at_least, self._least, equal, self._rhs)
        except (InfeasibilityError, ValueError) as error:
            raise SearchSpaceError(
                f"{_BOTH} leave no room within `bounds`: write what must be equal as an "
                "equality constraint, and leave out a dimension that has one value."
            ) from error
        ranges = cells[1] - cells[0]
        _, values, right = torch.linalg.svd(equal * ranges)
        rank = int((values > _FLAT * values.amax()).sum()) if len(values) else 0
        self._directions = ranges.unsqueeze(-1) * right[rank:].mT  # of what the equalities leave
        eye = torch.eye(len(ranges)).to(ranges)
        rows = torch.cat([-at_least, eye, -eye])
        limits = torch.cat([-self._least, cells[1], -cells[0]])
        self._rows, self._spare = rows @ self._directions, limits - rows @ self._centre

    def _chains(self, n: int, generator: torch.Generator) -> Tensor:
        """``n x d``-dim items, of which only the values of coupled dimensions count."""
        size = self._directions.shape[-1]
        like = self._centre
        at = like.new_zeros(n, size)
        for _ in range((_STEPS + _STEPS_A_DIMENSION * size) if size else 0):
            step = torch.randn(n, size, generator=generator, dtype=torch.double).to(like)
            share = torch.rand(n, 1, generator=generator, dtype=torch.double).to(like)
            speed, spare = step @ self._rows.mT, self._spare - at @ self._rows.mT
            reach = spare.clamp_min(0.0) / speed
            far = torch.where(speed > 0.0, reach, torch.inf).amin(-1, keepdim=True)
            near = torch.where(speed < 0.0, reach, -torch.inf).amax(-1, keepdim=True)
            at = at + (near + share * (far - near)) * step
        items = self.bounds[0].expand(n, -1).clone()
        items[:, self.coupled] = self._centre + at @ self._directions.mT
        return items if self.coupled_integers else self.onto_equalities(items)


def _dense(constraints: Sequence[LinearConstraint], bounds: Tensor) -> tuple[Tensor, Tensor]:
    """``k x d``-dim coefficients, and ``k`` right-hand sides."""
    rows = bounds.new_zeros(len(constraints), bounds.shape[-1])
    for row, (indices, coefficients, _) in zip(rows, constraints, strict=True):
        row[list(indices)] = row.new_tensor(coefficients)
    return rows, bounds.new_tensor([rhs for *_, rhs in constraints])


def _interior(cells: Tensor, at_least: Tensor, least: Tensor, equal: Tensor, rhs: Tensor) -> Tensor:
    """A point of a polytope away from its borders, in units of the ranges of its box."""
    ranges = cells[1] - cells[0]
    eye = torch.eye(len(ranges)).to(ranges)
    rows = torch.cat([-at_least * ranges, eye, -eye])
    limits = torch.cat([at_least @ cells[0] - least, torch.ones_like(ranges), 0.0 * ranges])
    equalities = {}
    if len(equal):
        right = rhs - equal @ cells[0]
        width = torch.zeros_like(right).unsqueeze(-1)  # the slack is a further unknown there
        equalities["A_eq"] = torch.cat([equal * ranges, width], dim=-1).cpu().numpy()
        equalities["b_eq"] = right.cpu().numpy()
    found = find_interior_point(rows.cpu().numpy(), limits.cpu().numpy(), **equalities)
    inside = torch.tensor(found).to(ranges)
    if float((limits - rows @ inside).amin()) < _FLAT:
        raise ValueError("flat")
    return cells[0] + ranges * inside
