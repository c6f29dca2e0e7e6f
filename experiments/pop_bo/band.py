r"""How the confidence band of a likelihood-ratio set shrinks with the duels.

References:
.. [Xu2024] W. Xu, W. Wang, Y. Jiang, B. Svetozarevic, C. N. Jones. Principled
    Preferential Bayesian Optimization. ICML 2024.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import pairwise

import pandas as pd
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from botorch_pref.models import LikelihoodRatioModel
from botorch_pref.randomness import derive_seed
from botorch_pref.space import SearchSpace
from botorch_pref.strategies.utility import kernel_of
from experiments.claims import Claim, Comparison
from experiments.experiment import Column, Experiment
from experiments.figures import draw_utility_band
from experiments.pop_bo.beliefs import of_gp_sample
from experiments.problems import GPSample

NUM_POINTS, SLACK = 101, 1.0
_STAGES = ("a third of the duels", "two thirds", "all duels")


@dataclass(frozen=True, kw_only=True)
class BandExperiment(Experiment):
    """Bands after three stages of duels between successive uniform points."""

    name: str = "pop-band"
    title: str = "Confidence bands of Gaussian process samples on [0, 10]"
    source: str = "Xu et al. (2024), Fig. 1"
    horizon: int = 30
    seeds: int = 30
    claims: tuple[Claim, ...] = (
        Claim(
            "The band shrinks with the duels.",
            tuple(
                Comparison((later, "width"), (earlier, "width"))
                for earlier, later in pairwise(_STAGES)
            ),
        ),
    )
    notes: tuple[str, ...] = (
        "Constant slack 1, as in the paper; the true kernel and 1.1 times the true norm. The "
        "number of duels is that of the authors' code: three stages of 10.",
        "Such a slack is below what the theory asks for: the band need not hold the utility.",
    )

    @property
    def columns(self) -> tuple[Column, ...]:
        """See the base class."""
        return (
            Column("width", "mean width of the band"),
            Column("inside", "points with the utility inside, %", scale=100.0, error=False),
            Column("error", "largest error of the most likely utility", digits=2),
        )

    def play(
        self, jobs: int, directory: str | os.PathLike[str] | None, progress: bool
    ) -> pd.DataFrame:
        """See the base class; all at once, within a minute: the arguments change nothing."""
        tables = [_bands(seed, self.horizon) for seed in range(self.seeds)]
        return pd.concat(tables, ignore_index=True)

    def measures(self, table: pd.DataFrame) -> pd.DataFrame:
        """See the base class."""
        utility, estimate = table["utility"], table["estimate"]
        points = table.assign(
            width=table["upper"] - table["lower"],
            inside=((utility >= table["lower"]) & (utility <= table["upper"])).astype(float),
            error=(utility - estimate).abs(),
        )
        runs = points.groupby(["strategy", "seed"], sort=False)
        columns = {"step": runs["step"].max(), "width": runs["width"].mean()}
        columns |= {"inside": runs["inside"].mean(), "error": runs["error"].max()}
        return pd.DataFrame(columns).reset_index()

    def figure(self, table: pd.DataFrame) -> Figure:
        """See the base class; the first seed."""
        figure = Figure(figsize=(12.0, 3.9), dpi=150, layout="constrained")
        FigureCanvasAgg(figure)
        panels = figure.subplots(1, len(_STAGES), sharey=True)
        for axes, stage in zip(panels, _STAGES, strict=True):
            rows = table[(table["seed"] == 0) & (table["strategy"] == stage)]
            draw_utility_band(axes, rows)
            asked = rows[rows["asked"]]
            axes.plot(asked["x"], asked["estimate"], "|", color="#000000", ms=9.0, label="asked")
            axes.set_title(f"{rows['duels'].iloc[0]} duels", fontsize="medium", loc="left")
        panels[0].set_ylabel("utility")
        panels[0].legend(frameon=False, fontsize="small")
        figure.suptitle(f"{self.title}, seed 0", x=0.01, ha="left", fontsize="medium")
        return figure


def _bands(seed: int, horizon: int) -> pd.DataFrame:
    """The bands of one seed after a third, two thirds and all of the duels."""
    problem = GPSample(num_choices=NUM_POINTS, seed=seed)
    assert problem.choices is not None
    known, space = of_gp_sample(problem), SearchSpace(choices=problem.choices)
    kernel = kernel_of(known.hyperparameters, space, "rbf")
    points = torch.Generator().manual_seed(derive_seed(seed, "pair", 0))
    labels = torch.Generator().manual_seed(derive_seed(seed, "label", 0))
    # Each point uniform among those that are not the one before.
    steps = torch.randint(1, NUM_POINTS, (horizon + 1,), generator=points)
    asked = steps.cumsum(0) % NUM_POINTS
    pairs = torch.stack([asked[1:], asked[:-1]], dim=-1)
    first, second = problem.utilities[pairs].unbind(-1)
    uniform = torch.rand(horizon, generator=labels, dtype=torch.double)
    wins = (uniform < torch.sigmoid(first - second)).unsqueeze(-1)
    comparisons = torch.where(wins, pairs, pairs.flip(-1))
    rows = []
    for stage, name in enumerate(_STAGES, start=1):
        duels = -(-stage * horizon // len(_STAGES))
        model = LikelihoodRatioModel.from_comparisons(
            space.normalize(problem.choices),
            comparisons[:duels],
            covar_module=kernel,
            norm_bound=known.norm_bound,
            slack=SLACK,
        )
        X = space.normalize(problem.choices)
        columns = {"strategy": name, "seed": seed, "step": range(1, NUM_POINTS + 1)}
        columns |= {"x": problem.choices.squeeze(-1).tolist(), "duels": duels}
        with torch.no_grad():
            columns |= {
                "lower": model.lower(X).tolist(),
                "estimate": model.mle(X).tolist(),
                "upper": model.upper(X).tolist(),
            }
        seen = torch.isin(torch.arange(NUM_POINTS), asked[: duels + 1])
        columns |= {"utility": problem.utilities.tolist(), "asked": seen.tolist()}
        rows.append(pd.DataFrame(columns))
    return pd.concat(rows)
