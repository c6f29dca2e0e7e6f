r"""What a strategy asks: frozen, compared by value, and written to and read from plain JSON.

All that depends on the kind of a question is here: which answers there are, how they are typed, how
likely a simulated judge gives them, and which comparisons follow from one. To add a kind of
question, add a class; studies, judges and simulations ask the query.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple, Self, cast

import torch
from torch import Tensor

from botorch_pref.data.checks import check_shape, finite, refuse
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.likelihoods import LogitLikelihood
from botorch_pref.randomness import derive_seed

__all__ = ["Answered", "Choice", "Duel", "Evaluate", "Label", "Query"]

Link = Callable[[Tensor], Tensor]
_DTYPES = {"float64": torch.float64, "float32": torch.float32}


@dataclass(frozen=True, eq=False)
class Query:
    """The base of all queries; :meth:`Query.from_json` reads any of them.

    Queries are equal if they are of one kind and agree in every field, items in type and value.

    Args:
        id: The number by which it is answered.
        items: A ``k x d``-dim tensor, or ``d``-dim for a question about one item; copied, without
            its graph.
        indices: The rows of the items in the choices, or the row of the one, if there are choices.
        annotator: Who is asked, if that matters.

    Attributes:
        kind: The name of the kind, in files and tables.
        compares: Whether an answer compares the items.
        measures: Whether an answer is a value of the objective.
        prompt: What a person is asked for at a terminal.
        example: What to type where a word was no answer.

    Raises:
        ComparisonDataError: If an argument cannot be used; names it, and the row of ``items``.
    """

    kind: ClassVar[str]
    compares: ClassVar[bool] = False
    measures: ClassVar[bool] = False
    prompt: ClassVar[str]
    example: ClassVar[str]
    _item_shape: ClassVar[tuple[int | str, ...]]
    _kinds: ClassVar[dict[str, type[Query]]] = {}

    id: int
    items: Tensor
    indices: Any = None
    annotator: str | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Queries are read back by their kind."""
        super().__init_subclass__(**kwargs)
        if "kind" in vars(cls):
            Query._kinds[cls.kind] = cls

    def __post_init__(self) -> None:
        if not _are_indices((self.id,), 1):
            raise ComparisonDataError(f"`id` must be a whole number, at least 0, not {self.id!r}.")
        check_shape("items", self.items, *self._item_shape, batch=False)
        if self.items.shape[-1] == 0 or self.items.dtype not in _DTYPES.values():
            raise ComparisonDataError(
                f"`items` must be floating point of at least one dimension, but has shape "
                f"{tuple(self.items.shape)} and type {self.items.dtype}."
            )
        refuse(finite("items", self.rows))
        # A copy, so that no later change of the caller's candidate changes the question.
        object.__setattr__(self, "items", self.items.detach().clone())
        number = len(self.items) if self.items.dim() == 2 else None
        indices = (self.indices,) if number is None else self.indices
        if self.indices is not None and not _are_indices(indices, number or 1):
            wanted = "an index" if number is None else f"a tuple of {number} indices"
            raise ComparisonDataError(
                f"`indices` must be {wanted}, whole numbers and at least 0, or None, not "
                f"{self.indices!r}."
            )
        if self.annotator is not None and not isinstance(self.annotator, str):
            raise ComparisonDataError(f"`annotator` must be a string, not {self.annotator!r}.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Query):
            return NotImplemented
        return self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash((self.kind, self.id, self.indices, self.annotator))

    @property
    def rows(self) -> Tensor:
        """The ``k x d``-dim items, also where there is one."""
        return self.items.reshape(-1, self.items.shape[-1])

    @property
    def row_indices(self) -> tuple[int, ...] | None:
        """Their ``k`` rows in the choices, if there are choices."""
        return (self.indices,) if isinstance(self.indices, int) else self.indices

    @property
    def answers(self) -> tuple[float, ...] | None:
        """All answers that there are; ``None`` where every finite number is one."""
        return None

    @property
    def meaning(self) -> str:
        """What the answers stand for."""
        return "a finite number"

    def checked(self, answer: object) -> float | None:
        """An answer, a number or a tensor of one element, as a float; ``None``, a skip, as it is.

        Raises:
            ComparisonDataError: If it is no answer to this query.
        """
        if answer is None:
            return None
        try:
            value = math.nan if isinstance(answer, str) else float(answer)  # type: ignore[arg-type]
        except (OverflowError, TypeError, ValueError, RuntimeError):
            value = math.nan
        if not (math.isfinite(value) if self.answers is None else value in self.answers):
            raise ComparisonDataError(
                f"`answer` to query {self.id} is {answer!r}: an answer is {self.meaning} or None "
                "(skip)."
            )
        return value

    def read(self, word: str) -> float | None:
        """The answer that a typed word stands for; ``None`` if it is none."""
        try:
            value = float(word)
        except ValueError:
            return None
        return value if math.isfinite(value) else None

    def comparisons(self, answer: float) -> list[tuple[Tensor, float]]:
        """The ``2 x d``-dim pairs of different items that an answer compares.

        Each is returned with 1 if its first item won, 0 if the second, 0.5 for no preference.
        """
        return []

    def probabilities(self, utilities: Tensor, link: Link) -> dict[float, float]:
        """The probability of each answer of a judge.

        Args:
            utilities: ``k``-dim utilities of the items.
            link: The probability that the first of two items wins, given the difference of their
                utilities.

        Raises:
            UnsupportedError: If utilities alone do not tell.
        """
        raise UnsupportedError(f"Utilities do not tell the answer to a {self.kind}.")

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
        """Reads what :meth:`to_json` wrote; :class:`Query` itself takes any kind.

        Args:
            data: The dictionary, of this class's kind.
            device: Where the items are put; on the CPU by default.

        Raises:
            ComparisonDataError: If it is no such dictionary; names the entry.
        """
        if not isinstance(data, Mapping):
            raise ComparisonDataError(f"A query is read from a dictionary, not {data!r}.")
        wanted = {"kind", "dtype", *(field.name for field in fields(cls))}
        if wrong := wanted ^ data.keys():
            raise ComparisonDataError(f"Missing or unknown entries of a query: {sorted(wrong)}.")
        kinds = {name: kind for name, kind in cls._kinds.items() if issubclass(kind, cls)}
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
        make = cast(Any, kinds[data["kind"]])
        return cast(Self, make(data["id"], items, indices, data["annotator"]))


def _are_indices(value: object, number: int) -> bool:
    return (
        isinstance(value, tuple)
        and len(value) == number
        and all(isinstance(i, int) and not isinstance(i, bool) and i >= 0 for i in value)
    )


class Duel(Query):
    """Which of two items is better? For the arguments see the base class.

    The two may be equal: such a duel can be asked, though its answer is no comparison.
    """

    kind = "duel"
    compares = True
    prompt = "1, 2, = (no preference)"
    example = "1 or 2 for the better one, = for no preference"
    answers = (1.0, 0.0, 0.5)
    meaning = "1 (the first wins), 0 (the second), 0.5 (no preference)"
    _item_shape = (2, "d")
    indices: tuple[int, int] | None

    @classmethod
    def between(
        cls,
        query_id: int,
        first: tuple[Tensor, int | None],
        second: tuple[Tensor, int | None],
        annotator: str | None = None,
    ) -> Self:
        """The duel of two ``d``-dim items, each with its row in the choices, if there are any."""
        (item, row), (other, other_row) = first, second
        rows = None if row is None or other_row is None else (row, other_row)
        return cls(query_id, torch.stack([item.to(other), other]), rows, annotator)

    def shown_order(self, seed: int) -> tuple[int, int]:
        """In which order a strategy of a seed has its two items shown: it may name the best first.

        Who prefers what stands first is not to be led by that.
        """
        return (1, 0) if derive_seed(seed, "order shown", self.id) % 2 else (0, 1)

    def read(self, word: str) -> float | None:
        return {"1": 1.0, "2": 0.0, "=": 0.5}.get(word)

    def comparisons(self, answer: float) -> list[tuple[Tensor, float]]:
        return [] if torch.equal(*self.items) else [(self.items, answer)]

    def probabilities(self, utilities: Tensor, link: Link) -> dict[float, float]:
        # A judge always has a preference.
        first = float(link(utilities[0] - utilities[1]))
        return {1.0: first, 0.0: 1.0 - first}


class Choice(Query):
    """Which of these items is the favourite? For the arguments see the base class.

    There are two items or more. They may be equal, as in a :class:`Duel`, a choice of two.
    """

    kind = "choice"
    compares = True
    prompt = "The number of the best one"
    example = "the number of the best one"
    _item_shape = ("k", "d")
    indices: tuple[int, ...] | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.items) < 2:
            raise ComparisonDataError(f"`items` of a choice are at least 2, not {len(self.items)}.")

    @property
    def answers(self) -> tuple[float, ...]:
        return tuple(map(float, range(len(self.items))))

    @property
    def meaning(self) -> str:
        last = len(self.items) - 1
        return f"the position of the favourite, a whole number from 0 to {last},"

    def read(self, word: str) -> float | None:
        # A person counts from 1.
        known = word.isascii() and word.isdigit() and 1 <= int(word) <= len(self.items)
        return int(word) - 1.0 if known else None

    def comparisons(self, answer: float) -> list[tuple[Tensor, float]]:
        best = self.items[int(answer)]
        others = (other for other in self.items if not torch.equal(best, other))
        return [(torch.stack([best, other]), 1.0) for other in others]

    def probabilities(self, utilities: Tensor, link: Link) -> dict[float, float]:
        """In proportion to ``exp(scale f(x_r))``, Xu et al. (2024), eq. (99); logistic alone."""
        if not isinstance(link, LogitLikelihood) and link is not torch.sigmoid:
            raise UnsupportedError(
                f"A favourite is chosen under the logistic link only, not {link!r}."
            )
        scale = link.scale if isinstance(link, LogitLikelihood) else 1.0
        chances = (scale * utilities).softmax(-1)
        return dict(zip(self.answers, chances.tolist(), strict=True))


class Label(Query):
    """Is this item acceptable? For the arguments see the base class."""

    kind = "label"
    _item_shape = ("d",)
    indices: int | None
    prompt = "Accept this item? [y]es, [n]o"
    example = "y or n"
    answers = (1.0, 0.0)
    meaning = "1 (accept), 0 (reject)"

    def read(self, word: str) -> float | None:
        return {"y": 1.0, "yes": 1.0, "n": 0.0, "no": 0.0}.get(word)


class Evaluate(Query):
    """What is the value of the objective at this item? For the arguments see the base class."""

    kind = "evaluate"
    _item_shape = ("d",)
    indices: int | None
    measures = True
    prompt = "Measured value? A number"
    example = "a number such as 3.5"


class Answered(NamedTuple):
    """A query and its answer, which is ``None`` if it was skipped."""

    query: Query
    answer: float | None
