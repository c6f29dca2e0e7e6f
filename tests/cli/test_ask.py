"""A person at the terminal, who says which of two items is better; answers are piped in."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

import pytest
import torch
from matplotlib.figure import Figure

from botorch_pref.cli import main
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.strategies import DuelingKG, RandomPairs
from botorch_pref.study import Study
from tests.cli.common import Capture, Type, failure, saved, typing

BOUNDS = "milk (ml):0:80, shots:1:4:int, dose (g):0.1:10:log, roast:{light|dark}"
CLOSE = torch.tensor([[40.0, 0.0], [40.15, 0.0]], dtype=torch.double)
BEGIN = ("--bounds", BOUNDS, "--strategy", "random", "--seed", "4")


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Type:
    return typing("ask", tmp_path, monkeypatch)


def test_a_session(typed: Type, capsys: Capture) -> None:
    """Both items side by side; every key does what it says; the end of the input is an end."""
    assert typed("1 better 2 = s u s", *BEGIN) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    study = saved()
    # What stands first on the screen is the second item of the query as often as not.
    first = [row.first_milk for row in study.history.itertuples()][:3]
    shown_first = [float(text) for text in re.findall(r"milk \(ml\) +(\S+)", shown.out)][:3]
    straight = [abs(one - other) <= 0.5 for one, other in zip(first, shown_first, strict=True)]
    assert set(straight) == {True, False}
    assert straight == [shown == "1 2" for shown in study.history["shown"]][:3]
    typed_answers = [1.0, 0.0, 0.5]
    assert study.history["answer"].tolist()[:3] == [
        answer if same else 1.0 - answer
        for answer, same in zip(typed_answers, straight, strict=True)
    ]
    assert study.history["answer"].isna().tolist() == [False] * 3 + [True]
    assert isinstance(study.strategy, RandomPairs)
    assert study.strategy.seed == 4
    assert study.space.parameters.integer == (1,)
    assert study.space.parameters.log == (2,)
    assert [one.levels for one in study.dimensions] == [(), (), (), ("light", "dark")]
    row = study.history.iloc[0]
    rows = re.findall(r"^    (\S.*?)  +(\S+)  +(\S+)(?:  (\*))?$", shown.out, re.MULTILINE)[:4]
    table = {row[0]: row[1:] for row in rows}
    order = ("first", "second") if straight[0] else ("second", "first")
    milk, roast = ([row[f"{arm}_{name}"] for arm in order] for name in ("milk", "roast"))
    assert table["milk (ml)"] == (f"{milk[0]:.0f}", f"{milk[1]:.0f}", "*")
    assert table["roast"][:2] == (*roast,)
    assert (table["roast"][2] == "*") == (roast[0] != roast[1])
    assert "'better' is no answer: type 1 or 2 for the better one, = for no pref" in shown.out
    assert shown.out.count("The last answer is taken back.") == 1
    assert len(re.findall(r"    progress \[#*\.*\] \d+ %\n", shown.out)) == 3
    assert "of 10 cases" not in shown.out  # too few answers
    assert "3 answers and 1 skip, saved in " in shown.out
    found = study.recommend()
    assert "Recommended: " + " ".join(found.statement.split()) in " ".join(shown.out.split())
    assert Path("study.json.png").read_bytes().startswith(b"\x89PNG")


def test_it_goes_on(typed: Type, capsys: Capture) -> None:
    """By the file alone, or by the same command; the open duel is shown again."""
    assert typed("s", *BEGIN) == 0
    before = capsys.readouterr().out
    assert "Nothing is recommended" in before
    assert not Path("study.json.png").exists()
    pair = saved().strategy.ask().items
    assert typed("2 q") == 0
    shown = capsys.readouterr().out
    assert shown.startswith("study.json: RandomPairs, 0 answers and 1 skip so far.")
    assert before.partition("[2]")[2].partition(", =")[0] in shown  # in the same order
    asked = saved().strategy.history[1].query
    assert torch.equal(asked.items, pair)
    assert typed("u q", *BEGIN) == 0
    assert "The last answer is taken back." in capsys.readouterr().out
    assert len(saved().history) == 1


def test_choices(typed: Type, capsys: Capture) -> None:
    """A table, by the numbers of its rows; text is a category; a plan has an end."""
    rows = "".join(f"{place},{number},{2 * number}\n" for number, place in enumerate("bdac"))
    Path("places.csv").write_text(f"place,size (m2),price\n{rows}")
    arguments = ("--choices", "places.csv", "--strategy", "mr-lpf", "--horizon", "2")
    assert typed("1 2 1 s", *arguments) == 0
    shown = capsys.readouterr().out
    assert re.search(r"choice +#\d +#\d", shown)
    assert "duels are answered" in shown
    assert shown.count("is no answer: type u or q.") == 2
    study = saved()
    assert study.dimensions[0].levels == ("a", "b", "c", "d")
    assert study.space.table[:, 0].tolist() == [1.0, 3.0, 0.0, 2.0]
    assert study.dimensions[1].label == "size (m2)"


def test_embeddings(typed: Type, capsys: Capture) -> None:
    """Pictures that 64 columns describe are asked about by their names."""
    generator = torch.Generator().manual_seed(0)
    numbers = torch.randn(20, 64, generator=generator).tolist()
    lines = [f"{i}.jpg,{','.join(f'{x:.3f}' for x in row)}" for i, row in enumerate(numbers)]
    header = ",".join(["file", *(f"e{i}" for i in range(64))])
    Path("pictures.csv").write_text("\n".join([header, *lines]))
    assert typed("1 2 1", "--choices", "pictures.csv") == 0
    shown = capsys.readouterr().out
    assert re.search(r"    choice +#(\d+) +#(\d+)\n    file +\1\.jpg +\2\.jpg  \*\n1, 2,", shown)
    assert "e63" not in shown
    assert re.search(r"Recommended: choice #(\d+), file \1\.jpg;", shown)


def test_what_is_drawn(typed: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    """A map of a box, in which the recommended item is marked; of choices who wins."""
    figures = []

    def kept(figure: Figure, path: Path) -> Path:
        figures.append(figure)
        return path

    monkeypatch.setattr("botorch_pref.cli.session.save_figure", kept)
    Path("sizes.csv").write_text("size\n1\n2\n3\n")
    assert typed("1 2", "--bounds", "x:0:1,y (ml):0:2", "--strategy", "random") == 0
    assert typed("1 2", "--choices", "sizes.csv", "--strategy", "random", file="b.json") == 0
    assert [figure.axes[0].get_title(loc="left") for figure in figures] == [
        "Mean",
        "Chance (%) that the row wins a duel",
    ]
    assert figures[0].axes[0].get_ylabel() == "y (ml)"
    assert "recommended item" in [text.get_text() for text in figures[0].legends[0].get_texts()]


@pytest.mark.usefixtures("short_searches")
def test_a_probability_is_shown_once_it_means_something(typed: Type, capsys: Capture) -> None:
    assert typed("q", "--bounds", "x:0:1") == 0
    with Study.load("study.json") as study:
        assert isinstance(study.strategy, DuelingKG)  # the default strategy
        for _ in range(14):
            study.tell(study.ask(), 1.0)
    assert "of 10 cases" not in capsys.readouterr().out
    assert typed("1") == 0
    shown = capsys.readouterr().out
    assert re.search(r"progress \[#*\.*\] \d+ %; in \d of 10 cases nothing asked is better", shown)
    assert "is the best of" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "there is no study 'study.json' yet; begin it with --bounds or --choices."),
        (["--bounds", "x:0"], "--bounds: 'x:0' is not NAME:LOW:HIGH"),
        (["--choices", "none.csv"], "--choices: 'none.csv' cannot be read"),
        (["--choices", "none.csv", "--bounds", "x:0:1"], "give --bounds or --choices, not both."),
        (["--bounds", "x:0:1", "--strategy", "comp-gp-ucb"], "--strategy: 'comp-gp-ucb' is none"),
        (["--bounds", "x:0:1", "--horizon", "7"], "--horizon: dueling-kg does not plan"),
    ],
)
def test_wrong_arguments(arguments: list[str], message: str, typed: Type, capsys: Capture) -> None:
    assert message in failure(capsys, typed, "1", *arguments)
    assert not [*Path().iterdir()]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bounds", "x:0:1"], "was begun with other --bounds or --choices"),
        (["--seed", "5"], "was begun with --seed 4, not 5."),
        (["--strategy", "eubo"], "was not begun with --strategy eubo."),
        (["--horizon", "8"], "was begun with --horizon 7, not with 8."),
    ],
)
def test_what_it_was_begun_with(
    arguments: list[str], message: str, typed: Type, capsys: Capture
) -> None:
    assert typed("q", *BEGIN, "--strategy", "mr-lpf", "--horizon", "7") == 0
    assert typed("q", "--horizon", "7") == 0
    before = Path("study.json").read_bytes()
    assert message in failure(capsys, typed, "1", *arguments)
    assert Path("study.json").read_bytes() == before


def test_a_study_that_was_changed_by_hand(typed: Type, capsys: Capture) -> None:
    path = Path("study.json")
    assert typed("1 q", *BEGIN, "--strategy", "random") == 0
    path.write_text(path.read_text().replace('"description": ""', '"description": "mine"'))
    refused = failure(capsys, typed, "1")
    assert "botorch-pref: --unverified" in refused
    assert "with 1 answer, is in" in refused
    assert typed("1 q", "--unverified") == 0
    assert "It is taken as it is" in capsys.readouterr().err
    assert typed("q") == 0
    assert (len(saved().history), saved().description) == (2, "mine")


def test_the_last_answer_of_a_plan_is_taken_back(typed: Type, capsys: Capture) -> None:
    plan = ("--bounds", "x:0:1", "--strategy", "mr-lpf", "--horizon", "2")
    assert typed("1 2 s u 1 q", *plan) == 0
    shown = capsys.readouterr().out
    assert "The last answer is taken back." in shown
    study = saved()
    # A "1" to both questions, of the item that stood first.
    told = [1.0 - answered.query.shown[0] for answered in study.strategy.history]
    assert study.history["answer"].tolist() == told
    assert typed("u q", *plan) == 0
    assert saved().history["answer"].tolist() == told[:1]


@pytest.mark.parametrize(("strategy", "seed"), [("mr-lpf", "1"), ("max-min-lcb", "0")])
def test_nobody_compares_a_choice_with_itself(
    strategy: str, seed: str, typed: Type, tmp_path: Path
) -> None:
    """Also where one candidate is left, as after answers that never contradict another."""
    (tmp_path / "places.csv").write_text("x\n" + "\n".join(map(str, range(4))))
    told = " ".join(["1"] * 12)
    assert typed(told, "--choices", "places.csv", "--strategy", strategy, "--seed", seed) == 0
    history = saved().history
    assert (history["first_index"] != history["second_index"]).all()


def test_a_failure_is_no_end_of_a_plan(
    typed: Type, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def failing(self: Study) -> None:
        raise UnsupportedError("a search that cannot be done")

    monkeypatch.setattr(Study, "ask", failing)
    assert "a search that cannot be done" in failure(capsys, typed, "q", *BEGIN)


def test_two_items_never_look_the_same(
    typed: Type, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """What a rounded number hides is shown with more digits; the same items as good as never."""
    monkeypatch.setattr(RandomPairs, "_pair", lambda self, annotator: (CLOSE, None))
    assert typed("1", "--bounds", "milk (ml):0:80,roast:{light|dark}", "--strategy", "random") == 0
    shown = capsys.readouterr().out
    texts, *_ = re.findall(r"milk \(ml\) +(\S+) +(\S+)  \*\n    roast +light +light\n", shown)
    assert sorted(texts) == ["40.00", "40.15"]


def test_a_terminal_is_told_that_it_has_to_wait(
    typed: Type, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert typed("1", *BEGIN) == 0
    shown = capsys.readouterr().err
    assert shown.startswith("starting ...\r            \rthinking ...\r")
    assert shown.endswith("\r")


def test_nobody_reads_the_output(typed: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(study: Study) -> None:
        raise BrokenPipeError

    closed = []
    monkeypatch.setattr(Study, "ask", failing)
    monkeypatch.setattr(os, "dup2", lambda *handles: closed.append(handles))
    assert typed("1", *BEGIN) == 1
    assert len(closed) == 1


def test_what_is_no_text_is_no_answer(
    typed: Type, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    assert typed("q", *BEGIN) == 0
    piped = io.TextIOWrapper(io.BytesIO(b"\xff\n1\n"), encoding="utf-8")
    monkeypatch.setattr("sys.stdin", piped)
    assert main(["ask", "study.json"]) == 0
    assert "is no answer: type 1 or 2" in capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", None)  # closed, which ends the session
    assert main(["ask", "study.json"]) == 0
    assert len(saved().history) == 1


@pytest.mark.parametrize(
    ("question", "answers", "prompt"),
    [
        ("best of 3", ["2", "9", "3"], "The number of the best one"),
        ("rank 3", ["2 1 3", "12", "321"], "The numbers from best to worst"),
        ("grade 5", ["1", "6", "5"], "From 1 (1 is better by most) to 5 (2 is better by most)"),
    ],
)
def test_other_questions(
    question: str,
    answers: list[str],
    prompt: str,
    typed: Type,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    typed("q", *BEGIN, "--question", question)
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join([*answers, "q", ""])))
    assert main(["ask", "study.json", "--question", question]) == 0
    shown = capsys.readouterr().out
    assert prompt in shown
    assert f"{answers[1]!r} is no answer: type " in shown
    study = saved()
    (first, told), (last, end) = study.strategy.history
    positions = [int(digit) - 1 for digit in answers[0].replace(" ", "")]
    if question == "grade 5":  # 1: what stands first is better by most
        assert (told, end) == (4.0 * (first.shown[0] == 0), 4.0 * (last.shown[0] == 1))
    elif question == "rank 3":
        assert told == tuple(first.shown[i] for i in positions)
    else:
        assert told == first.shown[positions[0]]
    assert "was not begun with --question" in failure(capsys, typed, "1", "--question", "rank 4")
