r"""How many answers samplers of preferential studies need, and how long they take."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any, ClassVar

import pandas as pd
from matplotlib.figure import Figure

from experiments.claims import Claim, lower
from experiments.experiment import Column, Experiment
from experiments.figures import View, plot_views
from experiments.optuna.problems import ShownProblem, shown_problems

BUILT_IN = "built-in"
OURS = {
    "kg": "PreferentialSampler('kg')",
    "ts": "PreferentialSampler('ts')",
    "eubo": "PreferentialSampler('eubo')",
    "ts-10": "PreferentialSampler('ts', n_startup_trials=10)",
    "eubo-10": "PreferentialSampler('eubo', n_startup_trials=10)",
}
ANSWERS, SEEDS = 40, 20
NAMED = (0.5, 0.25)  # relative regrets: a half and a quarter of an average item's
_MARKS = (10, 20, 30)
_RUN = ["strategy", "seed"]
_TITLES = {"branin": "Branin", "hartmann6": "Hartmann-6", "mixed-levy": "Levy, mixed"}
_NOTES = (
    "The page's loop in memory: two trials are shown, the worse one goes, the sampler proposes one "
    "in its place. A simulated person answers: P(first wins) = 1 / (1 + exp(f(x') - f(x))), where "
    "f has a standard deviation of 3 over the cube. Under one seed all samplers meet the same "
    "noise of answers and begin with the same two trials, which are uniform draws.",
    "Regrets are relative to that of the mean utility: 0 is the best item, 1 an average one. "
    "kg, ts and eubo recommend the trial of the largest posterior mean (best_trial); ts-10 and "
    "eubo-10 begin with 10 trials that fill the space, the two first ones included. Optuna's own "
    "sampler recommends nothing; its users, and those of random trials, have study.best_trials, "
    "the trial that won last. The last regret of that one is shown for all.",
    "Answers until a regret: until the recommendation's is that low for the first time; runs that "
    "never get there count as one more than all answers.",
    "Levy, mixed: Levy's function in 4 dimensions, shown as a real number, one on a logarithmic "
    "scale, a whole number from 0 to 20 and a category of 5 levels. The built-in sampler warns "
    "that it searches such a space badly; with steps for all parameters it would enumerate them.",
    "The fit of the built-in sampler can end in hyperparameters that are no numbers. It is then "
    "started again, after a uniform draw; a line in the log says so.",
    "s a suggestion: the new trial and the answer, of the clock, on one thread.",
)


def sampled_study(sampler: str, problem: ShownProblem, seed: int) -> Any:
    """A study as a strategy; see :func:`~experiments.optuna.study.played_study`."""
    from experiments.optuna.study import played_study  # needs the extra

    return played_study(sampler, problem, seed)


@dataclass(frozen=True, kw_only=True)
class SamplerExperiment(Experiment):
    r"""Samplers on several problems.

    Attributes:
        problems: The problems.
        samplers: The samplers that :func:`sampled_study` knows.
    """

    unit: ClassVar[str] = "answers"
    claims_heading: ClassVar[str] = "What was aimed at, and whether it was seen"

    problems: tuple[ShownProblem, ...]
    samplers: tuple[str, ...]

    @property
    def missing(self) -> str:
        if all(map(find_spec, ("optuna", "optuna_dashboard"))):
            return ""
        return f"{self.name} needs the extra `optuna`: pip install 'botorch-pref[optuna]'."

    @property
    def baseline(self) -> str:
        return "An average item has a relative regret of 1."

    @property
    def marks(self) -> tuple[int, ...]:
        """The numbers of answers at which regrets are shown, less the last one."""
        return tuple(mark for mark in _MARKS if mark < self.horizon)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self._of_problems("", digits=2)

    @property
    def further_columns(self) -> Mapping[str, tuple[Column, ...]]:
        plain: dict[str, Any] = {"error": False, "digits": 2}
        early: dict[str, tuple[Column, ...]] = {
            f"The same after {mark} answers": self._of_problems(f" at {mark}", digits=2)
            for mark in self.marks
        }
        named: dict[str, tuple[Column, ...]] = {}
        for regret in NAMED:
            until = f"until a regret of {regret:g}"
            share = self._of_problems(f" reached {regret:g}", scale=100.0, error=False)
            named[f"Answers {until}"] = self._of_problems(f" answers {regret:g}")
            named[f"Runs {until}, %"] = share
        survivor = self._of_problems(" survivor", digits=2)
        return (
            early
            | {"Regret of the trial that won last": survivor}
            | named
            | {
                "s a suggestion": self._of_problems(" seconds", **plain),
                f"Times as fast as {BUILT_IN}, under the same seed": self._of_problems(
                    " speed", digits=2
                ),
            }
        )

    def _of_problems(self, metric: str, **options: Any) -> tuple[Column, ...]:
        return tuple(
            Column(problem.name + metric, _TITLES[problem.name], **options)
            for problem in self.problems
        )

    def run(
        self, jobs: int, directory: str | os.PathLike[str] | None, progress: bool
    ) -> pd.DataFrame:
        """A folder for each problem."""
        tables = []
        for problem in self.problems:
            studies = {name: partial(sampled_study, name) for name in self.samplers}
            table = self.simulated(
                problem, studies, jobs, directory, progress, problem.name, recommend_every=1
            )
            won = table["first_utility"].where(table["answer"] == 1.0, table["second_utility"])
            average = problem.optimal_value  # the mean utility is 0
            tables.append(
                table.assign(
                    regret=table["recommendation_regret"] / average,
                    survivor_regret=1.0 - won / average,
                )
            )
        return pd.concat(tables, ignore_index=True)

    def measures(self, table: pd.DataFrame) -> pd.DataFrame:
        found = table.groupby(_RUN, sort=False)[["step"]].max()
        for problem in self.problems:
            part = self._measured(table[table["problem"] == problem.name])
            found = found.join(part.add_prefix(problem.name))
        return found.reset_index()

    def _measured(self, table: pd.DataFrame) -> pd.DataFrame:
        """The metrics on one problem, by strategy and seed."""
        runs = table.groupby(_RUN, sort=False)
        regrets = table.pivot(index=_RUN, columns="step", values="regret")
        seconds = runs["seconds"].mean()
        others = seconds[BUILT_IN].reindex(seconds.index.get_level_values("seed"))
        named = {}
        for regret in NAMED:
            low = regrets <= regret
            reached = low.any(axis=1)
            named[f" answers {regret:g}"] = low.idxmax(axis=1).where(reached, self.horizon + 1.0)
            named[f" reached {regret:g}"] = reached.astype(float)
        return pd.DataFrame(
            {
                "": runs["regret"].last(),
                **{f" at {mark}": regrets[mark] for mark in self.marks},
                " survivor": runs["survivor_regret"].last(),
                **named,
                " seconds": seconds,
                " speed": others.to_numpy() / seconds,
            }
        )

    def figure(self, table: pd.DataFrame) -> Figure:
        """A panel for each problem."""
        views = [
            View(_TITLES[name], rows, "step", "regret", "answers")
            for name, rows in table.groupby("problem", sort=False)
        ]
        return plot_views(views, f"{self.title}: {self.setting}", "relative regret")


def optuna_experiment() -> SamplerExperiment:
    """The comparison with the sampler that Optuna Dashboard has."""
    problems = shown_problems()
    names = [problem.name for problem in problems]
    aims = {
        f"has a lower regret than Optuna's sampler after {ANSWERS} answers": "",
        **{
            f"needs fewer answers to a regret of {regret:g}": f" answers {regret:g}"
            for regret in NAMED
        },
        "takes less time for a suggestion": " seconds",
    }
    return SamplerExperiment(
        name="optuna",
        title="Samplers of Optuna Dashboard's preferential studies",
        source="ours",
        horizon=ANSWERS,
        seeds=SEEDS,
        problems=problems,
        samplers=(*OURS, BUILT_IN, "random"),
        claims=tuple(
            Claim(
                f"{sampler} {aim}.",
                tuple(
                    comparison
                    for name in names
                    for comparison in lower(name + metric, rule, BUILT_IN)
                ),
            )
            for rule, sampler in OURS.items()
            for aim, metric in aims.items()
        ),
        notes=_NOTES,
    )
