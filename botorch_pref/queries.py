r"""What a strategy asks: frozen, compared by value, and written to and read from plain JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self, cast

import torch
from torch import Tensor

from botorch_pref.data.checks import check_shape, finite, refuse
from botorch_pref.exceptions import ComparisonDataError

__all__ = ["Choice", "Duel", "Evaluate", "Label", "Query"]

_DTYPES = {"float64": torch.float64, "float32": torch.float32}


class Query:
    """The base of all queries; :meth:`Query.from_json` reads any of them.

    Queries are equal if they are of one kind and agree in every field, items in type and value.
    """

    kind: ClassVar[str]
    _item_shape: ClassVar[tuple[int | str, ...]]

    id: int
    items: Tensor
    indices: Any
    annotator: str | None

    def __post_init__(self) -> None:
        if not _is_index(self.id):
            raise ComparisonDataError(f"`id` must be a whole number, at least 0, not {self.id!r}.")
        # A copy, so that no later change of the caller's candidate changes the question.
        object.__setattr__(self, "items", _frozen_items(self.items, self._item_shape))
        _check_indices(self.indices, len(self.items) if self.items.dim() == 2 else None)
        if self.annotator is not None and not isinstance(self.annotator, str):
            raise ComparisonDataError(f"`annotator` must be a string, not {self.annotator!r}.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Query):
            return NotImplemented
        return self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash((self.kind, self.id, self.indices, self.annotator))

    def to_json(self) -> dict[str, Any]:
        """The query as a dictionary for ``json.dumps``; its floats are read back exactly."""
        return {
            "kind": self.kind,
            "id": self.id,
            "items": self.items.tolist(),
            "dtype": str(self.items.dtype).removeprefix("torch."),
            "indices": list(self.indices) if isinstance(self.indices, tuple) else self.indices,
            "annotator": self.annotator,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], device: torch.device | None = None) -> Self:
        """Reads what :meth:`to_json` wrote.

        Args:
            data: The dictionary, of this class's kind; :class:`Query` itself takes any kind.
            device: Where the items are put; on the CPU by default.

        Raises:
            ComparisonDataError: If it is no such dictionary; names the entry.
        """
        if not isinstance(data, Mapping):
            raise ComparisonDataError(f"A query is read from a dictionary, not {data!r}.")
        wanted = {"kind", "dtype", *(field.name for field in fields(Duel))}
        if wrong := wanted ^ data.keys():
            raise ComparisonDataError(f"Missing or unknown entries of a query: {sorted(wrong)}.")
        kinds = {
            kind.kind: kind for kind in (Duel, Choice, Label, Evaluate) if issubclass(kind, cls)
        }
        if data["kind"] not in [*kinds]:
            raise ComparisonDataError(f"`kind` must be one of {[*kinds]}, not {data['kind']!r}.")
        if data["dtype"] not in [*_DTYPES]:
            raise ComparisonDataError(f"`dtype` must be in {[*_DTYPES]}, not {data['dtype']!r}.")
        try:
            items = torch.tensor(data["items"], dtype=_DTYPES[data["dtype"]], device=device)
        except (TypeError, ValueError, RuntimeError, OverflowError) as error:
            raise ComparisonDataError(f"`items` cannot be read: {error}") from error
        indices: Any = data["indices"]
        indices = tuple(indices) if isinstance(indices, list) else indices
        query = kinds[data["kind"]](data["id"], items, indices, data["annotator"])
        return cast(Self, query)


def _is_index(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _frozen_items(items: Tensor, shape: tuple[int | str, ...]) -> Tensor:
    check_shape("items", items, *shape, batch=False)
    if items.shape[-1] == 0 or items.dtype not in _DTYPES.values():
        raise ComparisonDataError(
            f"`items` must be floating point of at least one dimension, but has shape "
            f"{tuple(items.shape)} and type {items.dtype}."
        )
    refuse(finite("items", items.reshape(-1, items.shape[-1])))
    return items.detach().clone()


def _check_indices(indices: object, number: int | None) -> None:
    if indices is None or (number is None and _is_index(indices)):
        return
    if isinstance(indices, tuple) and len(indices) == number and all(map(_is_index, indices)):
        return
    wanted = "an index" if number is None else f"a tuple of {number} indices"
    raise ComparisonDataError(
        f"`indices` must be {wanted}, whole numbers and at least 0, or None, not {indices!r}."
    )


@dataclass(frozen=True, eq=False)
class Duel(Query):
    """Which of two items is better?

    The two may be equal: such a duel can be asked, though its answer is no comparison.

    Args:
        id: The number by which it is answered.
        items: A ``2 x d``-dim tensor; copied, without its graph.
        indices: The two rows in the choices, if there are choices.
        annotator: Who is asked, if that matters.

    Raises:
        ComparisonDataError: If an argument cannot be used; names it, and the row of ``items``.
    """

    kind: ClassVar[str] = "duel"
    _item_shape: ClassVar[tuple[int | str, ...]] = (2, "d")

    id: int
    items: Tensor
    indices: tuple[int, int] | None = None
    annotator: str | None = None


@dataclass(frozen=True, eq=False)
class Choice(Query):
    """Which of these items is the favourite?

    Items may be equal, as in a :class:`Duel`, which is a choice of two.

    Args:
        id: The number by which it is answered.
        items: A ``k x d``-dim tensor, ``k`` at least 2; copied, without its graph.
        indices: The ``k`` rows in the choices, if there are choices.
        annotator: Who is asked, if that matters.

    Raises:
        ComparisonDataError: If an argument cannot be used; names it, and the row of ``items``.
    """

    kind: ClassVar[str] = "choice"
    _item_shape: ClassVar[tuple[int | str, ...]] = ("k", "d")

    id: int
    items: Tensor
    indices: tuple[int, ...] | None = None
    annotator: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.items) < 2:
            raise ComparisonDataError(f"`items` of a choice are at least 2, not {len(self.items)}.")


@dataclass(frozen=True, eq=False)
class _ItemQuery(Query):
    """A question about one item.

    Args:
        id: The number by which it is answered.
        items: A ``d``-dim tensor, the item; copied, without its graph.
        indices: Its row in the choices, if there are choices.
        annotator: Who is asked, if that matters.

    Raises:
        ComparisonDataError: If an argument cannot be used; names it.
    """

    _item_shape: ClassVar[tuple[int | str, ...]] = ("d",)

    id: int
    items: Tensor
    indices: int | None = None
    annotator: str | None = None


class Label(_ItemQuery):
    """Is this item acceptable? For the arguments see the base class."""

    kind: ClassVar[str] = "label"


class Evaluate(_ItemQuery):
    """What is the value of the objective at this item? For the arguments see the base class."""

    kind: ClassVar[str] = "evaluate"
