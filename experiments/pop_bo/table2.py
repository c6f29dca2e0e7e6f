r"""The seven test functions of the POP-BO paper, beside what the paper prints.

References:
.. [Xu2024] W. Xu, W. Wang, Y. Jiang, B. Svetozarevic, C. N. Jones. Principled
    Preferential Bayesian Optimization. ICML 2024.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import pandas as pd
from matplotlib.figure import Figure

from botorch_pref.runner import run_experiment
from botorch_pref.runner.run import StrategyFactory
from experiments.claims import Claim, Comparison
from experiments.experiment import Column, Experiment
from experiments.figures import plot_panels
from experiments.pop_bo.beliefs import ON_A_BOX, methods, of_function, of_toolbox, pop_bo
from experiments.pop_bo.utility_regret import SECONDS
from experiments.problems import StandardisedFunction
from experiments.problems.standardised import GRID_SIDE

# By function: what it is called, and what the paper prints for DTS, qEUBO, SGP and POP-BO.
_PRINTED = {
    "beale": ("Beale", "0.84 ± 0.52", "0.15 ± 0.52", "0.10 ± 0.19", "0.008 ± 0.025"),
    "branin": ("Branin", "1.35 ± 1.16", "0.71 ± 1.16", "2.20 ± 0.81", "0.31 ± 0.29"),
    "bukin": ("Bukin", "1.45 ± 1.13", "0.59 ± 1.20", "1.27 ± 0.80", "0.92 ± 0.54"),
    "crossintray": ("Cross-in-Tray", "1.56 ± 1.39", "2.03 ± 1.82", "1.79 ± 1.49", "1.38 ± 0.97"),
    "eggholder": ("Eggholder", "3.08 ± 0.55", "3.11 ± 0.55", "1.87 ± 0.94", "1.83 ± 0.96"),
    "holdertable": ("Holder Table", "3.21 ± 1.38", "3.20 ± 1.38", "1.56 ± 1.62", "1.22 ± 1.01"),
    "levy13": ("Levy13", "2.36 ± 1.22", "1.06 ± 1.22", "1.29 ± 1.00", "0.35 ± 0.31"),
}
_ROWS = ("DTS (paper)", "qEUBO (paper)", "SGP (paper)", "POP-BO (paper)")
_TOOLBOX = "pop-bo (toolbox)"
_PEERS = ("dts", "eubo", "sgp")
_RECOMMENDATIONS = 10

Recipe = Literal["text", "toolbox"]


@dataclass(frozen=True, kw_only=True)
class Table2Experiment(Experiment):
    r"""Strategies on all functions, under both recipes of the paper.

    Attributes:
        strategies: Factories by the strategies' names, by the recipe.
    """

    strategies: Mapping[Recipe, Mapping[str, StrategyFactory]]

    @property
    def columns(self) -> tuple[Column, ...]:
        """See the base class."""
        functions = [
            Column(which, cells[0], digits=2, error=False, deviation=True)
            for which, cells in _PRINTED.items()
        ]
        return (*functions, SECONDS)

    def play(
        self, jobs: int, directory: str | os.PathLike[str] | None, progress: bool
    ) -> pd.DataFrame:
        """See the base class; a folder for each function and recipe."""
        tables = []
        for which in _PRINTED:
            for recipe, strategies in self.strategies.items():
                table = run_experiment(
                    StandardisedFunction(which, recipe),
                    strategies,
                    self.horizon,
                    self.seeds,
                    n_jobs=jobs,
                    progress=progress,
                    directory=None if directory is None else Path(directory) / f"{which}-{recipe}",
                    recommend_every=max(1, self.horizon // _RECOMMENDATIONS),
                )
                kept = [name for name in table if not re.search(r"_x\d+$", str(name))]
                tables.append(table[kept].assign(function=which))
        return pd.concat(tables, ignore_index=True)

    def measures(self, table: pd.DataFrame) -> pd.DataFrame:
        """See the base class; the recommendation regret on each function."""
        last = table[table["step"] == table["step"].max()]
        run = ["strategy", "seed"]
        regrets = last.pivot(index=run, columns="function", values="recommendation_regret")
        seconds = table.groupby(run)["seconds"].mean()
        found = regrets[[*_PRINTED]].assign(step=int(table["step"].max()), seconds=seconds)
        order = {name: i for i, name in enumerate(table["strategy"].unique())}
        return found.reset_index().sort_values(run, key=lambda x: x.replace(order))

    def figure(self, table: pd.DataFrame) -> Figure:
        """See the base class; one panel a function."""
        return plot_panels(
            table.dropna(subset="recommendation_regret").assign(
                function=table["function"].map({which: row[0] for which, row in _PRINTED.items()})
            ),
            panel="function",
            x="step",
            y="recommendation_regret",
            title=f"{self.title}: {self.setting}",
            xlabel="duels",
            ylabel="recommendation regret",
        )


def table2_experiment() -> Table2Experiment:
    """Table 2 of the paper."""
    return Table2Experiment(
        name="pop-table2",
        title="Seven test functions over their standard deviations",
        source="Xu et al. (2024), Table 2",
        horizon=30,
        seeds=30,
        strategies={
            "text": methods(of_function),
            "toolbox": {_TOOLBOX: partial(pop_bo, of_toolbox)},
        },
        printed=_printed(),
        claims=(
            Claim(
                "POP-BO's recommendation is the best, or comparable to it, on all functions.",
                tuple(
                    Comparison(("pop-bo", which), (peer, which), "not higher")
                    for which in _PRINTED
                    for peer in _PEERS
                ),
            ),
            Claim(
                "POP-BO's recommendation is better than those of DTS, qEUBO and SGP on all "
                "functions but Bukin's (the paper's means).",
                tuple(
                    Comparison(("pop-bo", which), (peer, which))
                    for which in _PRINTED
                    if which != "bukin"
                    for peer in _PEERS
                ),
            ),
        ),
        notes=(
            "Recommendation regrets after all duels, in standard deviations of the function over "
            "20 x 20 points, mean ± standard deviation over the seeds; against the true optimum.",
            "All strategies but the toolbox's have a squared exponential kernel of unit variance "
            "with one lengthscale, fitted to 64 uniform points by BoTorch's SingleTaskGP; the "
            "paper maximises a likelihood and does not say of what. POP-BO: norm bound 6, slack "
            "sqrt(t), the maximiser of the most likely utility.",
            f"{_TOOLBOX}: kernel, lengthscale, norm bound, slack and value bound of the authors' "
            "public code, which also subtracts the mean.",
            "The paper's standard deviations of DTS and qEUBO are the same on five functions, "
            "which may be a slip.",
            ON_A_BOX,
        ),
    )


def _printed() -> dict[str, dict[str, str]]:
    """The paper's rows, and the mean regret of a uniform point."""
    rows: dict[str, dict[str, str]] = {name: {} for name in _ROWS}
    uniform = rows["a uniform point"] = {}
    for which, (heading, *cells) in _PRINTED.items():
        for name, cell in zip(_ROWS, cells, strict=True):
            rows[name][heading] = cell
        grid = StandardisedFunction(which, choices_per_side=GRID_SIDE).utilities
        uniform[heading] = f"{StandardisedFunction(which).optimal_value - float(grid.mean()):.2f}"
    return rows
