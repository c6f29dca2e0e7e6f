"""Words that the project does not use: archaic ones, and those that say when a text was written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROSE = sorted(
    path
    for pattern in (
        "*.md",
        "docs/**/*.md",
        "docs/**/*.rst",
        "experiments/**/*.md",
        "botorch_pref/**/*.py",
    )
    for path in ROOT.glob(pattern)
    if not {"_build", "generated"} & {*path.parts}
)
WORDS = {
    "dear": "expensive",
    "lest": "so that ... not",
    "anew": "again",
    "heed": "use",
    "unheeded": "ignored",
    "for now": "",
    "whilst": "while",
    "thereof": "of it",
    "utilize": "use",
}
PEOPLE = {"he": "they", "she": "they", "his": "their", "hers": "theirs", "him": "them"}
# He is also a name.
_ANY = re.compile(rf"\b((?i:{'|'.join(WORDS)})|{'|'.join(PEOPLE)})\b")


def found_in(text: str) -> list[str]:
    return [f"{word}: write {(WORDS | PEOPLE)[word.lower()]!r}" for word in _ANY.findall(text)]


def test_the_words_are_found() -> None:
    assert found_in("A dear value; For now he is unheeded, and the header is not.") == [
        "dear: write 'expensive'",
        "For now: write ''",
        "he: write 'they'",
        "unheeded: write 'ignored'",
    ]


def test_there_is_prose() -> None:
    names = {path.relative_to(ROOT).as_posix() for path in PROSE}
    assert {"README.md", "docs/start.md", "docs/api/models.rst", "botorch_pref/queries.py"} <= names


@pytest.mark.parametrize("path", PROSE, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_words(path: Path) -> None:
    assert not found_in(path.read_text(encoding="utf-8"))
