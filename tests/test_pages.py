"""All that is code on the pages of the site and in the README is executed.

The Python of a page is run from its beginning to its end, as a reader would paste it. A block
of text right below code is what it prints, with ``...`` for what may differ. Lines of ``console``
that begin with a dollar are run by a shell; other commands are read, and not run, as they
install, serve or take hours.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import itertools
import os
import re
import shlex
import stat
import subprocess
import sys
import tomllib
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from botorch_pref import plotting
from botorch_pref.cli import main
from botorch_pref.randomness import seeded

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BELOW = re.compile(r"\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, *languages: str) -> Iterator[tuple[str, str | None]]:
    """The code of a page in these languages, and what is said to be printed, if it is said."""
    text = page.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        if found[1] in languages:
            printed = BELOW.match(text, found.end())
            yield found[2], printed and printed[1]


def with_code(language: str) -> list[Path]:
    return [page for page in PAGES if any(blocks(page, language))]


def commands(page: Path) -> Iterator[str]:
    """The commands of a page that are not run."""
    for code, _ in blocks(page, "bash", "text"):
        for line in code.replace("\\\n", " ").splitlines():
            for command in line.removeprefix("$ ").split(" && "):
                if re.match(r"(botorch-pref|python|pip|sphinx-build|pytest)\b", command):
                    yield command


def assert_printed(wanted: str | None, got: str) -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    if wanted is not None and not doctest.OutputChecker().check_output(wanted, got, flags):
        pytest.fail(f"printed\n{got}\nin place of\n{wanted}")


@pytest.mark.parametrize("page", with_code("python"), ids=name_of)
@pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")  # linear_operator's
def test_python_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    replies = itertools.cycle(["1", "2", "=", ""])
    monkeypatch.setattr("builtins.input", lambda prompt: next(replies))
    # As a script, whose classes are looked up by the name of their module.
    script = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", script)
    with seeded(0):
        for code, printed in blocks(page, "python"):
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(code, name_of(page), "exec"), vars(script))
            assert_printed(printed, out.getvalue())


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="pipes of a shell")
@pytest.mark.parametrize("page", with_code("console"), ids=name_of)
def test_consoles_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = tmp_path / "bin" / "botorch-pref"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m botorch_pref "$@"\n')
    command.chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    for code, _ in blocks(page, "python"):
        if "to_csv" in code:  # what a later command reads
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(code, name_of(page), "exec"), {})
    for code, _ in blocks(page, "console"):
        for line, printed in re.findall(r"^\$ (.*)\n((?:[^$\n].*\n)*)", code, re.MULTILINE):
            done = subprocess.run(
                line, shell=True, capture_output=True, text=True, timeout=120, check=False
            )
            assert done.returncode == 0, done.stderr
            assert_printed(printed, done.stdout)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_other_commands_are_understood(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Understood(Exception):
        """The arguments were read."""

    def understood(name: str) -> None:
        raise Understood

    monkeypatch.setattr("botorch_pref.cli.import_module", understood)
    for command in commands(page):
        program, *words = shlex.split(command, comments=True)
        if program == "botorch-pref":
            with pytest.raises(Understood):
                main(words)
        elif program == "python" and words[0] != "-m":
            assert (ROOT / words[0]).exists(), command
        for extra in re.findall(r"\[([\w,]+)\]", command):
            assert set(extra.split(",")) <= set(PROJECT["optional-dependencies"]), command


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_within_the_repository(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    links = [*re.findall(r"\]\(([^)\s]*)\)", text), *re.findall(r'<img src="([^"]*)"', text)]
    for link in links:
        path = page.parent / link.partition("#")[0]
        if "://" not in link and "_pictures" not in link and not link.endswith(".svg"):
            assert path.exists(), link


def test_pictures_are_drawn() -> None:
    """Those that pages show are of the scripts, or kept."""
    scripts = [ROOT / "docs" / name for name in ("concepts.py", "gallery.py")]
    source = "".join(script.read_text(encoding="utf-8") for script in scripts)
    drawn = set(re.findall(r"^def (\w+)\(\) -> Figure:", source, re.MULTILINE))
    shown = [re.findall(r"\]\(_pictures/(\w+)\.svg\)", page.read_text("utf-8")) for page in PAGES]
    assert set(itertools.chain(*shown)) == drawn
    for picture in ("coffee", "chemist", "loop"):
        assert 5_000 < (ROOT / "docs" / "_static" / f"{picture}.png").stat().st_size < 60_000


def test_every_plot_is_in_the_gallery() -> None:
    source = (ROOT / "docs" / "gallery.py").read_text(encoding="utf-8")
    plots = [name for name in plotting.__all__ if name.startswith("plot_")]
    assert plots
    assert not [name for name in plots if f"return {name}(" not in source]


def test_the_names_exist() -> None:
    table = (ROOT / "docs" / "parts.md").read_text(encoding="utf-8").split("|---|---|---|\n")[1]
    modules: list[str] = []
    found = 0
    for row in table.strip().splitlines():
        cells = row.split("|")
        modules = re.findall(r"`([\w.]+)`", cells[1]) or modules
        places = [importlib.import_module(f"botorch_pref.{module}") for module in modules]
        for name in re.findall(r"`(\w+)`", cells[2]):
            assert any(hasattr(place, name) for place in places), name
            found += 1
    assert found > 20
