"""The rule that decides whether a claim was seen, on made-up runs."""

import math

import pandas as pd
import pytest

from experiments.claims import Claim, Comparison, compared, judged, lower, not_higher


def made_up(**values: list[float]) -> pd.DataFrame:
    """The metric "regret" of each strategy under the seeds 0, 1, ..."""
    return pd.DataFrame(
        {"strategy": name, "seed": seed, "step": 9, "regret": value}
        for name, row in values.items()
        for seed, value in enumerate(row)
    )


# Differences of -1, -2, -3 and -2: mean -2, standard error sqrt(2 / 3) / 2 = 0.408.
PAIRED = made_up(a=[10.0, 20.0, 30.0, 40.0], b=[11.0, 22.0, 33.0, 42.0])


def test_differences_are_paired() -> None:
    outcome = compared(PAIRED, *lower("regret", "a", "b"))
    assert (outcome.first, outcome.second, outcome.difference) == (25.0, 27.0, -2.0)
    assert outcome.standard_error == pytest.approx(math.sqrt(2 / 3) / 2)
    assert outcome.verdict == "seen"  # though each side's own standard error is 6.5


@pytest.mark.parametrize(
    ("gaps", "is_lower", "is_not_higher"),
    [
        ([-1.0, -1.2], "seen", "seen"),
        ([-1.0, 0.5], "not seen", "seen"),
        ([0.0, 0.0], "not seen", "seen"),
        ([-1e-16, -1e-16], "not seen", "seen"),
        ([1e-16, 1e-16], "not seen", "seen"),
        ([1.0, 1.0], "opposite seen", "opposite seen"),
        # A mean of 1 and a standard error of 0.5: exactly two of them are not enough.
        ([0.5, 1.5], "not seen", "seen"),
        ([-0.5, -1.5], "not seen", "seen"),
        ([0.6, 1.5], "opposite seen", "opposite seen"),
    ],
)
def test_verdicts(gaps: list[float], is_lower: str, is_not_higher: str) -> None:
    measures = made_up(a=gaps, b=[0.0] * len(gaps))
    assert compared(measures, *lower("regret", "a", "b")).verdict == is_lower
    assert compared(measures, *not_higher("regret", "a", "b")).verdict == is_not_higher


@pytest.mark.parametrize(
    ("gaps", "verdict"),
    [([1.0, 1.2], "seen"), ([1.0, -0.5], "not seen"), ([-1.0, -1.2], "opposite seen")],
)
def test_higher(gaps: list[float], verdict: str) -> None:
    measures = made_up(a=gaps)
    assert compared(measures, Comparison(("a", "regret"), 0.0, "higher")).verdict == verdict


def test_a_number_for_the_other_side() -> None:
    comparison = Comparison(("a", "regret"), 21.0, "lower")
    outcome = compared(PAIRED, comparison)
    assert (outcome.second, outcome.difference, outcome.verdict) == (21.0, 4.0, "not seen")
    assert compared(PAIRED, comparison._replace(second=60.0)).verdict == "seen"


def test_two_metrics_of_one_strategy() -> None:
    measures = PAIRED.assign(later=PAIRED["regret"] - [1.0, 2.0, 1.0, 2.0] * 2)
    outcome = compared(measures, Comparison(("a", "later"), ("a", "regret")))
    assert (outcome.difference, outcome.verdict) == (-1.5, "seen")


def test_what_was_not_measured_is_unknown() -> None:
    for comparison in (
        *lower("regret", "a", "nobody"),
        *lower("nothing", "a", "b"),
        Comparison(("nobody", "regret"), 1.0),
    ):
        outcome = compared(PAIRED, comparison)
        assert outcome.verdict == "unknown"
        assert math.isnan(outcome.difference)
    one = PAIRED[PAIRED["seed"] == 0]
    outcome = compared(one, *not_higher("regret", "b", "a"))
    assert (outcome.first, outcome.second, outcome.verdict) == (11.0, 10.0, "unknown")


def test_only_common_seeds_count() -> None:
    outcome = compared(PAIRED.iloc[:-1], *lower("regret", "a", "b"))
    assert (outcome.first, outcome.second) == (20.0, 22.0)


def test_a_claim_is_all_of_its_comparisons() -> None:
    measures = made_up(a=[1.0, 1.0], b=[2.0, 2.0], c=[1.0, 1.0], d=[0.0, 0.0])

    def verdict(*others: str) -> str:
        return judged(measures, Claim("a is lower", lower("regret", "a", *others)))[0]

    assert verdict("b") == "seen"
    assert verdict("b", "c") == "not seen"
    assert verdict("b", "d") == "not seen"
    assert verdict("d") == "opposite seen"
    assert verdict("b", "nobody") == "unknown"
    _, outcomes = judged(measures, Claim("a is lower", lower("regret", "a", "b", "d")))
    assert [outcome.verdict for outcome in outcomes] == ["seen", "opposite seen"]


@pytest.mark.parametrize(
    ("first", "second", "is_lower", "is_not_higher"),
    [
        (math.inf, 1.0, "opposite seen", "opposite seen"),
        (1.0, math.inf, "seen", "seen"),
        (math.inf, math.inf, "not seen", "seen"),
    ],
)
def test_what_never_happened_is_infinitely_bad(
    first: float, second: float, is_lower: str, is_not_higher: str
) -> None:
    measures = made_up(a=[first, first, 1.0], b=[second, second, 1.0])
    assert compared(measures, *lower("regret", "a", "b")).verdict == is_lower
    assert compared(measures, *not_higher("regret", "a", "b")).verdict == is_not_higher
