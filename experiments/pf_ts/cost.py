r"""Regret by what was spent, where a value costs more than a duel.

[Lazzaro2026], Fig. 3: curves of duels and of values are re-indexed by their costs.

References:
.. [Lazzaro2026] A. Lazzaro, D. Buffelli, D. Shiu, S. Vakili. A Finite Time Analysis of
    Thompson Sampling for Bayesian Optimization with Preferential Feedback.
    arXiv:2604.25025, 2026.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
from matplotlib.figure import Figure

from experiments.experiment import GP_TS, Column, RegretExperiment
from experiments.figures import plot_bands

RATIOS = (1, 3, 5, 7)


def cost_name(ratio: int) -> str:
    """What the scalar method is called where a value costs as much as so many duels."""
    return f"{GP_TS}, ratio {ratio}"


def by_cost(table: pd.DataFrame, budget: int) -> pd.DataFrame:
    r"""The runs by what they cost, in units of a duel.

    Args:
        table: Runs of duels, and of ``gp-ts``, of at least ``budget`` steps.
        budget: What may be spent.

    Returns:
        The rows that the budget allows, those of ``gp-ts`` once for each ratio, under
        :func:`cost_name`; ``cost`` is what was spent up to and with the row.
    """
    scalar = table["strategy"] == GP_TS
    duels = table[~scalar]
    parts = [duels.assign(cost=duels["step"])]
    for ratio in RATIOS:
        values = table[scalar]
        parts.append(values.assign(strategy=cost_name(ratio), cost=ratio * values["step"]))
    together = pd.concat(parts, ignore_index=True)
    return together[together["cost"] <= budget]


def markers(table: pd.DataFrame, every: int) -> pd.DataFrame:
    r"""The regret of the last ``every`` iterations, each time so many more were bought.

    Args:
        table: What :func:`by_cost` returned.
        every: The number of iterations from one marker to the next.

    Returns:
        A row for each ``strategy``, ``seed`` and marker: its ``cost``, the number ``bought``
        so far, and the mean ``regret``. An incomplete last one is left out.
    """
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
    r"""Duels beside values that cost more.

    Attributes:
        runs_of: The folder of the experiment whose runs these are.
    """

    runs_of: str

    @property
    def runs_folder(self) -> str:
        """See the base class."""
        return self.runs_of

    @property
    def baseline(self) -> str:
        """See the base class; none."""
        return ""

    @property
    def columns(self) -> tuple[Column, ...]:
        """See the base class."""
        return (
            Column("bought", "duels or values", error=False),
            Column("final", f"regret of the last {self.last}", quantiles=True),
        )

    def measures(self, table: pd.DataFrame) -> pd.DataFrame:
        """See the base class; at the last marker that the budget allows."""
        runs = self._markers(table).groupby(["strategy", "seed"], sort=False)
        last = runs[["bought", "regret"]].last().reset_index()
        return last.rename(columns={"regret": "final"}).assign(step=self.horizon)

    def figure(self, table: pd.DataFrame) -> Figure:
        """See the base class; a marker each time 25 more duels, or values, were bought."""
        return plot_bands(
            self._markers(table),
            x="cost",
            y="regret",
            title=f"{self.title}: {self.setting}",
            xlabel="spent (the cost of a duel is 1)",
            ylabel=f"dueling regret\n(mean of the last {self.last} bought)",
        )

    def _markers(self, table: pd.DataFrame) -> pd.DataFrame:
        return markers(by_cost(table, self.horizon), self.last)
