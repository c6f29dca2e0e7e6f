"""The examples start as a person starts them: as scripts, whose folder comes first in the path."""

from __future__ import annotations

import importlib.util
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parents[1] / "examples").glob("*.py"))
NEEDS = {"ax_preference": "ax", "web_page": "optuna_dashboard"}


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
def test_a_picture_that_was_begun_is_given_up(tmp_path: Path) -> None:
    """So that the page never waits for an answer about nothing."""
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
