r"""A box with real and whole numbers and categories, and linear constraints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from botorch.models.transforms.input import InputTransform
from torch import Tensor
from torch.quasirandom import SobolEngine

from botorch_pref.exceptions import SearchSpaceError
from botorch_pref.space.checks import checked_bounds, checked_constraints
from botorch_pref.space.parameters import Parameters
from botorch_pref.space.polytope import Polytope

# BoTorch's form: indices, coefficients and right-hand side.
Constraints = Sequence[tuple[Tensor | Sequence[int], Tensor | Sequence[float], float]]

_KINDS = ("integer", "categorical", "log")
_LINEAR = ("inequality_constraints", "equality_constraints")


class Box:
    r"""What a search space knows beside its choices; for the arguments see there.

    Attributes:
        bounds: ``2 x d``-dim lower and upper bounds.
        parameters: The kinds of the dimensions.
        inequality_constraints: Those of the constructor, checked.
        equality_constraints: Likewise.
        polytope: Both of them, if there are any.
    """

    def __init__(
        self,
        bounds: Tensor,
        *,
        integer: Sequence[int] = (),
        categorical: Sequence[int] = (),
        log: Sequence[int] = (),
        inequality_constraints: Constraints = (),
        equality_constraints: Constraints = (),
    ) -> None:
        self.bounds = checked_bounds(bounds)
        self.parameters = Parameters(self.bounds, integer, categorical, log)
        refused = {*self.parameters.categorical, *self.parameters.log}
        self.inequality_constraints, self.equality_constraints = (
            checked_constraints(name, given, self.dim, sorted(refused))
            for name, given in zip(
                _LINEAR, (inequality_constraints, equality_constraints), strict=True
            )
        )
        self.polytope: Polytope | None = None
        if self.inequality_constraints or self.equality_constraints:
            self.polytope = Polytope(
                self.bounds,
                self.inequality_constraints,
                self.equality_constraints,
                self.parameters.integer,
            )

    @property
    def dim(self) -> int:
        """The dimension ``d`` of an item."""
        return self.bounds.shape[-1]

    @property
    def is_plain(self) -> bool:
        """Whether all dimensions are real numbers on a linear scale, and nothing else is asked."""
        return self.polytope is None and not (self.parameters.discrete or self.parameters.log)

    @property
    def num_features(self) -> int:
        """How many columns :meth:`normalize` returns, ``d`` or more with categories."""
        return self.parameters.num_features

    def normalize(self, items: Tensor) -> Tensor:
        r"""``... x d`` items as models see them, ``... x num_features``-dim.

        The box is mapped to the unit cube, log scales by their logarithm; a category of ``k``
        levels becomes ``k`` columns, of which its own is ``12 ** -0.5`` and the others are 0, so
        that any two levels are as far apart as two random numbers of a range are on average.
        """
        if self.is_plain:
            return (items - self.bounds[0]) / (self.bounds[1] - self.bounds[0])
        return self.input_transform()(items.unsqueeze(-2)).squeeze(-2)

    def input_transform(self, num_markers: int = 0) -> InputTransform:
        r"""What :meth:`normalize` does, for the argument of that name of a model.

        Args:
            num_markers: The number of columns behind the items', which are left as they are.
        """
        return self.parameters.input_transform(num_markers)

    def contains(self, items: Tensor) -> Tensor:
        """Which of ``... x d`` items are feasible."""
        found = self.parameters.contains(items)
        return found if self.polytope is None else found & (self.polytope.slack(items) >= 0.0)

    def near(self, items: Tensor, noise: Tensor, scale: float) -> Tensor:
        r"""Feasible items of a box near others.

        Args:
            items: ``n x d``-dim feasible items.
            noise: ``n x d``-dim steps, such as standard normal ones.
            scale: What a step of 1 is, as a share of every range.

        Returns:
            ``n x d``-dim items, as far as the steps, or the feasible part of the way, lead.
        """
        found = self.parameters.moved(items, noise, scale)
        if self.polytope is None:
            return found
        kept = list(self.parameters.discrete)
        whole = self.polytope.onto_equalities(found)
        feasible = self.contains(whole).unsqueeze(-1)
        found[..., kept] = items[..., kept]  # then the real values alone
        return torch.where(feasible, whole, self.polytope.led_back(items, found))

    def uniform(self, seed: int) -> Tensor:
        """A ``d``-dim item of a box, drawn uniformly; categories and whole numbers likewise."""
        if self.polytope is not None:
            return self.filling(1, 1, seed)[0, 0]
        generator = torch.Generator().manual_seed(seed)
        return self.parameters.from_unit(
            torch.rand(self.dim, generator=generator, dtype=torch.double)
        )

    def filling(self, n: int, q: int, seed: int) -> Tensor:
        """``n x q x d``-dim items that fill a box."""
        engine = SobolEngine(q * self.dim, scramble=True, seed=seed % 2**31)
        unit = engine.draw(max(n, 1), dtype=torch.double)[:n]
        items = self.parameters.from_unit(unit.view(n, q, self.dim))
        if self.polytope is not None:
            within = self.polytope.sample(n * q, seed).view(n, q, len(self.polytope.coupled))
            items[..., self.polytope.coupled] = within
        return items

    def options(self) -> dict[str, Any]:
        """The constructor's further arguments as plain JSON, as far as they say anything."""
        kinds = {name: list(getattr(self.parameters, name)) for name in _KINDS}
        linear = {name: [list(one) for one in getattr(self, name)] for name in _LINEAR}
        return {name: value for name, value in (kinds | linear).items() if value}

    def check_choices(self, choices: Tensor) -> None:
        """Raises SearchSpaceError unless a table is one of this box; names row and column."""
        if choices.shape[-1] != self.dim:
            raise SearchSpaceError(
                f"`choices` has {choices.shape[-1]} columns but `bounds` {self.dim}."
            )
        if choices.device != self.bounds.device:
            raise SearchSpaceError(
                f"`choices` are on {choices.device}, but `bounds` on {self.bounds.device}."
            )
        if self.polytope is not None:
            raise SearchSpaceError(
                "A table of `choices` takes no constraints: leave out the rows that break them."
            )
        for name in _KINDS:
            for i in getattr(self.parameters, name):
                column = choices[:, i]
                wrong = column <= 0.0 if name == "log" else column != column.round()
                if name == "categorical":
                    wrong = wrong | (column < 0) | (column > self.bounds[1, i])
                if bool(wrong.any()):
                    row = int(wrong.nonzero()[0])
                    raise SearchSpaceError(
                        f"`choices` row {row} has {float(column[row])} in column {i}, which "
                        f"cannot be, as that is in `{name}`."
                    )
