"""The papers that docstrings cite, on a page of their own.

A module's docstring defines what it cites, ``.. [Key] Authors. Title.``; these definitions become
the page of references, and every ``[Key]`` in a docstring becomes a link to it.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import botorch_pref

if TYPE_CHECKING:  # tests read the definitions without Sphinx
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata

PAGE = "references"
_DEFINITION = re.compile(r"^\.\. \[(\w+)\] (.*(?:\n   .*)*)", re.MULTILINE)
_CITATION = re.compile(r"(?<!\.\. )\[([A-Z]\w+)\](?!_)")


@cache
def definitions() -> dict[str, str]:
    """The references by their keys, of all modules of the package.

    Raises:
        ValueError: If two modules do not say the same of a paper; names it.
    """
    found: dict[str, str] = {}
    root = Path(botorch_pref.__file__).parent
    for path in sorted(root.rglob("*.py")):
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        for key, text in _DEFINITION.findall(docstring):
            reference = " ".join(text.split())
            if found.setdefault(key, reference) != reference:
                raise ValueError(f"{path.relative_to(root)}: another module has another [{key}].")
    return dict(sorted(found.items()))


def _list(app: Sphinx, docname: str, source: list[str]) -> None:
    """Append the references to their page; "A. Author" must not begin an enumeration."""
    if docname == PAGE:
        source[0] += "".join(f"\n.. [{key}] \\{text}\n" for key, text in definitions().items())


def _link(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Link the citations of a docstring; the definitions stand on the page of references."""
    text = _DEFINITION.sub("", "\n".join(lines))
    known = definitions()
    lines[:] = _CITATION.sub(lambda m: m[0] + "_" * (m[1] in known), text).split("\n")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Listen for docstrings, and for the page."""
    app.connect("source-read", _list)
    app.connect("autodoc-process-docstring", _link)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
