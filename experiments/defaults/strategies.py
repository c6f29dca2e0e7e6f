r"""The closed loops that chose the default strategy.

A strategy asks simulated judges duels; every 15 of them it recommends an item. Utilities have a
standard deviation of ``spread`` logits over the space: 1 is hard noise, 18 nearly none. All that is
measured is the share of the space that is better than an item: of the recommendations, and, summed
over the duels, of the items that were asked on the way.

Seeds below 100 are for choosing, seeds from 100 on for reporting. The rule was developed on the
problems of ``CHOOSING`` alone; its two priors on some of the others, too, which ``RESULTS.md``
names. Run it with ``python -m experiments strategies``; what is in the folder already is not run
again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.stats import ttest_1samp
from torch import Tensor

from botorch_pref.cli.parser import count
from botorch_pref.problems import Catalyst, get_problem
from botorch_pref.problems.base import PreferenceProblem, TableProblem
from botorch_pref.runner import run_experiment
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import (
    EUBO,
    MRLPF,
    PFTS,
    POPBO,
    DuelingKG,
    LaplacePOPBO,
    MaxMinLCBStrategy,
    RandomPairs,
)
from experiments.arguments import RESULTS, Parser, add_seeds, positive
from experiments.baselines.pairwise_gp import PairwiseEUBO, PairwiseQEUBO
from experiments.defaults.loop import SPREAD, Bowl, StandardisedProblem, WeightedSum


def optuna_sampler(problem: PreferenceProblem, seed: int) -> Any:
    """Optuna Dashboard's own sampler, on a box."""
    from experiments.optuna.problems import ShownProblem
    from experiments.optuna.study import played_study  # needs the extra

    return played_study("built-in", ShownProblem(problem), seed)


STRATEGIES: dict[str, Callable[..., Any]] = {
    "eubo-incumbent": partial(EUBO, anchor="incumbent"),
    "dueling-kg": DuelingKG,
    "dueling-kg-best-of-4": partial(DuelingKG, question="best of 4"),
    "dueling-kg-rank-3": partial(DuelingKG, question="rank 3"),
    "dueling-kg-grade-5": partial(DuelingKG, question="grade 5"),
    "eubo": EUBO,
    "pf-ts": PFTS,
    "eubo-incumbent-samples": partial(EUBO, anchor="incumbent", hyperparameters="samples"),
    "dueling-kg-samples": partial(DuelingKG, hyperparameters="samples"),
    "pf-ts-samples": partial(PFTS, hyperparameters="samples"),
    "max-min-lcb-samples": partial(MaxMinLCBStrategy, hyperparameters="samples"),
    "pop-bo": POPBO,
    "pop-bo-laplace": LaplacePOPBO,
    "mr-lpf": MRLPF,
    "max-min-lcb": MaxMinLCBStrategy,
    "random": RandomPairs,
    "pairwise-gp": PairwiseEUBO,
    "pairwise-gp-qeubo": PairwiseQEUBO,
    "optuna": optuna_sampler,
    **{f"{kind.__name__}.paper": kind.paper for kind in (PFTS, MRLPF, MaxMinLCBStrategy)},
}
_REFERENCE = 2**16
_EVERY = 15  # duels between recommendations
_EQUAL = 1e-9  # of utilities


class Steps(PreferenceProblem):
    r"""A bowl in five steps: most duels near each other are between equal items."""

    _optimal_value = 0.0

    def __init__(self, dim: int) -> None:
        super().__init__(bounds=[(0.0, 1.0)] * dim)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        number = torch.arange(1, self.dim + 1).to(X)
        centre = 0.5 + 0.3 * torch.sin(2.0 * number)
        return -(10.0 * (X - centre).square().mean(-1).sqrt()).floor().clamp_max(5.0)


class Wave(PreferenceProblem):
    r"""A slope with waves of one number: six maxima, of which the fifth is the best."""

    def __init__(self) -> None:
        super().__init__(bounds=[(0.0, 1.0)])
        fine = torch.linspace(0.0, 1.0, 2**20, dtype=torch.double).unsqueeze(-1)
        self._optimal_value = float(self._evaluate_true(fine).max())

    def _evaluate_true(self, X: Tensor) -> Tensor:
        x = X.squeeze(-1)
        return torch.sin(35.0 * x) - 4.0 * (x - 0.75).square()


class Needle(PreferenceProblem):
    r"""A gentle slope, and a peak whose foot is 0.12 wide."""

    def __init__(self, dim: int) -> None:
        super().__init__(bounds=[(0.0, 1.0)] * dim)
        self._optimal_value = float(self._evaluate_true(self._centre().unsqueeze(0)))

    def _centre(self) -> Tensor:
        return 0.5 + 0.3 * torch.sin(3.0 * torch.arange(1, self.dim + 1, dtype=torch.double))

    def _evaluate_true(self, X: Tensor) -> Tensor:
        away = (X - self._centre().to(X)).square().sum(-1)
        return 3.0 * torch.exp(-0.5 * away / 0.06**2) - away


class Taste(PreferenceProblem):
    r"""Two numbers, a whole number and a category, whose levels want other numbers."""

    def __init__(self) -> None:
        super().__init__(bounds=[(0.0, 1.0), (0.0, 1.0), (0.0, 6.0), (0.0, 3.0)])
        self._optimal_value = 0.5

    @property
    def space(self) -> SearchSpace:
        return SearchSpace(self.bounds, integer=[2], categorical=[3])

    def _evaluate_true(self, X: Tensor) -> Tensor:
        first, second, whole, level = X.unbind(-1)
        best = X.new_tensor([0.2, 0.7, 0.45, 0.9])[level.round().long()]
        liked = X.new_tensor([0.0, 0.5, 0.3, -0.5])[level.round().long()]
        off = 4.0 * (first - best).square() + 2.0 * (second - 0.6).square()
        return liked - off - 0.1 * (whole.round() - 4.0).square()


def light_fields() -> TableProblem:
    """Distortions of light fields; the utility is Bradley and Terry's of 29 people's answers."""
    table = pd.read_csv(Path(__file__).parent / "data" / "light_field_pairs.csv")
    sides = [list(zip(table[f"type_{i}"], table[f"level_{i}"], strict=True)) for i in "12"]
    found = sorted({*sides[0], *sides[1]})
    rows = torch.tensor([[found.index(item) for item in side] for side in sides])
    wins, answers = (torch.as_tensor(table[name].array) for name in ("wins_1", "answers"))
    utility = torch.zeros(len(found), dtype=torch.double, requires_grad=True)
    search = torch.optim.LBFGS([utility], max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        search.zero_grad()
        gap = utility[rows[0]] - utility[rows[1]]
        won, lost = wins * gap.sigmoid().log(), (answers - wins) * (-gap).sigmoid().log()
        value = utility.square().sum() - (won + lost).sum()
        value.backward()
        return value

    search.step(loss)
    kinds = sorted({kind for kind, _ in found} - {"Reference"})
    items = [[*(kind == own for kind in kinds), level / 24] for own, level in found]
    items = torch.tensor(items, dtype=torch.double)
    bounds = [(0.0, 1.0)] * items.shape[-1]
    problem = TableProblem(items, utility.detach(), bounds)
    problem.name = "light-fields"
    return problem


def embeddings(seed: int, number: int = 300, columns: int = 64) -> TableProblem:
    """A table described by noisy mixtures of six factors, three of which matter, and chance."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.double)

    factors = normal(number, 6)
    items = factors @ normal(6, columns) + 0.3 * normal(number, columns)
    utilities = factors[:, 0] + torch.sin(2.0 * factors[:, 1]) - 0.5 * factors[:, 2].square()
    utilities = utilities + 0.5 * normal(number)
    return _table("embeddings", items, utilities)


def unrelated(seed: int, number: int = 60) -> TableProblem:
    """A table whose three columns say nothing of the utilities."""
    generator = torch.Generator().manual_seed(seed)
    items = torch.rand(number, 3, generator=generator, dtype=torch.double)
    return _table("unrelated", items, torch.randn(number, generator=generator, dtype=torch.double))


def _table(name: str, items: Tensor, utilities: Tensor, spread: float = SPREAD) -> TableProblem:
    scaled = spread * (utilities - utilities.mean()) / utilities.std()
    bounds = [(float(low), float(high)) for low, high in zip(*items.aminmax(dim=0), strict=True)]
    problem = TableProblem(items, scaled, bounds)
    problem.name = name
    return problem


def _rows(name: str, number: int, **options: Any) -> TableProblem:
    """A table of a function at items that fill its box."""
    problem = get_problem(name, **options)
    items = SearchSpace(problem.bounds).sample(number, seed=0)
    return _table(f"{name}-{number}", items, problem(items))


_BOXES: dict[str, Callable[[], PreferenceProblem]] = {
    "branin": partial(get_problem, "branin"),
    "hartmann3": partial(get_problem, "hartmann3"),
    "levy5": partial(get_problem, "levy", dim=5),
    "ackley3": partial(get_problem, "ackley", dim=3),
    "linear4": partial(WeightedSum, 4),
    "quadratic3": partial(Bowl, 3),
    "sixhumpcamel": partial(get_problem, "sixhumpcamel"),
    "griewank3": partial(get_problem, "griewank", dim=3),
    "michalewicz2": partial(get_problem, "michalewicz", dim=2),
    "styblinskitang4": partial(get_problem, "styblinskitang", dim=4),
    "shekel4": partial(get_problem, "shekel"),
    "hartmann6": partial(get_problem, "hartmann6"),
    "linear8": partial(WeightedSum, 8),
    "quadratic6": partial(Bowl, 6),
    "steps4": partial(Steps, 4),
    "wave1": Wave,
    "needle2": partial(Needle, 2),
    "quadratic10": partial(Bowl, 10),
    "mixed": Taste,
    "linear10": partial(WeightedSum, 10),
    "levy10": partial(get_problem, "levy", dim=10),
    "griewank10": partial(get_problem, "griewank", dim=10),
    "rosenbrock10": partial(get_problem, "rosenbrock", dim=10),
    "styblinskitang10": partial(get_problem, "styblinskitang", dim=10),
    "ackley10": partial(get_problem, "ackley", dim=10),
    "michalewicz10": partial(get_problem, "michalewicz", dim=10),
}
_TABLES: dict[str, Callable[[], TableProblem]] = {
    "catalyst": Catalyst,
    "ackley-100": partial(_rows, "ackley", 100, dim=3),
    "hartmann3-150": partial(_rows, "hartmann3", 150),
    "embeddings": partial(embeddings, 0),
    "styblinskitang-200": partial(_rows, "styblinskitang", 200, dim=4),
    "embeddings-768": partial(embeddings, 1, 500, 768),
    "embeddings-1000": partial(embeddings, 2, 1000, 256),
    "light-fields": light_fields,
    "unrelated": partial(unrelated, 0),
}
PROBLEMS = (*_BOXES, *_TABLES)
CHOOSING = (
    *("branin", "hartmann3", "levy5", "ackley3", "linear4", "quadratic3"),
    *("catalyst", "ackley-100", "hartmann3-150", "embeddings"),
)
# Beside the default ones: what chose the prior in more than eight dimensions, with seeds below 10.
MANY_DIMENSIONS = (
    *("linear10", "levy10", "griewank10", "rosenbrock10"),
    *("styblinskitang10", "ackley10", "michalewicz10"),
)
KINDS = {
    "multimodal": (
        *("branin", "hartmann3", "levy5", "ackley3", "sixhumpcamel", "griewank3"),
        *("michalewicz2", "styblinskitang4", "shekel4", "hartmann6", "wave1", "needle2"),
    ),
    "smooth": ("linear4", "quadratic3", "linear8", "quadratic6", "steps4", "quadratic10", "mixed"),
    "tables": tuple(_TABLES),
    "many dimensions": MANY_DIMENSIONS,
}
REPORTING = tuple(
    name for names in KINDS.values() for name in names if name not in (*CHOOSING, *MANY_DIMENSIONS)
)


def make_problem(name: str, spread: float = SPREAD) -> PreferenceProblem:
    """A problem by its name; the spread is that of a box, tables have their own."""
    if name in _TABLES:
        return _TABLES[name]()
    return StandardisedProblem(_BOXES[name](), spread)


def strategies_table(
    problems: Sequence[str],
    strategies: Mapping[str, Callable[..., Any]],
    seeds: Sequence[int],
    *,
    spread: float = SPREAD,
    horizon: int = 60,
    n_jobs: int = 1,
    folder: Path | None = None,
) -> pd.DataFrame:
    """A row for each problem, strategy and seed: shares, their sum on the way, seconds."""
    rows = []
    for name in problems:
        problem = make_problem(name, spread)
        table = run_experiment(
            problem,
            strategies,
            horizon,
            seeds,
            n_jobs=n_jobs,
            directory=None if folder is None else folder / f"{name}-{spread:g}-{horizon}",
            recommend_every=_EVERY,
        )
        share = better_share(problem)
        for (strategy, seed), run in table.groupby(["strategy", "seed"], sort=False):
            run = run.sort_values("step")
            asked = share(run[["first_utility", "second_utility"]].to_numpy()).mean(-1)
            row = {"problem": name, "strategy": strategy, "seed": seed}
            row |= {"spread": spread, "horizon": horizon}
            told = run.dropna(subset="recommendation_regret")
            found = share(problem.optimal_value - told["recommendation_regret"].to_numpy())
            row |= dict(zip((f"share_{step}" for step in told["step"]), found, strict=True))
            regret = told["recommendation_regret"].iloc[-1]
            row |= {"regret": regret, "best": regret < _EQUAL}
            row |= {"asked": asked.sum(), "seconds": run["seconds"].mean()}
            row["slowest"] = run["seconds"].max()
            rows.append(row)
    return pd.DataFrame(rows)


def better_share(problem: PreferenceProblem) -> Callable[[np.ndarray], np.ndarray]:
    """The share of a space that is better than utilities, half an item's at least."""
    if problem.choices is None:
        items = problem.space.sample(_REFERENCE, seed=1)
        reference = problem(items).sort().values.numpy()
    else:
        reference = problem.utilities.sort().values.numpy()

    def share(utilities: np.ndarray) -> np.ndarray:
        better = len(reference) - np.searchsorted(reference, utilities - _EQUAL, side="right")
        own = problem.choices is not None  # the item itself is in its table
        return np.maximum(better - own, 0.5) / len(reference)

    return share


def summary_text(table: pd.DataFrame) -> str:
    """Geometric means of the shares by kind of problem, and what each gains on the first."""
    kind = {name: kind for kind, names in KINDS.items() for name in names}
    table = table.assign(kind=table["problem"].map(kind))
    shares = [name for name in table if str(name).startswith("share_")]
    first, parts = table["strategy"].iloc[0], []
    for group, part in table.groupby("kind", sort=False):
        lines = []
        for strategy, own in part.groupby("strategy", sort=False):
            row: dict[str, Any] = {"strategy": strategy, "runs": len(own)}
            row |= {name: f"{np.exp(np.log(own[name]).mean()):.2g}" for name in shares}
            row |= {"asked": f"{own['asked'].mean():.1f}", "s": f"{own['seconds'].mean():.2f}"}
            row["regret"] = f"{own['regret'].mean():.3g} ± {own['regret'].sem():.2g}"
            row["best"] = f"{own['best'].mean():.2f}"
            for name in ["asked", *shares[1::2]]:
                wide = part.pivot_table(name, ["problem", "seed"], "strategy")
                gain = wide[strategy] - wide[first]
                if name != "asked":
                    gain = np.log(wide[strategy] / wide[first])
                gain = gain.dropna()
                row[f"{name} to first"] = f"{gain.mean():+.2f} ± {gain.sem():.2f}"
            lines.append(row)
        parts.append(f"{group}\n{pd.DataFrame(lines).to_string(index=False)}")
    text = f"best: how often it was found; to first: log ratios to {first}, of asked differences"
    return "\n\n".join([text, *parts])


def by_problem_text(table: pd.DataFrame) -> str:
    """What each strategy gains on the first, problem by problem, and whether it may be chance."""
    first, rows = table["strategy"].iloc[0], []
    shares = [name for name in table if str(name).startswith("share_")]
    for strategy, own in table.groupby("strategy", sort=False):
        both = own.merge(table[table["strategy"] == first], on=["problem", "seed"])
        for problem, part in both.groupby("problem", sort=False):
            if strategy != first and len(part) > 1:
                last = next(name for name in shares[::-1] if part[f"{name}_x"].notna().all())
                gain = np.log(part[f"{last}_x"] / part[f"{last}_y"])
                row = {"strategy": strategy, "problem": problem, "runs": len(part)}
                row |= {"to first": f"{gain.mean():+.2f} ± {gain.sem():.2f}"}
                rows.append(row | {"p": ttest_1samp(gain, 0.0).pvalue if gain.any() else 1.0})
    if not rows:
        return ""
    found = pd.DataFrame(rows).sort_values("p", kind="stable")
    left = np.arange(len(found), 0, -1)
    found["p (Holm)"] = np.minimum(np.maximum.accumulate(left * found["p"]), 1.0)
    text = f"after the last duels, log ratios to {first}; p: by t-tests, and of all after Holm\n"
    return text + found.sort_index().to_string(index=False, float_format="%.2g")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the loops from the command line."""
    parser = Parser(prog="experiments strategies", description=str(__doc__))
    add_seeds(parser, 10)
    parser.add_argument("--horizon", type=count, default=60, help="duels a loop; default: 60")
    parser.add_argument("--problems", nargs="+", metavar="NAME", default=list(REPORTING))
    parser.add_argument("--strategies", nargs="+", metavar="NAME", default=list(STRATEGIES))
    parser.add_argument("--spread", type=positive, default=SPREAD, help="of boxes; default: 3")
    parser.add_argument("--out", type=Path, default=RESULTS / "strategies", help="a folder")
    arguments = parser.parse_args(argv)
    for name in arguments.problems:
        if name not in PROBLEMS:
            parser.error(f"unknown problem {name!r}; there are {', '.join(PROBLEMS)}")
    for name in arguments.strategies:
        if name not in STRATEGIES:
            parser.error(f"unknown strategy {name!r}; there are {', '.join(STRATEGIES)}")
    first = arguments.first_seed
    table = strategies_table(
        arguments.problems,
        {name: STRATEGIES[name] for name in arguments.strategies},
        range(first, first + arguments.seeds),
        spread=arguments.spread,
        horizon=arguments.horizon,
        n_jobs=arguments.jobs,
        folder=arguments.out,
    )
    arguments.out.mkdir(parents=True, exist_ok=True)
    table.to_csv(arguments.out / "strategies.csv", index=False)
    print(f"{summary_text(table)}\n\n{by_problem_text(table)}".rstrip())
    return 0
