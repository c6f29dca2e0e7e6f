r"""What all strategies share: ask, tell, recommend, pending queries, and a state of plain JSON."""

from __future__ import annotations

import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import KW_ONLY, dataclass, replace
from functools import wraps
from itertools import takewhile
from types import FunctionType
from typing import Any, ClassVar, Literal, NamedTuple, Self, cast

import pandas as pd
import torch
from botorch.acquisition import AcquisitionFunction
from botorch.exceptions.errors import BotorchError
from gpytorch.kernels import Kernel
from torch import Generator, Tensor

from botorch_pref.acquisition.utils import mean_rule
from botorch_pref.data.checks import check_count
from botorch_pref.data.options import checked_seed, endless_from_json, endless_to_json, plain
from botorch_pref.exceptions import (
    ComparisonDataError,
    SearchSpaceError,
    StaleQueryError,
    UnsupportedError,
)
from botorch_pref.inference.finite import Regularizer, argmax_with_random_ties
from botorch_pref.inference.systems import joint_draws
from botorch_pref.likelihoods import BernoulliLikelihood
from botorch_pref.models.answer_parameters import PEOPLE
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.queries import Answer, Answered, Duel, Grade, Query, Question, shown_order
from botorch_pref.randomness import derive_seed, torch_threads
from botorch_pref.space.maximize import Feasible
from botorch_pref.space.search_space import MOST_EXACT, Maximum, SearchSpace
from botorch_pref.strategies.shortlist import shortlist
from botorch_pref.strategies.state import Entry, put_back, read_tensor, whole, written
from botorch_pref.strategies.utility import (
    EFFECTS,
    HYPERPARAMETERS,
    MOST_LEARNT,
    Hyperparameters,
    KernelArgument,
    TablePosterior,
    UtilityLearner,
    check_rows,
    likelihood_to_json,
    masked,
)

STATE_VERSION = 3  # raised whenever options or progress lose or rename an entry
_READ_VERSIONS = (2, 3)
_STATE_KEYS = {"space", "seed", "options", "history", "open", "next_id", "progress"}
_NO_OPTIONS = {"bounds", "choices", "space", "seed"}
_NO_DIFFERENCE = 1e-9
_SINGLE = 1e-6  # of the range of every dimension: how far outside rounding may put an item
_ROUNDING = {torch.float64: 1e-9, torch.float32: _SINGLE}
_SAME_ITEM = 1e-3  # of the range of every dimension of a box
_SAMPLE, _CHUNK, _DRAWS = 1024, 256, 512
_NEARBY, _SCALES = 128, (0.01, 0.1)  # of the range of every dimension of a box
_SPREAD, _AROUND, _ASKED = 300, 200, 64  # items of a box that are compared
_STEPS = (0.05, 0.1, 0.2, 0.4)  # from the best item, of the range of every dimension
_FEW = 4  # dimensions, in which every step has a direction of its own

# The ``k x d``-dim items of a query, and their rows where there are choices.
Pair = tuple[Tensor, tuple[int, ...] | None]


class Candidate(NamedTuple):
    """A ``d``-dim item, and its row in the choices where there are choices."""

    item: Tensor
    row: int | None

    @classmethod
    def of(cls, found: Maximum) -> Candidate:
        """The item of a search."""
        return cls(found.items[0], None if found.indices is None else found.indices[0])

    @classmethod
    def read(cls, name: str, stored: Sequence[Any], space: SearchSpace) -> Candidate:
        """An item as plain JSON, and its row: one of a space."""
        item, row = stored
        found = read_tensor(name, item, space.dim).to(space.bounds)
        # It may have been an item in single precision.
        check_of_space(space, [name], found.unsqueeze(0), [row], found.new_tensor([_SINGLE]))
        return cls(found, row)

    @classmethod
    def of_query(cls, query: Query) -> Candidate:
        """The item of a label or an evaluation, or the first of a duel."""
        rows = query.row_indices
        return cls(query.rows[0], None if rows is None else rows[0])


class Chosen(NamedTuple):
    r"""What is asked next.

    Attributes:
        record: Why, as the strategy writes it down.
        item: The item; of a duel the first.
        opponent: The second item of a duel.
        further: Those of a larger question.
    """

    record: Any
    item: Candidate
    opponent: Candidate | None = None
    further: Sequence[Candidate] = ()


def _computed(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a strategy within :meth:`Strategy._computing`."""

    @wraps(method)
    def call(self: Strategy, *args: Any, **kwargs: Any) -> Any:
        with self._computing():
            return method(self, *args, **kwargs)

    return call


@dataclass(eq=False, repr=False)
class Strategy(ABC):
    r"""A policy that asks queries and learns from the answers.

    No state of a random generator is kept: all draws follow from the seed and the number of the
    round, so a strategy that is stored and resumed asks the identical query next.

    A subclass has ``_choose``, ``_learn`` and ``_recommended``, adds to ``_entries`` what its next
    query depends on, and keeps every keyword argument of
    its constructor in an attribute of that name, from which its state is written: it is a dataclass
    whose fields are its options, and its ``__post_init__`` checks them.

    Args:
        bounds: ``2 x d``-dim box, or
        choices: ``n x d``-dim table of items, or
        space: a search space.
        seed: The seed of all draws.
        shuffle: Whether the items of a query are shown in an order drawn from the seed; else as
            they are listed, often the best first. It changes nothing that is asked.
    """

    bounds: Tensor | None = None
    choices: Tensor | None = None
    space: SearchSpace = None  # type: ignore[assignment]  # that of `bounds` and `choices`
    _: KW_ONLY
    seed: int = 0
    shuffle: bool = True

    asked = Question(Duel)  # where items are compared

    _asks: ClassVar[tuple[type[Query], ...]] = (Query,)
    """The kinds of its queries, which those of a stored state must be of."""
    _entries: ClassVar[dict[str, Entry]] = {"round": Entry("round", whole(most=2**63))}
    """What the next query depends on beside options and history."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Public methods compute in one way, whatever a caller has set; see :meth:`_computing`."""
        super().__init_subclass__(**kwargs)
        for name, method in list(vars(cls).items()):
            if isinstance(method, FunctionType) and not name.startswith("_"):
                setattr(cls, name, _computed(method))

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """Models are fitted and kept, as for gradients; and small problems are on one thread."""
        choices, answers = self.choices, getattr(self, "history", ())
        is_small = len(answers) <= MOST_LEARNT and (choices is None or len(choices) <= MOST_EXACT)
        with torch.inference_mode(False), torch_threads() if is_small else nullcontext():
            yield

    def __post_init__(self) -> None:
        """Check the options, and set up a strategy without data."""
        given: object = self.space
        if given is None:
            self.space = SearchSpace(self.bounds, self.choices)
        elif self.bounds is not None or self.choices is not None:
            raise ComparisonDataError("Give either `space`, or `bounds` and `choices`.")
        elif not isinstance(given, SearchSpace):
            raise ComparisonDataError(f"`space` must be a SearchSpace, not {given!r}.")
        self.bounds, self.choices = self.space.bounds, self.space.choices
        if self.choices is not None and bool((self.choices == self.choices[0]).all()):
            raise SearchSpaceError("`choices` are all the same: there is nothing to choose.")
        self.seed = checked_seed(self.seed)
        self.round = 0  # of those that count what they choose
        self.history: list[Answered] = []
        self._open: dict[str | None, Query] = {}
        self._next_id = 0

    @property
    def num_answers(self) -> int:
        """The number of answered queries, without skipped ones."""
        return sum(answered.answer is not None for answered in self.history)

    @property
    def open_queries(self) -> list[Query]:
        """What was asked and not answered yet."""
        return [*self._open.values()]

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
            before = self.round
            try:
                with self._computing():
                    chosen = self._in_order(self._choose(self._next_id, annotator))
                    self._open[chosen.annotator] = chosen
            except BaseException:
                self.round = before
                raise
            self._next_id += 1
            return chosen
        return self._open[annotator]

    def tell(self, query: Query, answer: Answer | None) -> None:
        r"""Learn the answer to an open query.

        Args:
            query: What :meth:`ask` returned.
            answer: Of a duel, 1 the first won, 0 the second, 0.5 no preference; of a choice,
                the favourite's position, from 0; of a ranking, the positions, the best first; of
                a grade, 0 the second is better by most, and so on; of a label, 1 accept, 0
                reject; of an evaluation, the value. Positions are those of ``query.items``, in
                whatever order they were shown. ``None`` to skip.

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
        with self._computing():
            self._learn(answered)
        self.history.append(answered)
        del self._open[query.annotator]

    def hand(self, query: Query, annotator: str) -> Query:
        r"""Have an annotator answer what another one was asked.

        Args:
            query: An open query, which is then theirs alone; or one that others have answered.
            annotator: Who has no open query.

        Returns:
            The same question, with the same number, to be answered by them.

        Raises:
            StaleQueryError: If the query is unknown, they have answered it, or have another one.
        """
        own = replace(query, annotator=annotator)
        told = [done.query for done in self.history if done.query.id == query.id]
        asked = [*told, *(one for one in self._open.values() if one.id == query.id)]
        if not any(replace(one, annotator=annotator) == own for one in asked):
            raise StaleQueryError(f"Query {query.id} is not known to this strategy.")
        if any(one.annotator == annotator for one in told):
            raise StaleQueryError(f"Query {query.id} of {annotator!r} was already told.")
        if self._open.get(annotator, own) != own:
            raise StaleQueryError(f"{annotator!r} has another open query.")
        self._open = {who: one for who, one in self._open.items() if one.id != query.id}
        self._open[annotator] = own
        return own

    def asked_items(self) -> Tensor:
        """The ``k x d``-dim items of all queries that were answered or skipped."""
        return self._items_of(answered.query for answered in self.history)

    def recommend(self) -> Tensor:
        """The ``d``-dim best item so far.

        Raises:
            ComparisonDataError: On a box, if nothing was asked yet.
        """
        return self._recommended().item.to(self.space.bounds)

    def recommend_index(self) -> int:
        """Its row in the choices.

        Raises:
            SearchSpaceError: If the space is a box.
        """
        _ = self.space.table  # a box has none, and raises
        return cast(int, self._recommended().row)

    def state_dict(self) -> dict[str, Any]:
        r"""Everything needed to continue, as plain JSON; floats are read back exactly.

        Of a kernel that the caller gave it has the type and the parameters that were learnt, and of
        more than 2,000 choices their checksum, see
        :meth:`~botorch_pref.space.SearchSpace.state_dict`.
        """
        history = [done.to_json() for done in self.history]
        return {**self._lasting(), "history": history, **self._changing()}

    @classmethod
    def from_state_dict(
        cls,
        state: dict[str, Any],
        device: torch.device | None = None,
        *,
        covar_module: KernelArgument = None,
        choices: Tensor | None = None,
    ) -> Self:
        r"""The strategy that :meth:`state_dict` was taken of; its next query is the identical one.

        Args:
            state: What :meth:`state_dict` returned, possibly written as JSON in between.
            device: Where it computes; on the CPU by default.
            covar_module: The caller's kernel, if the strategy was given one: JSON cannot hold it.
            choices: The ``n x d``-dim table, if it has more than 2,000 rows: the state has its
                checksum.

        Raises:
            ComparisonDataError: If it is of another strategy, of a version that this one cannot
                read, or has an entry that this one cannot have written; names the entry, and the
                row of history or open queries.
        """
        if not isinstance(state, Mapping):
            raise ComparisonDataError(f"`state` must be a dictionary, not {state!r}.")
        for part, entry in state.items():
            if part != "space":  # whose table is large, and checked, as are the numbers of others
                with _reading(part):
                    json.dumps(entry, allow_nan=part != "options")
        name, version = state.get("strategy"), state.get("version")
        if name != cls.__name__ or version not in _READ_VERSIONS:
            older = isinstance(version, int) and version < STATE_VERSION
            raise ComparisonDataError(
                f"`state` is of {name!r} version {version!r}, not of {cls.__name__!r} "
                f"version {STATE_VERSION}" + ("; an older botorch_pref wrote it." if older else ".")
            )
        if missing := _STATE_KEYS - state.keys():
            raise ComparisonDataError(f"`state` lacks {sorted(missing)}.")
        with _reading("space"):
            space = SearchSpace.from_state_dict(state["space"], device, choices)
        with _reading("options"):
            options = endless_from_json(state["options"])
            kernel = options.pop("covar_module", None)
            if (kernel is None) != (covar_module is None):
                raise ComparisonDataError(
                    "there is no kernel of the caller's: leave out `covar_module`."
                    if kernel is None
                    else f"the kernel, a {kernel}, is the caller's: give it as `covar_module`."
                )
            if kernel is not None:
                options["covar_module"] = covar_module
            strategy = cls(space=space, seed=state["seed"], **options)
        strategy._recall(state, device)
        with _reading("progress"):
            strategy._restore(state["progress"])
        return strategy

    def with_state(self, state: dict[str, Any]) -> Self:
        """Another strategy of this class, device, kernel and table, from a state of its own."""
        own = {
            "covar_module": getattr(self, "covar_module", None),
            "choices": self.choices if self.space.is_large else None,
        }
        return type(self).from_state_dict(state, self.space.bounds.device, **own)

    @abstractmethod
    def _choose(self, query_id: int, annotator: str | None) -> Query:
        """A new query."""

    @abstractmethod
    def _learn(self, answered: Answered) -> None:
        """Add an answer to the data."""

    def _recommended(self) -> Candidate:
        """The best item so far; raises if nothing was answered."""
        raise NotImplementedError

    def _lasting(self) -> dict[str, Any]:
        """The entries of the state that answers do not change."""
        return {
            "strategy": type(self).__name__,
            "version": STATE_VERSION,
            "space": self.space.state_dict(),
            "seed": self.seed,
            "options": self._options(),
        }

    def _changing(self) -> dict[str, Any]:
        """The entries of the state that an answer changes, but for the history, which grows."""
        return {
            "open": [query.to_json() for query in self._open.values()],
            "next_id": self._next_id,
            "progress": self._progress(),
        }

    def _options(self) -> dict[str, Any]:
        """The constructor's arguments but the domain and the seed, as plain JSON."""
        names = _option_names(type(self))
        return endless_to_json({name: _to_json(getattr(self, name)) for name in names})

    def _progress(self) -> dict[str, Any]:
        """What the next query depends on beside options and history, as plain JSON."""
        return written(self)

    def _restore(self, progress: dict[str, Any]) -> None:
        """Put back what :meth:`_progress` returned; history is in place."""
        put_back(self, progress)

    def _read_known(self, known: object) -> tuple[Answered, ...]:
        """Queries that were answered before the first question, checked."""
        if not isinstance(known, Sequence):
            raise ComparisonDataError(f"`known` must be answered queries, not {known!r}.")
        return tuple(self._known(row, one) for row, one in enumerate(known))

    def _ask_for(self, question: str) -> None:
        """Raises unless a question is of a kind, and for a domain and a model, that it can be."""
        self.asked = Question.parse(question)
        if not issubclass(self.asked.kind, self._asks):
            known = ", ".join(f"a {kind.kind}" for kind in self._asks if kind.compares)
            raise UnsupportedError(
                f"`question` {question!r} is none that {type(self).__name__} asks: {known}."
            )
        wanted = self.asked.num_items
        items = self.space.choices
        if items is None and not self.space.parameters.real:
            items = self.space.sample(_SAMPLE, 0)
        if items is not None and wanted > 2 and (number := len(items.unique(dim=0))) < wanted:
            what = "items" if self.space.choices is None else "`choices`"
            raise ComparisonDataError(
                f"A question of {wanted} items needs as many different {what}, not {number}."
            )

    def _known(self, row: int, entry: Any) -> Answered:
        """An answered query that was known before, as it was given or as plain JSON.

        Its items are what counts; of choices they are looked up.
        """
        with _reading(f"row {row}", "known"):
            stored, told = entry
            stored = stored.to_json() if isinstance(stored, Query) else stored
            query = Query.from_json(stored, self.space.bounds.device)
            if told is None:
                raise ComparisonDataError("it has no answer.")
            self._check_known(query)
            if (items := query.rows).shape[-1] != self.space.dim:
                raise ComparisonDataError(
                    f"its items have {items.shape[-1]} dimensions, not {self.space.dim}."
                )
            if self.space.choices is None and not bool(self.space.contains(items).all()):
                raise ComparisonDataError(f"its items {items.tolist()} are outside the space.")
            rows = self._known_rows(items)
            if rows is not None and query.items.dim() == 1:
                (rows,) = rows
            query = replace(query, indices=rows)
            return Answered(query, cast(Answer, query.checked(told)))

    def _check_known(self, query: Query) -> None:
        """Raises unless the answer to a query of this kind can be known before."""
        if not isinstance(query, self._asks):
            kinds = " or ".join(f"a {kind.kind}" for kind in self._asks)
            raise ComparisonDataError(f"it is a {query.kind}, not {kinds}.")

    def _known_rows(self, items: Tensor) -> Any:
        """The rows of ``k x d``-dim items in the choices, if there are choices."""
        if self.space.choices is None:
            return None
        same = (self.space.choices == items.to(self.space.bounds).unsqueeze(-2)).all(-1)
        if not bool(same.any(-1).all()):
            raise ComparisonDataError("its items are not all among `choices`.")
        return tuple(same.int().argmax(-1).tolist())

    def _unmeasured(self) -> list[Query]:
        """Open evaluations, and skipped ones, which could not be measured."""
        skipped = (answered.query for answered in self.history if answered.answer is None)
        queries = (*self._open.values(), *skipped)
        return [query for query in queries if query.measures]

    def _in_order(self, query: Query) -> Query:
        """A query with the order in which its items are shown."""
        number = len(query.rows)
        if number < 2 or not self.shuffle or query.order is not None:
            return query
        return replace(query, order=shown_order(number, self.seed, query.id))

    def _items_of(self, queries: Iterable[Query]) -> Tensor:
        """The ``k x d``-dim items of some queries."""
        like = self.space.bounds
        return torch.cat([like[:0], *(query.rows.to(like) for query in queries)])

    def _recall(self, state: Mapping[str, Any], device: torch.device | None) -> None:
        """Learn the history of a state, and open its open queries."""
        for name in ("history", "open"):
            if not isinstance(state[name], list):
                raise ComparisonDataError(f"`state` {name} must be a list, not {state[name]!r}.")
        told: list[Answered] = []
        for row, entry in enumerate(state["history"]):
            with _reading(f"history row {row}"):
                stored, answer = entry
                query = self._read(stored, device)
                told.append(Answered(query, query.checked(answer)))
        self._check_items("history", [query for query, _ in told])
        for row, answered in enumerate(told):
            with _reading(f"history row {row}"):
                self._learn(answered)
            self.history.append(answered)
        for row, stored in enumerate(state["open"]):
            with _reading(f"open row {row}"):
                query = self._read(stored, device)
                if query.annotator in self._open:
                    raise ComparisonDataError(f"{query.annotator!r} has another open query.")
            self._open[query.annotator] = query
        self._check_items("open", self.open_queries)
        known = (*(done.query.id for done in self.history), *(q.id for q in self._open.values()))
        with _reading("next_id"):
            self._next_id = check_count("next_id", state["next_id"], max(known, default=-1) + 1)

    def _read(self, stored: Mapping[str, Any], device: torch.device | None) -> Query:
        """A stored query, which must be of this strategy's kinds, and as many dimensions."""
        query = self._in_order(Query.from_json(stored, device))
        if not isinstance(query, self._asks):
            known = " or ".join(f"a {kind.kind}" for kind in self._asks)
            raise ComparisonDataError(f"Query {query.id} is a {query.kind}, not {known}.")
        if query.compares and not self.asked.fits(query):
            raise ComparisonDataError(
                f"Query {query.id}, a {query.kind} of {len(query.rows)} items, is none of "
                f"`question` {getattr(self, 'question', 'duel')!r}."
            )
        if (dim := query.items.shape[-1]) != self.space.dim:
            raise ComparisonDataError(
                f"Query {query.id} has items of {dim} dimensions, but the space {self.space.dim}."
            )
        return query

    def _check_items(self, part: str, queries: Sequence[Query]) -> None:
        """Raises unless all items of a part of a state are of the space: in one go, for speed."""
        each = [(row, query) for row, query in enumerate(queries) for _ in query.rows]
        names = [f"`state` {part} row {row}: Query {query.id}" for row, query in each]
        rows = [row for query in queries for row in query.row_indices or [None] * len(query.rows)]
        rounding = self.space.bounds.new_tensor([_ROUNDING[query.items.dtype] for _, query in each])
        check_of_space(self.space, names, self._items_of(queries), rows, rounding)


@dataclass(kw_only=True, eq=False, repr=False)
class UtilityStrategy(Strategy):
    r"""Models the utility, and recommends the item of the largest posterior mean.

    A subclass has ``_pair``. All strategies take the arguments below beside their own.

    Args:
        bounds, choices, space, seed, shuffle: See :class:`~botorch_pref.strategies.Strategy`.
        question: What is asked: ``"duel"``, and of some strategies ``"best of 4"``, ``"rank 3"``
            or ``"grade 5"``, with other numbers of items or grades.
        hyperparameters: ``"evidence"`` to learn them, ``"samples"`` to average over what they may
            be, or fixed values; this and the arguments below are those of
            :class:`~botorch_pref.strategies.utility.UtilityLearner`.
        kappa: ``"laplace"``, or the papers' answer-free curvature ``1 / kappa``.
        regularizer: The penalty of the mean; on choices alone.
        likelihood: The link; logit by default.
        covar_module: A kernel, or what makes one for a number of dimensions, instead of the
            default one.
        own_utilities: Whether each person who is named has a utility of their own, that of all plus
            what is theirs.
        known: What is known before the first question: answered queries, such as the history of
            another strategy on the same dimensions.

    Attributes:
        learner: The model of the utility.
        round: The number of queries that were chosen.
        num_identical: The number of answered duels of an item with itself.

    Raises:
        ComparisonDataError: If an option is out of range; names it.
        SearchSpaceError: If the domain cannot be used.
        UnsupportedError: If an option is not for this kind of domain.
    """

    question: str = "duel"
    hyperparameters: Hyperparameters = "evidence"
    kappa: Literal["laplace"] | float = "laplace"
    regularizer: Regularizer = "rkhs"
    likelihood: BernoulliLikelihood | Mapping[str, Any] | None = None
    covar_module: KernelArgument = None
    own_utilities: bool = False
    known: Sequence[Any] = ()

    _asks: ClassVar[tuple[type[Query], ...]] = (Duel,)
    _has_one_posterior: ClassVar[bool] = True
    """Whether it asks by one posterior; else hyperparameters are no samples, people are alike, and
    nothing is known before."""
    _most_choices: ClassVar[int | None] = None
    """The number of choices above which it would take too much memory or time."""
    _may_be_sure: ClassVar[bool] = False
    """Whether hyperparameters of a judge who hardly errs are considered."""
    _may_fall: ClassVar[bool] = False
    """Whether the border of a box may be worse than its middle before any answer."""
    _entries = Strategy._entries | {
        "hyperparameters": Entry("learner.values", HYPERPARAMETERS),
        "num_fitted": Entry("learner.num_fitted", whole(most="learner.told.size")),
        "learnt": Entry("learner.effects", EFFECTS, optional=True),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        most = MOST_EXACT if self.regularizer != "rkhs" else None
        if (most := self._most_choices or most) is not None:
            check_rows(self.space, type(self).__name__, most)
        self._ask_for(self.question)
        if not self._has_one_posterior:
            given_values = self.hyperparameters
            falls = isinstance(given_values, Mapping) and "fall" in given_values
            for given, what in (
                (given_values == "samples", '`hyperparameters` "samples"'),
                (falls, '`hyperparameters` "fall"'),
                (self.own_utilities, "`own_utilities`"),
                (len(self.known), "`known` answers"),
            ):
                if given:
                    raise UnsupportedError(f"{type(self).__name__} takes no {what}.")
        self.learner = UtilityLearner(
            self.space,
            self.hyperparameters,
            self.kappa,
            self.regularizer,
            self.seed,
            self.likelihood,
            self.covar_module,
            self._may_be_sure,
            self._may_fall,
            self.own_utilities,
        )
        self.hyperparameters = self.learner.values or self.hyperparameters
        self.kappa, self.likelihood = self.learner.kappa, self.learner.likelihood
        self.num_identical = 0
        self._listed: tuple[tuple[int, int], Tensor] | None = None
        self.known = self._read_known(self.known)
        for query, answer in self.known:
            self.learner.add(query, cast(Answer, answer))

    def _check_known(self, query: Query) -> None:
        if not query.compares:
            raise ComparisonDataError("it is no answer that compares items.")
        if isinstance(query, Grade) and self.hyperparameters == "samples":
            raise ComparisonDataError('a grade needs `hyperparameters` "evidence".')

    def _known_rows(self, items: Tensor) -> Any:
        # People of their own utilities may have known other items.
        return None if self.own_utilities else super()._known_rows(items)

    def _ask_for(self, question: str) -> None:
        super()._ask_for(question)
        if self.asked.num_grades and self.hyperparameters == "samples":
            raise UnsupportedError(
                f'`question` {self.question!r} has no `hyperparameters` "samples": bounds between '
                "grades are learnt by evidence."
            )
        if self.asked.kind is not Duel and (self.kappa != "laplace" or self.regularizer != "rkhs"):
            raise UnsupportedError(
                f"`question` {self.question!r} has no `kappa` or `regularizer`: these are of duels."
            )

    def recommend(self, annotator: str | None = None) -> Tensor:
        r"""The ``d``-dim item of the largest posterior mean, of all or of one person.

        Args:
            annotator: Whose favourite is meant, with ``own_utilities``.

        Raises:
            ComparisonDataError: On a box, if nothing was asked; or nobody of that name answered.
            UnsupportedError: If people have no utilities of their own.
        """
        if annotator is not None and annotator != self.learner.target:
            return self._recommend_to(annotator)
        if self.space.choices is not None:
            return self.space.choices[self.recommend_index()]
        if not self.history and not self.known:
            raise ComparisonDataError("Nothing was answered yet, so nothing is recommended.")
        return self._recommend_on_a_box()

    def _recommend_to(self, annotator: str) -> Tensor:
        """The favourite of one person."""
        model = self.learner.model_of(annotator)
        if self.space.choices is not None:
            return self.space.table[self._best_row(model.marginals(self.space.table)[0])]
        seed = derive_seed(self.seed, "recommend", self.num_answers, annotator)
        return self._best_item(mean_rule(model.posterior_mean), seed)

    def recommend_index(self) -> int:
        return self._best_row(self.learner.mean())

    def _recommend_on_a_box(self) -> Tensor:
        """The recommended item of a box, after something was asked."""
        model = self.learner.model()
        if not model.num_observations:  # all items have the same mean
            return self.history[0].query.items[0].to(self.space.bounds)
        seed = derive_seed(self.seed, "recommend", self.num_answers)
        return self._best_item(mean_rule(model.posterior_mean), seed)

    @property
    def annotators(self) -> pd.DataFrame:
        """What the people who answered differ in; see ``PreferenceGP.annotators``.

        Raises:
            ComparisonDataError: If fewer than two people were named.
        """
        table = self.learner.model().annotators
        return table.rename(index=dict(enumerate(self.learner.people)))

    @abstractmethod
    def _pair(self, annotator: str | None) -> Pair:
        """The items of the query of round ``self.round``."""

    def _choose(self, query_id: int, annotator: str | None) -> Query:
        self._refit()
        self.round += 1
        items, rows = self._pair(annotator)
        return self.asked.query(query_id, items, rows, annotator)

    def _refit(self) -> None:
        """Learn hyperparameters again, if it is time to."""
        self.learner.refit()

    def _learn(self, answered: Answered) -> None:
        query, answer = answered
        if answer is not None and not self.learner.add(query, answer):
            self.num_identical += 1

    def _restore(self, progress: dict[str, Any]) -> None:
        if "annotators" in progress:  # as version 2 has it
            of_people = progress["annotators"].items()
            before = {f"{PEOPLE}.{name}": value for name, value in of_people}
            rest = {name: one for name, one in progress.items() if name != "annotators"}
            progress = {"learnt": before, **rest}
        super()._restore(progress)

    def _model(self) -> PreferenceGP:
        """The model on a box, with open duels answered as it expects."""
        return self.learner.model(self._expected())

    def _posterior(self, pending: bool = True) -> TablePosterior:
        """The posterior of the table, with open duels answered as it expects if these count."""
        return self.learner.posterior(self._expected() if pending else (), self._shortlist())

    def _expected(self) -> list[Answered]:
        """Open queries with the answers that the model expects."""
        return expected_answers(self._open.values(), self.learner.utilities)

    def _shortlist(self) -> Tensor | None:
        """Sorted rows of the choices that are compared with each other; None for all."""
        if not self.space.is_large:
            return None
        key = self._next_id, len(self.history)
        if self._listed is None or self._listed[0] != key:
            seed = derive_seed(self.seed, "table", self._next_id)
            found = shortlist(self.learner.model(), self.space.table, seed)
            recent = (*self._barred_duels(), *(done.query for done in self.history[-_ASKED:]))
            known = [row for query in recent for row in query.row_indices or ()]
            self._listed = key, torch.cat([found, found.new_tensor(known)]).unique()
        return self._listed[1]

    @property
    def _table(self) -> Tensor:
        """The ``n x d``-dim choices that are compared: all, or of very many a short list."""
        rows = self._shortlist()
        return self.space.table if rows is None else self.space.table[rows]

    def _seed(self, stream: str, annotator: str | None = None) -> int:
        """The seed of a draw of this round."""
        return derive_seed(self.seed, stream, self.round, annotator)

    def _last(self) -> Query | None:
        """The query chosen last, answered or not."""
        for query in (*self._open.values(), *(done.query for done in reversed(self.history))):
            if query.id == self._next_id - 1:
                return query
        return None

    def _rows(self, *rows: int) -> Pair:
        """Rows of the table, as the choices have them."""
        listed = self._shortlist()
        return self._choices(*(rows if listed is None else listed[[*rows]].tolist()))

    def _place(self, row: int) -> int:
        """Where a row of the choices that was asked stands in the table."""
        listed = self._shortlist()
        return row if listed is None else int(torch.searchsorted(listed, row))

    def _choices(self, *rows: int) -> Pair:
        """Rows of the choices."""
        return self.space.table[[*rows]], rows

    def _best_row(self, values: Tensor, stream: str = "tie") -> int:
        """The row of the largest of ``n`` values, ties broken by this round's seed."""
        generator = torch.Generator().manual_seed(self._seed(stream))
        noise = torch.rand(len(values), generator=generator, dtype=torch.double)
        return int(argmax_with_random_ties(values, noise))

    def _best_item(
        self,
        rule: AcquisitionFunction,
        seed: int,
        avoid: Tensor | None = None,
        options: dict[str, Any] | None = None,
    ) -> Tensor:
        """Where a rule over a box is largest, away from ``k x d`` items; see :func:`next_best`."""
        starts = self.asked_items().unsqueeze(-2)
        found = self.space.maximize(rule, seed=seed, starts=starts, options=options)
        if avoid is not None:
            found = next_best(found, self.space, rule, seed, avoid)
        return found.items[0]

    def _best_mean(self, model: PreferenceGP, stream: str) -> Tensor:
        """The maximiser of the posterior mean over a box; before any answer, any item."""
        seed = self._seed(stream)
        if not model.num_observations:
            return self.space.sample(1, seed)[0]
        return self._best_item(mean_rule(model.posterior_mean), seed)

    def _items_to_compare(self, model: PreferenceGP, generator: Generator) -> Tensor:
        """``n x d``-dim items of a box that may be the best; see :meth:`_opposite_rows`."""
        sample = self.space.sample(_SPREAD, self._seed("table"))
        if not model.num_observations:
            return sample
        best = self._best_mean(model, "optimizer")
        # In many dimensions nothing else is between two far items, where answers about them count.
        per_line = len(_STEPS) if self.space.dim > _FEW else 1
        lines = torch.randn(
            _AROUND // (2 * per_line), self.space.dim, generator=generator, dtype=torch.double
        )
        lengths = torch.tensor(_STEPS).double().repeat(_AROUND // (2 * len(_STEPS))).unsqueeze(-1)
        steps = lines.repeat_interleave(per_line, dim=0) * lengths
        steps = torch.cat([steps, -steps])
        near = self.space.near(best.expand(_AROUND, -1), steps.to(best), 1.0)
        if discrete := [*self.space.parameters.discrete]:
            # Small steps leave whole numbers and categories as they are.
            mixed = near.clone()
            mixed[::2, discrete] = sample[: len(mixed[::2]), discrete]
            near = torch.where(self.space.contains(mixed).unsqueeze(-1), mixed, near)
        return torch.cat([sample, near, best.unsqueeze(0), self.asked_items()[-_ASKED:]])

    @staticmethod
    def _opposite_rows(items: Tensor) -> Tensor:
        """``P x 2``-dim rows of items to compare that lie on opposite sides of the best one."""
        rows = _SPREAD + torch.arange(_AROUND, device=items.device)
        return rows.view(2, -1).mT if len(items) > _SPREAD else rows.new_empty(0, 2)

    def _with_more(
        self, rows: list[int], items: Tensor, mean: Tensor, covariance: Tensor
    ) -> list[int]:
        """Rows of a table, with further ones of a larger question; see :func:`with_more`."""
        seed = self._seed("more items")
        return with_more(rows, self.asked.num_items, self.space, items, mean, covariance, seed)

    def _opponent(self, rule: AcquisitionFunction, first: Tensor, seed: int) -> Tensor:
        """Where a rule over a box is largest, but for the first arm and barred duels with it."""
        return self._best_item(rule, seed, self._taken(first))

    def _same(self, items: Tensor, other: Tensor) -> Tensor:
        """Which of ``... x d`` items a person could not tell from another."""
        return same_item(self.space, items, other)

    def _equal_rows(self, row: int) -> Tensor:
        """Which of the table are that in a row, or equal to it, unless all are."""
        same = (self._table == self._table[row]).all(-1)
        return same if not bool(same.all()) else torch.arange(len(same), device=same.device) == row

    def _barred_duels(self) -> list[Query]:
        """The open queries, and those skipped since the last answer, which are not asked now.

        A rule that follows from the answers alone would choose a skipped one again. Of a larger
        question the first two items are not asked together.
        """
        skipped = takewhile(lambda done: done.answer is None, reversed(self.history))
        return [*self._open.values(), *(done.query for done in skipped)]

    def _barred_rows(self) -> set[tuple[int, int]]:
        """The rows of the choices in barred duels, in either order."""
        rows = [duel.row_indices[:2] for duel in self._barred_duels() if duel.row_indices]
        return {pair for first, second in rows for pair in ((first, second), (second, first))}

    def _barred_table(self) -> Tensor:
        """Which of all ``n x n`` pairs of the table are barred, in either order."""
        size = len(self._table)
        barred = torch.zeros(size, size, dtype=torch.bool)
        for first, second in self._barred_rows():
            barred[self._place(first), self._place(second)] = True
        return barred.to(self.space.table.device)

    def _unbarred(self, values: Tensor, rows: int | slice) -> Tensor:
        """Some rows of a table of pairs, without those that are barred if others are left."""
        return masked(values, self._barred_table()[rows]) if self._barred_duels() else values

    def _taken(self, first: Tensor) -> Tensor:
        """An item and its opponents in barred duels, ``k x d``-dim."""
        taken = [first]
        for duel in self._barred_duels():
            items = duel.items.to(first)
            taken += [items[1 - arm] for arm in (0, 1) if self._same(items[arm], first)]
        return torch.stack(taken)


@torch.no_grad()
def expected_answers(
    queries: Iterable[Query], utilities: Callable[[Query], Tensor]
) -> list[Answered]:
    """Pending queries, with the answers that a model expects, which predicts their utilities.

    The "kriging believer" of Ginsbourger, Le Riche and Carraro (2010): a strategy learns the
    expected answers to open queries in a copy of its model before it chooses the next query. That
    to an evaluation is the value; to any other the most likely answer, or no preference where
    that is an answer and all others are as likely.
    """
    answered = []
    for query in queries:
        values = utilities(query)
        if query.measures:
            answered.append(Answered(query, float(values)))
            continue
        chances = query.probabilities(values, torch.sigmoid)
        best = max(chances, key=chances.__getitem__)
        even = min(chances.values()) >= chances[best] - _NO_DIFFERENCE
        answered.append(Answered(query, 0.5 if even and 0.5 in (query.answers or ()) else best))
    return answered


def with_more(
    rows: list[int],
    number: int,
    space: SearchSpace,
    items: Tensor,
    mean: Tensor,
    covariance: Tensor,
    seed: int,
) -> list[int]:
    """Rows of a table, with further ones up to a number.

    Each of these lets the expected utility of the best of all grow most (EUBO).
    """
    if len(rows) == number:
        return rows
    generator = torch.Generator().manual_seed(seed)
    draws = joint_draws(mean, covariance, _DRAWS, generator)
    while len(rows) < number:
        gains = (draws - draws[:, rows].amax(-1, keepdim=True)).clamp_min(0.0).mean(0)
        others = items.unsqueeze(-2), items[rows]
        is_box = space.choices is None
        taken = same_item(space, *others) if is_box else (others[0] == others[1]).all(-1)
        rows = [*rows, int(gains.masked_fill(taken.any(-1), -1.0).argmax())]
    return rows


def same_item(space: SearchSpace, items: Tensor, other: Tensor) -> Tensor:
    """Which of ``... x d`` items a person could not tell from another."""
    gap = space.normalize(items) - space.normalize(other)
    return gap.abs().amax(-1) <= _SAME_ITEM


def check_of_space(
    space: SearchSpace,
    names: Sequence[str],
    items: Tensor,
    rows: Sequence[Any],
    rounding: Tensor,
) -> None:
    """Raises unless all ``k x d``-dim items are of a space, and of their rows of the choices.

    Of a box they may be outside by a ``k``-dim share of its ranges. Errors begin with their names.
    """
    choices = space.choices
    for name, row in zip(names, rows, strict=True):
        if choices is None and row is not None:
            raise ComparisonDataError(f"{name} has the row {row!r}, but there are no choices.")
        if choices is not None and (type(row) is not int or not 0 <= row < len(choices)):
            raise ComparisonDataError(f"{name} has the row {row!r} of {len(choices)} choices.")
    if choices is None:
        rounded = space.parameters.rounded(items)
        near = (items - rounded).abs() <= rounding.unsqueeze(-1) * (
            space.bounds[1] - space.bounds[0]
        )
        good, why = near.all(-1) & space.contains(rounded), "which is outside the search space"
    else:
        good = (choices[list(rows)] == items).all(-1)
        why = "which is not that of its row of `choices`"
    if not bool(good.all()):
        first = int(good.int().argmin())
        raise ComparisonDataError(f"{names[first]} has the item {items[first].tolist()}, {why}.")


@torch.no_grad()
def next_best(
    found: Maximum,
    space: SearchSpace,
    rule: AcquisitionFunction,
    seed: int,
    avoid: Tensor,
    feasible: Feasible | None = None,
) -> Maximum:
    """What a search found, or the next best item where that one is to be avoided.

    That is the best of the choices, or of a sample of the box and of items near what was found,
    which is neither one of ``k x d`` items to avoid nor of negative slack (``feasible``). Where
    there is none the first of the items alone is avoided, and what was found is the last resort.
    """
    if not len(avoid) or not bool(same_item(space, found.items[0], avoid).any()):
        return found
    items = space.choices
    if items is None:  # near what was found, as a narrow constraint leaves little else
        generator = torch.Generator().manual_seed(seed)
        steps = torch.randn(_NEARBY, space.dim, generator=generator, dtype=torch.double)
        around = found.items[:1].expand(_NEARBY, space.dim)
        near = [space.near(around, steps.to(around), scale) for scale in _SCALES]
        items = torch.cat([space.sample(_SAMPLE, seed), *near])
    same = same_item(space, items.unsqueeze(-2), avoid)
    outside = torch.zeros_like(same[:, 0]) if feasible is None else feasible(items) < 0.0
    barred = same.any(-1) | outside
    if bool(barred.all()):
        barred = same[:, 0] | outside
    if bool(barred.all()):
        return found
    values = torch.cat([rule(part.unsqueeze(-2)) for part in items.split(_CHUNK)])
    row = int(values.masked_fill(barred, -torch.inf).argmax())
    return Maximum(items[row : row + 1], values[row], None if space.choices is None else (row,))


def _option_names(kind: type) -> list[str]:
    """The arguments of a constructor and of those that it passes keywords on to, but the domain."""
    names: dict[str, None] = {}
    for base in kind.__mro__:
        if "__init__" not in vars(base):
            continue
        _, *parameters = inspect.signature(vars(base)["__init__"]).parameters.values()
        named = (p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))
        names |= dict.fromkeys(name for name in named if name not in _NO_OPTIONS)
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return list(names)


def _to_json(value: Any) -> Any:
    """An option as plain JSON."""
    if isinstance(value, BernoulliLikelihood):
        return likelihood_to_json(value)
    if isinstance(value, Kernel) or callable(value):
        return getattr(value, "__name__", type(value).__name__)
    if isinstance(value, tuple) and all(isinstance(one, Answered) for one in value):
        return [one.to_json() for one in value]
    if hasattr(value, "_asdict"):
        value = value._asdict()
    return dict(value) if isinstance(value, Mapping) else plain(value)


@contextmanager
def _reading(part: str, argument: str = "state") -> Iterator[None]:
    """Errors of the block say of which part of a state they are, whatever they were."""
    try:
        yield
    except BotorchError as error:
        raise ComparisonDataError(f"`{argument}` {part}: {error}") from error
    except (
        *(ArithmeticError, AttributeError, LookupError, MemoryError),
        *(RuntimeError, TypeError, ValueError),  # of them RecursionError
    ) as error:
        raise ComparisonDataError(f"`{argument}` {part} cannot be read: {error!r}.") from error
