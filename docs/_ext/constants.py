"""What is said of a constant or an alias: the string below its assignment, in whatever module.

Sphinx looks for it only in the module that a page names, which is as a rule a package that exports
the name; without it, the description of the value's class would stand there.
"""

import ast
from inspect import getsource
from sys import modules

from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.typing import ExtensionMetadata


def _home(module: str, name: str) -> str:
    """The module that a name is assigned in."""
    for node in ast.parse(getsource(modules[module])).body:
        names = {alias.name for alias in node.names} if isinstance(node, ast.ImportFrom) else set()
        if name in names:
            return _home(node.module, name)
    return module


def _describe(
    app: Sphinx, what: str, path: str, obj: object, options: object, lines: list[str]
) -> None:
    module, _, name = path.rpartition(".")
    if what == "data":
        docs = ModuleAnalyzer.for_module(_home(module, name)).find_attr_docs()
        lines[:] = docs.get(("", name), [])


def setup(app: Sphinx) -> ExtensionMetadata:
    """Listen for docstrings."""
    app.connect("autodoc-process-docstring", _describe, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
