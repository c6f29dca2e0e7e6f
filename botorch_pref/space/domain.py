r"""The domain, and the package's only calls of BoTorch's optimizers."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from botorch.acquisition import AcquisitionFunction
from torch import Tensor
from torch.quasirandom import SobolEngine

from botorch_pref.exceptions import SearchSpaceError
from botorch_pref.finite import argmax_with_random_ties
from botorch_pref.randomness import seeded
from botorch_pref.space.feasible import Feasible, all_feasible, refine, spread

_RESTARTS, _CONSTRAINED_RESTARTS = 4, 8  # a constraint cuts what is promising into pieces
_PAIR_CHUNK = 4096
_RAW_CHUNK = 128  # what random features of so many items take stays in the cache


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
    r"""A box, or a table of choices.

    Example:
        >>> space = SearchSpace(bounds=torch.tensor([[0.0, 0.0], [1.0, 2.0]]))
        >>> space.maximize(rule, q=2, seed=0).items
    """

    def __init__(self, bounds: Tensor | None = None, choices: Tensor | None = None) -> None:
        r"""Validate the domain.

        Args:
            bounds: ``2 x d``-dim lower and upper bounds. Beside ``choices`` they only say
                what the unit cube is; by default that is the choices' bounding box.
            choices: ``n x d``-dim table of the items that may be asked. A row is an item,
                also if its values stand in another row.

        Raises:
            SearchSpaceError: If neither is given, or one has a wrong shape, type, order or
                entry; names argument and row or column.
        """
        if choices is not None:
            choices = _checked_table("choices", choices)
            if len(choices) < 2:
                raise SearchSpaceError("`choices` needs two rows at least: a duel has two items.")
        if bounds is None:
            bounds = _bounding_box(choices)
        self.bounds = _checked_bounds(bounds)
        self.choices = choices
        if choices is not None and choices.shape[-1] != self.dim:
            raise SearchSpaceError(
                f"`choices` has {choices.shape[-1]} columns but `bounds` {self.dim}."
            )

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

    def normalize(self, items: Tensor) -> Tensor:
        """``... x d`` items, with the box mapped to the unit cube."""
        return (items - self.bounds[0]) / (self.bounds[1] - self.bounds[0])

    def sample(self, n: int, seed: int) -> Tensor:
        r"""Items that fill the space.

        Args:
            n: How many.
            seed: Of the scrambled Sobol sequence, or of the draw among choices.

        Returns:
            ``n x d``-dim items; distinct choices for as long as there are any.

        Raises:
            SearchSpaceError: If ``n`` is not a whole number, at least 0.
        """
        if not isinstance(n, int) or n < 0:
            raise SearchSpaceError(f"`n` must be a whole number, at least 0, not {n!r}.")
        if self.choices is None:
            return self._sobol(n, self.dim, seed)
        generator = torch.Generator().manual_seed(seed)
        total = len(self.choices)
        rounds = [torch.randperm(total, generator=generator) for _ in range(-(-n // total))]
        return self.choices[torch.cat([*rounds, torch.empty(0, dtype=torch.long)])[:n]]

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
        to what is not feasible; on choices every item, or every unordered pair, is evaluated
        and ties are broken at random.

        Args:
            acq_function: The rule; takes ``b x q x d``.
            q: 1 for items, 2 for pairs.
            seed: Of everything random.
            starts: ``s x q x d``-dim further starting points, for a box.
            raw_samples: The size of the Sobol sample.
            num_restarts: How many starting points are refined; 4, or 8 with ``feasible``.
            options: Passed to BoTorch's candidate generation.
            feasible: The slack of ``... x d``-dim items, ``...``-dim and differentiable; an
                item is feasible where it is at least 0, to 1e-9, and so are all that are returned.

        Raises:
            SearchSpaceError: If ``q`` is neither 1 nor 2, or nothing feasible was found.
        """
        if q not in (1, 2):
            raise SearchSpaceError(f"`q` must be 1 or 2, got {q}.")
        with seeded(seed):
            if self.choices is not None:
                return self._best_choice(acq_function, q, seed, feasible)
            raw = self._sobol(raw_samples, q * self.dim, seed).view(raw_samples, q, self.dim)
            if starts is not None:
                raw = torch.cat([raw, starts.to(raw)])
            with torch.no_grad():
                raw = raw[all_feasible(feasible, raw)]
                values = torch.cat([acq_function(part) for part in raw.split(_RAW_CHUNK)])
                if feasible is None:
                    best = values.topk(min(num_restarts or _RESTARTS, len(raw))).indices
                else:
                    best = spread(values, raw, self.bounds, num_restarts or _CONSTRAINED_RESTARTS)
            items, value = refine(acq_function, self.bounds, raw[best], options, feasible)
        return Maximum(items.detach(), value.detach(), None)

    def _best_choice(
        self, acq_function: AcquisitionFunction, q: int, seed: int, feasible: Feasible | None
    ) -> Maximum:
        n = len(self.table)
        rows = torch.arange(n).unsqueeze(-1) if q == 1 else torch.triu_indices(n, n, 1).T
        with torch.no_grad():
            if feasible is not None:
                rows = rows[all_feasible(feasible, self.table.unsqueeze(-2))[rows].all(-1)]
            parts = [acq_function(self.table[part]) for part in rows.split(_PAIR_CHUNK)]
        values = torch.cat(parts)
        noise = torch.rand(len(values), generator=torch.Generator().manual_seed(seed))
        best = argmax_with_random_ties(values, noise.to(values))
        row = rows[int(best)]
        return Maximum(self.table[row], values[best], tuple(row.tolist()))

    def _sobol(self, n: int, columns: int, seed: int) -> Tensor:
        engine = SobolEngine(columns, scramble=True, seed=seed % 2**31)
        unit = engine.draw(max(n, 1), dtype=torch.double)[:n]
        lower, upper = self.bounds.repeat(1, columns // self.dim)
        return lower + (upper - lower) * unit.to(self.bounds)

    def state_dict(self) -> dict[str, Any]:
        """Plain JSON: bounds and choices as nested lists."""
        choices = None if self.choices is None else self.choices.tolist()
        return {"bounds": self.bounds.tolist(), "choices": choices}

    @classmethod
    def from_state_dict(cls, state: dict[str, Any]) -> SearchSpace:
        """The space that :meth:`state_dict` was taken of."""
        tensors = {
            name: None if value is None else torch.tensor(value, dtype=torch.double)
            for name, value in state.items()
        }
        return cls(**tensors)


def _bounding_box(choices: Tensor | None) -> Tensor:
    if choices is None:
        raise SearchSpaceError("Give `bounds`, `choices`, or both.")
    lower, upper = choices.amin(0), choices.amax(0)
    # A constant column stays a dimension, of unit width.
    return torch.stack([lower, torch.where(lower == upper, lower + 1.0, upper)])


def _checked_table(name: str, table: Tensor) -> Tensor:
    if not isinstance(table, Tensor) or table.dim() != 2 or not table.numel():
        raise SearchSpaceError(f"`{name}` must be a two-dimensional tensor that is not empty.")
    if not table.is_floating_point():
        raise SearchSpaceError(f"`{name}` must be floating point, but is {table.dtype}.")
    bad = (~table.isfinite()).any(dim=-1).nonzero()
    if len(bad):
        row = int(bad[0])
        raise SearchSpaceError(f"`{name}` row {row} is {table[row].tolist()}: NaN or infinite.")
    return table.detach().to(torch.double, copy=True)  # the caller's may change


def _checked_bounds(bounds: Tensor) -> Tensor:
    bounds = _checked_table("bounds", bounds)
    if len(bounds) != 2:
        raise SearchSpaceError(f"`bounds` must be 2 x d, but is {tuple(bounds.shape)}.")
    bad = (bounds[0] >= bounds[1]).nonzero()
    if len(bad):
        column = int(bad[0])
        raise SearchSpaceError(
            f"`bounds` column {column} is {bounds[:, column].tolist()}: the lower bound must "
            "be below the upper."
        )
    return bounds
