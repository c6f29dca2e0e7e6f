r"""Regrets of duels and values against what they cost.

References:
.. [Xu2020] Y. Xu, A. Joshi, A. Singh, A. Dubrawski. Zeroth Order Non-convex Optimization
    with Dueling-Choice Bandits. UAI 2020.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import pandas as pd

from botorch_pref.exceptions import UnsupportedError

_REGRETS = ("regret", "duel_regret", "value_regret")
_RUN = ("problem", "strategy", "seed")


def cost_regrets(table: pd.DataFrame, optimal_value: float) -> pd.DataFrame:
    r"""The least regrets so far, of [Xu2020], eq. (1) and Sec. 4.3.

    All are differences of the noiseless utility, ``f* - f(x)``, least over the queries so far
    that were answered, and infinite before the first of a kind.

    Args:
        table: Of a :class:`~botorch_pref.runner.History`, or of several runs, each by rising
            step, as :func:`~botorch_pref.runner.run_experiment` returns it.
        optimal_value: ``f*``.

    Returns:
        A row for each row, with the same index, and the columns

        ============ =======================================================
        regret       ``S``, over the items of values and both items of duels
        duel_regret  ``R_c``, over the first items of duels alone
        value_regret ``R_l``, over the items of values
        ============ =======================================================
    """
    gaps = optimal_value - table[["first_utility", "second_utility"]].astype(float)
    answered = table["answer"].notna()
    duels = answered & table["kind"].eq("duel")
    values = answered & table["kind"].eq("evaluate")
    least = pd.DataFrame(
        {
            "regret": gaps.min(axis=1).where(duels | values, math.inf),
            "duel_regret": gaps["first_utility"].where(duels, math.inf),
            "value_regret": gaps["first_utility"].where(values, math.inf),
        }
    )
    run = [table[name] for name in _RUN if name in table]
    return least.groupby(run, sort=False).cummin() if run else least.cummin()


def regrets_at(table: pd.DataFrame, costs: Iterable[float]) -> pd.DataFrame:
    r"""What runs have come to when so much is spent.

    Args:
        table: Runs as for :func:`cost_regrets`, with its columns and ``cost``.
        costs: Amounts; a run that ended before keeps what it had.

    Returns:
        A row for each strategy and seed, in the order of the table, and amount, with ``strategy``,
        ``seed``, ``cost``, ``regret``, ``duel_regret`` and ``value_regret``.

    Raises:
        UnsupportedError: If the table has no costs, as that of a strategy without a budget.
    """
    if "cost" not in table or table["cost"].isna().any():
        raise UnsupportedError("table: its runs must have costs, which strategies with budgets do.")
    runs = table[["strategy", "seed"]].drop_duplicates()
    parts = []
    for cost in costs:
        rows = table[table["cost"] <= cost]
        last = rows.drop_duplicates(["strategy", "seed"], keep="last")
        columns = last[["strategy", "seed", *_REGRETS]]
        found = runs.merge(columns, how="left", on=["strategy", "seed"])
        # What spent nothing yet has asked nothing yet.
        parts.append(found.fillna(dict.fromkeys(_REGRETS, math.inf)).assign(cost=cost))
    return pd.concat(parts, ignore_index=True)[["strategy", "seed", "cost", *_REGRETS]]
