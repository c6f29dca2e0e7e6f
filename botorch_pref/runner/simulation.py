r"""A strategy asks a judge about a problem with a known utility: the simulation, its history.

References:
.. [Lazzaro2026] A. Lazzaro, D. Buffelli, D. Shiu, S. Vakili. A Finite Time Analysis of
    Thompson Sampling for Bayesian Optimization with Preferential Feedback.
    arXiv:2604.25025, 2026.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import pandas as pd
import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

from botorch_pref.data.checks import check_count
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.problems.base import PreferenceProblem
from botorch_pref.progress import progress_bar
from botorch_pref.queries import Answer, Answered, Evaluate, Query
from botorch_pref.randomness import derive_seed

# A judge answers a query of its strategy at a step.
Judge = Callable[[Any, int], Answer | None]
# Numbers about a query, of the strategy and the query before the answer is told.
Record = Callable[[Any, Any], Mapping[str, float]]

_NUM_RANDOM_ITEMS = 2**14  # a Sobol sequence is balanced at powers of two

# The columns of every history, in this order, behind the items and indices, and their types.
_COLUMNS = {
    "kind": "str",
    "identical": "bool",
    "answer": "float64",
    "first_utility": "float64",
    "second_utility": "float64",
    "dueling_regret": "float64",
    "cumulative_regret": "float64",
    "utility_regret": "float64",
    "recommendation_regret": "float64",
    "simple_regret": "float64",
    "num_evaluations": "Int64",
    "num_labels": "Int64",
    "seconds": "float64",
}
_OTHER_TYPES = {
    "problem": "str",
    "strategy": "str",
    "seed": "int64",
    "step": "int64",
    "finished": "boolean",
}


@dataclass(frozen=True)
class History:
    r"""What happened in one simulation.

    Attributes:
        problem: The problem's name.
        strategy: The strategy's name.
        horizon: The number of steps that were planned; the table is shorter if the simulation
            ended or was interrupted before.
        random_regret: The mean dueling regret of a duel of two items drawn uniformly.
        table: One row a query: a duel, a choice, which may have more than two items, or a label
            or an evaluation, which have a first item alone. Columns besides these are what was
            recorded and, of a strategy with a budget, ``cost``, the sum so far, and ``finished``,
            true in the last row if it asks no more:

            ========================= ===================================================
            step                      1, 2, ...
            first_x1, second_x1, ...  the items; of a choice also item3_x1, ...
            recommended_x1, ...       the item recommended then; missing if not asked for
            first_index, ...          their indices, if the problem has choices
            kind                      of the query, such as ``duel``
            identical                 whether all items that are compared are one
            answer                    as the strategy was told it; missing for none; a
                                      ranking as digits, 312 for the third item, the
                                      first and the second
            first_utility, ...        the utilities of the items
            dueling_regret            a probability in [0, 1/2]: [Lazzaro2026], Eq. (2), its
                                      mean over the items; missing of a label
            cumulative_regret         the sum of the dueling regrets so far
            utility_regret            likewise, in units of the utility
            recommendation_regret     in units of the utility
            simple_regret             the least utility regret of the evaluations so far,
                                      those of an initial design included; missing before
                                      the first
            num_evaluations           of evaluations so far that were answered
            num_labels                of labels so far that were answered
            seconds                   that the strategy took to ask and to be told, less
                                      what the recommendation before had worked out
            ========================= ===================================================
    """

    problem: str
    strategy: str
    horizon: int
    random_regret: float
    table: pd.DataFrame

    @property
    def num_duels(self) -> int:
        """The number of queries of all kinds."""
        return len(self.table)

    @property
    def cumulative_regret(self) -> float:
        """The sum of the dueling regrets."""
        return float(self.table["dueling_regret"].sum())

    @property
    def num_identical(self) -> int:
        """The number of duels in which an item met itself."""
        return int(self.table["identical"].sum())

    @property
    def seconds(self) -> float:
        """The time that the strategy took to ask and to be told answers."""
        return float(self.table["seconds"].sum())

    @property
    def recommended(self) -> pd.Series[Any] | None:
        """The row with the latest recommendation, or ``None`` if there is none yet."""
        known = self.table[self.table["recommendation_regret"].notna()]
        return known.iloc[-1] if len(known) else None


def simulate(
    strategy: Any,
    problem: PreferenceProblem,
    judge: Judge,
    horizon: int,
    *,
    progress: bool = True,
    recommend_every: int = 1,
    interruptible: bool = False,
    name: str | None = None,
    evaluations: int | None = None,
    record: Record | None = None,
    random_regret: float | None = None,
) -> History:
    r"""Let a strategy ask a judge, and record what happened.

    Args:
        strategy: Any object on the problem's domain with ``ask``, ``tell``, and ``recommend`` or,
            on choices, ``recommend_index``. One with a budget also has ``spent``, the cost of what
            it asked, and ``finished``, whether it asks no more; this may be found out only as
            ``ask`` raises :class:`~botorch_pref.exceptions.UnsupportedError`.
        problem: Its utility is what regrets are measured by.
        judge: Called with the query and the step ``1, 2, ..., horizon``. Dueling regrets are those
            of a logistic judge, whichever it is.
        horizon: The number of duels or other queries; less if a budget is spent before.
        progress: Whether to show a progress bar on standard error.
        recommend_every: After how many duels, and after the last, to ask what is best.
        interruptible: Whether Ctrl-C ends it early and returns the history so far.
        name: What to call the strategy; its class's name if omitted.
        evaluations: If given, it ends after so many evaluations, and ``horizon`` is the most steps.
        record: Called with the strategy and every query; its numbers become columns.
        random_regret: That of the history, if it is known: it takes many utilities.

    Raises:
        ComparisonDataError: If ``horizon``, ``recommend_every`` or ``evaluations`` is no positive
            whole number.
        UnsupportedError: If the problem does not know its maximum, or a query is of another kind.
    """
    horizon = check_count("horizon", horizon, 1)
    recommend_every = check_count("recommend_every", recommend_every, 1)
    if evaluations is not None:
        evaluations = check_count("evaluations", evaluations, 1)
    name = name or type(strategy).__name__
    random_regret = random_play(problem) if random_regret is None else random_regret
    total = evaluations or horizon
    unit, text = "duel" if evaluations is None else "evaluation", f"{problem.name}, {name}"
    rows: list[dict[str, Any]] = []
    left = total
    with progress_bar(text, total, unit=unit, show=progress) as bar:
        try:
            for step in range(1, horizon + 1):
                row = _step(strategy, problem, judge, step, record)
                if row is None:
                    if rows:  # the row before was the last one
                        rows[-1]["finished"] = True
                        if "recommendation_regret" not in rows[-1]:
                            rows[-1] |= _recommendation(strategy, problem)
                    break
                measured = row["kind"] == Evaluate.kind and row["answer"] == row["answer"]
                counts = measured or evaluations is None
                left -= counts
                if step % recommend_every == 0 or step == horizon or not left:
                    row |= _recommendation(strategy, problem)
                rows.append(row)
                bar.update(counts)
                if not left:
                    break
        except KeyboardInterrupt:
            if not interruptible:
                raise
    return History(problem.name, name, horizon, random_regret, history_table(rows))


def seeds_of_run(seed: int) -> tuple[int, int]:
    """The seeds of the judge and of the strategy of a run, whose draws are independent."""
    return derive_seed(seed, "judge", 0), derive_seed(seed, "strategy", 0)


def random_play(problem: PreferenceProblem) -> float:
    """The mean dueling regret of a duel of two items drawn uniformly, in ``[0, 1/2)``.

    Exact where the problem has choices; on a box a mean over the same quasi-random items always.

    Raises:
        UnsupportedError: If the problem does not know its maximum.
    """
    if problem.choices is not None:
        return dueling_regret(_best(problem), problem.utilities)
    lower, upper = problem.bounds
    sobol = SobolEngine(problem.dim, scramble=True, seed=0)
    cube = sobol.draw(_NUM_RANDOM_ITEMS, dtype=torch.double).to(lower)
    return dueling_regret(_best(problem), problem(torch.lerp(lower, upper, cube)))


def dueling_regret(best: float, utilities: Tensor) -> float:
    """``mu(f* - f(x)) - 1/2``, [Lazzaro2026], Eq. (2), its mean over the items of a query.

    The link ``mu`` is logistic, ``best`` is ``f*``, and the utilities are ``k``-dim.
    """
    return float((torch.sigmoid(best - utilities) - 0.5).mean())


def _best(problem: PreferenceProblem) -> float:
    try:
        return problem.optimal_value
    except NotImplementedError as error:
        raise UnsupportedError(
            f"regret needs the largest utility, which {problem.name} with dim={problem.dim} "
            "does not know."
        ) from error


def _step(
    strategy: Any, problem: PreferenceProblem, judge: Judge, step: int, record: Record | None
) -> dict[str, Any] | None:
    """Ask and answer one query; ``None`` where the budget is spent."""
    if getattr(strategy, "finished", False):
        return None
    start = perf_counter()
    try:
        query = strategy.ask()
    except UnsupportedError:
        if not getattr(strategy, "finished", False):
            raise
        return None
    seconds = perf_counter() - start
    recorded = {} if record is None else record(strategy, query)
    answer = judge(query, step)
    start = perf_counter()
    strategy.tell(query, answer)
    seconds += perf_counter() - start
    shown, utilities = _shown(problem, query)
    row = {"step": step, **shown, **recorded, "kind": query.kind}
    row["answer"] = Answered(query, answer).number
    if hasattr(strategy, "spent"):
        row |= {"cost": float(strategy.spent), "finished": False}
    if query.compares or query.measures:  # a label has no regret
        best = _best(problem)
        row["dueling_regret"] = dueling_regret(best, utilities)
        row["utility_regret"] = float((best - utilities).mean())
    return row | {"seconds": seconds}


def _shown(problem: PreferenceProblem, query: Query) -> tuple[dict[str, Any], Tensor]:
    """What was asked, as columns, and the utilities of its items."""
    items = query.rows.to(problem.bounds)
    later = (f"item{i}" for i in range(3, len(items) + 1))
    slots = ["first", "second", *later][: len(items)]
    indices = query.row_indices
    if indices is None:
        utilities = problem(items)
        row: dict[str, Any] = {"identical": bool((items == items[0]).all())}
    else:
        # Two choices may be equal and have different utilities.
        utilities = problem.utility(torch.tensor(indices, device=items.device))
        row = {f"{slot}_index": index for slot, index in zip(slots, indices, strict=True)}
        row["identical"] = len({*indices}) == 1
    row["identical"] &= query.compares
    for slot, item, utility in zip(slots, items, utilities.tolist(), strict=True):
        row |= _coordinates(slot, item) | {f"{slot}_utility": utility}
    return row, utilities


def _recommendation(strategy: Any, problem: PreferenceProblem) -> dict[str, Any]:
    row: dict[str, Any] = {}
    if problem.choices is None:
        item = strategy.recommend().to(problem.bounds)
        utility = problem(item)
    else:
        index = strategy.recommend_index()
        item, utility = problem.choices[index], problem.utilities[index]
        row["recommended_index"] = index
    row |= _coordinates("recommended", item)
    return row | {"recommendation_regret": _best(problem) - float(utility)}


def _coordinates(prefix: str, item: Tensor) -> dict[str, float]:
    return {f"{prefix}_x{i}": value for i, value in enumerate(item.tolist(), start=1)}


def column_type(name: str) -> str:
    """What pandas calls the type of a column of :class:`History`; indices may be missing."""
    other = "Int64" if name.endswith("_index") else "float64"
    return _COLUMNS.get(name) or _OTHER_TYPES.get(name, other)


def typed(table: pd.DataFrame) -> pd.DataFrame:
    """The table with every column in its own type, whatever rows there are."""
    # A copy, as astype leaves every column in a block of its own.
    return table.astype({name: column_type(str(name)) for name in table}).copy()


def history_table(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """The table of a :class:`History`, of the rows of its queries."""
    columns = {name: None for row in rows for name in row if name not in _COLUMNS}
    table = typed(pd.DataFrame(rows, columns=[*columns, *_COLUMNS]))
    table["cumulative_regret"] = table["dueling_regret"].fillna(0.0).cumsum()
    answered = table["answer"].notna()
    measured = answered & table["kind"].eq(Evaluate.kind)
    table["simple_regret"] = table["utility_regret"].where(measured).cummin().ffill()
    table["num_evaluations"] = measured.cumsum().astype("Int64")
    table["num_labels"] = (answered & table["kind"].eq("label")).cumsum().astype("Int64")
    return table
