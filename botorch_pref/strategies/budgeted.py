r"""What strategies share that pay for duels and values out of one budget."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, cast

import torch

from botorch_pref.data.checks import LARGEST, check_count
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.queries import Answered, Duel, Evaluate, Query
from botorch_pref.randomness import derive_seed
from botorch_pref.strategies.base import Candidate, Chosen, Strategy
from botorch_pref.strategies.state import FLAG, Entry, listed, record

Kind = Literal["duel", "value"]
"""What a query is."""

Amount = int | float | str | Fraction
"""A price or a budget, kept exactly; a string is a decimal number or a fraction."""

_ATTEMPTS = 100  # to draw another item than the first, of whole numbers and categories


def exact(argument: str, amount: object) -> Fraction:
    """A positive amount as the decimal it was written as: in floats 0.3 / 0.1 is less than 3."""
    try:
        text = "" if isinstance(amount, bool) else str(amount)
        # Parts first, as floats: 1e999999999 has a billion digits.
        fits = all(0.0 < float(part) < LARGEST for part in text.split("/"))
        number = Fraction(text) if fits else None
    except (ValueError, ZeroDivisionError):
        number = None
    if number is None or not 1 / LARGEST < number < LARGEST:
        raise ComparisonDataError(
            f"`{argument}` must be a positive number below {LARGEST}, not {amount!r}."
        )
    return number


@dataclass(frozen=True)
class QueryRecord:
    r"""A query that was chosen. Subclasses add numbers that say why.

    Attributes:
        kind: ``"duel"`` or ``"value"``.
        phase: ``"initial"`` in the initial design; else what the strategy calls it.
    """

    kind: Kind
    phase: str


@dataclass(kw_only=True, eq=False, repr=False)
class BudgetedStrategy(Strategy):
    r"""A strategy that chooses between duels and values, each at its price.

    It begins with duels of two random items and values of random items. When what is chosen cannot
    be paid any more it is finished, and ``ask`` raises. Every query that was chosen counts as paid,
    skipped or not. An opponent that is drawn at random is another item. Annotators are not told
    apart, and whoever is asked may be asked for a value: ``query.measures`` says so.

    A subclass may set ``record_type`` and ``kinds``, and implements ``_next``, ``_add`` and
    ``_recommended``; it adds to ``_entries`` what its choices depend on beside the data, and learns
    what is ``known`` once it can.

    Args:
        bounds, choices, space, seed: See :class:`~botorch_pref.strategies.Strategy`.
        duel_cost: ``lambda_c``, the price of a duel, or of what is asked in its place.
        value_cost: ``lambda_l``, the price of a value.
        budget: ``Lambda``, what all queries may cost, the initial design included; None for
            no limit.
        num_initial_duels: Duels of two random items to begin with.
        num_initial_values: Values of random items to begin with.
        known: Duels and values that are known before the first question, as answered queries.
            They cost nothing, and count as a part of the initial design.

    Raises:
        ComparisonDataError: If an option is out of range; names it.

    Attributes:
        records: What was paid for and why, by the number of the query.
    """

    duel_cost: Amount = "1/10"
    value_cost: Amount = "1"
    budget: Amount | None = None
    num_initial_duels: int = 50
    num_initial_values: int = 5
    known: Sequence[Any] = ()

    record_type: ClassVar[type[QueryRecord]] = QueryRecord
    """The class of the records."""
    kinds: ClassVar[tuple[Kind, ...]] = ("duel", "value")
    """The kinds of queries after the initial design."""

    _asks: ClassVar[tuple[type[Query], ...]] = (Duel, Evaluate)
    _entries: ClassVar[dict[str, Entry]] = {
        "records": Entry("records", listed(record("record_type"), "_next_id", "_next_id")),
        "ended": Entry("_ended", FLAG),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        self.duel_cost = exact("duel_cost", self.duel_cost)
        self.value_cost = exact("value_cost", self.value_cost)
        self.budget = None if self.budget is None else exact("budget", self.budget)
        self.num_initial_duels = check_count("num_initial_duels", self.num_initial_duels, 0)
        self.num_initial_values = check_count("num_initial_values", self.num_initial_values, 0)
        self.records: list[QueryRecord] = []
        self._ended = False  # what was chosen cannot be paid
        self.known = self._read_known(self.known)

    def price(self, kind: Kind) -> Fraction:
        """The price of a query of a kind."""
        return cast(Fraction, self.duel_cost if kind == "duel" else self.value_cost)

    @property
    def spent(self) -> Fraction:
        """The price of all queries that were chosen."""
        return sum((self.price(record.kind) for record in self.records), Fraction(0))

    def affords(self, price: Fraction) -> bool:
        """Whether so much is left of the budget."""
        return self.budget is None or self.spent + price <= cast(Fraction, self.budget)

    @property
    def finished(self) -> bool:
        """Whether nothing can be paid any more, or what was chosen cannot."""
        if self._ended:
            return True
        payable = any(self.affords(self.price(kind)) for kind in self.kinds)
        return not payable and self._initial() is None

    @abstractmethod
    def _next(self) -> Chosen:
        """The next query after the initial design, whether it can be paid or not."""

    @abstractmethod
    def _add(self, query: Query, answer: Any) -> None:
        """Add an answer to the data."""

    def _choose(self, query_id: int, annotator: str | None) -> Query:
        if not self.finished:
            record, item, opponent, further = self._initial() or self._next()
            if self.affords(self.price(record.kind)):
                self.records.append(record)
                if record.kind == "value":
                    return Evaluate(query_id, *item, annotator)
                known = [item, *(() if opponent is None else (opponent,)), *further]
                while len(known) < self.asked.num_items:
                    known.append(self._opponent(query_id, known))
                items = torch.stack([one.item.to(known[-1].item) for one in known])
                rows = tuple(one.row for one in known if one.row is not None)
                return self.asked.query(query_id, items, rows or None, annotator)
            self._ended = True
        raise UnsupportedError(
            f"The budget of {self.budget} is spent: the next query cannot be paid."
        )

    def _initial(self) -> Chosen | None:
        """The next query of the initial design, duels first; None if there is none to be paid."""
        kinds = [record.kind for record in self.records if record.phase == "initial"]
        kinds += ["value" if query.measures else "duel" for query, _ in self.known]
        kind: Kind = "duel" if kinds.count("duel") < self.num_initial_duels else "value"
        number = kinds.count(kind)
        complete = kind == "value" and number >= self.num_initial_values
        if complete or not self.affords(self.price(kind)):
            return None
        record = self.record_type(kind, "initial")
        return Chosen(record, self._uniform(f"initial {kind}", number))

    def _num_later(self) -> int:
        """How many queries were chosen after the initial design."""
        return sum(record.phase != "initial" for record in self.records)

    def _opponent(self, query_id: int, known: Sequence[Candidate]) -> Candidate:
        """A random item, another one than some if there is one."""
        stream = "opponent" if len(known) == 1 else f"opponent {len(known)}"
        if rows := [one.row for one in known if one.row is not None]:
            row = self.space.row_unlike(derive_seed(self.seed, stream, query_id), *rows)
            return Candidate(self.space.table[row], row)
        other = self._uniform(stream, query_id)
        if not self.space.parameters.real:
            for attempt in range(_ATTEMPTS):
                if not any(torch.equal(other.item, one.item.to(other.item)) for one in known):
                    break
                other = self._uniform(f"{stream}, attempt {attempt}", query_id)
        return other

    def _uniform(self, stream: str, step: int) -> Candidate:
        """A random item."""
        seed = derive_seed(self.seed, stream, step)
        if self.space.choices is None:
            return Candidate(self.space.uniform(seed), None)
        generator, table = torch.Generator().manual_seed(seed), self.space.table
        row = int(torch.randint(len(table), (), generator=generator))
        return Candidate(table[row], row)

    def _learn(self, answered: Answered) -> None:
        if answered.answer is not None:
            self._add(*answered)

    def _options(self) -> dict[str, Any]:
        amounts = {name: getattr(self, name) for name in ("duel_cost", "value_cost", "budget")}
        exactly = {name: None if one is None else str(one) for name, one in amounts.items()}
        return super()._options() | exactly
