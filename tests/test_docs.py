"""The API reference, without building it: `sphinx-build -W docs docs/_build` checks the rest."""

import ast
import importlib.util
import re
import shlex
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from botorch_pref.cli import main

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "botorch_pref"
PAGES = sorted((ROOT / "docs" / "api").glob("*.rst"))


def exported(path: Path) -> list[str]:
    """What a module's source says that `__all__` is; nothing without one."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def public_parts() -> dict[str, list[str]]:
    """The names of every module at the top and of every package, by its dotted path.

    A package that exports nothing itself has public modules.
    """
    packages = sorted(PACKAGE.rglob("__init__.py"))
    bare = [path.parent for path in packages if not exported(path)]
    paths = [*packages, *(module for folder in bare for module in sorted(folder.glob("*.py")))]
    parts = {}
    for path in paths:
        relative = path.relative_to(PACKAGE).with_suffix("")
        parts[".".join(part for part in relative.parts if part != "__init__")] = exported(path)
    return {part: names for part, names in parts.items() if names}


def listed(page: str) -> list[str]:
    """The names that a page lists, by their paths below the package."""
    found = []
    for section in re.split(r"^\.\. currentmodule:: botorch_pref\.", page, flags=re.MULTILINE)[1:]:
        module = section.split(maxsplit=1)[0]
        table = r"^\.\. autosummary::\n(?:   :.*\n)+\n((?:   \S+\n)+)"
        for names in re.findall(table, section, re.MULTILINE):
            found += [f"{module}.{name}" for name in names.split()]
    return found


LISTED = [name for page in PAGES for name in listed(page.read_text(encoding="utf-8"))]


def extension(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "_ext" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("part", "names"), public_parts().items())
def test_every_public_name_has_a_page(part: str, names: list[str]) -> None:
    # A name may stand on the page of a package above that exports it as well.
    places = [part]
    while "." in places[-1]:
        places.append(places[-1].rpartition(".")[0])
    missing = [name for name in names if not any(f"{place}.{name}" in LISTED for place in places)]
    assert not missing


def test_the_parts_are_found() -> None:
    parts = public_parts()
    assert {"exceptions", "models", "strategies", "integrations.ax"} <= set(parts)
    assert {"Comparisons", "Labels", "Values"} <= set(parts["data"])
    at_top = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    nameless = {name for name in at_top if not name.startswith("_")} - set(parts)
    # An integration is imported by its own name.
    assert nameless == {"integrations"}


def test_no_name_stands_twice() -> None:
    assert len(LISTED) == len(set(LISTED))


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.rst").read_text(encoding="utf-8")
    for page in PAGES:
        assert re.search(rf"^   api/{page.stem}$", index, re.MULTILINE), page.name
        assert f"<api/{page.stem}>`" in index, f"{page.name} is not on the map"


def test_a_class_lists_its_members_and_those_of_private_bases() -> None:
    public_members = extension("members").PublicMembers()
    members = public_members("botorch_pref.models", "PreferenceGP")
    assert members.index("from_pairs") < members.index("pair_posterior")  # of a base
    assert "state_dict" not in members  # of torch
    assert {"ask", "tell", "recommend"} <= set(public_members("botorch_pref.strategies", "COBOL"))
    # Fields stand in the docstring of the class.
    assert public_members("botorch_pref.study", "Recommendation") == ["is_settled"]
    assert public_members("botorch_pref.space", "Maximum") == []


def test_papers_are_cited_in_the_same_words() -> None:
    references = extension("citations").definitions()
    assert references["Kayal2025"].startswith("A. Kayal, S. Vakili, L. Toni, D. Shiu")
    assert "Lazzaro2026" in references


def test_the_command_of_the_taste_test_runs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for needed in ("segno", "starlette", "uvicorn"):
        pytest.importorskip(needed)
    page = (ROOT / "docs" / "tasks" / "taste_test.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    table = re.search(r"^```python\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    assert table is not None
    exec(compile(table[1], "taste_test.md", "exec"), {})
    (command,) = re.findall(r"^botorch-pref (serve .*)\\\n(.*)$", page, flags=re.MULTILINE)
    begun: list[Any] = []
    monkeypatch.setattr("uvicorn.run", lambda app, **options: begun.append((app, options)))
    assert main(shlex.split(" ".join(command))) == 0
    ((app, options),) = begun
    assert options["host"] == "0.0.0.0"
    kept = app.state.desk.store.setting("options")
    assert len(kept["files"]) == 12
    assert kept["prompt"] == "Which of the two tastes better?"
    app.state.desk.store.close()
    assert "0.0.0.0" not in capsys.readouterr().out  # an address that others can open
