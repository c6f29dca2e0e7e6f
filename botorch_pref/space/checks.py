r"""What a search space is given, checked; every error names argument and row or column."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from botorch_pref.exceptions import SearchSpaceError


class LinearConstraint(NamedTuple):
    r"""``sum_i coefficients_i x[indices_i]`` at least, or equal to, ``rhs``.

    Attributes:
        indices: The dimensions.
        coefficients: One for each.
        rhs: The right-hand side.
    """

    indices: tuple[int, ...]
    coefficients: tuple[float, ...]
    rhs: float


def checked_table(name: str, table: object) -> Tensor:
    """A copy of a two-dimensional tensor of finite numbers."""
    if not isinstance(table, Tensor) or table.dim() != 2 or not table.numel():
        raise SearchSpaceError(f"`{name}` must be a two-dimensional tensor that is not empty.")
    if not table.is_floating_point():
        raise SearchSpaceError(f"`{name}` must be floating point, but is {table.dtype}.")
    bad = (~table.isfinite()).any(dim=-1).nonzero()
    if len(bad):
        row = int(bad[0])
        raise SearchSpaceError(f"`{name}` row {row} is {table[row].tolist()}: NaN or infinite.")
    return table.detach().to(torch.double, copy=True)  # the caller's may change


def checked_bounds(bounds: object) -> Tensor:
    """A copy of ``2 x d``-dim bounds, the lower below the upper."""
    checked = checked_table("bounds", bounds)
    if len(checked) != 2:
        raise SearchSpaceError(f"`bounds` must be 2 x d, but is {tuple(checked.shape)}.")
    bad = (checked[0] >= checked[1]).nonzero()
    if len(bad):
        column = int(bad[0])
        raise SearchSpaceError(
            f"`bounds` column {column} is {checked[:, column].tolist()}: the lower bound must "
            "be below the upper."
        )
    return checked + 0.0  # no -0, which items at a bound would show


def bounding_box(choices: Tensor | None, categorical: Sequence[int]) -> Tensor:
    """The bounds of a table where none are given; the first level of a category is 0."""
    if choices is None:
        raise SearchSpaceError("Give `bounds`, `choices`, or both.")
    lower, upper = choices.amin(0), choices.amax(0)
    levels = list(checked_dimensions("categorical", categorical, choices.shape[-1]))
    lower[levels] = lower[levels].clamp_max(0.0)
    upper[levels] = upper[levels].clamp_min(1.0)
    # A constant column stays a dimension, of unit width.
    return torch.stack([lower, torch.where(lower == upper, lower + 1.0, upper)])


def checked_dimensions(name: str, indices: Sequence[int], dim: int) -> tuple[int, ...]:
    """Sorted dimensions of a ``d``-dim space, none of them twice."""
    try:
        found = sorted(map(operator.index, indices))
    except TypeError as error:
        raise SearchSpaceError(
            f"`{name}` must be a list of whole numbers, got {indices!r}."
        ) from error
    for index in found:
        if not 0 <= index < dim:
            raise SearchSpaceError(f"`{name}` has {index}, but dimensions are 0 to {dim - 1}.")
    if len(set(found)) < len(found):
        raise SearchSpaceError(f"`{name}` has a dimension more than once: {found}.")
    return tuple(found)


def checked_constraints(
    name: str, constraints: Sequence[Any], dim: int, refused: Sequence[int]
) -> tuple[LinearConstraint, ...]:
    r"""Constraints in BoTorch's form.

    Args:
        name: Of the argument.
        constraints: Triples of indices, coefficients and the right-hand side.
        dim: ``d``.
        refused: Dimensions that cannot be constrained.
    """
    checked = []
    for row, entry in enumerate(constraints):
        try:
            indices, coefficients, rhs = entry
            indices = torch.as_tensor(indices, device="cpu")
            given = torch.as_tensor(coefficients, dtype=torch.double, device="cpu")
            found = checked_dimensions(name, indices.tolist(), dim)
            fits = given.shape == indices.shape == (len(found),) and bool(len(found))
            numbers = torch.cat([given.flatten(), torch.tensor([float(rhs)], dtype=torch.double)])
        except (TypeError, ValueError, RuntimeError):
            fits = False
        if not fits or not bool(numbers.isfinite().all()):
            raise SearchSpaceError(
                f"`{name}` row {row} must be (indices, coefficients, rhs): the dimensions, as many "
                f"finite numbers, and a number; got {entry!r}."
            )
        if clash := sorted(set(found) & set(refused)):
            raise SearchSpaceError(
                f"`{name}` row {row} has dimension {clash[0]}, which is categorical or "
                "log-scaled: only real and whole numbers on a linear scale can be constrained."
            )
        if not bool(given.any()):
            raise SearchSpaceError(f"`{name}` row {row} has no coefficient but 0.")
        constraint = LinearConstraint(tuple(indices.tolist()), tuple(given.tolist()), float(rhs))
        checked.append(constraint)
    return tuple(checked)
