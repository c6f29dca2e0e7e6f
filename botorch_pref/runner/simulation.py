r"""A strategy asks a judge about a problem with a known utility."""

from __future__ import annotations

import operator
from collections.abc import Callable
from time import perf_counter
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.quasirandom import SobolEngine
from tqdm import tqdm

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.problems import (
    PreferenceProblem,
    dueling_regret,
    random_play_regret,
    scalar_regret,
    simple_regret,
)
from botorch_pref.queries import Choice, Duel, Evaluate, Query
from botorch_pref.runner.history import History, history_table

# A judge need only take the queries that its strategy asks.
Judge = Callable[[Any, int], float | None]
Link = Callable[[Tensor], Tensor]

# A power of two, as a Sobol sequence is balanced only there.
_NUM_RANDOM_ITEMS = 2**14
_SLOTS = ("first", "second")


class Simulated(Protocol):
    """What a simulation needs of a strategy."""

    def ask(self) -> Query:
        """The next duel, choice or evaluation."""

    def tell(self, query: Any, answer: float | None) -> None:
        """Take its answer."""

    def recommend(self) -> Tensor:
        """The ``d``-dim item that is best so far."""

    def recommend_index(self) -> int:
        """Its index, where the domain is a table of choices."""


def simulate(
    strategy: Simulated,
    problem: PreferenceProblem,
    judge: Judge,
    horizon: int,
    *,
    progress: bool = True,
    recommend_every: int = 1,
    link: Link = torch.sigmoid,
    interruptible: bool = False,
    name: str | None = None,
) -> History:
    r"""Let a strategy ask a judge ``horizon`` duels, and keep what happened.

    Args:
        strategy: An ask/tell strategy on the problem's domain; whatever it asks is a duel here.
        problem: Its utility is what regrets are measured by.
        judge: Called with the query and the step ``1, 2, ..., horizon``.
        horizon: The number of duels, skipped ones and identical pairs included.
        progress: Whether to show a progress bar on standard error.
        recommend_every: After how many duels, and after the last, to ask what is best.
        link: The link of the dueling regret: the judge's.
        interruptible: Whether Ctrl-C ends it early and returns the history so far.
        name: What to call the strategy; its class's name if omitted.

    Returns:
        The history.

    Raises:
        UnsupportedError: If ``horizon`` or ``recommend_every`` is no positive whole
            number, the problem does not know its maximum, or a query is of another kind.
    """
    horizon = checked_count("horizon", horizon)
    recommend_every = checked_count("recommend_every", recommend_every)
    name = name or type(strategy).__name__
    random_regret = random_play(problem, link)
    rows: list[dict[str, Any]] = []
    bar = tqdm(total=horizon, desc=f"{problem.name}, {name}", unit="duel", disable=not progress)
    with bar:
        try:
            for step in range(1, horizon + 1):
                row = _duel(strategy, problem, judge, step, link)
                if step % recommend_every == 0 or step == horizon:
                    row |= _recommendation(strategy, problem)
                rows.append(row)
                bar.update()
        except KeyboardInterrupt:
            if not interruptible:
                raise
    return History(problem.name, name, horizon, random_regret, history_table(rows))


def random_play(problem: PreferenceProblem, link: Link = torch.sigmoid) -> float:
    r"""The mean dueling regret of a duel of two items drawn uniformly.

    Exact where the problem has choices; on a box a mean over quasi-random items, the
    same ones at every call.

    Args:
        problem: The problem.
        link: The link ``mu``.

    Returns:
        A probability, in ``[0, 1/2)``.

    Raises:
        UnsupportedError: If the problem does not know its maximum.
    """
    if problem.choices is not None:
        return float(random_play_regret(problem.utilities, link))
    lower, upper = problem.bounds
    sobol = SobolEngine(problem.dim, scramble=True, seed=0)
    cube = sobol.draw(_NUM_RANDOM_ITEMS, dtype=torch.double).to(lower)
    utilities = problem(torch.lerp(lower, upper, cube))
    return float(dueling_regret(_best(problem), utilities, utilities, link).mean())


def checked_count(argument: str, value: int) -> int:
    r"""A whole number, at least 1.

    Args:
        argument: What it is called.
        value: The number.

    Returns:
        The number, as Python's own.

    Raises:
        UnsupportedError: If it is anything else; names the argument.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise UnsupportedError(f"{argument} must be a whole number, at least 1, got {value!r}.")
    return number


def _best(problem: PreferenceProblem) -> float:
    try:
        return problem.optimal_value
    except NotImplementedError as error:
        raise UnsupportedError(
            f"regret needs the largest utility, which {problem.name} with dim={problem.dim} "
            "does not know."
        ) from error


def _duel(
    strategy: Simulated, problem: PreferenceProblem, judge: Judge, step: int, link: Link
) -> dict[str, Any]:
    """Ask, judge and tell one duel, choice or evaluation."""
    start = perf_counter()
    query = strategy.ask()
    seconds = perf_counter() - start
    if not isinstance(query, (Duel, Choice, Evaluate)):
        kind = type(query).__name__
        raise UnsupportedError(f"only duels, choices and evaluations are simulated, not {kind}.")
    answer = judge(query, step)
    start = perf_counter()
    strategy.tell(query, answer)
    seconds += perf_counter() - start
    asked, utilities = _judged(problem, query)
    # Each item that is shown pays its share; what is evaluated is paired with itself.
    best = _best(problem)
    return {
        "step": step,
        **asked,
        "answer": answer,
        "dueling_regret": float(scalar_regret(best, utilities, link).mean()),
        "utility_regret": float(simple_regret(best, utilities).mean()),
        "seconds": seconds,
    }


def _judged(
    problem: PreferenceProblem, query: Duel | Choice | Evaluate
) -> tuple[dict[str, Any], Tensor]:
    """What was asked, as columns, and the utilities of its items."""
    items = query.items.to(problem.bounds).view(-1, problem.dim)
    slots = [*_SLOTS, *(f"item{i}" for i in range(3, len(items) + 1))][: len(items)]
    if query.indices is None:
        utilities = problem(items)
        row: dict[str, Any] = {"identical": bool((items == items[0]).all())}
    else:
        # A composition may be listed twice with different utilities: the index decides.
        indices = (query.indices,) if isinstance(query, Evaluate) else query.indices
        utilities = problem.utility(torch.tensor(indices, device=items.device))
        row = {f"{slot}_index": index for slot, index in zip(slots, indices, strict=True)}
        row["identical"] = len({*indices}) == 1
    row["identical"] &= not isinstance(query, Evaluate)
    for slot, item, utility in zip(slots, items, utilities.tolist(), strict=True):
        row |= _coordinates(slot, item) | {f"{slot}_utility": utility}
    return row, utilities


def _recommendation(strategy: Simulated, problem: PreferenceProblem) -> dict[str, Any]:
    row: dict[str, Any] = {}
    if problem.choices is None:
        item = strategy.recommend().to(problem.bounds)
        utility = problem(item)
    else:
        index = strategy.recommend_index()
        item, utility = problem.choices[index], problem.utilities[index]
        row["recommended_index"] = index
    row |= _coordinates("recommended", item)
    return row | {"recommendation_regret": float(simple_regret(_best(problem), utility))}


def _coordinates(prefix: str, item: Tensor) -> dict[str, float]:
    return {f"{prefix}_x{i}": value for i, value in enumerate(item.tolist(), start=1)}
