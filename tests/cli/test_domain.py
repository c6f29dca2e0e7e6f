"""Search spaces as they are written on a command line, or in a table of choices."""

from __future__ import annotations

from pathlib import Path

import pytest

from botorch_pref.cli.domain import parse_bounds, read_choices
from botorch_pref.cli.parser import UsageError


def test_the_grammar() -> None:
    domain = parse_bounds("a:b (mm) : -1e1 : 2.5, level : { x, y | z } ,n:2:64: int :log")
    assert [one.label for one in domain.dimensions] == ["a:b (mm)", "level", "n"]
    assert [one.levels for one in domain.dimensions] == [(), ("x, y", "z"), ()]
    assert domain.space.bounds.tolist() == [[-10.0, 0.0, 2.0], [2.5, 1.0, 64.0]]
    assert domain.space.parameters.integer == domain.space.parameters.log == (2,)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ("", "'' is not NAME:LOW:HIGH, as in 'milk"),
        ("milk:0", "'milk:0' is not NAME:LOW:HIGH"),
        ("milk:0:much", "'milk:0:much' is not NAME:LOW:HIGH"),
        ("milk:0:1,", "'' is not NAME:LOW:HIGH"),
        (":0:1", "'' is no name"),
        ("a:0:1,a (ml):{a|b}", " has 'a' more than once"),
        ("index:0:1", "'index' is a column of the history"),
        ("x:{a}", "'x:{a}' needs two levels or more that differ"),
        ("milk:5:5", "'milk:5:5': the lower bound must be below the upper"),
        ("y:1:2,x:0:nan", "'x:0:nan': `bounds` row 1 is"),
        ("y:1:2,x:0:1:log", "'x:0:1:log': .*`log` needs positive numbers"),
        ("y:1:2,x:0:1.5:int", "'x:0:1.5:int': .*`integer` needs whole numbers"),
    ],
)
def test_bounds_that_cannot_be_read(bounds: str, message: str) -> None:
    with pytest.raises(UsageError, match=f"^--bounds.*{message}"):
        parse_bounds(bounds)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n1,2\n3,\n", "row 2 of 'b' is empty"),
        ("a,b\n", "has no rows below its header"),
        ("roast,x\nlight,1\nlight,2\n", "'roast' is 'light' in every row"),
        ("name,milk\nflat,white,10\nlatte,,3\n", "cannot be read: Length of header"),
        ("a,b\n1,2\n3,4,5\n", "cannot be read: Error tokenizing data"),
        ("1,2\n3,4\n5,6\n", "has no names but numbers"),
        ("milk;sugar\n1;2\n3;4\n", "are not separated by commas"),
        (",milk\n0,10\n1,20\n", "a column of .* has no name"),
        ("Unnamed: 0,milk\n0,10\n1,20\n", "a column of .* has no name"),
        ("", "cannot be read"),
        ("a,b, a \n1,2,3\n3,4,5\n", " has 'a' more than once"),
        ("a,b\n1,2\n3,inf\n", "row 2 of 'b' is inf"),
        ("a,first_a\n1,2\n3,4\n", "'first_a' is the column of the history for the"),
        ("index,x\n1,2\n3,4\n", "'index' is a column of the history"),
        ("x (a) (b),y\n1,2\n3,4\n", r"'x \(a\) \(b\)' is no name such as"),
        ("roast,x\nlight,1\ndark,1\nlight,1.0\n", "rows repeat earlier ones: 3. Leave repeats"),
        ("x\n" + "1\n" * 20, "rows repeat earlier ones: 2, 3, 4, 5, 6 and 14 more"),
    ],
)
def test_tables_that_cannot_be_used(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text(content)
    with pytest.raises(UsageError, match=f"^--choices.*{message}"):
        read_choices(path)
    assert path.read_text() == content


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16"])
def test_a_table_in_another_encoding(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes("café,x\n1,2\n3,4\n".encode(encoding))
    with pytest.raises(UsageError, match=r"'.*table\.csv' is not UTF-8 text: save it as UTF-8"):
        read_choices(path)
    path.write_bytes("café,a.1,a\n1,2,5\n3,4,6\n".encode("utf-8-sig"))
    assert [one.name for one in read_choices(path).dimensions] == ["café", "a.1", "a"]


def test_what_looks_missing_may_be_a_level(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("sweetener,x\nNone,1\nNA,2\nhoney,3\n")
    assert read_choices(path).dimensions[0].levels == ("NA", "None", "honey")


def test_the_column_that_names_files_is_no_feature(tmp_path: Path) -> None:
    """It says which picture was the best; a model sees the numbers beside it alone."""
    for name in "abc":
        (tmp_path / f"{name}.png").touch()
    path = tmp_path / "pictures.csv"
    path.write_text("size,file\n1,b.png\n2,a.png\n3,c.png\n")
    dimensions, space, files = read_choices(path, tmp_path)
    assert files == ("b.png", "a.png", "c.png")
    assert [one.name for one in dimensions] == ["size", "file"]
    assert space.num_features == 1
    path.write_text("file\nb.png\na.png\nc.png\n")  # nothing else tells them apart
    assert read_choices(path, tmp_path).space.num_features == 3
    with pytest.raises(UsageError, match=r"0 columns of .* name a file"):
        read_choices(path, tmp_path / "elsewhere")
