r"""Experiments whose regrets are in units of the utility, as those of the POP-BO paper.

References:
.. [Xu2024] W. Xu, W. Wang, Y. Jiang, B. Svetozarevic, C. N. Jones. Principled
    Preferential Bayesian Optimization. ICML 2024.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from botorch_pref.plotting import plot_experiment
from experiments.experiment import Column, RegretExperiment

SHARE = 0.4  # of a cumulative regret: what is below it is 2.5 times smaller
SHARED = f"{SHARE:g} cumulative"
SECONDS = Column("seconds", "s a step", digits=2, error=False)
_RUN = ["strategy", "seed"]
_SLOPES = (0.5, 0.75, 1.0)
_LEAST = 1e-3  # regret: below it a logarithm says nothing


def with_first_arm(table: pd.DataFrame) -> pd.DataFrame:
    r"""Add the regret of the first arm, ``f* - f(x_t)``.

    Args:
        table: What :func:`~botorch_pref.runner.run_experiment` returns.

    Returns:
        The table with ``first_regret`` and its sum so far, ``cumulative_first_regret``.
    """
    difference = table["second_utility"] - table["first_utility"]
    table = table.assign(first_regret=table["utility_regret"] + 0.5 * difference)
    total = table.groupby(_RUN, sort=False)["first_regret"].cumsum()
    return table.assign(cumulative_first_regret=total)


def regret_slope(steps: np.ndarray, cumulative: np.ndarray) -> float:
    r"""The exponent of a cumulative regret: 1 where it grows linearly ([Xu2024], Fig. 4).

    Args:
        steps: The ``n`` steps, increasing.
        cumulative: The ``n`` cumulative regrets.

    Returns:
        The slope of the line of least squares through their logarithms from a fifth of the
        steps on; 0 where there is but one.
    """
    late = 5 * steps >= steps[-1]
    x, y = np.log(steps[late]), np.log(np.maximum(cumulative[late], _LEAST))
    x = x - x.mean()
    return float(x @ y / max(x @ x, np.finfo(float).tiny))


@dataclass(frozen=True, kw_only=True)
class UtilityExperiment(RegretExperiment):
    r"""Strategies that share fixed hyperparameters, measured by their utility regrets.

    Attributes:
        slopes: Whether the growth of the regret is shown as well.
        num_recommendations: How many recommendations a run is asked for; on a box, each is
            a search of its own.
    """

    fixed_models: ClassVar[bool] = False

    tail: int = 1
    slopes: bool = False
    num_recommendations: int = 10

    @property
    def setting(self) -> str:
        """See the base class."""
        return f"{self.horizon} duels"

    @property
    def recommendations(self) -> int:
        """See the base class."""
        return self.num_recommendations

    @property
    def baseline(self) -> str:
        """See the base class; none, as random pairs are played."""
        return ""

    @property
    def columns(self) -> tuple[Column, ...]:
        """See the base class."""
        regrets = (
            Column("cumulative", "cumulative regret, first arm"),
            Column("total", "both arms"),
            Column("recommendation", "recommendation regret", digits=2, quantiles=True),
        )
        slope = (Column("slope", "log-log slope", digits=2),) if self.slopes else ()
        return (*regrets, *slope, SECONDS)

    def measures(self, table: pd.DataFrame) -> pd.DataFrame:
        """See the base class."""
        table = with_first_arm(table)
        runs = table.groupby(_RUN, sort=False)
        cumulative = runs["first_regret"].sum()
        columns = {
            "step": runs["step"].max(),
            "cumulative": cumulative,
            SHARED: SHARE * cumulative,
            "total": 2.0 * runs["utility_regret"].sum(),
            "recommendation": runs["recommendation_regret"].last(),
            "seconds": runs["seconds"].mean(),
            "slope": pd.Series(
                {
                    name: regret_slope(
                        run["step"].to_numpy(float), run["cumulative_first_regret"].to_numpy(float)
                    )
                    for name, run in runs
                }
            ),
        }
        return pd.DataFrame(columns).rename_axis(_RUN).reset_index()

    def figure(self, table: pd.DataFrame) -> Figure:
        """See the base class; beside powers of the number of duels where slopes are wanted."""
        cumulative = "cumulative_first_regret"
        metrics = [cumulative, "recommendation_regret", *([cumulative] if self.slopes else [])]
        title = f"{self.title}: {self.setting}"
        figure = plot_experiment(with_first_arm(table), metrics=metrics, title=title)
        if self.slopes:
            axes, last = figure.axes[2], self.horizon
            top = axes.get_ylim()[1]
            for slope in _SLOPES:
                ends = [top * last**-slope, top]
                axes.plot([1, last], ends, color="#909090", lw=0.9, ls=":", zorder=0)
                axes.annotate(f"{slope:g}", (1, ends[0]), color="#595959", fontsize="small")
            axes.set_ylim(top / last**1.1, 1.3 * top)
            axes.set_xlim(1, max(last, 2))
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_title("The same, by powers of the duels", fontsize="medium", loc="left")
        return figure
