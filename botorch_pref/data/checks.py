r"""Checks of judgement data and of options: each error names the argument, and the row."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Mapping
from fractions import Fraction
from numbers import Real
from typing import Any, Final, Literal, NamedTuple, TypeGuard, get_args

import numpy as np
import torch
from botorch.exceptions.warnings import InputDataWarning, _get_single_precision_warning
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError

UNKNOWN_ANNOTATOR: Final = -1
"""The annotator of a row added without one to data that have annotators."""


class Check(NamedTuple):
    """Rows to refuse: ``values`` is ``... x m x ...``, ``bad`` is ``... x m`` and boolean."""

    argument: str
    values: Tensor
    bad: Tensor
    reason: str


def refuse(*checks: Check) -> None:
    """Raises for the first bad row of the first check that has one; else costs one transfer.

    Raises:
        ComparisonDataError: If there is a bad row; names argument, batch index and row.
    """
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
    """Checks the trailing dimensions, of which those given by a letter may have any size.

    Raises:
        ComparisonDataError: If ``value`` is no tensor, or has another shape.
    """
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
    """Checks that ``value`` is on the datapoints' device.

    Raises:
        ComparisonDataError: If it is not.
    """
    if value.device != like.device:
        raise ComparisonDataError(
            f"`{argument}` is on {value.device}, but the items are on {like.device}."
        )


def check_like(argument: str, value: Tensor, like: Tensor) -> None:
    """Checks that ``value`` has the datapoints' type and device.

    Raises:
        ComparisonDataError: If it does not.
    """
    if value.dtype != like.dtype:
        raise ComparisonDataError(
            f"`{argument}` is of type {value.dtype}, but the items are {like.dtype}."
        )
    check_device(argument, value, like)


def check_items(argument: str, value: Tensor, *sizes: int | str, batch: bool = True) -> None:
    """Checks shape and type of a caller's items; the only place to warn of single precision.

    Raises:
        ComparisonDataError: If the shape is another, ``d`` is 0 or the type is not a float.
    """
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


def as_indices(argument: str, value: Tensor, like: Tensor, *sizes: int | str) -> Tensor:
    """Casts indices of any integer type to long; floats and booleans are refused.

    Raises:
        ComparisonDataError: If shape, type or device are others.
    """
    check_shape(argument, value, *sizes)
    if value.is_floating_point() or value.is_complex() or value.dtype == torch.bool:
        raise ComparisonDataError(f"`{argument}` must be of an integer type, but is {value.dtype}.")
    check_device(argument, value, like)
    return value.long()


def common_batch_shape(**shapes: torch.Size) -> torch.Size:
    """Broadcasts batch shapes, given by the names of the arguments.

    Raises:
        ComparisonDataError: If they do not broadcast.
    """
    try:
        return torch.Size(torch.broadcast_shapes(*shapes.values()))
    except RuntimeError as error:
        found = ", ".join(f"`{argument}` {tuple(shape)}" for argument, shape in shapes.items())
        raise ComparisonDataError(f"The batch shapes do not broadcast: {found}.") from error


def finite(argument: str, items: Tensor, item_dims: int = 1) -> Check:
    """A row, the last ``item_dims`` dimensions, is finite."""
    bad = ~items.isfinite().flatten(start_dim=-item_dims).all(dim=-1)
    return Check(argument, items, bad, "NaN or infinite")


def in_range(argument: str, pairs: Tensor, num_items: int) -> Check:
    """Both indices of a row name an item; negative ones do not."""
    bad = ((pairs < 0) | (pairs >= num_items)).any(dim=-1)
    return Check(argument, pairs, bad, f"an index is out of range for {num_items} items")


def distinct(argument: str, pairs: Tensor) -> Check:
    """The two entries of a row differ."""
    bad = pairs[..., 0] == pairs[..., 1]
    return Check(argument, pairs, bad, "an item cannot be compared with itself")


def check_answers(answers: Tensor, like: Tensor, num_rows: int) -> Check:
    """Checks shape and device now; the returned check is that each row is an answer.

    Raises:
        ComparisonDataError: If shape, type or device are others.
    """
    check_shape("answers", answers, num_rows)
    check_device("answers", answers, like)
    bad = (answers != 0) & (answers != 0.5) & (answers != 1)
    reason = "an answer is 1 (the first wins), 0 (the second) or 0.5 (no preference)"
    return Check("answers", answers, bad, reason)


def check_pairs(pairs: Tensor, answers: Tensor, like: Tensor) -> None:
    """Checks ``m x 2 x d``-dim pairs of items, and their ``m`` answers.

    Raises:
        ComparisonDataError: If shape, type or device are others than the datapoints', or a row
            is not finite, has two equal items, or another answer.
    """
    check_shape("pairs", pairs, "m", 2, like.shape[-1], batch=False)
    check_like("pairs", pairs, like)
    check_shape("answers", answers, pairs.shape[0], batch=False)
    itself = distinct("pairs", pairs.transpose(-1, -2))
    refuse(
        finite("pairs", pairs, item_dims=2),
        itself._replace(values=pairs, bad=itself.bad.all(dim=-1)),
        check_answers(answers, like, pairs.shape[0]),
    )


def as_annotators(annotator: Tensor, like: Tensor, num_rows: int) -> Tensor:
    """Casts annotator numbers of any integer type to long.

    Raises:
        ComparisonDataError: If shape, type or device are others, or a number is negative.
    """
    annotator = as_indices("annotator", annotator, like, num_rows)
    reason = f"an annotator is at least 0, or {UNKNOWN_ANNOTATOR} if unknown"
    refuse(Check("annotator", annotator, annotator < UNKNOWN_ANNOTATOR, reason))
    return annotator


def checked_fields(
    datapoints: Tensor, pairs: Tensor, wins: Tensor, count: Tensor, annotator: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
    """Checks the fields of ``Comparisons`` and broadcasts their batch shapes.

    Raises:
        ComparisonDataError: As the class says.
    """
    check_items("datapoints", datapoints, "n", "d")
    n, d = datapoints.shape[-2:]
    pairs = as_indices("pairs", pairs, datapoints, "m", 2)
    m = pairs.shape[-2]
    for name, value in (("wins", wins), ("count", count)):
        check_shape(name, value, m)
        check_like(name, value, datapoints)
    shapes = {"datapoints": datapoints.shape[:-2], "pairs": pairs.shape[:-2]}
    shapes |= {"wins": wins.shape[:-1], "count": count.shape[:-1]}
    if annotator is not None:
        annotator = as_annotators(annotator, datapoints, m)
        shapes["annotator"] = annotator.shape[:-1]
    batch = common_batch_shape(**shapes)
    datapoints, pairs = datapoints.expand(*batch, n, d), pairs.expand(*batch, m, 2)
    wins, count = wins.expand(*batch, m), count.expand(*batch, m)
    itself = distinct("pairs", pairs)
    whole = count.isfinite() & (count >= 0) & (count == count.round())
    halves = (wins >= 0) & (wins <= count) & (2 * wins == (2 * wins).round())
    refuse(
        finite("datapoints", datapoints),
        in_range("pairs", pairs, n),
        itself._replace(bad=itself.bad & (count > 0)),
        Check("count", count, ~whole, "a count is a whole number, at least 0"),
        Check("wins", wins, ~halves, "wins are a multiple of 0.5 between 0 and `count`"),
    )
    annotator = None if annotator is None else annotator.expand(*batch, m)
    return datapoints, pairs, wins, count, annotator


_NO_NUMBERS = ("inf", "-inf", "nan")


def is_positive(value: object) -> TypeGuard[float]:
    """Whether it is a positive, finite number."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    return 0 < float(value) < math.inf


def checked_positive(argument: str, value: object) -> float:
    """A positive, finite number as a float.

    Raises:
        ComparisonDataError: If it is anything else; names the argument.
    """
    if is_positive(value):
        return float(value)
    raise ComparisonDataError(f"`{argument}` must be a positive finite number, not {value!r}.")


def checked_kappa(argument: str, value: object) -> Literal["laplace"] | float:
    """``"laplace"``, or ``kappa``, the inverse of an answer-free curvature.

    Raises:
        ComparisonDataError: If it is neither; names the argument.
    """
    if isinstance(value, str):
        if value == "laplace":
            return "laplace"
        raise ComparisonDataError(
            f'`{argument}` must be "laplace" or a positive number, not {value!r}.'
        )
    return checked_positive(argument, value)


def check_count(argument: str, value: object, least: int) -> int:
    """A whole number, also of NumPy's, as an ``int``.

    Raises:
        ComparisonDataError: If it is none, or less than ``least``; names the argument.
    """
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or number < least:
        raise ComparisonDataError(
            f"`{argument}` must be a whole number, at least {least}, not {value!r}."
        )
    return number


def checked_flag(argument: str, value: object) -> bool:
    """True or False.

    Raises:
        ComparisonDataError: If it is anything else; names the argument.
    """
    if not isinstance(value, bool):
        raise ComparisonDataError(f"`{argument}` must be True or False, not {value!r}.")
    return value


def check_word(argument: str, value: object, words: Any) -> None:
    """Checks one of the words of a ``Literal``.

    Raises:
        ComparisonDataError: If it is none; names the argument and the words.
    """
    if value not in get_args(words):
        raise ComparisonDataError(
            f"`{argument}` must be one of {', '.join(get_args(words))}, not {value!r}."
        )


def checked_seed(value: object) -> int:
    """A whole number, also of NumPy's, as an ``int``.

    Raises:
        ComparisonDataError: If it is none.
    """
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError as error:
        raise ComparisonDataError(f"`seed` must be a whole number, not {value!r}.") from error


def plain(value: Any) -> Any:
    """NumPy's numbers and arrays, and fractions, as Python's numbers, which JSON knows."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Fraction):
        return float(value)
    if type(value) in (list, tuple):
        return type(value)(map(plain, value))
    return value


def endless_to_json(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options with a word for what is infinite or no number, for which JSON has no number."""
    return {
        name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in options.items()
    }


def endless_from_json(options: Mapping[str, Any]) -> dict[str, Any]:
    """Reads what :func:`endless_to_json` wrote."""
    return {
        name: float(value) if isinstance(value, str) and value in _NO_NUMBERS else value
        for name, value in options.items()
    }
