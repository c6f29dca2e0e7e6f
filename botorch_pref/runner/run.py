r"""One run of an experiment: one strategy under one seed, on one thread."""

from __future__ import annotations

import inspect
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd
import torch
from botorch.exceptions.errors import BotorchError
from threadpoolctl import threadpool_limits

from botorch_pref.problems.base import PreferenceProblem
from botorch_pref.randomness import derive_seed
from botorch_pref.runner.simulation import History, Judge, Record, simulate
from botorch_pref.space.search_space import SearchSpace

StrategyFactory = Callable[..., Any]
JudgeFactory = Callable[..., Judge]
ProblemFactory = Callable[[int], PreferenceProblem]

# The number of threads and the generators that BoTorch's optimizers draw from belong to the
# process, so runs in threads of one process take turns.
_TURN = threading.RLock()


class RunError(BotorchError, RuntimeError):
    """A run that failed; names strategy and seed."""


@dataclass(frozen=True)
class Run:
    """One run of an experiment; for the fields see :func:`~botorch_pref.runner.run_experiment`."""

    problem: PreferenceProblem | ProblemFactory
    strategy: str
    factory: StrategyFactory
    seed: int
    horizon: int
    recommend_every: int
    judge: JudgeFactory
    evaluations: int | None = None
    record: Record | None = None

    def simulate(self) -> pd.DataFrame:
        """The table of the history, with names and seed; a ``RunError`` if anything raised."""
        try:
            with _TURN, num_threads():
                history = self._history()
        except Exception as error:
            # A new error, as not every other one can be sent from process to process.
            raise RunError(
                f"strategy {self.strategy!r}, seed {self.seed}: {type(error).__name__}: {error}"
            ) from error
        table = history.table
        table.insert(0, "problem", history.problem)
        table.insert(1, "strategy", self.strategy)
        table.insert(2, "seed", self.seed)
        return table

    def _history(self) -> History:
        problem = self.problem
        if not isinstance(problem, PreferenceProblem):
            problem = problem(self.seed)
        # Labels and draws are seeded apart, labels alike for all strategies.
        judge = self.judge(problem, seed=derive_seed(self.seed, "judge", 0))
        seed = derive_seed(self.seed, "strategy", 0)
        return simulate(
            build_strategy(self.factory, problem, seed, self.horizon),
            problem,
            judge,
            self.horizon,
            progress=False,
            recommend_every=self.recommend_every,
            name=self.strategy,
            evaluations=self.evaluations,
            record=self.record,
            random_regret=math.nan,  # which is not in the table
        )


@contextmanager
def num_threads(threads: int = 1) -> Iterator[None]:
    """Compute on so many threads inside the block, NumPy and SciPy on one.

    On one thread sums always have the same order.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with threadpool_limits(limits=1, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(before)


def build_strategy(
    factory: StrategyFactory, problem: PreferenceProblem, seed: int, horizon: int
) -> Any:
    """Make a strategy for a problem, of a class, an alternative constructor or any callable.

    A factory gets those of ``space``, ``seed`` and ``horizon`` that it takes by name and that a
    partial has not set; no ``space`` beside ``bounds`` or ``choices`` of its own. A function that
    names a ``problem`` gets it as well: what it knows of the utility is for it to use fairly.
    """
    given = {"seed": seed, "horizon": horizon}
    options: dict[str, Any] = {name: x for name, x in given.items() if _takes(factory, name)}
    bound = unwrapped(factory)[1]
    if _takes(factory, "space") and not {"bounds", "choices"} & bound:
        options["space"] = SearchSpace(problem.bounds, problem.choices)
    if "problem" in inspect.signature(factory).parameters and "problem" not in bound:
        options["problem"] = problem
    return factory(**options)


def unwrapped(factory: StrategyFactory) -> tuple[Callable[..., Any], set[str]]:
    """What a partial calls, and the arguments that it sets."""
    if not isinstance(factory, partial):
        return factory, set()
    bound = inspect.signature(factory.func).bind_partial(*factory.args, **factory.keywords)
    return factory.func, bound.arguments.keys() | factory.keywords.keys()


def _takes(factory: StrategyFactory, name: str) -> bool:
    """Whether an argument is to be given to a factory."""
    function, bound = unwrapped(factory)
    if name in bound:
        return False
    callables: list[Callable[..., Any]] = [factory]
    # What takes any keyword passes it on: a class to its base, an alternative constructor to
    # its class.
    owner = function if isinstance(function, type) else getattr(function, "__self__", None)
    if isinstance(owner, type):
        bases = owner.__mro__[:-1]
        callables += [vars(base)["__init__"] for base in bases if "__init__" in vars(base)]
    for one in callables:
        parameters = inspect.signature(one).parameters
        if name in parameters:
            return True
        if all(other.kind is not other.VAR_KEYWORD for other in parameters.values()):
            return False
    return True
