r"""Checks of data and of options.

Each raises a :class:`~botorch_pref.exceptions.ComparisonDataError` that names the argument, and for
data the row.
"""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Mapping
from numbers import Real
from typing import Any, Final, Literal, NamedTuple, TypeGuard, get_args

import torch
from botorch.exceptions.warnings import InputDataWarning, _get_single_precision_warning
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError

UNKNOWN_ANNOTATOR: Final = -1
"""The annotator of a row added without one to data that have annotators."""


LARGEST: Final = 1e100
"""The largest absolute number that is taken: in double precision its square is a number, too."""

ITSELF: Final = "an item cannot be compared with itself"


class Check(NamedTuple):
    """Rows to refuse: ``values`` is ``... x m x ...``, ``bad`` is ``... x m`` and boolean."""

    argument: str
    values: Tensor
    bad: Tensor
    reason: str


def refuse(*checks: Check) -> None:
    """Raises for the first bad row of the first check that has one; else costs one transfer."""
    if not torch.stack([check.bad.any() for check in checks]).any():
        return
    for argument, values, bad, reason in checks:
        for where in bad.nonzero()[:1].tolist():
            *batch, row = where
            place = f"batch {tuple(batch)} row {row}" if batch else f"row {row}"
            shown = str(values[tuple(where)].tolist())
            shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
            raise ComparisonDataError(f"`{argument}` {place} is {shown}: {reason}.")


def check_shape(argument: str, value: object, *sizes: int | str, batch: bool = True) -> None:
    """Checks the trailing dimensions; those given by a letter may have any size."""
    if not isinstance(value, Tensor):
        raise ComparisonDataError(f"`{argument}` must be a tensor, not {type(value).__name__}.")
    depth = len(sizes)
    fits = value.dim() >= depth if batch else value.dim() == depth
    have = value.shape[value.dim() - depth :] if fits else value.shape
    if not fits or any(
        isinstance(want, int) and want != size for want, size in zip(sizes, have, strict=True)
    ):
        wanted = " x ".join([*(["..."] if batch else []), *map(str, sizes)])
        raise ComparisonDataError(
            f"`{argument}` must have shape {wanted}, but has shape {tuple(value.shape)}."
        )


def check_device(argument: str, value: Tensor, like: Tensor) -> None:
    """Checks that ``value`` is on the datapoints' device."""
    if value.device != like.device:
        raise ComparisonDataError(
            f"`{argument}` is on {value.device}, but the items are on {like.device}."
        )


def check_like(argument: str, value: Tensor, like: Tensor) -> None:
    """Checks that ``value`` has the datapoints' type and device."""
    if value.dtype != like.dtype:
        raise ComparisonDataError(
            f"`{argument}` is of type {value.dtype}, but the items are {like.dtype}."
        )
    check_device(argument, value, like)


def check_items(argument: str, value: Tensor, *sizes: int | str, batch: bool = True) -> None:
    """Checks shape and type of items; the only place that warns of single precision."""
    check_shape(argument, value, *sizes, batch=batch)
    if value.shape[-1] == 0:
        raise ComparisonDataError(f"`{argument}` has items without dimensions (d = 0).")
    if value.dtype not in (torch.float32, torch.float64):
        raise ComparisonDataError(
            f"`{argument}` must be floating point (torch.float64), but is {value.dtype}."
        )
    if value.dtype == torch.float32:
        # BoTorch's own words, which users filter on.
        message = _get_single_precision_warning(str(value.dtype))
        warnings.warn(message, InputDataWarning, stacklevel=3)


def check_columns(argument: str, items: Tensor, columns: Mapping[str, Tensor]) -> None:
    """Checks ``... x n x d``-dim items, and columns ``... x n x 1`` by their names."""
    check_items(argument, items, "n", "d")
    for name, column in columns.items():
        check_shape(name, column, items.shape[-2], 1)
        check_like(name, column, items)


def as_indices(argument: str, value: Tensor, like: Tensor, *sizes: int | str) -> Tensor:
    """Casts indices of any integer type to long; floats and booleans are refused."""
    check_shape(argument, value, *sizes)
    if value.is_floating_point() or value.is_complex() or value.dtype == torch.bool:
        raise ComparisonDataError(f"`{argument}` must be of an integer type, but is {value.dtype}.")
    check_device(argument, value, like)
    return value.long()


def as_annotators(argument: str, value: Tensor, like: Tensor, num_rows: int) -> Tensor:
    """Casts annotator numbers of any integer type to long."""
    numbers = as_indices(argument, value, like, num_rows)
    reason = f"an annotator is at least 0, or {UNKNOWN_ANNOTATOR} if unknown"
    refuse(Check(argument, numbers, numbers < UNKNOWN_ANNOTATOR, reason))
    return numbers


def checked_annotators(argument: str, value: Tensor, like: Tensor) -> Tensor:
    """Annotator numbers that are broadcast to another tensor's shape, as long integers."""
    check_shape(argument, value)
    sizes = zip(value.shape[::-1], like.shape[::-1], strict=False)
    if value.dim() > like.dim() or any(size not in (1, own) for size, own in sizes):
        raise ComparisonDataError(
            f"`{argument}` has shape {tuple(value.shape)}, which is not broadcast to that of the "
            f"pairs, {tuple(like.shape)}."
        )
    return as_annotators(argument, value.reshape(-1), like, value.numel()).view(value.shape)


def common_batch_shape(**shapes: torch.Size) -> torch.Size:
    """Broadcasts batch shapes, given by the names of the arguments."""
    try:
        return torch.Size(torch.broadcast_shapes(*shapes.values()))
    except RuntimeError as error:
        found = ", ".join(f"`{argument}` {tuple(shape)}" for argument, shape in shapes.items())
        raise ComparisonDataError(f"The batch shapes do not broadcast: {found}.") from error


def finite(argument: str, items: Tensor, item_dims: int = 1) -> Check:
    """A row, the last ``item_dims`` dimensions, is finite, and so are its squares."""
    # Both, as in single precision the largest number is infinite.
    good = items.isfinite() & (items.abs() <= LARGEST)
    bad = ~good.flatten(start_dim=-item_dims).all(dim=-1)
    return Check(argument, items, bad, f"NaN or infinite, or above {LARGEST:g}")


def in_range(argument: str, pairs: Tensor, num_items: int) -> Check:
    """Both indices of a row name an item; negative ones do not."""
    bad = ((pairs < 0) | (pairs >= num_items)).any(dim=-1)
    return Check(argument, pairs, bad, f"an index is out of range for {num_items} items")


def distinct(argument: str, pairs: Tensor) -> Check:
    """The two entries of a row differ."""
    return Check(argument, pairs, pairs[..., 0] == pairs[..., 1], ITSELF)


def is_positive(value: object) -> TypeGuard[float]:
    """Whether it is a positive number, and its square as well in floating point."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return 1 / LARGEST <= float(value) <= LARGEST
    except OverflowError:  # of a whole number
        return False


def checked_positive(argument: str, value: object) -> float:
    """A positive, finite number as a float."""
    if is_positive(value):
        return float(value)
    raise ComparisonDataError(
        f"`{argument}` must be a positive finite number, not {value!r} (at most {LARGEST:g}, and "
        f"at least {1 / LARGEST:g})."
    )


def checked_nonnegative(argument: str, value: Any) -> float:
    """A number that is 0, or positive and finite, as a float."""
    if value == 0 or is_positive(value):
        return float(value)
    raise ComparisonDataError(f"`{argument}` must be 0 or a positive finite number, not {value!r}.")


def checked_share(argument: str, value: object) -> float:
    """A number above 0 and below 1 as a float."""
    if (share := checked_positive(argument, value)) < 1.0:
        return share
    raise ComparisonDataError(f"`{argument}` must be less than 1, got {value!r}.")


def checked_kappa(argument: str, value: object) -> Literal["laplace"] | float:
    """``"laplace"``, or ``kappa``, the inverse of an answer-free curvature."""
    if not isinstance(value, str):
        return checked_positive(argument, value)
    if value != "laplace":
        reason = f'must be "laplace" or a positive number, not {value!r}'
        raise ComparisonDataError(f"`{argument}` {reason}.")
    return "laplace"


def check_count(argument: str, value: object, least: int, most: float = math.inf) -> int:
    """A whole number, also of NumPy's, as an ``int``."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or not least <= number <= most:
        limit = f"at least {least}" if most == math.inf else f"{least} to {most:,}"
        raise ComparisonDataError(f"`{argument}` must be a whole number, {limit}, not {value!r}.")
    return number


def check_word(argument: str, value: object, words: Any) -> None:
    """Checks one of the words of a ``Literal``."""
    if value not in get_args(words):
        raise ComparisonDataError(
            f"`{argument}` must be one of {', '.join(get_args(words))}, not {value!r}."
        )
