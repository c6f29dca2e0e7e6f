"""What is timed, in turns, and what is left out."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
import torch

from experiments.speed import timing
from experiments.speed.report import speed_text
from experiments.speed.timing import Case, Prepare, Run, Side, time_cases


def spin(milliseconds: int) -> None:
    """Uses CPU time, which sleeping does not."""
    end = time.process_time() + 1e-3 * milliseconds
    while time.process_time() < end:
        pass


def spinning(milliseconds: int) -> Prepare:
    return lambda: partial(spin, milliseconds)


def refuse() -> Run:
    raise AssertionError("is not to be prepared")


def case(ours: Side, *others: Side, size: int = 10) -> Case:
    return Case("models", "spin", "{m} turns", size, ours, others)


def test_timing() -> None:
    table = time_cases(
        [case(Side("ours", spinning(5)), Side("theirs", spinning(20), 2), size=1_000)],
        progress=False,
    )
    ours, theirs = table.to_dict("records")
    assert (ours["case"], ours["package"], ours["size"]) == ("1,000 turns: spin", "ours", 1_000)
    assert 0.005 <= ours["seconds"] < 0.02 <= theirs["seconds"]
    assert theirs["ratio"] == theirs["seconds"] / ours["seconds"]
    assert (ours["ratio"], ours["repeats"], theirs["repeats"]) == (1.0, 3, 2)
    assert ours["cpu"] == ours["seconds"] <= ours["longest"]
    (on_two, _) = time_cases(
        [case(Side("ours", spinning(1)), Side("theirs", spinning(1)))], threads=2, progress=False
    ).to_dict("records")
    assert on_two["seconds"] == on_two["wall"]


def test_what_is_prepared_is_not_timed() -> None:
    def prepare() -> Run:
        spin(60)
        return partial(spin, 1)

    (row,) = time_cases([case(Side("", prepare, 1))], progress=False).to_dict("records")
    assert row["seconds"] < 0.03


def test_the_median_of_the_repeats() -> None:
    durations = iter([1, 60, 3])
    side = Side("", lambda: partial(spin, next(durations)))
    (row,) = time_cases([case(side)], progress=False).to_dict("records")
    assert 0.003 <= row["seconds"] < 0.03
    assert row["longest"] >= 0.06


def test_threads_are_put_back() -> None:
    before = torch.get_num_threads()
    seen: list[int] = []

    def prepare() -> Run:
        seen.append(torch.get_num_threads())
        return partial(spin, 1)

    time_cases([case(Side("", prepare, 2))], threads=2, progress=False)
    assert seen == [2, 2]
    assert torch.get_num_threads() == before


def test_a_side_that_is_too_slow_is_left_out_at_larger_sizes() -> None:
    def sides(ours: int, other: Prepare) -> tuple[Side, Side]:
        return Side("ours", spinning(ours), 1), Side("theirs", other, 1)

    table = time_cases(
        [
            case(*sides(1, spinning(20)), size=10),
            case(*sides(1, refuse), size=20),
            case(*sides(1, refuse), size=40),
            Case("models", "another", "{m} turns", 40, *_pair(sides(1, spinning(1)))),
        ],
        progress=False,
        limit=0.01,
    )
    theirs = table[table["package"] == "theirs"]
    assert theirs["seconds"].notna().tolist() == [True, False, False, True]
    assert theirs["note"].tolist() == ["", *2 * ["not timed: took 0 s at m = 10"], ""]
    assert table[table["package"] == "ours"]["seconds"].notna().all()


def test_what_was_measured_before_a_failure_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    kept = time_cases([case(Side("ours", spinning(1)))], progress=False, path=path)
    cases = [case(Side("ours", spinning(1))), case(Side("ours", refuse), size=20)]
    with pytest.raises(AssertionError, match="not to be prepared"):
        time_cases(cases, progress=False, path=path)
    table = pd.read_csv(path)
    assert [*table] == [*kept]
    assert table["size"].tolist() == [10]
    assert [*tmp_path.iterdir()] == [path]


def _pair(sides: tuple[Side, Side]) -> tuple[Side, tuple[Side]]:
    return sides[0], (sides[1],)


@pytest.mark.parametrize(
    ("options", "note"),
    [
        ({"needs": ("pandas", "no_abacus")}, "needs no_abacus, which botorch-pref[bench] brings"),
        ({"gigabytes": 12.4}, "would take about 12 GB"),
    ],
)
def test_a_side_that_cannot_be_timed_is_left_out(options: dict[str, object], note: str) -> None:
    remarks: list[object] = []
    other = Side("theirs", refuse, **options)  # type: ignore[arg-type]
    ours = Side("ours", lambda: lambda: 7, 1)
    one = Case(
        "models", "count", "{m}", 1, ours, (other,), lambda found: str(remarks.append(found))
    )
    table = time_cases([one], progress=False)
    assert table["note"].tolist() == ["None", f"not timed: {note}"]
    assert table["seconds"].isna().tolist() == [False, True]
    assert remarks == [[7, None]]


def test_what_others_fail_at_is_told() -> None:
    def fail() -> None:
        raise ValueError("no\nway")

    prepare: Callable[[], Run] = lambda: fail  # noqa: E731
    table = time_cases([case(Side("ours", spinning(1), 1), Side("", prepare))], progress=False)
    assert table["note"].tolist() == ["", "not timed: ValueError: no way"]
    with pytest.raises(ValueError, match="no\nway"):
        time_cases([case(Side("ours", prepare))], progress=False)


def test_nothing_is_repeated_if_once_is_enough() -> None:
    table = time_cases([case(Side("ours", spinning(0)))], progress=False, once=True)
    assert table["repeats"].tolist() == [1]


def test_a_side_of_two_cases_is_timed_once() -> None:
    turns: list[int] = []
    shared = Side("theirs", lambda: partial(turns.append, 1), 2)
    table = time_cases(
        [case(Side(name, spinning(1), 1), shared) for name in ("one", "another")], progress=False
    )
    assert turns == [1, 1]
    assert table["ours"].tolist() == ["one", "one", "another", "another"]
    assert table["seconds"].iloc[1] == table["seconds"].iloc[3]


def test_what_does_not_fit_into_the_memory_is_told() -> None:
    """Also of this package; what comes after it is timed."""

    def fail() -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 99 GiB")

    remarks: list[object] = []
    ours, other = Side("ours", lambda: fail), Side("theirs", spinning(1), 1)
    too_large = Case(
        "models", "spin", "{m}", 20, ours, (other,), lambda found: str(remarks.append(found))
    )
    table = time_cases([too_large, case(Side("ours", spinning(1), 1))], progress=False)
    note = "not timed: OutOfMemoryError: CUDA out of memory. Tried to allocate 99 GiB"
    assert table["note"].tolist() == [note, "", ""]
    assert table["seconds"].notna().tolist() == [False, True, True]
    assert table["ratio"].notna().tolist() == [False, False, True]
    assert not remarks  # on what this package did not find
    assert "not timed: OutOfMemoryError" in speed_text(table)


def test_a_device_is_warm_before_it_is_timed(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    timing.warm_up(device)
    events: list[str] = []
    monkeypatch.setattr(timing, "warm_up", lambda device: events.append(f"warm {device}"))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: events.append("wait"))
    sides = Side("ours", lambda: partial(events.append, "run"), 1)
    time_cases([case(sides)], progress=False)
    time_cases([case(sides)], "cuda", progress=False)
    assert events == ["run", "warm cuda", "wait", "wait", "run", "wait"]


def test_who_knows_the_cpu_alone_is_timed_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the table says so; on the CPU there is nothing to say."""
    monkeypatch.setattr(timing, "warm_up", lambda device: None)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    others = Side("theirs", spinning(1), 1, knows_devices=False), Side("more", spinning(1), 1)
    cases = [case(Side("ours", spinning(1), 1), *others)]
    there = time_cases(cases, "cuda", progress=False)
    note = "on the CPU, which is all that it knows"
    assert there["note"].tolist() == ["", note, ""]
    assert there["seconds"].notna().all()
    line = next(line for line in speed_text(there).splitlines() if "theirs" in line)
    assert line.endswith(note)
    assert time_cases(cases, progress=False)["note"].tolist() == 3 * [""]
