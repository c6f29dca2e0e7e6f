r"""What a paper claims, and whether a run shows it.

Differences are taken within a seed, under which all strategies have the same noise of answers, and
compared with their standard error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

import numpy as np
import pandas as pd

ERRORS = 2.0  # standard errors that a difference must exceed
RULE = (
    f'"Lower" is seen if the mean difference over the seeds is below zero by more than {ERRORS:g} '
    f'paired standard errors, "not higher" unless it is above zero by more than {ERRORS:g}; '
    '"higher" is the opposite of "lower".'
)

_ROUNDING = 1e-12

# A strategy and a metric of it.
Side = tuple[str, str]
Verdict = Literal["seen", "not seen", "opposite seen", "unknown"]


class Comparison(NamedTuple):
    r"""What is to be compared.

    Attributes:
        first: A strategy and a metric, small is good.
        second: The same, or a number.
        relation: What the first is said to be.
    """

    first: Side
    second: Side | float
    relation: Literal["lower", "not higher", "higher"] = "lower"


@dataclass(frozen=True)
class Claim:
    r"""A sentence of a paper.

    Attributes:
        text: The sentence, in our words.
        comparisons: What it comes to; the claim is seen if all of them are.
    """

    text: str
    comparisons: tuple[Comparison, ...]


class Outcome(NamedTuple):
    r"""What came of a comparison; numbers are missing where it could not be made.

    Attributes:
        comparison: The comparison.
        first: The mean of the first side over the seeds.
        second: That of the second.
        difference: The mean of ``first - second``.
        standard_error: Its standard error over the seeds.
        verdict: ``"unknown"`` with fewer than two seeds, or without the metric.
    """

    comparison: Comparison
    first: float
    second: float
    difference: float
    standard_error: float
    verdict: Verdict


def lower(metric: str, first: str, *others: str) -> tuple[Comparison, ...]:
    """One strategy's metric is lower than that of each of the others."""
    return tuple(Comparison((first, metric), (other, metric)) for other in others)


def not_higher(metric: str, first: str, *others: str) -> tuple[Comparison, ...]:
    """One strategy's metric is not shown to be higher than that of any of the others."""
    return tuple(Comparison((first, metric), (other, metric), "not higher") for other in others)


def in_rows(claim: Claim, condition: str, row: Callable[[str], str]) -> Claim:
    """The same claim of other rows, under a condition in words."""

    def side(one: Side | float) -> Side | float:
        return (row(one[0]), one[1]) if isinstance(one, tuple) else one

    comparisons = [
        Comparison(cast(Side, side(first)), side(second), relation)
        for first, second, relation in claim.comparisons
    ]
    return Claim(condition + claim.text, tuple(comparisons))


def compared(measures: pd.DataFrame, comparison: Comparison) -> Outcome:
    """Make a comparison."""
    first = _values(measures, comparison.first)
    if isinstance(comparison.second, tuple):
        second = _values(measures, comparison.second)
    else:
        second = pd.Series(comparison.second, index=first.index)
    both = pd.concat([first, second], axis=1, keys=["first", "second"]).dropna()
    means = both.mean()
    if len(both) < 2:
        return Outcome(comparison, means["first"], means["second"], math.nan, math.nan, "unknown")
    with np.errstate(invalid="ignore"):  # what is infinite on both sides is the same
        gap = (both["first"] - both["second"]).fillna(0.0).to_numpy(dtype=float)
        difference, error = float(gap.mean()), float(gap.std(ddof=1)) / math.sqrt(len(gap))
    if math.isinf(difference):
        error = 0.0
    verdict: Verdict = "not seen"
    least = max(ERRORS * error, _ROUNDING)
    excess = -difference if comparison.relation == "higher" else difference
    if excess > least:
        verdict = "opposite seen"
    elif comparison.relation == "not higher" or excess < -least:
        verdict = "seen"
    return Outcome(comparison, means["first"], means["second"], difference, error, verdict)


def judge_claim(measures: pd.DataFrame, claim: Claim) -> tuple[Verdict, list[Outcome]]:
    """Whether a claim was seen."""
    outcomes = [compared(measures, comparison) for comparison in claim.comparisons]
    verdicts = {outcome.verdict for outcome in outcomes}
    if "unknown" in verdicts:
        return "unknown", outcomes
    if len(verdicts) == 1:
        return verdicts.pop(), outcomes
    return "not seen", outcomes


def _values(measures: pd.DataFrame, side: Side) -> pd.Series[float]:
    """One side, by seed; empty where it was not measured."""
    strategy, metric = side
    if metric not in measures:
        return pd.Series(dtype=float)
    rows = measures[measures["strategy"] == strategy]
    return rows.set_index("seed")[metric].astype(float)
