r"""``botorch-pref run``: simulate a strategy on a problem, print and save what came of it."""

from __future__ import annotations

import argparse
import errno
import sys
import tempfile
from pathlib import Path

import torch
from botorch.exceptions.errors import BotorchError
from torch import Tensor

from botorch_pref.cli.parser import INTERRUPTED, UsageError
from botorch_pref.plotting.drawing import save_figure
from botorch_pref.plotting.regret import plot_regret
from botorch_pref.problems.base import PreferenceProblem
from botorch_pref.problems.catalyst import Catalyst
from botorch_pref.problems.judges import LogisticJudge
from botorch_pref.problems.registry import get_problem
from botorch_pref.problems.synthetic import SyntheticProblem
from botorch_pref.progress import notice, tracked
from botorch_pref.queries import Duel
from botorch_pref.randomness import derive_seed
from botorch_pref.runner.simulation import History, random_play, seeds_of_run, simulate
from botorch_pref.runner.store import replacing
from botorch_pref.strategies.random_pairs import RandomPairs
from botorch_pref.strategies.registry import DEFAULT_STRATEGY, get_strategy

_HISTORY, _PLOT = "history.csv", "regret.png"
_PERCENT = 10.0  # of hydrogen yield: one unit of the catalyst's utility
_ELEMENTS = ("silver", "gold", "zinc")
_RANDOM_RUNS = 10
_NOUNS = {"duel": "duel", "choice": "choice", "label": "label", "evaluate": "value"}


def run(args: argparse.Namespace) -> int:
    """Run the command; the exit status is 0, or 130 if the simulation was interrupted."""
    torch.set_num_threads(1)  # more than one slow small problems down
    args.strategy = args.strategy or DEFAULT_STRATEGY
    judge_seed, strategy_seed = seeds_of_run(args.seed)
    try:
        with notice("starting ..."):
            problem = get_problem(args.problem, **({} if args.dim is None else {"dim": args.dim}))
            random_regret = random_play(problem)  # which fails if the maximum is not known
            strategy = get_strategy(
                args.strategy,
                problem.space,
                seed=strategy_seed,
                horizon=args.horizon,
                preset=args.preset,
            )
    except (BotorchError, ValueError) as error:
        raise UsageError(str(error)) from error
    folder = _writable_folder(args)
    history = simulate(
        strategy,
        problem,
        LogisticJudge(problem, seed=judge_seed),
        args.horizon,
        interruptible=True,
        random_regret=random_regret,
        name=args.strategy,
    )
    if not history.num_duels:
        print("interrupted before the first query was answered; nothing was saved", file=sys.stderr)
        return INTERRUPTED
    title, unit, scale = _title(history, problem, args), "units of utility", 1.0
    if isinstance(problem, Catalyst):
        unit, scale = "percentage points of yield", _PERCENT
    try:
        table = folder / _HISTORY
        with replacing(table) as temporary:
            history.table.to_csv(temporary, index=False)
        with notice("drawing ..."):
            figure = plot_regret(history, title=title, utility_unit=unit, utility_scale=scale)
            plot = save_figure(figure, folder / _PLOT)
    except OSError as error:
        raise UsageError(f"cannot write to {str(folder)!r}: {error.strerror}") from error
    if history.num_duels < history.horizon:
        asked = "duels" if history.table["kind"].eq(Duel.kind).all() else "queries"
        print(
            f"interrupted after {history.num_duels} of {history.horizon} {asked}; what was done is "
            f"saved in {plot} and {table}",
            file=sys.stderr,
        )
        return INTERRUPTED
    lines = {"run": title, **_report(history, problem, args)}
    lines |= {"regret plot": str(plot), "history": str(table)}
    print("\n".join(f"{name:<18} {text}" for name, text in lines.items()))
    return 0


def _writable_folder(args: argparse.Namespace) -> Path:
    """The folder for the results, which can be written before anything is asked."""
    parts = [
        args.problem.lower(),
        f"{args.dim}d" if args.dim is not None else "",
        args.strategy,
        args.preset if args.preset != "practical" else "",
        f"seed{args.seed}",
    ]
    folder: Path = args.out or Path("botorch_pref_runs") / "-".join(filter(None, parts))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in (_HISTORY, _PLOT):
            if (folder / name).is_dir():
                raise IsADirectoryError(errno.EISDIR, f"{name} is a folder there")
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UsageError(f"cannot write to {str(folder)!r}: {error.strerror}") from error
    return folder


def _title(history: History, problem: PreferenceProblem, args: argparse.Namespace) -> str:
    """What was run and asked, as in ``"branin, eubo, 90 duels, seed 0"``."""
    counts = history.table["kind"].value_counts(sort=False)
    parts = [f"{count} {_NOUNS[str(kind)]}{'s' * (count > 1)}" for kind, count in counts.items()]
    if "cost" in history.table and (cost := history.table["cost"].iloc[-1]):
        parts.append(f"cost {cost:.6g}")
    preset = f" ({args.preset})" if args.preset != "practical" else ""
    return ", ".join([problem.name, args.strategy + preset, *parts, f"seed {args.seed}"])


def _report(
    history: History, problem: PreferenceProblem, args: argparse.Namespace
) -> dict[str, str]:
    """The lines of the report, by their names."""
    number, kinds = history.num_duels, history.table["kind"]
    duels = history.table[kinds.eq(Duel.kind)]
    lines = {}
    if len(duels):
        better = duels["first_utility"] - duels["second_utility"]
        wrong = int((better * (duels["answer"] - 0.5) < 0.0).sum())
        text = f"simulated with noise: {wrong} of {len(duels)} duels went to the worse item"
        lines["answers"] = text
    lines |= _recommendation(history, problem)
    if args.strategy != "random" and len(duels) == number:
        lines["random pairs"] = _random_pairs(history, problem, args.seed)
    random = number * history.random_regret
    lines["cumulative regret"] = (
        f"{history.cumulative_regret:.2f} (random: {random:.2f}); low where good items were shown"
    )
    if same := history.num_identical:
        lines["the same item"] = f"shown twice in {same} of {len(duels)} duels"
    noun = _NOUNS[kinds.iloc[0]] if kinds.nunique() == 1 else "query"
    each = 1000 * history.seconds / number
    lines["time"] = f"{history.seconds:.1f} s ({each:.0f} ms a {noun})"
    return lines


def _random_pairs(history: History, problem: PreferenceProblem, seed: int) -> str:
    """What the same number of random duels leads to."""
    found = []
    for run in tracked(range(_RANDOM_RUNS), "random pairs", _RANDOM_RUNS, unit="run", delay=1.0):
        judge_seed, strategy_seed = seeds_of_run(derive_seed(seed, "random pairs", run))
        random = simulate(
            RandomPairs(space=problem.space, seed=strategy_seed),
            problem,
            LogisticJudge(problem, seed=judge_seed),
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
        text = f"{_PERCENT * mean:.1f} ± {_PERCENT * error:.1f} %"
    text += f" after {history.num_duels} duels ({_RANDOM_RUNS} runs"
    if problem.choices is not None:
        best = sum(utility == problem.optimal_value for utility in found)
        text += f"; {best} found the best"
    return f"{text})"


def _recommendation(history: History, problem: PreferenceProblem) -> dict[str, str]:
    row = history.recommended
    assert row is not None  # the last duel of a complete history has one
    item = torch.tensor([float(row[f"recommended_x{i + 1}"]) for i in range(problem.dim)])
    rank = ""
    if problem.choices is not None:
        index = int(row["recommended_index"])
        better = int((problem.utilities > problem.utilities[index]).sum())
        rank = f", rank {better + 1} of {len(problem.utilities)}"
    if isinstance(problem, Catalyst):
        best = int(problem.utilities.argmax())
        measured, highest = (_PERCENT * float(problem.utilities[i]) for i in (index, best))
        fractions = ", ".join(f"{name} {x:.3f}" for name, x in zip(_ELEMENTS, item, strict=True))
        text = f"{measured:.2f} %{rank} (best: {highest:.2f} %, {problem.names[best]})"
        return {"recommended": f"{problem.names[index]} ({fractions})", "hydrogen yield": text}
    lines = {"recommended item": _vector(item)}
    if isinstance(problem, SyntheticProblem) and problem.unit_cube:
        lower, upper = problem.function.get_buffer("bounds")
        lines["in its own units"] = _vector(torch.lerp(lower, upper, item.to(lower)))
    largest = problem.optimal_value
    utility = largest - float(row["recommendation_regret"])
    lines["utility"] = f"{utility:.4g}{rank} (the best: {largest:.4g})"
    return lines


def _vector(item: Tensor) -> str:
    return "(" + ", ".join(f"{x:.4f}" for x in item.tolist()) + ")"
