r"""The table that chose the default priors: closed loops on public test functions.

Run it with ``python -m experiments defaults --seeds 6 --out table.csv``. The
file is rewritten after every loop, and loops that it already holds are not run again.
What a loop does stands in :mod:`experiments.defaults.loop`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, astuple
from pathlib import Path

import joblib
import numpy as np
import pandas as pd

from botorch_pref.cli.parser import count
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.progress import tracked
from experiments.arguments import Parser, add_seeds, positive
from experiments.defaults.loop import (
    DEFAULT,
    FUNCTIONS,
    MULTIMODAL,
    NUM_INITIAL,
    PAIRWISE_GP,
    SPREAD,
    Cell,
    check_model,
)

# The former default is the first, with which the others are compared.
MODELS = ("rbf:0.21:1.5", "rbf:0.29:4", "rbf:0.4:4", DEFAULT, PAIRWISE_GP)
_KEY = ["function", "spread", "seed", "model", "horizon"]
_GROUP = ["kind", "spread"]
_SHARES = ["share_1", "share_2", "share_3"]


def closed_loop_table(
    functions: Sequence[str] = tuple(FUNCTIONS),
    models: Sequence[str] = MODELS,
    seeds: Sequence[int] = range(6),
    spreads: Sequence[float] = (SPREAD,),
    n_jobs: int = 1,
    horizon: int = 60,
    path: str | Path | None = None,
    progress: bool = True,
) -> pd.DataFrame:
    """Run closed loops, all functions and models of one seed before those of the next.

    Raises:
        UnsupportedError: If a function or a model is unknown, the horizon is less than 12, or the
            file is no such table.
    """
    _check(functions, models, horizon)
    cells = [
        Cell(function, spread, seed, model, horizon)
        for seed in seeds
        for spread in spreads
        for function in functions
        for model in models
    ]
    table = _load(path)
    done = set(table[_KEY].itertuples(index=False, name=None)) if len(table) else set()
    missing = [cell for cell in cells if astuple(cell) not in done]
    runs = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered")(
        joblib.delayed(cell.run)() for cell in missing
    )
    for row in tracked(runs, "closed loops", len(missing), show=progress):
        table = pd.concat([table, pd.DataFrame([row])], ignore_index=True)
        _save(table, path)
    wanted = pd.DataFrame([asdict(cell) for cell in cells], columns=_KEY)
    return wanted.merge(table, on=_KEY) if len(table) else table


def summarise(table: pd.DataFrame) -> pd.DataFrame:
    """Means over functions and seeds, for each kind of functions, spread and model."""
    groups = _with_kind(table).groupby([*_GROUP, "model"], sort=False)
    summary = groups.agg(loops=("seed", "size"))
    for share in _SHARES:
        summary[share] = groups[share].agg(lambda values: np.exp(np.log(values).mean()))
    summary["rank"] = groups["rank"].mean()
    counts = ["fits", "failed_fits", "warned_fits", "failed_asks", "fit_seconds", "ask_seconds"]
    return summary.join(groups[counts].sum()).reset_index()


def paired_ratios(table: pd.DataFrame, share: str = "share_3") -> pd.DataFrame:
    """Log ratios of each model's share of better items to the first model's."""
    first = table["model"].iloc[0]
    rows = []
    for group, part in _with_kind(table).groupby(_GROUP, sort=False):
        wide = part.pivot_table(share, ["function", "seed"], "model", sort=False)
        for model in [name for name in wide.columns if name != first]:
            ratios = (wide[model] / wide[first]).dropna().apply(np.log)
            found = {"log ratio": ratios.mean(), "se": ratios.sem(), "loops": len(ratios)}
            rows.append(dict(zip(_GROUP, group, strict=True)) | {"model": model, **found})
    return pd.DataFrame(rows)


def summary_text(table: pd.DataFrame) -> str:
    """The summaries as text."""
    horizon, first = table["horizon"].iloc[0], table["model"].iloc[0]
    thirds = " / ".join(str(horizon * (i + 1) // 3) for i in range(3))
    parts = {
        f"Share of the box better than the recommendation after {thirds} duels (geometric mean), "
        "and summed share better than what was asked": summarise(table),
        f"Log ratios to {first} after {horizon} duels, paired": paired_ratios(table),
    }
    return "\n\n".join(
        f"{title}\n{part.to_string(index=False, float_format='{:.3g}'.format)}"
        for title, part in parts.items()
    )


def _with_kind(table: pd.DataFrame) -> pd.DataFrame:
    kind = np.where(table["function"].isin([*MULTIMODAL]), "multimodal", "smooth")
    return table.assign(kind=kind)


def _check(functions: Sequence[str], models: Sequence[str], horizon: int) -> None:
    for name in functions:
        if name not in FUNCTIONS:
            raise UnsupportedError(f"unknown function {name!r}; there are {', '.join(FUNCTIONS)}.")
    for name in models:
        check_model(name)
    least = 3 * NUM_INITIAL  # each third of the duels ends after the initial ones
    if horizon < least:
        raise UnsupportedError(f"horizon must be at least {least}, got {horizon}.")


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
    """Run the table from the command line."""
    parser = Parser(
        prog="experiments defaults",
        description="Closed loops on public test functions, which chose the default priors.",
    )
    add_seeds(parser, 6)
    parser.add_argument("--horizon", type=count, default=60, help="duels a loop")
    parser.add_argument("--functions", nargs="+", default=list(FUNCTIONS), metavar="NAME")
    parser.add_argument(
        "--models",
        nargs="+",
        default=list(MODELS),
        metavar="MODEL",
        help=f"{DEFAULT}, {PAIRWISE_GP}, or a kernel and the modes of its priors; the others are "
        f"compared with the first; default: {' '.join(MODELS)}",
    )
    parser.add_argument(
        "--spreads",
        nargs="+",
        type=positive,
        default=[SPREAD],
        metavar="S",
        help="standard deviations of the utilities in logits; default: 3",
    )
    parser.add_argument("--out", metavar="CSV", help="resume from and save to this file")
    arguments = parser.parse_args(argv)
    first = arguments.first_seed
    try:
        table = closed_loop_table(
            functions=arguments.functions,
            models=arguments.models,
            seeds=range(first, first + arguments.seeds),
            spreads=arguments.spreads,
            n_jobs=arguments.jobs,
            horizon=arguments.horizon,
            path=arguments.out,
        )
    except (UnsupportedError, OSError) as error:
        parser.error(str(error))
    print(summary_text(table))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
