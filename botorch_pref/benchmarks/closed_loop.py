r"""The table that chose the default model: closed loops on public test functions.

Run it with ``botorch-pref bench defaults --seeds 3 --out table.csv``. The
file is written anew after every loop, and loops that it already holds are not run again.
What a loop does stands in :mod:`botorch_pref.benchmarks.loop`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, astuple
from pathlib import Path

import joblib
import pandas as pd
from tqdm import tqdm

from botorch_pref.benchmarks.loop import FUNCTIONS, MODELS, NUM_INITIAL, RULES, Cell
from botorch_pref.cli.parser import Parser, count, jobs
from botorch_pref.exceptions import UnsupportedError

# Models with the rules they are run under. PairwiseGP has no pathwise draws for PF-TS.
ARMS = (
    ("matern", "eubo"),
    ("rbf", "eubo"),
    ("pairwise-gp", "eubo"),
    ("matern", "pf-ts"),
    ("rbf", "pf-ts"),
)
_KEY = ["function", "seed", "model", "rule", "horizon"]
_METRICS = ["relative_regret", "relative_duel_regret", "duel_regret"]


def closed_loop_table(
    functions: Sequence[str] = tuple(FUNCTIONS),
    arms: Sequence[tuple[str, str]] = ARMS,
    seeds: Sequence[int] = range(3),
    n_jobs: int = 1,
    horizon: int = 60,
    path: str | Path | None = None,
    progress: bool = True,
) -> pd.DataFrame:
    r"""Run closed loops, all functions and arms of one seed before those of the next.

    Args:
        functions: Keys of :data:`~botorch_pref.benchmarks.loop.FUNCTIONS`.
        arms: Pairs of a model and a rule, keys of ``MODELS`` and ``RULES`` there.
        seeds: The seeds. Arms meet the same initial pairs and judge under one seed.
        n_jobs: The number of processes, each on one thread.
        horizon: The number of duels, the four initial ones included.
        path: A CSV file to resume from and to save to after every loop.
        progress: Whether to show a progress bar.

    Returns:
        One row a loop: its key, regrets, counts of fits and failures, CPU seconds.

    Raises:
        UnsupportedError: If a function, a model or a rule is unknown, the horizon
            leaves no duel to choose, or the file is no such table.
    """
    _check(functions, arms, horizon)
    cells = [
        Cell(function, seed, model, rule, horizon)
        for seed in seeds
        for function in functions
        for model, rule in arms
    ]
    table = _load(path)
    done = set(table[_KEY].itertuples(index=False, name=None)) if len(table) else set()
    missing = [cell for cell in cells if astuple(cell) not in done]
    runs = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered")(
        joblib.delayed(cell.run)() for cell in missing
    )
    for row in tqdm(runs, "closed loops", len(missing), disable=not progress):
        table = pd.concat([table, pd.DataFrame([row])], ignore_index=True)
        _save(table, path)
    wanted = pd.DataFrame([asdict(cell) for cell in cells], columns=_KEY)
    return wanted.merge(table, on=_KEY) if len(table) else table


def summarise(table: pd.DataFrame) -> pd.DataFrame:
    r"""Mean and standard error over seeds, for each function and arm.

    Args:
        table: What :func:`closed_loop_table` returns.

    Returns:
        A row for each function and arm, with the number of seeds.
    """
    groups = table.groupby(["function", "model", "rule"], sort=False)
    summary = groups.agg(dim=("dim", "first"), seeds=("seed", "nunique"))
    for metric in ("regret", *_METRICS):
        summary[metric] = groups[metric].mean()
        summary[f"{metric}_se"] = groups[metric].sem()
    return summary.reset_index()


def overall(table: pd.DataFrame) -> pd.DataFrame:
    r"""Means over all functions, failures and CPU time, for each arm.

    Args:
        table: What :func:`closed_loop_table` returns.

    Returns:
        A row for each arm. Functions weigh the same, whatever their number of seeds.
    """
    per_function = table.groupby(["model", "rule", "function"], sort=False)[_METRICS].mean()
    means = per_function.groupby(level=["model", "rule"], sort=False).mean()
    columns = ["fits", "failed_fits", "warned_fits", "failed_asks", "identical"]
    columns += ["fit_seconds", "ask_seconds"]
    arms = table.groupby(["model", "rule"], sort=False)
    return means.join(arms[columns].sum()).join(arms.size().rename("loops")).reset_index()


def paired_differences(table: pd.DataFrame, metric: str = "relative_regret") -> pd.DataFrame:
    r"""Differences of each two models under one rule, where both met the same judge.

    Args:
        table: What :func:`closed_loop_table` returns.
        metric: The column that is compared; small is good.

    Returns:
        A row for each rule and two models: the mean of ``first - second`` over
        functions, and two standard errors of it. ``se_seeds`` takes the functions as
        given and only the seeds as random (it needs two of them); ``se_functions`` takes
        the functions as a sample of those that users have.
    """
    rows = []
    for rule, of_rule in table.groupby("rule", sort=False):
        wide = of_rule.pivot_table(metric, ["function", "seed"], "model", sort=False)
        names = list(wide.columns)
        for i, first in enumerate(names):
            for second in names[i + 1 :]:
                difference = (wide[first] - wide[second]).dropna()
                groups = difference.groupby(level="function")
                num = groups.ngroups
                rows.append(
                    {
                        "rule": rule,
                        "first": first,
                        "second": second,
                        "difference": groups.mean().mean(),
                        "se_seeds": groups.sem().pow(2).sum(skipna=False) ** 0.5 / num,
                        "se_functions": groups.mean().sem(),
                        "loops": len(difference),
                    }
                )
    return pd.DataFrame(rows)


def summary_text(table: pd.DataFrame) -> str:
    r"""The summaries as text.

    Args:
        table: What :func:`closed_loop_table` returns.

    Returns:
        Several lines, without a final newline.
    """
    cells = summarise(table)
    cells["arm"] = cells["model"] + " " + cells["rule"]
    cells["text"] = [
        f"{mean:.3f} ± {se:.3f}"
        for mean, se in zip(cells["relative_regret"], cells["relative_regret_se"], strict=True)
    ]
    wide = cells.pivot_table("text", ["function", "dim"], "arm", aggfunc="first", sort=False)
    parts = {
        "Relative regret of the recommendation (0 best, 1 average), mean ± se over seeds": (
            wide.reset_index()
        ),
        "All functions": overall(table),
        "Paired differences of the recommendation's relative regret": paired_differences(table),
        "Paired differences of the duels' relative regret": paired_differences(
            table, "relative_duel_regret"
        ),
    }
    return "\n\n".join(
        f"{title}\n{part.to_string(index=False, float_format='{:.4g}'.format)}"
        for title, part in parts.items()
    )


def _check(functions: Sequence[str], arms: Sequence[tuple[str, str]], horizon: int) -> None:
    models, rules = [model for model, _ in arms], [rule for _, rule in arms]
    for kind, names, known in (
        ("function", functions, FUNCTIONS),
        ("model", models, MODELS),
        ("rule", rules, RULES),
    ):
        for name in names:
            if name not in known:
                raise UnsupportedError(f"unknown {kind} {name!r}; there are {', '.join(known)}.")
    if horizon <= NUM_INITIAL:
        raise UnsupportedError(f"horizon must be more than {NUM_INITIAL}, got {horizon}.")


def _load(path: str | Path | None) -> pd.DataFrame:
    if path is None or not Path(path).exists():
        return pd.DataFrame()
    table = pd.read_csv(path)
    if not set(_KEY) <= set(table.columns):
        raise UnsupportedError(f"{path} is no table of closed loops; it is left as it is.")
    return table


def _save(table: pd.DataFrame, path: str | Path | None) -> None:
    if path is None:
        return
    # Replaced as a whole, so that a run that is killed leaves a table behind.
    partial = Path(f"{path}.part")
    table.to_csv(partial, index=False)
    os.replace(partial, path)


def main(argv: Sequence[str] | None = None) -> int:
    r"""Run the table from the command line.

    Args:
        argv: The arguments; those of the process if omitted.

    Returns:
        The exit status.
    """
    parser = Parser(
        prog="botorch-pref bench defaults",
        description="Closed loops on public test functions, which chose the default model.",
    )
    parser.add_argument("--seeds", type=count, default=3, help="number of seeds")
    parser.add_argument("--jobs", type=jobs, default=1, help="number of processes")
    parser.add_argument("--horizon", type=count, default=60, help="duels a loop")
    parser.add_argument("--functions", nargs="+", default=list(FUNCTIONS), metavar="NAME")
    parser.add_argument(
        "--arms",
        nargs="+",
        default=[":".join(arm) for arm in ARMS],
        metavar="MODEL:RULE",
        help=f"models {', '.join(MODELS)}; rules {', '.join(RULES)}",
    )
    parser.add_argument("--out", metavar="CSV", help="resume from and save to this file")
    arguments = parser.parse_args(argv)
    try:
        table = closed_loop_table(
            functions=arguments.functions,
            arms=[_arm(text) for text in arguments.arms],
            seeds=range(arguments.seeds),
            n_jobs=arguments.jobs,
            horizon=arguments.horizon,
            path=arguments.out,
        )
    except (UnsupportedError, OSError) as error:
        parser.error(str(error))
    print(summary_text(table))
    return 0


def _arm(text: str) -> tuple[str, str]:
    model, _, rule = text.partition(":")
    return model, rule


if __name__ == "__main__":
    raise SystemExit(main())
