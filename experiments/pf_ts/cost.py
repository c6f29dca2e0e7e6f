r"""Regret by what was spent, where a value costs more than a duel.

[Lazzaro2026], Fig. 3: curves of duels and of values are re-indexed by their costs.

References:
.. [Lazzaro2026] A. Lazzaro, D. Buffelli, D. Shiu, S. Vakili. A Finite Time Analysis of
    Thompson Sampling for Bayesian Optimization with Preferential Feedback.
    arXiv:2604.25025, 2026.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pandas as pd
from matplotlib.figure import Figure

from experiments.experiment import GP_TS, Column, RegretExperiment
from experiments.figures import View, plot_views

RATIOS = (1, 3, 5, 7)


def cost_name(ratio: int) -> str:
    """What the scalar method is called where a value costs as much as so many duels."""
    return f"{GP_TS}, ratio {ratio}"


def by_cost(table: pd.DataFrame, budget: int) -> pd.DataFrame:
    """The runs by what they cost, in units of a duel."""
    scalar = table["strategy"] == GP_TS
    duels = table[~scalar]
    parts = [duels.assign(cost=duels["step"])]
    for ratio in RATIOS:
        values = table[scalar]
        parts.append(values.assign(strategy=cost_name(ratio), cost=ratio * values["step"]))
    together = pd.concat(parts, ignore_index=True)
    return together[together["cost"] <= budget]


def markers(table: pd.DataFrame, every: int) -> pd.DataFrame:
    """The regret of the last ``every`` iterations, each time so many more were bought."""
    number = (table["step"] - 1) // every
    rows = table.assign(marker=number).groupby(["strategy", "seed", "marker"], sort=False)
    means = rows.agg(
        cost=("cost", "max"),
        bought=("step", "max"),
        regret=("dueling_regret", "mean"),
        size=("step", "size"),
    )
    return means[means["size"] == every].reset_index().drop(columns=["marker", "size"])


@dataclass(frozen=True, kw_only=True)
class CostExperiment(RegretExperiment):
    """Duels beside values that cost more, by the runs on the catalysts."""

    shared_runs: ClassVar[str] = "bench-catalyst"

    @property
    def baseline(self) -> str:
        """None."""
        return ""

    @property
    def columns(self) -> tuple[Column, ...]:
        return (
            Column("bought", "duels or values", error=False),
            Column("final", f"regret of the last {self.last}", quantiles=True),
        )

    def measures(self, table: pd.DataFrame) -> pd.DataFrame:
        """At the last marker that the budget allows."""
        runs = self._markers(table).groupby(["strategy", "seed"], sort=False)
        last = runs[["bought", "regret"]].last().reset_index()
        return last.rename(columns={"regret": "final"}).assign(step=self.horizon)

    def figure(self, table: pd.DataFrame) -> Figure:
        """A marker each time 25 more duels, or values, were bought."""
        view = View("", self._markers(table), "cost", "regret", "spent (the cost of a duel is 1)")
        regret = f"dueling regret\n(mean of the last {self.last} bought)"
        return plot_views([view], f"{self.title}: {self.setting}", regret)

    def _markers(self, table: pd.DataFrame) -> pd.DataFrame:
        return markers(by_cost(table, self.horizon), self.last)
