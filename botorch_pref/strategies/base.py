r"""What all strategies share: ask, tell, recommend, pending queries, and a state of plain JSON."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from types import FunctionType
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

import torch
from botorch.acquisition import AcquisitionFunction
from gpytorch.kernels import Kernel
from torch import Tensor

from botorch_pref.data.checks import (
    check_count,
    checked_seed,
    endless_from_json,
    endless_to_json,
    plain,
)
from botorch_pref.exceptions import ComparisonDataError, SearchSpaceError, StaleQueryError
from botorch_pref.likelihoods import BernoulliLikelihood, LogitLikelihood
from botorch_pref.queries import Evaluate, Query
from botorch_pref.space.maximize import Feasible
from botorch_pref.space.search_space import Maximum, SearchSpace

STATE_VERSION = 1
KernelArgument: TypeAlias = Kernel | Callable[[int], Kernel] | None
"""A caller's kernel, or what makes one for a number of dimensions; ``None`` for the default."""

_STATE_KEYS = {"space", "seed", "options", "history", "open", "next_id", "progress"}
_COUNTS = {"round", "num_fitted", "num_deadlocks", "streak"}
_NO_DIFFERENCE = 1e-9
_SAME_ITEM = 1e-3  # of the range of every dimension of a box
_SAMPLE, _CHUNK = 1024, 256
_NEARBY, _SCALES = 128, (0.01, 0.1)  # of the range of every dimension of a box


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

    A subclass has ``_choose`` and ``_learn``, and keeps every keyword argument of its constructor
    in an attribute of that name, from which its state is written.

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
            before = self.round
            try:
                with torch.inference_mode(False):
                    self._open[annotator] = self._choose(self._next_id, annotator)
            except BaseException:
                self.round = before
                raise
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
        return self._items_of(answered.query for answered in self.history)

    def pending_items(self) -> Tensor:
        """The ``k x d``-dim items of all open queries."""
        return self._items_of(self._open.values())

    @abstractmethod
    def recommend(self) -> Tensor:
        """The ``d``-dim best item so far."""

    @abstractmethod
    def recommend_index(self) -> int:
        """Its row in the choices.

        Raises:
            SearchSpaceError: If the space is a box.
        """

    def state_dict(self) -> dict[str, Any]:
        r"""Everything needed to go on, as plain JSON; floats are read back exactly.

        Of a kernel that the caller gave it has the type and the parameters that were learnt.
        """
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
    def from_state_dict(
        cls,
        state: dict[str, Any],
        device: torch.device | None = None,
        *,
        covar_module: KernelArgument = None,
    ) -> Self:
        r"""The strategy that :meth:`state_dict` was taken of.

        Args:
            state: What :meth:`state_dict` returned, possibly written as JSON in between.
            device: Where it computes; on the CPU by default.
            covar_module: The caller's kernel, if the strategy was given one: JSON cannot hold it.

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
        with _reading("space"):
            space = SearchSpace.from_state_dict(state["space"], device)
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
            for name in _COUNTS & state["progress"].keys():
                check_count(name, state["progress"][name], 0)
            strategy._restore(state["progress"])
        return strategy

    def with_state(self, state: dict[str, Any]) -> Self:
        """Another strategy of this class, device and kernel, from a state of its own."""
        kernel = getattr(self, "covar_module", None)
        return type(self).from_state_dict(state, self.space.bounds.device, covar_module=kernel)

    @abstractmethod
    def _choose(self, query_id: int, annotator: str | None) -> Query:
        """A new query."""

    @abstractmethod
    def _learn(self, answered: Answered) -> None:
        """Add an answer to the data."""

    def _options(self) -> dict[str, Any]:
        """The constructor's keyword arguments but the seed, as plain JSON."""
        names = (name for name in _keyword_arguments(type(self)) if name != "seed")
        return endless_to_json({name: _to_json(getattr(self, name)) for name in names})

    def _progress(self) -> dict[str, Any]:
        """What the next query depends on beside options and history, as plain JSON."""
        return {"round": self.round}

    def _restore(self, progress: dict[str, Any]) -> None:
        """Put back what :meth:`_progress` returned; history is in place."""
        self.round = progress["round"]

    def _unmeasured(self) -> list[Evaluate]:
        """What others are measuring, and what could not be measured: skipped evaluations."""
        skipped = (answered.query for answered in self.history if answered.answer is None)
        queries = (*self._open.values(), *skipped)
        return [query for query in queries if isinstance(query, Evaluate)]

    def _items_of(self, queries: Iterable[Query]) -> Tensor:
        """The ``k x d``-dim items of some queries."""
        like = self.space.bounds
        return torch.cat([like[:0], *(query.rows.to(like) for query in queries)])

    def _recall(self, state: Mapping[str, Any], device: torch.device | None) -> None:
        """Learn the history of a state, and open its open queries."""
        for row, entry in enumerate(_checked_list("history", state["history"])):
            with _reading(f"history row {row}"):
                stored, answer = entry
                query = self._read(stored, device)
                answered = Answered(query, query.checked(answer))
                self._learn(answered)
            self.history.append(answered)
        for row, stored in enumerate(_checked_list("open", state["open"])):
            with _reading(f"open row {row}"):
                query = self._read(stored, device)
                if query.annotator in self._open:
                    raise ComparisonDataError(f"{query.annotator!r} has another open query.")
            self._open[query.annotator] = query
        known = (*(done.query.id for done in self.history), *(q.id for q in self._open.values()))
        next_id, least = state["next_id"], max(known, default=-1) + 1
        if not isinstance(next_id, int) or isinstance(next_id, bool) or next_id < least:
            raise ComparisonDataError(
                f"`state` next_id must be a whole number, at least {least}, not {next_id!r}."
            )
        self._next_id = next_id

    def _read(self, stored: Mapping[str, Any], device: torch.device | None) -> Query:
        """A stored query, which must be of this strategy's kinds, and of its space."""
        query = Query.from_json(stored, device)
        if not isinstance(query, self._asks):
            known = " or ".join(f"a {kind.kind}" for kind in self._asks)
            raise ComparisonDataError(f"Query {query.id} is a {query.kind}, not {known}.")
        if (dim := query.items.shape[-1]) != self.space.dim:
            raise ComparisonDataError(
                f"Query {query.id} has items of {dim} dimensions, but the space {self.space.dim}."
            )
        choices, rows = self.space.choices, query.row_indices
        if choices is not None and rows is not None and max(rows) >= len(choices):
            raise ComparisonDataError(
                f"Query {query.id} is of rows {rows}, but there are {len(choices)} choices."
            )
        return query


@torch.no_grad()
def expected_answers(
    queries: Iterable[Query], utility: Callable[[Query], Tensor]
) -> list[Answered]:
    r"""Pending queries, answered as a prediction of the utility has it.

    The "kriging believer" of Ginsbourger, Le Riche and Carraro (2010): a query that others have
    not answered yet is taken to be answered as it is expected to be. A strategy learns these
    answers in a copy of its model before it chooses the next query.

    Args:
        queries: The queries.
        utility: Predicts the ``k``-dim utilities of a query's ``k`` items.

    Returns:
        The queries with their answers: of an evaluation the value, of any other the most likely
        answer, or no preference where that is an answer and all others are as likely.
    """
    answered = []
    for query in queries:
        values = utility(query)
        if query.measures:
            answered.append(Answered(query, float(values)))
            continue
        chances = query.probabilities(values, torch.sigmoid)
        best = max(chances, key=chances.__getitem__)
        even = min(chances.values()) >= chances[best] - _NO_DIFFERENCE
        answered.append(Answered(query, 0.5 if even and 0.5 in (query.answers or ()) else best))
    return answered


def own_kernel(covar_module: KernelArgument, space: SearchSpace) -> Kernel | None:
    """A copy of a caller's kernel, of the type and on the device of the space."""
    if covar_module is None:
        return None
    kernel: object = deepcopy(covar_module)
    if not isinstance(kernel, Kernel) and callable(kernel):
        kernel = kernel(space.num_features)
    if not isinstance(kernel, Kernel):
        raise ComparisonDataError(
            f"`covar_module` must be a kernel, or make one of a number of dimensions, not "
            f"{covar_module!r}."
        )
    return kernel.to(space.bounds)


def as_likelihood(
    likelihood: BernoulliLikelihood | Mapping[str, Any] | None,
) -> BernoulliLikelihood:
    r"""A link; logit by default.

    Args:
        likelihood: A link of :mod:`botorch_pref.likelihoods`, or as a state has it:
            ``{"link": "logit" | "probit", "scale": float}``.

    Raises:
        ComparisonDataError: If it is neither.
    """
    if likelihood is None:
        return LogitLikelihood()
    if isinstance(likelihood, BernoulliLikelihood):
        return likelihood
    links = {_link_name(kind): kind for kind in BernoulliLikelihood.__subclasses__()}
    if isinstance(likelihood, Mapping) and likelihood.get("link") in links:
        return links[likelihood["link"]](float(likelihood["scale"]))
    raise ComparisonDataError(
        f"`likelihood` must be a link, such as LogitLikelihood(), not {likelihood!r}."
    )


def same_item(space: SearchSpace, items: Tensor, other: Tensor) -> Tensor:
    """Which of ``... x d`` items a person could not tell from another."""
    gap = space.normalize(items) - space.normalize(other)
    return gap.abs().amax(-1) <= _SAME_ITEM


@torch.no_grad()
def best_of_sample(
    space: SearchSpace, rule: AcquisitionFunction, seed: int, asked: Tensor, avoid: Tensor
) -> Tensor:
    r"""Where a rule is largest on a sample, away from some items.

    Args:
        space: A box.
        rule: The rule; takes ``b x 1 x d``.
        seed: Of the sample.
        asked: ``n x d``-dim further items that may be taken.
        avoid: ``k x d``-dim items that a person could not tell the result from, if there is
            any other; else the first of them alone.

    Returns:
        The ``d``-dim item.
    """
    items = torch.cat([space.sample(_SAMPLE, seed), asked])
    values = rule(items.unsqueeze(-2))
    near = same_item(space, items.unsqueeze(-2), avoid)
    barred = near.any(-1)
    if bool(barred.all()):
        barred = near[:, 0]
    return items[int(values.masked_fill(barred, -torch.inf).argmax())]


@torch.no_grad()
def next_best(
    found: Maximum,
    space: SearchSpace,
    rule: AcquisitionFunction,
    seed: int,
    avoid: Tensor,
    feasible: Feasible | None = None,
) -> Maximum:
    r"""What a search found, or the next best item where that one is to be avoided.

    Args:
        found: One item.
        space: The domain.
        rule: The rule; takes ``b x 1 x d``.
        seed: Of the sample of a box.
        avoid: ``k x d``-dim items.
        feasible: The slack of items, if they are constrained.

    Returns:
        The best of the choices, or of a sample of the box and of items near what was found,
        that is not to be avoided; what was found where there is none.
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
    barred = same_item(space, items.unsqueeze(-2), avoid).any(-1)
    if feasible is not None:
        barred = barred | (feasible(items) < 0.0)
    if bool(barred.all()):
        return found
    values = torch.cat([rule(part.unsqueeze(-2)) for part in items.split(_CHUNK)])
    row = int(values.masked_fill(barred, -torch.inf).argmax())
    return Maximum(items[row : row + 1], values[row], None if space.choices is None else (row,))


def _keyword_arguments(kind: type) -> list[str]:
    """The keyword arguments of a constructor, with those that it passes on to its bases'."""
    names: dict[str, None] = {}
    for base in kind.__mro__:
        if "__init__" not in vars(base):
            continue
        parameters = inspect.signature(vars(base)["__init__"]).parameters.values()
        names |= dict.fromkeys(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return list(names)


def _to_json(value: Any) -> Any:
    """An option as plain JSON."""
    if isinstance(value, BernoulliLikelihood):
        return {"link": _link_name(type(value)), "scale": value.scale}
    if isinstance(value, Kernel) or callable(value):
        return getattr(value, "__name__", type(value).__name__)
    if hasattr(value, "_asdict"):
        value = value._asdict()
    return dict(value) if isinstance(value, Mapping) else plain(value)


def _link_name(kind: type[BernoulliLikelihood]) -> str:
    return kind.__name__.removesuffix("Likelihood").lower()


def _checked_list(name: str, rows: object) -> list[Any]:
    """An entry of a state that has rows."""
    if not isinstance(rows, list):
        raise ComparisonDataError(f"`state` {name} must be a list, not {rows!r}.")
    return rows


@contextmanager
def _reading(part: str) -> Iterator[None]:
    """Errors of the block say of which part of a state they are, whatever they were."""
    try:
        yield
    except (ComparisonDataError, SearchSpaceError) as error:
        raise ComparisonDataError(f"`state` {part}: {error}") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ComparisonDataError(f"`state` {part} cannot be read: {error!r}.") from error
