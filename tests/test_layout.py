"""The layout of the package: the direction of imports, no circles, the docstrings.

Imports are read from the parsed modules, so an import inside a function counts as well.
"""

import ast
import importlib
import inspect
import operator
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = "botorch_pref"
ROOT = Path(__file__).resolve().parents[1] / PACKAGE

# Lowest first; a module may import from its own layer and from those before it.
LAYERS = (
    ("exceptions", "randomness", "progress"),
    ("likelihoods",),
    ("queries", "data"),
    ("inference", "likelihood_ratio", "kernels"),
    ("models",),
    ("acquisition",),
    ("space",),
    ("strategies",),
    ("problems",),
    ("study", "runner"),
    ("plotting", "cli", "integrations", "serve"),
    ("__main__",),
)
LAYER_OF = {name: level for level, names in enumerate(LAYERS) for name in names}

# Parts that are functions of tensors: what they may not reach, directly or by way of the package.
TENSOR_PARTS = ("likelihoods", "inference", "likelihood_ratio")
FORBIDDEN = (f"{PACKAGE}.models", "gpytorch", "botorch.models")

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def module_name(path: Path) -> str:
    """`botorch_pref/models/base.py` is `botorch_pref.models.base`."""
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = {module_name(path): path for path in sorted(ROOT.rglob("*.py"))}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in PATHS.items()}


def imported(module: str) -> Iterator[tuple[str, int]]:
    """Every module that `module` imports, by its full name, and the line."""
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module} line {node.lineno}: a relative import"
            for alias in node.names:
                # `from package import module` names a module, everything else a module's attribute.
                full = f"{node.module}.{alias.name}"
                known = full in PATHS or full in FORBIDDEN
                yield (full if known else node.module or ""), node.lineno


IMPORTS = {module: [*imported(module)] for module in PATHS}


def is_part(module: str, name: str) -> bool:
    return module == name or module.startswith(f"{name}.")


def part(module: str) -> str | None:
    """The part of the package a module belongs to, None outside it and for the package itself."""
    names = module.split(".")
    return names[1] if names[0] == PACKAGE and len(names) > 1 else None


def reached(modules: Iterable[str]) -> dict[str, str]:
    """All modules imported from `modules`, directly or through the package, and by which module."""
    found: dict[str, str] = {}
    left = list(modules)
    while left:
        importer = left.pop()
        for target, _ in IMPORTS[importer]:
            if target in found:
                continue
            found[target] = importer
            if target in PATHS:
                # Importing a submodule runs the __init__ of every package above it.
                names = target.split(".")
                left.extend(".".join(names[: i + 1]) for i in range(len(names)))
    return found


def public_definitions(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, Definition]]:
    """The public classes and functions of a module, and the public methods of those classes."""
    for node in body:
        if not isinstance(node, Definition) or node.name.startswith("_"):
            continue
        if any(ast.unparse(d).endswith(("overload", ".setter")) for d in node.decorator_list):
            continue
        yield prefix + node.name, node
        if isinstance(node, ast.ClassDef):
            yield from public_definitions(node.body, f"{prefix}{node.name}.")


def test_every_module_has_a_layer() -> None:
    assert {part(module) for module in PATHS} == {None, *LAYER_OF}


def test_imports_go_one_way() -> None:
    wrong = [
        f"{module} line {line}: {target}"
        for module in PATHS
        for target, line in IMPORTS[module]
        if (name := part(target)) is not None
        and LAYER_OF[name] > LAYER_OF.get(part(module) or "", -1)
    ]
    assert not wrong, f"imports from a higher layer: {wrong}"


def test_there_are_no_circles() -> None:
    """Between modules; packages only hand on the names of theirs."""
    modules = {name for name, path in PATHS.items() if path.name != "__init__.py"}
    graph = {module: {target for target, _ in IMPORTS[module]} & modules for module in modules}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"modules import each other: {' <- '.join(error.args[1])}")


@pytest.mark.parametrize("name", TENSOR_PARTS)
def test_functions_of_tensors_know_no_model(name: str) -> None:
    own = [module for module in PATHS if is_part(module, f"{PACKAGE}.{name}")]
    wrong = [
        f"{target} (by {importer})"
        for target, importer in reached(own).items()
        if any(is_part(target, forbidden) for forbidden in FORBIDDEN)
    ]
    assert not wrong, f"{name} reaches {wrong}"


def test_rules_ask_models_by_what_they_can_do() -> None:
    """A rule works with whichever model has what it asks for: it imports no class of them."""
    wrong = [
        f"{module}: {alias.name}"
        for module, tree in TREES.items()
        for node in ast.walk(tree)
        if part(module) == "acquisition"
        and isinstance(node, ast.ImportFrom)
        and part(node.module or "") == "models"
        for alias in node.names
        if alias.name[0].isupper()
    ]
    assert not wrong, wrong


def test_importing_the_package_loads_nothing() -> None:
    assert not IMPORTS[PACKAGE]


def test_experiments_are_not_imported() -> None:
    assert not [module for module in PATHS for to, _ in IMPORTS[module] if "experiments" in to]


def inherited_docstring(module: str, name: str) -> str | None:
    return inspect.getdoc(operator.attrgetter(name)(importlib.import_module(module)))


def test_docstrings() -> None:
    """Every public definition has one; that of an override may be the overridden method's."""
    missing = [
        f"{module}:{node.lineno} {name}"
        for module, tree in TREES.items()
        for name, node in public_definitions(tree.body)
        if not (ast.get_docstring(node) or inherited_docstring(module, name))
    ]
    missing += [module for module, tree in TREES.items() if not ast.get_docstring(tree)]
    assert not missing, missing
