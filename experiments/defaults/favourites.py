r"""People with a hidden favourite: how near the recommended item comes, and how sure it is.

A favourite is a uniform draw from a box. A simulated person prefers the nearer of two items, for
certain where one of them is far nearer: in units of the box's sides the first of two items at
distances ``a`` and ``b`` wins with the probability ``1 / (1 + exp((a - b) / noise))``. The study is
the one behind ``botorch-pref ask``. Errors are the largest of all dimensions, in shares of the
sides. "Sure" is the probability that the dialogue puts into words, that no item asked would
noticeably win against the recommended one; "so" is how often that is true.
Run it with ``python -m experiments favourites --seeds 40``.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import joblib
import pandas as pd
import torch

from botorch_pref.progress import tracked
from botorch_pref.randomness import derive_seed, derive_uniform
from botorch_pref.runner import num_threads
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import DuelingKG, RandomPairs
from botorch_pref.study import Study
from experiments.arguments import Parser, add_seeds

STRATEGIES = {"dueling-kg": DuelingKG, "random": RandomPairs}
NOISES = {"hardly any": 0.005, "some": 0.05, "much": 0.15}
DIMENSIONS = (2, 4)
_MARKS = (10, 15, 20, 25)


class Person(NamedTuple):
    """One person, who answers one strategy."""

    dim: int
    noise: str
    seed: int
    strategy: str

    @num_threads()
    def run(self) -> list[dict[str, str | int | float]]:
        """A row for each mark."""
        generator = torch.Generator().manual_seed(derive_seed(self.seed, "favourite", self.dim))
        favourite = torch.rand(self.dim, generator=generator, dtype=torch.double)
        space = SearchSpace(torch.tensor([[0.0], [1.0]]).double().expand(2, self.dim))
        strategy = STRATEGIES[self.strategy](space=space, seed=self.seed)
        noise, rows = NOISES[self.noise], []
        with (
            tempfile.TemporaryDirectory() as folder,
            Study.create(Path(folder) / "study.json", space, strategy) as study,
        ):
            noticeable = noise * math.log((0.5 + study.stopping.margin) / 0.4)
            for number in range(1, max(_MARKS) + 1):
                query = study.ask()
                near, far = (query.items - favourite).norm(dim=-1).tolist()
                chance = 1.0 / (1.0 + math.exp(min((near - far) / noise, 700.0)))
                uniform = derive_uniform(self.seed, "answer", number)
                study.tell(query, float(uniform < chance))
                if number in _MARKS:
                    found = study.recommend()
                    away = float((found.item - favourite).norm())
                    asked = (study.strategy.asked_items() - favourite).norm(dim=-1)
                    row = self._asdict() | {"answers": number}
                    row["error"] = float((found.item - favourite).abs().max())
                    row["sure"] = float(found.good_enough or 0.0)
                    row["so"] = float(away - asked.min() <= noticeable)
                    rows.append(row)
        return rows


def summary_text(table: pd.DataFrame) -> str:
    """Medians and 90 % quantiles of errors in percent, and how sure and how often so."""
    groups = table.groupby(["dim", "noise", "strategy", "answers"], sort=False)
    errors = 100.0 * groups["error"].quantile([0.5, 0.9]).unstack()
    summary = pd.DataFrame({"people": groups.size()})
    summary["error, %"] = [f"{half:.1f} ({most:.1f})" for half, most in errors.to_numpy()]
    for name in ("sure", "so"):
        means, error = groups[name].mean(), groups[name].sem()
        pairs = zip(means, error, strict=True)
        summary[name] = [f"{mean:.2f} ± {one:.2f}" for mean, one in pairs]
    return summary.reset_index().to_string(index=False)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table from the command line."""
    parser = Parser(prog="experiments favourites", description=str(__doc__))
    add_seeds(parser, 40)
    parser.add_argument("--dims", nargs="+", type=int, default=list(DIMENSIONS), metavar="D")
    parser.add_argument("--out", metavar="CSV", help="save all rows here")
    arguments = parser.parse_args(argv)
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    people = [Person(*one) for one in product(arguments.dims, NOISES, seeds, STRATEGIES)]
    runs = joblib.Parallel(n_jobs=arguments.jobs, return_as="generator")(
        joblib.delayed(person.run)() for person in people
    )
    table = pd.DataFrame([row for rows in tracked(runs, "people", len(people)) for row in rows])
    if arguments.out:
        table.to_csv(arguments.out, index=False)
    print(summary_text(table))
    return 0
