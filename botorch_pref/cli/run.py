r"""``botorch-pref run``: simulate a strategy on a problem, print and save what came of it."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

import torch
from botorch.exceptions.errors import BotorchError
from torch import Tensor

from botorch_pref.cli.errors import INTERRUPTED, UsageError
from botorch_pref.cli.folder import writable_folder
from botorch_pref.plotting import plot_regret, save_figure
from botorch_pref.problems import (
    Catalyst,
    LogisticJudge,
    PreferenceProblem,
    SyntheticProblem,
    get_problem,
)
from botorch_pref.queries import Duel, Evaluate
from botorch_pref.randomness import derive_seed
from botorch_pref.runner import History, random_play, simulate
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import BudgetedStrategy, RandomPairs, Strategy
from botorch_pref.strategies.registry import DEFAULT_STRATEGY, get_strategy

_HISTORY, _PLOT = "history.csv", "regret.png"
_PERCENT = 10.0  # of hydrogen yield: one unit of the catalyst's utility
_ELEMENTS = ("silver", "gold", "zinc")
_RANDOM_RUNS = 10
_NOUNS = {"duel": "duel", "choice": "choice", "label": "label", "evaluate": "value"}


def run(args: argparse.Namespace) -> int:
    r"""Run one simulation.

    Args:
        args: The parsed arguments of ``botorch-pref run``.

    Returns:
        The exit status: 0, or 130 if the simulation was interrupted.

    Raises:
        UsageError: If something cannot be done as asked; before the first query, but for
            a disk that fills up meanwhile.
    """
    torch.set_num_threads(args.threads)
    args.strategy = args.strategy or DEFAULT_STRATEGY
    problem = _problem(args)
    strategy = _strategy(args, problem)
    folder = _folder(args)
    history = simulate(
        strategy,
        problem,
        LogisticJudge(problem, seed=args.seed),
        args.horizon,
        progress=not args.quiet,
        interruptible=True,
        name=args.strategy,
    )
    if not history.num_duels:
        print("interrupted before the first query was answered; nothing was saved", file=sys.stderr)
        return INTERRUPTED
    paths = _save(history, problem, args, folder)
    if history.num_duels < history.horizon:
        asked = "duels" if history.table["kind"].eq(Duel.kind).all() else "queries"
        print(
            f"interrupted after {history.num_duels} of {history.horizon} {asked}; what was done is "
            f"saved in {paths[0]} and {paths[1]}",
            file=sys.stderr,
        )
        return INTERRUPTED
    print(_report(history, problem, strategy, args, paths))
    return 0


def _problem(args: argparse.Namespace) -> PreferenceProblem:
    names = ("dim", "num_choices", "dedupe")
    options = {name: value for name in names if (value := getattr(args, name)) is not None}
    try:
        problem = get_problem(args.problem, **options)
        random_play(problem)  # which fails if the maximum is not known
    except (BotorchError, ValueError) as error:
        raise UsageError(str(error)) from error
    return problem


def _strategy(args: argparse.Namespace, problem: PreferenceProblem) -> Strategy:
    try:
        space = SearchSpace(problem.bounds, problem.choices)
        return get_strategy(
            args.strategy, space, seed=args.seed, horizon=args.horizon, preset=args.preset
        )
    except BotorchError as error:
        raise UsageError(str(error)) from error


def _folder(args: argparse.Namespace) -> Path:
    """The folder for the results, made and tried out."""
    folder = args.out or Path("botorch_pref_runs") / _run_name(args)
    return writable_folder(folder, (_HISTORY, _PLOT))


def _run_name(args: argparse.Namespace) -> str:
    parts = [
        args.problem.lower(),
        f"{args.dim}d" if args.dim is not None else "",
        f"{args.num_choices}choices" if args.num_choices is not None else "",
        args.dedupe or "",
        args.strategy,
        args.preset if args.preset != "practical" else "",
        f"seed{args.seed}",
    ]
    return "-".join(part for part in parts if part)


def _save(
    history: History, problem: PreferenceProblem, args: argparse.Namespace, folder: Path
) -> tuple[Path, Path]:
    """The paths of plot and history."""
    unit, scale = "units of utility", 1.0
    if isinstance(problem, Catalyst):
        unit, scale = "percentage points of yield", _PERCENT
    preset = f"{args.strategy} ({args.preset})"
    title = f"{problem.name}, {preset}, {_asked(history)}, seed {args.seed}"
    try:
        table = history.save(folder / _HISTORY)
        figure = plot_regret(history, title=title, utility_unit=unit, utility_scale=scale)
        plot = save_figure(figure, folder / _PLOT)
    except OSError as error:
        raise UsageError(f"cannot write to {str(folder)!r}: {error.strerror}") from error
    return plot, table


def _report(
    history: History,
    problem: PreferenceProblem,
    strategy: Strategy,
    args: argparse.Namespace,
    paths: tuple[Path, Path],
) -> str:
    number, kinds = history.num_duels, history.table["kind"]
    random, each = number * history.random_regret, 1000 * history.seconds / number
    noun = _NOUNS[kinds.iloc[0]] if kinds.nunique() == 1 else "query"
    regret = "dueling regret"
    if kinds.eq(Evaluate.kind).any():
        regret += ", of a value that of its item with itself"
    lines = [
        (
            "run",
            f"{problem.name}, {args.strategy} ({args.preset}), {_asked(history)}, seed {args.seed}",
        ),
        *_answers(history),
        *_recommendation(history, problem),
        *_random_pairs(history, problem, args),
        (
            "cumulative regret",
            f"{history.cumulative_regret:.2f} ({regret}; random play expects {random:.2f})",
        ),
        *_identical(history),
        *_initial(strategy),
        ("time", f"{history.seconds:.1f} s ({each:.0f} ms a {noun})"),
        ("regret plot", str(paths[0])),
        ("history", str(paths[1])),
    ]
    return "\n".join(f"{name:<18} {text}" for name, text in lines)


def _asked(history: History) -> str:
    """What was asked by kind, and what it cost, as in "90 duels, 10 values, cost 19"."""
    counts = Counter(history.table["kind"])
    parts = [f"{count} {_NOUNS[kind]}{'s' * (count > 1)}" for kind, count in counts.items()]
    if "cost" in history.table:
        parts.append(f"cost {history.table['cost'].iloc[-1]:.6g}")
    return ", ".join(parts)


def _answers(history: History) -> list[tuple[str, str]]:
    """That the duels were answered by a simulated judge, and how often it was wrong."""
    duels = history.table[history.table["kind"].eq(Duel.kind)]
    if duels.empty:
        return []
    better = duels["first_utility"] - duels["second_utility"]
    wrong = int((better * (duels["answer"] - 0.5) < 0.0).sum())
    text = f"simulated with noise: {wrong} of {len(duels)} duels went to the worse item"
    return [("answers", text)]


def _random_pairs(
    history: History, problem: PreferenceProblem, args: argparse.Namespace
) -> list[tuple[str, str]]:
    """What the same number of random duels leads to, where all queries were chosen duels."""
    if args.strategy == "random" or not history.table["kind"].eq(Duel.kind).all():
        return []
    found = []
    for run in range(_RANDOM_RUNS):
        seed = derive_seed(args.seed, "random pairs", run)
        random = simulate(
            RandomPairs(space=SearchSpace(problem.bounds, problem.choices), seed=seed),
            problem,
            LogisticJudge(problem, seed=seed),
            history.num_duels,
            progress=False,
            recommend_every=history.num_duels,
            random_regret=history.random_regret,
        )
        row = random.recommended
        assert row is not None  # the last duel has one
        found.append(problem.optimal_value - float(row["recommendation_regret"]))
    utilities = torch.tensor(found)
    mean, error = float(utilities.mean()), float(utilities.std()) / _RANDOM_RUNS**0.5
    text = f"{mean:.4g} ± {error:.2g}"
    if isinstance(problem, Catalyst):
        text = f"{_PERCENT * mean:.1f} ± {_PERCENT * error:.1f} % hydrogen"
    return [("random pairs", f"{text} after as many duels (mean of {_RANDOM_RUNS} runs)")]


def _identical(history: History) -> list[tuple[str, str]]:
    """How many duels were of an item with itself, which no value can be."""
    duels = int(history.table["kind"].eq(Duel.kind).sum())
    if not duels:
        return []
    share = history.num_identical / duels
    return [("identical pairs", f"{history.num_identical} of {duels} duels ({share:.0%})")]


def _initial(strategy: Strategy) -> list[tuple[str, str]]:
    """That nothing was chosen, where the initial design took all queries."""
    if not isinstance(strategy, BudgetedStrategy):
        return []
    if any(record.phase != "initial" for record in strategy.records):
        return []
    settings, number = strategy.settings, len(strategy.records)
    whole = settings.num_initial_duels + settings.num_initial_values
    text = f"all {number} queries were of it, so random; a --horizon above {whole} goes beyond"
    return [("initial design", text)]


def _recommendation(history: History, problem: PreferenceProblem) -> list[tuple[str, str]]:
    row = history.recommended
    assert row is not None  # the last duel of a complete history has one
    item = torch.tensor([float(row[f"recommended_x{i + 1}"]) for i in range(problem.dim)])
    if isinstance(problem, Catalyst):
        return _composition(problem, int(row["recommended_index"]), item)
    lines = [("recommended item", _vector(item))]
    if isinstance(problem, SyntheticProblem) and problem.unit_cube:
        lower, upper = problem.function.get_buffer("bounds")
        lines.append(("in its own units", _vector(torch.lerp(lower, upper, item.to(lower)))))
    best = problem.optimal_value
    utility = best - float(row["recommendation_regret"])
    rank = ""
    if problem.choices is not None:
        rank = f", {_rank(problem, int(row['recommended_index']))}"
    lines.append(("utility", f"{utility:.4g}{rank} (the best: {best:.4g})"))
    return lines


def _rank(problem: PreferenceProblem, index: int) -> str:
    better = int((problem.utilities > problem.utilities[index]).sum())
    return f"rank {better + 1} of {len(problem.utilities)}"


def _composition(problem: Catalyst, index: int, item: Tensor) -> list[tuple[str, str]]:
    best = int(problem.utilities.argmax())
    measured, highest = (_PERCENT * float(problem.utilities[i]) for i in (index, best))
    fractions = ", ".join(f"{name} {x:.3f}" for name, x in zip(_ELEMENTS, item, strict=True))
    return [
        ("recommended", f"{problem.names[index]} ({fractions})"),
        (
            "measured yield",
            f"{measured:.2f} % hydrogen, {_rank(problem, index)} (the best: {highest:.2f} %, "
            f"{problem.names[best]})",
        ),
    ]


def _vector(item: Tensor) -> str:
    return "(" + ", ".join(f"{x:.4f}" for x in item.tolist()) + ")"
