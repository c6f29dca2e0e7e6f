r"""How much of the posterior's spread PF-TS should draw, with learnt hyperparameters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from joblib import Parallel, delayed

from botorch_pref.cli.parser import count
from botorch_pref.problems import Ackley, Catalyst, LogisticJudge, RKHSFunction
from botorch_pref.problems.base import PreferenceProblem
from botorch_pref.progress import tracked
from botorch_pref.runner import num_threads, simulate
from botorch_pref.strategies import PFTS
from experiments.arguments import Parser, jobs

SCALES = (1.0, 0.5, 0.25)


def problems() -> dict[str, PreferenceProblem]:
    """The finite problems of the measurement."""
    return {
        "catalyst": Catalyst(),
        "ackley": Ackley(num_choices=40),
        "rkhs x5": RKHSFunction(scale=5.0),
    }


def tempering_table(
    seeds: int = 20, horizon: int = 100, scales: Sequence[float] = SCALES, jobs: int = 1
) -> pd.DataFrame:
    """The table behind ``python -m experiments tempering``."""
    arms = [*(f"{scale:g}" for scale in scales), "paper"]
    cells = [(name, arm, seed) for name in problems() for arm in arms for seed in range(seeds)]
    rows = Parallel(n_jobs=jobs, return_as="generator")(
        delayed(_run)(*cell, horizon) for cell in cells
    )
    table = pd.DataFrame([*tracked(rows, "runs", len(cells))])
    return table.groupby(["problem", "scale"], sort=False).agg(["mean", "sem"]).reset_index()


def _run(name: str, arm: str, seed: int, horizon: int) -> dict[str, object]:
    problem = problems()[name]
    if arm == "paper":
        strategy = PFTS.paper(choices=problem.choices, seed=seed, on_identical="resample")
    else:
        strategy = PFTS(choices=problem.choices, seed=seed, scale=float(arm))
    judge = LogisticJudge(problem, seed=seed)
    with num_threads():
        history = simulate(
            strategy, problem, judge, horizon, progress=False, recommend_every=horizon
        )
    return {
        "problem": name,
        "scale": arm,
        "cumulative": history.cumulative_regret,
        "recommendation": float(history.table["recommendation_regret"].iloc[-1]),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """``python -m experiments tempering``."""
    parser = Parser(prog="experiments tempering", description=str(__doc__))
    parser.add_argument("--seeds", type=count, default=20, help="runs a row (default 20)")
    parser.add_argument("--horizon", type=count, default=100, help="duels (default 100)")
    parser.add_argument("--jobs", type=jobs, default=1, help="processes (default 1)")
    parser.add_argument("--out", type=Path, help="also write the table to this CSV file")
    arguments = parser.parse_args(argv)
    if arguments.seeds < 2:
        parser.error("argument --seeds: must be at least 2")
    table = tempering_table(arguments.seeds, arguments.horizon, jobs=arguments.jobs)
    print(table.to_string(index=False, float_format=lambda value: f"{value:.3g}"))
    if arguments.out is not None:
        table.to_csv(arguments.out, index=False)
    return 0
