"""The examples start as a person starts them: as scripts, whose folder comes first in the path."""

from __future__ import annotations

import importlib.util
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from botorch_pref.study import Study

EXAMPLES = sorted((Path(__file__).resolve().parents[1] / "examples").glob("*.py"))
NEEDS = {"ax_preference": "ax", "web_page": "optuna_dashboard", "which_flower": "segno"}


def test_all_are_known() -> None:
    assert [path.stem for path in EXAMPLES] == sorted(NEEDS)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_no_example_hides_a_package(path: Path) -> None:
    assert importlib.util.find_spec(path.stem) is None


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_starts(path: Path) -> None:
    pytest.importorskip(NEEDS[path.stem])
    command = [sys.executable, str(path), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "usage: " in done.stdout


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_flowers_are_shown_and_answered(tmp_path: Path) -> None:
    for needed in ("httpx", "segno", "starlette", "uvicorn"):
        pytest.importorskip(needed)
    from tests.common import until
    from tests.serve.common import Person, Server

    script, folder = EXAMPLES[0].with_name("which_flower.py"), tmp_path / "flowers"
    options = ["--folder", str(folder), "--number", "4"]
    server = Server(folder / "study.json", *options, script=script)
    pictures = []

    class Looking(Person):
        """Looks at the first picture before they answer."""

        def take_part(self) -> None:
            shown = until(lambda: self.send("question")["question"])
            path = shown["items"][0]["url"]
            pictures.append(self.client.get(f"http://127.0.0.1:{server.port}{path}").content)
            super().take_part()

    for name in ("Ann", "Bob"):  # who comes when the server was started again
        person = Looking(server, name, 3, think=0.0)
        person.start()
        person.join(timeout=300)
        assert not person.is_alive()
        server.end()
        server.start()
    server.end()
    assert all(picture.startswith(b"\x89PNG") for picture in pictures)
    with Study.load(folder / "study.json", read_only=True) as study:
        assert study.history["annotator"].value_counts().to_dict() == {"Ann": 3, "Bob": 3}
        assert [one.label for one in study.dimensions] == [
            "petals",
            "depth",
            "line width",
            "colours",
            "picture",
        ]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_picture_that_was_begun_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the page never waits for an answer about nothing."""
    monkeypatch.syspath_prepend(EXAMPLES[0].parent)
    pytest.importorskip(NEEDS["web_page"])
    example = runpy.run_path(str(EXAMPLES[0].with_name("web_page.py")))
    storage = f"sqlite:///{tmp_path / 'study.db'}"
    study = example["open_study"](storage)
    study.ask(example["PARAMETERS"])  # and killed before it is drawn
    example["give_up"](storage)
    example["propose"](study, example["FileSystemArtifactStore"](str(tmp_path)))
    trials = study.get_trials()
    assert [trial.state.name for trial in trials] == ["FAIL", "RUNNING", "RUNNING"]
    assert [example["PICTURE"] in trial.user_attrs for trial in trials] == [False, True, True]
    assert not study.should_generate()
    example["give_up"](storage)
    assert len(study.get_trials()) == 3
    assert study.get_trials()[1].state.name == "RUNNING"
