r"""What COBOL's next query depends on, beside what it was told and believes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, Self

from torch import Tensor

from botorch_pref.queries import Duel, Evaluate, Label, Query
from botorch_pref.space import SearchSpace
from botorch_pref.strategies.apart import same_item
from botorch_pref.strategies.cobol.decision import Decision
from botorch_pref.strategies.cobol.kept import Kept


class Due(NamedTuple):
    """An accepted item, to be evaluated: coordinates, row, and where it was accepted."""

    item: list[float]
    row: int | None
    query_id: int

    @classmethod
    def of(cls, query: Query) -> Due:
        """The item of a label, or the first of a duel."""
        if isinstance(query, Duel):
            row = None if query.indices is None else query.indices[0]
            return cls(query.items[0].tolist(), row, query.id)
        return cls(query.items.tolist(), query.indices, query.id)

    def evaluation(self, query_id: int, like: Tensor, annotator: str | None) -> Evaluate:
        """The query for its value."""
        return Evaluate(query_id, like.new_tensor(self.item), self.row, annotator)


class Named(NamedTuple):
    """An item that a person named: coordinates and row."""

    item: list[float]
    row: int | None


@dataclass
class Memory:
    r"""What is kept from one query to the next.

    Attributes:
        due: What was accepted and not yet evaluated.
        rejections: How many labels in a row rejected.
        unanswered: Whether the expert was asked last and did not answer.
        named: What a person suggested.
        kept: What is known of the values.
    """

    due: list[Due] = field(default_factory=list)
    rejections: int = 0
    unanswered: bool = False
    named: Named | None = None
    kept: Kept | None = None

    def plan(self, accepted: Query, space: SearchSpace, others: Iterable[Query]) -> None:
        """Have an accepted item measured, unless that is planned, or asked for since."""
        due, like = Due.of(accepted), space.bounds.new_tensor
        since = [one for one in others if isinstance(one, Evaluate) and one.id > accepted.id]
        items = [*(one.items.tolist() for one in since), *(one.item for one in self.due)]
        if not items or not same_item(space, like(due.item), like(items)).any():
            self.due.append(due)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "due": [list(due) for due in self.due],
            "rejections": self.rejections,
            "unanswered": self.unanswered,
            "named": None if self.named is None else list(self.named),
            "kept": None if self.kept is None else self.kept.to_json(),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Reads what :meth:`to_json` wrote, possibly among other entries."""
        known = {each.name: data[each.name] for each in fields(cls)}
        named, kept = known["named"], known["kept"]
        return cls(
            **known
            | {
                "due": [Due(*due) for due in known["due"]],
                "named": None if named is None else Named(*named),
                "kept": None if kept is None else Kept.from_json(kept),
            }
        )


def candidates(queries: Iterable[Query], decisions: Sequence[Decision]) -> list[Evaluate]:
    r"""What may be measured next, if it is accepted.

    Args:
        queries: Open queries.
        decisions: Why each was asked.

    Returns:
        Queries for the values of their candidates; those of the initial design have none.
    """
    asked = [query for query in queries if isinstance(query, Label | Duel)]
    return [
        Due.of(query).evaluation(query.id, query.items, query.annotator)
        for query in asked
        if decisions[query.id].source != "initial"
    ]
