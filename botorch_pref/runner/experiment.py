r"""Replicated simulations: strategies under paired seeds, over any backend of joblib.

The strategies of one seed meet the same label noise, and what they draw themselves is
independent of it. A run computes on one thread and takes all that is random from its seed, so
an experiment's table, the seconds aside, does not depend on how its runs are spread. Runs
within one process take turns: a backend of threads is no faster than a loop.

A strategy factory is a strategy class or any other callable. It is given those of ``space=``,
``seed=`` and ``horizon=`` that it takes; a ``functools.partial`` only those that it leaves open,
and no space if it sets ``bounds`` or ``choices``.
"""

from __future__ import annotations

import inspect
import math
import operator
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import joblib
import pandas as pd
from botorch.exceptions.errors import BotorchError
from threadpoolctl import threadpool_limits

from botorch_pref.data.checks import check_count
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.problems.base import PreferenceProblem
from botorch_pref.problems.judges import LogisticJudge
from botorch_pref.progress import progress_bar
from botorch_pref.randomness import torch_threads
from botorch_pref.runner.simulation import Judge, Record, seeds_of_run, simulate, typed
from botorch_pref.runner.store import Store, describe, describe_problem

StrategyFactory = Callable[..., Any]
JudgeFactory = Callable[..., Judge]
ProblemFactory = Callable[[int], PreferenceProblem]
Key = tuple[str, int]  # of a run: the strategy's name, and the seed

# The number of threads and the generators that BoTorch's optimizers draw from belong to the
# process, so runs in threads of one process take turns.
_TURN = threading.RLock()


class RunError(BotorchError, RuntimeError):
    """A run that failed; names strategy and seed."""


def run_experiment(
    problem: PreferenceProblem | ProblemFactory,
    strategies: Mapping[str, StrategyFactory] | Iterable[StrategyFactory],
    horizon: int,
    seeds: int | Iterable[int],
    judge: JudgeFactory | None = None,
    n_jobs: int | None = None,
    progress: bool = True,
    *,
    directory: str | os.PathLike[str] | None = None,
    recommend_every: int = 1,
    evaluations: int | None = None,
    record: Record | None = None,
) -> pd.DataFrame:
    r"""Simulate every strategy under every seed.

    Args:
        problem: The problem, or a callable that makes one of the seed.
        strategies: Factories by name, or in a row and named by their ``__name__``.
        horizon: The number of duels, or other queries, of a run; less if its budget is spent.
        seeds: Different whole numbers, at least 0, or how many of them.
        judge: Called as ``judge(problem, seed=...)``, returns what is called with a query
            and the step; :class:`~botorch_pref.problems.LogisticJudge` by default.
        n_jobs: As for ``joblib.Parallel``: by default what ``joblib.parallel_config`` says,
            which also chooses Dask or Ray, and without it one run at a time.
        progress: Whether to show a bar of the finished runs on standard error.
        directory: A folder for the finished runs. What was stopped goes on from there, and
            seeds or strategies can be added.
        recommend_every: After how many duels, and after the last, to ask what is best.
        evaluations: If given, a run ends after so many evaluations, those of an initial design
            included, and ``horizon`` is the most steps that it may take.
        record: Called with the strategy and every query; its numbers become columns.

    Returns:
        A row for each strategy, in the order given, seed and step; the columns of
        :class:`~botorch_pref.runner.History`, with ``problem``, ``strategy`` and ``seed``.

    Raises:
        ComparisonDataError: If ``horizon``, ``recommend_every`` or ``evaluations`` is no positive
            whole number.
        UnsupportedError: If another argument cannot be used, which it names, or the folder holds
            another experiment.
        RunError: If a run failed; names strategy and seed. Finished runs stay in the folder.
    """
    horizon = check_count("horizon", horizon, 1)
    recommend_every = check_count("recommend_every", recommend_every, 1)
    if evaluations is not None:
        evaluations = check_count("evaluations", evaluations, 1)
    if not callable(problem):
        raise UnsupportedError(f"problem must be a problem, or make one, got {problem!r}.")
    if judge is not None and not callable(judge):
        raise UnsupportedError(f"judge must make a judge, or be None, got {judge!r}.")
    judge = LogisticJudge if judge is None else judge
    named, numbers = _named(strategies), _checked_seeds(seeds)
    if n_jobs is not None and (not isinstance(n_jobs, int) or n_jobs == 0):
        raise UnsupportedError(f"n_jobs must be a whole number but 0, or None, got {n_jobs!r}.")
    settings = {
        **describe_problem(problem),
        "horizon": horizon,
        "recommend_every": recommend_every,
        "judge": describe(judge),
        "evaluations": evaluations,
        "record": None if record is None else describe(record),
    }
    store = None if directory is None else Store(directory, settings, named)
    runs = [(name, seed) for name in named for seed in numbers]
    found = {} if store is None else {key: store.load(*key) for key in runs}
    done = {key: table for key, table in found.items() if table is not None}
    # All strategies of one seed run before those of the next, so that a part is balanced.
    missing = sorted((key for key in runs if key not in done), key=operator.itemgetter(1))
    options = {"evaluations": evaluations, "record": record, "recommend_every": recommend_every}
    parent = os.getpid()
    calls = (
        joblib.delayed(_simulate_in_worker)(
            parent, key, named[key[0]], problem, judge, horizon, options
        )
        for key in missing
    )
    try:
        parallel = joblib.Parallel(n_jobs, return_as="generator_unordered", batch_size=1)
    except ValueError:  # Ray's backend, and a few others, return everything at the end
        parallel = joblib.Parallel(n_jobs, batch_size=1)
    with progress_bar(
        settings["problem"], len(runs), unit="run", initial=len(done), show=progress
    ) as bar:
        for (name, seed), table in parallel(calls):
            if store is not None:
                store.save(name, seed, table)
            done[name, seed] = table
            bar.update()
    # Columns that only some runs have are missing elsewhere.
    return typed(pd.concat([done[key] for key in runs], ignore_index=True))


def _simulate_in_worker(parent: int, *run: Any) -> tuple[Key, pd.DataFrame]:
    """:func:`simulate_run` in a process that ends with the experiment's, however that ends."""
    if os.getppid() == parent:  # else this is that very process, or one that others look after
        _end_with(parent)
    return simulate_run(*run)


@cache
def _end_with(parent: int) -> None:
    """End this process soon after its parent."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def simulate_run(
    key: Key,
    factory: StrategyFactory,
    problem: PreferenceProblem | ProblemFactory,
    judge: JudgeFactory,
    horizon: int,
    options: Mapping[str, Any],
) -> tuple[Key, pd.DataFrame]:
    """One strategy under one seed: the table of its history, with names and seed."""
    name, seed = key
    try:
        with _TURN, num_threads():
            if not isinstance(problem, PreferenceProblem):
                problem = problem(seed)
            judge_seed, strategy_seed = seeds_of_run(seed)
            answers = judge(problem, seed=judge_seed)  # the same for all strategies
            strategy = build_strategy(factory, problem, strategy_seed, horizon)
            options = {**options, "random_regret": math.nan}  # which is not in the table
            table = simulate(strategy, problem, answers, horizon, progress=False, **options).table
    except Exception as error:
        # Not every error can be sent from process to process; this one can.
        raise RunError(
            f"strategy {name!r}, seed {seed}: {type(error).__name__}: {error}"
        ) from error
    table.insert(0, "problem", problem.name)
    table.insert(1, "strategy", name)
    table.insert(2, "seed", seed)
    return key, table


@contextmanager
def num_threads(threads: int = 1) -> Iterator[None]:
    """Compute on so many threads inside the block, NumPy and SciPy on one.

    On one thread sums always have the same order.
    """
    with torch_threads(threads), threadpool_limits(limits=1, user_api="blas"):
        yield


def build_strategy(
    factory: StrategyFactory, problem: PreferenceProblem, seed: int, horizon: int
) -> Any:
    """Make a strategy for a problem, of a class, an alternative constructor or any callable.

    A function that names a ``problem`` gets it as well: what it knows of the utility is for it to
    use fairly.
    """
    given = {"seed": seed, "horizon": horizon}
    options: dict[str, Any] = {name: x for name, x in given.items() if _takes(factory, name)}
    bound = _unwrapped(factory)[1]
    if _takes(factory, "space") and not {"bounds", "choices"} & bound:
        options["space"] = problem.space
    if "problem" in inspect.signature(factory).parameters and "problem" not in bound:
        options["problem"] = problem
    return factory(**options)


def _unwrapped(factory: StrategyFactory) -> tuple[Callable[..., Any], set[str]]:
    """What a partial calls, and the arguments that it sets."""
    if not isinstance(factory, partial):
        return factory, set()
    bound = inspect.signature(factory.func).bind_partial(*factory.args, **factory.keywords)
    return factory.func, bound.arguments.keys() | factory.keywords.keys()


def _takes(factory: StrategyFactory, name: str) -> bool:
    """Whether an argument is to be given to a factory."""
    function, bound = _unwrapped(factory)
    if name in bound:
        return False
    callables: list[Callable[..., Any]] = [factory]
    # A class passes keywords that it does not name to its base, a class method to its class.
    owner = function if isinstance(function, type) else getattr(function, "__self__", None)
    if isinstance(owner, type):
        callables += [vars(base)["__init__"] for base in owner.__mro__ if "__init__" in vars(base)]
    for one in callables:
        parameters = inspect.signature(one).parameters
        if name in parameters:
            return True
        if all(other.kind is not other.VAR_KEYWORD for other in parameters.values()):
            return False
    return True


def _named(strategies: object) -> dict[str, StrategyFactory]:
    """The factories by name."""
    if isinstance(strategies, Mapping):
        named = dict(strategies)
    else:
        factories = [*strategies] if isinstance(strategies, Iterable) else []
        names = [getattr(_unwrapped(factory)[0], "__name__", None) for factory in factories]
        named = dict(zip(names, factories, strict=True))
        if len(named) < len(names):
            raise UnsupportedError(f"strategies: {names} are not different; give a mapping.")
    known = all(isinstance(name, str) and name for name in named)
    if not named or not known or not all(map(callable, named.values())):
        raise UnsupportedError(
            "strategies must make strategies, at least one, by name or in a row and with names of "
            f"their own, got {strategies!r}."
        )
    return named


def _checked_seeds(seeds: object) -> list[int]:
    """The seeds, in rising order."""
    try:
        if isinstance(seeds, Iterable):
            numbers = sorted(map(operator.index, seeds))
        else:
            numbers = [*range(operator.index(seeds))]  # type: ignore[arg-type]
    except TypeError:
        numbers = []
    if not numbers or numbers[0] < 0 or len({*numbers}) < len(numbers):
        raise UnsupportedError(
            "seeds must be different whole numbers, at least 0, or how many of them, at least 1, "
            f"got {seeds!r}."
        )
    return numbers


def summarise(
    table: pd.DataFrame, metric: str = "cumulative_regret", at: int | None = None
) -> pd.DataFrame:
    r"""How a metric is distributed over the seeds of each strategy.

    The mean and its standard error hide heavy tails, so median and quantiles stand beside.

    Args:
        table: What :func:`run_experiment` returns.
        metric: A column of numbers.
        at: The step; the last one if omitted. Of a run that ended before it, its own last one.

    Returns:
        A row for each strategy, in the order of the table, with ``strategy``, ``step``, ``mean``,
        ``standard_error`` (missing for a single seed), ``median``, ``quantile_10`` and
        ``quantile_90`` (interpolated between seeds), and ``seeds``, their number.

    Raises:
        UnsupportedError: If there is no such column or step, or the metric was not recorded
            there, as a recommendation may not be.
    """
    if metric not in table or not pd.api.types.is_numeric_dtype(table[metric]):
        raise UnsupportedError(f"metric must be a column of numbers, got {metric!r}.")
    step = table["step"].max() if at is None else at
    if not (table["step"] == step).any():
        raise UnsupportedError(f"at must be a step of the table, got {at!r}.")
    # A run that ended before, as its budget was spent, counts by its last row.
    until = table[table["step"] <= step]
    rows = until.loc[until.groupby(["strategy", "seed"], sort=False)["step"].idxmax()]
    if rows[metric].isna().any():
        raise UnsupportedError(f"{metric} was not recorded for every run at step {step}.")
    values = rows.groupby("strategy", sort=False)[metric]
    summary = pd.DataFrame(
        {
            "step": int(step),
            "mean": values.mean(),
            "standard_error": values.sem(),
            "median": values.median(),
            "quantile_10": values.quantile(0.1),
            "quantile_90": values.quantile(0.9),
            "seeds": values.size(),
        }
    )
    return summary.reset_index()
