r"""A strategy, its search space and its history, saved after every answer."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Self

import pandas as pd
import torch
from botorch.exceptions.errors import BotorchError
from torch import Tensor

from botorch_pref.exceptions import StudyError, StudyFileError
from botorch_pref.queries import Answer, Answered, Duel, Query
from botorch_pref.space.search_space import SearchSpace
from botorch_pref.strategies.base import Strategy
from botorch_pref.strategies.registry import DEFAULT_STRATEGY, get_strategy, strategy_class
from botorch_pref.study.dimensions import (
    ROW,
    Dimension,
    dimensions_of,
    read_by_people,
    value_text,
)
from botorch_pref.study.file import ENTRIES, StudyFile, json_object
from botorch_pref.study.recommendation import Beliefs, Recommendation, StoppingRule, recommendation
from botorch_pref.study.rewind import apply, difference

_DEFAULT_STOPPING = StoppingRule()
# What an entry that is none raises where it is used.
_FOREIGN = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


@dataclass(frozen=True)
class Content:
    """What is saved of a study; a new content replaces the old one once it is saved."""

    strategy: Strategy
    dimensions: tuple[Dimension, ...]
    description: str
    created: str  # ISO 8601, as are the times of answers
    stopping: StoppingRule
    lasting: dict[str, str]  # entries of the strategy's state that answers do not change, as JSON
    answers: tuple[str, ...] = ()  # the history, likewise
    told: tuple[str, ...] = ()
    before: dict[str, Any] | None = None  # what the last answer changed, as it was
    rewind: tuple[str, ...] = ()  # from that to an answer earlier, oldest first, as JSON
    others: dict[str, Any] = field(default_factory=dict)  # entries of the file that are not known

    def with_answer(self, before: dict[str, Any]) -> Self:
        """With an answer that was told just now, which changed these entries of the state."""
        return replace(
            self,
            answers=(*self.answers, json.dumps(self.strategy.history[-1].to_json())),
            told=(*self.told, _now()),
            before=before,
            rewind=self._rewind_from(before),
        )

    def without_last(self) -> Self:
        """With the strategy as it was before the last answer."""
        assert self.before is not None
        shorter = replace(self, answers=self.answers[:-1], told=self.told[:-1])
        try:
            change = json.loads(self.rewind[-1]) if self.rewind else None
            earlier = apply(self.before, change) if self.rewind else None
            return replace(shorter, before=earlier, rewind=self.rewind[:-1]).restored(self.before)
        except (*_FOREIGN, BotorchError) as error:
            row = max(len(self.rewind) - 1, 0)
            raise StudyError(
                f"It cannot be taken back: the file's entry 'rewind' row {row} is wrong ({error})."
            ) from error

    def restored(self, changing: dict[str, Any]) -> Self:
        """With the strategy after these answers, in another state, on the same device."""
        state = json.loads(self._state(changing))
        return replace(self, strategy=self.strategy.with_state(state))

    def to_json(self) -> dict[str, str]:
        """The entries of the file, each as JSON."""
        changing = _changing_of(self.strategy)
        entries = {
            **self.others,
            "description": self.description,
            "created": self.created,
            "dimensions": [dimension._asdict() for dimension in self.dimensions],
            "told": self.told,
            "stopping": asdict(self.stopping),
        }
        return {
            **_texts(entries),
            "strategy": self._state(changing),
            "rewind": _json_list(self._rewind_from(changing)),
        }

    @classmethod
    def from_json(
        cls,
        entries: dict[str, Any],
        device: torch.device | None = None,
        choices: Tensor | None = None,
    ) -> Self:
        """Reads what :meth:`to_json` wrote; a StudyError says what is wrong within an entry."""
        state, told, rewind = entries["strategy"], entries["told"], entries["rewind"]
        try:
            kind = strategy_class(state["strategy"])
            strategy = kind.from_state_dict(state, device, choices=choices)
            if not len(strategy.history) == len(told) == len(rewind):
                raise StudyError("it has not one time and one state before for every answer")
            [datetime.fromisoformat(time) for time in told]
            names = [Dimension(**entry) for entry in entries["dimensions"]]
            changing = {name: state[name] for name in strategy._changing()}
            return cls(
                strategy,
                dimensions_of(names, strategy.space, new=False),
                entries["description"],
                entries["created"],
                StoppingRule(**entries["stopping"]),
                _texts(strategy._lasting()),
                tuple(map(json.dumps, state["history"])),
                tuple(told),
                apply(changing, rewind[-1]) if rewind else None,
                tuple(map(json.dumps, rewind[:-1])),
                {name: one for name, one in entries.items() if name not in ENTRIES},
            )
        except BotorchError as error:
            raise StudyError(str(error)) from error
        except _FOREIGN as error:
            raise StudyError(f"an entry is wrong ({error!r})") from error

    def _state(self, changing: dict[str, Any]) -> str:
        """The strategy's state as JSON; of its parts only these entries are written again."""
        history = {"history": _json_list(self.answers)}
        return json_object({**self.lasting, **history, **_texts(changing)})

    def _rewind_from(self, changing: dict[str, Any]) -> tuple[str, ...]:
        """What leads from these entries of the state back to those before the first answer."""
        last = [] if self.before is None else [json.dumps(difference(changing, self.before))]
        return (*self.rewind, *last)


class Study:
    r"""A strategy that is saved after every answer, in one JSON file.

    A study is made by :meth:`create` or :meth:`load`. What :meth:`tell` has returned from is
    on the disk, whatever happens then. One process at a time has a study open for writing;
    any number read it. Threads that share a study take turns.

    Example:
        >>> with Study.create("coffee.json", space, names=["milk (ml)"]) as study:
        ...     query = study.ask()
        ...     study.tell(query, 1.0)
    """

    def __init__(self, file: StudyFile, content: Content) -> None:
        self._file, self._content = file, content
        self._turn, self._saves = threading.RLock(), True
        self._saved: dict[str | None, Query] = {}  # open queries that the file has
        self._beliefs: tuple[object, Beliefs | None] | None = None

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        space: SearchSpace,
        strategy: Strategy | Callable[..., Strategy] | None = None,
        *,
        question: str | None = None,
        begin_with: Study | pd.DataFrame | None = None,
        names: Sequence[str | Dimension] | None = None,
        description: str = "",
        levels: Mapping[str, Sequence[str]] | None = None,
        stopping: StoppingRule = _DEFAULT_STOPPING,
    ) -> Self:
        r"""Begin a study, which is saved and open for writing.

        Args:
            path: The file, which must not exist yet; its folder must.
            space: The domain.
            strategy: A strategy on that space without answers, or what makes one of
                ``space=``, such as its class; by default a ``DuelingKG``.
            question: What it asks, where the strategy is made here: ``"duel"``, ``"best of 4"``,
                ``"rank 3"`` or ``"grade 5"``, with other numbers of items or grades.
            begin_with: Answers of others, which the strategy made here knows before the first
                question: another study of the same dimensions, or a table with the columns of
                :attr:`history` for duels, ``annotator`` if people are named there and ``shown`` if
                the order is known. Each of these has a utility of their own; how far it is from
                that of this study is learnt, and so how much their answers count.
            names: What the dimensions are called, a unit in brackets: ``["milk (ml)"]``, or
                dimensions; ``x1``, ``x2``, ... by default.
            description: What the study is about.
            levels: What the levels of categories are called, by the name of the dimension:
                ``{"roast": ["light", "dark"]}``; 0, 1, ... by default.
            stopping: When enough is asked.

        Raises:
            StudyError: If an argument cannot be used; names it.
            StudyFileError: If the file exists, or cannot be written.
            StudyLockedError: If it is open for writing elsewhere, in this process included.
        """
        if not isinstance(space, SearchSpace):
            raise StudyError(f"`space` must be a SearchSpace, not {space!r}.")
        make = partial(get_strategy, DEFAULT_STRATEGY) if strategy is None else strategy
        if question is not None:
            if isinstance(make, Strategy):
                raise StudyError("`question` is of a strategy that is made; give it to yours.")
            make = partial(make, question=question)
        if not isinstance(description, str):
            raise StudyError(f"`description` must be a text, not {description!r}.")
        if not isinstance(stopping, StoppingRule):
            raise StudyError(f"`stopping` must be a StoppingRule, not {stopping!r}.")
        dimensions = dimensions_of(names, space, levels)
        made = _checked_strategy(space, make)
        if begin_with is not None:
            if isinstance(make, Strategy):
                raise StudyError("`begin_with` is of a strategy that is made; give `known` to it.")
            known, name = _answers_of_others(begin_with, dimensions), type(made).__name__
            try:
                made = make(space=space, known=known, own_utilities=True)
            except (BotorchError, TypeError) as error:
                has_own = hasattr(made, "own_utilities")
                why = error if has_own else "people have no utilities of their own there."
                raise StudyError(f"`begin_with` cannot be used by {name}: {why}") from error
        content = Content(made, dimensions, description, _now(), stopping, _texts(made._lasting()))
        file = StudyFile(path, writable=True)
        try:
            if file.path.exists():
                raise StudyFileError(
                    f"{str(file.path)!r} exists already; Study.load continues a study."
                )
            file.write(content.to_json(), _table_of(made))
        except BaseException:
            file.close()
            raise
        return cls(file, content)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        read_only: bool = False,
        device: torch.device | None = None,
        unverified: bool = False,
    ) -> Self:
        r"""Go on with a study, whose next query is the one that it would have been.

        Args:
            path: The file.
            read_only: Whether to look at it alone, as it is now, which is possible while
                another process writes.
            device: Where its strategy computes; on the CPU by default.
            unverified: Whether to take a file that was changed since it was saved, as by hand, with
                a warning; when it is saved next, that is what was saved.

        Raises:
            StudyFileError: If the file is missing, truncated, changed, foreign or newer. It is left
                as it is; what was saved last is beside it, in ``NAME.bak``.
            StudyLockedError: If it is open for writing elsewhere, in this process included; names
                the process.
        """
        file = StudyFile(path, writable=not read_only, must_exist=True)
        try:
            entries = file.read(unverified)
            space = entries["strategy"].get("space")
            choices = file.read_table(space.get("choices") if isinstance(space, dict) else None)
            try:
                return cls(file, Content.from_json(entries, device, choices))
            except StudyError as error:
                table = "" if choices is None else f" (its table is {str(file.table)!r})"
                raise file.refusal(f"{error}{table}") from error
        except BaseException:
            file.close()
            raise

    @property
    def path(self) -> Path:
        """The file."""
        return self._file.path

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """Name and unit of each dimension of an item."""
        return self._content.dimensions

    @property
    def description(self) -> str:
        """What the study is about."""
        return self._content.description

    @property
    def created(self) -> str:
        """When it was begun, in ISO 8601."""
        return self._content.created

    @property
    def strategy(self) -> Strategy:
        """The strategy; look it up again after :meth:`undo`, and tell answers to the study."""
        return self._content.strategy

    @property
    def space(self) -> SearchSpace:
        """The domain."""
        return self.strategy.space

    @property
    def stopping(self) -> StoppingRule:
        """When enough is asked."""
        return self._content.stopping

    @property
    def history(self) -> pd.DataFrame:
        r"""One row for every answer.

        =================  ===============================================================
        step               1, 2, ...
        kind               of the query: duel, choice, ranking, grade, label or evaluate
        milk, ...          the item of a label or an evaluation, by the names of dimensions
        first_milk, ...    the items of other queries: first, second, item3, ...
        index, ...         likewise their rows in the choices, if there are choices
        answer             as in :meth:`tell`, a ranking as digits, 312 for the third item, the
                           first and the second; missing where it was skipped
        annotator          who was asked
        shown              the numbers of the items from 1 in the order shown, as in "2 1"
        told               when the answer was told
        =================  ===============================================================
        """
        with self._turn:
            return self._history()

    def _history(self) -> pd.DataFrame:
        rows, items, indices = [], dict[str, None](), dict[str, str]()
        for step, done in enumerate(self.strategy.history, start=1):
            shown, numbers = self._columns(done.query)
            rows.append({"step": step, "kind": done.query.kind, **shown, "answer": done.number})
            items |= dict.fromkeys(shown)
            indices |= dict.fromkeys(numbers, "Int64")
        table = pd.DataFrame(rows, columns=["step", "kind", *items, "answer"])
        table = table.astype({"step": "int64", "kind": "str", "answer": "float64", **indices})
        annotators = [query.annotator for query, _ in self.strategy.history]
        last = {"annotator": pd.Series(annotators, dtype="object")}
        if "shown" not in table:  # a dimension of that name is as old as its file
            orders = [[str(i + 1) for i in query.shown] for query, _ in self.strategy.history]
            last["shown"] = pd.Series([" ".join(order) for order in orders], dtype="str")
        told = pd.Series([*self._content.told], dtype="str")
        last["told"] = pd.to_datetime(told, format="ISO8601", utc=True)
        return pd.concat([table, pd.DataFrame(last)], axis=1)

    def ask(self, annotator: str | None = None) -> Query:
        r"""The open query of an annotator, or a new one, which is saved.

        Raises:
            StudyError: If the study is closed, or open for reading alone.
            StudyFileError: If it cannot be saved; nothing was asked then.
        """
        with self._all_or_nothing():
            query = self.strategy.ask(annotator)
            if self._saved.get(annotator) is not query:
                self._save(self._content)
                self._saved[annotator] = query
        return query

    def tell(self, query: Query, answer: Answer | None) -> None:
        r"""Learn the answer to an open query, and save it; for answers see the strategy.

        Raises:
            StaleQueryError: If the query is unknown, was told already or was withdrawn.
            ComparisonDataError: If it is no such answer; the query then stays open.
            StudyError: If the study is closed, or open for reading alone.
            StudyFileError: If it cannot be saved; the query then stays open.
        """
        with self._all_or_nothing() as before:
            self.strategy.tell(query, answer)
            self._save(self._content.with_answer(before))

    def skip(self, query: Query) -> None:
        """Leave an open query unanswered, for another one; see :meth:`tell`."""
        self.tell(query, None)

    def undo(self) -> Query:
        r"""Take back the last answer, a skipped one included.

        All is as it was before that answer: its query, which is returned, is open again, and
        what others were asked since is withdrawn.

        Raises:
            StudyError: If there is no answer, or the study is not open for writing.
            StudyFileError: If it cannot be saved; nothing is taken back then.
        """
        with self._turn:
            self._check_writable()
            if not self._content.told:
                raise StudyError("There is no answer yet that could be taken back.")
            query = self.strategy.history[-1].query
            self._beliefs = None  # another answer may take its place
            self._save(self._content.without_last())
            return query

    @contextmanager
    def saved_once(self) -> Iterator[None]:
        r"""Save what is told in the block once, at its end, instead of after every answer.

        For many answers that are kept elsewhere until then. Other threads wait.

        Raises:
            StudyFileError: If it cannot be saved; then it is saved with the next answer.
        """
        with self._turn:
            self._saves = False
            try:
                yield
            finally:
                self._saves = True
                self._save(self._content)

    def beliefs(self) -> Beliefs | None:
        """A model of all comparisons, for figures; None while there are none."""
        with self._turn:
            answers = self.strategy.num_answers, len(self.strategy.history)
            if self._beliefs is None or self._beliefs[0] != answers:
                self._beliefs = answers, Beliefs.of(self.strategy)
            return self._beliefs[1]

    def recommend(self) -> Recommendation:
        r"""The best item by the strategy so far, and how sure the comparisons make that.

        Raises:
            ComparisonDataError: If nothing was answered yet and the strategy has no item then.
        """
        with self._turn:
            item = self.strategy.recommend()
            values, number = self._values(item), self.strategy.num_answers
            beliefs = self.beliefs()
        return recommendation(item, values, number, beliefs, self.stopping, self.describe)

    def describe(self, item: Tensor, fine: bool = False) -> str:
        """A ``d``-dim item with names and units, as in ``"milk 34 ml, sugar 2.1 g"``."""
        texts = self._shown(item, fine)
        return ", ".join(" ".join(filter(None, (one.name, text, one.unit))) for one, text in texts)

    def shown(self, items: Tensor) -> list[list[tuple[Dimension, str]]]:
        """What a person is shown of each of ``k x d``-dim items: dimensions, and values as text.

        On a box values are rounded to a fiftieth of their range, or to a thousandth where two items
        would look the same. Of a table of more than 30 columns, such as embeddings, the row's
        number and the columns that are texts are shown.
        """
        coarse = [self._shown(item) for item in items]
        if all(one not in coarse[:i] for i, one in enumerate(coarse)):
            return coarse
        return [self._shown(item, fine=True) for item in items]

    def _shown(self, item: Tensor, fine: bool = False) -> list[tuple[Dimension, str]]:
        values, own = [*self._values(item).values()], read_by_people(self.dimensions, self.space)
        texts = [(self.dimensions[i], value_text(values[i], i, self.space, fine)) for i in own]
        if len(own) == len(values):
            return texts
        row = int((self.space.table == item).all(-1).nonzero()[0])
        return [(ROW, f"#{row}"), *texts]

    def close(self) -> None:
        """Let others write; all is saved already."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _values(self, item: Tensor) -> dict[str, float | str]:
        """The ``d``-dim item by the names of its dimensions, categories by the names of levels."""
        pairs = zip(self.dimensions, item.tolist(), strict=True)
        return {dimension.name: dimension.value(number) for dimension, number in pairs}

    def _columns(self, query: Query) -> tuple[dict[str, Any], list[str]]:
        """The columns of a query's items, their names alone where there is one; of indices."""
        rows, indices = query.rows, query.row_indices
        later = (f"item{number}_" for number in range(3, len(rows) + 1))
        slots = [""] if query.items.dim() == 1 else ["first_", "second_", *later]
        columns: dict[str, Any] = {}
        for number, (slot, row) in enumerate(zip(slots, rows, strict=True)):
            columns |= {} if indices is None else {f"{slot}index": indices[number]}
            columns |= {slot + name: value for name, value in self._values(row).items()}
        return columns, [] if indices is None else [f"{slot}index" for slot in slots]

    def _save(self, content: Content) -> None:
        """Write a content, and take it over if that succeeds."""
        if self._saves:
            self._file.write(content.to_json(), _table_of(content.strategy))
        self._content = content

    @contextmanager
    def _all_or_nothing(self) -> Iterator[dict[str, Any]]:
        """The state but the history, which is put back if the block fails; threads take turns."""
        with self._turn:
            self._check_writable()
            before = _changing_of(self.strategy)
            try:
                yield before
            except BaseException as error:
                # A refused answer changes nothing, and a strategy whose budget is spent is
                # finished; after other errors a step may be incomplete or not saved.
                known = isinstance(error, BotorchError)
                agrees = len(self.strategy.history) == len(self._content.told)
                ended = known and agrees and getattr(self.strategy, "finished", False)
                if not ended and (not known or _changing_of(self.strategy) != before):
                    self._content = self._content.restored(before)
                raise

    def _check_writable(self) -> None:
        """Raises StudyError unless it may be changed, and was changed by way of the study."""
        if not self._file.writable:
            raise StudyError(
                f"Study {str(self.path)!r} is closed, or was opened with read_only=True."
            )
        if len(self.strategy.history) != len(self._content.told):
            raise StudyError(
                "The strategy was told answers that the study does not have; tell answers to "
                "the study. Load it again."
            )


def _answers_of_others(source: object, dimensions: Sequence[Dimension]) -> list[Answered]:
    """The comparisons of another study, or of a table of duels, with the names of who made them."""
    if isinstance(source, Study):
        if source.dimensions != tuple(dimensions):
            raise StudyError("`begin_with` is a study of other dimensions.")
        name = source.path.stem
        before = getattr(source.strategy, "known", ())
        told = [*before, *(done for done in source.strategy.history if done.answer is not None)]
        return [
            Answered(replace(query, annotator=query.annotator or name), answer)
            for query, answer in told
            if query.compares
        ]
    if not isinstance(source, pd.DataFrame):
        raise StudyError(f"`begin_with` must be a study or a table, not {source!r}.")
    columns = [[f"{slot}_{one.name}" for one in dimensions] for slot in ("first", "second")]
    if missing := {*columns[0], *columns[1], "answer"} - {*source}:
        raise StudyError(f"`begin_with` lacks the columns {sorted(missing)}.")
    kinds = source["kind"] if "kind" in source else pd.Series(Duel.kind, index=source.index)
    if len(wrong := (kinds != Duel.kind).to_numpy().nonzero()[0]):
        raise StudyError(
            f"`begin_with` row {wrong[0]} is a {kinds.iloc[wrong[0]]}: of a table only duels are "
            "read, of a study all comparisons."
        )
    found = []
    for number, (_, row) in enumerate(source.iterrows()):
        if pd.isna(row["answer"]):  # skipped
            continue
        try:
            items = [
                [one.number(row[name]) for one, name in zip(dimensions, names, strict=True)]
                for names in columns
            ]
            shown = row.get("shown")
            order = tuple(int(i) - 1 for i in shown.split()) if isinstance(shown, str) else None
            query = Duel(number, torch.tensor(items, dtype=torch.double), order=order)
            answer = query.checked(float(row["answer"]))
        except (BotorchError, TypeError, ValueError) as error:
            raise StudyError(f"`begin_with` row {number}: {error}") from error
        named = row.get("annotator")
        who = named if isinstance(named, str) else "before"
        found.append(Answered(replace(query, annotator=who), answer))
    return found


def _checked_strategy(space: SearchSpace, strategy: Strategy | Callable[..., Strategy]) -> Strategy:
    """A strategy without answers on a space; made of the space where that is left to it."""
    made: object = strategy
    if not isinstance(strategy, Strategy) and callable(strategy):
        try:
            made = strategy(space=space)
        except TypeError as error:
            raise StudyError(f"`strategy` cannot be made of `space=` alone: {error}.") from error
    if not isinstance(made, Strategy):
        raise StudyError(f"`strategy` must be a strategy or what makes one, not {strategy!r}.")
    if made.space.state_dict() != space.state_dict():
        raise StudyError("`strategy` is on another space than `space`.")
    if made.history:
        raise StudyError(f"`strategy` has {len(made.history)} answers; a study begins without.")
    name = type(made).__name__
    if strategy_class(name) is not type(made):
        raise StudyError(f"`strategy` is of a class {name!r}, but so is another; rename it.")
    return made


def _changing_of(strategy: Strategy) -> dict[str, Any]:
    """What answers change in a state, but for the history; nothing that follows can change it."""
    entries: dict[str, Any] = json.loads(json.dumps(strategy._changing()))
    return entries


def _texts(entries: Mapping[str, Any]) -> dict[str, str]:
    return {name: json.dumps(entry) for name, entry in entries.items()}


def _table_of(strategy: Strategy) -> Tensor | None:
    """The choices, if the state has their checksum alone."""
    return strategy.choices if strategy.space.is_large else None


def _json_list(entries: Sequence[str]) -> str:
    return f"[{', '.join(entries)}]"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
