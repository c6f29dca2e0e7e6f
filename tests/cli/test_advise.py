"""A person at the terminal, whose answers are piped in."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest
import torch

from botorch_pref.cli import main
from botorch_pref.queries import Label
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import COBOL, RandomPairs
from botorch_pref.study import Study
from tests.cli.common import Capture, Type, failure, fields, saved, typing

BOUNDS = "milk (ml):0:80, temperature (C):60:96"
BOX = SearchSpace(torch.tensor([[0.0, 60.0], [80.0, 96.0]], dtype=torch.float64))
VALUE, LABEL = "Measured value? ", "Accept this item? "


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Type:
    return typing("advise", tmp_path, monkeypatch)


def quick(**options: object) -> None:
    """A study that reaches its model after two answers."""
    strategy = COBOL(space=BOX, num_initial_values=1, num_initial_labels=1, **options)  # type: ignore[arg-type]
    Study.create("study.json", BOX, strategy, names=["milk (ml)", "temperature (C)"]).close()


def report(text: str) -> dict[str, str]:
    """The lines behind the last empty one."""
    return fields(text.rstrip("\n").rpartition("\n\n")[2])


def test_a_first_session(typed: Type, capsys: Capture) -> None:
    """Items have names and units; each is explained; what is best comes last."""
    assert typed("q", "--bounds", BOUNDS, "--seed", "4") == 0
    nothing = "none, as no value was given yet"
    assert report(capsys.readouterr().out)["recommended item"] == nothing
    assert typed("1.5 -2e1 7 y n quit") == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    strategy = COBOL(space=BOX, seed=4)
    for number, answer in enumerate((1.5, -20.0, 7.0, 1.0, 0.0), start=1):
        query = strategy.ask()
        milk, temperature = query.items.tolist()
        item = f"[{number}] milk {milk:.2f} ml, temperature {temperature:.2f} C\n"
        asked = isinstance(query, Label)
        why = "You are asked" if asked else "To be measured without asking you"
        prompt = LABEL if asked else VALUE
        assert f"{item}    {why}: initial design.\n{prompt}" in shown.out
        strategy.tell(query, answer)
    assert saved().strategy.state_dict()["history"] == strategy.state_dict()["history"]
    assert saved().strategy.state_dict()["options"] == strategy.state_dict()["options"]
    assert [dimension.label for dimension in saved().dimensions] == ["milk (ml)", "temperature (C)"]
    last = report(shown.out)
    assert last["recommended item"] == saved().describe(strategy.history[2].query.items, fine=True)
    assert last["measured value"] == "7 (the largest of all: 7)"
    assert last["answers"] == "3 values, 2 labels, 0 skipped"
    assert last["saved in"] == str(Path("study.json").resolve())
    assert sorted(file.name for file in Path().iterdir()) == ["study.json", "study.json.bak"]


def test_what_was_accepted_is_measured(typed: Type, capsys: Capture) -> None:
    """The reasons are the strategy's own; what was skipped is measured, too."""
    quick(threshold=0.0)
    assert typed("3 n yes 4 no s skip q") == 0
    shown = capsys.readouterr().out
    blocks = re.findall(r"\[\d+\] (.*)\n    (.*)\n(.*?\?)", shown)
    assert [prompt for _, _, prompt in blocks][2:5] == [
        "Accept this item?",
        "Measured value?",
        "Accept this item?",
    ]
    assert blocks[2][1] == "You are asked: the belief is uncertain there."
    assert blocks[3][1] == "To be measured: you accepted it."
    assert blocks[3][0] == blocks[2][0]
    kinds = ["evaluate", "label", "label", "evaluate", "label"]
    assert saved().history["kind"].tolist()[:5] == kinds
    assert report(shown)["answers"] == "2 values, 3 labels, 2 skipped"
    assert "To be measured without asking you: the expert did not answer." in shown
    assert saved().history["answer"].isna().tolist() == [False] * 5 + [True] * 2


def test_each_answer_is_on_the_disk_when_the_next_item_is_shown(
    typed: Type, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Another session is kept out, and Ctrl-C ends it."""
    answered = []

    def reply(prompt: str) -> str:
        answered.append(len(saved().history))
        if len(answered) == 3:
            monkeypatch.undo()
            with pytest.raises(SystemExit):
                main(["advise", str(saved_in)])
            raise KeyboardInterrupt
        return "3.5"

    saved_in = Path("study.json").resolve()
    monkeypatch.setattr("builtins.input", reply)
    assert main(["advise", "study.json", "--bounds", BOUNDS]) == 130
    assert answered == [0, 1, 2]
    error = capsys.readouterr().err
    assert "is open for writing in this very process since" in error
    assert error.endswith(f"\ninterrupted; 2 answers are saved in {saved_in}\n")
    assert len(Study.load(saved_in, read_only=True).history) == 2


def test_files_that_are_no_such_study(typed: Type, capsys: Capture) -> None:
    Study.create("pairs.json", BOX, partial(RandomPairs, seed=1)).close()
    # COBOL may ask duels, too, but nobody accepts or rejects these.
    Study.create("duels.json", BOX, partial(COBOL, feedback="compare")).close()
    for file, message in (
        ("pairs.json", "is one of RandomPairs, not of COBOL."),
        ("duels.json", "asks for comparisons; here one accepts or rejects items"),
        ("nowhere/study.json", "No such file or directory"),
        ("nothing.json", "there is no study 'nothing.json' yet; begin it with --bounds."),
    ):
        begin = ("--bounds", BOUNDS) if "/" in file else ()
        assert message in failure(capsys, partial(typed, file=file), "1 q", *begin)
