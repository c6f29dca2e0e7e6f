r"""The search space: what may be asked, samples of it, and where a rule is largest."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from botorch.acquisition import AcquisitionFunction
from botorch.models.transforms.input import InputTransform
from torch import Tensor
from torch.quasirandom import SobolEngine

from botorch_pref.exceptions import SearchSpaceError
from botorch_pref.inference.finite import argmax_with_random_ties
from botorch_pref.randomness import seeded
from botorch_pref.space.maximize import Feasible, MixedSearch, all_feasible, refine, starting_points
from botorch_pref.space.parameters import Parameters, checked_bounds, checked_table
from botorch_pref.space.polytope import Polytope, checked_constraints

# BoTorch's form: indices, coefficients and right-hand side.
Constraints = Sequence[tuple[Tensor | Sequence[int], Tensor | Sequence[float], float]]

_KINDS = ("integer", "categorical", "log")
_LINEAR = ("inequality_constraints", "equality_constraints")
_PAIR_CHUNK = 4096
MOST_EXACT = 2000
"""Rows of choices up to which strategies compare all with all."""
MOST_PAIRED = 5000
"""Rows of choices up to which tables of all pairs fit into 2 GB."""


class Maximum(NamedTuple):
    r"""Where a rule is largest.

    Attributes:
        items: ``q x d``-dim items.
        value: Scalar value of the rule there.
        indices: The items' rows in ``choices``, or ``None`` for a box.
    """

    items: Tensor
    value: Tensor
    indices: tuple[int, ...] | None


class SearchSpace:
    r"""A box with real and whole numbers and categories, or a table of choices.

    Items are in the user's own units throughout, a category being the index of its level. All
    that is returned is feasible: within the bounds, whole where it should be, and to 1e-9 (of a
    right-hand side above 1, relative to it; or to rounding) within the linear constraints.

    Example:
        >>> bounds = torch.tensor([[0.0, 1.0, 1e-4, 0.0], [1.0, 9.0, 1.0, 2.0]])
        >>> space = SearchSpace(bounds, integer=[1], log=[2], categorical=[3])
        >>> space.maximize(rule, q=2, seed=0).items

    Attributes:
        bounds: ``2 x d``-dim lower and upper bounds.
        choices: ``n x d``-dim table, or None.
        parameters: The kinds of the dimensions.
        inequality_constraints: Those of the constructor, checked.
        equality_constraints: Likewise.
        polytope: Both, or None.
    """

    def __init__(
        self,
        bounds: Tensor | None = None,
        choices: Tensor | None = None,
        *,
        integer: Sequence[int] = (),
        categorical: Sequence[int] = (),
        log: Sequence[int] = (),
        inequality_constraints: Constraints = (),
        equality_constraints: Constraints = (),
    ) -> None:
        r"""Validate the search space.

        Args:
            bounds: ``2 x d``-dim lower and upper bounds. Beside ``choices`` they only say
                what the unit cube is; by default that is the choices' bounding box.
            choices: ``n x d``-dim table of the items that may be asked. A row is an item,
                also if its values stand in another row.
            integer: Dimensions that are whole numbers.
            categorical: Dimensions that are categories: of ``k`` levels 0, ..., ``k - 1``. One of
                which every row of ``choices`` has another level names the rows: models do not see
                it, unless they could not tell two rows apart without it.
            log: Dimensions that are searched and modelled on a logarithmic scale.
            inequality_constraints: Triples of ``indices``, ``coefficients`` and ``rhs``, as in
                BoTorch: ``sum_i coefficients[i] x[indices[i]] >= rhs``. For a box, and for
                dimensions that are neither categories nor on a logarithmic scale.
            equality_constraints: Likewise, equal to ``rhs``; a simplex is
                ``[([0, 1, 2], [1.0, 1.0, 1.0], 1.0)]``.

        Raises:
            SearchSpaceError: If neither is given, or one has a wrong shape, type, order or
                entry, or nothing is feasible; names argument and row or column.
        """
        self.choices = None if choices is None else checked_table("choices", choices)
        if self.choices is not None and len(self.choices) < 2:
            raise SearchSpaceError("`choices` needs two rows at least, to choose between.")
        self.bounds = checked_bounds(bounds, self.choices, categorical)
        if self.choices is not None:
            self._check_fit(self.choices)
        self.parameters = Parameters(self.bounds, integer, categorical, log, self.choices)
        if self.choices is not None:
            self.parameters.check("choices", self.choices)
        unconstrained = {*self.parameters.categorical, *self.parameters.log}
        given = (inequality_constraints, equality_constraints)
        at_least, equal = (
            checked_constraints(name, constraints, self.dim, unconstrained)
            for name, constraints in zip(_LINEAR, given, strict=True)
        )
        self.inequality_constraints, self.equality_constraints = at_least, equal
        self.polytope: Polytope | None = None
        if at_least or equal:
            if self.choices is not None:
                raise SearchSpaceError(
                    "A table of `choices` takes no constraints: leave out the rows that break them."
                )
            self.polytope = Polytope(self.bounds, at_least, equal, self.parameters.integer)

    @property
    def dim(self) -> int:
        """The dimension ``d`` of an item."""
        return self.bounds.shape[-1]

    @property
    def table(self) -> Tensor:
        """The choices, where there are choices.

        Raises:
            SearchSpaceError: If the space is a box.
        """
        if self.choices is None:
            raise SearchSpaceError("This space is a box: it has no `choices`.")
        return self.choices

    @cached_property
    def distinct_rows(self) -> Tensor:
        """The sorted rows of the choices that are equal to none before."""
        rows = torch.arange(len(self.table), device=self.table.device)
        items, places = self.table.unique(dim=0, return_inverse=True)
        first = rows.new_zeros(len(items)).scatter_reduce(
            0, places, rows, "amin", include_self=False
        )
        return first.sort().values

    @property
    def is_large(self) -> bool:
        """Whether there are too many choices to compare all with all."""
        return self.choices is not None and len(self.choices) > MOST_EXACT

    @property
    def is_plain(self) -> bool:
        """Whether all dimensions are real numbers on a linear scale without constraints."""
        return self.polytope is None and not (self.parameters.discrete or self.parameters.log)

    @property
    def num_features(self) -> int:
        """The number of columns of :meth:`normalize`: with categories not ``d``."""
        return self.parameters.num_features

    def normalize(self, items: Tensor) -> Tensor:
        r"""``... x d`` items as models see them, ``... x num_features``-dim.

        Numbers are mapped to ``[0, 1]``, on log scales by their logarithm; a category of ``k``
        levels becomes ``k`` columns, of which its own is ``12 ** -0.5`` and the others are 0; names
        of rows are left out.
        """
        if self.is_plain:
            return (items - self.bounds[0]) / (self.bounds[1] - self.bounds[0])
        return self.input_transform()(items.unsqueeze(-2)).squeeze(-2)

    def input_transform(self, num_markers: int = 0) -> InputTransform:
        """What :meth:`normalize` does, for a model; the last ``num_markers`` columns are kept."""
        return self.parameters.input_transform(num_markers)

    def contains(self, items: Tensor) -> Tensor:
        """Which of ``... x d`` items are feasible; of choices, those that are in the table."""
        if self.choices is not None:
            return (items.unsqueeze(-2) == self.choices).all(-1).any(-1)
        inside = self.parameters.contains(items)
        return inside if self.polytope is None else inside & (self.polytope.slack(items) >= 0.0)

    def sample(self, n: int, seed: int) -> Tensor:
        r"""Items that fill the space.

        Args:
            n: How many.
            seed: Of everything random.

        Returns:
            ``n x d``-dim items; distinct choices for as long as there are any.

        Raises:
            SearchSpaceError: If ``n`` is not a whole number, at least 0.
        """
        if self.choices is not None:
            return self.choices[self.sample_rows(n, seed)]
        _check_number(n)
        return self._fill(n, 1, seed).squeeze(-2)

    def sample_rows(self, n: int, seed: int) -> Tensor:
        r"""The ``n``-dim rows of :meth:`sample` in the choices.

        Raises:
            SearchSpaceError: As :meth:`sample`; and if the space is a box.
        """
        _check_number(n)
        total, generator = len(self.table), torch.Generator().manual_seed(seed)
        rounds = [torch.randperm(total, generator=generator) for _ in range(-(-n // total))]
        return torch.cat([*rounds, torch.empty(0, dtype=torch.long)])[:n]

    def row_unlike(self, seed: int, *rows: int) -> int:
        """A random row of the choices that is another item than those of some rows."""
        others = (self.table.unsqueeze(-2) != self.table[[*rows]]).any(-1).all(-1)
        left = others.nonzero().squeeze(-1)
        generator = torch.Generator().manual_seed(seed)
        return int(left[torch.randint(len(left), (), generator=generator)])

    def uniform(self, seed: int) -> Tensor:
        """A ``d``-dim item of a box, drawn uniformly; categories and whole numbers likewise."""
        if self.polytope is not None:
            return self._fill(1, 1, seed)[0, 0]
        generator = torch.Generator().manual_seed(seed)
        unit = torch.rand(self.dim, generator=generator, dtype=torch.double)
        return self.parameters.from_unit(unit)

    def near(self, items: Tensor, noise: Tensor, scale: float) -> Tensor:
        """Feasible items of a box, as far from others as steps or their feasible parts lead.

        Args:
            items: ``n x d``-dim feasible items.
            noise: ``n x d``-dim steps, such as standard normal ones.
            scale: What a step of 1 is, as a share of every range.
        """
        moved = self.parameters.perturbed(items, noise, scale)
        if self.polytope is None:
            return moved
        discrete = list(self.parameters.discrete)
        projected = self.polytope.onto_equalities(moved)
        feasible = self.contains(projected).unsqueeze(-1)
        moved[..., discrete] = items[..., discrete]  # where not feasible, real values move alone
        return torch.where(feasible, projected, self.polytope.backtrack(items, moved))

    def maximize(
        self,
        acq_function: AcquisitionFunction,
        *,
        q: int = 1,
        seed: int = 0,
        starts: Tensor | None = None,
        raw_samples: int = 1024,
        num_restarts: int | None = None,
        options: dict[str, Any] | None = None,
        feasible: Feasible | None = None,
    ) -> Maximum:
        r"""Maximise a rule over items or pairs.

        On a box the best starts are refined by L-BFGS-B, and once more by SLSQP where that led
        to what is not feasible. Where not all is a real number on a linear scale, moves of whole
        numbers and categories alternate with that. On choices every item, or every pair in one
        order (so a rule must not depend on it), is evaluated and ties are broken at random.

        Args:
            acq_function: The rule; takes ``b x q x d``.
            q: 1 for items, 2 for pairs.
            seed: Of everything random.
            starts: ``s x q x d``-dim further starting points; like the next three, for a box.
            raw_samples: The size of the Sobol sample.
            num_restarts: How many starting points are refined; 4, and two of ``starts``, or 8 with
                ``feasible``.
            options: Those of SciPy's L-BFGS-B, passed to BoTorch's candidate generation.
            feasible: The slack of ``... x d``-dim items, ``...``-dim and differentiable; an
                item is feasible where it is at least 0, to 1e-9, and so are all that are returned.

        Raises:
            SearchSpaceError: If ``q`` is neither 1 nor 2, there are too many choices for ``q = 2``,
                or nothing feasible was found.
        """
        if q not in (1, 2):
            raise SearchSpaceError(f"`q` must be 1 or 2, got {q}.")
        with seeded(seed, self.bounds.device), torch.inference_mode(False):  # takes gradients
            if self.choices is not None:
                return self._best_choice(acq_function, q, seed, feasible)
            raw = self._fill(raw_samples, q, seed)
            known = raw[:0] if starts is None else starts.to(raw)
            raw = starting_points(acq_function, self.bounds, raw, known, num_restarts, feasible)
            if self.is_plain:
                items, value = refine(acq_function, self.bounds, raw, options, feasible)
            else:
                kinds, linear = self.parameters, self.polytope
                items, value = MixedSearch(acq_function, kinds, linear, feasible, options).best(raw)
        return Maximum(items.detach(), value.detach(), None)

    def subset(self, rows: Tensor) -> SearchSpace:
        """The same space with some rows of the choices alone."""
        part = SearchSpace(self.bounds, self.table[rows], **self._options())
        part.parameters = self.parameters  # a category may name each of few rows by chance
        return part

    def state_dict(self) -> dict[str, Any]:
        """Plain JSON; of what goes beyond bounds and choices only what there is.

        Of more than 2,000 choices it has ``rows``, ``columns`` and ``sha256``, the checksum of the
        numbers row by row in double precision, little-endian: the table is kept once, elsewhere.
        """
        choices: Any = None
        if self.choices is not None:
            choices = {**self._checksum} if self.is_large else self.choices.tolist()
        return {"bounds": self.bounds.tolist(), "choices": choices, **self._options()}

    @classmethod
    def from_state_dict(
        cls,
        state: dict[str, Any],
        device: torch.device | None = None,
        choices: Tensor | None = None,
    ) -> SearchSpace:
        """The space that :meth:`state_dict` was taken of.

        Args:
            state: Its state.
            device: Where its tables are; on the CPU by default.
            choices: The ``n x d``-dim table of which the state has the checksum.

        Raises:
            SearchSpaceError: If an entry cannot be used, or ``choices`` are missing, superfluous,
                or not those of the checksum.
        """
        listed = state.get("choices")
        if (choices is not None) != isinstance(listed, dict):
            raise SearchSpaceError(
                "`choices` is in the state: leave it out."
                if choices is not None
                else f"the state has a checksum of its table, {listed}: give that as `choices`."
            )
        given = {"bounds": state.get("bounds"), "choices": listed if choices is None else choices}
        tables = {
            name: torch.as_tensor(table, dtype=torch.double, device=device)
            for name, table in given.items()
            if table is not None
        }
        space = cls(**{**state, **tables})
        if choices is not None and space._checksum != listed:
            raise SearchSpaceError(f"`choices` is another table, {space._checksum}, not {listed}.")
        return space

    @cached_property
    def _checksum(self) -> dict[str, Any]:
        """What tells the choices from others."""
        numbers = np.ascontiguousarray(self.table.cpu().numpy(), dtype="<f8")
        rows, columns = numbers.shape
        digest = hashlib.sha256(numbers.data).hexdigest()
        return {"rows": rows, "columns": columns, "sha256": digest}

    def _best_choice(
        self, acq_function: AcquisitionFunction, q: int, seed: int, feasible: Feasible | None
    ) -> Maximum:
        n, device = len(self.table), self.table.device
        if q == 2 and n > MOST_PAIRED:
            raise SearchSpaceError(
                f"`choices` has {n:,} rows, but pairs are searched of {MOST_PAIRED:,} at most: "
                "search those of a subset."
            )
        ones = torch.arange(n, device=device).unsqueeze(-1)
        rows = ones if q == 1 else torch.triu_indices(n, n, 1, device=device).T
        with torch.no_grad():
            if feasible is not None:
                rows = rows[all_feasible(feasible, self.table.unsqueeze(-2))[rows].all(-1)]
                if not len(rows):
                    raise SearchSpaceError(f"`feasible` holds at less than {q} of the choices.")
            values = torch.cat([acq_function(self.table[part]) for part in rows.split(_PAIR_CHUNK)])
        noise = torch.rand(len(values), generator=torch.Generator().manual_seed(seed))
        best = argmax_with_random_ties(values, noise.to(values))
        row = rows[int(best)]
        return Maximum(self.table[row], values[best], tuple(row.tolist()))

    def _fill(self, n: int, q: int, seed: int) -> Tensor:
        """``n x q x d``-dim items that fill a box."""
        engine = SobolEngine(q * self.dim, scramble=True, seed=seed % 2**31)
        unit = engine.draw(max(n, 1), dtype=torch.double)[:n]
        items = self.parameters.from_unit(unit.view(n, q, self.dim))
        if self.polytope is not None:
            within = self.polytope.sample(n * q, seed).view(n, q, len(self.polytope.coupled))
            items[..., self.polytope.coupled] = within
        return items

    def _options(self) -> dict[str, Any]:
        """The constructor's further arguments as plain JSON, those that are not empty."""
        kinds = {name: list(getattr(self.parameters, name)) for name in _KINDS}
        linear = {name: [list(one) for one in getattr(self, name)] for name in _LINEAR}
        return {name: value for name, value in (kinds | linear).items() if value}

    def _check_fit(self, choices: Tensor) -> None:
        """Raises unless choices have the bounds' columns and device."""
        if choices.shape[-1] != self.dim:
            raise SearchSpaceError(
                f"`choices` has {choices.shape[-1]} columns but `bounds` {self.dim}."
            )
        if choices.device != self.bounds.device:
            raise SearchSpaceError(
                f"`choices` are on {choices.device}, but `bounds` on {self.bounds.device}."
            )


def _check_number(n: object) -> None:
    if not isinstance(n, int) or n < 0:
        raise SearchSpaceError(f"`n` must be a whole number, at least 0, not {n!r}.")
