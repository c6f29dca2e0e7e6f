r"""The entries of a stored state: each is described once, and written, read and checked by that.

A class names its entries in ``_entries``, and what an object keeps is written by :func:`written`
and put back by :func:`put_back`. In files, infinite values and NaN are strings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, fields
from operator import attrgetter
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

import torch
from gpytorch.module import Module
from torch import Tensor

from botorch_pref.data.checks import LARGEST, check_count, check_word
from botorch_pref.data.options import checked_flag, endless_from_json, endless_to_json
from botorch_pref.exceptions import ComparisonDataError

Limit = int | float | str | Callable[[Any], Any]
"""A number, or the name of an attribute of the object, or a function of it."""


class Form(NamedTuple):
    """What an entry may be: ``read(name, value, owner)`` raises unless it is that."""

    read: Callable[[str, Any, Any], Any]
    write: Callable[[Any], Any] = lambda value: value


class Entry(NamedTuple):
    """Where an object keeps an entry, and what that may be.

    Attributes:
        attribute: The attribute, with dots where it is one of an attribute.
        form: None for an object that has entries of its own.
        optional: Whether what is empty is left out.
    """

    attribute: str
    form: Form | None = None
    optional: bool = False


def written(owner: Any) -> dict[str, Any]:
    """The entries of an object as plain JSON."""
    found = {}
    for name, (attribute, form, optional) in owner._entries.items():
        value = attrgetter(attribute)(owner)
        if value or not optional:
            found[name] = written(value) if form is None else form.write(value)
    return found


def put_back(owner: Any, stored: object) -> None:
    """Set the entries of an object to what :func:`written` returned.

    Raises:
        ComparisonDataError: If an entry is missing, unknown, or none of its form; names it.
    """
    entries: Mapping[str, Entry] = owner._entries
    if not isinstance(stored, Mapping):
        raise ComparisonDataError(f"it must be a dictionary, not {stored!r}.")
    needed = {name for name, entry in entries.items() if not entry.optional}
    if wrong := (needed - stored.keys()) | (stored.keys() - entries.keys()):
        raise ComparisonDataError(f"entries are missing or unknown: {sorted(map(str, wrong))}.")
    for name, (attribute, form, _) in entries.items():
        if name not in stored:
            continue
        if form is None:
            try:
                put_back(getattr(owner, attribute), stored[name])
            except ComparisonDataError as error:
                raise ComparisonDataError(f"{name}: {error}") from error
        else:
            value, (*path, last) = form.read(name, stored[name], owner), attribute.split(".")
            setattr(attrgetter(".".join(path))(owner) if path else owner, last, value)


def whole(least: int = 0, most: Limit = math.inf) -> Form:
    """A whole number."""

    def read(name: str, value: Any, owner: Any) -> int:
        return check_count(name, value, least, _limit(most, owner))

    return Form(read)


def number(least: Limit = -LARGEST, most: Limit = LARGEST, endless: bool = False) -> Form:
    """A number, with ``endless`` also an infinite one or NaN."""

    def read(name: str, value: Any, owner: Any) -> float:
        if endless and isinstance(value, str):  # as older versions have it for all numbers
            try:
                value = float(value)
            except ValueError:
                value = None
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise ComparisonDataError(f"`{name}` must be a number, not {value!r}.")
        low, high = _limit(least, owner), _limit(most, owner)
        if not (low <= value <= high) and not (endless and not abs(value) < math.inf):
            raise ComparisonDataError(f"`{name}` must be within [{low}, {high}], not {value!r}.")
        return float(value)

    return Form(read, lambda value: endless_to_json({"": value})[""] if endless else value)


def word(words: Any) -> Form:
    """One of the words of a ``Literal``."""

    def read(name: str, value: Any, owner: Any) -> str:
        check_word(name, value, words)
        return str(value)

    return Form(read)


def optional(form: Form) -> Form:
    """Something, or None."""
    return Form(
        lambda name, value, owner: None if value is None else form.read(name, value, owner),
        lambda value: None if value is None else form.write(value),
    )


def listed(form: Form, least: Limit = 0, most: Limit = math.inf) -> Form:
    """A list of so many of one form."""

    def read(name: str, value: Any, owner: Any) -> list[Any]:
        low, high = _limit(least, owner), _limit(most, owner)
        if not isinstance(value, list | tuple) or not low <= len(value) <= high:
            size = f"{low}" if low == high else f"{low} to {high}"
            raise ComparisonDataError(f"`{name}` must be a list of {size} entries.")
        return [form.read(f"{name} row {row}", one, owner) for row, one in enumerate(value)]

    return Form(read, lambda value: [form.write(one) for one in value])


def named(form: Form, key: Callable[[str], Any] = str) -> Form:
    """Some of one form, by names, or by what ``key`` reads of these."""

    def read(name: str, value: Any, owner: Any) -> dict[Any, Any]:
        if not isinstance(value, Mapping):
            raise ComparisonDataError(f"`{name}` must be a dictionary, not {value!r}.")
        return {key(k): form.read(f"{name} {k}", one, owner) for k, one in value.items()}

    return Form(read, lambda value: {str(key): form.write(one) for key, one in value.items()})


def record(type_of: type | str) -> Form:
    """A dataclass of numbers, flags and words; or the attribute that has the class."""

    def read(name: str, value: Any, owner: Any) -> Any:
        made: Any = getattr(owner, type_of) if isinstance(type_of, str) else type_of
        wanted = {field.name for field in fields(made)}
        if not isinstance(value, Mapping) or value.keys() != wanted:
            raise ComparisonDataError(f"`{name}` must have the entries {sorted(wanted)}.")
        hints, given = get_type_hints(made), endless_from_json(value)
        forms = {key: _of_hint(hints[key]) for key in wanted}
        return made(**{key: forms[key].read(f"{name} {key}", given[key], owner) for key in wanted})

    return Form(read, lambda value: endless_to_json(asdict(value)))


def tensors(module: Callable[[Any], Module | None]) -> Form:
    """Parameters of a module by their names, some or all, within its constraints."""

    def read(name: str, value: Any, owner: Any) -> dict[str, Tensor]:
        if not isinstance(value, Mapping):
            raise ComparisonDataError(f"`{name}` must be a dictionary, not {value!r}.")
        like, found = module(owner) if value else None, {}
        known = {} if like is None else {key: rest for key, *rest in _constrained(like)}
        for key, one in value.items():
            if key not in known:
                raise ComparisonDataError(f"`{name}` has {key!r}, but may have {[*known]}.")
            parameter, constraint = known[key]
            own = read_tensor(f"{name} {key}", one, *parameter.shape)
            found[key] = own.to(parameter.device)
            if constraint is not None and not constraint.check_raw(found[key]):
                raise ComparisonDataError(f"`{name} {key}` is {one!r}: out of its bounds.")
        return found

    return Form(read, lambda value: {key: one.tolist() for key, one in value.items()})


def read_tensor(name: str, value: object, *shape: int) -> Tensor:
    """Nested lists of numbers of a given shape as a tensor, none of them above ``LARGEST``."""
    try:
        found = torch.tensor(value, dtype=torch.double)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise ComparisonDataError(f"`{name}` must be numbers in lists: {error}") from error
    if found.shape != shape or not bool((found.abs() <= LARGEST).all()):
        raise ComparisonDataError(
            f"`{name}` must be of shape {tuple(shape)}, of numbers within {LARGEST}."
        )
    return found


FLAG = Form(lambda name, value, owner: checked_flag(name, value))
"""True or False."""


def _text(name: str, value: object, owner: object) -> str:
    if not isinstance(value, str):
        raise ComparisonDataError(f"`{name}` must be a string, not {value!r}.")
    return value


def _of_hint(hint: Any) -> Form:
    """The form of a field of a record."""
    if get_args(hint) and get_origin(hint) is not None:
        return word(hint)
    return {bool: FLAG, str: Form(_text), float: number(endless=True)}[hint]


def _constrained(module: Module) -> Iterator[tuple[str, Any, Any]]:
    """The parameters of a module, with their constraints if they have any."""
    found: Iterator[tuple[str, Any, Any]] = module.named_parameters_and_constraints()
    return found


def _limit(limit: Limit, owner: Any) -> Any:
    if isinstance(limit, str):
        return attrgetter(limit)(owner)
    return limit(owner) if callable(limit) else limit
