"""What the answers of others are worth to a person: a cheap judge, and who answered before.

A person's utility is to be maximised. *Judges*: another judge, at a fifth of the price, has the
same utility but likes one corner that the person does not, by four standard deviations. The
strategy asks the person alone, the cheap one alone, or whom it pays to ask (``prices``). *Before*:
it asks the person alone, and knows nothing, 30 answers of someone who has the same utility, or of
someone whose utility is mirrored in all dimensions. What is measured is the share of the space that
is better than the recommendation, after the price of 8 and of 16 answers of the person.
Run it with ``python -m experiments others``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import joblib
import numpy as np
import pandas as pd
import torch
from torch import Tensor

from botorch_pref.problems.base import PreferenceProblem
from botorch_pref.progress import tracked
from botorch_pref.queries import Query
from botorch_pref.randomness import derive_uniform
from botorch_pref.runner import num_threads
from botorch_pref.strategies import DuelingKG, RandomPairs
from experiments.arguments import Parser, add_seeds
from experiments.defaults.loop import SPREAD
from experiments.defaults.strategies import better_share, make_problem

PROBLEMS = ("branin", "hartmann3", "levy5", "quadratic3")
PRICES = {"person": 1.0, "cheap": 0.2}
CASES = ("person alone", "cheap alone", "priced", "knows the same", "knows another")
_MARKS = (8.0, 16.0)
_NUM_BEFORE = 30
_WIDTH = 0.3  # of the corner, in ranges
_LIKED = 4.0  # by how many standard deviations


class Loop(NamedTuple):
    """One study of a person."""

    problem: str
    case: str
    seed: int

    @num_threads()
    def run(self) -> list[dict[str, str | int | float]]:
        """A row for each mark."""
        problem = make_problem(self.problem)
        share, space = better_share(problem), problem.space
        strategy = DuelingKG(space=space, seed=self.seed)
        if self.case == "priced":
            strategy = DuelingKG(space=space, seed=self.seed, prices=PRICES)
        elif self.case.startswith("knows"):
            before = RandomPairs(space=space, seed=self.seed)
            for number in range(_NUM_BEFORE):
                query = before.ask(self.case)
                before.tell(query, self._answer(problem, query, self.case, number))
            known = before.history
            strategy = DuelingKG(space=space, seed=self.seed, known=known, own_utilities=True)
        spent, rows, answers = 0.0, [], dict.fromkeys((*PRICES, None), 0)
        for mark in _MARKS:
            while spent < mark - 1e-9:
                query = strategy.ask()
                who = query.annotator or ("cheap" if self.case == "cheap alone" else "person")
                answers[who] += 1
                strategy.tell(query, self._answer(problem, query, who, answers[who]))
                spent += PRICES[who]
            found = problem(strategy.recommend().unsqueeze(0)).numpy()
            own = {"problem": self.problem, "case": self.case, "seed": self.seed, "spent": mark}
            rows.append({**own, "share": float(share(found)[0]), "of_person": answers["person"]})
        return rows

    def _answer(self, problem: PreferenceProblem, query: Query, who: str, number: int) -> float:
        first, second = utility_of(problem, query.items, who).tolist()
        chance = 1.0 / (1.0 + math.exp(min(second - first, 700.0)))
        return float(derive_uniform(self.seed, f"answer of {who}", number) < chance)


def utility_of(problem: PreferenceProblem, items: Tensor, who: str) -> Tensor:
    """The ``n``-dim utilities that someone has of ``n x d``-dim items."""
    space = problem.space
    if who == "knows another":
        return problem(space.bounds[0] + space.bounds[1] - items)
    utility: Tensor = problem(items)
    if who != "cheap":
        return utility
    corners = torch.cartesian_prod(*[torch.tensor([0.0, 1.0]).double()] * space.dim)
    wrong = corners[problem(torch.lerp(*space.bounds, corners)).argmin()]
    away = (space.normalize(items) - wrong).square().sum(-1)
    return utility + _LIKED * SPREAD * torch.exp(-0.5 * away / _WIDTH**2)


def summary_text(table: pd.DataFrame) -> str:
    """Geometric means of the shares, and paired log ratios to the person alone."""
    rows = []
    for mark, part in table.groupby("spent"):
        wide = np.log(part.pivot_table("share", ["problem", "seed"], "case"))
        people = part.groupby("case")["of_person"].mean()
        for case in CASES:
            gain = wide[case] - wide[CASES[0]]
            row = {"spent": mark, "case": case, "loops": len(wide), "of the person": people[case]}
            row["share"] = f"{math.exp(wide[case].mean()):.3g}"
            rows.append({**row, "to the person alone": f"{gain.mean():+.2f} ± {gain.sem():.2f}"})
    return pd.DataFrame(rows).round(1).to_string(index=False)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table from the command line."""
    parser = Parser(prog="experiments others", description=str(__doc__))
    add_seeds(parser, 5)
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), metavar="NAME")
    parser.add_argument("--out", metavar="CSV", help="save all rows here")
    arguments = parser.parse_args(argv)
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    loops = [Loop(*one) for one in product(arguments.problems, CASES, seeds)]
    runs = joblib.Parallel(n_jobs=arguments.jobs, return_as="generator")(
        joblib.delayed(loop.run)() for loop in loops
    )
    table = pd.DataFrame([row for rows in tracked(runs, "loops", len(loops)) for row in rows])
    if arguments.out:
        table.round(6).to_csv(arguments.out, index=False)
    print(summary_text(table))
    return 0
