"""What stands at the head of a class or function: bases, arguments and their types."""

import inspect
import re

from docutils import nodes
from members import PACKAGE, is_ours
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.typing import ExtensionMetadata

_ATTRIBUTES = re.compile(r"^Attributes:\n(?: .*\n|\n)+", re.MULTILINE)


def _shown_bases(cls: type, pages: set[str]) -> list[type]:
    """The bases, with those of a private one in its place, and without those of another base."""
    shown: list[type] = []
    for base in cls.__bases__:
        path = base.__module__.split(".")
        exporters = (".".join(path[:depth]) for depth in range(1, len(path) + 1))
        has_page = any(f"api/generated/{place}.{base.__name__}" in pages for place in exporters)
        shown += [base] if has_page or not is_ours(base) else _shown_bases(base, pages)
    return [
        base for base in dict.fromkeys(shown) if sum(issubclass(one, base) for one in shown) == 1
    ]


def _replace_bases(app: Sphinx, name: str, cls: type, options: object, bases: list[type]) -> None:
    bases[:] = _shown_bases(cls, app.env.found_docs) or [object]


def _plain_type(
    app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, content: nodes.Node
) -> nodes.Node | None:
    """The name of a type in a signature that has no page, such as a private one, as it stands."""
    above = node.parent
    while above is not None and not isinstance(above, addnodes.desc_signature):
        above = above.parent
    return content if above is not None else None


def _join(app: Sphinx, what: str, name: str, obj: type, options: object, lines: list[str]) -> None:
    """Follow the text of a class by that of ``__init__``, and this by the attributes."""
    if what == "class":
        start = inspect.unwrap(obj.__init__)
        ours = getattr(start, "__module__", "").startswith(PACKAGE)
        arguments = inspect.getdoc(start) if ours else None
        text = "\n".join(lines) + "\n"
        attributes = "".join(_ATTRIBUTES.findall(text))
        parts = [_ATTRIBUTES.sub("", text), arguments or "", attributes]
        lines[:] = "\n\n".join(parts).split("\n")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Listen for bases, docstrings, and references that do not resolve."""
    app.connect("autodoc-process-bases", _replace_bases)
    app.connect("missing-reference", _plain_type)
    app.connect("autodoc-process-docstring", _join, priority=100)  # before napoleon
    return {"parallel_read_safe": True, "parallel_write_safe": True}
