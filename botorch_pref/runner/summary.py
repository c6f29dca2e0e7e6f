r"""An experiment's table in a few numbers."""

from __future__ import annotations

import pandas as pd

from botorch_pref.exceptions import UnsupportedError


def summarise(
    table: pd.DataFrame, metric: str = "cumulative_regret", at: int | None = None
) -> pd.DataFrame:
    r"""How a metric is distributed over the seeds of each strategy.

    The mean and its standard error hide heavy tails, so median and quantiles stand beside.

    Args:
        table: What :func:`~botorch_pref.runner.run_experiment` returns.
        metric: A column of numbers.
        at: The step; the last one if omitted. Of a run that ended before it, its own last one.

    Returns:
        A row for each strategy, in the order of the table, with ``strategy``, ``step``,
        ``mean``, ``standard_error`` (missing for a single seed), ``median``,
        ``quantile_10`` and ``quantile_90`` (interpolated between seeds), and ``seeds``,
        their number.

    Raises:
        UnsupportedError: If there is no such column or step, or the metric was not
            recorded there, as a recommendation may not be.
    """
    if metric not in table or not pd.api.types.is_numeric_dtype(table[metric]):
        raise UnsupportedError(f"metric must be a column of numbers, got {metric!r}.")
    step = table["step"].max() if at is None else at
    if not (table["step"] == step).any():
        raise UnsupportedError(f"at must be a step of the table, got {at!r}.")
    # What ended before, as budgets may, keeps what it had in the end.
    until = table[table["step"] <= step]
    rows = until.loc[until.groupby(["strategy", "seed"], sort=False)["step"].idxmax()]
    if rows[metric].isna().any():
        raise UnsupportedError(f"{metric} was not recorded for every run at step {step}.")
    values = rows.groupby("strategy", sort=False)[metric]
    summary = pd.DataFrame(
        {
            "step": int(step),
            "mean": values.mean(),
            "standard_error": values.sem(),
            "median": values.median(),
            "quantile_10": values.quantile(0.1),
            "quantile_90": values.quantile(0.9),
            "seeds": values.size(),
        }
    )
    return summary.reset_index()
