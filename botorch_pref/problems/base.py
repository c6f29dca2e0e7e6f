r"""The base classes of preference problems: a utility that is to be maximised."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence

import torch
from botorch.test_functions.synthetic import SyntheticTestFunction
from torch import Tensor

from botorch_pref.exceptions import SearchSpaceError, UnsupportedError
from botorch_pref.space.search_space import SearchSpace


class ItemError(SearchSpaceError, ValueError):
    """An item that a problem cannot evaluate; a ``ValueError`` as BoTorch's own are."""


class PreferenceProblem(SyntheticTestFunction, ABC):
    r"""A utility ``f`` on a box, possibly restricted to a table of choices.

    A BoTorch test problem that is always maximised: a subclass names its box in ``_bounds``, its
    maximum in ``_optimal_value`` and its utility in ``_evaluate_true``; calling it validates the
    items first. Utilities carry no noise: that is the judge's.

    Attributes:
        name: What the problem is called on the command line and in plots.
        dim: The dimension ``d`` of an item.
        bounds: A ``2 x d``-dim tensor of lower and upper bounds.
        choices: An ``n x d``-dim tensor of the items that may be asked; ``None`` for the whole box.
    """

    name: str = ""
    bounds: Tensor
    choices: Tensor | None
    _utilities: Tensor | None
    _is_minimization_by_default = False

    def __init__(
        self,
        bounds: Sequence[tuple[float, float]] | None = None,
        choices: Tensor | None = None,
    ) -> None:
        r"""Set the domain.

        Args:
            bounds: ``d`` pairs of a lower and an upper bound; those of the class if omitted.
            choices: An ``n x d``-dim tensor of items within the bounds.

        Raises:
            SearchSpaceError: If the choices are no table of items within the bounds.
        """
        if bounds is not None:
            self._bounds = [(float(lower), float(upper)) for lower, upper in bounds]
        self.dim = len(self._bounds)
        self.continuous_inds = list(range(self.dim))
        super().__init__()
        self.name = self.name or type(self).__name__.lower()
        self.register_buffer("choices", None)
        self.register_buffer("_utilities", None)
        if choices is not None:
            if choices.dim() != 2 or len(choices) == 0:
                raise SearchSpaceError(
                    "choices must be a non-empty n x d tensor of items, got shape "
                    f"{tuple(choices.shape)}."
                )
            self._validate_items(choices, argument="choices")
            self.choices = choices.double()

    @property
    def space(self) -> SearchSpace:
        """The choices, or the box; a subclass may restrict it further."""
        return SearchSpace(self.bounds, self.choices)

    @property
    def utilities(self) -> Tensor:
        r"""The ``n``-dim utilities of the choices.

        Raises:
            UnsupportedError: If the problem has no choices.
        """
        if self.choices is None:
            raise UnsupportedError(f"{self.name} has no choices: its domain is a box.")
        if self._utilities is None:
            self._utilities = self.evaluate_true(self.choices).detach()
        return self._utilities

    @property
    def optimal_value(self) -> float:
        r"""The largest utility, over the choices where there are any, else the box.

        Raises:
            NotImplementedError: If the problem does not know its maximum.
        """
        if self.choices is None:
            return float(super().optimal_value)
        return float(self.utilities.max())

    def utility(self, indices: Tensor) -> Tensor:
        r"""The ``...``-dim utilities of choices named by ``...``-dim indices.

        Raises:
            ItemError: If an index is not a whole number, or names no choice.
            UnsupportedError: If the problem has no choices.
        """
        utilities = self.utilities
        if indices.is_floating_point() or indices.dtype == torch.bool:
            raise ItemError(f"indices must be whole numbers, got {indices.dtype}.")
        wrong = (indices < 0) | (indices >= len(utilities))
        if wrong.any():
            value = int(indices[wrong][0])
            where = f"got {value} at {_first(wrong)}"
            raise ItemError(f"indices must lie in [0, {len(utilities)}), {where}.")
        return utilities[indices.long()]

    def evaluate_true(self, X: Tensor) -> Tensor:
        r"""The ``batch_shape``-dim utilities of ``batch_shape x d``-dim items, of their dtype.

        Raises:
            ItemError: If ``X`` has the wrong shape or dtype, is not finite, or lies outside the
                bounds; names the first such row.
        """
        self._validate_items(X, argument="X")
        return self._evaluate_true(X)

    def _validate_items(self, X: Tensor, argument: str) -> None:
        """Raise an ``ItemError`` unless ``X`` has items within the bounds."""
        if not X.is_floating_point():
            raise ItemError(f"{argument} must be floating point, got {X.dtype}.")
        if X.dim() == 0 or X.shape[-1] != self.dim:
            raise ItemError(
                f"Expected `{argument}` to have shape `(batch_shape) x {self.dim}`, "
                f"got {tuple(X.shape)}."
            )
        missing = ~X.isfinite().all(dim=-1)
        if missing.any():
            raise ItemError(f"{argument} is not finite in row {_first(missing)}.")
        lower, upper = self.bounds
        outside = ((lower > X) | (upper < X)).any(dim=-1)
        if outside.any():
            raise ItemError(
                f"Expected `{argument}` to be within the bounds of the test problem. "
                f"Row {_first(outside)} is not."
            )


class TableProblem(PreferenceProblem):
    r"""A utility that was measured, or rated, item by item.

    Calling the problem looks items up: each has to be a choice, to the last bit. A choice that
    occurs more than once has more than one utility, and has to be named by its index.
    """

    choices: Tensor

    def __init__(
        self,
        choices: Tensor,
        utilities: Tensor,
        bounds: Sequence[tuple[float, float]] | None = None,
    ) -> None:
        r"""Set the table.

        Args:
            choices: An ``n x d``-dim tensor of items within the bounds.
            utilities: Their ``n``-dim utilities.
            bounds: ``d`` pairs of a lower and an upper bound; those of the class if omitted.

        Raises:
            SearchSpaceError: If the choices are no table of items within the bounds, or the
                utilities are not a finite number each.
        """
        super().__init__(bounds=bounds, choices=choices)
        if utilities.shape != (len(choices),):
            raise SearchSpaceError(
                f"utilities must be {len(choices)} numbers, one a choice, got shape "
                f"{tuple(utilities.shape)}."
            )
        missing = ~utilities.isfinite()
        if missing.any():
            raise SearchSpaceError(f"utilities is not finite in row {_first(missing)}.")
        self._utilities = utilities.to(self.choices)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        same = (X.unsqueeze(-2) == self.choices.to(X)).all(dim=-1)
        matches, rows = same.sum(dim=-1), same.long().argmax(dim=-1)
        if (matches == 0).any():
            raise ItemError(f"X is not a choice in row {_first(matches == 0)}.")
        if (matches > 1).any():
            position = _first(matches > 1)
            raise ItemError(
                f"choice {int(rows[tuple(position)])}, row {position} of X, was measured more than "
                "once: name it by its index, in .utility(indices)."
            )
        return self.utilities.to(X)[rows]


def evenly_spaced(lower: float, upper: float, num_choices: int) -> Tensor:
    """``num_choices x 1``-dim choices on a line, symmetric to the last bit, as ties have to be."""
    if num_choices < 2:
        raise SearchSpaceError(f"num_choices must be at least 2, got {num_choices}.")
    grid = torch.linspace(lower, upper, num_choices, dtype=torch.double)
    half = num_choices // 2
    grid[:half] = lower + upper - grid.flip(0)[:half]
    return grid.unsqueeze(-1)


def _first(mask: Tensor) -> list[int]:
    """The position of the first true entry."""
    position: list[int] = mask.nonzero()[0].tolist()
    return position
