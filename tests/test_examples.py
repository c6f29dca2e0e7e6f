"""The examples start as a person starts them: as scripts, whose folder comes first in the path."""

from __future__ import annotations

import importlib.util
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
