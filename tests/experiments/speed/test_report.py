"""The table as text, its curves, and what is saved."""

import math
from pathlib import Path

import pandas as pd
import pytest

from experiments.speed.report import curves, plot_speed, save_speed, speed_text


def row(size: float, ours: str, package: str, seconds: float, **more: object) -> dict[str, object]:
    standard = {
        "section": "scaling",
        "case": f"{size:g} duels: fit",
        "operation": "fit",
        "data": "{m} duels",
        "size": size,
        "ours": ours,
        "package": package,
        "seconds": seconds,
        "cpu": seconds,
        "wall": seconds,
        "longest": seconds,
        "repeats": 0 if math.isnan(seconds) else 1,
        "ratio": seconds / 0.5,
        "note": "",
    }
    return standard | more


@pytest.fixture
def table() -> pd.DataFrame:
    nothing = "not timed: took 99 s at m = 200"
    rows = [row(size, "A", "A", 0.01 * size) for size in (50, 100, 200, 400)]
    others = [
        row(50, "A", "B", 1.0),
        row(100, "A", "B", 2.0),
        row(200, "A", "B", 16.0),
        row(400, "A", "B", math.nan, note=nothing),
    ]
    interleaved = [one for pair in zip(rows, others, strict=True) for one in pair]
    alone = row(math.nan, "C", "C", 12.0, case="asks", repeats=3, longest=19.0, wall=15.0)
    return pd.DataFrame([*interleaved, alone])


def test_the_text(table: pd.DataFrame) -> None:
    lines = speed_text(table).splitlines()
    assert lines[0].split() == ["case", "ours", "[s]", "against", "[s]", "ratio", "note"]
    assert lines[1].split() == ["50", "duels:", "fit", "A", "0.5000", "B", "1.0000", "2x"]
    assert lines[4].split()[3:6] == ["A", "4.0000", "B"]
    assert lines[4].rstrip().endswith("not timed: took 99 s at m = 200")
    assert "C" in lines[5].split()
    assert lines[5].strip().endswith("longest 19.0; on the clock 15.0")
    assert lines[-2].split() == ["1.00", "A,", "m", "duels:", "fit"]
    assert lines[-1].split() == ["3.00", "B,", "m", "duels:", "fit"]


def test_slopes_are_those_of_the_larger_half(table: pd.DataFrame) -> None:
    ours, other = curves(table)
    assert ours.sizes.tolist() == [50, 100, 200, 400]
    assert ours.slope == pytest.approx(1.0)
    assert other.sizes.tolist() == [50, 100, 200]  # what was not timed is no point
    assert other.slope == pytest.approx(3.0)
    seven = ours._replace(sizes=2.0 ** pd.RangeIndex(7).to_numpy())
    seconds = [9.0, 9.0, 9.0, 1.0, 2.0, 4.0, 8.0]
    assert seven._replace(seconds=pd.Series(seconds).to_numpy()).slope == pytest.approx(1.0)


def test_the_figure(table: pd.DataFrame) -> None:
    figure = plot_speed(curves(table), "a title")
    (axes,) = (axes for axes in figure.axes if axes.lines)
    assert [line.get_label() for line in axes.lines] == ["A: slope 1.00", "B: slope 3.00"]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.lines[1].get_ydata().tolist() == [1.0, 2.0, 16.0]  # type: ignore[union-attr]


def test_what_is_saved(table: pd.DataFrame, tmp_path: Path) -> None:
    paths = save_speed(table, "a text", "a title", tmp_path)
    assert [path.name for path in paths] == ["speed.csv", "speed.txt", "speed.png"]
    assert pd.read_csv(paths[0])["seconds"].notna().sum() == table["seconds"].notna().sum()
    assert paths[1].read_text() == "a text\n"
    assert paths[2].stat().st_size > 1_000
    (tmp_path / "alone").mkdir()
    alone = save_speed(table[-1:], "a text", "a title", tmp_path / "alone")
    assert [path.name for path in alone] == ["speed.csv", "speed.txt"]
