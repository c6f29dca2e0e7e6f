r"""What a study is made of, checked, and as entries of its file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Self

import torch
from botorch.exceptions.errors import BotorchError

from botorch_pref.exceptions import StudyError
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import Strategy
from botorch_pref.strategies.registry import strategy_class
from botorch_pref.study.dimensions import Dimension, check_columns, dimensions_of
from botorch_pref.study.rewind import Rewind
from botorch_pref.study.stopping import StoppingRule

# Entries of a strategy's state that answers do not change, and the history, which only grows.
_LASTING = {"strategy", "version", "space", "seed", "options", "history"}


@dataclass(frozen=True)
class Content:
    r"""A strategy, and what a study keeps beside it.

    Attributes:
        strategy: The strategy.
        dimensions: Name and unit of each dimension of an item.
        description: What the study is about.
        created: When it was, ISO 8601.
        told: When each answer was told, likewise.
        rewind: What the strategy was before each answer.
        stopping: When enough is asked.
    """

    strategy: Strategy
    dimensions: tuple[Dimension, ...]
    description: str
    created: str
    told: tuple[str, ...]
    rewind: Rewind
    stopping: StoppingRule

    @classmethod
    def new(
        cls,
        space: SearchSpace,
        strategy: Strategy | Callable[..., Strategy],
        names: Sequence[str] | None,
        description: str,
        levels: Mapping[str, Sequence[str]] | None,
        stopping: StoppingRule,
    ) -> Self:
        """The content of a study that begins; for the arguments see ``Study.create``."""
        strategy = _checked_strategy(space, strategy)
        if not isinstance(description, str):
            raise StudyError(f"`description` must be a text, not {description!r}.")
        if not isinstance(stopping, StoppingRule):
            raise StudyError(f"`stopping` must be a StoppingRule, not {stopping!r}.")
        dimensions = dimensions_of(names, space, levels)
        check_columns(dimensions)
        return cls(strategy, dimensions, description, _now(), (), Rewind(), stopping)

    def with_answer(self, before: dict[str, Any]) -> Self:
        """After the strategy, whose state was ``before``, was told an answer."""
        rewind = self.rewind.push(_changing(before))
        return replace(self, told=(*self.told, _now()), rewind=rewind)

    def without_last_answer(self) -> Self:
        """With another strategy, as this one was before its last answer."""
        before, rewind = self.rewind.pop()
        state = snapshot(self.strategy)
        state |= {**before, "history": state["history"][:-1]}
        device = self.strategy.space.bounds.device
        strategy = type(self.strategy).from_state_dict(state, device)
        return replace(self, strategy=strategy, told=self.told[:-1], rewind=rewind)

    def to_json(self) -> dict[str, Any]:
        """The entries of the file."""
        state = snapshot(self.strategy)
        return {
            "description": self.description,
            "created": self.created,
            "dimensions": [dimension._asdict() for dimension in self.dimensions],
            "strategy": state,
            "told": self.told,
            "rewind": self.rewind.to_json(_changing(state)),
            "stopping": self.stopping.to_json(),
        }

    @classmethod
    def from_json(cls, entries: dict[str, Any], device: torch.device | None = None) -> Self:
        r"""Reads what :meth:`to_json` wrote.

        Args:
            entries: Each of its own type.
            device: Where the strategy computes; on the CPU by default.

        Raises:
            StudyError: If something within an entry is wrong; says what.
        """
        state, told, rewind = entries["strategy"], entries["told"], entries["rewind"]
        try:
            strategy = strategy_class(state["strategy"]).from_state_dict(state, device)
            if not len(strategy.history) == len(told) == len(rewind):
                raise StudyError("it has not one time and one state before for every answer")
            [datetime.fromisoformat(time) for time in told]
            dimensions = [Dimension(**entry) for entry in entries["dimensions"]]
            levels = {one.name: one.levels for one in dimensions if one.levels}
            return cls(
                strategy,
                dimensions_of([one.label for one in dimensions], strategy.space, levels),
                entries["description"],
                entries["created"],
                tuple(told),
                Rewind(rewind, _changing(state)),
                StoppingRule.from_json(entries["stopping"]),
            )
        except BotorchError as error:
            raise StudyError(str(error)) from error
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise StudyError(f"an entry is wrong ({error!r})") from error


def snapshot(strategy: Strategy) -> dict[str, Any]:
    """A strategy's state as it is read from a file, which nothing that follows can change."""
    state: dict[str, Any] = json.loads(json.dumps(strategy.state_dict()))
    return state


def _checked_strategy(space: SearchSpace, strategy: Strategy | Callable[..., Strategy]) -> Strategy:
    if not isinstance(space, SearchSpace):
        raise StudyError(f"`space` must be a SearchSpace, not {space!r}.")
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


def _changing(state: dict[str, Any]) -> dict[str, Any]:
    """The entries of a strategy's state that an answer changes, but for the history."""
    return {name: value for name, value in state.items() if name not in _LASTING}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
