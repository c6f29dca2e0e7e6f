"""Command lines and tables at random: they work, or end with status 2 and one line."""

from __future__ import annotations

import contextlib
import io
import os
import random
import tempfile
import warnings
from pathlib import Path
from unittest.mock import patch

import pytest

from botorch_pref.cli import main
from tests.faults.common import Campaign

WORDS = (
    "",
    " ",
    "x",
    "-1",
    "0",
    "1",
    "2",
    "7",
    "nan",
    "inf",
    "1e400",
    "1.5",
    "None",
    "ä\u0301",
    "\0",
)
WORDS += ("99999999999", "9" * 25, "a" * 300, "--", "-", "{}", "::", "a:b", "../x", "/dev/null/x")
BOUNDS = ("x:0:1", "milk (ml):0:80,shots:1:4:int", "r:{a|b}", "d:0.1:10:log", "x:0:1,y:-1:1:int")
WRONG = ("x:1:0", "x:0:1e-320", "x:-1e308:1e308", "x:nan:1", "x:0:inf", "x:0:1,x:0:1", "r:{a}")
WRONG += (
    "x:-1:1:log",
    "x:0:1.5:int",
    "r:{a|a}",
    "x:0:1:int:log",
    "(ml):0:1",
    ":0:1",
    "x:0:1,",
    ",",
)
WRONG += (
    "r:{" + "|".join(map(str, range(2000))) + "}",
    "x:0:1e300:int",
    "x:1e17:100000000000000001",
)
CELLS = (
    "",
    "0",
    "1",
    "2.5",
    "-3",
    "a",
    "b",
    "nan",
    "inf",
    "1e308",
    "-1e308",
    "1e-320",
    "1e400",
    '"',
)
CELLS += ("True", "1,2", "ä", "\t", ";", "None", "1_000", "0x10", "9" * 400, '"a,b"', "\0", "'")
OPTIONS = {
    "run": ("--strategy", "--horizon", "--seed", "--preset", "--dim", "--out", "--num-choices"),
    "ask": ("--bounds", "--choices", "--strategy", "--question", "--horizon", "--seed"),
    "advise": ("--bounds", "--seed", "--choices"),
}
VALUES = {
    "--strategy": (
        "eubo",
        "pf-ts",
        "mr-lpf",
        "random",
        "pop-bo-laplace",
        "max-min-lcb",
        "comp-gp-ucb",
    ),
    "--horizon": ("1", "2", "3"),
    "--seed": ("0", "1", str(2**63 - 1), str(2**63)),
    "--preset": ("practical", "paper"),
    "--dim": ("1", "2", "3", "4"),
    "--out": ("out", "a/b", "table.csv"),
    "--num-choices": ("40", "99999999999"),
    "--question": ("duel", "best of 3", "rank 3", "grade 5", "best of 12", "rank 8", "grade 1"),
    "--choices": ("table.csv", "none.csv", ".", "/dev/null"),
    "--bounds": (*BOUNDS, *BOUNDS, *WRONG),
}
PROBLEMS = ("ackley", "branin", "catalyst", "rkhs", "hartmann3", "thermalcomfort", "shekel", "levy")


def line(draw: random.Random) -> list[str]:
    """A command, mostly of options that there are, and often with values that are good."""
    command = draw.choice(["run", "ask", "ask", "advise"])
    first = (
        draw.choice(PROBLEMS) if command == "run" else draw.choice(["s.json", "s.json", "t.json"])
    )
    words = [command, first if draw.random() < 0.95 else draw.choice(WORDS)]
    chosen = draw.sample(OPTIONS[command], draw.randint(0, 3))
    if command != "run" and draw.random() < 0.9:
        chosen = [draw.choice(["--bounds", "--choices"] if command == "ask" else ["--bounds"])]
        chosen += draw.sample(OPTIONS[command], 1)
    for option in chosen:
        value = draw.choice(VALUES[option] if draw.random() < 0.85 else WORDS)
        words += draw.choice([[option, value]] * 6 + [[f"{option}={value}"], [option], [value]])
    if command == "run" and "--horizon" not in words:
        words += ["--horizon", "2"]
    return words


def table(draw: random.Random) -> str:
    """A table of items, often a good one."""
    width, height = draw.randint(1, 3), draw.randint(0, 6)
    names = [draw.choice(["x", "y (ml)", "z", "roast", *CELLS[:2]]) for _ in range(width)]
    if draw.random() < 0.6:
        names = ["x", "y (ml)", "roast"][:width]
    rows = [names]
    for row in range(height):
        good = draw.random() < 0.85
        cells = [f"{row + 0.5 * i}" if good else draw.choice(CELLS) for i in range(width)]
        rows.append(cells if draw.random() < 0.95 else cells[1:])
    return (
        draw.choice([",", ",", ",", ";", "\t"]).join(rows[0])
        + "\n"
        + "\n".join(",".join(row) for row in rows[1:])
    )


def trial(words: list[str], typed: str) -> str:
    errors = io.StringIO()
    with (
        patch("sys.stdin", io.StringIO(typed)),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(errors),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        try:
            status = main(words)
        except SystemExit as stopped:
            if stopped.code == 2 and len(errors.getvalue().strip().splitlines()) != 1:
                raise RuntimeError(f"It is no single line: {errors.getvalue()}") from stopped
            return {0: "works", 2: "refused"}[int(str(stopped.code))]
    return {0: "works", 130: "works"}[status]


def campaign(number: int, seed: int) -> Campaign:
    found, draw, before = Campaign(), random.Random(seed), Path.cwd()
    answers = [
        "1",
        "2",
        "=",
        "3",
        "3 1 2",
        "y",
        "n",
        "1.5",
        "1e308",
        "s",
        "u",
        "h",
        "q",
        "?",
        "nan",
    ]
    for _ in range(number):
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                content = table(draw)
                Path("table.csv").write_bytes(
                    content.encode(draw.choice(["utf-8"] * 9 + ["utf-16"]))
                )
                if draw.random() < 0.1:
                    Path("t.json").write_text(draw.choice(["", "{}", "[]", "x", "[" * 3000]))
                words = line(draw)
                typed = "\n".join(draw.choices(answers, k=4)) + "\nq\n"
                what = (words, content if "table.csv" in words else "", typed)
                found.run(words[0], what, lambda words=words, typed=typed: trial(words, typed))
            finally:
                os.chdir(before)
    return found


def test_command_lines() -> None:
    campaign(12, 1).check()


@pytest.mark.parametrize("option", ["--bounds=--", "--seed=--"])
def test_what_argparse_drops(option: str) -> None:
    assert trial(["ask", "s.json", option], "q\n") == "refused"
