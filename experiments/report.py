r"""What came of an experiment: a report in Markdown, tables and a figure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from botorch_pref.plotting import save_figure
from botorch_pref.runner import replacing, summarise
from experiments.claims import RULE, Claim, Outcome, Side, judge_claim
from experiments.experiment import Column, Experiment

_STATISTICS = ["mean", "standard_error", "median", "quantile_10", "quantile_90", "seeds"]
_DIGITS = "%.10g"
FILES = (".md", ".png", ".csv", "-claims.csv", "-rows.csv")
"""The endings of the files of an experiment, behind its name."""


def summary(experiment: Experiment, measures: pd.DataFrame) -> pd.DataFrame:
    """All metrics of all strategies."""
    parts = []
    for metric in measures.columns.drop(["strategy", "seed", "step"]):
        part = summarise(measures, metric)
        part.insert(0, "metric", metric)
        parts.append(part)
    table = pd.concat(parts, ignore_index=True)
    table.insert(0, "experiment", experiment.name)
    return table[["experiment", "strategy", "metric", "step", *_STATISTICS]]


def report(experiment: Experiment, measures: pd.DataFrame) -> str:
    """The experiment's table, the paper's claims and whether they were seen."""
    seeds = measures["seed"].nunique()
    number = "one seed" if seeds == 1 else f"{seeds} seeds"
    rows = summary(experiment, measures)
    parts = [
        f"{experiment.title} ({experiment.source}): {experiment.setting}, {number}.",
        _table(experiment.columns, rows, experiment.printed),
    ]
    for heading, columns in experiment.further_columns.items():
        parts.append(f"{heading}:\n\n{_table(columns, rows, {})}")
    if experiment.baseline:
        parts.append(experiment.baseline)
    if experiment.all_claims:
        claims = [
            _claim_text(number, claim, measures)
            for number, claim in enumerate(experiment.all_claims, start=1)
        ]
        parts += [f"{experiment.claims_heading}:\n\n" + "\n".join(claims), RULE]
    parts.append("\n".join(f"- {note}" for note in experiment.notes))
    return "\n\n".join(part for part in parts if part)


def claims_table(experiment: Experiment, measures: pd.DataFrame) -> pd.DataFrame:
    """The comparisons behind the claims."""
    rows = []
    for claim in experiment.all_claims:
        verdict, outcomes = judge_claim(measures, claim)
        for outcome in outcomes:
            first, second = map(_side, outcome.comparison[:2])
            rows.append(
                {
                    "claim": claim.text,
                    "claim_verdict": verdict,
                    "first": first,
                    "relation": outcome.comparison.relation,
                    "second": second,
                    "first_mean": outcome.first,
                    "second_mean": outcome.second,
                    "difference": outcome.difference,
                    "standard_error": outcome.standard_error,
                    "verdict": outcome.verdict,
                }
            )
    return pd.DataFrame(rows)


def save(
    experiment: Experiment, table: pd.DataFrame, measures: pd.DataFrame, folder: Path, text: str
) -> dict[str, Path]:
    """Write all files of an experiment, each of them whole or not at all.

    Raises:
        OSError: If a file cannot be written.
    """
    paths = [folder / (experiment.name + ending) for ending in FILES]
    tables = (summary(experiment, measures), claims_table(experiment, measures), table)
    for path, rows in zip(paths[2:], tables, strict=True):
        with replacing(path) as temporary:
            rows.to_csv(temporary, index=False, float_format=_DIGITS)
    with replacing(paths[0]) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")
    save_figure(experiment.figure(table), paths[1])
    return dict(zip(("report", "figure", "summary", "claims", "all rows"), paths, strict=True))


def _claim_text(number: int, claim: Claim, measures: pd.DataFrame) -> str:
    """A claim as an item of a list, with the numbers compared below it."""
    verdict, outcomes = judge_claim(measures, claim)
    seen = sum(outcome.verdict == "seen" for outcome in outcomes)
    some = f" ({seen} of {len(outcomes)})" if 0 < seen < len(outcomes) else ""
    lines = [f"{number}. {claim.text} **{verdict.capitalize()}{some}.**"]
    lines += [f"   - {_outcome_text(outcome)}" for outcome in outcomes]
    return "\n".join(lines)


def _outcome_text(outcome: Outcome) -> str:
    """What was compared, the numbers, and the verdict."""
    first, second = map(_side, outcome.comparison[:2])
    text = f"{first} {outcome.comparison.relation} than {second}"
    if not math.isnan(outcome.first) and not math.isnan(outcome.second):
        text += f": {outcome.first:.3g} against {outcome.second:.3g}"
    if not math.isnan(outcome.difference):
        text += f", difference {outcome.difference:.3g} ± {outcome.standard_error:.2g}"
    return f"{text}: {outcome.verdict}"


def _side(side: Side | float) -> str:
    return f"{side[1]} of {side[0]}" if isinstance(side, tuple) else f"{side:g}"


def _table(
    columns: Sequence[Column], rows: pd.DataFrame, printed: Mapping[str, Mapping[str, str]]
) -> str:
    """The columns of an experiment's table in Markdown, padded to be read as they are."""
    cells: dict[str, list[str]] = {"strategy": [*rows["strategy"].unique()]}
    for column in columns:
        of_metric = rows[rows["metric"] == column.metric].set_index("strategy")
        cells |= _column(column, of_metric.loc[cells["strategy"]])
    for name, row in printed.items():
        for heading, column_cells in cells.items():
            column_cells.append(name if heading == "strategy" else row.get(heading, ""))
    return _markdown(cells)


def _column(column: Column, values: pd.DataFrame) -> dict[str, list[str]]:
    """The cells of one metric: the mean, and the spreads and quantiles that are wanted."""

    def text(value: float) -> str:
        return "" if math.isnan(value) else _number(column.scale * value, column.digits)

    means = [text(mean) for mean in values["mean"]]
    spread = values["standard_error"]
    if column.deviation:
        spread = spread * values["seeds"] ** 0.5
    if column.error or column.deviation:
        errors = [f" ± {_number(column.scale * error, 2)}" for error in spread]
        endless = values["mean"].map(math.isinf)
        errors = ["" if end else error for end, error in zip(endless, errors, strict=True)]
        means = [mean + error for mean, error in zip(means, errors, strict=True)]
    found = {column.heading: means}
    if column.quantiles:
        for heading in ("median", "quantile_10", "quantile_90"):
            name = {"quantile_10": "10 %", "quantile_90": "90 %"}.get(heading, heading)
            found[name] = [text(value) for value in values[heading]]
    return found


def _number(value: float, digits: int) -> str:
    """A number without an exponent, to so many significant digits."""
    if math.isnan(value):
        return "?"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value == 0:
        return "0"
    places = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{value:.{max(0, places)}f}"


def _markdown(cells: dict[str, list[str]]) -> str:
    widths = [max(map(len, [heading, *column])) for heading, column in cells.items()]
    lines = [[*cells], ["-" * width for width in widths], *zip(*cells.values(), strict=True)]
    padded = (
        " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        for line in lines
    )
    return "\n".join(f"| {line} |" for line in padded)
