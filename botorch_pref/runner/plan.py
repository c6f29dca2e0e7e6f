r"""The runs of an experiment, from what its user asked for."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.problems import LogisticJudge, PreferenceProblem
from botorch_pref.runner.described import described, digest
from botorch_pref.runner.limits import checked_count
from botorch_pref.runner.run import (
    JudgeFactory,
    ProblemFactory,
    Run,
    StrategyFactory,
    factory_name,
)
from botorch_pref.runner.simulation import Link, Record, random_play

_DIGITS = 9  # of a manifest's numbers: machines differ in the last ones


def planned_runs(
    problem: PreferenceProblem | ProblemFactory,
    strategies: Mapping[str, StrategyFactory] | Iterable[StrategyFactory],
    horizon: int,
    seeds: int | Iterable[int],
    judge: JudgeFactory | None,
    recommend_every: int,
    link: Link,
    evaluations: int | None = None,
    record: Record | None = None,
) -> list[Run]:
    r"""The runs of an experiment.

    Args:
        problem: See :func:`~botorch_pref.runner.experiment.run_experiment`, as for the rest.
        strategies: The factories.
        horizon: The number of duels.
        seeds: The seeds.
        judge: What makes the judge.
        recommend_every: After how many duels to ask what is best.
        link: The link of the dueling regret.
        evaluations: The number of evaluations, if they are counted.
        record: What is written down of every query.

    Returns:
        All runs of the first strategy, by rising seed, then those of the next.

    Raises:
        UnsupportedError: If an argument cannot be used; names it.
    """
    horizon = checked_count("horizon", horizon)
    recommend_every = checked_count("recommend_every", recommend_every)
    if not callable(problem):
        raise UnsupportedError(f"problem must be a problem, or make one, got {problem!r}.")
    if judge is not None and not callable(judge):
        raise UnsupportedError(f"judge must make a judge, or be None, got {judge!r}.")
    judge = LogisticJudge if judge is None else judge
    counted = (None if evaluations is None else checked_count("evaluations", evaluations), record)
    numbers = _checked_seeds(seeds)
    return [
        Run(problem, name, factory, seed, horizon, recommend_every, judge, link, *counted)
        for name, factory in _named(strategies).items()
        for seed in numbers
    ]


def shared_settings(run: Run) -> dict[str, Any]:
    r"""What all runs of an experiment share: what has to agree when it is resumed.

    Args:
        run: One of them.

    Returns:
        Plain JSON.

    Raises:
        UnsupportedError: If the problem does not know its maximum.
    """
    unit = torch.ones((), dtype=torch.double)
    settings = {
        "horizon": run.horizon,
        "recommend_every": run.recommend_every,
        "judge": described(run.judge),
        "link_at_1": _rounded(float(run.link(unit))),
        "evaluations": run.evaluations,
        "record": None if run.record is None else described(run.record),
    }
    problem = run.problem
    if not isinstance(problem, PreferenceProblem):
        return {"problem": described(problem), **settings}
    # Of items and of all utilities: problems that share a name are told apart by these.
    items = problem.bounds if problem.choices is None else problem.choices
    own = {
        "problem": problem.name,
        "dim": problem.dim,
        "random_regret": _rounded(random_play(problem, run.link)),
        "items": digest(items, _DIGITS),
    }
    return {**own, **settings}


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _named(strategies: object) -> dict[str, StrategyFactory]:
    """The factories by name."""
    if isinstance(strategies, Mapping):
        named = dict(strategies)
    elif isinstance(strategies, Iterable):
        named = {}
        for factory in strategies:
            name = factory_name(factory)
            if name is None or name in named:
                why = "has no name" if name is None else f"is not the only {name!r}"
                raise UnsupportedError(
                    f"strategies: {factory!r} {why}; give a mapping of names to factories."
                )
            named[name] = factory
    else:
        named = {}
    if not named:
        raise UnsupportedError(
            f"strategies must be factories, at least one, by name or in a row, got {strategies!r}."
        )
    for name, factory in named.items():
        if not isinstance(name, str) or not name:
            raise UnsupportedError(f"strategies: a name must be a string, got {name!r}.")
        if not callable(factory):
            raise UnsupportedError(
                f"strategies: {name!r} must make a strategy, not be one, got {factory!r}."
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
