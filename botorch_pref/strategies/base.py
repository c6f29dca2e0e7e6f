r"""Ask, tell, recommend, and a state of plain JSON."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FunctionType
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from botorch_pref.data.checks import checked_seed
from botorch_pref.exceptions import ComparisonDataError, StaleQueryError
from botorch_pref.queries import Evaluate, Query
from botorch_pref.space import SearchSpace
from botorch_pref.strategies.checks import (
    check_counts,
    check_query,
    checked_list,
    checked_next_id,
    reading,
)

STATE_VERSION = 1
_STATE_KEYS = {"space", "seed", "options", "history", "open", "next_id", "progress"}


class Answered(NamedTuple):
    r"""A query and what came of it.

    Attributes:
        query: The query.
        answer: As in :meth:`~botorch_pref.strategies.Strategy.tell`.
    """

    query: Query
    answer: float | None


class Strategy(ABC):
    r"""A policy that asks queries and learns from the answers.

    No state of a random generator is kept: what is drawn follows from the seed and the
    number of the round, so a strategy that is stored and resumed asks the very same
    query next.

    Args:
        bounds: ``2 x d``-dim box, or
        choices: ``n x d``-dim table of items, or
        space: a search space.
        seed: The seed of all draws.
    """

    _asks: ClassVar[tuple[type[Query], ...]] = (Query,)
    """The kinds of its queries, which those of a stored state must be of."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Models are fitted and kept, whatever mode of autograd the caller is in."""
        super().__init_subclass__(**kwargs)
        for name, method in list(vars(cls).items()):
            if isinstance(method, FunctionType) and not name.startswith("_"):
                setattr(cls, name, torch.inference_mode(False)(method))

    def __init__(
        self,
        bounds: Tensor | None = None,
        choices: Tensor | None = None,
        space: SearchSpace | None = None,
        *,
        seed: int = 0,
    ) -> None:
        if space is not None and (bounds is not None or choices is not None):
            raise ComparisonDataError("Give either `space`, or `bounds` and `choices`.")
        if space is not None and not isinstance(space, SearchSpace):
            raise ComparisonDataError(f"`space` must be a SearchSpace, not {space!r}.")
        self.space = space if space is not None else SearchSpace(bounds, choices)
        self.seed = checked_seed(seed)
        self.round = 0  # of those that count what they choose
        self.history: list[Answered] = []
        self._open: dict[str | None, Query] = {}
        self._next_id = 0

    @property
    def num_answers(self) -> int:
        """How many queries were answered, skipped ones aside."""
        return sum(answered.answer is not None for answered in self.history)

    def ask(self, annotator: str | None = None) -> Query:
        r"""The open query of an annotator, or a new one.

        Args:
            annotator: Who is asked; each has one open query at most, and a new one is
                chosen with those of the others pending.

        Returns:
            The query to be answered.

        Raises:
            ComparisonDataError: If ``annotator`` is no string.
        """
        if annotator is not None and not isinstance(annotator, str):
            raise ComparisonDataError(f"`annotator` must be a string, not {annotator!r}.")
        if annotator not in self._open:
            with _put_back(self, "round"), torch.inference_mode(False):
                self._open[annotator] = self._choose(self._next_id, annotator)
            self._next_id += 1
        return self._open[annotator]

    def tell(self, query: Query, answer: float | None) -> None:
        r"""Learn the answer to an open query.

        Args:
            query: What :meth:`ask` returned.
            answer: Of a duel, 1 the first won, 0 the second, 0.5 no preference; of a choice,
                the favourite's position, from 0; of a label, 1 accept, 0 reject; of an
                evaluation, the value. ``None`` to skip.

        Raises:
            StaleQueryError: If the query is unknown, or was told already.
            ComparisonDataError: If it is no such answer; the query then stays open.
        """
        if not isinstance(query, Query):
            raise ComparisonDataError(f"`query` must be what ask() returned, not {query!r}.")
        if self._open.get(query.annotator) != query:
            told = any(query == answered.query for answered in self.history)
            state = "was already told" if told else "is not open in this strategy"
            raise StaleQueryError(f"Query {query.id} of {query.annotator!r} {state}.")
        # Its own query, not an equal one, which may have come from a file, or another device.
        own = self._open[query.annotator]
        answered = Answered(own, own.checked(answer))
        with torch.inference_mode(False):
            self._learn(answered)
        self.history.append(answered)
        del self._open[query.annotator]

    def asked_items(self) -> Tensor:
        """The ``k x d``-dim items of all queries that came back."""
        if not self.history:
            return self.space.bounds[:0]
        items = [answered.query.items.view(-1, self.space.dim) for answered in self.history]
        return torch.cat(items).to(self.space.bounds)

    def pending_items(self) -> Tensor:
        """The ``k x d``-dim items of all open queries."""
        items = [query.items.view(-1, self.space.dim) for query in self._open.values()]
        return torch.cat([self.space.bounds[:0], *(i.to(self.space.bounds) for i in items)])

    def _unmeasured(self) -> list[Evaluate]:
        """What others are measuring, and what could not be measured: skipped evaluations."""
        skipped = (answered.query for answered in self.history if answered.answer is None)
        queries = (*self._open.values(), *skipped)
        return [query for query in queries if isinstance(query, Evaluate)]

    @abstractmethod
    def recommend(self) -> Tensor:
        """The ``d``-dim best item so far."""

    @abstractmethod
    def recommend_index(self) -> int:
        """Its row in the choices.

        Raises:
            SearchSpaceError: If the space is a box.
        """

    @abstractmethod
    def _choose(self, query_id: int, annotator: str | None) -> Query:
        """A new query."""

    @abstractmethod
    def _learn(self, answered: Answered) -> None:
        """Add an answer to the data."""

    @abstractmethod
    def _options(self) -> dict[str, Any]:
        """The constructor's further arguments, as plain JSON."""

    @abstractmethod
    def _progress(self) -> dict[str, Any]:
        """What the next query depends on beside options and history, as plain JSON."""

    @abstractmethod
    def _restore(self, progress: dict[str, Any]) -> None:
        """Put back what :meth:`_progress` returned; history is in place."""

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on, as plain JSON; floats are read back exactly."""
        return {
            "strategy": type(self).__name__,
            "version": STATE_VERSION,
            "space": self.space.state_dict(),
            "seed": self.seed,
            "options": self._options(),
            "history": [[query.to_json(), answer] for query, answer in self.history],
            "open": [query.to_json() for query in self._open.values()],
            "next_id": self._next_id,
            "progress": self._progress(),
        }

    @classmethod
    def from_state_dict(cls, state: dict[str, Any], device: torch.device | None = None) -> Self:
        r"""The strategy that :meth:`state_dict` was taken of.

        Args:
            state: What :meth:`state_dict` returned, possibly written as JSON in between.
            device: Where it computes; on the CPU by default.

        Returns:
            A strategy whose next query is the identical one.

        Raises:
            ComparisonDataError: If it is the state of another strategy, or of a version
                that this one cannot read, or has what this one cannot have written; names the
                key, and of history and open queries the row.
        """
        if not isinstance(state, Mapping):
            raise ComparisonDataError(f"`state` must be a dictionary, not {state!r}.")
        found = (state.get("strategy"), state.get("version"))
        if found != (cls.__name__, STATE_VERSION):
            raise ComparisonDataError(
                f"`state` is of {found[0]!r} version {found[1]!r}, not of {cls.__name__!r} "
                f"version {STATE_VERSION}."
            )
        if missing := _STATE_KEYS - state.keys():
            raise ComparisonDataError(f"`state` lacks {sorted(missing)}.")
        with reading("space"):
            space = SearchSpace.from_state_dict(state["space"], device)
        with reading("options"):
            strategy = cls(space=space, seed=state["seed"], **state["options"])
        _recall(strategy, state, device)
        with reading("progress"):
            check_counts(state["progress"])
            strategy._restore(state["progress"])
        return strategy


@contextmanager
def _put_back(owner: object, name: str) -> Iterator[None]:
    """Puts an attribute back to what it was, if the block fails."""
    before = getattr(owner, name)
    try:
        yield
    except BaseException:
        setattr(owner, name, before)
        raise


def _recall(strategy: Strategy, state: Mapping[str, Any], device: torch.device | None) -> None:
    """Learn the history of a state, and open its open queries."""

    def read(stored: Mapping[str, Any]) -> Query:
        query = Query.from_json(stored, device)
        check_query(query, strategy._asks, strategy.space)
        return query

    for row, entry in enumerate(checked_list("history", state["history"])):
        with reading(f"history row {row}"):
            stored, answer = entry
            query = read(stored)
            answered = Answered(query, query.checked(answer))
            strategy._learn(answered)
        strategy.history.append(answered)
    for row, stored in enumerate(checked_list("open", state["open"])):
        with reading(f"open row {row}"):
            query = read(stored)
            if query.annotator in strategy._open:
                raise ComparisonDataError(f"{query.annotator!r} has another open query.")
        strategy._open[query.annotator] = query
    queries = (*(done.query for done in strategy.history), *strategy._open.values())
    strategy._next_id = checked_next_id(state["next_id"], (query.id for query in queries))
