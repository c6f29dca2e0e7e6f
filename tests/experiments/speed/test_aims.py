"""Which aims were met, as the table says."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from experiments.speed.aims import AIMS, reached
from experiments.speed.report import speed_text
from tests.experiments.speed.test_report import row


@pytest.mark.parametrize(
    ("case", "package", "number", "met"),
    [
        ("400 fresh duels, d=6: fit_gpytorch_mll", "PairwiseGP", {"ratio": 30.0}, True),
        ("400 fresh duels, d=6: fit_gpytorch_mll", "PairwiseGP", {"ratio": 29.9}, False),
        ("50 items, 25,600 duels: fit_gpytorch_mll", "PairwiseGP", {"ratio": 9.0}, False),
        (
            "25 fresh duels, d=6: log evidence and gradient",
            "15 Choleskys and the kernel",
            {"ratio": 0.2},
            False,
        ),
        ("16 models of 25 fresh duels, d=6: fit", "one of them", {"ratio": 0.34}, True),
        ("16 models of 400 fresh duels, d=6: fit", "loop of 16", {"ratio": 0.99}, False),
        ("64 bounds in one batch: 30 items, d=2", "CVXPY + Clarabel", {"ratio": 11.0}, None),
        ("30 items, d=2: 64 bounds in one batch", "CVXPY + Clarabel", {"ratio": 11.0}, True),
        ("100 items, d=6: 64 bounds in one batch", "CVXPY + Clarabel", {"ratio": 2.9}, False),
        ("100 items, d=6: 64 bounds in one batch", "CasADi + IPOPT", {"ratio": 2.9}, None),
    ],
)
def test_ratios(case: str, package: str, number: dict[str, float], met: bool | None) -> None:
    ours = row(math.nan, "ours", "ours", 0.5, case=case)
    table = pd.DataFrame([ours, row(math.nan, "ours", package, 1.0, case=case, **number)])
    assert [one.met for one in reached(table, [])] == ([] if met is None else [met])


def test_seconds_memory_and_slopes() -> None:
    case, note = "1,000,000 fresh duels, d=6: mode and posterior of 64 pairs", "peak memory 1.32 GB"
    million = row(1e6, "PreferenceGP", "PreferenceGP", 121.0, case=case, note=note)
    asked = "100 answers, d=6, a box: an answer and a suggestion (tell, ask)"
    slow = row(100, "pop-bo", "pop-bo", 0.4, case=asked, longest=1.2)
    slopes = [("m fresh duels: fit, 512 inducing items", 0.9), ("m fresh duels: fit", 2.4)]
    found = reached(pd.DataFrame([million, slow]), slopes)
    assert [(one.value, one.met) for one in found] == [
        (121.0, False),
        (1.32, True),
        (1.2, False),
        (0.9, True),
    ]
    text = speed_text(pd.DataFrame([million, slow]))
    assert "aims: 2 of 3 missed" in text
    assert "MISSED      1.2  at most 1  s: 100 answers" in text


def test_every_aim_is_of_something_that_is_timed() -> None:
    assert len({(aim.case, aim.package, aim.column) for aim in AIMS}) == len(AIMS)
