"""What is timed, in turns, and how it is shown."""

import time
from functools import partial

import pandas as pd
import torch

from botorch_pref.benchmarks.timing import Case, speed_text, time_cases


def spin(milliseconds: int) -> None:
    """Uses CPU time, which sleeping does not."""
    end = time.process_time() + 1e-3 * milliseconds
    while time.process_time() < end:
        pass


def test_timing() -> None:
    case = Case("spin", "slower spin", lambda: partial(spin, 5), lambda: partial(spin, 20), (3, 3))
    (row,) = time_cases([case], progress=False).to_dict("records")
    assert (row["case"], row["other"]) == ("spin", "slower spin")
    assert 0.005 <= row["ours_seconds"] < 0.02 <= row["other_seconds"]
    assert row["ratio"] == row["other_seconds"] / row["ours_seconds"]


def test_what_is_prepared_is_not_timed() -> None:
    def prepare() -> partial[None]:
        spin(100)
        return partial(spin, 1)

    (row,) = time_cases([Case("", "", prepare, prepare, (1, 1))], progress=False).to_dict("records")
    assert row["ours_seconds"] < 0.05


def test_the_median_of_the_repeats() -> None:
    durations = iter([1, 200, 3])
    case = Case("", "", lambda: partial(spin, next(durations)), lambda: partial(spin, 1), (3, 1))
    (row,) = time_cases([case], progress=False).to_dict("records")
    assert 0.003 <= row["ours_seconds"] < 0.1


def test_threads_are_put_back() -> None:
    before = torch.get_num_threads()
    seen: list[int] = []

    def prepare() -> partial[None]:
        seen.append(torch.get_num_threads())
        return partial(spin, 1)

    time_cases([Case("", "", prepare, prepare, (1, 1))], threads=2, progress=False)
    assert seen == [2, 2]
    assert torch.get_num_threads() == before


def test_the_text() -> None:
    row = {
        "case": "fit",
        "other": "PairwiseGP",
        "ours_seconds": 0.25,
        "other_seconds": 5.0,
        "ratio": 20.0,
        "missing": "",
    }
    lines = speed_text(pd.DataFrame([row])).splitlines()
    assert lines[0].split() == ["case", "against", "ours", "[s]", "other", "[s]", "ratio"]
    assert lines[1].split() == ["fit", "PairwiseGP", "0.2500", "5.0000", "20.0x"]


def test_a_case_is_left_out_where_a_package_is_not_installed() -> None:
    def prepare() -> partial[None]:
        raise AssertionError("is not to be prepared")

    case = Case("bounds", "abacus", prepare, prepare, (1, 1), ("pandas", "no_abacus", "no_beads"))
    there = Case("spin", "spin", lambda: partial(spin, 1), lambda: partial(spin, 1), (1, 1))
    table = time_cases([case, there], progress=False)
    assert table["missing"].tolist() == ["no_abacus, no_beads", ""]
    assert table["ratio"].isna().tolist() == [True, False]
    lines = speed_text(table).splitlines()
    assert len(lines) == 3
    assert "spin" in lines[1]
    assert lines[2].startswith("left out: bounds against abacus; not installed: no_abacus, no_bead")
