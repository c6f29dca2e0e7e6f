r"""The domain, and what is largest on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from botorch.acquisition import AcquisitionFunction
from torch import Tensor

from botorch_pref.exceptions import SearchSpaceError
from botorch_pref.inference.finite import argmax_with_random_ties
from botorch_pref.randomness import seeded
from botorch_pref.space.box import Box, Constraints
from botorch_pref.space.checks import bounding_box, checked_table
from botorch_pref.space.feasible import Feasible, feasible_rows, promising, refine
from botorch_pref.space.mixed import MixedSearch

_PAIR_CHUNK = 4096


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


class SearchSpace(Box):
    r"""A box with real and whole numbers and categories, or a table of choices.

    Items are in the user's own units throughout, a category being the index of its level. All
    that is returned is feasible: within the bounds, whole where it should be, and to 1e-9 (of a
    right-hand side above 1, relative to it; or to rounding) within the linear constraints.

    Example:
        >>> bounds = torch.tensor([[0.0, 1.0, 1e-4, 0.0], [1.0, 9.0, 1.0, 2.0]])
        >>> space = SearchSpace(bounds, integer=[1], log=[2], categorical=[3])
        >>> space.maximize(rule, q=2, seed=0).items

    Attributes:
        choices: ``n x d``-dim table, or None; for all others see
            :class:`~botorch_pref.space.box.Box`.
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
        r"""Validate the domain.

        Args:
            bounds: ``2 x d``-dim lower and upper bounds. Beside ``choices`` they only say
                what the unit cube is; by default that is the choices' bounding box.
            choices: ``n x d``-dim table of the items that may be asked. A row is an item,
                also if its values stand in another row.
            integer: Dimensions that are whole numbers.
            categorical: Dimensions that are categories: of ``k`` levels 0, ..., ``k - 1``.
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
        if choices is not None:
            choices = checked_table("choices", choices)
            if len(choices) < 2:
                raise SearchSpaceError("`choices` needs two rows at least, to choose between.")
        super().__init__(
            bounding_box(choices, categorical) if bounds is None else bounds,
            integer=integer,
            categorical=categorical,
            log=log,
            inequality_constraints=inequality_constraints,
            equality_constraints=equality_constraints,
        )
        self.choices = choices
        if choices is not None:
            self.check_choices(choices)

    @property
    def table(self) -> Tensor:
        """The choices, where there are choices.

        Raises:
            SearchSpaceError: If the space is a box.
        """
        if self.choices is None:
            raise SearchSpaceError("This space is a box: it has no `choices`.")
        return self.choices

    def sample(self, n: int, seed: int) -> Tensor:
        r"""Items that fill the space.

        Args:
            n: How many.
            seed: Of the scrambled Sobol sequence, of the chains within linear constraints, or
                of the draw among choices.

        Returns:
            ``n x d``-dim items; distinct choices for as long as there are any.

        Raises:
            SearchSpaceError: If ``n`` is not a whole number, at least 0.
        """
        if self.choices is not None:
            return self.choices[self.sample_rows(n, seed)]
        if not isinstance(n, int) or n < 0:
            raise SearchSpaceError(f"`n` must be a whole number, at least 0, not {n!r}.")
        return self.filling(n, 1, seed).squeeze(-2)

    def sample_rows(self, n: int, seed: int) -> Tensor:
        r"""The ``n``-dim rows of :meth:`sample` in the choices.

        Raises:
            SearchSpaceError: As :meth:`sample`; and if the space is a box.
        """
        if not isinstance(n, int) or n < 0:
            raise SearchSpaceError(f"`n` must be a whole number, at least 0, not {n!r}.")
        total, generator = len(self.table), torch.Generator().manual_seed(seed)
        rounds = [torch.randperm(total, generator=generator) for _ in range(-(-n // total))]
        return torch.cat([*rounds, torch.empty(0, dtype=torch.long)])[:n]

    def contains(self, items: Tensor) -> Tensor:
        """Which of ``... x d`` items are feasible; of choices, those that are in the table."""
        if self.choices is None:
            return super().contains(items)
        return (items.unsqueeze(-2) == self.choices).all(-1).any(-1)

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
        to what is not feasible, or by :class:`~botorch_pref.space.mixed.MixedSearch` where not
        all is a real number on a linear scale; on choices every item, or every pair in one order
        (so a rule must not depend on it), is evaluated and ties are broken at random.

        Args:
            acq_function: The rule; takes ``b x q x d``.
            q: 1 for items, 2 for pairs.
            seed: Of everything random.
            starts: ``s x q x d``-dim further starting points; like the next three, for a box.
            raw_samples: The size of the Sobol sample.
            num_restarts: How many starting points are refined; 4, and two of ``starts``, or 8 with
                ``feasible``.
            options: Passed to BoTorch's candidate generation.
            feasible: The slack of ``... x d``-dim items, ``...``-dim and differentiable; an
                item is feasible where it is at least 0, to 1e-9, and so are all that are returned.

        Raises:
            SearchSpaceError: If ``q`` is neither 1 nor 2, or nothing feasible was found.
        """
        if q not in (1, 2):
            raise SearchSpaceError(f"`q` must be 1 or 2, got {q}.")
        with seeded(seed, self.bounds.device), torch.inference_mode(False):  # takes gradients
            if self.choices is not None:
                return self._best_choice(acq_function, q, seed, feasible)
            raw = self.filling(raw_samples, q, seed)
            known = raw[:0] if starts is None else starts.to(raw)
            raw = promising(acq_function, self.bounds, raw, known, num_restarts, feasible)
            if self.is_plain:
                items, value = refine(acq_function, self.bounds, raw, options, feasible)
            else:
                search = MixedSearch(
                    acq_function, self.parameters, self.polytope, feasible, options
                )
                items, value = search.best(raw)
        return Maximum(items.detach(), value.detach(), None)

    def _best_choice(
        self, acq_function: AcquisitionFunction, q: int, seed: int, feasible: Feasible | None
    ) -> Maximum:
        n, device = len(self.table), self.table.device
        pairs = torch.triu_indices(n, n, 1, device=device).T
        rows = torch.arange(n, device=device).unsqueeze(-1) if q == 1 else pairs
        with torch.no_grad():
            if feasible is not None:
                rows = feasible_rows(feasible, self.table, rows)
            values = torch.cat([acq_function(self.table[part]) for part in rows.split(_PAIR_CHUNK)])
        noise = torch.rand(len(values), generator=torch.Generator().manual_seed(seed))
        best = argmax_with_random_ties(values, noise.to(values))
        row = rows[int(best)]
        return Maximum(self.table[row], values[best], tuple(row.tolist()))

    def subset(self, rows: Tensor) -> SearchSpace:
        """The same space with some rows of the choices alone."""
        return SearchSpace(self.bounds, self.table[rows], **self.options())

    def state_dict(self) -> dict[str, Any]:
        """Plain JSON; of what goes beyond bounds and choices only what there is."""
        choices = None if self.choices is None else self.choices.tolist()
        return {"bounds": self.bounds.tolist(), "choices": choices, **self.options()}

    @classmethod
    def from_state_dict(
        cls, state: dict[str, Any], device: torch.device | None = None
    ) -> SearchSpace:
        """The space that :meth:`state_dict` was taken of; on the CPU by default."""
        options: dict[str, Any] = {
            name: value
            if value is None or name not in ("bounds", "choices")
            else torch.as_tensor(value, dtype=torch.double, device=device)
            for name, value in state.items()
        }
        return cls(**options)
