"""Closed loops with five people of different reliability, told apart and pooled.

They have one utility, and reliabilities of 0.3, 0.6, 1, 1.7 and 3; the last but one answers by
chance half of the time. They answer in turn. ``known`` names who answers, ``pooled`` does not. What
is measured is the share of the space that is better than the recommendation, every 20 answers.
Run it with ``python -m experiments people``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import joblib
import numpy as np
import pandas as pd

from botorch_pref.cli.parser import count
from botorch_pref.progress import tracked
from botorch_pref.randomness import derive_uniform
from botorch_pref.runner import num_threads
from botorch_pref.strategies.registry import get_strategy
from experiments.arguments import Parser, add_seeds
from experiments.defaults.strategies import better_share, make_problem

PEOPLE = {"ann": (0.3, 0.0), "bo": (0.6, 0.0), "cy": (1.0, 0.0), "di": (1.7, 0.5), "ed": (3.0, 0.0)}
"""Reliability and lapse rate."""
PROBLEMS = ("hartmann3", "levy5", "quadratic3", "hartmann3-150")
_EVERY = 20


class Loop(NamedTuple):
    """One study of five people."""

    problem: str
    strategy: str
    known: bool
    seed: int
    horizon: int

    @num_threads()
    def run(self) -> list[dict[str, str | int | float]]:
        """A row for every 20 answers."""
        problem = make_problem(self.problem)
        strategy = get_strategy(self.strategy, problem.space, seed=self.seed, horizon=self.horizon)
        share, rows = better_share(problem), []
        for number in range(1, self.horizon + 1):
            name = [*PEOPLE][number % len(PEOPLE)]
            query = strategy.ask(name if self.known else None)
            reliability, lapse = PEOPLE[name]
            first, second = problem(query.items).tolist()
            chance = 1.0 / (1.0 + math.exp(min(reliability * (second - first), 700.0)))
            chance = (1.0 - lapse) * chance + 0.5 * lapse
            won = derive_uniform(self.seed, "answer", number) < chance
            strategy.tell(query, float(won))
            if number % _EVERY == 0:
                found = problem(strategy.recommend().unsqueeze(0)).numpy()
                own = {"problem": self.problem, "strategy": self.strategy, "seed": self.seed}
                own |= {"people": "known" if self.known else "pooled", "answers": number}
                rows.append({**own, "share": float(share(found)[0])})
        return rows


def summary_text(table: pd.DataFrame) -> str:
    """Geometric means of the shares, and the paired log ratio of known to pooled people."""
    rows = []
    for (strategy, number), part in table.groupby(["strategy", "answers"], sort=False):
        wide = np.log(part.pivot_table("share", ["problem", "seed"], "people"))
        gain = wide["known"] - wide["pooled"]
        row = {"strategy": strategy, "answers": number, "loops": len(wide)}
        row |= {name: f"{math.exp(wide[name].mean()):.3g}" for name in ("known", "pooled")}
        rows.append({**row, "log ratio": f"{gain.mean():+.2f} ± {gain.sem():.2f}"})
    needed, error = answers_needed(table)
    return (
        f"{pd.DataFrame(rows).to_string(index=False)}\n"
        f"answers of known people to be as near as pooled ones at the end: "
        f"{needed:.1f} ± {error:.1f}"
    )


def answers_needed(table: pd.DataFrame) -> tuple[float, float]:
    """How many answers of known people lead as far as all of pooled ones, and a standard error.

    Between the numbers of answers the geometric mean of the share is taken to fall evenly. The
    error is that of 2,000 samples of the loops with replacement.
    """
    wide = np.log(table.pivot_table("share", ["problem", "seed"], ["people", "answers"]))
    numbers, draw = wide["known"].columns.to_numpy(), np.random.default_rng(0)

    def needed(rows: np.ndarray) -> float:
        means = wide.iloc[rows].mean()
        best = np.minimum.accumulate(means["known"].to_numpy())
        return float(np.interp(-means["pooled"].iloc[-1], -best, numbers))

    size = len(wide)
    samples = [needed(draw.integers(0, size, size)) for _ in range(2000)]
    return needed(np.arange(size)), float(np.std(samples))


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table from the command line."""
    parser = Parser(prog="experiments people", description=str(__doc__))
    add_seeds(parser, 20)
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), metavar="NAME")
    parser.add_argument("--strategies", nargs="+", default=["dueling-kg"], metavar="NAME")
    parser.add_argument("--horizon", type=count, default=60, help="answers a loop; default: 60")
    parser.add_argument("--out", metavar="CSV", help="save all rows here")
    arguments = parser.parse_args(argv)
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    cases = product(arguments.problems, arguments.strategies, (True, False), seeds)
    loops = [Loop(*case, arguments.horizon) for case in cases]
    runs = joblib.Parallel(n_jobs=arguments.jobs, return_as="generator")(
        joblib.delayed(loop.run)() for loop in loops
    )
    table = pd.DataFrame([row for rows in tracked(runs, "loops", len(loops)) for row in rows])
    if arguments.out:
        table.round(6).to_csv(arguments.out, index=False)
    print(summary_text(table))
    return 0
