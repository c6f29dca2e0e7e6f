"""The report, and the files, of made-up runs."""

import math
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from botorch_pref.problems import Ackley
from botorch_pref.strategies import PFTS
from experiments.claims import Claim, lower
from experiments.experiment import Column, RegretExperiment
from experiments.report import FILES, claims_table, report, save, summary

EXPERIMENT = RegretExperiment(
    name="made-up",
    title="A made-up experiment",
    source="nowhere, Fig. 7",
    problem=partial(Ackley, num_choices=6),
    strategies={"first": PFTS.paper, "second": PFTS.paper},
    horizon=3,
    seeds=2,
    tail=2,
    claims=(
        Claim("The first is lower.", lower("cumulative", "first", "second")),
        Claim("A third is lower.", lower("cumulative", "third", "second")),
    ),
    notes=("Nothing was played.",),
)
# Cumulative regrets of 0.3 and 0.6, and of 1.2 and 1.3.
TABLE = pd.DataFrame(
    {
        "problem": "ackley",
        "strategy": strategy,
        "seed": seed,
        "step": step,
        "dueling_regret": total / 3,
        "cumulative_regret": step * total / 3,
        "recommendation_regret": 0.0,
        "identical": seed == 1,
        "identical_share": float(seed == 1),
        "seconds": 0.004,
    }
    for strategy, totals in (("first", [0.3, 0.6]), ("second", [1.2, 1.3]))
    for seed, total in enumerate(totals)
    for step in (1, 2, 3)
)
MEASURES = EXPERIMENT.measures(TABLE)


def test_the_summary() -> None:
    table = summary(EXPERIMENT, MEASURES)
    assert {*table["experiment"]} == {"made-up"}
    assert {"cumulative", "final", "early", "recommendation", "identical", "seconds"} <= {
        *table["metric"]
    }
    row = table[(table["metric"] == "cumulative") & (table["strategy"] == "first")].iloc[0]
    assert row["mean"] == pytest.approx(0.45)
    assert row["standard_error"] == pytest.approx(0.15)
    assert row["median"] == pytest.approx(0.45)
    assert (row["quantile_10"], row["quantile_90"]) == pytest.approx((0.33, 0.57))
    assert row["seeds"] == 2


def test_the_report() -> None:
    text = report(EXPERIMENT, MEASURES)
    assert text.startswith(
        "A made-up experiment (nowhere, Fig. 7): 3 duels, ridge 0.05, rkhs predictor, 2 seeds."
    )
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|")
    ]
    heading, _, first, second = rows
    assert heading[0] == "strategy"
    table = dict(zip(heading, first, strict=True))
    assert table == {
        "strategy": "first",
        "cumulative regret": "0.450 ± 0.15",
        "median": "0.450",
        "10 %": "0.330",
        "90 %": "0.570",
        "regret of the last 2 duels": "0.15 ± 0.050",
        "recommendation regret": "0 ± 0",
        "identical pairs, %": "50",
        "ms a duel": "4.0",
    }
    assert second[0] == "second"
    random = 3 * EXPERIMENT.random_regret
    assert f"Random play expects a cumulative regret of {random:.1f}." in text
    assert "1. The first is lower. **Seen.**" in text
    compared = "0.45 against 1.25, difference -0.8 ± 0.1: seen"
    assert f"   - cumulative of first lower than cumulative of second: {compared}" in text
    assert "2. A third is lower. **Unknown.**" in text
    assert "lower than cumulative of second: unknown" in text
    assert "2 paired standard errors" in text
    assert text.endswith("- Nothing was played.")


def test_a_claim_that_is_seen_in_part() -> None:
    both = (*lower("cumulative", "first", "second"), *lower("cumulative", "second", "first"))
    text = report(replace(EXPERIMENT, claims=(Claim("Lower.", both),)), MEASURES)
    assert "1. Lower. **Not seen (1 of 2).**" in text


def test_one_seed_has_no_standard_error() -> None:
    text = report(EXPERIMENT, MEASURES[MEASURES["seed"] == 0])
    assert ", one seed." in text
    assert "0.300 ± ?" in text
    assert "**Seen.**" not in text


@pytest.mark.parametrize(
    ("value", "shown"),
    [(126.4, "126"), (9.876, "9.88"), (0.04567, "0.0457"), (0.0, "0"), (1234.5, "1234")],
)
def test_significant_digits(value: float, shown: str) -> None:
    measures = MEASURES.assign(cumulative=value)
    assert f"| {shown} ± 0 " in report(EXPERIMENT, measures)


def test_without_notes_or_claims() -> None:
    bare = replace(EXPERIMENT, notes=(), claims=())
    text = report(bare, MEASURES)
    assert text.endswith(bare.baseline)
    assert claims_table(bare, MEASURES).empty


def test_the_comparisons_as_a_table() -> None:
    table = claims_table(EXPERIMENT, MEASURES)
    assert table["claim_verdict"].tolist() == ["seen", "unknown"]
    row = table.iloc[0]
    assert (row["first"], row["second"]) == ("cumulative of first", "cumulative of second")
    assert (row["relation"], row["verdict"]) == ("lower", "seen")
    assert row["difference"] == pytest.approx(-0.8)
    assert row["standard_error"] == pytest.approx(0.1)
    assert math.isnan(table["difference"].iloc[1])


def test_the_files(tmp_path: Path) -> None:
    text = report(EXPERIMENT, MEASURES)
    paths = save(EXPERIMENT, TABLE, MEASURES, tmp_path, text)
    assert sorted(path.name for path in paths.values()) == sorted(
        f"made-up{ending}" for ending in FILES
    )
    assert {*tmp_path.iterdir()} == {*paths.values()}
    assert paths["report"].read_text(encoding="utf-8") == text + "\n"
    assert paths["figure"].read_bytes().startswith(b"\x89PNG")
    assert len(pd.read_csv(paths["all rows"])) == len(TABLE)
    pd.testing.assert_frame_equal(
        pd.read_csv(paths["summary"]), summary(EXPERIMENT, MEASURES), check_dtype=False
    )
    assert pd.read_csv(paths["claims"])["verdict"].tolist() == ["seen", "unknown"]
    with pytest.raises(OSError, match="missing"):
        save(EXPERIMENT, TABLE, MEASURES, tmp_path / "missing", text)


def test_rows_that_are_printed_and_standard_deviations() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Deviating(RegretExperiment):
        @property
        def columns(self) -> tuple[Column, ...]:
            return (
                Column("cumulative", "regret", error=False, deviation=True),
                Column("seconds", "s", error=False),
            )

    printed = {"theirs": {"regret": "0.5 ± 0.1"}, "chance": {"s": "none"}}
    options = {name: getattr(EXPERIMENT, name) for name in ("problem", "strategies", "claims")}
    experiment = Deviating(
        name="n", title="t", source="s", horizon=3, seeds=2, tail=2, printed=printed, **options
    )
    lines = [line for line in report(experiment, MEASURES).splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert cells[0] == ["strategy", "regret", "s"]
    # Two values 0.3 apart have a standard deviation of 0.3 / sqrt(2).
    assert cells[2] == ["first", "0.450 ± 0.21", "0.00400"]
    assert cells[4:] == [["theirs", "0.5 ± 0.1", ""], ["chance", "", "none"]]
