from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from botorch_pref.randomness import seeded

README = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


def run(snippet: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {}
    with seeded(0):
        exec(compile(snippet, "README.md", "exec"), namespace)
    return namespace


def test_the_loop_runs_as_pasted() -> None:
    names = run(SNIPPETS[0])
    assert names["X"].shape == (32, 2)
    assert (names["best"] - 0.3).norm() < 0.1


@pytest.mark.usefixtures("short_searches")
def test_the_person_is_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replies = iter(["1", "2", "=", "", "1", "2", "1", "1", "2", "1"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(replies))
    names = run(SNIPPETS[1])
    assert names["strategy"].num_answers == 9
    assert (names["strategy"].recommend() <= names["bounds"][1]).all()
    assert capsys.readouterr().out.splitlines()[-1].startswith("Your coffee: [")


def test_there_are_two_set_up_commands() -> None:
    blocks = re.findall(r"^<!-- (\w+) -->\n```bash\n(.*?)\n```$", README, re.MULTILINE | re.DOTALL)
    commands = dict(blocks)
    assert [name for name, _ in blocks] == ["run", "test"]
    install = "python3 -m venv .venv && . .venv/bin/activate && pip install -c constraints.txt -e "
    main_job = "botorch-pref run catalyst --horizon 100 --seed 0"
    assert commands["run"] == f"{install}. && {main_job}"
    assert commands["test"] == f'{install}".[test]" && pytest -n auto'
    assert README.count("```bash") == 2


def test_the_names_exist() -> None:
    table = README.split("## What is in the box")[1].split("\n\n")[1]
    modules: list[str] = []
    found = 0
    for row in table.splitlines()[2:]:
        cells = row.split("|")
        modules = re.findall(r"`([\w.]+)`", cells[1]) or modules
        places = [importlib.import_module(f"botorch_pref.{module}") for module in modules]
        for name in re.findall(r"`(\w+)`", cells[2]):
            assert any(hasattr(place, name) for place in places), name
            found += 1
    assert found > 20


def test_links_within_the_repository() -> None:
    root = Path(__file__).resolve().parents[1]
    links = [link for link in re.findall(r"\]\((.*?)\)", README) if "://" not in link]
    assert links
    assert all((root / link).exists() for link in links)


def test_bounds_instead_of_a_posterior(capsys: pytest.CaptureFixture[str]) -> None:
    names = run(SNIPPETS[3])
    assert (names["lower"] <= names["estimate"]).all()
    assert (names["estimate"] <= names["upper"]).all()
    assert float(names["advantage"]) > 0
    assert "converged=True" in capsys.readouterr().out


@pytest.mark.usefixtures("short_searches")
def test_a_budget_is_spent(capsys: pytest.CaptureFixture[str]) -> None:
    assert "budget=6" in SNIPPETS[2]
    names = run(SNIPPETS[2].replace("budget=6", "budget=4.2"))  # as pasted it takes longer
    kinds = [record.kind for record in names["strategy"].records]
    assert kinds.count("duel") > 10
    assert float(names["strategy"].spent) <= 4.2
    *lines, last = capsys.readouterr().out.splitlines()
    assert len(lines) == len(kinds)
    assert last.startswith("tensor([")


def test_what_was_learnt_is_seen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = run(SNIPPETS[5].replace(".pdf", ".png"))  # which is faster
    assert names["held_out"].accuracy.value > 0.7
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "calibration.png",
        "utility.png",
        "winners.png",
    ]
    assert capsys.readouterr().out.endswith("of the answers were predicted\n")


@pytest.mark.usefixtures("short_searches")
def test_strategies_are_compared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    snippet = SNIPPETS[4]
    assert "horizon=20, seeds=3, n_jobs=2" in snippet
    # As pasted it takes longer.
    names = run(snippet.replace("horizon=20, seeds=3, n_jobs=2", "horizon=2, seeds=2"))
    assert len(names["table"]) == 3 * 2 * 2
    assert (tmp_path / "branin.png").stat().st_size > 0
    assert "standard_error" in capsys.readouterr().out
