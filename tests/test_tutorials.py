from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "tutorials").glob("*.ipynb"))
LONGEST = 45  # lines of code in a section
# What an execution on somebody's machine leaves behind.
NOISE = re.compile(r"/home/|/tmp/|/root/|site-packages|Warning|\d+%\|")

each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells(path: Path, kind: str) -> list[dict[str, Any]]:
    found = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in found if cell["cell_type"] == kind]


def source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def text(output: dict[str, Any]) -> str:
    return "".join(output.get("text") or output.get("data", {}).get("text/plain", ""))


def test_they_are_numbered_and_on_their_page() -> None:
    names = [path.name for path in NOTEBOOKS]
    assert [name[:3] for name in names] == [f"{i:02d}_" for i in range(1, 13)]
    page = (ROOT / "docs" / "tutorials.md").read_text(encoding="utf-8")
    assert all(f"](../tutorials/{name})" in page for name in names)


@each
def test_a_notebook_is_valid(path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbformat.validate(nbformat.read(path, as_version=4))


@each
def test_a_notebook_has_its_outputs(path: Path) -> None:
    assert path.stat().st_size < 400_000
    code = cells(path, "code")
    assert [cell["execution_count"] for cell in code] == [*range(1, len(code) + 1)]
    assert all(not cell["metadata"] for cell in code)
    outputs = [output for cell in code for output in cell["outputs"]]
    assert outputs
    for output in outputs:
        assert output["output_type"] != "error"
        assert output.get("name") != "stderr"
        assert not NOISE.search(text(output))


@each
def test_a_notebook_says_what_it_should(path: Path) -> None:
    prose, code = ([*map(source, cells(path, kind))] for kind in ("markdown", "code"))
    assert all(part.strip() for part in prose + code)
    assert prose[0].startswith("# ")
    assert sum(part.count("## A pitfall") for part in prose) == 1
    assert 'os.environ.get("SMOKE_TEST")' in code[0]
    links = re.findall(r"\]\(([^)\s]+)\)", "\n".join(prose))
    assert all("://" in link or (path.parent / link).exists() for link in links)


@each
def test_a_notebook_answers_a_question(path: Path) -> None:
    prose = [*map(source, cells(path, "markdown"))]
    assert "?" in prose[0]
    last = json.loads(path.read_text(encoding="utf-8"))["cells"][-1]
    assert re.findall(r"^## .*", source(last), re.MULTILINE)[-1:] == ["## The answer"]


@each
def test_no_section_is_long(path: Path) -> None:
    lines, heading = {"": 0}, ""
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            lines[heading] += source(cell).count("\n") + 1
        for found in re.findall(r"^#.*", source(cell), re.MULTILINE):
            if cell["cell_type"] == "markdown":
                heading = found
                lines[heading] = 0
    assert {name: number for name, number in lines.items() if number > LONGEST} == {}
