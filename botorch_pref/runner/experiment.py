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

import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

import joblib
import pandas as pd
from tqdm import tqdm

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.problems.base import PreferenceProblem
from botorch_pref.problems.judges import LogisticJudge
from botorch_pref.runner.run import (
    JudgeFactory,
    ProblemFactory,
    Run,
    StrategyFactory,
    unwrapped,
)
from botorch_pref.runner.simulation import Record, checked_count, typed
from botorch_pref.runner.store import Store, shared_settings


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
            and the step; :class:`~botorch_pref.problems.LogisticJudge` if omitted.
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
        UnsupportedError: If an argument cannot be used, which it names, or the folder holds
            another experiment.
        RunError: If a run failed; names strategy and seed. Finished runs stay in the folder.
    """
    horizon = checked_count("horizon", horizon)
    recommend_every = checked_count("recommend_every", recommend_every)
    if evaluations is not None:
        evaluations = checked_count("evaluations", evaluations)
    if not callable(problem):
        raise UnsupportedError(f"problem must be a problem, or make one, got {problem!r}.")
    if judge is not None and not callable(judge):
        raise UnsupportedError(f"judge must make a judge, or be None, got {judge!r}.")
    judge = LogisticJudge if judge is None else judge
    further = (horizon, recommend_every, judge, evaluations, record)
    numbers = _checked_seeds(seeds)
    runs = [
        Run(problem, name, factory, seed, *further)
        for name, factory in _named(strategies).items()
        for seed in numbers
    ]
    if n_jobs is not None and (not isinstance(n_jobs, int) or n_jobs == 0):
        raise UnsupportedError(f"n_jobs must be a whole number but 0, or None, got {n_jobs!r}.")
    settings = shared_settings(runs[0])
    store = None if directory is None else Store(directory)
    done = {} if store is None else store.open(settings, runs)
    # All strategies of one seed before those of the next: what is stopped is balanced.
    missing = sorted({*range(len(runs))} - done.keys(), key=lambda i: (runs[i].seed, i))
    name, total = settings["problem"], len(runs)
    with tqdm(desc=name, total=total, initial=len(done), unit="run", disable=not progress) as bar:
        for i, table in _simulated(runs, missing, n_jobs):
            if store is not None:
                store.save(runs[i], table)
            done[i] = table
            bar.update()
    return _tidy([done[i] for i in range(total)])


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
    # What ended before, as budgets may, keeps what it had in the end.
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


def _simulated(
    runs: Sequence[Run], missing: Sequence[int], n_jobs: int | None
) -> Iterator[tuple[int, pd.DataFrame]]:
    """The numbers and tables of the missing runs as they are finished."""
    calls = (joblib.delayed(_simulate)(i, runs[i]) for i in missing)
    try:
        parallel = joblib.Parallel(n_jobs, return_as="generator_unordered", batch_size=1)
    except ValueError:  # Ray's backend, and a few others, return everything at the end
        parallel = joblib.Parallel(n_jobs, batch_size=1)
    yield from parallel(calls)


def _simulate(number: int, run: Run) -> tuple[int, pd.DataFrame]:
    return number, run.simulate()


def _named(strategies: object) -> dict[str, StrategyFactory]:
    """The factories by name."""
    if isinstance(strategies, Mapping):
        named = dict(strategies)
    else:
        factories = [*strategies] if isinstance(strategies, Iterable) else []
        names = [getattr(unwrapped(factory)[0], "__name__", None) for factory in factories]
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


def _tidy(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """One table with the columns of all; those that only some have are missing elsewhere."""
    columns = [*dict.fromkeys(name for table in tables for name in table)]
    complete = [typed(table.reindex(columns=columns)) for table in tables]
    return pd.concat(complete, ignore_index=True)
