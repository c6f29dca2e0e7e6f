r"""Whether the item that is best against an anchor depends on the anchor.

[Lazzaro2026], Fig. 1: under one Thompson draw of the utility it cannot, since
``h(x, x0) = f(x) - f(x0)``; under an upper confidence bound ``h_t(x, x0) + sigma_t(x, x0)`` it
may.

References:
.. [Lazzaro2026] A. Lazzaro, D. Buffelli, D. Shiu, S. Vakili. A Finite Time Analysis of
    Thompson Sampling for Bayesian Optimization with Preferential Feedback.
    arXiv:2604.25025, 2026.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from botorch_pref.inference.finite import FinitePosterior
from botorch_pref.plotting import COLOURS
from botorch_pref.problems import Ackley
from botorch_pref.progress import tracked
from botorch_pref.randomness import derive_seed
from botorch_pref.strategies.pf_ts import paper_scale
from botorch_pref.strategies.utility import difference_table
from experiments.claims import Claim, Comparison
from experiments.experiment import Column, Experiment
from experiments.figures import new_figure
from experiments.model_settings import PENALTY, Setting

NUM_ITEMS, NUM_ANCHORS, WIDTH = 50, 25, 5.0
# The bound is drawn first and larger, so that it shows below a draw with the same maximiser.
_STYLES = (("UCB", "s-", COLOURS[1], 7.0), ("draw", "o-", COLOURS[0], 3.5))


# A lengthscale of a tenth of the domain and Ackley's own utilities, and what lets the bound vary.
SETTINGS = (
    Setting("short", lengthscale=0.1 * WIDTH),
    Setting("long", lengthscale=1.0, regularizer="theta_mean", spread=3.0),
)


@dataclass(frozen=True, kw_only=True)
class AnchorExperiment(Experiment):
    """The maximisers against 25 anchors, of one draw and of an upper confidence bound."""

    name: str = "anchor"
    title: str = "Maximisers against 25 anchors, Ackley's function on [0, 5]"
    source: str = "Lazzaro et al. (2026), Fig. 1"
    horizon: int = 200
    seeds: int = 20
    settings: tuple[Setting, ...] = SETTINGS
    claims: tuple[Claim, ...] = (
        Claim(
            "The maximiser of one Thompson draw is the same against every anchor.",
            tuple(
                Comparison((f"draw, {setting.label}", "maximisers"), 1.0, "not higher")
                for setting in SETTINGS
            ),
        ),
        Claim(
            "The maximiser of the upper confidence bound varies with the anchor.",
            tuple(
                Comparison(
                    (f"draw, {setting.label}", "maximisers"),
                    (f"UCB, {setting.label}", "maximisers"),
                )
                for setting in SETTINGS
            ),
        ),
    )
    notes: tuple[str, ...] = (
        "Not stated in the paper: domain, lengthscale, scale of the utility and kappa.",
        "That the bound varies depends on the setting: no claim should rest on one seed.",
    )

    @property
    def setting(self) -> str:
        return "; ".join([f"{self.horizon} random pairs", *(one.text() for one in self.settings)])

    @property
    def columns(self) -> tuple[Column, ...]:
        return (
            Column("maximisers", "different maximisers", quantiles=True),
            Column("varies", "seeds with more than one, %", scale=100.0, error=False),
        )

    def run(
        self, jobs: int, directory: str | os.PathLike[str] | None, progress: bool
    ) -> pd.DataFrame:
        """In this process, within seconds; nothing is kept."""
        runs = [(setting, seed) for setting in self.settings for seed in range(self.seeds)]
        steps = tracked(runs, self.title, len(runs), unit="run", show=progress, delay=1.0)
        tables = [_play(*run, self.horizon) for run in steps]
        return pd.concat(tables, ignore_index=True)

    def measures(self, table: pd.DataFrame) -> pd.DataFrame:
        choices = table.groupby(["strategy", "seed"], sort=False)["choice"]
        maximisers = choices.nunique()
        columns = {"step": self.horizon, "maximisers": maximisers, "varies": maximisers > 1}
        return pd.DataFrame(columns).astype({"varies": float}).reset_index()

    def figure(self, table: pd.DataFrame) -> Figure:
        """The first seed."""
        figure = new_figure((8.0, 3.8), f"{self.title}: {self.horizon} random pairs")
        panels = figure.subplots(1, len(self.settings), sharey=True)
        first = table[table["seed"] == 0]
        for axes, setting in zip(panels, self.settings, strict=True):
            for kind, style, colour, size in _STYLES:
                rows = first[first["strategy"] == f"{kind}, {setting.label}"]
                label = "one Thompson draw" if kind == "draw" else "upper confidence bound"
                axes.plot(rows["anchor"], rows["choice"], style, color=colour, ms=size, label=label)
            axes.set_title(f"{setting.label}, seed 0", fontsize="medium", loc="left")
            axes.set_xlabel("anchor")
            axes.grid(color="#E5E5E5", linewidth=0.8)
            axes.set_axisbelow(True)
            axes.spines[["top", "right"]].set_visible(False)
        panels[0].set_ylim(-0.1, max(1.0, 1.4 * first["choice"].max()))
        panels[0].set_ylabel("item that is best against it")
        panels[-1].legend(frameon=False, fontsize="small")
        return figure


def _play(setting: Setting, seed: int, num_pairs: int) -> pd.DataFrame:
    """The maximisers of one seed against all anchors."""
    grid = torch.linspace(0.0, WIDTH, NUM_ITEMS, dtype=torch.double)
    anchors = torch.linspace(0.0, WIDTH, NUM_ANCHORS, dtype=torch.double)
    posterior = _duelled(setting, torch.cat([grid, anchors]), seed, num_pairs)
    mean, deviation = difference_table(posterior.mean, posterior.covariance)
    bound = mean + PENALTY**0.5 * deviation
    draw = _draw(posterior, seed, num_pairs)
    difference = draw.unsqueeze(-1) - draw
    rows = []
    for name, values in (("draw", difference), ("UCB", bound)):
        best = values[:NUM_ITEMS, NUM_ITEMS:].argmax(dim=0)
        columns = {
            "strategy": f"{name}, {setting.label}",
            "seed": seed,
            "step": range(1, NUM_ANCHORS + 1),
            "anchor": anchors.tolist(),
            "choice": grid[best].tolist(),
        }
        rows.append(pd.DataFrame(columns))
    return pd.concat(rows)


def _duelled(setting: Setting, items: Tensor, seed: int, num_pairs: int) -> FinitePosterior:
    """The model of all items after random duels of those of the grid."""
    utilities = Ackley(unit_cube=False)(items.unsqueeze(-1))
    if setting.spread is not None:
        own = utilities[:NUM_ITEMS]
        utilities = utilities * setting.spread / (own.max() - own.min())
    bounds = items.new_tensor([[0.0], [WIDTH]])
    posterior = FinitePosterior(
        setting.covariance(items.unsqueeze(-1), bounds),
        penalty=PENALTY,
        kappa=setting.ridge / PENALTY,
        regularizer=setting.regularizer,
    )
    pairs = torch.Generator().manual_seed(derive_seed(seed, "pair", 0))
    labels = torch.Generator().manual_seed(derive_seed(seed, "label", 0))
    for _ in range(num_pairs):
        pair = torch.randperm(NUM_ITEMS, generator=pairs)[:2]
        first, second = utilities[pair]
        uniform = torch.rand((), generator=labels, dtype=torch.double)
        posterior.append(pair.tolist(), float(uniform < torch.sigmoid(first - second)))
    return posterior


def _draw(posterior: FinitePosterior, seed: int, num_pairs: int) -> Tensor:
    """One draw of the utility as PF-TS would make it in the next round."""
    generator = torch.Generator().manual_seed(derive_seed(seed, "draw", 0))
    sizes = posterior.mean.shape[-1], posterior.num_pairs
    prior, answers = (
        torch.randn(1, size, generator=generator, dtype=torch.double) for size in sizes
    )
    scale = PENALTY**0.5 * paper_scale(num_pairs + 1)
    return posterior.sample(prior, answers, scale).squeeze(0)
