r"""An experiment of a paper: what is run, what is measured, and what is claimed."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pandas as pd
from matplotlib.figure import Figure

from botorch_pref.plotting import plot_experiment
from botorch_pref.problems import PreferenceProblem
from botorch_pref.runner import random_play, run_experiment
from botorch_pref.runner.experiment import ProblemFactory, StrategyFactory
from botorch_pref.strategies.mr_lpf import round_sizes
from experiments.claims import Claim, in_rows
from experiments.model_settings import OURS, PRINTED, Setting

GP_TS = "gp-ts"  # sees values, and so has a ridge but no predictor for duels


class Column(NamedTuple):
    r"""A metric in an experiment's table.

    Attributes:
        metric: A column of the measures.
        heading: What it is called.
        quantiles: Whether median and quantiles stand beside the mean.
        digits: Significant digits.
        scale: What it is multiplied by.
        error: Whether the standard error stands beside the mean.
        deviation: Whether the standard deviation over the seeds stands there instead.
    """

    metric: str
    heading: str
    quantiles: bool = False
    digits: int = 3
    scale: float = 1.0
    error: bool = True
    deviation: bool = False


@dataclass(frozen=True, kw_only=True)
class Experiment(ABC):
    r"""What all experiments have.

    Attributes:
        name: What the command line calls it.
        title: What it is, in a few words.
        source: The paper and its figure.
        horizon: The paper's number of duels.
        seeds: The number of seeds; by default, the paper's, or what is said in the notes.
        claims: What the paper says of it.
        notes: How it differs from the paper, and what the paper leaves open.
        printed: Rows for the table that are not measured, as those that the paper prints: cells
            by the headings of columns, by the names of rows.
        unit: What the horizon counts.
        claims_heading: What stands above the claims.
        shared_runs: The folder of the finished runs, where it is not the experiment's own.
        recommendations: How many recommendations a run is asked for.
        settings: The models under which all strategies are run side by side, and the claims are
            judged; none where strategies have models of their own.
    """

    unit: ClassVar[str] = "duels"
    claims_heading: ClassVar[str] = "What the paper says, and whether it was seen"
    shared_runs: ClassVar[str] = ""

    name: str
    title: str
    source: str
    horizon: int
    seeds: int
    claims: tuple[Claim, ...]
    notes: tuple[str, ...] = ()
    recommendations: int = 50
    settings: tuple[Setting, ...] = ()
    printed: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def all_claims(self) -> tuple[Claim, ...]:
        """The claims, of every setting that there is."""
        return self.claims

    @property
    def folder(self) -> str:
        """The folder that the results are saved in by default."""
        return f"bench-{self.name}"

    @property
    def runs_folder(self) -> str:
        """The folder in which finished runs are kept by default."""
        return self.shared_runs or self.folder

    @property
    def setting(self) -> str:
        """What was run, behind the title."""
        return f"{self.horizon} {self.unit}"

    @property
    @abstractmethod
    def columns(self) -> tuple[Column, ...]:
        """The columns of the experiment's table."""

    @property
    def further_columns(self) -> Mapping[str, tuple[Column, ...]]:
        """The columns of further tables of the experiment, by the tables' headings."""
        return {}

    @property
    def missing(self) -> str:
        """What it needs and is not installed, as a sentence, or nothing."""
        return ""

    @abstractmethod
    def run(
        self, jobs: int, directory: str | os.PathLike[str] | None, progress: bool
    ) -> pd.DataFrame:
        """Run the experiment under the seeds ``0, 1, ...``."""

    def simulated(
        self,
        problem: PreferenceProblem | ProblemFactory,
        strategies: Mapping[str, StrategyFactory],
        jobs: int,
        directory: str | os.PathLike[str] | None,
        progress: bool,
        folder: str = "",
        **options: Any,
    ) -> pd.DataFrame:
        """Runs of strategies on a problem, kept in a folder below the directory."""
        options.setdefault("horizon", self.horizon)
        options.setdefault("recommend_every", max(1, options["horizon"] // self.recommendations))
        table = run_experiment(
            problem,
            strategies,
            seeds=self.seeds,
            n_jobs=jobs,
            progress=progress,
            directory=None if directory is None else Path(directory) / folder,
            **options,
        )
        # Where items have an index, their coordinates say nothing more, and may be many.
        return table[[name for name in table if not re.search(r"_x\d+$", str(name))]]

    @abstractmethod
    def measures(self, table: pd.DataFrame) -> pd.DataFrame:
        """The metrics of each run."""

    @abstractmethod
    def figure(self, table: pd.DataFrame) -> Figure:
        """The figure of the table that :meth:`run` returned."""

    @property
    def baseline(self) -> str:
        """What the numbers are to be compared with, as a sentence, or nothing."""
        return ""


@dataclass(frozen=True, kw_only=True)
class RegretExperiment(Experiment):
    r"""Strategies on one problem, measured by their regret.

    Attributes:
        problem: Makes the problem, or what makes it of the seed.
        strategies: Factories by the strategies' names.
        tail: Over how many of the last duels the final regret is averaged.
    """

    problem: Callable[[], PreferenceProblem | ProblemFactory]
    strategies: Mapping[str, StrategyFactory]
    tail: int
    settings: tuple[Setting, ...] = (PRINTED, OURS)

    @property
    def setting(self) -> str:
        return "; ".join([super().setting, *(one.text() for one in self.settings)])

    @property
    def all_claims(self) -> tuple[Claim, ...]:
        return tuple(
            in_rows(claim, f"Setting {one.label!r}: " if one.label else "", one.row)
            for one in self.settings or (PRINTED,)
            for claim in self.claims
        )

    @property
    def columns(self) -> tuple[Column, ...]:
        return (
            Column("cumulative", "cumulative regret", quantiles=True),
            Column("final", f"regret of the last {self.last} duels", digits=2),
            Column("recommendation", "recommendation regret", digits=2),
            Column("identical", "identical pairs, %", scale=100.0, digits=2, error=False),
            Column("seconds", "ms a duel", scale=1000.0, digits=2, error=False),
        )

    @property
    def last(self) -> int:
        """Over how many duels the final regret is averaged."""
        return min(self.tail, self.horizon)

    @property
    def baseline(self) -> str:
        cumulative = self.horizon * self.random_regret
        return f"Random pairs expect a cumulative regret of {cumulative:.1f}."

    @property
    def random_regret(self) -> float:
        """The mean regret of a duel of two random items; over the seeds' problems."""
        problem = self.problem()
        if isinstance(problem, PreferenceProblem):
            return random_play(problem)
        return sum(random_play(problem(seed)) for seed in range(self.seeds)) / self.seeds

    def run(
        self, jobs: int, directory: str | os.PathLike[str] | None, progress: bool
    ) -> pd.DataFrame:
        """Resumes what the folder holds."""
        return self.simulated(self.problem(), self.all_strategies, jobs, directory, progress)

    @property
    def all_strategies(self) -> Mapping[str, StrategyFactory]:
        """The factories of all rows of the table."""
        if not self.settings:
            return self.strategies
        problem = self.problem()
        bounds = (problem if isinstance(problem, PreferenceProblem) else problem(0)).bounds
        found = {}
        for one in self.settings:
            for name, factory in self.strategies.items():
                options = one.of_values(bounds) if name == GP_TS else one.of_duels(bounds)
                if options is not None:
                    found[one.row(name)] = partial(factory, **options)
        return found

    def measures(self, table: pd.DataFrame) -> pd.DataFrame:
        """``round 1``, ... are the mean regrets in MR-LPF's rounds."""
        step, regret = table["step"], "dueling_regret"
        last = int(step.max())
        spans = {"final": (last - self.last, last), "early": (0, max(1, last // 4))}
        start = 0
        for number, size in enumerate(round_sizes(last), start=1):
            spans[f"round {number}"] = (start, start + size)
            start += size
        runs = table.groupby(["strategy", "seed"], sort=False)
        columns = {
            "step": runs["step"].max(),
            "cumulative": runs[regret].sum(),
            "recommendation": runs["recommendation_regret"].last(),
            "identical": runs["identical"].mean(),
            "seconds": runs["seconds"].mean(),
        }
        for name, (after, until) in spans.items():
            rows = table[(step > after) & (step <= until)]
            columns[name] = rows.groupby(["strategy", "seed"], sort=False)[regret].mean()
        return pd.DataFrame(columns).reset_index()

    def figure(self, table: pd.DataFrame) -> Figure:
        """The ends of MR-LPF's rounds are marked."""
        rounds = any(name.startswith("mr-lpf") for name in self.strategies)
        title = f"{self.title}: {self.setting}"
        figure = plot_experiment(
            table,
            title=f"{title} (dotted: ends of MR-LPF's rounds)" if rounds else title,
            random_regret=self.random_regret,
            window=max(1, self.horizon // 30),
        )
        end = 0
        for size in round_sizes(self.horizon)[:-1] if rounds else ():
            end += size
            for axes in figure.axes[:2]:
                axes.axvline(end, color="#909090", lw=0.9, ls=":", zorder=0)
        return figure
