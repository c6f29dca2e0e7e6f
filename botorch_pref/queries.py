r"""What a strategy asks: frozen, compared by value, and written to and read from plain JSON.

All that depends on the kind of a question is here: which answers there are, how they are typed, how
likely a simulated judge gives them, and which comparisons follow from one. To add a kind of
question, add a class; studies, judges and simulations ask the query.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, fields
from itertools import pairwise, permutations
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias, cast

import torch
from torch import Tensor

from botorch_pref.data.checks import LARGEST, check_shape, finite, refuse
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.likelihoods import LogitLikelihood
from botorch_pref.randomness import derive_seed

__all__ = [
    "Answered",
    "Choice",
    "Duel",
    "Evaluate",
    "Grade",
    "Label",
    "Query",
    "Question",
    "Ranking",
    "Worst",
]

Answer: TypeAlias = float | tuple[int, ...]
"""A number, or the order of a ranking."""

Link = Callable[[Tensor], Tensor]
_DTYPES = {"float64": torch.float64, "float32": torch.float32}
_MOST_RANKED = 7  # items of a ranking: there are 5,040 orders of these
MOST_CHOSEN = 30  # items of a choice that a study asks for: it takes their fourth power of time


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
        order: The positions of the items in the order in which they are shown; by default that in
            which they are listed. Answers are of the items as listed.

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
    order: tuple[int, ...] | None = None

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
        if self.order is not None and not _is_order(self.order, len(self.rows)):
            raise ComparisonDataError(
                f"`order` must have each position of {len(self.rows)} items once, not "
                f"{self.order!r}."
            )

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
    def shown(self) -> tuple[int, ...]:
        """The positions of the ``k`` items in the order in which they are shown."""
        return tuple(range(len(self.rows))) if self.order is None else self.order

    @property
    def is_plain(self) -> bool:
        """Whether all of its items differ; else an answer is no comparison of all of them."""
        rows = self.row_indices
        distinct = {*(rows or map(tuple, self.rows.tolist()))}
        return len(distinct) == len(self.rows)

    @property
    def answers(self) -> tuple[Answer, ...] | None:
        """All answers that there are; ``None`` where every finite number is one."""
        return None

    @property
    def meaning(self) -> str:
        """What the answers stand for."""
        return f"a finite number, at most {LARGEST:g},"

    def checked(self, answer: object) -> Answer | None:
        """An answer, a number or a tensor of one element, as a float; ``None``, a skip, as it is.

        The order of a ranking, a sequence or a tensor, is returned as a tuple.

        Raises:
            ComparisonDataError: If it is no answer to this query.
        """
        if answer is None:
            return None
        value = self._as_answer(answer)
        if value is None or not (self.answers is None or value in self.answers):
            raise ComparisonDataError(
                f"`answer` to query {self.id} is {answer!r}: an answer is {self.meaning} or None "
                "(skip)."
            )
        return value

    def _as_answer(self, answer: Any) -> Answer | None:
        """What was given as a finite number; ``None`` if it is none."""
        try:
            value = math.nan if isinstance(answer, str) else float(answer)
        except (OverflowError, TypeError, ValueError, RuntimeError):
            return None
        return value if abs(value) <= LARGEST else None

    def read(self, word: str) -> Answer | None:
        """The answer that a typed word stands for, of items as shown; ``None`` if it is none."""
        try:
            value = float(word)
        except ValueError:
            return None
        return value if abs(value) <= LARGEST else None

    def comparisons(self, answer: Answer) -> list[tuple[Tensor, float]]:
        """The ``2 x d``-dim pairs of different items that an answer compares.

        Each is returned with 1 if its first item won, 0 if the second, 0.5 for no preference.
        """
        return []

    def probabilities(self, utilities: Tensor, link: Link) -> dict[Answer, float]:
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
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        own = {name: [*one] if isinstance(one, tuple) else one for name, one in own.items()}
        dtype = str(self.items.dtype).removeprefix("torch.")
        return {"kind": self.kind, **own, "items": self.items.tolist(), "dtype": dtype}

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
        data = {"order": None, **data}  # older files have none
        kinds = {name: kind for name, kind in cls._kinds.items() if issubclass(kind, cls)}
        if data.get("kind") not in [*kinds]:
            raise ComparisonDataError(
                f"`kind` must be one of {[*kinds]}, not {data.get('kind')!r}."
            )
        kind: Any = kinds[data["kind"]]
        wanted = {"kind", "dtype", *(field.name for field in fields(kind))}
        if wrong := wanted ^ data.keys():
            raise ComparisonDataError(f"Missing or unknown entries of a query: {sorted(wrong)}.")
        if data["dtype"] not in [*_DTYPES]:
            raise ComparisonDataError(f"`dtype` must be in {[*_DTYPES]}, not {data['dtype']!r}.")
        try:
            items = torch.tensor(data["items"], dtype=_DTYPES[data["dtype"]], device=device)
        except (TypeError, ValueError, RuntimeError, OverflowError) as error:
            raise ComparisonDataError(f"`items` cannot be read: {error}") from error
        own = {name: data[name] for name in wanted - {"kind", "dtype"}} | {"items": items}
        own = {name: tuple(one) if isinstance(one, list) else one for name, one in own.items()}
        return cast(Self, kind(**own))


def _is_order(value: object, number: int) -> bool:
    return _are_indices(value, number) and sorted(cast(Any, value)) == [*range(number)]


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

    def read(self, word: str) -> Answer | None:
        if word == "=":
            return 0.5
        return 1.0 - self.shown[int(word) - 1] if word in ("1", "2") else None

    def comparisons(self, answer: Answer) -> list[tuple[Tensor, float]]:
        return [(self.items, cast(float, answer))] if self.is_plain else []

    def probabilities(self, utilities: Tensor, link: Link) -> dict[Answer, float]:
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
    _chosen: ClassVar[str] = "favourite"
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
        return f"the position of the {self._chosen}, a whole number from 0 to {last},"

    def read(self, word: str) -> Answer | None:
        # A person counts from 1.
        known = [str(place + 1) for place in range(len(self.items))]
        return float(self.shown[known.index(word)]) if word in known else None

    def comparisons(self, answer: Answer) -> list[tuple[Tensor, float]]:
        best = self.items[int(cast(float, answer))]
        others = (other for other in self.items if not torch.equal(best, other))
        return [(torch.stack([best, other]), 1.0) for other in others]

    def probabilities(self, utilities: Tensor, link: Link) -> dict[Answer, float]:
        """In proportion to ``exp(scale f(x_r))``, Xu et al. (2024), eq. (99); logistic alone."""
        chances = (_scale_of(link, "chosen") * utilities).softmax(-1)
        return dict(zip(self.answers, chances.tolist(), strict=True))


class Worst(Choice):
    """Which of these items do you like least? For the arguments see the base class."""

    kind = "worst"
    prompt = "The number of the worst one"
    example = "the number of the worst one"
    _chosen = "worst"

    def comparisons(self, answer: Answer) -> list[tuple[Tensor, float]]:
        return [(pair.flip(0), 1.0) for pair, _ in super().comparisons(answer)]

    def probabilities(self, utilities: Tensor, link: Link) -> dict[Answer, float]:
        """In proportion to ``exp(-scale f(x_r))``; logistic alone."""
        return super().probabilities(-utilities, link)


class Ranking(Query):
    """In which order do you like these items, the best first? For the arguments see the base class.

    There are 2 to 7 items. An answer is a tuple of their positions.
    """

    kind = "ranking"
    compares = True
    prompt = "The numbers from best to worst"
    example = "all numbers, the best first, as in 2 1 3"
    _item_shape = ("k", "d")
    indices: tuple[int, ...] | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 <= len(self.items) <= _MOST_RANKED:
            raise ComparisonDataError(
                f"`items` of a ranking are 2 to {_MOST_RANKED}, not {len(self.items)}."
            )

    @property
    def answers(self) -> tuple[Answer, ...]:
        return tuple(permutations(range(len(self.items))))

    @property
    def meaning(self) -> str:
        return f"the positions of all {len(self.items)} items, from 0, the best first,"

    def _as_answer(self, answer: Any) -> Answer | None:
        try:
            places = tuple(int(place) for place in answer)
            return places if all(a == b for a, b in zip(places, answer, strict=True)) else None
        except (OverflowError, TypeError, ValueError, RuntimeError):
            return None

    def read(self, word: str) -> Answer | None:
        numbers = re.findall(r"\d", word) if re.fullmatch(r"[\d\s,>]+", word) else []
        places = tuple(int(number) - 1 for number in numbers)
        return tuple(self.shown[i] for i in places) if places in self.answers else None

    def comparisons(self, answer: Answer) -> list[tuple[Tensor, float]]:
        """Each item and the next one."""
        ranked = pairwise(self.items[[*cast(tuple[int, ...], answer)]])
        return [(torch.stack(pair), 1.0) for pair in ranked if not torch.equal(*pair)]

    def probabilities(self, utilities: Tensor, link: Link) -> dict[Answer, float]:
        """Choices of the best of those left (Luce 1959, Plackett 1975); logistic alone."""
        scaled = _scale_of(link, "ranked") * utilities
        orders = torch.tensor(self.answers, device=scaled.device)
        ranked = scaled[orders]
        left = ranked.flip(-1).logcumsumexp(-1).flip(-1)
        return dict(zip(self.answers, (ranked - left).sum(-1).exp().tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class Grade(Query):
    """By how much is one of two items better? For the other arguments see the base class.

    An answer is a grade from 0, the second item is better by most, to ``num_grades - 1``, the first
    is. The bounds between grades are the person's; a simulated judge has one a unit of the link.

    Args:
        num_grades: The number of grades, 2 to 9.
    """

    kind = "grade"
    compares = True
    _item_shape = (2, "d")
    _: KW_ONLY
    num_grades: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not _are_indices((self.num_grades,), 1) or not 2 <= self.num_grades <= 9:
            raise ComparisonDataError(f"`num_grades` must be 2 to 9, not {self.num_grades!r}.")

    @property
    def answers(self) -> tuple[Answer, ...]:
        return tuple(map(float, range(self.num_grades)))

    @property
    def meaning(self) -> str:
        most = self.num_grades - 1
        return f"a grade, from 0 (the second is better by most) to {most} (the first is),"

    @property
    def prompt(self) -> str:  # type: ignore[override]
        """What a person is asked for at a terminal, of the items as shown."""
        most = self.num_grades
        return f"From 1 (1 is better by most) to {most} (2 is better by most)"

    @property
    def example(self) -> str:  # type: ignore[override]
        """What to type where a word was no answer."""
        return f"a number from 1 to {self.num_grades}"

    def read(self, word: str) -> Answer | None:
        known = [str(grade + 1) for grade in range(self.num_grades)]
        if word not in known:
            return None
        first = self.num_grades - 1 - known.index(word)
        return float(first if self.shown[0] == 0 else self.num_grades - 1 - first)

    def comparisons(self, answer: Answer) -> list[tuple[Tensor, float]]:
        """Which is better, whatever by how much."""
        side = 2 * cast(float, answer) - (self.num_grades - 1)
        won = 0.5 if side == 0 else float(side > 0)
        return [(self.items, won)] if self.is_plain else []

    def probabilities(self, utilities: Tensor, link: Link) -> dict[Answer, float]:
        bounds = torch.arange(self.num_grades - 1).to(utilities) - 0.5 * (self.num_grades - 2)
        below = link(bounds - (utilities[0] - utilities[1]))
        ends = torch.cat([below.new_zeros(1), below, below.new_ones(1)])
        return dict(zip(self.answers, ends.diff().tolist(), strict=True))


class Label(Query):
    """Is this item acceptable? For the arguments see the base class."""

    kind = "label"
    _item_shape = ("d",)
    indices: int | None
    prompt = "Accept this item? [y]es, [n]o"
    example = "y or n"
    answers = (1.0, 0.0)
    meaning = "1 (accept), 0 (reject)"

    def read(self, word: str) -> Answer | None:
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
    answer: Answer | None

    def to_json(self) -> list[Any]:
        """Both as plain JSON."""
        told = [*self.answer] if isinstance(self.answer, tuple) else self.answer
        return [self.query.to_json(), told]

    @property
    def number(self) -> float:
        """The answer as a number, as tables have it, and NaN if it was skipped.

        A ranking is read as digits: 312 says that the third item is the best, then the first.
        """
        if isinstance(self.answer, tuple):
            return float("".join(str(place + 1) for place in self.answer))
        return math.nan if self.answer is None else self.answer


class Question(NamedTuple):
    """What a study asks: a kind of query, and of how many items or grades."""

    kind: type[Query]
    num_items: int = 2
    num_grades: int | None = None

    @classmethod
    def parse(cls, text: object) -> Self:
        """Reads ``"duel"``, ``"best of 4"``, ``"worst of 4"``, ``"rank 3"`` or ``"grade 5"``.

        Raises:
            ComparisonDataError: If it is none of these.
        """
        found = re.fullmatch(r"(duel)|(best of|worst of|rank|grade) (\d\d?)", str(text))
        if found and found[1]:
            return cls(Duel)
        number = int(found[3]) if found else 0
        most = {"best of": MOST_CHOSEN, "worst of": MOST_CHOSEN, "rank": _MOST_RANKED, "grade": 9}
        if not found or not 2 <= number <= most[found[2]]:
            raise ComparisonDataError(
                f'`question` must be "duel", "best of" or "worst of" 2 to {MOST_CHOSEN}, '
                f'"rank" 2 to {_MOST_RANKED} or "grade" 2 to 9, such as "best of 4", not {text!r}.'
            )
        if found[2] == "grade":
            return cls(Grade, num_grades=number)
        kinds = {"best of": Choice, "worst of": Worst, "rank": Ranking}
        return cls(kinds[found[2]], number)

    def query(
        self, query_id: int, items: Tensor, rows: tuple[int, ...] | None, annotator: str | None
    ) -> Query:
        """The query of some items; for the arguments see :class:`Query`."""
        own: Any = {} if self.num_grades is None else {"num_grades": self.num_grades}
        return self.kind(query_id, items, rows, annotator, **own)

    def fits(self, query: Query) -> bool:
        """Whether a query is one of this question."""
        grades = getattr(query, "num_grades", None)
        same = len(query.rows) == self.num_items and grades == self.num_grades
        return type(query) is self.kind and same


def shown_order(number: int, seed: int, query_id: int) -> tuple[int, ...]:
    """In which order a strategy of a seed has the items of a query shown.

    It may list the best first, and who answers is not to be led by what stands first.
    """
    if number == 2:
        return (1, 0) if derive_seed(seed, "order shown", query_id) % 2 else (0, 1)
    generator = torch.Generator().manual_seed(derive_seed(seed, "order shown", query_id))
    return tuple(torch.randperm(number, generator=generator).tolist())


def _scale_of(link: Link, verb: str) -> float:
    """What utilities are multiplied by under the logistic link, the only one of a softmax."""
    if not isinstance(link, LogitLikelihood) and link is not torch.sigmoid:
        raise UnsupportedError(f"Items are {verb} under the logistic link only, not {link!r}.")
    return link.scale if isinstance(link, LogitLikelihood) else 1.0
